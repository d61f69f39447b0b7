//go:build gpu

// These tests need an NVIDIA device: `go test -tags gpu ./backend/cuda`. CI has none; it vets them.

package cuda

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// The sizes of cases.
var caseSizes, rowSizes, attentionSizes = []int{1, 2, 7, 16, 33, 65}, []int{1, 40}, []int{1, 61, 64, 65, 125, 128, 129, 300}

// unitSizes are those of products on matrix units, and runsMapped whether kernels run whose operands come by the copy engine.
var unitSizes = [][3]int{{33, 8, 8}, {64, 64, 64}, {96, 72, 128}, {129, 264, 80}, {255, 192, 776}, {257, 520, 64}, {2100, 768, 128}}

const runsMapped = true

// onDevices calls a test for the device.
func onDevices(t *testing.T, o backend.Options, f func(t *testing.T, d *Device)) { f(t, open(t, o)) }

func TestEmptyOnDevice(t *testing.T) { backendtest.Empty(t, open(t, backend.Options{}), true) }

func TestGivesBackOnDevice(t *testing.T) { backendtest.GivesBack(t, open(t, backend.Options{})) }

// TestInfinity: GELU of −∞ is 0, alone and at the end of products of every kind.
func TestInfinity(t *testing.T) {
	for precision, kinds := range map[tensor.DType][]string{tensor.F32: {"f32", "f16", "bf16"}, tensor.TF32: {"f32"}} {
		d := open(t, backend.Options{Precision: precision})
		for _, kind := range kinds {
			for _, m := range []int{1, 40, 256} {
				text := fmt.Sprintf(`graph "case" (%%0 "x": %[1]s[%[2]d,64], %%1 "b": %[1]s[128]) {
					const %%2: %[1]s[64,128] = data %%3 = matmul(%%0, %%2, %%1) {act=gelu} %%4 = gelu(%%1)
					return %%3 as "y", %%4 as "z" }`, kind, m)
				g, err := ir.Parse(text)
				require.NoError(t, err)
				inputs := backendtest.Inputs(t, g, nil)
				inputs[1].SetFloat64(7, math.Inf(-1))
				inputs[1].SetFloat64(8, math.Inf(1))
				inputs[1].SetFloat64(9, math.NaN())
				out := run(t, d, g, nil, inputs, text, true)
				for _, y := range out {
					require.Zero(t, y.Float64(7), "%s %v %d", kind, precision, m)
					require.True(t, math.IsInf(y.Float64(8), 1))
					require.True(t, math.IsNaN(y.Float64(9)))
				}
			}
		}
	}
}

// TestIndexErrors leads every op that goes by tuples or scatters out of range: an error that says where, and the instance works on.
func TestIndexErrors(t *testing.T) {
	d := open(t, backend.Options{})
	for name, text := range backendtest.IndexCases {
		g, err := ir.Parse(`graph "case" ` + text)
		require.NoError(t, err, name)
		m := d.NewMemory()
		in, err := load(t, d, g, nil, name, true).Attach(m, nil)
		require.NoError(t, err, name)
		for _, bad := range []int64{5, -6, 1 << 40, -1 << 33} {
			index := tensor.New(tensor.I64, 2, 2)
			index.SetInt64(3, bad)
			_, err = in.Run(context.Background(), []*tensor.Tensor{index})
			require.ErrorContains(t, err, fmt.Sprintf("index %d is out of range: axis ", bad), name)
			require.ErrorContains(t, err, "has size 5", "%s, %d", name, bad)
			index.SetInt64(3, -5)
			want, err := ir.Interpret(g, []*tensor.Tensor{index})
			require.NoError(t, err, name)
			got, err := in.Run(context.Background(), []*tensor.Tensor{index})
			require.NoError(t, err, name)
			backendtest.Agree(t, name, got[0], want[0], 0, 0)
		}
		m.Close()
	}
}
