//go:build gpu

package cuda_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/modeltest"
	"github.com/rlxc/rlxc/tensor"
)

func TestManyShapesOnDevice(t *testing.T) { manyShapes(t, 2000) }

// TestSpeedOfDecoder prints what a step of a decoder of GPT-2's size takes, with its cache on the device and through the host: the run
// alone, and at a new length, which is bound first. It asserts nothing, and runs if RLXC_SPEED has "decoder".
func TestSpeedOfDecoder(t *testing.T) {
	if !strings.Contains(os.Getenv("RLXC_SPEED"), "decoder") {
		t.Skip("RLXC_SPEED has no decoder")
	}
	const heads, size, room = 12, 64, 4096
	m, err := rlxc.FromProto(modeltest.Decoder(12, heads, size), "decoder")
	require.NoError(t, err)
	defer m.Close()
	for _, precision := range []tensor.DType{tensor.F32, tensor.F16} {
		p, err := m.Compile(context.Background(), rlxc.CompileOptions{Backend: "cuda", Precision: precision})
		require.NoError(t, err)
		for _, length := range []int{128, 1024, 4000} {
			x := rlxc.Tensors{"x": tensor.New(tensor.F32, 1, 1, heads*size)}
			kept, err := p.NewSession()
			require.NoError(t, err)
			plain, err := p.NewSession()
			require.NoError(t, err)
			through := rlxc.Tensors{"x": x["x"]}
			var all []*rlxc.DeviceTensor
			for _, v := range p.Inputs()[1:] {
				past := tensor.New(tensor.F32, 1, heads, length, size)
				k, err := p.NewGrowingTensor(past, 2, room)
				require.NoError(t, err)
				require.NoError(t, kept.BindInput(v.Name, k))
				require.NoError(t, kept.BindOutput("present"+strings.TrimPrefix(v.Name, "past"), k))
				all, through[v.Name] = append(all, k), past
			}
			step := func(fresh bool) {
				if !fresh {
					for _, k := range all {
						require.NoError(t, k.Truncate(length))
					}
				}
				_, err := kept.Run(context.Background(), x)
				require.NoError(t, err)
			}
			step(false)
			steps := median(t, func() { step(false) })
			binds := median(t, func() { step(true) })
			trip := median(t, func() {
				_, err := plain.Run(context.Background(), through)
				require.NoError(t, err)
			})
			fmt.Printf("decoder %s, %4d positions: cache on the device %8.3f ms, at a new length %8.3f, through the host %8.3f\n",
				precision, length, steps, binds, trip)
			for _, k := range all {
				require.NoError(t, k.Close())
			}
			require.NoError(t, kept.Close())
			require.NoError(t, plain.Close())
		}
		require.NoError(t, p.Close())
	}
}

// median is that of the milliseconds that some runs take.
func median(t *testing.T, run func()) float64 {
	t.Helper()
	var times []time.Duration
	for range 30 {
		began := time.Now()
		run()
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	return times[len(times)/2].Seconds() * 1e3
}
