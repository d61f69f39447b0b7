package cpu

import (
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/tensor"
)

// A nest is a loop nest cut into parts: some rows, the runs along the last axis, or a piece of a long one. It has one axis at least.
type nest struct {
	backend.Nest
	rows    int // all axes but the last, flattened
	cols    int
	perPart int // rows of a part
	pieces  int // number of pieces of each row
}

// partElements is the size of a part: long enough to be worth claiming, short enough to spread.
const partElements = 16 << 10

// partSize is the size of a part of n elements. Few are cut further, down to a quarter: many threads share a short text, and a thread
// takes longer to get what others wrote than to work on it.
func partSize(n int) int { return min(max(n/16, partElements/4), partElements) }

func newNest(shape tensor.Shape, operands ...*operand) *nest {
	n := &nest{Nest: backend.NewNest(shape, operands...)}
	if len(n.Shape) == 0 {
		n.Shape = []int{1}
		for i := range n.Strides {
			n.Strides[i] = []int{0}
		}
	}
	last := len(n.Shape) - 1
	n.cols, n.rows = n.Shape[last], 1
	for _, d := range n.Shape[:last] {
		n.rows *= d
	}
	part := partSize(n.rows * n.cols)
	n.perPart, n.pieces = max(1, part/max(n.cols, 1)), max(1, ceilDiv(n.cols, part))
	return n
}

// wholeRows leaves rows in one piece, for steps whose elements of a row depend on each other.
func (n *nest) wholeRows() *nest {
	n.pieces = 1
	return n
}

// parts is the number of independent pieces; a result without elements has none.
func (n *nest) parts() int {
	if n.cols == 0 {
		return 0
	}
	return ceilDiv(n.rows, n.perPart) * n.pieces
}

// col is operand i's stride along a row.
func (n *nest) col(i int) int { return n.Strides[i][len(n.Shape)-1] }

// row is operand i's stride between neighbouring rows of a block (see blocks).
func (n *nest) row(i int) int {
	if len(n.Shape) < 2 {
		return 0
	}
	return n.Strides[i][len(n.Shape)-2]
}

// maxOperands bounds the operands of an elementwise step; offsets live on the stack.
const maxOperands = 4

// pieceUnit is what the lengths of pieces are multiples of: whole lines of the cache.
const pieceUnit = 64

// blocks calls f for runs of rows of a part that are evenly strided: rows is their number, cols that of the elements of each, at the
// offset in elements of each operand's first one.
func (n *nest) blocks(part int, f func(rows, cols int, at [maxOperands]int)) {
	if n.rows == 1 && n.pieces == 1 { // what small steps are
		f(1, n.cols, [maxOperands]int{})
		return
	}
	each := n.cols
	if n.pieces > 1 {
		each = ceilDiv(ceilDiv(n.cols, n.pieces), pieceUnit) * pieceUnit
	}
	left := part % n.pieces * each
	cols := min(each, n.cols-left)
	if cols <= 0 {
		return // the others have been rounded up
	}
	part /= n.pieces
	lo, hi := part*n.perPart, min((part+1)*n.perPart, n.rows)
	run := 1
	if len(n.Shape) > 1 {
		run = n.Shape[len(n.Shape)-2]
	}
	for lo < hi {
		rows := min(run-lo%run, hi-lo)
		var at [maxOperands]int
		for i := range n.Strides {
			at[i] = left * n.col(i)
		}
		rest := lo
		for k := len(n.Shape) - 2; k >= 0; k-- {
			c := rest % n.Shape[k]
			rest /= n.Shape[k]
			for i := range n.Strides {
				at[i] += c * n.Strides[i][k]
			}
		}
		f(rows, cols, at)
		lo += rows
	}
}

// rowParts cuts rows of cols elements into parts of about equal size.
func rowParts(rows, cols int) (parts, perPart int) {
	if rows == 0 || cols == 0 {
		return 0, 1
	}
	most := max(1, partSize(rows*cols)/cols)
	parts = ceilDiv(rows, most)
	return parts, ceilDiv(rows, parts)
}

// ceilDiv is a / b, rounded up.
func ceilDiv(a, b int) int { return (a + b - 1) / b }

// spread cuts a flat range into parts.
func spread(n int) (parts int, cut func(part int) (lo, hi int)) {
	each := partSize(n)
	return ceilDiv(n, each), func(part int) (int, int) { return part * each, min((part+1)*each, n) }
}

// fill sets every element of dst to v.
func fill[T any](dst []T, v T) {
	for i := range dst {
		dst[i] = v
	}
}
