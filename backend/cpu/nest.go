package cpu

import "github.com/rlxc/rlxc/tensor"

// A nest is the loop nest over operands of one, broadcast, shape: axes that lie evenly in all operands are merged, so
// that most elementwise steps are one or two loops. It is cut into parts by rows, the runs along the last axis.
type nest struct {
	shape   []int   // merged
	strides [][]int // by operand, along shape; 0 where the operand is broadcast
	rows    int     // all axes but the last, flattened
	cols    int
	perPart int // rows of a part
}

// partElements is the size of a part: long enough to be worth claiming, short enough to spread.
const partElements = 16 << 10

// newNest makes the nest over shape. Operands of a lower rank or with axes of size 1 are broadcast.
func newNest(shape tensor.Shape, operands ...*operand) *nest {
	n := &nest{strides: make([][]int, len(operands))}
	for axis, size := range shape {
		if size == 1 && len(shape) > 1 {
			continue
		}
		st := make([]int, len(operands))
		for i, o := range operands {
			if k := axis - (len(shape) - len(o.shape)); k >= 0 && o.shape[k] != 1 {
				st[i] = o.strides[k]
			}
		}
		n.push(size, st)
	}
	if len(n.shape) == 0 {
		n.push(1, make([]int, len(operands)))
	}
	last := len(n.shape) - 1
	n.cols, n.rows = n.shape[last], 1
	for _, d := range n.shape[:last] {
		n.rows *= d
	}
	n.perPart = max(1, partElements/max(n.cols, 1))
	return n
}

// push adds an inner axis, merged with the one before where every operand goes on evenly.
func (n *nest) push(size int, st []int) {
	if last := len(n.shape) - 1; last >= 0 {
		even := true
		for i, s := range st {
			even = even && n.strides[i][last] == s*size
		}
		if even {
			n.shape[last] *= size
			for i, s := range st {
				n.strides[i][last] = s
			}
			return
		}
	}
	n.shape = append(n.shape, size)
	for i, s := range st {
		n.strides[i] = append(n.strides[i], s)
	}
}

// parts is the number of independent pieces; a result without elements has none.
func (n *nest) parts() int {
	if n.cols == 0 {
		return 0
	}
	return (n.rows + n.perPart - 1) / n.perPart
}

// col is operand i's stride along a row.
func (n *nest) col(i int) int { return n.strides[i][len(n.shape)-1] }

// row is operand i's stride between neighbouring rows of a block (see blocks).
func (n *nest) row(i int) int {
	if len(n.shape) < 2 {
		return 0
	}
	return n.strides[i][len(n.shape)-2]
}

// maxOperands bounds the operands of an elementwise step; offsets live on the stack.
const maxOperands = 4

// blocks calls f for runs of rows of a part that are evenly strided: rows is their number, at the offset in elements of
// each operand's first one.
func (n *nest) blocks(part int, f func(rows int, at [maxOperands]int)) {
	lo, hi := part*n.perPart, min((part+1)*n.perPart, n.rows)
	run := 1
	if len(n.shape) > 1 {
		run = n.shape[len(n.shape)-2]
	}
	for lo < hi {
		rows := min(run-lo%run, hi-lo)
		var at [maxOperands]int
		rest := lo
		for k := len(n.shape) - 2; k >= 0; k-- {
			c := rest % n.shape[k]
			rest /= n.shape[k]
			for i := range n.strides {
				at[i] += c * n.strides[i][k]
			}
		}
		f(rows, at)
		lo += rows
	}
}
