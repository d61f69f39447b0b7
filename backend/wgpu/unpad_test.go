package wgpu_test

import (
	"archive/zip"
	"context"
	"flag"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/fixtures"
	"github.com/rlxc/rlxc/internal/modeltest"
	"github.com/rlxc/rlxc/tensor"
)

// unpadPlaces is more than a sanity check takes: go test ./backend/wgpu -run TestUnpadRows -timeout 5h -unpad-positions 20000
var unpadPlaces = flag.Int("unpad-places", 150, "places that TestUnpadRows draws for each model")

// TestUnpadRows holds the rows of batches without padding to what they are alone with it, on the same device: for masks of all kinds, of
// every encoder of the fixtures whose attention has a kernel, and of exports that know positions by distances, windows and angles.
func TestUnpadRows(t *testing.T) {
	needLibrary(t)
	models := map[string]func(t *testing.T) *rlxc.Model{}
	for _, name := range []string{"bert-tiny", "bert-tiny-dynamo", "bert-tiny-qa", "bert-tiny-mlm", "bert-tiny-int4", "bert-tiny-fp16",
		"distilbert", "roberta", "minilm"} {
		models[name] = func(t *testing.T) *rlxc.Model {
			m, err := rlxc.Open(fixtures.Model(t, name))
			require.NoError(t, err)
			return m
		}
	}
	models["bert-tiny-qdq"] = func(t *testing.T) *rlxc.Model { return modeltest.BuiltIn(t, "bert-tiny-qdq") }
	for _, name := range []string{"alibi-dynamo-20", "modernbert-legacy-17", "mpnet-dynamo-20", "t5-legacy-17", "deberta-dynamo-20"} {
		models[name] = func(t *testing.T) *rlxc.Model { return exported(t, name) }
	}
	for name, open := range models {
		t.Run(name, func(t *testing.T) {
			m := open(t)
			defer m.Close()
			alone := modeltest.Session(t, m, rlxc.CompileOptions{Backend: "wgpu"})
			s := modeltest.Session(t, m, rlxc.CompileOptions{Backend: "wgpu", Unpad: true, Verify: true})
			tolerance := 1e-5
			if strings.HasSuffix(name, "fp16") {
				tolerance = 1.0 / 512 // every value in between rounds to 11 bits
			}
			r := rand.New(rand.NewPCG(1, 2))
			left := *unpadPlaces
			if name == "minilm" {
				left /= 10
			}
			for left > 0 {
				texts := 1 + r.IntN(min(64, left))
				length := 1 + r.IntN(min(150, 1+left/texts))
				left -= texts * length
				requireRowsAlone(t, m, alone, s, texts, length, tolerance, r)
			}
		})
	}
}

// requireRowsAlone runs a batch of texts with drawn masks, and each of them alone.
func requireRowsAlone(t *testing.T, m *rlxc.Model, alone, s *rlxc.Session, texts, length int, tolerance float64, r *rand.Rand) {
	t.Helper()
	in := rlxc.Tensors{}
	for _, v := range m.Inputs() {
		x := tensor.New(v.DType, texts, length)
		kind, from, to := r.IntN(4), r.IntN(length), 1+r.IntN(length)
		for i := range x.Len() {
			place := i % length
			switch v.Name {
			case "attention_mask": // padding after, in front, anywhere; of one text all
				keeps := [...]bool{place < to, place >= from, r.IntN(3) > 0, i >= length}[kind]
				x.SetInt64(i, map[bool]int64{true: 1}[keeps])
			case "token_type_ids":
				x.SetInt64(i, r.Int64N(2))
			default:
				x.SetInt64(i, 3+r.Int64N(90))
			}
		}
		in[v.Name] = x
	}
	out, err := s.Run(context.Background(), in)
	require.NoError(t, err)
	got := rlxc.Tensors{}
	for name, y := range out {
		got[name] = y.Clone()
	}
	for b := range texts {
		one := rlxc.Tensors{}
		for name, x := range in {
			one[name] = tensor.FromSlice(tensor.Of[int64](x)[b*length:][:length], 1, length)
		}
		mask := tensor.Of[int64](one["attention_mask"])
		want, err := alone.Run(context.Background(), one)
		require.NoError(t, err)
		for _, v := range m.Outputs() {
			w, size := want[v.Name], want[v.Name].Len()
			_, fixed := strconv.Atoi(v.Shape[1])
			for i := range size {
				x := w.Float64(i)
				switch {
				case fixed != nil && mask[i/(size/length)] == 0: // of a token that is padding
					x = 0
				case !slices.Contains(mask, 1):
					continue // an average over padding
				}
				require.InDelta(t, x, got[v.Name].Float64(b*size+i), tolerance*(1+math.Abs(x)), "%s of row %d of %d×%d, element %d",
					v.Name, b, texts, length, i)
			}
		}
	}
}

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

// TestUnpad holds programs without padding to the same on the processor, and to kernels for all of their steps: of masks with holes,
// windows, biases and scores by position.
func TestUnpad(t *testing.T) {
	needLibrary(t)
	for name, m := range map[string]*rlxc.Model{"bert-tiny": modeltest.BuiltIn(t, "bert-tiny"),
		"modernbert": exported(t, "modernbert-dynamo-20"), "mpnet": exported(t, "mpnet-legacy-17"),
		"alibi": exported(t, "alibi-legacy-17"), "t5": exported(t, "t5-legacy-17"), "deberta": exported(t, "deberta-legacy-17")} {
		p, err := m.Compile(context.Background(), rlxc.CompileOptions{Backend: "wgpu", Unpad: true, Verify: true})
		require.NoError(t, err)
		require.True(t, p.Unpadded(), name)
		report, err := p.Plan(map[string]int{"batch": 3, "tokens": 30, "seq": 16})
		require.NoError(t, err)
		require.Empty(t, report.Host, name)
		gpu, err := p.NewSession()
		require.NoError(t, err)
		t.Cleanup(func() {
			require.NoError(t, gpu.Close())
			require.NoError(t, p.Close())
		})
		cpu := modeltest.Session(t, m, rlxc.CompileOptions{Unpad: true})
		r := rand.New(rand.NewPCG(1, 2))
		for _, shape := range [][2]int{{1, 1}, {3, 16}, {2, 40}} {
			in := modeltest.BERT(shape[0], shape[1], r)
			if name != "bert-tiny" { // of another vocabulary, and one kind
				delete(in, "token_type_ids")
				for i := range in["input_ids"].Len() {
					in["input_ids"].SetInt64(i, 3+in["input_ids"].Int64(i)%90)
				}
			}
			want, err := cpu.Run(context.Background(), in)
			require.NoError(t, err)
			got, err := gpu.Run(context.Background(), in)
			require.NoError(t, err)
			for output, w := range want {
				require.InDeltaSlice(t, w.Float64s(), got[output].Float64s(), 2e-4, "%s: %s", name, output)
			}
			// Without padding there is nothing to restore: outputs are those of the packed batch, which stay packed.
			rows := rlxc.PackedBatch{Starts: []int{0}, Inputs: rlxc.Tensors{}}
			for b := range shape[0] {
				rows.Starts = append(rows.Starts, (b+1)*shape[1])
			}
			in["attention_mask"] = tensor.FromSlice(slices.Repeat([]int64{1}, shape[0]*shape[1]), shape[0], shape[1])
			for input, x := range in {
				if input != "attention_mask" {
					rows.Inputs[input] = tensor.FromSlice(tensor.Of[int64](x), x.Len())
				}
			}
			want = rlxc.Tensors{}
			packed, err := gpu.RunPacked(context.Background(), rows)
			require.NoError(t, err)
			for output, y := range packed {
				want[output] = y.Clone()
			}
			got, err = gpu.Run(context.Background(), in)
			require.NoError(t, err)
			for output, w := range want {
				require.Equal(t, w.Float64s(), got[output].Float64s(), "%s: %s", name, output)
			}
		}
	}
}

// TestUnpadQuantised: each text of a model that quantises activations in each run has its own range, whatever is in the batch. Attention
// adds up in another order beside other texts, which no value here is so near to the middle of two steps as to show.
func TestUnpadQuantised(t *testing.T) {
	needLibrary(t)
	models := map[string]*rlxc.Model{"bert-tiny-int8": modeltest.BuiltIn(t, "bert-tiny-int8"),
		"bert-tiny-int4": modeltest.BuiltIn(t, "bert-tiny-int4")}
	for _, name := range []string{"bert-tiny-int8-dynamic", "bert-tiny-int8-dynamic-ortsaved", "minilm-int8-dynamic"} {
		m, err := rlxc.Open(fixtures.Model(t, name))
		require.NoError(t, err)
		defer m.Close()
		models[name] = m
	}
	for name, m := range models {
		t.Run(name, func(t *testing.T) {
			p, err := m.Compile(context.Background(), rlxc.CompileOptions{Backend: "wgpu", Unpad: true, Verify: true})
			require.NoError(t, err)
			defer p.Close()
			require.True(t, p.Unpadded())
			report, err := p.Plan(map[string]int{"batch": 3, "tokens": 30, "seq": 16})
			require.NoError(t, err)
			require.Empty(t, report.Host)
			s, err := p.NewSession()
			require.NoError(t, err)
			defer s.Close()
			in := modeltest.BERT(3, 16, rand.New(rand.NewPCG(1, 2)))
			all, err := s.Run(context.Background(), in)
			require.NoError(t, err)
			whole := map[string]*tensor.Tensor{}
			for output, x := range all {
				whole[output] = x.Clone()
			}
			for row := range 3 {
				alone := rlxc.Tensors{}
				for input, x := range in {
					alone[input] = tensor.FromSlice(tensor.Of[int64](x)[row*16:][:16], 1, 16)
				}
				got, err := s.Run(context.Background(), alone)
				require.NoError(t, err)
				for output, x := range got {
					n := x.Len()
					want, err := tensor.FromBytes(tensor.F32, x.Shape(), whole[output].Bytes()[4*row*n:][:4*n])
					require.NoError(t, err)
					require.LessOrEqual(t, 1-modeltest.Cosine(x, want), 1e-9, "%s, row %d", output, row)
				}
			}
		})
	}
}
