package planner

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// shuffle places the blocks in the order of their addresses again and again, with a block or two moved to another rank, and goes
// on from one that is not larger. Where gaps leave nothing in use, some order leads to the smallest arena: from any arrangement, placing
// the blocks by address, each as low as it goes, makes one that is not larger.
func (s *searcher) shuffle(budget int64) {
	s.best.restore()
	var order []int32
	for i := range s.blocks {
		if s.blocks[i].movable() {
			order = append(order, int32(i))
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(s.blocks[a].offset, s.blocks[b].offset) })
	rnd := rand.New(rand.NewPCG(0, 0))
	size := s.best.size
	for len(order) > 1 && s.best.size > s.goal && s.work < budget && !s.interrupted() {
		next := slices.Clone(order)
		s.work += int64(len(order))
		for range 1 + rnd.IntN(2) {
			from, to := rnd.IntN(len(next)), rnd.IntN(len(next))
			moved := next[from]
			next = slices.Insert(slices.Delete(next, from, from+1), to, moved)
		}
		s.limit = size + 1
		if s.placeAs(next, false, s.profile); s.top() <= size {
			order, size = next, s.top()
			s.best.keep()
		}
	}
	s.limit = math.MaxInt64
}
