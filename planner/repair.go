package planner

import (
	"cmp"
	"slices"
)

// repairAll lowers what stands out of an arrangement that is good nearly everywhere: it takes the
// blocks around one that ends too high out of the arena and looks for other places for them.
func (s *searcher) repairAll() {
	x := newTimeline(s.blocks, s.profile.live)
	var high []int32
	for i := range s.blocks {
		if k := &s.blocks[i]; k.size > 0 {
			x.add(int32(i), k)
			if k.movable() && k.offset+k.size > s.goal {
				high = append(high, int32(i))
			}
		}
	}
	top := func(i int32) int64 { return s.blocks[i].offset + s.blocks[i].size }
	slices.SortFunc(high, func(a, b int32) int { return cmp.Or(cmp.Compare(top(b), top(a)), cmp.Compare(a, b)) })
	for effort := 1; s.work < s.budget; effort *= 2 {
		reached := s.goal // nothing below what could not be lowered matters
		for _, i := range high {
			if top(i) > reached && s.work < s.budget {
				reached = s.lower(x, i, reached, effort)
			}
		}
		if reached <= s.goal {
			return
		}
	}
}

// lower tries to bring block i, with those around it, to end at or below the limit, or else as
// near to it as it can. It returns where the blocks end now.
func (s *searcher) lower(x *timeline, i int32, limit int64, effort int) int64 {
	const smallest, largest = 64, wholeBlocks
	top := s.blocks[i].offset + s.blocks[i].size
	for quarter := range int64(4) {
		aim := limit + (top-limit)/4*quarter
		for size := smallest; size <= largest; size *= 2 {
			blocks := s.around(x, i, size)
			if len(blocks) > largest {
				break
			}
			for _, j := range blocks {
				x.remove(j, &s.blocks[j])
			}
			p := prober{skyline: s.pick(blocks, x)}
			ok := false
			for range 3 {
				if ok = s.try(&p, blocks, aim, effort); ok {
					break
				}
			}
			for _, j := range blocks {
				x.add(j, &s.blocks[j])
			}
			if ok {
				return aim
			}
			if len(blocks) < size/2 || s.work >= s.budget {
				break // there are no more
			}
		}
	}
	return top
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
