package ir_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// noEval is an op that must not be evaluated.
type noEval struct{ ir.Unary }

func (noEval) Eval(*ir.Env, []*tensor.Tensor) ([]*tensor.Tensor, error) { panic("evaluated") }

// TestResultsMustFit: a result that is too large, whose size is known, ends a run before the op is asked for it.
func TestResultsMustFit(t *testing.T) {
	for _, c := range []struct {
		sizes ir.Binding
		want  string
	}{
		{ir.Binding{"n": 10}, "result 0: 40 bytes in all are above the memory limit of 39"},
		{ir.Binding{"n": 1 << 62}, "result 0: "},
	} {
		g := ir.NewGraph("")
		n := &ir.Node{Op: noEval{ir.Unary{Fn: ir.Exp}}, Inputs: []*ir.Value{g.AddInput("x", ir.TensorOf(tensor.F32, ir.Sym("n")))},
			Outputs: []*ir.Value{{Type: ir.TensorOf(tensor.F32, ir.Sym("n"))}}}
		e := ir.Evaluator{Memory: &memory.Account{Limit: 39}}
		_, err := e.Node(n, []*tensor.Tensor{tensor.New(tensor.F32, 10)}, c.sizes)
		require.ErrorContains(t, err, c.want)
	}
}

type otherResult struct {
	ir.Unary
	out *tensor.Tensor
}

func (o otherResult) Eval(*ir.Env, []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return []*tensor.Tensor{o.out}, nil
}

// TestResultsMustBeOfTheirType: an op that returns another type than it says is an error, and no size is learned of it.
func TestResultsMustBeOfTheirType(t *testing.T) {
	for want, out := range map[string]*tensor.Tensor{
		"is i64[3] where f32[n] is wanted":        tensor.New(tensor.I64, 3),
		"is f32[3,1] where f32[n] is wanted":      tensor.New(tensor.F32, 3, 1),
		"is f32[3] where the graph says f32[n]":   tensor.New(tensor.F32, 3),
		"is sequence of 1 where f32[n] is wanted": tensor.NewSequence(tensor.New(tensor.F32, 2)),
	} {
		g := ir.NewGraph("")
		n := &ir.Node{Op: otherResult{ir.Unary{Fn: ir.Exp}, out}, Outputs: []*ir.Value{{Type: ir.TensorOf(tensor.F32, ir.Sym("n"))}},
			Inputs: []*ir.Value{g.AddInput("x", ir.TensorOf(tensor.F32, ir.Sym("n")))}}
		sizes := ir.Binding{"n": 2}
		_, err := (&ir.Evaluator{}).Node(n, []*tensor.Tensor{tensor.New(tensor.F32, 2)}, sizes)
		require.ErrorContains(t, err, want)
		require.Equal(t, ir.Binding{"n": 2}, sizes)
	}
}

type impossible struct{ ir.Unary }

func (impossible) Eval(env *ir.Env, _ []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return []*tensor.Tensor{env.New(tensor.F32, 1<<40, 1<<40)}, nil
}

// TestImpossibleResults: a tensor that no machine can hold ends an op with an error, with limit and without.
func TestImpossibleResults(t *testing.T) {
	for _, env := range []*ir.Env{nil, {}, {Memory: &memory.Account{Limit: 1 << 10}}} {
		_, err := ir.EvalOp(env, impossible{ir.Unary{Fn: ir.Exp}}, []*tensor.Tensor{tensor.New(tensor.F32, 1)})
		require.ErrorContains(t, err, "1099511627776")
	}
}

// TestRelease: what a subgraph returned is released once, and elements of a sequence are not.
func TestRelease(t *testing.T) {
	account := &memory.Account{Limit: 1 << 10}
	e := &ir.Env{Memory: account}
	x := e.New(tensor.F32, 10)
	y := e.New(tensor.F32, 5)
	require.EqualValues(t, 60, account.Used)
	e.Release(x, nil)
	require.EqualValues(t, 20, account.Used)
	sequence := tensor.NewSequence(y)
	e.Take(sequence.Size())
	e.Release(sequence)
	require.EqualValues(t, 20, account.Used)
	(*ir.Env)(nil).Release(x)
}

// TestContentOfNothing: what is known of two operands is known of their sum, of no elements too.
func TestContentOfNothing(t *testing.T) {
	one, two, none := ir.Dims(7), ir.Dims(1, 2), []ir.Dim{}
	for _, c := range [][3][]ir.Dim{{one, two, ir.Dims(8, 9)}, {two, two, ir.Dims(2, 4)}, {none, one, none}, {one, none, none},
		{none, none, none}, {two, ir.Dims(1, 2, 3), nil}, {nil, one, nil}} {
		require.Equal(t, c[2], ir.Binary{Fn: ir.Add}.Content([]*ir.Value{{Dims: c[0]}, {Dims: c[1]}}))
	}
}

// TestFoldDepth: a chain of nodes that is too long for the stack is not folded.
func TestFoldDepth(t *testing.T) {
	g := ir.NewGraph("")
	v := g.NewConst("", tensor.Scalar(float32(2)))
	for n := 1; n <= 10_001; n++ {
		out, err := g.Append(ir.Unary{Fn: ir.Neg}, []*ir.Value{v})
		require.NoError(t, err)
		v = out[0]
		if n == 100 {
			x, ok := ir.Fold(v, 10, ir.NewMemo(1<<20))
			require.True(t, ok)
			require.Equal(t, 2.0, x.Float64(0))
		}
	}
	_, ok := ir.Fold(v, 10, ir.NewMemo(1<<20))
	require.False(t, ok)
}
