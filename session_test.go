package rlxc

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/models"
	"github.com/rlxc/rlxc/planner"
	"github.com/rlxc/rlxc/tensor"
)

// builtin opens the embedded encoder.
func builtin(t testing.TB) *Model { return builtinForm(t, "bert-tiny") }

func builtinForm(t testing.TB, name string) *Model {
	t.Helper()
	files, err := models.FS(name)
	require.NoError(t, err)
	m, err := OpenFS(files, "model.onnx")
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

// session compiles the embedded encoder and makes a session.
func session(t testing.TB, o CompileOptions) *Session {
	t.Helper()
	p, err := builtin(t).Compile(context.Background(), o)
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	s, err := p.NewSession()
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// recorded reads what onnxruntime was given and what it answered.
func recorded(t testing.TB, m *Model, set int) (in, out Tensors) {
	t.Helper()
	files, err := models.FS("bert-tiny")
	require.NoError(t, err)
	read := func(kind string, infos []ValueInfo) Tensors {
		var names []string
		for _, v := range infos {
			names = append(names, v.Name)
		}
		all, err := models.ReadSet(files, fmt.Sprint("test_data_set_", set), kind, models.Named(names))
		require.NoError(t, err)
		return all
	}
	return read("input", m.Inputs()), read("output", m.Outputs())
}

const recordedSets = 7

// encoderInputs makes inputs of a size, the last third of every second row masked.
func encoderInputs(batch, seq int) Tensors {
	ids, mask, types := tensor.New(tensor.I64, batch, seq), tensor.New(tensor.I64, batch, seq), tensor.New(tensor.I64, batch, seq)
	for i := range batch * seq {
		ids.SetInt64(i, int64(i*7919%997))
		if i/seq%2 == 0 || i%seq < seq-seq/3 {
			mask.SetInt64(i, 1)
		}
	}
	return Tensors{"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
}

func near(t testing.TB, got, want *Tensor, atol, rtol float64) {
	t.Helper()
	require.Equal(t, want.String(), got.String())
	for i := range want.Len() {
		g, w := got.Float64(i), want.Float64(i)
		if !(math.Abs(g-w) <= atol+rtol*math.Abs(w)) {
			t.Fatalf("element %d is %v, want %v", i, g, w)
		}
	}
}

func TestRecordedOutputs(t *testing.T) {
	for _, level := range []Level{O0, O1, O2} {
		for _, threads := range []int{1, 2} {
			s := session(t, CompileOptions{Level: level, Threads: threads, Verify: true})
			m := builtin(t)
			for set := range recordedSets {
				in, want := recorded(t, m, set)
				got, err := s.Run(context.Background(), in)
				require.NoError(t, err)
				for name := range want {
					near(t, got[name], want[name], 1e-5, 1e-4)
				}
			}
		}
	}
}

// TestWarmRunAllocatesNothing holds for runs at the last run's shapes, with one worker and with two.
func TestWarmRunAllocatesNothing(t *testing.T) {
	for _, threads := range []int{1, 2} {
		s := session(t, CompileOptions{Threads: threads})
		in, ctx := encoderInputs(2, 16), context.Background()
		_, err := s.Run(ctx, in)
		require.NoError(t, err)
		require.Zero(t, testing.AllocsPerRun(20, func() {
			if _, err := s.Run(ctx, in); err != nil {
				t.Fatal(err)
			}
		}), "%d threads", threads)
	}
}

// TestPoison runs with every byte of the arena set to a NaN, or to a wild index, before the run, and each buffer again when
// its life ends. Results must be the same to the bit, also when the shape changes in between.
func TestPoison(t *testing.T) {
	type poisoner interface{ Poison(byte) }
	for _, level := range []Level{O0, O2} {
		for _, mode := range planner.Modes() {
			s, clean := session(t, CompileOptions{Level: level, Mode: mode, Verify: true}),
				session(t, CompileOptions{Level: level, Mode: planner.Disabled})
			for _, size := range [][2]int{{1, 1}, {2, 16}, {3, 5}, {2, 16}} {
				in := encoderInputs(size[0], size[1])
				want, err := clean.Run(context.Background(), in)
				require.NoError(t, err)
				for _, with := range []byte{0xFF, 0xA5} {
					s.engine.Memories()[0].(poisoner).Poison(with)
					got, err := s.Run(context.Background(), in)
					require.NoError(t, err)
					for name := range want {
						require.Equal(t, want[name].Bytes(), got[name].Bytes(), "-O %s, mode %s, %v, poison %#x: %s", level, mode, size,
							with, name)
					}
				}
			}
		}
	}
}

// TestSessionsShareAProgram runs several sessions at once, at shapes that are new to the program.
func TestSessionsShareAProgram(t *testing.T) {
	p, err := builtin(t).Compile(context.Background(), CompileOptions{Threads: 2})
	require.NoError(t, err)
	defer p.Close()
	var all sync.WaitGroup
	for worker := range 4 {
		all.Add(1)
		go func() {
			defer all.Done()
			s, err := p.NewSession()
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			for seq := 1; seq < 12; seq++ {
				in := encoderInputs(1+worker%2, seq)
				a, err := s.Run(context.Background(), in)
				if err != nil {
					t.Error(err)
					return
				}
				first := a["last_hidden_state"].Clone()
				b, err := s.Run(context.Background(), in)
				if err != nil || string(first.Bytes()) != string(b["last_hidden_state"].Bytes()) {
					t.Errorf("a second run at %d differs (%v)", seq, err)
				}
			}
		}()
	}
	all.Wait()
}

// TestSessionsShareTheCores: of two sessions of one program, or of two programs, each with all threads, neither starves.
func TestSessionsShareTheCores(t *testing.T) {
	const runs = 1000
	in := encoderInputs(1, 8)
	p, err := builtin(t).Compile(context.Background(), CompileOptions{})
	require.NoError(t, err)
	defer p.Close()
	a, err := p.NewSession()
	require.NoError(t, err)
	defer a.Close()
	b, err := p.NewSession()
	require.NoError(t, err)
	defer b.Close()
	for _, pair := range [][2]*Session{{a, b}, {a, session(t, CompileOptions{})}} {
		var done [2]atomic.Int64
		var all sync.WaitGroup
		for i, s := range pair {
			all.Go(func() {
				for done[0].Load() < runs && done[1].Load() < runs {
					if _, err := s.Run(context.Background(), in); err != nil {
						t.Error(err)
						return
					}
					done[i].Add(1)
				}
			})
		}
		all.Wait()
		first, second := done[0].Load(), done[1].Load()
		require.Less(t, max(first, second), 10*min(first, second), "runs of each: %d, %d", first, second)
	}
}

// TestThreadsDoNotChangeResults: the order of every sum is fixed by the shape.
func TestThreadsDoNotChangeResults(t *testing.T) {
	one, two := session(t, CompileOptions{Threads: 1}), session(t, CompileOptions{Threads: 2})
	in := encoderInputs(3, 37)
	a, err := one.Run(context.Background(), in)
	require.NoError(t, err)
	b, err := two.Run(context.Background(), in)
	require.NoError(t, err)
	for name := range a {
		require.Equal(t, a[name].Bytes(), b[name].Bytes())
	}
}

func TestWrongInputs(t *testing.T) {
	s := session(t, CompileOptions{})
	good := encoderInputs(2, 8)
	with := func(name string, x *Tensor) Tensors {
		in := Tensors{}
		for k, v := range good {
			in[k] = v
		}
		if x == nil {
			delete(in, name)
		} else {
			in[name] = x
		}
		return in
	}
	outside := good["input_ids"].Clone()
	outside.SetInt64(3, 1<<40)
	for _, c := range []struct {
		name string
		in   Tensors
		kind error
		says []string
	}{
		{"missing", with("attention_mask", nil), ErrInput, []string{`"attention_mask" is missing`, "input_ids i64[batch,seq]"}},
		{"unknown", with("ids", good["input_ids"]), ErrInput, []string{`no input "ids"`}},
		{"type", with("input_ids", tensor.New(tensor.F32, 2, 8)), ErrInput, []string{`"input_ids"`, "i64", "f32"}},
		{"rank", with("input_ids", tensor.New(tensor.I64, 8)), ErrInput, []string{`"input_ids"`, "2 axes", "has 1"}},
		{"batch", with("attention_mask", tensor.New(tensor.I64, 3, 8)), ErrInput,
			[]string{`"attention_mask"`, "batch is 3 here and 2 in input \"input_ids\""}},
		{"id", with("input_ids", outside), ErrInput, []string{"index 1099511627776 is out of range", "word_embeddings"}},
		{"too long", encoderInputs(1, 5000), ErrShape, []string{"5000", "node"}},
	} {
		_, err := s.Run(context.Background(), c.in)
		require.ErrorIs(t, err, c.kind, c.name)
		for _, text := range c.says {
			require.ErrorContains(t, err, text, c.name)
		}
		_, err = s.Run(context.Background(), good)
		require.NoError(t, err, "the session goes on after: %s", c.name)
	}
}

func TestMemoryLimit(t *testing.T) {
	p, err := builtin(t).Compile(context.Background(), CompileOptions{MemoryLimit: 64 << 10, Threads: 1})
	require.NoError(t, err)
	defer p.Close()
	_, err = p.Plan(map[string]int{"batch": 1, "seq": 1})
	require.NoError(t, err)
	_, err = p.Plan(map[string]int{"batch": 8, "seq": 128})
	require.ErrorIs(t, err, ErrMemory)
	require.ErrorContains(t, err, "batch=8 seq=128")
	require.ErrorContains(t, err, "the limit is 65536")
}

// TestSlices: under a budget a run takes its batch in slices, as its plan says, and returns the same bits; so does the next run, of another
// batch in between.
func TestSlices(t *testing.T) {
	for _, c := range []struct {
		name     string
		model    *Model
		sizes    map[string]int
		percents []int64 // of the plan of the whole batch
	}{
		{"float32", builtin(t), map[string]int{"batch": 32, "seq": 128}, []int64{90, 50, 31}},
		{"half", builtinForm(t, "bert-tiny-fp16"), map[string]int{"batch": 9, "seq": 40}, []int64{90, 51}},
		{"int4", builtinForm(t, "bert-tiny-int4"), map[string]int{"batch": 9, "seq": 40}, []int64{90, 50, 45}},
		{"QDQ", builtinForm(t, "bert-tiny-qdq"), map[string]int{"batch": 9, "seq": 40}, []int64{90, 50}},
		{"relative positions", exported(t, "deberta-dynamo-20"), map[string]int{"batch": 9, "seq": 40}, []int64{90, 50, 31}},
		{"relative positions, legacy export", exported(t, "deberta-legacy-17"), map[string]int{"batch": 9, "seq": 40}, []int64{90, 31}},
		{"the last token of each text", exported(t, "clip-text-dynamo-20"), map[string]int{"batch": 9, "seq": 20}, []int64{90, 50}},
	} {
		t.Run(c.name, func(t *testing.T) { testSlices(t, c.model, c.sizes, c.percents) })
	}
}

func testSlices(t *testing.T, m *Model, sizes map[string]int, percents []int64) {
	inputs := func(batch, seq int) Tensors {
		in := Tensors{}
		for name, x := range encoderInputs(batch, seq) {
			if slices.ContainsFunc(m.Inputs(), func(v ValueInfo) bool { return v.Name == name }) {
				in[name] = x
			}
		}
		for i := range batch * seq { // the exports have 99 tokens
			in["input_ids"].SetInt64(i, in["input_ids"].Int64(i)%99)
		}
		return in
	}
	in, fewer := inputs(sizes["batch"], sizes["seq"]), inputs(3, sizes["seq"]-7)
	whole, err := m.Compile(t.Context(), CompileOptions{Verify: true})
	require.NoError(t, err)
	defer whole.Close()
	plan, err := whole.Plan(sizes)
	require.NoError(t, err)
	s, err := whole.NewSession()
	require.NoError(t, err)
	defer s.Close()
	_, err = plan.SliceCost(Rates{Float: 1e11, Bytes: 1e10})
	require.ErrorIs(t, err, ErrInput) // the batch runs at once
	out, err := s.Run(t.Context(), in)
	require.NoError(t, err)
	want := map[string][]byte{}
	for name, x := range out {
		want[name] = bytes.Clone(x.Bytes())
	}
	for _, percent := range percents {
		p, err := m.Compile(t.Context(), CompileOptions{Verify: true, MemoryLimit: plan.Plan.Committed * percent / 100})
		require.NoError(t, err)
		report, err := p.Plan(sizes)
		require.NoError(t, err)
		require.Greater(t, report.Slices, 1)
		require.GreaterOrEqual(t, report.Slices*report.Dims["batch"], sizes["batch"])
		cost, err := report.SliceCost(Rates{Float: 1e11, Int8: 4e11, Bytes: 1e10})
		require.NoError(t, err)
		require.Positive(t, cost.Slower)
		require.Positive(t, cost.Weights)
		s, err := p.NewSession()
		require.NoError(t, err)
		for i := range 3 {
			batch := []Tensors{in, fewer, in}[i]
			out, err := s.Run(t.Context(), batch)
			require.NoError(t, err)
			for name, x := range out {
				if i != 1 {
					require.Equal(t, want[name], x.Bytes(), name)
				}
			}
		}
		require.NoError(t, s.Close())
		require.NoError(t, p.Close())
	}
}

// TestNoSlicesOfDynamicScales: the scale of a product that quantises its operand follows from all rows of the batch.
func TestNoSlicesOfDynamicScales(t *testing.T) {
	p, err := builtinForm(t, "bert-tiny-int8").Compile(t.Context(), CompileOptions{MemoryLimit: 64 << 10})
	require.NoError(t, err)
	defer p.Close()
	_, err = p.Plan(map[string]int{"batch": 9, "seq": 40})
	require.ErrorIs(t, err, ErrMemory)
	require.ErrorContains(t, err, "the scale of its quantised values follows from all rows of batch")
}

func TestCompileOptionsThatCannotBe(t *testing.T) {
	m := builtin(t)
	for text, o := range map[string]CompileOptions{
		`no backend "tpu"`: {Backend: "tpu"},
		"threads":          {Threads: 1 << 20},
		"no device memory": {DeviceWeights: 1 << 20},
		"unknown CPU":      {CPU: "z80"},
	} {
		_, err := m.Compile(context.Background(), o)
		require.ErrorIs(t, err, ErrNoDevice)
		require.ErrorContains(t, err, text)
	}
	_, err := m.Compile(context.Background(), CompileOptions{Dims: map[string]int{"heads": 3}})
	require.ErrorIs(t, err, ErrInput)
	require.ErrorContains(t, err, `no dimension "heads": it has batch, seq`)
}

// TestFixedDims compiles for one size, and refuses others.
func TestFixedDims(t *testing.T) {
	s := session(t, CompileOptions{Dims: map[string]int{"seq": 16}, Verify: true})
	free := session(t, CompileOptions{})
	in := encoderInputs(2, 16)
	got, err := s.Run(context.Background(), in)
	require.NoError(t, err)
	want, err := free.Run(context.Background(), in)
	require.NoError(t, err)
	for name := range want {
		near(t, got[name], want[name], 1e-6, 1e-6)
	}
	_, err = s.Run(context.Background(), encoderInputs(2, 17))
	require.ErrorIs(t, err, ErrInput)
}

func TestPlanSharesMemory(t *testing.T) {
	p, err := builtin(t).Compile(context.Background(), CompileOptions{Verify: true})
	require.NoError(t, err)
	defer p.Close()
	r, err := p.Plan(map[string]int{"batch": 2, "seq": 64})
	require.NoError(t, err)
	require.Less(t, r.Plan.Committed, r.Plan.Rounded/2)
	require.Positive(t, r.Steps)
	_, err = p.Plan(map[string]int{"batch": 2})
	require.ErrorContains(t, err, "dimension seq has no size")
	_, err = p.Plan(map[string]int{"batch": 2, "seq": 4, "heads": 1})
	require.ErrorContains(t, err, `no dimension "heads"`)
}

func TestCanceledRun(t *testing.T) {
	s := session(t, CompileOptions{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := s.Run(ctx, encoderInputs(1, 4))
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, strings.Contains(err.Error(), "canceled"))
}

// TestMemoryIsGivenBack: after a large run a small one holds no more than it did before.
func TestMemoryIsGivenBack(t *testing.T) {
	p, err := builtin(t).Compile(context.Background(), CompileOptions{})
	require.NoError(t, err)
	defer p.Close()
	s, err := p.NewSession()
	require.NoError(t, err)
	defer s.Close()
	size := func(batch, seq int) int64 {
		_, err := s.Run(context.Background(), encoderInputs(batch, seq))
		require.NoError(t, err)
		r, err := p.Plan(map[string]int{"batch": batch, "seq": seq})
		require.NoError(t, err)
		require.GreaterOrEqual(t, s.MemoryBytes(), r.Plan.Committed)
		require.LessOrEqual(t, s.MemoryBytes(), r.Plan.Committed+8<<20)
		return s.MemoryBytes()
	}
	small := size(1, 32)
	require.Greater(t, size(16, 256), 4*small)
	require.Equal(t, small, size(1, 32))
}

func TestUnknownOptions(t *testing.T) {
	for want, o := range map[string]CompileOptions{
		`invalid level "9": want 0, 1 or 2`:                                  {Level: "9"},
		"unknown planner mode 99":                                            {Mode: 99},
		`unknown liveness policy "Policy(9)": use one of exact, to-end, off`: {Liveness: 9},
	} {
		_, err := builtin(t).Compile(context.Background(), o)
		require.EqualError(t, err, want)
		require.ErrorIs(t, err, ErrInput)
	}
}

// TestCanceledCompile: the model can be compiled again.
func TestCanceledCompile(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	m := builtin(t)
	_, err := m.Compile(ctx, CompileOptions{})
	require.ErrorIs(t, err, context.Canceled)
	p, err := m.Compile(context.Background(), CompileOptions{})
	require.NoError(t, err)
	require.NoError(t, p.Close())
}

// TestReturning: a program of one output returns what the whole program does, and outlives it.
func TestReturning(t *testing.T) {
	m := builtin(t)
	in, want := recorded(t, m, 0)
	whole, err := m.Compile(t.Context(), CompileOptions{})
	require.NoError(t, err)
	for _, v := range m.Outputs() {
		one, err := whole.Returning(v.Name)
		require.NoError(t, err)
		require.Equal(t, []ValueInfo{v}, one.Outputs())
		s, err := one.NewSession()
		require.NoError(t, err)
		if v.Name == m.Outputs()[1].Name {
			require.NoError(t, whole.Close())
		}
		got, err := s.Run(t.Context(), in)
		require.NoError(t, err)
		require.Len(t, got, 1)
		require.InDeltaSlice(t, tensor.Of[float32](want[v.Name]), tensor.Of[float32](got[v.Name]), 1e-4)
		require.NoError(t, s.Close())
		require.NoError(t, one.Close())
	}
	_, err = whole.Returning(m.Outputs()[0].Name)
	require.ErrorIs(t, err, ErrClosed)
	again, err := m.Compile(t.Context(), CompileOptions{})
	require.NoError(t, err)
	defer again.Close()
	_, err = again.Returning("nothing")
	require.ErrorIs(t, err, ErrInput)
	require.ErrorContains(t, err, `the program has no output "nothing"`)
}
