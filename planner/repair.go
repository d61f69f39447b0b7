package planner

import (
	"cmp"
	"slices"
)

// repair lowers what stands out of an arrangement that is good nearly everywhere: it takes the
// blocks around one that ends too high out of the timeline, which holds all, and looks for other
// places for them. It reports whether there is no more to do.
func (s *searcher) repair(x *timeline, effort int) bool {
	top := func(i int32) int64 { return s.blocks[i].offset + s.blocks[i].size }
	var high []int32
	for i := range s.blocks {
		if s.blocks[i].movable() && top(int32(i)) > s.goal {
			high = append(high, int32(i))
		}
	}
	slices.SortFunc(high, func(a, b int32) int { return cmp.Or(cmp.Compare(top(b), top(a)), cmp.Compare(a, b)) })
	reached := s.goal // nothing below what could not be lowered matters
	for _, i := range high {
		if top(i) > reached && s.work < s.budget {
			reached = s.lower(x, i, reached, effort)
		}
	}
	return reached <= s.goal
}

// lower tries to bring block i, with those around it, to end at or below the limit, or else as
// near to it as it can. It returns where the blocks end now.
func (s *searcher) lower(x *timeline, i int32, limit int64, effort int) int64 {
	const smallest, largest = 64, wholeBlocks
	const work = 500_000 // for each number of blocks
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
			p := s.newProber(blocks, x)
			var found, none bool
			for end := s.work + work*int64(effort); !found && !none && s.work < min(end, s.budget); {
				found, none = s.try(p, aim, 1)
			}
			for _, j := range blocks {
				x.add(j, &s.blocks[j])
			}
			if found {
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
