package wholemodels

import (
	"archive/zip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// A writer is a causal model of batch 1 whose keys and values of each layer stay in the session.
type writer struct {
	*rlxc.Session
	cache  []*rlxc.DeviceTensor
	inputs map[string]bool
	length int
}

// shared reports whether the cache is a buffer that has its room from the start.
func (w *writer) shared() bool { return w.inputs["past_sequence_length"] }

// newWriter makes a writer of as many tokens as there is room for.
func newWriter(p *rlxc.Program, room int) (*writer, error) {
	s, err := p.NewSession()
	if err != nil {
		return nil, err
	}
	w := &writer{Session: s, inputs: map[string]bool{}}
	for _, v := range p.Inputs() {
		w.inputs[v.Name] = true
	}
	for _, v := range p.Inputs() {
		if v.Name == "past_sequence_length" || !strings.HasPrefix(v.Name, "past_") {
			continue
		}
		axis := len(v.Shape) - 2 // of the positions
		shape := make([]int, len(v.Shape))
		for i, size := range v.Shape {
			if shape[i], err = strconv.Atoi(size); err != nil {
				shape[i] = 1
			}
		}
		if shape[axis] = 0; w.shared() {
			shape[axis] = room
		}
		k, err := p.NewGrowingTensor(tensor.New(v.DType, shape...), axis, room)
		if err != nil {
			return nil, errors.Join(err, w.Close())
		}
		w.cache = append(w.cache, k)
		present := strings.Replace(strings.Replace(v.Name, "past_key_values.", "present.", 1), "past_", "present_", 1)
		if err := errors.Join(s.BindInput(v.Name, k), s.BindOutput(present, k)); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	return w, nil
}

// next reads tokens and returns how likely each is to follow them.
func (w *writer) next(tokens ...int64) ([]float32, error) {
	if w.shared() && len(tokens) > 1 { // its operators read one at a time
		if _, err := w.next(tokens[:len(tokens)-1]...); err != nil {
			return nil, err
		}
		tokens = tokens[len(tokens)-1:]
	}
	n := len(tokens)
	mask, positions := tensor.New(tensor.I64, 1, w.length+n), tensor.New(tensor.I64, 1, n)
	for i := range mask.Len() {
		mask.SetInt64(i, 1)
	}
	for i := range n {
		positions.SetInt64(i, int64(w.length+i))
	}
	in := rlxc.Tensors{"input_ids": tensor.FromSlice(tokens, 1, n), "attention_mask": mask, "position_ids": positions,
		"past_sequence_length":  tensor.FromSlice([]int32{int32(w.length)}),
		"total_sequence_length": tensor.Scalar(int32(w.length + n))}
	maps.DeleteFunc(in, func(name string, _ *rlxc.Tensor) bool { return !w.inputs[name] })
	out, err := w.Run(context.Background(), in)
	if err != nil {
		return nil, err
	}
	w.length += n
	logits := tensor.Of[float32](out["logits"])
	return logits[len(logits)/n*(n-1):], nil
}

// restart forgets all but the first tokens.
func (w *writer) restart(length int) error {
	var errs []error
	for _, k := range w.cache {
		if !w.shared() {
			errs = append(errs, k.Truncate(length))
		}
	}
	w.length = length
	return errors.Join(errs...)
}

func (w *writer) Close() error {
	errs := []error{w.Session.Close()}
	for _, k := range w.cache {
		errs = append(errs, k.Close())
	}
	return errors.Join(errs...)
}

// likeliest is the token of the largest logit among those that are not written yet.
func likeliest(logits []float32, written []int64) int64 {
	for _, token := range written {
		logits[token] = -1e30
	}
	best := 0
	for i, x := range logits {
		if x > logits[best] {
			best = i
		}
	}
	return int64(best)
}

// TestGenerate: a decoder writes the tokens that it writes with onnxruntime, with its cache where it is; the prompt goes in at once or
// in pieces, a restart changes nothing, and a cache that is full says so.
func TestGenerate(t *testing.T) {
	t.Chdir(root)
	const tooLong = "a growing tensor has a capacity of 56 on axis 2, and 57 are needed: make one with more"
	for name, full := range map[string]string{ // what it says when it is full
		"exports/gpt2-legacy-17": tooLong, "exports/gpt2-dynamo-20": tooLong, "exports/gpt2-dynamo-23": tooLong,
		"exports/llama-legacy-17": tooLong, "exports/llama-dynamo-20": tooLong, "exports/llama-dynamo-23": tooLong,
		"exports/qwen2-legacy-17": tooLong, "exports/qwen2-dynamo-20": tooLong,
		"decoders/llama-gqa": tooLong, "decoders/llama-gqa, total": tooLong, "decoders/qwen2-gqa": tooLong,
		"decoders/gpt2-multihead": tooLong,
		"decoders/gpt2-attention": "a growing tensor has a capacity of 56 on axis 3, and 57 are needed: make one with more",
		"decoders/gpt2-masked":    "a sequence of length 57 with 1 new positions, a cache of 56 and a capacity of 56",
	} {
		file, given := strings.CutSuffix(name, ", total")
		z, err := zip.OpenReader("testdata/" + file + ".zip")
		require.NoError(t, err)
		defer z.Close()
		answers, err := z.Open("generated.json")
		require.NoError(t, err)
		defer answers.Close()
		var want struct{ Prompt, Tokens []int64 }
		require.NoError(t, json.NewDecoder(answers).Decode(&want))
		require.Len(t, want.Tokens, 50)
		for _, level := range levels {
			t.Run(fmt.Sprintf("%s/%s", name, level), func(t *testing.T) {
				m, err := rlxc.OpenFS(z, "model.onnx")
				require.NoError(t, err)
				defer m.Close()
				if given {
					m, err = withTotal(z)
					require.NoError(t, err)
					defer m.Close()
				}
				p, err := m.Compile(context.Background(), rlxc.CompileOptions{Level: level, Verify: true})
				require.NoError(t, err)
				defer p.Close()
				const room = 56 // the prompt, and all tokens but the last
				w, err := newWriter(p, room)
				require.NoError(t, err)
				defer w.Close()
				for _, first := range []int{len(want.Prompt), 3} {
					require.NoError(t, w.restart(0))
					logits, err := w.next(want.Prompt[:first]...)
					require.NoError(t, err)
					if first < len(want.Prompt) {
						logits, err = w.next(want.Prompt[first:]...)
						require.NoError(t, err)
					}
					var got []int64
					for got = append(got, likeliest(logits, nil)); len(got) < len(want.Tokens); got = append(got, likeliest(logits, got)) {
						logits, err = w.next(got[len(got)-1])
						require.NoError(t, err)
					}
					require.Equal(t, want.Tokens, got)
				}
				// A plan for each of the prompt's pieces and for the first step, and one for all lengths up to 64.
				require.LessOrEqual(t, p.CacheStats().Planned, 5)
				_, err = w.next(1)
				require.ErrorIs(t, err, rlxc.ErrInput)
				require.ErrorContains(t, err, full)
				for i, k := range w.cache {
					require.True(t, reflect.ValueOf(k).Elem().FieldByName("engine").Elem().FieldByName("next").IsNil(),
						"cache %d has had another buffer", i)
				}
			})
		}
	}
}

// withTotal makes the number that a decoder computes of its mask's shape an input, as onnxruntime's model builder may. Such a program is
// cut.
func withTotal(z *zip.ReadCloser) (*rlxc.Model, error) {
	file, err := fs.ReadFile(z, "model.onnx")
	if err != nil {
		return nil, err
	}
	p := &onnxpb.ModelProto{}
	if err := proto.Unmarshal(file, p); err != nil {
		return nil, err
	}
	g := p.GetGraph()
	at := slices.IndexFunc(g.GetNode(), func(n *onnxpb.NodeProto) bool { return n.GetOpType() == "GroupQueryAttention" })
	total := g.GetNode()[at].GetInput()[6]
	g.Node = slices.DeleteFunc(g.GetNode(), func(n *onnxpb.NodeProto) bool { return slices.Contains(n.GetOutput(), total) })
	for _, n := range g.GetNode() {
		for i, name := range n.GetInput() {
			if name == total {
				n.Input[i] = "total_sequence_length"
			}
		}
	}
	scalar := &onnxpb.TypeProto_Tensor{ElemType: int32(tensor.I32), Shape: &onnxpb.TensorShapeProto{}}
	g.Input = append(g.GetInput(), &onnxpb.ValueInfoProto{Name: "total_sequence_length",
		Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{TensorType: scalar}}})
	return rlxc.FromProto(p, "total")
}

// TestBadCaches: what contradicts a cache is an error that says so, and leaves the cache as it was.
func TestBadCaches(t *testing.T) {
	t.Chdir(root)
	ids := func(n int) *tensor.Tensor { return tensor.New(tensor.I64, 1, n) }
	mask := func(of int64, n int) *tensor.Tensor {
		m := tensor.New(tensor.I64, 1, n)
		for i := range n {
			m.SetInt64(i, of)
		}
		return m
	}
	past := func(n int) *tensor.Tensor { return tensor.FromSlice([]int32{int32(n)}) }
	const file, shared = "llama-gqa", "gpt2-masked"
	for _, c := range []struct {
		model string
		in    rlxc.Tensors // after three tokens
		err   string
	}{
		{file, rlxc.Tensors{"input_ids": ids(1), "attention_mask": mask(1, 7)},
			"a sequence of length 7 with 1 new positions, a cache of 3 and a capacity of 7"},
		{file, rlxc.Tensors{"input_ids": ids(1), "attention_mask": mask(0, 4)},
			"a sequence of length 0 with 1 new positions, a cache of 3 and a capacity of 4"},
		{file, rlxc.Tensors{"input_ids": ids(2), "attention_mask": mask(-1, 4)}, "a sequence of length -4 with 2 new positions"},
		{shared, rlxc.Tensors{"input_ids": ids(1), "attention_mask": mask(1, 4), "position_ids": ids(1),
			"past_sequence_length": past(-1)}, "a sequence of length -1 with 1 new positions"},
		{shared, rlxc.Tensors{"input_ids": ids(1), "attention_mask": mask(1, 4), "position_ids": ids(1),
			"past_sequence_length": past(1 << 30)}, "a sequence of length 1073741825 with 1 new positions"},
		{shared, rlxc.Tensors{"input_ids": ids(1), "attention_mask": mask(1, 4), "position_ids": ids(1), "past_sequence_length": past(8)},
			"a sequence of length 9 with 1 new positions, a cache of 8 and a capacity of 8"},
	} {
		for _, level := range levels {
			t.Run(fmt.Sprintf("%s/%s", c.err, level), func(t *testing.T) {
				z, err := zip.OpenReader("testdata/decoders/" + c.model + ".zip")
				require.NoError(t, err)
				defer z.Close()
				m, err := rlxc.OpenFS(z, "model.onnx")
				require.NoError(t, err)
				defer m.Close()
				p, err := m.Compile(context.Background(), rlxc.CompileOptions{Level: level, Verify: true})
				require.NoError(t, err)
				defer p.Close()
				w, err := newWriter(p, 8)
				require.NoError(t, err)
				defer w.Close()
				_, err = w.next(5, 6, 7)
				require.NoError(t, err)
				before, err := w.cache[0].Tensor()
				require.NoError(t, err)
				_, err = w.Run(context.Background(), c.in)
				require.ErrorContains(t, err, c.err)
				after, err := w.cache[0].Tensor()
				require.NoError(t, err)
				require.Equal(t, before.Bytes(), after.Bytes())
			})
		}
	}
}

// BenchmarkDecode times steps of one token after a prompt of 256, on one thread, of the decoder in a file that RLXC_DECODER names
// (models/scripts/large.py makes some):
//
//	RLXC_DECODER=gpt2.onnx go test . -run '^$' -bench Decode -benchtime 64x
func BenchmarkDecode(b *testing.B) {
	b.Chdir(root)
	file := os.Getenv("RLXC_DECODER")
	if file == "" {
		b.Skip("RLXC_DECODER names no file")
	}
	m, err := rlxc.Open(file)
	require.NoError(b, err)
	defer m.Close()
	p, err := m.Compile(context.Background(), rlxc.CompileOptions{Threads: 1})
	require.NoError(b, err)
	defer p.Close()
	w, err := newWriter(p, 256+b.N)
	require.NoError(b, err)
	defer w.Close()
	prompt := make([]int64, 256)
	for i := range prompt {
		prompt[i] = int64(i % 1000)
	}
	_, err = w.next(prompt...)
	require.NoError(b, err)
	times := make([]float64, b.N)
	b.ResetTimer()
	for i := range b.N {
		start := time.Now()
		_, err := w.next(int64(i))
		require.NoError(b, err)
		times[i] = time.Since(start).Seconds() * 1e3
	}
	slices.Sort(times)
	b.ReportMetric(times[b.N/2], "ms/step")
}
