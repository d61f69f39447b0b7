package cpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// packedBy prepares a product with a constant matrix on a device; some of its elements are larger by 1.
func packedBy(t *testing.T, d *Device, fill float32, larger ...int) *tensor.Tensor {
	t.Helper()
	g := ir.NewGraph("")
	w := tensor.New(tensor.F32, 300, 40)
	for i := range w.Len() {
		w.SetFloat64(i, float64(fill)+float64(i%7))
	}
	for _, i := range larger {
		w.SetFloat64(i, w.Float64(i)+1)
	}
	out, err := g.Append(ir.MatMul{}, []*ir.Value{g.AddInput("x", ir.TensorOf(tensor.F32, ir.Sym("n"), ir.N(300))), g.NewConst("w", w)})
	require.NoError(t, err)
	g.Outputs = out
	count, err := d.Prepare(g)
	require.NoError(t, err)
	require.Equal(t, 1, count)
	return g.Nodes[0].Inputs[ir.MatMulB].Packed.Data
}

// TestEqualWeightsAreShared: Devices that pack equal weights hold them once, until the last one closes; others have their own.
func TestEqualWeightsAreShared(t *testing.T) {
	open := func(o backend.Options) *Device {
		d, err := Open(o)
		require.NoError(t, err)
		return d
	}
	a, b, c, half := open(backend.Options{}), open(backend.Options{Threads: 1}), open(backend.Options{}),
		open(backend.Options{Precision: tensor.BF16})
	first := packedBy(t, a, 0.5)
	want := append([]byte{}, first.Bytes()...)
	require.Same(t, first, packedBy(t, b, 0.5))
	other := packedBy(t, c, 0.25)
	require.NotSame(t, first, other)
	require.NotSame(t, first, packedBy(t, half, 0.5), "in another format")
	require.Same(t, other, packedBy(t, b, 0.25), "of a second shelf")
	for i := 7; i < 300*40; i += 997 { // most of them where no sample is taken
		require.NotSame(t, first, packedBy(t, c, 0.5, i), "element %d differs", i)
	}

	require.NoError(t, a.Close())
	require.Equal(t, want, first.Bytes(), "b reads it still")
	d := open(backend.Options{})
	require.Same(t, first, packedBy(t, d, 0.5))
	for _, d := range []*Device{b, c, half, d} {
		require.NoError(t, d.Close())
	}
	require.Zero(t, shelves.Len())

	e := open(backend.Options{})
	require.NotSame(t, first, packedBy(t, e, 0.5), "nothing is found that nobody uses")
	require.NoError(t, e.Close())
}
