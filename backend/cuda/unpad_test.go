package cuda_test

import (
	"archive/zip"
	"context"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/drivertest"
	"github.com/rlxc/rlxc/internal/modeltest"
	"github.com/rlxc/rlxc/tensor"
)

// exported opens a model of testdata/exports.
func exported(t *testing.T, name string) *rlxc.Model {
	z, err := zip.OpenReader("../../testdata/exports/" + name + ".zip")
	require.NoError(t, err)
	t.Cleanup(func() { z.Close() })
	m, err := rlxc.OpenFS(z, "model.onnx")
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

// sequencesFor makes a batch of sequences with padding in front, after and in the middle; ids are of the smallest vocabulary.
func sequencesFor(m *rlxc.Model, sequences, length int, r *rand.Rand) rlxc.Tensors {
	in := rlxc.Tensors{}
	for _, v := range m.Inputs() {
		x := tensor.New(v.DType, sequences, length)
		from, to := r.IntN(length), 1+r.IntN(length)
		for i := range x.Len() {
			b, s := i/length, i%length
			switch v.Name {
			case "attention_mask":
				if keeps := [...]bool{s < to, s >= from, r.IntN(3) > 0}[b%3]; keeps {
					x.SetInt64(i, 1)
				}
			case "token_type_ids":
				x.SetInt64(i, r.Int64N(2))
			default:
				x.SetInt64(i, 3+r.Int64N(90))
			}
		}
		in[v.Name] = x
	}
	return in
}

// unpaddedModels are models whose attention has masks with holes, windows, biases and scores by position, and quantised ones.
var unpaddedModels = map[string]func(t *testing.T) *rlxc.Model{}

func init() {
	for _, name := range []string{"bert-tiny"} {
		unpaddedModels[name] = func(t *testing.T) *rlxc.Model { return modeltest.BuiltIn(t, name) }
	}
	for _, name := range []string{"modernbert-dynamo-20", "modernbert-legacy-17", "mpnet-legacy-17", "alibi-legacy-17", "t5-legacy-17",
		"deberta-legacy-17", "deberta-dynamo-20"} {
		unpaddedModels[name] = func(t *testing.T) *rlxc.Model { return exported(t, name) }
	}
}

// TestUnpadOnTheHostSide: programs without padding have kernels for all of their steps.
func TestUnpadOnTheHostSide(t *testing.T) {
	models := maps.Clone(unpaddedModels)
	for _, name := range []string{"bert-tiny-qdq", "bert-tiny-int8", "bert-tiny-int4"} {
		models[name] = func(t *testing.T) *rlxc.Model { return modeltest.BuiltIn(t, name) }
	}
	for name, open := range models {
		for _, precision := range []tensor.DType{tensor.F32, tensor.F16} {
			t.Run(name+" "+precision.String(), func(t *testing.T) {
				t.Setenv("XDG_CACHE_HOME", t.TempDir())
				d := drivertest.New(t)
				m := open(t)
				p, err := m.Compile(context.Background(), rlxc.CompileOptions{Backend: "cuda", Unpad: true, Precision: precision,
					Verify: true})
				require.NoError(t, err)
				require.True(t, p.Unpadded(), p.Stats().Padded)
				report, err := p.Plan(map[string]int{"batch": 3, "tokens": 30, "seq": 16})
				require.NoError(t, err)
				require.Empty(t, report.Host)
				s, err := p.NewSession()
				require.NoError(t, err)
				_, err = s.Run(context.Background(), sequencesFor(m, 3, 16, rand.New(rand.NewPCG(1, 2))))
				require.NoError(t, err)
				packed := 0
				for k, n := range d.Kernels {
					if strings.Contains(k, "_rows") {
						packed += n
					}
				}
				require.NotZero(t, packed, "%v", d.Kernels)
				require.NotZero(t, d.Kernels["unpack"], "%v", d.Kernels)
				require.NoError(t, s.Close())
				require.NoError(t, p.Close())
			})
		}
	}
}
