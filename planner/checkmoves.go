package planner

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// check verifies a plan for two memories: that the stretches are those of the whole buffers, that each buffer is in the fast memory at each
// use or in the slow memory for its whole life, that the plan moves the bytes that it claims and fits the fast memory, and that the prices
// prove the bound. It shares no code with the search. verify_plan.py checks the same conditions in the same order.
func (two *TwoMemories) check(cut *Problem, plan *Plan) error {
	p, o := two.Problem, &plan.Options
	if p == nil || two.Proof == nil {
		return errors.New("two memories without a problem or a proof")
	}
	if err := cmp.Or(p.Validate(), p.movable(o)); err != nil {
		return fmt.Errorf("two memories: %w", err)
	}
	if len(two.Of) != len(cut.Buffers) {
		return fmt.Errorf("%d of %d buffers are stretches", len(two.Of), len(cut.Buffers))
	}
	stretches := make([][]*Buffer, len(p.Buffers))
	for i, of := range two.Of {
		if of < 0 || of >= len(p.Buffers) {
			return fmt.Errorf("buffer %d is a stretch of buffer %d of %d", i, of, len(p.Buffers))
		}
		whole, b := &p.Buffers[of], &cut.Buffers[i]
		if b.Size != whole.Size || b.Elements != whole.Elements || b.Align != whole.Align || b.Boundary != whole.Boundary ||
			b.Group != 0 || len(b.Gaps) > 0 {
			return fmt.Errorf("buffer %d (%s) is another than what it is a stretch of", i, b.Name)
		}
		stretches[of] = append(stretches[of], b)
	}
	var moved int64
	market := &market{}
	for i := range p.Buffers {
		b := &p.Buffers[i]
		bytes, err := lived(b, stretches[i], o)
		if err != nil {
			return &bufferError{i, b, err}
		}
		if o.unplanned(b, 0) == "" {
			moved += bytes
			market.add(i, b, o)
		}
	}
	if moved != two.Moved {
		return fmt.Errorf("the plan moves %d bytes, and claims %d", moved, two.Moved)
	}
	if two.Bound < 0 || two.Bound > moved {
		return fmt.Errorf("no plan can move fewer than %d bytes, and this one moves %d", two.Bound, moved)
	}
	var fast int64
	for _, a := range plan.Arenas {
		if a.Device == fastDevice && !a.Weights {
			fast += a.Size
		}
	}
	if fast > two.Fast {
		return fmt.Errorf("the plan takes %d bytes of the fast memory, which has %d", fast, two.Fast)
	}
	market.room = min(two.Fast-two.Fast%o.align(), market.extents)
	if err := market.proves(two.Proof, two.Bound); err != nil {
		return fmt.Errorf("the bound of %d moved bytes: %w", two.Bound, err)
	}
	return nil
}

// lived returns the bytes that a buffer moves in its stretches.
func lived(b *Buffer, stretches []*Buffer, o *Options) (moved int64, err error) {
	used := func(step int) bool {
		return step == b.First || step == b.Last-1 || slices.Contains(b.Reads, step) || slices.Contains(b.Writes, step)
	}
	var fast, slow []*Buffer
	for _, s := range stretches {
		switch s.Lane.Device {
		case fastDevice:
			fast = append(fast, s)
		case slowDevice:
			slow = append(slow, s)
		default:
			return 0, fmt.Errorf("a stretch is on device %d", s.Lane.Device)
		}
	}
	slices.SortFunc(fast, func(a, b *Buffer) int { return cmp.Compare(a.First, b.First) })
	bytes := o.bytes(b)
	if planned := o.unplanned(b, 0) == ""; !planned && (len(fast) != 1 || len(slow) > 0) {
		return 0, errors.New("it has no memory, and more or fewer than one stretch")
	}
	if len(fast) == 0 {
		if len(slow) != 1 || slow[0].First != b.First || slow[0].Last != b.Last {
			return 0, errors.New("it is neither in the fast memory nor in the slow one for its whole life")
		}
		return bytes * int64(2+len(b.Reads)+len(b.Writes)), nil
	}
	last := fast[len(fast)-1]
	if fast[0].First != b.First || last.Last != b.Last {
		return 0, errors.New("its stretches in the fast memory do not begin and end with it")
	}
	for n, s := range fast[1:] {
		before := fast[n]
		if s.First < before.Last || !used(s.First) || !used(before.Last-1) {
			return 0, fmt.Errorf("it is away from the fast memory over steps [%d, %d), not between two uses", before.Last, s.First)
		}
		moved += bytes // back
		dirty := n == 0
		for _, step := range slices.Concat(b.Reads, b.Writes) {
			if before.Last <= step && step < s.First {
				return 0, fmt.Errorf("step %d uses it while it is away from the fast memory", step)
			}
		}
		for _, step := range b.Writes {
			dirty = dirty || before.First <= step && step < before.Last
		}
		if dirty {
			moved += bytes
		}
	}
	copies := min(1, len(fast)-1)
	if len(slow) != copies || copies == 1 && (slow[0].First != fast[0].Last || slow[0].Last != last.First+1) {
		return 0, errors.New("its copy in the slow memory lives too short or too long, or is missing")
	}
	return moved, nil
}

// A market is where buffers pay prices for the fast memory.
type market struct {
	buyers  []buyer
	extents int64 // bytes of all buyers
	room    int64 // bytes of the fast memory, at most extents
}

// A buyer is a buffer that gets memory, in the check of the proof (see Prices): it pays for the bytes that it moves, and the price of each
// step for each byte of the fast memory that it occupies in that step.
type buyer struct {
	buffer int    // index in the problem
	bytes  int64  // size: moved when it leaves the fast memory, and again when it comes back
	extent int64  // bytes of the fast memory that it occupies
	slow   int64  // bytes moved if it is in the slow memory for its whole life
	uses   []int  // steps, ascending
	writes []bool // for each use, whether the step writes the buffer
	// cases holds the decisions under which a part of the proof is checked, by Prices.Gap: true within Yes, false within No. A gap without
	// an entry is not decided.
	cases map[int]bool
}

// add adds a buffer that gets memory.
func (m *market) add(i int, b *Buffer, o *Options) {
	x := buyer{buffer: i, bytes: o.bytes(b), extent: roundUp(o.extent(b), o.align()), cases: map[int]bool{}}
	x.slow = x.bytes * int64(2+len(b.Reads)+len(b.Writes))
	x.uses = append(append(append(x.uses, b.First, b.Last-1), b.Reads...), b.Writes...)
	slices.Sort(x.uses)
	x.uses = slices.Compact(x.uses)
	for _, step := range x.uses {
		x.writes = append(x.writes, slices.Contains(b.Writes, step))
	}
	m.buyers, m.extents = append(m.buyers, x), m.extents+x.extent
}

// proves fails if a proof proves less than the bound.
func (m *market) proves(proof *Prices, bound int64) error {
	if (proof.Yes == nil) != (proof.No == nil) {
		return errors.New("the proof has one case of two")
	}
	if proof.Yes != nil {
		n := slices.IndexFunc(m.buyers, func(x buyer) bool { return x.buffer == proof.Buffer })
		if n < 0 || proof.Gap < 0 || proof.Gap >= len(m.buyers[n].uses) {
			return fmt.Errorf("the proof distinguishes cases of gap %d of buffer %d, which does not exist", proof.Gap, proof.Buffer)
		}
		x := &m.buyers[n]
		if _, twice := x.cases[proof.Gap]; twice {
			return fmt.Errorf("the proof distinguishes cases of gap %d of buffer %d twice", proof.Gap, proof.Buffer)
		}
		x.cases[proof.Gap] = true
		err := m.proves(proof.Yes, bound)
		x.cases[proof.Gap] = false
		err = cmp.Or(err, m.proves(proof.No, bound))
		delete(x.cases, proof.Gap)
		return err
	}
	below := []int64{0} // sums of the first prices
	for n, price := range proof.Steps {
		switch sum := below[n]; {
		case n > 0 && proof.Steps[n-1][0] >= price[0]:
			return fmt.Errorf("the price of step %d is not after that of step %d", price[0], proof.Steps[n-1][0])
		case price[1] < 0 || price[1] > maxBytes/max(1, m.extents)-sum:
			return fmt.Errorf("the price %d of step %d is negative or too high", price[1], price[0])
		default:
			below = append(below, sum+price[1])
		}
	}
	pays := -m.room * below[len(below)-1]
	for i := range m.buyers {
		pays += m.buyers[i].least(proof.Steps, below)
	}
	if pays <= (bound-1)*moveUnit {
		return fmt.Errorf("the prices prove %d/%d bytes", pays, moveUnit)
	}
	return nil
}

// least returns what a buyer pays at least.
func (x *buyer) least(prices [][2]int64, below []int64) int64 {
	const never = int64(1) << 62
	occupies := func(from, to int) int64 { // steps [from, to)
		at := func(step int) int64 {
			n, _ := slices.BinarySearchFunc(prices, int64(step), func(p [2]int64, step int64) int { return cmp.Compare(p[0], step) })
			return below[n]
		}
		return x.extent * (at(to) - at(from))
	}
	isSlow, decided := x.cases[0]
	if decided && isSlow {
		return x.slow * moveUnit
	}
	move := x.bytes * moveUnit
	changed, copied := occupies(x.uses[0], x.uses[0]+1), never // price paid without and with a copy in the slow memory
	for k := 1; k < len(x.uses); k++ {
		isAway, decided := x.cases[k]
		left := min(changed+2*move, copied+move)
		if decided && !isAway {
			left = never
		}
		between := occupies(x.uses[k-1]+1, x.uses[k])
		changed, copied = min(never, changed+between), min(never, copied+between)
		if decided && isAway {
			changed, copied = never, never
		}
		copied = min(copied, left)
		if x.writes[k] {
			changed, copied = min(changed, copied), never
		}
		now := occupies(x.uses[k], x.uses[k]+1)
		changed, copied = min(never, changed+now), min(never, copied+now)
	}
	if decided {
		return min(changed, copied)
	}
	return min(changed, copied, x.slow*moveUnit)
}
