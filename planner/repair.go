package planner

import "slices"

// coreBlocks is how many blocks of a large space are arranged together, those at the fullest steps.
const coreBlocks = 1500

// repair plans a space that is too large to be arranged as a whole. The blocks that live at the fullest steps, the core, are
// arranged by search while nothing else is in the way; the others find room around them. Where one of those ends too high, it
// joins the core with its neighbours, and that part is done again.
//
// It goes its own way, whatever was found before: the budget of the other searches must not make it worse.
func (s *searcher) repair(budget int64) {
	if s.profile.pairs > maxPairs || 8*s.profile.pairs > budget || s.best.size <= s.goal {
		return
	}
	s.budget = s.work + budget
	g := greedies[0]
	enough := s.goal
	s.goal = s.bound
	order := s.order(g, s.profile)
	rank := make([]int32, len(s.blocks))
	for n, i := range order {
		rank[i] = int32(n)
	}
	x := s.timeline(s.profile.live)
	s.addFixed(x)
	core := make([]bool, len(s.blocks))
	size := min(coreBlocks, len(order))
	for _, i := range order[:size] {
		core[i] = true
	}
	s.put(x, order[:size], g.best)
	for _, part := range s.connected(slices.Clone(order[:size])) {
		s.rearrange(x, part)
	}
	s.put(x, order[size:], g.best)
	for reach := 128; s.best.keep() > enough && s.work < s.budget && !s.interrupted(); reach += reach / 8 {
		highest := order[0]
		for _, i := range order {
			if s.blocks[i].end() > s.blocks[highest].end() {
				highest = i
			}
		}
		for _, i := range s.around(x, highest, reach) {
			core[i] = true
		}
		part, others := s.coreAround(x, highest, core)
		if len(part) > 2*wholeBlocks {
			break
		}
		for _, i := range others {
			x.remove(i, &s.blocks[i])
		}
		s.rearrange(x, part)
		slices.SortFunc(others, func(a, b int32) int { return int(rank[a] - rank[b]) })
		s.put(x, others, g.best)
	}
}

// maxPairs bounds the pairs of blocks that live at a time for which a repair is worth its time.
const maxPairs = 1 << 28

// rearrange arranges blocks of the timeline again.
func (s *searcher) rearrange(x *timeline, blocks []int32) {
	for _, i := range blocks {
		x.remove(i, &s.blocks[i])
	}
	s.arrange(s.arrangement(blocks, x), s.budget)
	for _, i := range blocks {
		x.add(i, &s.blocks[i])
	}
}

// coreAround returns the blocks of the core that are connected in time with block i, and the
// movable blocks outside the core that live while one of them does.
func (s *searcher) coreAround(x *timeline, i int32, core []bool) (part, others []int32) {
	first, last := s.blocks[i].first, s.blocks[i].last
	for {
		part, others = part[:0], others[:0]
		a, b := first, last
		for _, t := range x.overlapping(first, last) {
			switch k := &s.blocks[t.block]; {
			case core[t.block]:
				part = append(part, t.block)
				a, b = min(a, k.first), max(b, k.last)
			case k.movable():
				others = append(others, t.block)
			}
		}
		if a == first && b == last {
			return part, others
		}
		first, last = a, b
	}
}

// around returns about size movable blocks that live during or near the life of block i.
func (s *searcher) around(x *timeline, i int32, size int) []int32 {
	k := &s.blocks[i]
	var blocks []int32
	for reach := 0; ; reach = max(2*reach, (k.last-k.first+3)/4) {
		found := x.overlapping(k.first-reach, k.last+reach)
		if len(found) <= len(blocks) && reach > 0 {
			return blocks
		}
		blocks = blocks[:0]
		for _, t := range found {
			if s.blocks[t.block].movable() {
				blocks = append(blocks, t.block)
			}
		}
		if len(blocks) >= size {
			return blocks
		}
	}
}
