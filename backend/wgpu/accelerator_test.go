package wgpu

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/native"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TestDevicesShareAnAccelerator opens Devices of several precisions: they have one GPU device, the pipelines and the weights in
// common, and the last one that closes releases them.
func TestDevicesShareAnAccelerator(t *testing.T) {
	open(t, 0) // skips without the library
	const text = `graph "g" (%0 "x": f32[s,16]) { const %1: f32[16,16] = data %2 = matmul(%0, %1) return %2 as "y" }`
	d, err := Open(backend.Options{})
	require.NoError(t, err)
	half, err := Open(backend.Options{Precision: tensor.F16})
	require.NoError(t, err)
	same, err := Open(backend.Options{})
	require.NoError(t, err)
	require.True(t, d.accelerator == half.accelerator)
	require.True(t, d.accelerator == same.accelerator)

	g, err := ir.Parse(text)
	require.NoError(t, err)
	_, err = d.Prepare(g)
	require.NoError(t, err)
	again, err := ir.Parse(text) // whose constants are other tensors of the same bytes
	require.NoError(t, err)
	_, err = same.Prepare(again)
	require.NoError(t, err)
	nearly, err := ir.Parse(text)
	require.NoError(t, err)
	tensor.Of[float32](nearly.Consts()[0].Const)[255]++
	_, err = half.Prepare(nearly)
	require.NoError(t, err)
	require.Equal(t, 2, d.constants.Len())
	memories := []backend.Memory{d.NewMemory(), same.NewMemory()}
	in, inputs := attach(t, d, memories[0], g, 3)
	want, err := in.Run(context.Background(), inputs)
	require.NoError(t, err)
	first := want[0].Clone()
	require.Len(t, d.weights, 1)
	pipelines := len(d.pipelines)

	other, inputs := attach(t, same, memories[1], again, 3)
	require.Len(t, d.weights, 1, "one upload for two Devices")
	require.Len(t, d.pipelines, pipelines)
	memories[0].Close()
	require.NoError(t, d.Close())
	got, err := other.Run(context.Background(), inputs)
	require.NoError(t, err)
	require.Equal(t, first.Bytes(), got[0].Bytes())
	require.Len(t, same.weights, 1)
	memories[1].Close()
	require.NoError(t, same.Close())
	require.Empty(t, half.weights, "nobody uses the weight any more")
	require.Equal(t, 1, d.constants.Len())

	half.gpu.Lose()
	_, err = half.gpu.Buffer("late", 64, native.ForStorage)
	require.ErrorIs(t, err, native.ErrLost)
	after, err := Open(backend.Options{})
	require.NoError(t, err, "a GPU that one Device lost is opened anew")
	require.False(t, half.accelerator == after.accelerator)
	require.NoError(t, half.Close())
	require.NoError(t, after.Close())
	accelerators.Lock()
	defer accelerators.Unlock()
	for _, x := range accelerators.by {
		require.False(t, after.accelerator == x)
	}
}
