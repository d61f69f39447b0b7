//go:build gpu || emulated

package cuda_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/fixtures"
	"github.com/rlxc/rlxc/internal/modeltest"
	"github.com/rlxc/rlxc/tensor"
)

// TestUnpad holds programs without padding to the same on the processor: in float32 by every element, in others by the angle.
func TestUnpad(t *testing.T) {
	device(t)
	for name, open := range unpaddedModels {
		m := open(t)
		cpu := modeltest.Session(t, m, rlxc.CompileOptions{Unpad: true})
		for precision, least := range map[tensor.DType]float64{tensor.F32: 1, tensor.TF32: 0.99999, tensor.F16: 0.99999,
			tensor.BF16: 0.999} {
			t.Run(fmt.Sprint(name, " ", precision), func(t *testing.T) {
				gpu := modeltest.Session(t, m, rlxc.CompileOptions{Backend: "cuda", Unpad: true, Precision: precision, Verify: true})
				r := rand.New(rand.NewPCG(1, 2))
				for _, shape := range [][2]int{{1, 1}, {3, 16}, {2, 40}, {5, 70}} {
					in := sequencesFor(m, shape[0], shape[1], r)
					want, err := cpu.Run(context.Background(), in)
					require.NoError(t, err)
					got, err := gpu.Run(context.Background(), in)
					require.NoError(t, err)
					for output, w := range want {
						if precision == tensor.F32 {
							require.InDeltaSlice(t, w.Float64s(), got[output].Float64s(), 2e-4, "%v %s", shape, output)
						} else {
							require.Greater(t, modeltest.Cosine(got[output], w), least, "%v %s", shape, output)
						}
					}
				}
			})
		}
	}
}

// TestUnpadRows holds each text of a batch to the same text alone, without padding in both; what quantises activations in each run, too.
func TestUnpadRows(t *testing.T) {
	device(t)
	models := map[string]func(t *testing.T) *rlxc.Model{}
	for name, open := range unpaddedModels {
		models[name] = open
	}
	for _, name := range []string{"bert-tiny-qa", "bert-tiny-mlm", "bert-tiny-fp16", "bert-tiny-int4", "bert-tiny-int8-dynamic",
		"bert-tiny-int8-dynamic-ortsaved", "distilbert", "roberta"} {
		if _, err := os.Stat(filepath.Join(fixtures.Dir(t), name)); err != nil {
			t.Logf("%s is not here", name)
			continue
		}
		models[name] = func(t *testing.T) *rlxc.Model {
			m, err := rlxc.Open(fixtures.Model(t, name))
			require.NoError(t, err)
			t.Cleanup(func() { m.Close() })
			return m
		}
	}
	for name, open := range models {
		t.Run(name, func(t *testing.T) {
			m := open(t)
			s := modeltest.Session(t, m, rlxc.CompileOptions{Backend: "cuda", Unpad: true, Verify: true})
			tolerance := 1e-5
			if strings.HasSuffix(name, "fp16") {
				tolerance = 1.0 / 512 // every value in between rounds to 11 bits
			}
			r := rand.New(rand.NewPCG(3, 4))
			for _, shape := range [][2]int{{3, 20}, {7, 9}, {2, 75}} {
				in := sequencesFor(m, shape[0], shape[1], r)
				out, err := s.Run(context.Background(), in)
				require.NoError(t, err)
				all := rlxc.Tensors{}
				for name, y := range out {
					all[name] = y.Clone()
				}
				for b := range shape[0] {
					one := rlxc.Tensors{}
					for name, x := range in {
						one[name] = tensor.FromSlice(slices.Clone(tensor.Of[int64](x)[b*shape[1]:][:shape[1]]), 1, shape[1])
					}
					want, err := s.Run(context.Background(), one)
					require.NoError(t, err)
					for output, w := range want {
						for i := range w.Len() {
							x := w.Float64(i)
							require.InDelta(t, x, all[output].Float64(b*w.Len()+i), tolerance*(1+math.Abs(x)),
								"%v: %s of row %d, element %d", shape, output, b, i)
						}
					}
				}
			}
		})
	}
}
