package planner

import (
	"cmp"
	"math"
	"slices"
)

// squeak places the blocks of a large space again and again: those that ended too high the last time come twice as early in the
// next order. This is squeaky wheel optimization (Joslin and Clements, JAIR 10, 1999), for each of some orders in turn. It begins
// no round that it does not expect to end before the work reaches a limit.
func (s *searcher) squeak(wheels []*wheel, until int64) {
	s.most = until
	defer func() { s.most = math.MaxInt64 }()
	for {
		for _, w := range wheels {
			if s.best.size <= s.goal || s.work+w.cost > until || s.interrupted() {
				return
			}
			begin := s.work
			s.placeAs(w.order, w.best, s.profile)
			s.best.keep()
			w.promote(s)
			w.cost = s.work - begin
		}
	}
}

// wheels returns the first orders of squeak.
func (s *searcher) wheels() (wheels []*wheel) {
	for _, g := range []int{0, 2, 6} {
		wheels = append(wheels, &wheel{order: s.order(greedies[g], s.profile), best: greedies[g].best, cost: s.longest})
	}
	return wheels
}

// wheel is an order of blocks that changes from round to round.
type wheel struct {
	order []int32
	best  bool
	cost  int64 // work of the last round
}

// promote halves the rank of every block that ends above the lower bound.
func (w *wheel) promote(s *searcher) {
	type ranked struct{ rank, block int32 }
	list := make([]ranked, len(w.order))
	s.work += int64(sortWork * len(list))
	for n, i := range w.order {
		list[n] = ranked{int32(2 * n), i}
		if s.blocks[i].end() > s.bound {
			list[n].rank = int32(n) | 1 // between others, never beside them
		}
	}
	slices.SortStableFunc(list, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
	for n, r := range list {
		w.order[n] = r.block
	}
}
