package planner

import (
	"errors"
	"fmt"
	"slices"
)

// TwoMemories divides the buffers of a problem between a fast memory of a given size and a slow memory without a limit, such as the SRAM
// and the PSRAM of a microcontroller. The uses of a buffer are the steps that write or read it: the first and the last step of its life,
// and those of Buffer.Reads and Buffer.Writes. A buffer in the slow memory for its whole life moves its bytes at each use. All other
// buffers are in the fast memory at each use, and may be away from it between two uses. To leave, a buffer moves its bytes to the slow
// memory, unless the slow memory has them from the time before and no step has written them since. To come back, it moves them again. The
// cost of a plan is the sum of the moved bytes.
//
// The problem of a plan for two memories has a buffer for each stretch of steps that a buffer spends in one memory. Device 0 is the fast
// memory, and device 1 the slow one. For example, a buffer [0, 9) has uses in steps 0, 2, 7 and 8, and is away from step 3 to step 6. It
// has the stretches [0, 3) and [7, 9) in the fast memory and [3, 8) in the slow one. Between two steps, buffers leave before others come
// back. A copy in the slow memory therefore occupies it during the step before which it is read.
type TwoMemories struct {
	Problem *Problem `json:"problem"` // the whole buffers, on device 0
	Fast    int64    `json:"fast"`    // bytes of the fast memory
	// Of holds an element for each buffer of the plan's problem: the index in Problem.Buffers of the buffer that has the stretch.
	Of    []int   `json:"of"`
	Moved int64   `json:"moved"` // bytes that the plan moves
	Bound int64   `json:"bound"` // no plan moves fewer bytes
	Proof *Prices `json:"proof"` // proof of Bound
}

// Prices prove a lower bound of the moved bytes. If a byte of the fast memory has a price at each step, each buffer has a cheapest way to
// live: it pays for the bytes that it moves, and for the bytes of the fast memory that it occupies. The buffers of a plan pay at least what
// their cheapest ways cost, and occupy at most the whole fast memory. So the plan moves at least the bytes that the cheapest ways cost
// together, minus the price of the whole fast memory at all steps.
//
// Where prices alone prove too little, the proof has two cases, Yes and No, for one buffer of TwoMemories.Problem. With Gap 0, Yes proves
// the bound if the buffer is in the slow memory for its whole life, and No if it is not. With another Gap, Yes proves the bound if the
// buffer is away from the fast memory before its use of that number, counted from 0, and No if it stays. Both include the slow memory for
// life.
type Prices struct {
	// Steps holds pairs of a step and the price of a byte at the step. A price of 65536 is that of moving a byte. Steps ascend.
	Steps  [][2]int64 `json:"steps,omitempty"`
	Buffer int        `json:"buffer,omitempty"`
	Gap    int        `json:"gap,omitempty"`
	Yes    *Prices    `json:"yes,omitempty"`
	No     *Prices    `json:"no,omitempty"`

	bound int64 // bytes that Steps prove, of all cases together; unknown in proofs from files
}

// moveUnit is the price of moving a byte. Prices are integers, so that all checkers form the same sums.
const moveUnit = 1 << 16

// The devices of a plan for two memories.
const (
	fastDevice = iota
	slowDevice
)

// A mover is a buffer that gets memory, and for which a search decides in which memory it is when.
//
// A decision for all of its life is called a way. A way is a list of as many elements as the buffer has uses, which are counted from 0.
// Element 0 is true if the buffer is in the slow memory for its whole life; then all other elements are false. Element k above 0 is true
// if the buffer is away from the fast memory between use k-1 and use k. For example, a buffer with the uses 0, 2, 7 and 8 that is away from
// step 3 to step 6 has the way [false, false, true, false].
type mover struct {
	buffer int    // index in the problem
	bytes  int64  // size of the buffer: moved when it leaves the fast memory, and again when it comes back
	extent int64  // bytes of the fast memory that it occupies: with its guard, rounded up to the alignment of all offsets
	slow   int64  // bytes moved if it is in the slow memory for its whole life: its size for each read and each write
	uses   []int  // ascending indices in the list of the steps that use any mover
	writes []bool // for each use, whether the step writes the buffer
	fixed  []int8 // for each element of a way: 1 if the search has decided that it is true, -1 if that it is false, 0 if it is free
}

// movers checks that a problem can be planned for two memories. It returns the planned buffers and the steps with uses, ascending. Between
// two of these steps, the fast memory never has to hold more than at the later one.
func (p *Problem) movers(o *Options) (movers []mover, steps []int, err error) {
	if err := p.movable(o); err != nil {
		return nil, nil, err
	}
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if o.unplanned(b, 0) != "" {
			continue
		}
		m := mover{buffer: i, bytes: o.bytes(b), extent: roundUp(o.extent(b), o.align()), uses: b.uses()}
		m.slow = m.bytes * int64(2+len(b.Reads)+len(b.Writes))
		for _, step := range m.uses {
			m.writes = append(m.writes, step == b.First || slices.Contains(b.Writes, step))
		}
		m.fixed = make([]int8, len(m.uses))
		movers, steps = append(movers, m), append(steps, m.uses...)
	}
	slices.Sort(steps)
	steps = slices.Compact(steps)
	for n := range movers {
		m := &movers[n]
		for k, step := range m.uses {
			m.uses[k], _ = slices.BinarySearch(steps, step)
			if k > 0 && m.uses[k] == m.uses[k-1]+1 {
				m.fixed[k] = -1 // between neighbouring steps, being away makes room for nothing
			}
		}
	}
	return movers, steps, nil
}

// movable reports why a problem cannot be planned for two memories.
func (p *Problem) movable(o *Options) error {
	if o.Segment > 0 || o.Capacity > 0 {
		return errors.New("two memories allow neither segments nor a capacity")
	}
	var moves int64
	for i := range p.Buffers {
		b := &p.Buffers[i]
		n := int64(2 + len(b.Reads) + len(b.Writes))
		switch size := max(b.Size, 4*b.Elements); {
		case b.Group != 0 || len(b.Gaps) > 0 || b.Fixed:
			return &bufferError{i, b, errors.New("a group, gaps and a fixed offset do not go with two memories")}
		case b.Lane.Device != fastDevice:
			return &bufferError{i, b, fmt.Errorf("two memories divide the buffers of device 0, and it is on device %d", b.Lane.Device)}
		case size > (maxBytes/moveUnit-moves)/n:
			return &bufferError{i, b, fmt.Errorf("the uses up to here move more than %d bytes", int64(maxBytes/moveUnit))}
		default:
			moves += size * n
		}
	}
	return nil
}

// uses returns the steps that use a buffer, ascending.
func (b *Buffer) uses() []int {
	uses := slices.Concat([]int{b.First, b.Last - 1}, b.Reads, b.Writes)
	slices.Sort(uses)
	return slices.Compact(uses)
}

func (b *Buffer) validateUses() error {
	for _, steps := range [][]int{b.Reads, b.Writes} {
		for i, step := range steps {
			if step <= b.First || step >= b.Last-1 || i > 0 && step <= steps[i-1] {
				return fmt.Errorf("use %d is not after the use before it, or not inside of the lifetime [%d, %d)", step, b.First, b.Last)
			}
		}
	}
	return nil
}

// cheapest returns the cheapest way of a buffer that agrees with m.fixed, and what it pays. below[i] is the sum of the prices of all steps
// before step i.
func (m *mover) cheapest(below []int64) (way []bool, pays int64) {
	way = make([]bool, len(m.uses))
	if m.fixed[0] > 0 {
		way[0] = true
		return way, m.slow * moveUnit
	}
	// The slow memory has a copy of the bytes after the buffer was away, until a step writes them.
	const never, noCopy, hasCopy = int64(1) << 62, 0, 1
	type arrival struct {
		pays int64 // up to the use, and never if it cannot be in this state
		from int   // state at the use before
		away bool  // whether it was away since the use before
	}
	table := make([][2]arrival, len(m.uses))
	price := func(from, to int) int64 { return m.extent * (below[to] - below[from]) }
	table[0] = [2]arrival{noCopy: {pays: price(m.uses[0], m.uses[0]+1)}, hasCopy: {pays: never}}
	for k := 1; k < len(m.uses); k++ {
		now := [2]arrival{{pays: never}, {pays: never}}
		for from, before := range table[k-1] {
			for _, away := range [2]bool{false, true} {
				pays, to := before.pays, from
				switch {
				case pays == never || away && m.fixed[k] < 0 || !away && m.fixed[k] > 0:
					continue
				case away:
					pays, to = pays+m.bytes*int64(2-from)*moveUnit, hasCopy
				default:
					pays += price(m.uses[k-1]+1, m.uses[k])
				}
				if m.writes[k] {
					to = noCopy
				}
				if pays += price(m.uses[k], m.uses[k]+1); pays < now[to].pays {
					now[to] = arrival{pays, from, away}
				}
			}
		}
		table[k] = now
	}
	last := table[len(table)-1]
	state := noCopy
	if last[hasCopy].pays < last[noCopy].pays {
		state = hasCopy
	}
	if pays = last[state].pays; m.fixed[0] == 0 && m.slow*moveUnit < pays {
		way[0] = true
		return way, m.slow * moveUnit
	}
	for k := len(table) - 1; k > 0; k-- {
		way[k], state = table[k][state].away, table[k][state].from
	}
	return way, pays
}

// moved returns the bytes that a way moves.
func (m *mover) moved(way []bool) (bytes int64) {
	if way[0] {
		return m.slow
	}
	copied := false
	for k := range way {
		if way[k] && !copied {
			bytes += m.bytes
		}
		if way[k] {
			bytes += m.bytes
		}
		copied = (copied || way[k]) && !m.writes[k]
	}
	return bytes
}

// occupy adds bytes to the load of each step in which a way occupies the fast memory.
func (m *mover) occupy(way []bool, load []int64, bytes int64) {
	for k, use := range m.uses {
		if way[0] {
			return
		}
		for t := use; t >= 0 && (t == use || k > 0 && !way[k] && t > m.uses[k-1]); t-- {
			load[t] += bytes
		}
	}
}

// stretches returns the problem of a plan in which buffers live in these ways, and the whole buffer of each stretch.
func (p *Problem) stretches(movers []mover, ways [][]bool) (cut *Problem, of []int) {
	cut = &Problem{Steps: p.Steps}
	add := func(i, device, first, last int) {
		b := p.Buffers[i]
		b.ID, b.Lane.Device, b.First, b.Last, b.Reads, b.Writes = len(of), device, first, last, nil, nil
		cut.Buffers, of = append(cut.Buffers, b), append(of, i)
	}
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if len(movers) == 0 || movers[0].buffer != i { // without memory
			add(i, fastDevice, b.First, b.Last)
			continue
		}
		uses, way := b.uses(), ways[0]
		movers, ways = movers[1:], ways[1:]
		if way[0] {
			add(i, slowDevice, b.First, b.Last)
			continue
		}
		first := b.First // first step of the stretch
		left := 0        // number of stretches of the problem when the buffer leaves for the first time; 0 before
		for k := 1; k < len(way); k++ {
			if !way[k] {
				continue
			}
			if add(i, fastDevice, first, uses[k-1]+1); left == 0 {
				left = len(of)
			}
			first = uses[k]
		}
		if add(i, fastDevice, first, b.Last); left > 0 {
			add(i, slowDevice, cut.Buffers[left-1].Last, first+1)
		}
	}
	return cut, of
}
