package pipeline

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
	"github.com/rlxc/rlxc/tokenizer"
)

// With Reject, a call that does not fit into the queue fails at once, and one that never would says so.
func TestSchedulerRejects(t *testing.T) {
	e := &fakeEngine{gate: make(chan struct{})}
	s := newScheduler(e, 1, 100)
	s.reject = true
	require.ErrorIs(t, s.run(t.Context(), rowsOf(60, 41)), ErrTooLarge)
	var wg sync.WaitGroup
	wg.Go(func() { require.NoError(t, s.run(t.Context(), rowsOf(100))) })
	for runs := false; !runs; {
		s.mu.Lock()
		runs = s.busy == 1
		s.mu.Unlock()
	}
	wg.Go(func() { require.NoError(t, s.run(t.Context(), rowsOf(60))) })
	for waits := false; !waits; {
		s.mu.Lock()
		waits = s.tokens == 60
		s.mu.Unlock()
	}
	require.ErrorIs(t, s.run(t.Context(), rowsOf(41)), ErrQueueFull)
	wg.Go(func() { require.NoError(t, s.run(t.Context(), rowsOf(40))) })
	close(e.gate)
	wg.Wait()
	s.close()
}

// What a call took is counted: sequences, tokens, and the time until its first batch; and each batch is reported.
func TestUsage(t *testing.T) {
	var mu sync.Mutex
	var sum BatchReport
	m := openModel(t, "minilm", Options{Sessions: 2, OnBatch: func(b BatchReport) {
		mu.Lock()
		defer mu.Unlock()
		sum.Sequences, sum.Tokens, sum.Padding = sum.Sequences+b.Sequences, sum.Tokens+b.Tokens, sum.Padding+b.Padding
	}})
	list := texts(t)
	var u Usage
	_, err := m.Embed(WithUsage(t.Context(), &u), list, EmbedOptions{})
	require.NoError(t, err)
	require.Equal(t, len(list), u.Sequences)
	want := 0
	for _, text := range list {
		n, err := m.TokenCount(t.Context(), text)
		require.NoError(t, err)
		want += min(n, m.MaxLength)
	}
	require.Equal(t, want, u.Tokens)
	require.Greater(t, u.Queued, time.Duration(0))
	require.Equal(t, u.Sequences, sum.Sequences)
	require.Equal(t, u.Tokens, sum.Tokens)
	state := m.State()
	require.Zero(t, state.WaitingTokens+state.WaitingCalls+state.Running)
	require.Positive(t, state.Held)
	require.GreaterOrEqual(t, state.Planned, state.Held)
}

// TestReportOf: padding is what the longest sequence has more than others, where sequences are padded.
func TestReportOf(t *testing.T) {
	sequences := []*sequence{{ids: make([]int64, 3)}, {ids: make([]int64, 5)}, {ids: make([]int64, 4)}}
	require.Equal(t, BatchReport{Sequences: 3, Tokens: 12, Padding: 3}, reportOf(sequences, true, 0, nil))
	require.Equal(t, BatchReport{Sequences: 3, Tokens: 12, Took: 7, Err: errClosed}, reportOf(sequences, false, 7, errClosed))
}

func TestNormalizeAndCut(t *testing.T) {
	m := openModel(t, "minilm", Options{})
	no, yes := false, true
	raw, err := m.Embed(t.Context(), []string{"a cat sits"}, EmbedOptions{Normalize: &no})
	require.NoError(t, err)
	length := math.Sqrt(Dot.Of(raw[0], raw[0]))
	require.Greater(t, math.Abs(length-1), 1e-3)
	scaled, err := m.Embed(t.Context(), []string{"a cat sits"}, EmbedOptions{Normalize: &yes})
	require.NoError(t, err)
	for i := range raw[0] {
		require.InDelta(t, float64(raw[0][i])/length, float64(scaled[0][i]), 1e-6)
	}
	long := ""
	for range m.MaxLength {
		long += "cat "
	}
	left := EmbedOptions{Encode: []tokenizer.EncodeOption{tokenizer.Truncate(tokenizer.LongestFirst, tokenizer.Left)}}
	got, err := m.Embed(t.Context(), []string{"dog " + long, long, long + "dog"}, left)
	require.NoError(t, err)
	require.Equal(t, got[0], got[1], "the beginning is cut")
	require.NotEqual(t, got[1], got[2])
}

// TestDense: a product with a bias and an activation, whose operand is added where the module says so.
// built returns what a layer that is appended to a graph makes of one vector.
func built(t *testing.T, l layer, v ...float32) []float32 {
	t.Helper()
	g := ir.NewGraph("layer")
	x := g.AddInput("x", ir.TensorOf(tensor.F32, ir.Dims(1, len(v))...))
	b := &headBuilder{Graph: g, x: x}
	b.output("y", l.build(b, x))
	require.NoError(t, b.err)
	out, err := (&ir.Evaluator{}).Graph(g, []*tensor.Tensor{tensor.FromSlice(v, 1, len(v))}, ir.Binding{})
	require.NoError(t, err)
	return tensor.Of[float32](out[0])
}

func TestDense(t *testing.T) {
	dir := t.TempDir()
	head := `{"linear.weight":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"linear.bias":{"dtype":"F32","shape":[2],` +
		`"data_offsets":[16,24]}}`
	file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(head))), head...)
	file = append(file, tensor.FromSlice([]float32{1, 2, 3, 4, 0.5, -1}).Bytes()...)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "model.safetensors"), file, 0o600))
	const two, plain = `"in_features": 2, "out_features": 2`, `, "activation_function": "torch.nn.modules.linear.Identity"`
	for config, want := range map[string]any{
		two + plain:                            []float32{11.5, 24},
		two + plain + `, "bias": false`:        []float32{11, 25},
		two + plain + `, "use_residual": true`: []float32{14.5, 28},
		two:                                    []float32{1, 1}, // tanh
		two + `, "activation_function": "x.Y"`: `the activation "Y" is not one of`,
		`"in_features": 2, "out_features": 3`:  "linear.weight",
		`"in_features": 2, "out_features": 3, "use_residual": true`: "in_features and out_features of a Dense module",
		`"in_features": 2`: "in_features and out_features of a Dense module",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte("{"+config+"}"), 0o600))
		m := module{where: "config.json"}
		err := readDense(&Description{Dir: dir}, &m)
		if says, refused := want.(string); refused {
			require.ErrorContains(t, err, says, config)
			continue
		}
		require.NoError(t, err, config)
		require.Equal(t, want, built(t, m.layer, 3, 4), config)
	}
}

// TestHalves holds the table of float16 to the conversion of each number.
func TestHalves(t *testing.T) {
	all := make([]uint16, 1<<16)
	for h := range all {
		all[h] = uint16(h)
	}
	x, err := tensor.FromBytes(tensor.F16, tensor.Shape{len(all)}, tensor.FromSlice(all).Bytes())
	require.NoError(t, err)
	for h, v := range halves() {
		require.Equal(t, math.Float32bits(float32(x.Float64(h))), math.Float32bits(v), h)
	}
}

// TestMasked: which tokens a mask of vectors keeps, of texts of each side.
func TestMasked(t *testing.T) {
	m := openModel(t, "colbert", Options{})
	id := func(token string) int64 {
		id, ok := m.tok.ID(token)
		require.True(t, ok, token)
		return id
	}
	mask := module{skip: []string{"a", "no such word"}, skipTasks: []string{"document"}, keep: []int64{id("a"), id("the"), id("[UNK]")}}
	for side, want := range map[Side]string{Query: "a the and [UNK] ", Document: "the [UNK] ", Neither: "the [UNK] "} {
		got := ""
		for _, token := range []string{"a", "the", "and", "[UNK]"} {
			if m.masked(mask, side)(id(token)) {
				got += token + " "
			}
		}
		require.Equal(t, want, got, side)
	}
}
