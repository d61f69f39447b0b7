package backend

import (
	"github.com/rlxc/rlxc/tensor"
)

// An Operand is a tensor in memory: its shape, and the distance of neighbours along each axis in elements.
type Operand interface {
	Axes() (shape tensor.Shape, strides []int)
}

// A Nest is the loop nest over operands of one shape, to which they are broadcast. Neighbouring axes are merged if one step along the outer
// axis is a whole length of the inner one in every operand, and axes of size 1 are left out. So most nests have one loop or two, and a nest
// over single elements has none. For example, two row-major operands of [2, 8, 384] have one loop of 6,144 elements.
type Nest struct {
	Shape   []int   // sizes of the loops, the outermost first
	Strides [][]int // strides in elements of each operand, a number for each loop; 0 where the operand is broadcast
}

// NewNest makes the nest over shape. Operands of a lower rank or with axes of size 1 are broadcast.
func NewNest[O Operand](shape tensor.Shape, operands ...O) Nest {
	n := Nest{Strides: make([][]int, len(operands))}
	for axis, size := range shape {
		if size == 1 {
			continue
		}
		along := make([]int, len(operands))
		for i, o := range operands {
			own, strides := o.Axes()
			if k := axis - (len(shape) - len(own)); k >= 0 && own[k] != 1 {
				along[i] = strides[k]
			}
		}
		n.push(size, along)
	}
	return n
}

// push adds an inner axis, merged with the one before where every operand continues evenly.
func (n *Nest) push(size int, along []int) {
	last := len(n.Shape) - 1
	even := last >= 0
	for i, s := range along {
		even = even && n.Strides[i][last] == s*size
	}
	if even { // the two are one
		size *= n.Shape[last]
		n.Shape = n.Shape[:last]
	}
	n.Shape = append(n.Shape, size)
	for i, s := range along {
		n.Strides[i] = append(n.Strides[i][:len(n.Shape)-1], s)
	}
}
