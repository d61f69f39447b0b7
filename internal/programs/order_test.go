package programs

import (
	"math"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
)

// ordered returns the axis along which an op puts elements in order, whose last result is their positions.
func (e *evaluation) ordered() (axis int, ok bool) {
	switch op := e.op.(type) {
	case ir.ArgReduce:
		return op.Axis, true
	case ops.TopK:
		return op.Axis, true
	}
	return 0, false
}

// ranked is carried of ops that put the elements of a line in order. A place may be any where the bounds of its element meet those of
// another; an element of some rank moves no further than that which moves furthest.
func (e *evaluation) ranked(axis int, bound func(*known) []float64) [][]float64 {
	x, off, places := e.in[0].t, bound(e.in[0]), e.out[len(e.out)-1]
	moves, anything := make([]float64, places.Len()), make([]float64, places.Len())
	n, inner := x.Shape()[axis], x.Shape()[axis+1:].Elements()
	ranks := places.Len() * n / max(1, x.Len())
	for i := range places.Len() {
		first := i/(ranks*inner)*n*inner + i%inner
		chosen := first + int(places.Int64(i))*inner
		for at := first; at < first+n*inner; at += inner {
			moves[i] = max(moves[i], off[at])
			both := off[at] + off[chosen]
			if at != chosen && both > 0 && !(math.Abs(number(x, at)-number(x, chosen)) > both) {
				anything[i] = math.Inf(1)
			}
		}
	}
	return [][]float64{moves, anything}[2-len(e.out):]
}
