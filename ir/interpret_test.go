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

// TestContentOfNothing: what is known of two operands is known of their sum, of no elements too.
func TestContentOfNothing(t *testing.T) {
	one, two, none := ir.Dims(7), ir.Dims(1, 2), []ir.Dim{}
	for _, c := range [][3][]ir.Dim{{one, two, ir.Dims(8, 9)}, {two, two, ir.Dims(2, 4)}, {none, one, none}, {one, none, none},
		{none, none, none}, {two, ir.Dims(1, 2, 3), nil}, {nil, one, nil}} {
		require.Equal(t, c[2], ir.Binary{Fn: ir.Add}.Content([]*ir.Value{{Dims: c[0]}, {Dims: c[1]}}))
	}
}
