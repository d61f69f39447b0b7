package schedule

import (
	"cmp"
	"slices"
)

// improve lowers the peak of a segment: it searches from the order unchanged and, if that settles nothing, from a second
// one.
func (s *scheduler) improve(g segment) {
	if s.search(g, s.budget/2) {
		return
	}
	best, peak := slices.Clone(s.order[g.from:g.to]), s.highest(g)
	s.reorder(g, s.depthFirst(g))
	s.search(g, s.budget)
	if s.highest(g) > peak {
		s.reorder(g, best)
	}
}

// search reorders a short segment as a whole, and a long one by windows around the positions of its peak. It reports
// whether no order can be better.
func (s *scheduler) search(g segment, budget int) bool {
	if g.to-g.from <= maxWindow {
		return s.exact(g, budget)
	}
	end := s.budget - budget
	for s.highest(g) > s.floor && s.budget > end && s.lower(g) {
		s.budget -= (g.to - g.from) / maxWindow // looking for the peak takes time, too
	}
	return s.highest(g) <= s.floor
}

// lower reorders windows around every position at which a long segment has its peak, and reports whether all of them
// became lower.
func (s *scheduler) lower(g segment) bool {
	peak := s.highest(g)
	for i := g.from; i < g.to; i++ {
		for k := 0; s.need[i] == peak; k++ {
			before := [...]int{maxWindow / 2, maxWindow / 8, maxWindow * 7 / 8} // the peak in the middle, early, late
			if k == len(before) {
				return false
			}
			from := max(g.from, i-before[k])
			s.exact(segment{from, min(g.to, from+maxWindow)}, budgetWindow)
		}
	}
	return true
}

// depthFirst orders a segment so that what a step reads is made right before it, of several operands the one first whose
// making falls furthest from what it needs to what it leaves (Sethi and Ullman, "The generation of optimal code for
// arithmetic expressions", J. ACM 17, 1970, with sizes). It is at its best where results are gathered, as in a tree.
func (s *scheduler) depthFirst(g segment) []int {
	need, leaves := make([]int64, g.to-g.from), make([]int64, g.to-g.from) // by position in the segment
	operands, gathered := make([][]int, g.to-g.from), make([]bool, g.to-g.from)
	for i := range need {
		step := s.order[g.from+i]
		for _, b := range s.Reads[step] {
			if w := s.writer[b]; w >= 0 && s.at[w] >= g.from {
				operands[i] = append(operands[i], s.at[w]-g.from)
				gathered[s.at[w]-g.from] = true
			}
		}
		slices.SortStableFunc(operands[i], func(a, b int) int { return cmp.Compare(need[b]-leaves[b], need[a]-leaves[a]) })
		held := int64(0)
		for _, k := range operands[i] {
			need[i] = max(need[i], held+need[k])
			held += leaves[k]
		}
		for _, b := range s.Writes[step] {
			held += s.Bytes[b]
			leaves[i] += s.Bytes[b]
		}
		need[i] = max(need[i], held+s.Scratch[step])
	}
	order, seen, next := make([]int, 0, len(need)), make([]bool, len(need)), make([]int, len(need))
	var stack []int
	visit := func(i int) {
		if !seen[i] {
			seen[i] = true
			stack = append(stack, i)
		}
	}
	for root := range need {
		if gathered[root] {
			continue
		}
		for visit(root); len(stack) > 0; {
			i := stack[len(stack)-1]
			if next[i] < len(operands[i]) {
				next[i]++
				visit(operands[i][next[i]-1])
				continue
			}
			stack = stack[:len(stack)-1]
			order = append(order, s.order[g.from+i])
		}
	}
	return order
}
