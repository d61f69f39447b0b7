package gpu

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// streamGraph has steps that read weights of 64, 16, 16 and 8 KiB, the last of which two steps read, and a bias.
const streamGraph = `graph "" (%0 "x": f32[b,16]) { const %1: f32[16,1024] = data %2 = matmul(%0, %1) const %3: f32[1024,4] = data
	%4 = matmul(%2, %3) const %5: f32[4,1024] = data %6 = matmul(%4, %5) const %7: f32[1024,2] = data %8 = matmul(%6, %7)
	%9 = matmul(%2, %7) %10 = add(%8, %9) const %11: f32[2] = [1,2] %12 = add(%10, %11) return %12 as "y" }`

// TestWeightsThatFit: the fewest and smallest weights stay on the host with which the others and the stream are within the limit.
func TestWeightsThatFit(t *testing.T) {
	const kib, all, bias = 1 << 10, 104 << 10, streamAlign
	for _, c := range []struct {
		limit  int64
		onHost string // sizes of the weights that stay on the host, in KiB
	}{
		{0, "[]"},
		{all + bias, "[]"},
		{all + bias - 1, "[16 8]"}, // the 8 KiB alone need as much of the stream
		{all + bias - 8*kib, "[16 8]"},
		{all + bias - 8*kib - 1, "[16 16]"},
		{all + bias - 16*kib, "[16 16]"},
		{all + bias - 16*kib - 1, "[16 16 8]"},
		{all + bias - 24*kib, "[16 16 8]"},
		{all + bias - 24*kib - 1, "[64 16 16]"}, // and a stream of 64 KiB
		{72*kib + bias, "[64 16 16]"},
		{64*kib + bias, "[64 16 16 8]"},
	} {
		t.Run(fmt.Sprint(c.limit), func(t *testing.T) {
			g, err := ir.Parse(streamGraph)
			require.NoError(t, err)
			w := Weights{Limit: c.limit}
			add := func() error {
				return w.Add(g, func(t *tensor.Tensor) int64 { return t.Size() }, func(t *tensor.Tensor) *tensor.Tensor { return t })
			}
			require.NoError(t, add())
			onHost, sum := []int64{}, int64(0)
			for _, v := range g.Consts() {
				if w.OnHost(v.Const) {
					onHost = append(onHost, v.Const.Size()/kib)
				} else {
					sum += align(v.Const.Size(), streamAlign)
				}
			}
			require.Equal(t, c.onHost, fmt.Sprint(onHost))
			require.Equal(t, sum, w.resident)
			if c.limit > 0 {
				require.LessOrEqual(t, w.resident+w.stream, c.limit)
			}
			before := w.resident
			require.NoError(t, add()) // the same constants again
			require.Equal(t, before, w.resident)
		})
	}
	g, err := ir.Parse(streamGraph)
	require.NoError(t, err)
	w := Weights{Limit: 64*kib + bias - 1}
	err = w.Add(g, func(t *tensor.Tensor) int64 { return t.Size() }, func(t *tensor.Tensor) *tensor.Tensor { return t })
	over := (*memory.Error)(nil)
	require.True(t, errors.As(err, &over))
	require.EqualValues(t, 64*kib+bias, over.Need)
}

// TestLaterGraphsKeepTheStream: what the streams of earlier graphs need is not there for the weights of later ones.
func TestLaterGraphsKeepTheStream(t *testing.T) {
	const kib, all = 1 << 10, 104<<10 + streamAlign
	w := Weights{Limit: all - 8*kib}
	size := func(t *tensor.Tensor) int64 { return t.Size() }
	same := func(t *tensor.Tensor) *tensor.Tensor { return t }
	first, err := ir.Parse(streamGraph)
	require.NoError(t, err)
	require.NoError(t, w.Add(first, size, same)) // 24 KiB stay on the host, and the stream has 16
	require.EqualValues(t, all-24*kib, w.resident)
	second, err := ir.Parse(`graph "" (%0 "x": f32[b,4]) { const %1: f32[4,1024] = data %2 = matmul(%0, %1) return %2 as "y" }`)
	require.NoError(t, err)
	require.NoError(t, w.Add(second, size, same))
	require.True(t, w.OnHost(second.Consts()[0].Const))
	require.LessOrEqual(t, w.resident+w.stream, w.Limit)
}
