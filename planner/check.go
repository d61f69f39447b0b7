package planner

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
)

// Check reports the first fault of a plan. It finds buffers without memory, outside their arena, or with a wrong alignment or fixed
// offset; arenas above the segment limit; groups at several offsets; views outside their buffer; and metrics that are not those of the
// plan. It finds buffers that share bytes at the same time: at the same execution level in the arena mode, and at any time if the options
// forbid sharing. It shares no code with the modes. The error names the buffers or the arena.
func Check(p *Problem, plan *Plan) error {
	_, err := check(p, plan)
	return err
}

// check is Check, and returns who is where.
func check(p *Problem, plan *Plan) ([]tenant, error) {
	tenants, err := checkMemory(p, plan)
	if err != nil {
		return nil, err
	}
	if got, want := plan.Metrics, metricsOf(plan, tenants); got != want {
		return nil, fmt.Errorf("the plan claims %+v, it has %+v", got, want)
	}
	return tenants, nil
}

// checkMemory checks where buffers are, and returns who is where.
func checkMemory(p *Problem, plan *Plan) ([]tenant, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if err := plan.Options.validate(); err != nil {
		return nil, err
	}
	if len(plan.Slots) != len(p.Buffers) {
		return nil, fmt.Errorf("the plan has %d slots for %d buffers", len(plan.Slots), len(p.Buffers))
	}
	if err := checkArenas(p, plan); err != nil {
		return nil, err
	}
	tenants, err := collectTenants(p, plan)
	if err != nil {
		return nil, err
	}
	used := make([]tenant, 0, len(tenants))
	for i := range tenants {
		used = append(used, tenants[i].inUse()...)
	}
	for n, rule := range rulesOf(p, plan) {
		list := tenants
		if n == 0 {
			list = used
		}
		for i := range list {
			list[i].from, list[i].to = rule.life(&list[i])
		}
		if a, b := sweep(list); a != nil {
			return nil, fmt.Errorf("%s and %s overlap in memory, [%d, %d) and [%d, %d) of arena %d, %s",
				a.describe(p), b.describe(p), a.low, a.high, b.low, b.high, a.arena, rule.meaning)
		}
	}
	return tenants, nil
}

// metricsOf computes the metrics of a plan.
func metricsOf(plan *Plan, tenants []tenant) (f Metrics) {
	devices := map[int][]tenant{}
	for _, t := range tenants {
		a := plan.Arenas[t.arena]
		if !a.Weights && t.low < t.high {
			devices[a.Device] = append(devices[a.Device], t)
		}
	}
	for _, list := range devices {
		g := sumUp(plan, list)
		f.Logical, f.Rounded, f.Peak, f.LowerBound = f.Logical+g.Logical, f.Rounded+g.Rounded, f.Peak+g.Peak, f.LowerBound+g.LowerBound
	}
	for _, a := range plan.Arenas {
		if !a.Weights {
			f.Committed += a.Size
		}
	}
	f.Padding, f.Reused = f.Rounded-f.Logical, max(0, f.Rounded-f.Committed)
	return f
}

// sumUp adds up the tenants of one memory.
func sumUp(plan *Plan, tenants []tenant) (f Metrics) {
	grain, align := plan.grain(tenants), plan.Options.align()
	var uses []tenant
	for _, t := range tenants {
		f.Logical, f.Rounded = f.Logical+t.bytes, f.Rounded+roundUp(t.high-t.low, grain)
		uses = append(uses, t.inUse()...)
		if t.fixed {
			f.LowerBound = max(f.LowerBound, plan.before(&t)+t.low+roundUp(t.high-t.low, min(grain, align)))
		}
	}
	padding := func(t *tenant) int64 { return roundUp(t.whole, grain) - roundUp(t.whole, min(grain, align)) }
	slices.SortFunc(uses, func(a, b tenant) int { return cmp.Compare(padding(&a), padding(&b)) })
	type event struct {
		step, use int
		begins    bool
	}
	events := make([]event, 0, 2*len(uses))
	for i, u := range uses {
		events = append(events, event{u.first, i, true}, event{u.last, i, false})
	}
	slices.SortFunc(events, func(a, b event) int {
		if a.step == b.step && a.begins != b.begins { // what ends makes room first
			if a.begins {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(a.step, b.step), cmp.Compare(a.use, b.use))
	})
	live := newRankSet(len(uses) + 1)
	var bytes, extent int64
	for _, e := range events {
		u := &uses[e.use]
		if !e.begins {
			live.remove(e.use)
			bytes, extent = bytes-u.bytes, extent-roundUp(u.high-u.low, grain)
			continue
		}
		live.add(e.use)
		bytes, extent = bytes+u.bytes, extent+roundUp(u.high-u.low, grain)
		f.Peak, f.LowerBound = max(f.Peak, bytes), max(f.LowerBound, extent-padding(&uses[live.below(len(uses))]))
	}
	f.LowerBound = roundUp(f.LowerBound, align)
	return f
}

// before returns the bytes of the device's memory before the arena of a tenant that are needed to place it there: none with segments,
// each of which has a memory of its own.
func (plan *Plan) before(t *tenant) int64 {
	if plan.Options.Segment > 0 {
		return 0
	}
	return plan.Arenas[t.arena].Start
}

// grain returns the bytes that sizes are rounded up to in sums: the alignment that all starts have in common, of tenants and of what is in
// use in their gaps. With segments it is at most the alignment of arenas, since the highest buffer of each segment needs no more.
func (plan *Plan) grain(tenants []tenant) int64 {
	grain := int64(maxAlign)
	if plan.Options.Segment > 0 {
		grain = plan.Options.align()
	}
	for i := range tenants {
		t := &tenants[i]
		grain = min(grain, t.align)
		for _, g := range t.gaps {
			for g.Low < g.High && g.Low%grain != 0 {
				grain /= 2
			}
		}
	}
	return grain
}

// checkBounds checks that the bounds prove what the plan claims as its lower bound.
func checkBounds(p *Problem, plan *Plan, bounds []Bound, tenants []tenant) error {
	if len(bounds) == 0 {
		return nil
	}
	var claimed int64
	devices := map[int]bool{}
	for _, b := range bounds {
		if devices[b.Device] {
			return fmt.Errorf("device %d has two bounds", b.Device)
		}
		devices[b.Device] = true
		claimed += b.Bytes
		if err := b.check(p, plan, tenants); err != nil {
			return fmt.Errorf("the bound of device %d: %w", b.Device, err)
		}
	}
	if claimed != plan.LowerBound {
		return fmt.Errorf("the bounds prove %d bytes, the plan claims that none has less than %d", claimed, plan.LowerBound)
	}
	return nil
}

// check adds the bound up.
func (b *Bound) check(p *Problem, plan *Plan, tenants []tenant) error {
	name := func(buffer int) int { // of a buffer or its group
		if g := p.Buffers[buffer].Group; g != 0 {
			return -g
		}
		return buffer
	}
	on := map[int]*tenant{}
	var here []tenant
	for i := range tenants {
		if t := &tenants[i]; t.low < t.high && plan.Arenas[t.arena].Device == b.Device && !plan.Arenas[t.arena].Weights {
			here = append(here, *t)
			on[name(t.buffer)] = t
		}
	}
	grain, align := plan.grain(here), plan.Options.align()
	var sum, padding int64
	for _, i := range b.Buffers {
		if i < 0 || i >= len(p.Buffers) {
			return fmt.Errorf("buffer %d of %d", i, len(p.Buffers))
		}
		t := on[name(i)]
		if t == nil {
			return fmt.Errorf("buffer %d has no memory there, or is in it twice", i)
		}
		delete(on, name(i)) // twice would count twice
		whole := roundUp(t.high-t.low, min(grain, align))
		padding = max(padding, roundUp(whole, grain)-whole)
		if b.End {
			if !t.fixed || len(b.Buffers) > 1 {
				return fmt.Errorf("%s does not end the memory", t.describe(p))
			}
			sum = plan.before(t) + t.low + roundUp(whole, grain)
			continue
		}
		uses := t.inUse()
		now := slices.IndexFunc(uses, func(u tenant) bool { return u.first <= b.Step && b.Step < u.last })
		if now < 0 {
			return fmt.Errorf("%s does not live at step %d", t.describe(p), b.Step)
		}
		sum += roundUp(uses[now].high-uses[now].low, grain)
	}
	if got := roundUp(sum-padding, align); got != b.Bytes {
		return fmt.Errorf("its buffers prove %d bytes instead of %d", got, b.Bytes)
	}
	return nil
}

func checkArenas(p *Problem, plan *Plan) error {
	segment := plan.Options.segment(p)
	free := map[int]int64{} // by device: where its next arena may start
	for i, a := range plan.Arenas {
		if a.Size < 0 || a.Start < 0 {
			return fmt.Errorf("arena %d starts at %d and has %d bytes", i, a.Start, a.Size)
		}
		if a.Weights {
			continue
		}
		if limit := plan.Options.Segment; limit > 0 && a.Size > limit {
			return fmt.Errorf("arena %d has %d bytes, above the segment limit of %d", i, a.Size, limit)
		}
		if segment == 0 && a.Start != free[a.Device] || segment > 0 && (a.Start%segment != 0 || a.Start < free[a.Device]) {
			return fmt.Errorf("arena %d starts at %d, which is not the end of the arena before it, or not a segment", i, a.Start)
		}
		free[a.Device] = a.Start + max(a.Size, segment)
		if a.Size%plan.Options.align() != 0 {
			return fmt.Errorf("arena %d has %d bytes, not a multiple of the alignment %d", i, a.Size, plan.Options.Alignment)
		}
	}
	return nil
}

// tenant is a buffer, or all buffers of a group, in the memory that the plan assigns.
type tenant struct {
	buffer      int // index in Problem.Buffers; of a group its first member
	arena       int
	low, high   int64 // bytes in the arena, with the guard
	bytes       int64 // without the guard
	align       int64
	fixed       bool
	whole       int64 // high - low; of a part that is in use in a gap, of the whole buffer
	first, last int   // steps
	level, deep int   // first and last execution level
	from, to    int   // interval of steps or levels in which a rule gives the tenant its bytes
	gaps        []Gap
}

// inUse cuts a tenant at its gaps.
func (t *tenant) inUse() []tenant {
	t.whole = t.high - t.low
	if len(t.gaps) == 0 {
		return []tenant{*t}
	}
	var uses []tenant
	guard := t.high - t.low - t.bytes
	add := func(first, last int, low, high int64) {
		if u := *t; first < last && low < high {
			u.first, u.last, u.low, u.high, u.bytes, u.gaps = first, last, t.low+low, t.low+high+guard, high-low, nil
			uses = append(uses, u)
		}
	}
	for i, g := range t.gaps {
		before := t.first
		if i > 0 {
			before = t.gaps[i-1].Last
		}
		add(before, g.First, 0, t.bytes)
		add(g.First, g.Last, g.Low, g.High)
	}
	add(t.gaps[len(t.gaps)-1].Last, t.last, 0, t.bytes)
	return uses
}

func (t *tenant) describe(p *Problem) string {
	b := &p.Buffers[t.buffer]
	return fmt.Sprintf("buffer %d (%s)", b.ID, b.Name)
}

// collectTenants checks every slot separately and returns who occupies which bytes.
func collectTenants(p *Problem, plan *Plan) ([]tenant, error) {
	segment := plan.Options.segment(p)
	unplanned := plan.Unplanned // in the order of buffers
	stepped := true
	for i := range p.Buffers {
		stepped = stepped && p.Buffers[i].Level == 0 && p.Buffers[i].LastLevel == 0
	}
	tenants := make([]tenant, 0, len(p.Buffers))
	groups := map[int]int{}
	shared := map[sharedSlot]bool{}
	for i := range p.Buffers {
		b, slot := &p.Buffers[i], plan.Slots[i]
		reason := plan.Options.unplanned(b, segment)
		if slot.Arena == NoArena {
			if reason == "" || slot != (Slot{Arena: NoArena}) || len(unplanned) == 0 || unplanned[0] != (Unplanned{i, reason}) {
				return nil, fmt.Errorf("buffer %d (%s) has no memory, and no reason or another size or offset than none", b.ID, b.Name)
			}
			unplanned = unplanned[1:]
			continue
		}
		guard, err := checkSlot(b, slot, plan)
		weights := err == nil && plan.Arenas[slot.Arena].Weights
		switch {
		case err != nil:
		case weights && (b.Boundary != Param || plan.Options.AllocateParams):
			err = fmt.Errorf("arena %d holds weights of several programs, and the buffer is none of them", slot.Arena)
		case !weights && reason != "":
			err = fmt.Errorf("it has memory, but %s", reason)
		}
		if err != nil {
			return nil, fmt.Errorf("buffer %d (%s): %w", b.ID, b.Name, err)
		}
		if weights && b.Content != "" {
			own := sharedSlot{b.Content, slot}
			if shared[own] {
				continue
			}
			shared[own] = true
		}
		t := tenant{
			buffer: i, arena: slot.Arena, low: slot.Offset, high: slot.Offset + slot.Size + guard,
			first: b.First, last: b.Last, level: b.Level, deep: b.LastLevel,
			bytes: slot.Size, align: max(1, b.Align, plan.Options.Alignment), fixed: b.Fixed, gaps: b.Gaps,
		}
		if stepped {
			t.level, t.deep = b.First, b.Last-1
		}
		if b.Group != 0 {
			n, known := groups[b.Group]
			if known {
				host := &tenants[n]
				if host.arena != t.arena || host.low != t.low {
					return nil, fmt.Errorf("%s and %s are of group %d, but are at offset %d of arena %d and at offset %d of arena %d",
						host.describe(p), t.describe(p), b.Group, host.low, host.arena, t.low, t.arena)
				}
				host.high, host.bytes = max(host.high, t.high), max(host.bytes, t.bytes)
				host.align, host.fixed = max(host.align, t.align), host.fixed || t.fixed
				host.first, host.last = min(host.first, t.first), max(host.last, t.last)
				host.level, host.deep = min(host.level, t.level), max(host.deep, t.deep)
				continue
			}
			groups[b.Group] = len(tenants)
		}
		tenants = append(tenants, t)
	}
	for i := range tenants { // a buffer that is fixed is where it is, whatever its lane
		t := &tenants[i]
		apart := plan.Options.Mode == TLSF && plan.Arenas[t.arena].Copy != p.Buffers[t.buffer].Lane.Copy
		if apart && !t.fixed && t.low < t.high && !plan.Arenas[t.arena].Weights {
			return nil, fmt.Errorf("%s: arena %d belongs to the other lane of its device", t.describe(p), t.arena)
		}
	}
	if len(unplanned) > 0 {
		return nil, fmt.Errorf("buffer %d has memory and is listed as not planned: %s", unplanned[0].Buffer, unplanned[0].Reason)
	}
	return tenants, nil
}

// sharedSlot is where a content is in an arena of weights. All parameters with the content may be in it.
type sharedSlot struct {
	content string
	slot    Slot
}

// checkSlot checks one slot and returns the bytes of the guard after it.
func checkSlot(b *Buffer, slot Slot, plan *Plan) (guard int64, err error) {
	o := &plan.Options
	if slot.Arena < 0 || slot.Arena >= len(plan.Arenas) {
		return 0, fmt.Errorf("arena %d of %d", slot.Arena, len(plan.Arenas))
	}
	a := plan.Arenas[slot.Arena]
	size := b.Size
	if o.UniformElementSize && b.Elements > 0 {
		size = b.Elements * 4
	}
	if o.TailGuard && b.Boundary != None && size > 0 && !a.Weights {
		guard = max(128, o.Alignment)
	}
	switch {
	case slot.Size != size:
		return 0, fmt.Errorf("its slot has %d bytes, it needs %d", slot.Size, size)
	case slot.Offset < 0 || slot.Offset > a.Size || size+guard > a.Size-slot.Offset:
		return 0, fmt.Errorf("bytes [%d, %d) leave arena %d, which has %d", slot.Offset, slot.Offset+size+guard, slot.Arena, a.Size)
	case slot.Offset%max(1, b.Align, o.Alignment) != 0 && size > 0:
		return 0, fmt.Errorf("offset %d is not a multiple of %d", slot.Offset, max(b.Align, o.Alignment))
	case a.Device != b.Lane.Device:
		return 0, fmt.Errorf("arena %d is on device %d, the buffer on device %d", slot.Arena, a.Device, b.Lane.Device)
	case b.Fixed && size > 0 && a.Start+slot.Offset != b.Offset:
		return 0, fmt.Errorf("it is at %d, but is fixed at %d", a.Start+slot.Offset, b.Offset)
	}
	return guard, nil
}

// A rule computes the interval of steps or levels in which no other tenant may take bytes of a tenant.
type rule struct {
	meaning string
	life    func(*tenant) (from, to int)
}

// rulesOf returns the rules that the plan has to obey, the plainest first.
func rulesOf(p *Problem, plan *Plan) []rule {
	rules := []rule{{"while both live", func(t *tenant) (int, int) { return t.first, t.last }}}
	if plan.Options.Mode == TLSF {
		rules = append(rules,
			rule{"at the same execution level", func(t *tenant) (int, int) { return t.level, t.deep + 1 }},
			rule{"while a copy may be under way", func(t *tenant) (int, int) {
				if p.Buffers[t.buffer].Lane.Copy {
					return t.first, 2*t.last - t.first
				}
				return t.first, t.last
			}})
	}
	if plan.Options.Mode == Disabled || plan.Options.ArenaNoReuse {
		rules = append(rules, rule{"though nothing may be reused", func(*tenant) (int, int) { return 0, 1 }})
	}
	return rules
}

// sweep goes over time with the set of live tenants, ordered by address, and returns two that
// overlap. Live tenants are disjoint until the first overlap, so that a new one can only collide
// with its two neighbours.
func sweep(tenants []tenant) (a, b *tenant) {
	byAddress := make([]int32, 0, len(tenants))
	for i := range tenants {
		if tenants[i].low < tenants[i].high {
			byAddress = append(byAddress, int32(i))
		}
	}
	slices.SortFunc(byAddress, func(i, j int32) int {
		a, b := &tenants[i], &tenants[j]
		return cmp.Or(cmp.Compare(a.arena, b.arena), cmp.Compare(a.low, b.low), cmp.Compare(i, j))
	})
	at := func(rank int) *tenant { return &tenants[byAddress[rank]] }
	coming := make([]int32, len(byAddress))
	for rank := range coming {
		coming[rank] = int32(rank)
	}
	going := slices.Clone(coming)
	slices.SortFunc(coming, func(i, j int32) int {
		return cmp.Or(cmp.Compare(at(int(i)).from, at(int(j)).from), cmp.Compare(i, j))
	})
	slices.SortFunc(going, func(i, j int32) int { return cmp.Compare(at(int(i)).to, at(int(j)).to) })
	live := newRankSet(len(byAddress))
	for _, rank := range coming {
		next := at(int(rank))
		for at(int(going[0])).to <= next.from {
			live.remove(int(going[0]))
			going = going[1:]
		}
		for _, neighbour := range [...]int{live.below(int(rank)), live.above(int(rank))} {
			if neighbour < 0 {
				continue
			}
			if other := at(neighbour); other.arena == next.arena && other.low < next.high && next.low < other.high {
				return other, next
			}
		}
		live.add(int(rank))
	}
	return nil, nil
}

// rankSet is a set of small integers that finds the neighbours of a member. Level 0 is a bitmap of the members, and each further level is a
// bitmap of the words of the level before that are not 0.
type rankSet [][]uint64

func newRankSet(n int) rankSet {
	var s rankSet
	for {
		n = (n + 63) / 64
		s = append(s, make([]uint64, max(n, 1)))
		if n <= 1 {
			return s
		}
	}
}

func (s rankSet) add(i int) {
	for _, level := range s {
		level[i/64] |= 1 << (i % 64)
		i /= 64
	}
}

func (s rankSet) remove(i int) {
	for _, level := range s {
		level[i/64] &^= 1 << (i % 64)
		if i /= 64; level[i] != 0 {
			return
		}
	}
}

// below returns the largest member smaller than i, or -1.
func (s rankSet) below(i int) int {
	for l, level := range s {
		if word := level[i/64] & (1<<(i%64) - 1); word != 0 {
			i = i/64*64 + 63 - bits.LeadingZeros64(word)
			for ; l > 0; l-- {
				i = i*64 + 63 - bits.LeadingZeros64(s[l-1][i])
			}
			return i
		}
		i /= 64
	}
	return -1
}

// above returns the smallest member greater than i, or -1.
func (s rankSet) above(i int) int {
	for l, level := range s {
		if word := level[i/64] &^ (1<<(i%64) - 1) &^ (1 << (i % 64)); word != 0 {
			i = i/64*64 + bits.TrailingZeros64(word)
			for ; l > 0; l-- {
				i = i*64 + bits.TrailingZeros64(s[l-1][i])
			}
			return i
		}
		i /= 64
	}
	return -1
}
