package ops

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A body is a subgraph in Go; call counts from 0.
type body func(call, subgraph int, in []*tensor.Tensor) ([]*tensor.Tensor, error)

func evalWith(op ir.Op, f body, in ...*tensor.Tensor) ([]*tensor.Tensor, error) {
	calls := 0
	return ir.EvalOp(&ir.Env{Call: func(subgraph int, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		calls++
		return f(calls-1, subgraph, in)
	}}, op, in)
}

func vectorOf(x ...float32) *tensor.Tensor { return tensor.FromSlice(x) }

// TestBodiesFail: what a body of each operator with one says is the operator's error, in the first call and in a later one; results of
// another shape than in the first call are errors; a body is called as often, and with the operands, that the operator's document says.
func TestBodiesFail(t *testing.T) {
	fault := errors.New("a fault of the body")
	x := tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 3, 2)
	two := []ir.Type{ir.TensorOf(tensor.F32), ir.TensorOf(tensor.F32)}
	one := two[:1]
	list := []ir.Type{{Kind: ir.SequenceType, Elem: &two[0]}}
	front := []int{0}
	scan := Scan{Typed: Typed{two}, States: 1, InputAxes: front, InputDirections: front, OutputAxes: front, OutputDirections: front}
	batched := scan
	batched.Batched = true
	zero, zeros := tensor.New(tensor.F32, 2), tensor.New(tensor.F32, 3, 2)
	deep := tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 3, 2, 2)
	for _, c := range []struct {
		name  string
		op    ir.Op
		in    []*tensor.Tensor
		calls int
	}{
		{"if", If{Typed: Typed{one}}, []*tensor.Tensor{tensor.Scalar(true)}, 1},
		{"else", If{Typed: Typed{one}}, []*tensor.Tensor{tensor.Scalar(false)}, 1},
		{"loop", Loop{Typed: Typed{two}, Carried: 1}, []*tensor.Tensor{tensor.Scalar(int64(3)), nil, zero}, 3},
		{"scan", scan, []*tensor.Tensor{zero, x}, 3},
		{"batched scan", batched, []*tensor.Tensor{nil, zeros, deep}, 6},
		{"sequence map", SequenceMap{Typed: Typed{list}, Inputs: 1}, []*tensor.Tensor{tensor.NewSequence(zero, zero)}, 2},
	} {
		results := func(state *tensor.Tensor) []*tensor.Tensor {
			switch c.op.(type) {
			case Loop:
				return []*tensor.Tensor{tensor.Scalar(true), state, state}
			case Scan:
				return []*tensor.Tensor{state, state}
			}
			return []*tensor.Tensor{state}
		}
		calls := 0
		_, err := evalWith(c.op, func(int, int, []*tensor.Tensor) ([]*tensor.Tensor, error) {
			calls++
			return results(vectorOf(1, 2)), nil
		}, c.in...)
		require.NoError(t, err, c.name)
		require.Equal(t, c.calls, calls, c.name)
		for at := range calls {
			_, err := evalWith(c.op, func(call, _ int, _ []*tensor.Tensor) ([]*tensor.Tensor, error) {
				if call == at {
					return nil, fault
				}
				return results(vectorOf(1, 2)), nil
			}, c.in...)
			require.ErrorIs(t, err, fault, "%s, call %d", c.name, at)
			if _, single := c.op.(If); single || at == 0 || c.name == "sequence map" {
				continue
			}
			_, err = evalWith(c.op, func(call, _ int, _ []*tensor.Tensor) ([]*tensor.Tensor, error) {
				if call >= at { // of a batch: some elements of a sequence, or a sequence
					return results(vectorOf(1, 2, 3)), nil
				}
				return results(vectorOf(1, 2)), nil
			}, c.in...)
			require.ErrorContains(t, err, "the first one returned", "%s, call %d", c.name, at)
		}
	}
}

// TestScansReadAndStack: every axis and direction of what is read and stacked, and lengths of the rows of a batch.
func TestScansReadAndStack(t *testing.T) {
	x := tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 3, 2)
	sums := func(_, _ int, in []*tensor.Tensor) ([]*tensor.Tensor, error) { // the state grows by each element, which is returned doubled
		state, double := in[0].Clone(), in[1].Clone()
		for i := range state.Len() {
			state.SetFloat64(i, state.Float64(i)+in[1].Float64(i))
			double.SetFloat64(i, 2*in[1].Float64(i))
		}
		return []*tensor.Tensor{state, double}, nil
	}
	types := []ir.Type{ir.TensorOf(tensor.F32, ir.N(2)), ir.TensorOf(tensor.F32, ir.Sym("n"), ir.N(2))}
	for _, c := range []struct {
		name          string
		axis, back    int
		to, toBack    int
		size          int
		sums, stacked []float64
		stackedShape  string
	}{
		{"rows", 0, 0, 0, 0, 2, []float64{9, 12}, []float64{2, 4, 6, 8, 10, 12}, "[3,2]"},
		{"rows from the last one on", 0, 1, 0, 0, 2, []float64{9, 12}, []float64{10, 12, 6, 8, 2, 4}, "[3,2]"},
		{"rows stacked from the last one on", 0, 0, 0, 1, 2, []float64{9, 12}, []float64{10, 12, 6, 8, 2, 4}, "[3,2]"},
		{"rows to columns", 0, 0, 1, 0, 2, []float64{9, 12}, []float64{2, 6, 10, 4, 8, 12}, "[2,3]"},
		{"rows to the last axis", 0, 1, -1, 1, 2, []float64{9, 12}, []float64{2, 6, 10, 4, 8, 12}, "[2,3]"},
		{"rows to the last axis but one", 0, 0, -2, 0, 2, []float64{9, 12}, []float64{2, 4, 6, 8, 10, 12}, "[3,2]"},
		{"columns", 1, 0, 0, 0, 3, []float64{3, 7, 11}, []float64{2, 6, 10, 4, 8, 12}, "[2,3]"},
		{"columns from the last one on", 1, 1, 1, 0, 3, []float64{3, 7, 11}, []float64{4, 2, 8, 6, 12, 10}, "[3,2]"},
	} {
		op := Scan{Typed: Typed{types}, States: 1, InputAxes: []int{c.axis}, InputDirections: []int{c.back}, OutputAxes: []int{c.to},
			OutputDirections: []int{c.toBack}}
		out, err := evalWith(op, sums, tensor.New(tensor.F32, c.size), x)
		require.NoError(t, err, c.name)
		require.Equal(t, c.sums, out[0].Float64s(), c.name)
		require.Equal(t, c.stacked, out[1].Float64s(), c.name)
		require.Equal(t, c.stackedShape, out[1].Shape().String(), c.name)
	}

	front := []int{0}
	op := Scan{Typed: Typed{types}, States: 1, InputAxes: front, InputDirections: front, OutputAxes: front, OutputDirections: front}
	out, err := evalWith(op, sums, vectorOf(7, 8), tensor.New(tensor.F32, 0, 2))
	require.NoError(t, err)
	require.Equal(t, []float64{7, 8}, out[0].Float64s())
	require.Equal(t, "[0,2]", out[1].Shape().String())

	op.Batched = true
	op.Types = []ir.Type{ir.TensorOf(tensor.F32, ir.N(2), ir.N(2)), ir.TensorOf(tensor.F32, ir.N(2), ir.Sym("n"), ir.N(2))}
	batch := tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 2, 3, 2)
	for _, c := range []struct {
		lengths       []int64
		sums, stacked []float64
	}{
		{nil, []float64{9, 12, 27, 30}, []float64{2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24}},
		{[]int64{3, 3}, []float64{9, 12, 27, 30}, []float64{2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24}},
		{[]int64{0, 2}, []float64{0, 0, 16, 18}, []float64{0, 0, 0, 0, 0, 0, 14, 16, 18, 20, 0, 0}},
	} {
		var lengths *tensor.Tensor
		if c.lengths != nil {
			lengths = tensor.FromSlice(c.lengths)
		}
		out, err := evalWith(op, sums, lengths, tensor.New(tensor.F32, 2, 2), batch)
		require.NoError(t, err)
		require.Equal(t, c.sums, out[0].Float64s(), c.lengths)
		require.Equal(t, c.stacked, out[1].Float64s(), c.lengths)
		require.Equal(t, "[2,3,2]", out[1].Shape().String())
	}

	states, unlike := tensor.New(tensor.F32, 2), tensor.New(tensor.F32, 2, 2)
	op.Batched = false
	both := op
	both.InputAxes, both.InputDirections = []int{0, 0}, []int{0, 0}
	batched := op
	batched.Batched = true
	negative, beyond := op, op
	negative.InputAxes, beyond.InputAxes = []int{-1}, []int{2}
	for _, c := range []struct {
		op   Scan
		in   []*tensor.Tensor
		want string
	}{
		{both, []*tensor.Tensor{states, x, unlike}, "scanned inputs of 3 and 2 elements"},
		{negative, []*tensor.Tensor{states, x}, "axis -1 of"},
		{beyond, []*tensor.Tensor{states, x}, "axis 2 of"},
		{batched, []*tensor.Tensor{nil, tensor.New(tensor.F32, 3, 2), batch}, "a batch of"},
		{batched, []*tensor.Tensor{nil, unlike, tensor.New(tensor.F32, 2)}, "a batch of"},
		{batched, []*tensor.Tensor{nil, tensor.Scalar(float32(1)), batch}, "a batch of"},
		{batched, []*tensor.Tensor{tensor.FromSlice([]int64{1}), unlike, batch}, "a batch of"},
		{batched, []*tensor.Tensor{tensor.FromSlice([]int64{3, 4}), unlike, batch}, "sequence_lens: 4 of 3 elements"},
		{batched, []*tensor.Tensor{tensor.FromSlice([]int64{-1, 3}), unlike, batch}, "sequence_lens: -1 of 3 elements"},
	} {
		_, err := evalWith(c.op, sums, c.in...)
		require.ErrorContains(t, err, c.want)
	}
}

// TestLoopsEnd: by the number of trips, by the condition, by both, and at the limit of trips.
func TestLoopsEnd(t *testing.T) {
	types := []ir.Type{ir.TensorOf(tensor.F32), ir.TensorOf(tensor.F32)}
	op := Loop{Typed: Typed{types}, Carried: 1, NumberAxes: 1, CondAxes: 0}
	last := int64(-1)
	until := func(n int) body { // stops after n calls
		return func(call, _ int, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			if in[0].Shape().String() != "[1]" || in[0].Int64(0) != int64(call) || in[1].Rank() != 0 {
				return nil, errors.New("operands of another form")
			}
			last = in[0].Int64(0)
			return []*tensor.Tensor{tensor.Scalar(call+1 < n), in[2], in[2]}, nil
		}
	}
	x, yes, no := tensor.Scalar(float32(1)), tensor.Scalar(true), tensor.Scalar(false)
	trips := func(n int64) *tensor.Tensor { return tensor.Scalar(n) }
	for _, c := range []struct {
		trips, cond *tensor.Tensor
		body        body
		want        int
		err         string
	}{
		{trips(3), nil, until(9), 3, ""}, {trips(9), nil, until(2), 2, ""}, {nil, yes, until(2), 2, ""}, {trips(0), yes, until(2), 0, ""},
		{trips(-1), nil, until(2), 0, ""}, {trips(3), no, until(2), 0, ""}, {nil, nil, until(1), 1, ""},
		{nil, nil, until(MaxIterations), MaxIterations, ""}, {nil, nil, until(MaxIterations + 1), 0, "does not end within the limit"},
		{tensor.FromSlice([]int64{1, 2}), nil, until(1), 0, "not one integer"},
		{nil, tensor.FromSlice([]bool{true, true}), until(1), 0, "not one bool"},
	} {
		last = -1
		out, err := evalWith(op, c.body, c.trips, c.cond, x)
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, int64(c.want)-1, last)
		require.Equal(t, c.want, out[1].Shape()[0])
	}
}

// TestDraws: a class without weight is never drawn, the others as often as their weights say.
func TestDraws(t *testing.T) {
	const n = 4000
	none := float32(math.Inf(-1))
	x := tensor.FromSlice([]float32{0, none, none, none, none, 5, 0, float32(math.Log(3)), none}, 3, 3)
	op := Multinomial{Typed: Typed{[]ir.Type{ir.TensorOf(tensor.I32)}}, Generator: Generator{Seeded: true, Seed: 1}, SampleSize: n,
		To: tensor.I32}
	out, err := ir.EvalOp(nil, op, []*tensor.Tensor{x})
	require.NoError(t, err)
	counts := [3][3]int{}
	for i := range out[0].Len() {
		counts[i/n][out[0].Int64(i)]++
	}
	require.Equal(t, [3]int{n, 0, 0}, counts[0])
	require.Equal(t, [3]int{0, 0, n}, counts[1])
	require.InDelta(t, n/4, counts[2][0], n/20)
	require.Equal(t, 0, counts[2][2])
	for _, wrong := range []Multinomial{{Typed: op.Typed, To: tensor.I32}, {Typed: op.Typed, SampleSize: 1, To: tensor.F32}} {
		_, err = ir.EvalOp(nil, wrong, []*tensor.Tensor{x})
		require.ErrorContains(t, err, "samples from")
	}
	_, err = ir.EvalOp(nil, op, []*tensor.Tensor{tensor.New(tensor.F32, 1, 0)})
	require.ErrorContains(t, err, "no classes")
	_, err = ir.EvalOp(nil, RandomUniform{}, nil)
	require.ErrorContains(t, err, "0 results where there is one")
}

// TestSequencesTakeMemory: elements that hold nothing take some all the same.
func TestSequencesTakeMemory(t *testing.T) {
	account := &memory.Account{Limit: 100 * elementBytes}
	split := func(n int) error {
		_, err := ir.EvalOp(&ir.Env{Memory: account}, SplitToSequence{}, []*tensor.Tensor{tensor.New(tensor.F32, n, 0)})
		return err
	}
	require.NoError(t, split(100))
	require.ErrorContains(t, split(101), "memory limit")
}

// TestEncodersWithoutParameters: a parameter that is missing, or is no tensor, has an error that names it.
func TestEncodersWithoutParameters(t *testing.T) {
	keys := tensor.FromSlice([]int64{1})
	label := NewLabelEncoder(keys, keys, keys)
	for i, a := range label.Attrs {
		wrong := label
		wrong.Attrs = slices.Delete(slices.Clone(label.Attrs), i, i+1)
		_, err := wrong.Prepare()
		require.ErrorContains(t, err, "it lacks its "+a.Name)
		wrong.Attrs = slices.Clone(label.Attrs)
		wrong.Attrs[i].Value = int64(1)
		_, err = wrong.Prepare()
		require.ErrorContains(t, err, "it lacks its "+a.Name)
	}
	_, err := OneHotEncoder{}.Prepare()
	require.ErrorContains(t, err, "it lacks its categories")
	for _, wrong := range []LabelEncoder{NewLabelEncoder(keys, tensor.FromSlice([]int64{1, 2}), keys),
		NewLabelEncoder(keys, keys, tensor.FromSlice([]int64{1, 2})), NewLabelEncoder(keys, keys, tensor.FromSlice([]int32{1}))} {
		_, err := wrong.Prepare()
		require.ErrorContains(t, err, "and default")
	}
}
