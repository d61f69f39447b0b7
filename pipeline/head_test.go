package pipeline

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/drivertest"
	"github.com/rlxc/rlxc/internal/inside"
	"github.com/rlxc/rlxc/internal/modeltest"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
	"github.com/rlxc/rlxc/tokenizer"
)

// TestPoolings holds each pooling, with and without the tokens of the prompt, to its definition over the vectors of the tokens: of a
// padded batch and of a packed one.
func TestPoolings(t *testing.T) {
	texts := append(mixed()[:12], "")
	weights := map[Pooling]func(i, from, n int) float64{ // of token i, of the tokens from to n−1
		PoolCLS:          func(i, from, _ int) float64 { return oneIf(i == from) },
		PoolLastToken:    func(i, _, n int) float64 { return oneIf(i == n-1) },
		PoolMean:         func(_, from, n int) float64 { return 1 / float64(n-from) },
		PoolMeanSqrt:     func(_, from, n int) float64 { return 1 / math.Sqrt(float64(n-from)) },
		PoolWeightedMean: func(i, from, n int) float64 { return float64(i+1) * 2 / float64(n*(n+1)-from*(from+1)) },
	}
	for _, mode := range Poolings() {
		for _, whole := range []bool{false, true} {
			folder := copyModel(t, "prompts")
			config := fmt.Sprintf(`{"pooling_mode": %q, "include_prompt": %v}`, mode, whole)
			write(t, filepath.Join(folder, "1_Pooling", "config.json"), config)
			for _, unpad := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/prompt=%v/unpad=%v", mode, whole, unpad), func(t *testing.T) {
					no, o := false, EmbedOptions{Side: Query}
					m, err := Open(t.Context(), folder, Options{Normalize: &no, Compile: rlxc.CompileOptions{Unpad: unpad}})
					require.NoError(t, err)
					defer m.Close()
					reads, err := m.engine.reading(m.heads.pooled.name)
					require.NoError(t, err)
					require.Equal(t, unpad, reads.packs)
					got, err := m.Embed(t.Context(), texts, o)
					require.NoError(t, err)
					vectors, err := m.EmbedTokens(t.Context(), texts, o)
					require.NoError(t, err)
					prompt, err := m.Prompt(o)
					require.NoError(t, err)
					skip, err := m.promptLength(t.Context(), prompt)
					require.NoError(t, err)
					for i, tokens := range vectors {
						n, from := len(tokens), skip
						if whole {
							from = 0
						}
						for k := range tokens[0] {
							want := math.Inf(-1)
							if mode != PoolMax {
								want = 0
							}
							for j := from; j < n; j++ {
								if x := float64(tokens[j][k]); mode == PoolMax {
									want = max(want, x)
								} else {
									want += weights[mode](j, from, n) * x
								}
							}
							require.InDelta(t, want, got[i][k], 1e-5, "text %d of %d tokens, number %d", i, n, k)
						}
					}
				})
			}
		}
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// TestHeadReturnsOneVector: a vector of each text comes back from a device, and none of its tokens, with padding and without.
func TestHeadReturnsOneVector(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	const length, size = 16, 32
	texts := make([]string, 64)
	for i := range texts {
		texts[i] = strings.Repeat("cat ", length-2)
	}
	for _, name := range []string{"minilm", "prompts", "decoder"} {
		for _, unpad := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/unpad=%v", name, unpad), func(t *testing.T) {
				d := drivertest.New(t)
				o := Options{Sessions: 1, Compile: rlxc.CompileOptions{Backend: "cuda", Unpad: unpad}}
				m, err := Open(t.Context(), "testdata/"+name, o)
				require.NoError(t, err)
				defer m.Close()
				_, err = m.Embed(t.Context(), texts, EmbedOptions{})
				require.NoError(t, err)
				vectors := len(texts) * size * 4
				reads, err := m.engine.reading(m.heads.pooled.name)
				require.NoError(t, err)
				bound, err := inside.Program(reads.programs[0]).Bind(reads.layout.sizes(len(texts), length))
				require.NoError(t, err)
				require.Empty(t, bound.Host, "all steps have kernels")
				require.GreaterOrEqual(t, d.Copied["down"], vectors)
				require.Less(t, d.Copied["down"], vectors+len(texts)*length, "with the codes of errors")
			})
		}
	}
}

// TestFillReturnsRowsOfMasks: the logits of a mask come back from a device for each text, and those of none of the other tokens.
func TestFillReturnsRowsOfMasks(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	const length = 16
	texts := slices.Repeat([]string{strings.Repeat("cat ", length-3) + "[MASK]"}, 8)
	for _, unpad := range []bool{false, true} {
		t.Run(fmt.Sprintf("unpad=%v", unpad), func(t *testing.T) {
			d := drivertest.New(t)
			m := openModel(t, "splade", Options{Sessions: 1, Compile: rlxc.CompileOptions{Backend: "cuda", Unpad: unpad}})
			_, err := m.Fill(t.Context(), texts, FillOptions{})
			require.NoError(t, err)
			rows := len(texts) * m.config.VocabSize * 4
			reads, err := m.engine.reading(m.heads.filled.name)
			require.NoError(t, err)
			bound, err := inside.Program(reads.programs[0]).Bind(reads.layout.sizes(len(texts), length))
			require.NoError(t, err)
			require.Empty(t, bound.Host, "all steps have kernels")
			require.GreaterOrEqual(t, d.Copied["down"], rows)
			require.Less(t, d.Copied["down"], rows+len(texts)*length, "with the codes of errors")
		})
	}
}

// TestHeadOfCompiledFiles: the vectors of a compiled file are those of its folder to the last bit, also if the file was compiled without
// padding, and opening the file packs no weight of the model.
func TestHeadOfCompiledFiles(t *testing.T) {
	for _, name := range []string{"minilm", "dense", "decoder", "colbert", "splade"} {
		for _, unpad := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/unpad=%v", name, unpad), func(t *testing.T) {
				o := Options{Sessions: 1, Compile: rlxc.CompileOptions{Unpad: unpad}}
				folder := openModel(t, name, o)
				compiled := compiledModel(t, folder.Description, o)
				require.Equal(t, folder.programs[0].Unpadded(), compiled.programs[0].Unpadded())
				require.Empty(t, compiled.Program().Stats().PackedFor)
				require.Equal(t, answersOf(t, folder), answersOf(t, compiled))
			})
		}
	}
}

// TestReadingsShareSessions: calls that read different outputs share the sessions, of which there are never more than run at a time, and
// each gets what a model without any other call returns, to the last bit, at any sizes.
func TestReadingsShareSessions(t *testing.T) {
	texts := mixed()
	for _, unpad := range []bool{false, true} {
		t.Run(fmt.Sprintf("unpad=%v", unpad), func(t *testing.T) {
			o := Options{Sessions: 2, Compile: rlxc.CompileOptions{Unpad: unpad}}
			m := openModel(t, "minilm", o)
			for i, some := range [][]string{texts[:7], texts, texts[5:6], texts[20:40], texts[:7]} {
				fresh, err := Open(t.Context(), "testdata/minilm", o)
				require.NoError(t, err)
				want, err := fresh.Embed(t.Context(), some, EmbedOptions{})
				require.NoError(t, err)
				got, err := m.Embed(t.Context(), some, EmbedOptions{})
				require.NoError(t, err)
				require.Equal(t, want, got, i)
				wantTokens, err := fresh.EmbedTokens(t.Context(), some, EmbedOptions{})
				require.NoError(t, err)
				gotTokens, err := m.EmbedTokens(t.Context(), some, EmbedOptions{})
				require.NoError(t, err)
				require.Equal(t, wantTokens, gotTokens, i)
				require.NoError(t, fresh.Close())
				m.engine.mu.Lock()
				require.LessOrEqual(t, len(m.engine.place), 2)
				require.Equal(t, len(m.engine.place), len(m.engine.idle))
				m.engine.mu.Unlock()
			}
		})
	}
}

// TestHeadInSlices: a batch above the memory limit runs in slices, because the head computes each text alone.
func TestHeadInSlices(t *testing.T) {
	run := func(name string, limit int64) (out *tensor.Tensor, held int64) {
		m := openModel(t, name, Options{Sessions: 1, Compile: rlxc.CompileOptions{MemoryLimit: limit, Threads: 1}})
		reads, err := m.engine.reading(m.heads.pooled.name)
		require.NoError(t, err)
		var sequences []*sequence
		for i := range 24 {
			ids := make([]int64, 1+i*5%40)
			for k := range ids {
				ids[k] = int64(5 + (i+3*k)%20)
			}
			sequences = append(sequences, &sequence{ids: ids, types: make([]int64, len(ids)), skip: i % 3})
		}
		in, err := reads.layout.tensors(sequences, len(sequences), 40)
		require.NoError(t, err)
		s, err := reads.programs[0].NewSession()
		require.NoError(t, err)
		defer s.Close()
		all, err := s.Run(t.Context(), in)
		require.NoError(t, err)
		return all[m.heads.pooled.name].Clone(), s.MemoryBytes()
	}
	for _, name := range []string{"minilm", "dense", "pooled"} {
		t.Run(name, func(t *testing.T) {
			want, whole := run(name, 0)
			got, sliced := run(name, whole/2)
			require.LessOrEqual(t, sliced, whole/2)
			require.Equal(t, want, got)
		})
	}
}

// TestVectorsBesideLogits: a model that returns vectors of tokens and logits of words embeds densely and sparsely.
func TestVectorsBesideLogits(t *testing.T) {
	folder := copyModel(t, "splade")
	for _, name := range []string{"modules.json", "config_sentence_transformers.json"} {
		require.NoError(t, os.Remove(filepath.Join(folder, name)))
	}
	file := filepath.Join(folder, "onnx", "model.onnx")
	model, err := onnx.Open(file)
	require.NoError(t, err)
	g := model.Proto.Graph
	const hidden = "last_hidden_state"
	product := g.Node[len(g.Node)-2]
	require.Equal(t, "MatMul", product.OpType)
	g.Node = append(g.Node, &onnxpb.NodeProto{OpType: "Identity", Input: product.Input[:1], Output: []string{hidden}})
	g.Output = append(g.Output, modeltest.Value(hidden, tensor.F32, "batch_size", "sequence_length", "32"))
	require.NoError(t, onnx.Save(file, model.Proto))
	require.NoError(t, model.Close())
	texts := mixed()[:5]
	m, err := Open(t.Context(), folder, Options{Pooling: PoolMean})
	require.NoError(t, err)
	defer m.Close()
	vectors, err := m.Embed(t.Context(), texts, EmbedOptions{})
	require.NoError(t, err)
	require.Len(t, vectors[0], 32)
	got, err := m.EmbedSparse(t.Context(), texts, EmbedOptions{})
	require.NoError(t, err)
	want, err := openModel(t, "splade", Options{}).EmbedSparse(t.Context(), texts, EmbedOptions{})
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// TestSparseReturnsOneRow: the program returns a number for each text and word, and none for a token. The weights are those of the
// definition over the logits of the tokens.
func TestSparseReturnsOneRow(t *testing.T) {
	texts := mixed()[:9]
	for _, strategy := range []string{"max", "sum"} {
		for _, activation := range []string{"relu", "log1p_relu"} {
			t.Run(strategy+"/"+activation, func(t *testing.T) {
				folder := copyModel(t, "splade")
				write(t, filepath.Join(folder, "1_SpladePooling", "config.json"),
					fmt.Sprintf(`{"pooling_strategy": %q, "activation_function": %q}`, strategy, activation))
				m, err := Open(t.Context(), folder, Options{})
				require.NoError(t, err)
				defer m.Close()
				reads, err := m.engine.reading(m.heads.weighed.name)
				require.NoError(t, err)
				require.Len(t, reads.programs[0].Outputs()[0].Shape, 2)
				got, err := m.EmbedSparse(t.Context(), texts, EmbedOptions{})
				require.NoError(t, err)
				encodings, err := m.Encode(t.Context(), tokenizer.Texts(texts...), 0)
				require.NoError(t, err)
				sequences := make([]*sequence, len(texts))
				for i, e := range encodings {
					sequences[i] = &sequence{ids: e.InputIDs, types: e.TokenTypeIDs, take: func(b *batch, at int) error {
						logits, tokens, size, err := b.tokenVectors(m.heads.logits, at)
						found := 0
						for k := range size {
							want := 0.0
							for j := range tokens {
								w := math.Log1p(max(float64(logits[j*size+k]), 0))
								if activation == "log1p_relu" {
									w = math.Log1p(w)
								}
								if strategy == "sum" {
									want += w
								} else {
									want = max(want, w)
								}
							}
							if want > 1e-5 {
								n, ok := slices.BinarySearch(got[i].Indices, int32(k))
								require.True(t, ok)
								require.InDelta(t, want, got[i].Values[n], 1e-5*max(1, want))
								found++
							}
						}
						require.Positive(t, found)
						return err
					}}
				}
				require.NoError(t, m.run(t.Context(), sequences, m.heads.logits.name))
			})
		}
	}
}

// TestJudgeComputesLastLogits: a decoder that reranks computes no logits but those of the last token, and returns two numbers for each
// document.
func TestJudgeComputesLastLogits(t *testing.T) {
	for _, variant := range []string{"", "cached"} {
		t.Run("variant="+variant, func(t *testing.T) {
			m := openJudge(t, filepath.Join("testdata", "judges", "qwen3"), variant != "", Options{Variant: variant})
			logits := m.model.Outputs()[slices.Index(namesOf(m.model.Outputs()), m.heads.logits.name)]
			reads, err := m.engine.reading(m.heads.judged.name)
			require.NoError(t, err)
			require.Equal(t, []string{logits.Shape[0], "2"}, reads.programs[0].Outputs()[0].Shape)
			for _, n := range inside.Program(reads.programs[0]).Graph().Nodes {
				for _, v := range n.Outputs {
					require.NotEqual(t, logits.Shape, sizesOf(v.Type.Shape), "node %s computes logits of all tokens", n.Label())
				}
			}
		})
	}
}

// TestFillComputesLogitsOfMasks: the logits of masks are those that a run for all tokens returns, for texts with one mask, several and
// adjacent ones, of folders and compiled files, with padding and without. The program computes the logits of no other token, and for no
// other token the layers between the encoder and the vocabulary.
func TestFillComputesLogitsOfMasks(t *testing.T) {
	texts := []string{"[MASK] cat", "a [MASK]", "the [MASK] sits on the [MASK] mat", "a [MASK] [MASK] b c", "[MASK]", "cat [MASK] dog",
		strings.Repeat("the cat ", 15) + "[MASK]", strings.Repeat("[MASK] the ", 17)}
	for _, compiled := range []bool{false, true} {
		for _, unpad := range []bool{false, true} {
			t.Run(fmt.Sprintf("compiled=%v/unpad=%v", compiled, unpad), func(t *testing.T) {
				o := Options{Compile: rlxc.CompileOptions{Unpad: unpad}}
				m := openModel(t, "splade", o)
				if compiled {
					m = compiledModel(t, m.Description, o)
				}
				reads, err := m.engine.reading(m.heads.filled.name)
				require.NoError(t, err)
				require.Equal(t, unpad, reads.packs)
				products := 0 // of picked tokens
				for _, n := range inside.Program(reads.programs[0]).Graph().Nodes {
					s := n.Outputs[0].Type.Shape
					ofPicks := len(s) == 3 && s[1].Equal(ir.Sym(picksSymbol))
					require.False(t, len(s) == 3 && s[2].Is(m.config.VocabSize) && !ofPicks, "%s computes logits of all tokens", n.Label())
					if n.Op.Kind() == ir.KindMatMul && ofPicks {
						products++
					}
				}
				require.Equal(t, 2, products, "the dense layer of the head and the product with the vocabulary")
				got, err := m.Fill(t.Context(), texts, FillOptions{TopK: 1000})
				require.NoError(t, err)
				for i, masks := range scoresOfMasks(t, m, texts) {
					require.Len(t, got[i], len(masks))
					for k, want := range masks {
						require.Len(t, got[i][k], len(want))
						for _, f := range got[i][k] {
							require.InDelta(t, want[f.ID], f.Score, 1e-6, "mask %d of text %d", k, i)
						}
					}
				}
			})
		}
	}
}

// TestTokenOperand: only nodes that compute each token from this token alone, and from constants that all tokens share, are computed for
// picked tokens.
func TestTokenOperand(t *testing.T) {
	g := ir.NewGraph("")
	x := g.AddInput("x", ir.TensorOf(tensor.F32, ir.Sym("batch"), ir.N(4), ir.N(4)))
	row, weights, tokens := tensor.New(tensor.F32, 4), tensor.New(tensor.F32, 4, 4), tensor.New(tensor.F32, 1, 4, 4)
	constant := func(c *tensor.Tensor) *ir.Value { return g.NewConst("", c) }
	for name, test := range map[string]struct {
		op   ir.Op
		in   []*ir.Value
		want int
	}{
		"product":                    {ir.MatMul{}, []*ir.Value{x, constant(weights), constant(row)}, 0},
		"product with a residual":    {ir.MatMul{}, []*ir.Value{x, constant(weights), nil, x}, -1},
		"product over the tokens":    {ir.MatMul{}, []*ir.Value{constant(weights), x}, -1},
		"product of two values":      {ir.MatMul{}, []*ir.Value{x, x}, -1},
		"product by three axes":      {ir.MatMul{}, []*ir.Value{x, constant(tokens)}, 0},
		"unary":                      {ir.Unary{Fn: ir.Relu}, []*ir.Value{x}, 0},
		"bias":                       {ir.Binary{Fn: ir.Add}, []*ir.Value{constant(row), x}, 1},
		"constants of each position": {ir.Binary{Fn: ir.Add}, []*ir.Value{x, constant(weights)}, -1},
		"constants of a text":        {ir.Binary{Fn: ir.Add}, []*ir.Value{x, constant(tokens)}, -1},
		"norm of a token":            {ir.LayerNorm{Axes: 1, Eps: 1}, []*ir.Value{x, constant(row), constant(row)}, 0},
		"norm of a text":             {ir.LayerNorm{Axes: 2, Eps: 1}, []*ir.Value{x, constant(weights), constant(weights)}, -1},
		"softmax":                    {ir.Softmax{Axis: 1}, []*ir.Value{x}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := g.Append(test.op, test.in)
			require.NoError(t, err)
			require.Equal(t, test.want, tokenOperand(out[0].Def))
		})
	}
	require.Equal(t, -1, tokenOperand(x.Def), "an input")
}

// scoresOfMasks returns the softmax of the words' logits for each mask of each text, by a run that returns the logits of all tokens.
func scoresOfMasks(t *testing.T, m *Model, texts []string) [][][]float64 {
	encodings, err := m.Encode(t.Context(), tokenizer.Texts(texts...), 0)
	require.NoError(t, err)
	_, mask, _ := m.tok.Role("mask")
	sequences, all := make([]*sequence, len(texts)), make([][][]float64, len(texts))
	for i, e := range encodings {
		sequences[i] = &sequence{ids: e.InputIDs, types: e.TokenTypeIDs, take: func(b *batch, at int) error {
			logits, tokens, size, err := b.tokenVectors(m.heads.logits, at)
			for k := range tokens {
				if e.InputIDs[k] == mask {
					scores := wide(logits[k*size : (k+1)*size])
					softmax(scores)
					all[i] = append(all[i], scores)
				}
			}
			return err
		}}
	}
	require.NoError(t, m.run(t.Context(), sequences, m.heads.logits.name))
	return all
}

// compiledModel opens the model of a description from a file that is compiled by the options.
func compiledModel(t *testing.T, d *Description, o Options) *Model {
	model, err := d.OpenModel()
	require.NoError(t, err)
	defer model.Close()
	compile := o.Compile
	compile.Unpad = compile.Unpad && d.SkipsPadding()
	program, err := model.Compile(t.Context(), compile)
	require.NoError(t, err)
	defer program.Close()
	beside, err := d.Files()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "one.rlxc")
	require.NoError(t, program.SaveWith(file, beside))
	m, err := Open(t.Context(), file, o)
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

func sizesOf(s ir.Shape) []string {
	var all []string
	for _, d := range s {
		all = append(all, d.String())
	}
	return all
}
