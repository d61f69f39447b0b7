package backend_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/tensor"
)

type operand struct {
	shape   tensor.Shape
	strides []int
}

func (o operand) Axes() (tensor.Shape, []int) { return o.shape, o.strides }

func dense(shape ...int) operand { return operand{shape, tensor.Shape(shape).Strides()} }

func TestNest(t *testing.T) {
	turned := operand{tensor.Shape{4, 5}, []int{1, 4}}
	for name, c := range map[string]struct {
		shape    tensor.Shape
		operands []operand
		want     backend.Nest
	}{
		"even": {tensor.Shape{2, 3, 4}, []operand{dense(2, 3, 4), dense(2, 3, 4)},
			backend.Nest{Shape: []int{24}, Strides: [][]int{{1}, {1}}}},
		"row": {tensor.Shape{2, 3, 4}, []operand{dense(2, 3, 4), dense(4)},
			backend.Nest{Shape: []int{6, 4}, Strides: [][]int{{4, 1}, {0, 1}}}},
		"column": {tensor.Shape{2, 3, 4}, []operand{dense(2, 3, 4), dense(2, 1, 1)},
			backend.Nest{Shape: []int{2, 12}, Strides: [][]int{{12, 1}, {1, 0}}}},
		"middle": {tensor.Shape{2, 3, 4}, []operand{dense(2, 3, 4), dense(2, 1, 4)},
			backend.Nest{Shape: []int{2, 3, 4}, Strides: [][]int{{12, 4, 1}, {4, 0, 1}}}},
		"scalar": {tensor.Shape{2, 3}, []operand{dense(2, 3), dense()}, backend.Nest{Shape: []int{6}, Strides: [][]int{{1}, {0}}}},
		"turned": {tensor.Shape{4, 5}, []operand{dense(4, 5), turned},
			backend.Nest{Shape: []int{4, 5}, Strides: [][]int{{5, 1}, {1, 4}}}},
		"axes of size 1": {tensor.Shape{1, 3, 1}, []operand{dense(1, 3, 1), dense(3, 1)},
			backend.Nest{Shape: []int{3}, Strides: [][]int{{1}, {1}}}},
		"one element": {tensor.Shape{1, 1}, []operand{dense(1, 1)}, backend.Nest{Strides: [][]int{nil}}},
		"none":        {tensor.Shape{2, 0, 3}, []operand{dense(2, 0, 3)}, backend.Nest{Shape: []int{0}, Strides: [][]int{{1}}}},
	} {
		require.Equal(t, c.want, backend.NewNest(c.shape, c.operands...), name)
	}
}
