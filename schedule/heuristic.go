package schedule

import (
	"cmp"
	"iter"
	"slices"
)

// improve lowers the peak of a segment: it takes the better of two whole orders, then searches windows.
func (s *scheduler) improve(g segment) {
	s.adopt(g, s.depthFirst(g))
	s.adopt(g, s.greedy(g))
	if g.to-g.from <= maxWindow {
		s.exact(g, s.budget)
		return
	}
	for s.highest(g) > s.floor && s.budget > 0 && s.lower(g) {
		s.budget -= (g.to - g.from) / maxWindow // looking for the peak takes time, too
	}
}

// lower reorders windows around every position at which a long segment has its peak, and reports whether all of them
// became lower.
func (s *scheduler) lower(g segment) bool {
	peak := s.highest(g)
	for i := g.from; i < g.to; i++ {
		for k := 0; s.need[i] == peak; k++ {
			behind := [...]int{maxWindow / 2, maxWindow / 8, maxWindow * 7 / 8} // the peak in the middle, early, late
			if k == len(behind) {
				return false
			}
			from := max(g.from, i-behind[k])
			s.exact(segment{from, min(g.to, from+maxWindow)}, budgetWindow)
		}
	}
	return true
}

// greedy orders a segment by runs: of the steps that can come next, each with the steps that only it makes ready, those
// that end with no more live bytes than they found come first, the one that needs least of them; then those that fall
// furthest from what they need to what they leave. For chains that do not depend on each other that is the best order
// (Liu, "An application of generalized tree pebbling to sparse matrix factorization", SIAM J. Alg. Disc. Meth. 8, 1987).
func (s *scheduler) greedy(g segment) []int {
	if s.waits == nil {
		s.waits = make([]int32, len(s.order))
	}
	q := &queue{scheduler: s, memory: s.enter(g), segment: g}
	for _, step := range s.order[g.from:g.to] {
		s.waits[step] = 0
		for _, b := range s.Reads[step] {
			if w := s.writer[b]; w >= 0 && s.at[w] >= g.from {
				s.waits[step]++
			}
		}
		if s.waits[step] == 0 {
			q.ready = append(q.ready, int32(step))
		}
	}
	order := make([]int, 0, g.to-g.from)
	for len(q.ready) > 0 {
		best, at := run{}, -1
		for i, step := range q.ready {
			if i == maxReady || s.budget <= 0 && at >= 0 {
				break
			}
			if r := q.probe(step); at < 0 || r.before(best) {
				best, at = r, i
			}
		}
		for k := 0; k < best.steps; k++ {
			step := q.ready[at]
			order = append(order, int(step))
			q.memory.run(int(step))
			q.ready = append(q.ready[:at], q.ready[at+1:]...)
			made := q.release(step)
			at = len(q.ready)
			q.ready = append(q.ready, made...)
		}
	}
	return order
}

// A queue knows which steps of a segment can run.
type queue struct {
	*scheduler
	memory  *memory
	segment segment
	ready   []int32
}

// Bounds of the look ahead: steps that are compared, and steps of a run.
const (
	maxReady = 64
	maxRun   = 16
)

// A run is a step and those that follow from it.
type run struct {
	steps        int
	need, growth int64 // from the live bytes at its start
}

func (r run) before(o run) bool {
	if (r.growth <= 0) != (o.growth <= 0) {
		return r.growth <= 0
	}
	if r.growth <= 0 {
		return r.need < o.need
	}
	return cmp.Compare(r.need-r.growth, o.need-o.growth) > 0
}

// probe looks how far the live bytes fall in the run that starts with a step: up to the first step that leaves no more than
// there was, or else the one that leaves least.
func (q *queue) probe(step int32) run {
	m, start := q.memory, q.memory.live
	var best, r run
	var trail []int32
	for {
		r.steps++
		r.need = max(r.need, m.run(int(step))-start)
		r.growth = m.live - start
		q.budget--
		trail = append(trail, step)
		if best.steps == 0 || r.growth < best.growth {
			best = r
		}
		made := q.release(step)
		if best.growth <= 0 || r.steps == maxRun || len(made) != 1 {
			break
		}
		step = made[0]
	}
	for i := len(trail) - 1; i >= 0; i-- {
		q.retain(trail[i])
		m.undo(int(trail[i]))
	}
	return best
}

// release marks a step as run and gives the steps that it made ready.
func (q *queue) release(step int32) (made []int32) {
	for r := range q.followers(step) {
		if q.waits[r]--; q.waits[r] == 0 {
			made = append(made, r)
		}
	}
	return made
}

// retain takes release back.
func (q *queue) retain(step int32) {
	for r := range q.followers(step) {
		q.waits[r]++
	}
}

// followers are the steps of the segment that read what a step writes, once for each buffer.
func (q *queue) followers(step int32) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for _, b := range q.Writes[step] {
			for _, r := range q.readers[b] {
				if q.at[r] < q.segment.to && !yield(r) {
					return
				}
			}
		}
	}
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
