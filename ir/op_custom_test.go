package ir

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/tensor"
)

// faulty is a mistake of a user, two calls below the kernel.
func faulty(x []float32) float32 { return element(x, len(x)) }

func element(x []float32, i int) float32 { return x[i] }

// TestPanicOfAKernelShowsTheUsersCalls: the error lists the functions of the operator's author, and none of the runtime or of this
// package's callers.
func TestPanicOfAKernelShowsTheUsersCalls(t *testing.T) {
	def := &OpDef{Name: "com.example.Faulty",
		Infer: func(in []Type, _ Attrs) ([]Type, error) { return []Type{in[3]}, nil },
		Eval: func(in []*tensor.Tensor, _ Attrs) ([]*tensor.Tensor, error) {
			faulty(tensor.Of[float32](in[0]))
			return in, nil
		}}
	_, err := Custom{Name: def.Name, Types: make([]Type, 1), Def: def}.Eval(nil, []*tensor.Tensor{tensor.New(tensor.F32, 4)})
	var panicked *PanicError
	require.ErrorAs(t, err, &panicked)
	require.Equal(t, "kernel", panicked.Part)
	require.Regexp(t, `^the kernel of custom operator com.example.Faulty panicked: runtime error: index out of range \[4\] with length 4
	\S+ir\.element \(\S+op_custom_test.go:16\)
	\S+ir\.faulty \(\S+op_custom_test.go:14\)
	\S+ir\.TestPanicOfAKernelShowsTheUsersCalls.func2 \(\S+op_custom_test.go:\d+\)$`, err.Error())

	_, err = def.Types(nil, nil)
	require.ErrorAs(t, err, &panicked)
	require.Equal(t, "shape rule", panicked.Part)
	require.ErrorContains(t, err, "index out of range [3] with length 0\n\t")

	own := errors.New("own")
	def.Eval = func([]*tensor.Tensor, Attrs) ([]*tensor.Tensor, error) { panic(own) }
	_, err = def.eval(nil, nil)
	require.ErrorIs(t, err, own)
}

// A fault is what a read beyond the end of a truncated file panics with.
type fault struct{}

func (fault) Addr() uintptr { return 0 }

// TestTruncatedFileIsNoPanicOfAKernel: a kernel that reads a weight whose file was truncated is not at fault.
func TestTruncatedFileIsNoPanicOfAKernel(t *testing.T) {
	require.Error(t, files.FaultError(fault{}))
	def := &OpDef{Name: "com.example.Reads", Eval: func([]*tensor.Tensor, Attrs) ([]*tensor.Tensor, error) { panic(fault{}) }}
	require.PanicsWithValue(t, fault{}, func() { _, _ = def.eval(nil, nil) })
}
