package planner

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// The search for the plan that moves the fewest bytes between two memories is a branch and bound. Prices of the fast memory at each step
// give a lower bound (see Prices). They are found by the subgradient method: the cheapest ways of all buffers are computed, the price of a
// step rises if they occupy more than the fast memory, and falls if they occupy less. The prices also guide a greedy construction of plans.
// Where the bound is below the best plan, a buffer at the fullest step is decided both ways.

// SolveTwoMemories returns a plan of p for a fast memory of that many bytes, which moves few bytes, and a proof of how few are possible. If
// Moved equals Bound, no plan moves fewer. It searches until then, for Options.Budget looks at a use of a buffer (0 means about a second),
// or until ctx ends. There always is a plan: all buffers in the slow memory. It fails as Solve does. It also fails for buffers with a
// group, gaps, a fixed offset or another device than 0, and for options with segments or a capacity.
func SolveTwoMemories(ctx context.Context, p *Problem, fast int64, o Options) (*File, error) {
	if _, err := newLayout(p, &o); err != nil {
		return nil, err
	}
	s := &moveSearch{problem: p, options: o, fast: max(0, fast&^(o.align()-1)), moved: math.MaxInt64, done: ctx.Done(),
		budget: cmp.Or(o.Budget, movesBudget)}
	var err error
	if s.movers, s.steps, err = p.movers(&o); err != nil {
		return nil, err
	}
	var all int64 // bytes of all buffers, above which a larger memory makes no difference
	for n := range s.movers {
		all += s.movers[n].extent
	}
	s.room = min(s.fast, all)
	s.highest = maxBytes / max(1, all) / int64(max(1, len(s.steps)))
	s.try(s.construct(make([]int64, len(s.steps)+1), 0))
	proof := s.prove(make([]int64, len(s.steps)), rootRounds, mostDecisions)
	bound := proof.least()
	proof.prune(bound)
	cut, of := p.stretches(s.movers, s.best)
	l, err := s.pack(cut)
	if err != nil {
		return nil, err
	}
	for n := range l.spaces {
		if sp := &l.spaces[n]; sp.device == slowDevice {
			o.place(sp)
		}
	}
	file := &File{Problem: cut, Plan: l.plan(cut, &o),
		Memories: &TwoMemories{Problem: p, Fast: fast, Of: of, Moved: s.moved, Bound: bound, Proof: proof}}
	file.Plan.Work += s.work
	file.Bounds, err = Bounds(cut, o)
	return file, err
}

const (
	movesBudget = 100_000_000 // work of a search if Options.Budget sets none
	packBudget  = 2_000_000   // work of a search for offsets in the fast memory, in the units of Options.Budget
	rootRounds  = 300         // changes of the prices before the first decision
	caseRounds  = 40          // changes of the prices after each decision
	// mostDecisions is the depth of a proof. Verifiers are recursive, and Python's interpreter allows some 1000 calls.
	mostDecisions = 200
)

// A moveSearch looks for the plan for two memories that moves the fewest bytes.
type moveSearch struct {
	problem *Problem
	options Options
	movers  []mover
	steps   []int // steps with uses, ascending
	fast    int64 // bytes of the fast memory, rounded down to the alignment
	room    int64 // bytes of the fast memory that can be occupied: at most those of all buffers
	highest int64 // limit of a price, below which no sum overflows

	best  [][]bool // ways of the best plan, by mover
	moved int64    // bytes that it moves

	work, budget int64
	done         <-chan struct{}
}

func (s *moveSearch) ends() bool {
	select {
	case <-s.done:
		return true
	default:
		return s.work > s.budget
	}
}

// pack finds offsets in the fast memory for the stretches of a problem.
func (s *moveSearch) pack(cut *Problem) (*layout, error) {
	l, err := newLayout(cut, &s.options)
	if err != nil {
		return nil, err
	}
	o := s.options
	o.Capacity, o.Budget = max(1, s.fast), packBudget
	for n := range l.spaces {
		if sp := &l.spaces[n]; sp.device == fastDevice {
			o.place(sp)
			s.work += sp.work
		}
	}
	return l, nil
}

// try keeps ways that move fewer bytes than the best plan, if there are offsets for them. It returns the bytes that the offsets found are
// above the fast memory.
func (s *moveSearch) try(ways [][]bool) (above int64) {
	var moved int64
	for n := range s.movers {
		moved += s.movers[n].moved(ways[n])
	}
	if moved >= s.moved {
		return 0
	}
	cut, _ := s.problem.stretches(s.movers, ways)
	l, err := s.pack(cut)
	if err != nil {
		return 0
	}
	for n := range l.spaces {
		if sp := &l.spaces[n]; sp.device == fastDevice && sp.top() > s.fast {
			return sp.top() - s.fast
		}
	}
	s.best, s.moved = ways, moved
	return 0
}

// construct puts one buffer after the other where it is cheapest beside those before it. Buffers that the fast memory saves most per byte,
// at these prices, come first. Then it moves single buffers while that saves bytes.
func (s *moveSearch) construct(below []int64, room int64) [][]bool {
	ways, load := make([][]bool, len(s.movers)), make([]int64, len(s.steps))
	order, saves := make([]int, len(s.movers)), make([]float64, len(s.movers))
	for n := range s.movers {
		m := &s.movers[n]
		free := *m
		free.fixed = make([]int8, len(m.uses))
		_, pays := free.cheapest(below)
		order[n], saves[n] = n, float64(m.slow*moveUnit-pays)/float64(max(1, m.extent))
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(saves[b], saves[a]) })
	for better := true; better; below = make([]int64, len(below)) {
		better = false
		for _, n := range order {
			m := s.movers[n]
			before := int64(math.MaxInt64)
			if ways[n] != nil {
				before = m.moved(ways[n])
				m.occupy(ways[n], load, -m.extent)
			}
			m.fixed = m.tight(load, room)
			ways[n], _ = m.cheapest(below)
			m.occupy(ways[n], load, m.extent)
			better = better || m.moved(ways[n]) < before
			s.work += int64(len(m.uses))
		}
	}
	return ways
}

// tight returns what a way must be where the load leaves no room for the buffer.
func (m *mover) tight(load []int64, room int64) []int8 {
	fixed := make([]int8, len(m.uses))
	for k, use := range m.uses {
		if load[use]+m.extent > room {
			fixed[0] = 1
		}
		for t := use - 1; k > 0 && t > m.uses[k-1]; t-- {
			if load[t]+m.extent > room {
				fixed[k] = 1
			}
		}
	}
	return fixed
}

// prove returns the best proof that it finds for the decisions that the movers have, and keeps better plans on the way. It makes at most
// that many decisions more.
func (s *moveSearch) prove(prices []int64, rounds, decisions int) *Prices {
	proof, load, ways := s.price(prices, rounds)
	if proof.bound >= s.moved || decisions == 0 || s.ends() {
		return proof
	}
	n, k := s.undecided(load, ways)
	if n < 0 {
		s.try(ways)
		return proof
	}
	prices = make([]int64, len(s.steps))
	for _, p := range proof.Steps {
		at, _ := slices.BinarySearch(s.steps, int(p[0]))
		prices[at] = p[1]
	}
	m := &s.movers[n]
	m.fixed[k] = 1
	yes := s.prove(slices.Clone(prices), caseRounds, decisions-1)
	m.fixed[k] = -1
	no := s.prove(prices, caseRounds, decisions-1)
	m.fixed[k] = 0
	if min(yes.least(), no.least()) > proof.bound {
		proof.Buffer, proof.Gap, proof.Yes, proof.No = m.buffer, k, yes, no
	}
	return proof
}

// least returns the bytes that a proof proves.
func (p *Prices) least() int64 {
	if p.Yes == nil {
		return p.bound
	}
	return min(p.Yes.least(), p.No.least())
}

// prune removes cases and prices that the proof of a bound does not need.
func (p *Prices) prune(bound int64) {
	if p.Yes != nil && p.bound >= bound {
		p.Buffer, p.Gap, p.Yes, p.No = 0, 0, nil, nil
	}
	if p.Yes != nil {
		p.Steps = nil
		p.Yes.prune(bound)
		p.No.prune(bound)
	}
}

// undecided returns a mover and an element of its way that is free: if possible of the largest buffer at the fullest step. The mover is -1
// if all are decided.
func (s *moveSearch) undecided(load []int64, ways [][]bool) (n, k int) {
	full := 0
	for t := range load {
		if load[t] > load[full] {
			full = t
		}
	}
	n = -1
	var most [2]int64
	for i := range s.movers {
		m := &s.movers[i]
		for e, fixed := range m.fixed {
			if fixed != 0 || e > 0 && m.fixed[0] >= 0 { // whether it is slow comes first
				continue
			}
			rank := [2]int64{0, m.extent + 1}
			if here := e == 0 && m.uses[0] <= full && full <= m.uses[len(m.uses)-1] ||
				e > 0 && !ways[i][e] && m.uses[e-1] < full && full < m.uses[e]; here && load[full] > s.room && !ways[i][0] {
				rank[0] = 1
			}
			if slices.Compare(rank[:], most[:]) > 0 {
				n, k, most = i, e, rank
			}
		}
	}
	return n, k
}

// price changes prices, in place, to prove more. It returns the best proof, and the cheapest ways at its prices with their load.
func (s *moveSearch) price(prices []int64, rounds int) (best *Prices, load []int64, ways [][]bool) {
	best = &Prices{}
	most := int64(-1) // what the best proof proves, in parts of moveUnit
	judge := func(prices []int64) (pays int64, below, now []int64) {
		below, now = sums(prices), make([]int64, len(s.steps))
		chosen := make([][]bool, len(s.movers))
		for n := range s.movers {
			m := &s.movers[n]
			way, price := m.cheapest(below)
			m.occupy(way, now, m.extent)
			chosen[n], pays = way, pays+price
			s.work += int64(len(m.uses))
		}
		if pays -= s.room * below[len(prices)]; pays > most {
			most, load, ways = pays, now, chosen
			best.bound, best.Steps = max(0, (pays+moveUnit-1)/moveUnit), nil
			for t, price := range prices {
				if price > 0 {
					best.Steps = append(best.Steps, [2]int64{int64(s.steps[t]), price})
				}
			}
		}
		return pays, below, now
	}
	judge(make([]int64, len(prices)))
	if t, least := s.crowded(); least > s.room { // no way fits, which a high price proves
		high := make([]int64, len(prices))
		high[t] = min(s.highest, s.moved*moveUnit/(least-s.room)+1)
		judge(high)
	}
	pace, since := 1.0, 0
	for round := 0; round < rounds && best.bound < s.moved && !s.ends(); round++ {
		before := most
		pays, below, now := judge(prices)
		if round%10 == 0 {
			s.improve(below)
		}
		if since++; most > before {
			since = 0
		} else if since > 10 {
			pace, since = pace/2, 0
		}
		var square float64
		for t := range now {
			if now[t] -= s.room; now[t] > 0 || prices[t] > 0 {
				square += float64(now[t]) * float64(now[t])
			}
		}
		if square == 0 { // the ways fit, and what is free costs nothing
			break
		}
		pace := pace * float64(s.moved*moveUnit-pays) / square
		for t := range now {
			prices[t] = int64(min(float64(s.highest), max(0, float64(prices[t])+pace*float64(now[t]))))
		}
	}
	return best, load, ways
}

// sums returns the sum of the first i prices, for each i up to their number.
func sums(prices []int64) []int64 {
	below := make([]int64, len(prices)+1)
	for t, price := range prices {
		below[t+1] = below[t] + price
	}
	return below
}

// improve constructs a plan by prices, and constructs it again for a smaller memory if its offsets do not fit.
func (s *moveSearch) improve(below []int64) {
	room := s.room
	for range 4 {
		above := s.try(s.construct(below, room))
		if above == 0 {
			return
		}
		room -= above
	}
}

// crowded returns the step at which the decisions of the movers need most of the fast memory, and the bytes that they need.
func (s *moveSearch) crowded() (step int, least int64) {
	load := make([]int64, len(s.steps))
	for n := range s.movers {
		m := &s.movers[n]
		if m.fixed[0] >= 0 {
			continue
		}
		way := make([]bool, len(m.uses))
		for k := 1; k < len(way); k++ {
			way[k] = m.fixed[k] >= 0 && m.uses[k] > m.uses[k-1]+1
		}
		m.occupy(way, load, m.extent)
	}
	for t := range load {
		if load[t] > least {
			step, least = t, load[t]
		}
	}
	return step, least
}
