package sharing

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/tensor"
)

type holder struct {
	kind any
	data *tensor.Tensor
}

func (h *holder) Content() (any, *tensor.Tensor) { return h.kind, h.data }

// TestTable: a tensor is found by its bytes, type, shape and kind, and by nothing less.
func TestTable(t *testing.T) {
	numbers := func(shape ...int) *tensor.Tensor {
		x := tensor.New(tensor.F32, shape...)
		for i := range x.Len() {
			x.SetFloat64(i, float64(i%7))
		}
		return x
	}
	var table Table[*holder]
	first := &holder{"a", numbers(100, 40)}
	table.Add(first)
	find := func(kind any, x *tensor.Tensor) bool {
		h, ok := table.Find(kind, x)
		require.True(t, !ok || h == first)
		return ok
	}
	require.True(t, find("a", numbers(100, 40)))
	require.False(t, find("b", numbers(100, 40)), "of another kind")
	require.False(t, find("a", numbers(40, 100)), "of another shape")
	require.False(t, find("a", numbers(100, 40).Bitcast(tensor.I32)), "of another type")
	for i := 7; i < 4000; i += 97 { // most of them where no sample is taken
		x := numbers(100, 40)
		x.SetFloat64(i, x.Float64(i)+1)
		require.False(t, find("a", x), "element %d differs", i)
	}
	require.Equal(t, 1, table.Len())
	table.Remove(first)
	require.False(t, find("a", numbers(100, 40)))
	require.Zero(t, table.Len())
}
