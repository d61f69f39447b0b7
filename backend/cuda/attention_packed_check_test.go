//go:build gpu || emulated

package cuda

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// rowsTolerance is how far results, which are below 2, may be off.
var rowsTolerance = map[tensor.DType]float64{tensor.F32: 2e-5, tensor.TF32: 4e-3, tensor.F16: 4e-3, tensor.BF16: 3e-2}

// TestPackedAttention compares packed attention with Eval, and with zeros for tokens of no sequence.
func TestPackedAttention(t *testing.T) {
	for _, precision := range []tensor.DType{tensor.Invalid, tensor.TF32} {
		onDevices(t, backend.Options{Precision: precision}, func(t *testing.T, d *Device) {
			for _, dtype := range []tensor.DType{tensor.F32, tensor.F16, tensor.BF16} {
				for _, size := range []int{7, 8, 32, 64, 128} {
					for name := range packedBodies {
						few := size == 7 || size == 128 // whose kernels differ from others by their sizes alone
						if precision == tensor.TF32 && (dtype != tensor.F32 || size != 32 && size != 64) || few && name != "plain" &&
							name != "bias" && name != "relative" ||
							d.ctx.Capability() < 80 && dtype != tensor.F32 && size > 8 || size > 8 &&
							(name == "relative" || name == "by key") {
							continue // as others
						}
						atol := rowsTolerance[dtype]
						if precision == tensor.TF32 {
							atol = rowsTolerance[precision]
						}
						for _, s := range rowSizes {
							checkPacked(t, d, fmt.Sprintf("%s, heads of %d %s, s=%d", name, size, dtype, s), packedCase(name, dtype, size),
								s, atol)
						}
					}
				}
			}
		})
	}
}

// checkPacked compares a case with its Eval; operand "p" is the positions of keys.
func checkPacked(t *testing.T, d *Device, name, text string, s int, atol float64) {
	t.Helper()
	g, err := ir.Parse(`graph "case" ` + text)
	require.NoError(t, err, name)
	b := ir.Binding{"s": s}
	inputs := backendtest.Inputs(t, g, b)
	for i, v := range g.Inputs {
		if v.Name == "p" {
			for k := range inputs[i].Len() {
				inputs[i].SetInt64(k, int64(min(k, 149)))
			}
		}
	}
	want, err := ir.Interpret(g, inputs)
	require.NoError(t, err, name)
	got := run(t, d, g, b, inputs, name, true)
	for i := range want {
		backendtest.Agree(t, name, got[i], want[i], atol, 0)
	}
}

// TestHeadsOfCertainSizes compares attention with Eval around the edges of tiles: without a mask, with one by keys, and with all that the
// general kernels know.
func TestHeadsOfCertainSizes(t *testing.T) {
	onDevices(t, backend.Options{}, func(t *testing.T, d *Device) {
		for _, dtype := range []tensor.DType{tensor.F32, tensor.F16, tensor.BF16} {
			for _, size := range []int{32, 64, 128} {
				for _, s := range attentionSizes {
					text := fmt.Sprintf(`(%%0 "q": T[2,s+3,2,%[1]d], %%1 "k": T[2,s,1,%[1]d], %%2 "v": T[2,s,1,%[1]d], %%3 "m": T[2,1,1,s],
						%%4 "b": T[1,2,s+3,s]) { %%5 = attention(%%0, %%1, %%2) {scale=0.3} %%6 = attention(%%0, %%1, %%2, %%3) {scale=0.3}
						%%7 = attention(%%0, %%1, %%2, %%4) {scale=0.3, causal=true, window=90, softcap=4, nanguard=true}
						return %%5 as "x", %%6 as "y", %%7 as "z" }`, size)
					text = strings.ReplaceAll(text, ": T[", ": "+dtype.String()+"[")
					checkPacked(t, d, fmt.Sprintf("heads of %d %s, s=%d", size, dtype, s), text, s, rowsTolerance[dtype])
				}
			}
		}
	})
}

// manySequences is a program of more sequences than a block has threads.
func manySequences(size int) string {
	var rows []string
	for i := range 300 {
		rows = append(rows, fmt.Sprintf("%[1]d, %[2]d, %[1]d, %[2]d", 7*i+i*i%7, 7*i+7))
	}
	return fmt.Sprintf(`(%%0 "x": f32[1,2100,1,%d]) { const %%9: i32[300,4] = [%s] %%1 = attention(%%0, %%0, %%0, _, %%9) {scale=0.3}
	return %%1 as "y" }`, size, strings.Join(rows, ", "))
}

// TestManySequences has more sequences than a block has threads.
func TestManySequences(t *testing.T) {
	onDevices(t, backend.Options{}, func(t *testing.T, d *Device) {
		for _, size := range []int{5, 32} {
			checkPacked(t, d, fmt.Sprintf("many sequences, heads of %d", size), manySequences(size), 1, 2e-5)
		}
	})
}
