package rlxc

import (
	"archive/zip"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/fixtures"
	"github.com/rlxc/rlxc/internal/rewrite"
	"github.com/rlxc/rlxc/models"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// A maskKind draws the mask of a text of n tokens in a row of length positions.
type maskKind struct {
	name string
	draw func(r *rand.Rand, n int, row []int64)
}

var maskKinds = []maskKind{
	{"right", func(_ *rand.Rand, n int, row []int64) { fill(row[:n], 1) }},
	{"left", func(_ *rand.Rand, n int, row []int64) { fill(row[len(row)-n:], 1) }},
	{"holes", func(r *rand.Rand, n int, row []int64) {
		for _, i := range r.Perm(len(row))[:n] {
			row[i] = 1
		}
	}},
}

func fill(row []int64, x int64) {
	for i := range row {
		row[i] = x
	}
}

// padded makes the inputs of a batch whose rows have these masks, of small ids.
func paddedInputs(r *rand.Rand, m *Model, mask *Tensor) Tensors {
	in := Tensors{}
	for _, v := range m.Inputs() {
		x := tensor.New(v.DType, mask.Shape()...)
		for i := range x.Len() {
			switch v.Name {
			case "attention_mask":
				x.SetInt64(i, mask.Int64(i))
			case "token_type_ids":
				x.SetInt64(i, r.Int64N(2))
			default:
				x.SetInt64(i, 2+r.Int64N(900))
			}
		}
		in[v.Name] = x
	}
	return in
}

// row is row b of a tensor as a batch of one.
func rowOf(x *Tensor, b int) *Tensor {
	y := tensor.New(x.DType(), append([]int{1}, x.Shape()[1:]...)...)
	size := x.DType().Bytes(x.Shape()[1:].Elements())
	copy(y.Bytes(), x.Bytes()[b*size:][:size])
	return y
}

func sessionOf(t *testing.T, m *Model, o CompileOptions) *Session {
	p, err := m.Compile(context.Background(), o)
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	s, err := p.NewSession()
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// unpadded compiles a model without padding, poisoned, and holds it to being so.
func unpadded(t *testing.T, m *Model, o CompileOptions) *Session {
	o.Unpad, o.Verify = true, true
	p, err := m.Compile(context.Background(), o)
	require.NoError(t, err)
	defer p.Close()
	require.True(t, isUnpadded(p), p.Stats().Padded)
	s, err := p.NewSession()
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	for _, m := range s.engine.Memories() {
		if w, ok := m.(interface{ Poison(byte) }); ok {
			w.Poison(0xFF)
		}
	}
	return s
}

func isUnpadded(p *Program) bool {
	return slices.ContainsFunc(p.engine.Stats().Rewrites.Rules, func(r rewrite.RuleCount) bool { return r.Pass == "unpad" })
}

// requireRows holds each row of an unpadded batch to the padded program that runs the row alone: outputs of tokens where the mask
// keeps them, and 0 elsewhere; others as they are, of rows that have a token.
func requireRows(t *testing.T, m *Model, alone *Session, in, got Tensors, tolerance float64) {
	mask := in["attention_mask"]
	texts, length := mask.Shape()[0], mask.Shape()[1]
	ofTokens := map[string]bool{} // those of which an axis beside that of texts has no fixed size
	for _, v := range m.Outputs() {
		if len(v.Shape) > 1 {
			_, err := strconv.Atoi(v.Shape[1])
			ofTokens[v.Name] = err != nil
		}
	}
	for b := range texts {
		kept := tensor.Of[int64](mask)[b*length:][:length]
		one := Tensors{}
		for name, x := range in {
			one[name] = rowOf(x, b)
		}
		if end := len(kept) - suffix(kept); end > 0 { // without the padding after it
			for name, x := range one {
				one[name] = tensor.FromSlice(slices.Clone(tensor.Of[int64](x)[:end]), 1, end)
			}
		}
		want, err := alone.Run(context.Background(), one)
		require.NoError(t, err)
		for name, y := range want {
			g := rowOf(got[name], b)
			if !ofTokens[name] {
				if slices.Contains(kept, 1) {
					requireNear(t, g, y, 0, y.Len(), 0, tolerance, "%s of row %d", name, b)
				}
				continue
			}
			width := y.Shape()[2:].Elements()
			for s := range length {
				if kept[s] == 1 {
					requireNear(t, g, y, s*width, width, s*width, tolerance, "%s of row %d, token %d", name, b, s)
					continue
				}
				for i := range width {
					require.Zero(t, g.Float64(s*width+i), "%s of row %d at %d, which is padding", name, b, s)
				}
			}
		}
	}
}

// suffix is the number of zeros at the end.
func suffix(x []int64) (n int) {
	for n < len(x) && x[len(x)-1-n] == 0 {
		n++
	}
	return n
}

func requireNear(t *testing.T, got, want *Tensor, at, n, wantAt int, tolerance float64, format string, args ...any) {
	t.Helper()
	for i := range n {
		g, w := got.Float64(at+i), want.Float64(wantAt+i)
		if !(abs(g-w) <= tolerance*(1+abs(w))) {
			t.Fatalf("%s: element %d is %v, alone it is %v", fmt.Sprintf(format, args...), i, g, w)
		}
	}
}

func abs(x float64) float64 { return max(x, -x) }

// drawMask is a mask of texts of drawn lengths; some rows are masked whole.
func drawMask(r *rand.Rand, kind maskKind, texts, length int) *Tensor {
	mask := tensor.New(tensor.I64, texts, length)
	for b := range texts {
		n := min(length, 1+int(float64(length)*r.Float64()*r.Float64()))
		if r.IntN(8) == 0 {
			n = r.IntN(2) * length
		}
		kind.draw(r, min(n, length), tensor.Of[int64](mask)[b*length:][:length])
	}
	return mask
}

// TestUnpad holds unpadded batches to their rows run alone, for masks of all kinds, poisoned and proved.
func TestUnpad(t *testing.T) {
	best, err := kernel.Select("")
	require.NoError(t, err)
	for at := kernel.Generic; at <= best.Level; at++ {
		m, level := builtin(t), at.String()
		alone, s := sessionOf(t, m, CompileOptions{CPU: level}), unpadded(t, m, CompileOptions{CPU: level})
		for _, kind := range maskKinds {
			r := rand.New(rand.NewPCG(1, 2))
			sizes := [][2]int{{1, 1}, {1, 7}, {2, 16}, {5, 33}, {3, 130}, {0, 4}}
			if at == best.Level {
				sizes = append(sizes, [2]int{64, 9}, [2]int{2, 512})
			}
			for _, size := range sizes {
				t.Run(fmt.Sprintf("%s/%s/%dx%d", level, kind.name, size[0], size[1]), func(t *testing.T) {
					in := paddedInputs(r, m, drawMask(r, kind, size[0], size[1]))
					got, err := s.Run(context.Background(), in)
					require.NoError(t, err)
					requireRows(t, m, alone, in, got, 1e-5)
				})
			}
		}
	}
}

var (
	unpadPlaces = flag.Int("unpad-places", 100, "places that TestUnpadProperties draws for each model and level")
	unpadLevels = flag.Bool("unpad-levels", false, "let TestUnpadProperties run all models at all levels of instructions")
)

// An encoder is a model whose rows without padding are held to what they are alone.
type encoder struct {
	name      string
	open      func(t *testing.T, name string) *Model
	tolerance float64
	// rounds: its activations become bytes on the way. Padding that is not after a text goes into their ranges, and into the order of the
	// sums that decide which way a value in the middle of two steps goes: such rows are held to the same program alone.
	rounds  bool
	ids     int // of the vocabulary are drawn
	longest int
	large   bool
}

// embeddingModels are the embedding models that are used most, by their layouts, which are exports of testdata/exports.
var embeddingModels = map[string][]string{
	"e5":              {"sentence", "bge-m3"}, // BERT, and XLM-RoBERTa where it is multilingual
	"bge":             {"sentence", "bge-m3"},
	"gte":             {"sentence", "gte", "modernbert"},
	"nomic":           {"nomic"},
	"jina":            {"alibi", "jina-v3"},
	"mxbai":           {"sentence"},
	"arctic":          {"sentence", "bge-m3", "gte"},
	"ModernBERT":      {"modernbert"},
	"Qwen3-Embedding": {"qwen3-embedding"},
	"EmbeddingGemma":  {"embedding-gemma"},
}

// encoders are those of the fixtures, and exports that know positions by distances, windows and angles.
func encoders() (all []encoder) {
	for _, name := range []string{"bert-tiny", "bert-tiny-opset11", "bert-tiny-opset14", "bert-tiny-dynamo", "bert-tiny-external",
		"bert-tiny-ner", "bert-tiny-qa",
		"bert-tiny-mlm", "distilbert", "roberta", "bert-tiny-ortsaved", "bert-tiny-int4", "bert-tiny-fp16", "bert-tiny-int8-dynamic",
		"bert-tiny-int8-dynamic-ortsaved",
		"minilm", "minilm-int8-dynamic"} {
		e := encoder{name: name, open: fixtureModel, tolerance: 1e-5, ids: 900, longest: 512, large: strings.HasPrefix(name, "minilm")}
		e.rounds = strings.Contains(name, "int")
		switch {
		case e.rounds:
			e.tolerance = 0
		case strings.Contains(name, "fp16"):
			e.tolerance = 1.0 / 512 // every value in between rounds to 11 bits
		}
		all = append(all, e)
	}
	for _, name := range []string{"bert-tiny-qdq", "bert-tiny-int8", "bert-tiny-int4"} {
		all = append(all, encoder{name: "builtin " + name, open: func(t *testing.T, _ string) *Model { return builtinForm(t, name) },
			rounds: name != "bert-tiny-qdq", ids: 900, longest: 512})
	}
	models := []string{"alibi", "deberta", "modernbert", "mpnet", "t5"}
	for _, layouts := range embeddingModels {
		models = append(models, layouts...)
	}
	slices.Sort(models)
	for _, model := range slices.Compact(models) {
		for _, exporter := range []string{"legacy-17", "dynamo-20"} {
			if model == "embedding-gemma" && exporter == "legacy-17" {
				continue // the exporter ends with a separate error
			}
			e := encoder{name: model + "-" + exporter, open: exported, tolerance: 1e-5, ids: 90, longest: 512}
			if slices.Contains([]string{"bge-m3", "mpnet", "sentence"}, model) { // which have a table of positions
				e.longest = 110
			}
			all = append(all, e)
		}
	}
	return all
}

// TestUnpadProperties draws batches of 1 to 64 texts of 0 to 512 positions, with masks of all kinds, for a bounded number of positions in
// all, and holds them to their rows run alone, poisoned and proved. It does so at the best level of instructions and with Go's loops: the
// levels between them run the same steps with kernels that package kernel compares. .ci/long takes all levels, and what a sanity check
// leaves out takes
//
//	go test . -run TestUnpadProperties -timeout 5h -unpad-places 50000 -unpad-levels
//
// TestUnpadRows of backend/wgpu does the same there.
func TestUnpadProperties(t *testing.T) {
	best, err := kernel.Select("")
	require.NoError(t, err)
	for _, e := range encoders() {
		t.Run(e.name, func(t *testing.T) {
			m := e.open(t, e.name)
			for at := kernel.Generic; at <= best.Level; at++ {
				if at == best.Level || at == kernel.Generic && !e.large || *unpadLevels {
					t.Run(at.String(), func(t *testing.T) { e.check(t, m, at.String()) })
				}
			}
		})
	}
}

func (e *encoder) check(t *testing.T, m *Model, level string) {
	padded, s := sessionOf(t, m, CompileOptions{CPU: level}), unpadded(t, m, CompileOptions{CPU: level})
	run := func(kind maskKind, texts, length int, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 0))
		in := paddedInputs(random, m, drawMask(random, kind, texts, length))
		for i := range in["input_ids"].Len() {
			in["input_ids"].SetInt64(i, 3+in["input_ids"].Int64(i)%int64(e.ids))
		}
		got, err := s.Run(context.Background(), in)
		if length == 0 { // a head that reads the first place has none
			_, fails := padded.Run(context.Background(), in)
			require.Equal(t, fails == nil, err == nil, "%v, padded %v", err, fails)
			return
		}
		require.NoError(t, err)
		got = maps.Clone(got) // the session may run again
		for output, y := range got {
			got[output] = y.Clone()
		}
		alone := padded
		if e.rounds && kind.name != "right" {
			alone = s
		}
		requireRows(t, m, alone, in, got, e.tolerance)
	}
	for i, kind := range maskKinds {
		run(kind, 5, 40, uint64(i))
	}
	left := *unpadPlaces
	rapid.Check(t, func(r *rapid.T) {
		kind := rapid.SampledFrom(maskKinds).Draw(r, "kind")
		texts := rapid.IntRange(1, 64).Draw(r, "texts")
		length := rapid.IntRange(0, min(e.longest, max(1, left/2/texts))).Draw(r, "length")
		seed := rapid.Uint64().Draw(r, "seed")
		if left -= texts * length; left < 0 {
			left = 0
			return
		}
		run(kind, texts, length, seed)
	})
}

// TestUnpadHead holds a head on DeBERTa that reads the first token to its rows alone. Where the mask hides that token, attention by pairs
// of masks leaves it nothing, and the padded program reads padding: that is an error.
func TestUnpadHead(t *testing.T) {
	for _, name := range []string{"deberta-legacy-17", "deberta-dynamo-20"} {
		t.Run(name, func(t *testing.T) {
			m := withHead(t, name)
			alone, s := sessionOf(t, m, CompileOptions{}), unpadded(t, m, CompileOptions{})
			for i, kind := range maskKinds {
				r := rand.New(rand.NewPCG(3, uint64(i)))
				mask := drawMask(r, kind, 6, 40)
				in := paddedInputs(r, m, mask)
				for k := range in["input_ids"].Len() {
					in["input_ids"].SetInt64(k, in["input_ids"].Int64(k)%100)
				}
				for b := range 6 {
					row := tensor.Of[int64](in["attention_mask"])[b*40:][:40]
					if row[0] == 1 || !slices.Contains(row, 1) {
						continue
					}
					_, err := s.Run(context.Background(), in)
					require.ErrorIs(t, err, ErrInput)
					require.ErrorContains(t, err, fmt.Sprintf("the attention mask of sequence %d hides its first token", b))
					row[0] = 1
				}
				got, err := s.Run(context.Background(), in)
				require.NoError(t, err)
				requireRows(t, m, alone, in, got, 1e-5)
			}
		})
	}
}

// changed is a model of a folder whose graph is changed.
func changed(t *testing.T, folder fs.FS, name string, change func(g *onnxpb.GraphProto)) *Model {
	data, err := fs.ReadFile(folder, "model.onnx")
	require.NoError(t, err)
	var p onnxpb.ModelProto
	require.NoError(t, proto.Unmarshal(data, &p))
	change(p.Graph)
	m, err := FromProto(&p, name)
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

// withHead is an encoder of testdata/exports with a classifier of the first token in place of its output.
func withHead(t *testing.T, name string) *Model {
	z, err := zip.OpenReader("testdata/exports/" + name + ".zip")
	require.NoError(t, err)
	defer z.Close()
	return changed(t, z, name, func(g *onnxpb.GraphProto) {
		shape := g.Output[0].Type.GetTensorType().Shape
		width := int(shape.Dim[2].GetDimValue())
		w, r := tensor.New(tensor.F32, width, 3), rand.New(rand.NewPCG(1, 1))
		for i := range w.Len() {
			w.SetFloat64(i, r.NormFloat64())
		}
		g.Initializer = append(g.Initializer, onnx.FromTensor("first", tensor.Scalar(int64(0))), onnx.FromTensor("head", w))
		g.Node = append(g.Node,
			&onnxpb.NodeProto{OpType: "Gather", Input: []string{g.Output[0].Name, "first"}, Output: []string{"cls"},
				Attribute: []*onnxpb.AttributeProto{{Name: "axis", Type: onnxpb.AttributeProto_INT, I: 1}}},
			&onnxpb.NodeProto{OpType: "MatMul", Input: []string{"cls", "head"}, Output: []string{"logits"}})
		g.Output[0].Name, shape.Dim = "logits", []*onnxpb.TensorShapeProto_Dimension{shape.Dim[0],
			{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: 3}}}
	})
}

// withSum is bert-tiny with the sum of the tokens that the mask keeps in place of its outputs.
func withSum(t *testing.T, name string) *Model {
	files, err := models.FS("bert-tiny")
	require.NoError(t, err)
	return changed(t, files, name, func(g *onnxpb.GraphProto) {
		g.Initializer = append(g.Initializer, onnx.FromTensor("last", tensor.FromSlice([]int64{-1})),
			onnx.FromTensor("tokens", tensor.FromSlice([]int64{1})))
		node := func(op, out string, in ...string) *onnxpb.NodeProto {
			return &onnxpb.NodeProto{OpType: op, Input: in, Output: []string{out}}
		}
		cast, sum := node("Cast", "kept", "attention_mask"), node("ReduceSum", "sum", "weighted", "tokens")
		cast.Attribute = []*onnxpb.AttributeProto{{Name: "to", Type: onnxpb.AttributeProto_INT, I: int64(tensor.F32)}}
		sum.Attribute = []*onnxpb.AttributeProto{{Name: "keepdims", Type: onnxpb.AttributeProto_INT}}
		g.Node = append(g.Node, cast, node("Unsqueeze", "weights", "kept", "last"),
			node("Mul", "weighted", g.Output[0].Name, "weights"), sum)
		g.Output = g.Output[:1]
		shape := g.Output[0].Type.GetTensorType().Shape
		g.Output[0].Name, shape.Dim = "sum", slices.Delete(shape.Dim, 1, 2)
	})
}

// TestUnpadPlan holds a plan for tokens to that of texts as long as each other, which takes less than one text of them all where the
// program makes something for each pair of positions.
func TestUnpadPlan(t *testing.T) {
	m := exported(t, "mpnet-dynamo-20")
	p, err := m.Compile(context.Background(), CompileOptions{Unpad: true})
	require.NoError(t, err)
	defer p.Close()
	arena := func(dims map[string]int) int64 {
		r, err := p.Plan(dims)
		require.NoError(t, err)
		return r.Plan.Committed
	}
	require.Equal(t, arena(map[string]int{"batch": 4, "tokens": 94, "seq": 24}), arena(map[string]int{"batch": 4, "tokens": 94}))
	require.Less(t, arena(map[string]int{"batch": 4, "tokens": 94}), arena(map[string]int{"batch": 4, "tokens": 94, "seq": 94}))
	require.Equal(t, arena(map[string]int{"batch": 4, "seq": 24}), arena(map[string]int{"batch": 4, "tokens": 96}))
	for why, dims := range map[string]map[string]int{
		"tokens = 97 is more than 4 sequences of 24 tokens have": {"batch": 4, "seq": 24, "tokens": 97},
		"dimension tokens = -1 is negative":                      {"batch": 4, "tokens": -1},
		"tokens = 5 is more than 0 sequences of 0 tokens have":   {"batch": 0, "tokens": 5},
	} {
		_, err := p.Plan(dims)
		require.ErrorContains(t, err, why)
	}
}

// exported opens a model of testdata/exports.
func exported(t *testing.T, name string) *Model {
	z, err := zip.OpenReader("testdata/exports/" + name + ".zip")
	require.NoError(t, err)
	t.Cleanup(func() { z.Close() })
	m, err := OpenFS(z, "model.onnx")
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

// TestUnpadErrors holds bad masks, and texts that are too long, to errors that name the row.
func TestUnpadErrors(t *testing.T) {
	m := builtin(t)
	s := unpadded(t, m, CompileOptions{})
	run := func(change func(mask []int64), texts, length int) error {
		mask := tensor.New(tensor.I64, texts, length)
		fill(tensor.Of[int64](mask), 1)
		change(tensor.Of[int64](mask))
		_, err := s.Run(context.Background(), paddedInputs(rand.New(rand.NewPCG(1, 1)), m, mask))
		return err
	}
	err := run(func(mask []int64) { mask[9] = 7 }, 3, 4)
	require.ErrorIs(t, err, ErrInput)
	require.ErrorContains(t, err, "the attention mask of sequence 2 is 7 at position 1: want 0 or 1")
	err = run(func(mask []int64) { fill(mask[:600], 0) }, 2, 600)
	require.ErrorIs(t, err, ErrInput)
	require.ErrorContains(t, err, "sequence 1 has a token at position 512: the model has 512 positions")
	require.NoError(t, run(func(mask []int64) { fill(mask, 0) }, 2, 5))

	in := paddedInputs(rand.New(rand.NewPCG(1, 1)), m, tensor.New(tensor.I64, 2, 5))
	in["attention_mask"] = tensor.New(tensor.I64, 2, 4)
	_, err = s.Run(context.Background(), in)
	_, padded := sessionOf(t, m, CompileOptions{}).Run(context.Background(), in)
	require.ErrorIs(t, err, ErrInput)
	require.EqualError(t, err, padded.Error())

	_, err = s.RunPacked(context.Background(),
		PackedBatch{Starts: []int{0, 3, 603},
			Inputs: Tensors{"input_ids": tensor.New(tensor.I64, 603), "token_type_ids": tensor.New(tensor.I64, 603)}})
	require.ErrorIs(t, err, ErrInput)
	require.ErrorContains(t, err, "sequence 1 has 600 tokens: the model has 512 positions")

	// An id that the vocabulary does not have, after padding in front.
	mask := tensor.New(tensor.I64, 3, 5)
	fill(tensor.Of[int64](mask)[2:5], 1)
	fill(tensor.Of[int64](mask)[8:], 1)
	in = paddedInputs(rand.New(rand.NewPCG(1, 1)), m, mask)
	in["input_ids"].SetInt64(9, 1_000_000)
	_, err = s.Run(context.Background(), in)
	require.ErrorIs(t, err, ErrInput)
	require.ErrorContains(t, err, "sequence 1, token 2: ") // the first is kept, then the two of the mask
	_, padded = sessionOf(t, m, CompileOptions{}).Run(context.Background(), in)
	require.ErrorContains(t, err, padded.Error())

	// The tokens take memory, not the padding; not even a padded row fits alone.
	mask = tensor.New(tensor.I64, 4, 100)
	for b := range 4 {
		fill(tensor.Of[int64](mask)[b*100:][:10], 1)
	}
	in = paddedInputs(rand.New(rand.NewPCG(1, 1)), m, mask)
	small := CompileOptions{MemoryLimit: 450_000, Threads: 1} // each thread has memory of its own
	_, err = unpadded(t, m, small).Run(context.Background(), in)
	require.NoError(t, err)
	_, err = sessionOf(t, m, small).Run(context.Background(), in)
	require.ErrorIs(t, err, ErrMemory)
	fill(tensor.Of[int64](mask), 1)
	_, err = unpadded(t, m, small).Run(context.Background(), paddedInputs(rand.New(rand.NewPCG(1, 1)), m, mask))
	require.ErrorIs(t, err, ErrMemory)
	require.ErrorContains(t, err, "at batch=4 tokens=400 the arena needs")
	require.ErrorContains(t, err, "; sequence 0 is the longest, with 100 tokens")
}

// TestUnpadPositions holds a text that is longer than the table of positions, of models that count positions themselves, to the error with
// padding, and the row's number.
func TestUnpadPositions(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) *Model{
		"roberta": func(t *testing.T) *Model {
			m, err := Open(fixtures.Model(t, "roberta"))
			require.NoError(t, err)
			return m
		},
		"mpnet": func(t *testing.T) *Model { return exported(t, "mpnet-dynamo-20") },
	} {
		t.Run(name, func(t *testing.T) {
			m := open(t)
			mask := tensor.New(tensor.I64, 2, 1000)
			fill(tensor.Of[int64](mask)[:3], 1)
			fill(tensor.Of[int64](mask)[1000:], 1)
			in := paddedInputs(rand.New(rand.NewPCG(1, 1)), m, mask)
			for i := range in["input_ids"].Len() {
				in["input_ids"].SetInt64(i, 3+in["input_ids"].Int64(i)%90)
			}
			_, err := unpadded(t, m, CompileOptions{}).Run(context.Background(), in)
			require.ErrorIs(t, err, ErrInput)
			_, padded := sessionOf(t, m, CompileOptions{}).Run(context.Background(), in)
			for _, err := range []error{err, padded} {
				require.ErrorContains(t, err, "is out of range: axis 0 has size")
			}
			_, size, _ := strings.Cut(err.Error(), "axis 0 has size ")
			positions, no := strconv.Atoi(size)
			require.NoError(t, no)
			require.ErrorContains(t, err, fmt.Sprintf("sequence 1, token %d: ", positions-2)) // both count from 2
		})
	}
}

// TestUnpadNames holds --why to the node in the way.
func TestUnpadNames(t *testing.T) {
	for name, why := range map[string]string{
		"bert-tiny-static": `node "/m/encoder/layer.0/attention/self/Transpose_2" and 5 more: its mask: ` +
			`input "attention_mask" is of fixed size, i64[2,16]`,
		// the calibration saw no padding: quantising cuts it off
		"bert-tiny-int8-qdq": `(clamp) is not known to hide padding and nothing else`,
		"bert-tiny-ortfused": `node "Attention_0": its mask: node "Attention_0" and 1 more (where) ` +
			`does not follow from an input [batch,seq] alone, token by token: node "EmbedLayerNormalization_0" (reduce_sum) ` +
			`counts tokens, and which of a text they are is lost`,
	} {
		m, err := Open(fixtures.Model(t, name))
		require.NoError(t, err)
		defer m.Close()
		p, err := m.Compile(context.Background(), CompileOptions{Unpad: true})
		require.NoError(t, err)
		defer p.Close()
		require.False(t, isUnpadded(p))
		require.Contains(t, p.Stats().Padded, why)
	}
}

// TestRunPacked holds texts without padding to the same texts padded.
func TestRunPacked(t *testing.T) {
	all := append(encoders(), encoder{name: "sums", open: withSum, ids: 900, longest: 512})
	for _, e := range all { // roberta counts positions beforehand, sentence the tokens of a text
		if !slices.Contains([]string{"bert-tiny", "roberta", "bert-tiny-qa", "sentence-dynamo-20", "sums"}, e.name) {
			continue
		}
		t.Run(e.name, func(t *testing.T) {
			m := e.open(t, e.name)
			s, padded := unpadded(t, m, CompileOptions{}), unpadded(t, m, CompileOptions{})
			for _, lengths := range [][]int{{1}, {5, 1, 40}, {3, 3, 3, 3, 3}, {min(130, e.longest), 2}} {
				starts, longest := []int{0}, slices.Max(lengths)
				mask := tensor.New(tensor.I64, len(lengths), longest)
				for i, n := range lengths {
					starts = append(starts, starts[i]+n)
					fill(tensor.Of[int64](mask)[i*longest:][:n], 1)
				}
				in := paddedInputs(rand.New(rand.NewPCG(1, 1)), m, mask)
				for i := range in["input_ids"].Len() {
					in["input_ids"].SetInt64(i, in["input_ids"].Int64(i)%int64(e.ids))
				}
				want, err := padded.Run(context.Background(), in)
				require.NoError(t, err)
				rows := PackedBatch{Starts: starts, Inputs: Tensors{}}
				for input, x := range in {
					if input != "attention_mask" {
						rows.Inputs[input] = packedRows(x, lengths)
					}
				}
				got, err := s.RunPacked(context.Background(), rows)
				require.NoError(t, err)
				require.Len(t, got, len(want))
				for output, w := range want {
					if g := got[output]; g.Rank() < w.Rank() {
						w = packedRows(w, lengths)
					}
					require.Equal(t, w.String(), got[output].String())
					requireNear(t, got[output], w, 0, w.Len(), 0, 1e-5, "%s", output)
				}
			}
			for message, rows := range map[string]PackedBatch{
				"sequence 1 begins at token 2 and ends at 2: every sequence needs a token": {Starts: []int{0, 2, 2}},
				"starts of sequences must begin with 0":                                    {},
				`input "input_ids" is missing`:                                             {Starts: []int{0, 2}},
				`is the mask: a packed batch has none`: {Starts: []int{0, 2},
					Inputs: Tensors{"input_ids": tensor.New(tensor.I64, 2), "attention_mask": tensor.New(tensor.I64, 2)}},
				"want i64 of 2 tokens": {Starts: []int{0, 2},
					Inputs: Tensors{"input_ids": tensor.New(tensor.I64, 3)}},
			} {
				_, err := s.RunPacked(context.Background(), rows)
				require.ErrorIs(t, err, ErrInput)
				require.ErrorContains(t, err, message)
			}
		})
	}
	s := sessionOf(t, builtin(t), CompileOptions{})
	_, err := s.RunPacked(context.Background(), PackedBatch{Starts: []int{0}})
	require.ErrorIs(t, err, ErrInput)
}

// packedRows takes the first tokens of each row, one after the other.
func packedRows(x *Tensor, lengths []int) *Tensor {
	var data []byte
	total, width := 0, x.DType().Bytes(x.Shape()[2:].Elements())
	for i, n := range lengths {
		data = append(data, x.Bytes()[i*x.Shape()[1]*width:][:n*width]...)
		total += n
	}
	y := tensor.New(x.DType(), append([]int{total}, x.Shape()[2:]...)...)
	copy(y.Bytes(), data)
	return y
}
