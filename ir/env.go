package ir

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"unsafe"

	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/tensor"
)

// An Env is what a run passes to Eval: a memory account, a context, and the subgraphs of the node. Eval allocates large memory by its
// methods, and counts its work. An Eval that may not have memory or time ends early, and EvalOp returns the error. A nil Env sets no
// limits.
type Env struct {
	// Context ends Eval within some milliseconds; nil never does.
	Context context.Context
	// Memory is the account for results and working memory. Working memory is returned to it when Eval ends.
	Memory *memory.Account
	// Call runs a subgraph of the node; nil if the node has none. The caller owns the results, which are taken from Memory. Subgraphs are
	// closed: values from outside, except constants, are operands of the node.
	Call func(subgraph int, in []*tensor.Tensor) ([]*tensor.Tensor, error)

	work int // amount of work since Context was last checked
}

// ended is the panic that ends an Eval.
type ended struct{ err error }

// EvalOp runs op by its Eval. The caller releases the results.
func EvalOp(env *Env, op Op, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return env.Results(func() ([]*tensor.Tensor, error) { return op.Eval(env, in) })
}

// Results is Within for an f that makes tensors. The caller releases them.
func (e *Env) Results(f func() ([]*tensor.Tensor, error)) (out []*tensor.Tensor, err error) {
	before := e.used()
	err = e.Within(func() (err error) {
		if out, err = f(); e == nil || err != nil {
			return err
		}
		results := int64(0)
		for _, t := range out {
			results += t.Size()
		}
		e.Memory.Pass(min(results, e.used()-before))
		return nil
	})
	return out, err
}

// Within runs f, which allocates memory and counts work as an Eval does. Its memory is returned at its end.
func (e *Env) Within(f func() error) (err error) {
	before := e.used()
	defer func() { e.Give(e.used() - before) }()
	defer func() {
		switch r := recover().(type) {
		case nil:
		case ended:
			err = r.err
		default:
			panic(r)
		}
	}()
	return f()
}

// used returns the bytes that the account has taken.
func (e *Env) used() int64 {
	if e == nil || e.Memory == nil {
		return 0
	}
	return e.Memory.Used
}

// Hold reserves memory that outlives the Eval, until it is returned.
func (e *Env) Hold(bytes int64) error {
	if e == nil {
		return nil
	}
	return e.Memory.Take(bytes)
}

// Take reserves memory that Eval is about to allocate.
func (e *Env) Take(bytes int64) {
	if e == nil {
		return
	}
	if err := e.Memory.Take(bytes); err != nil {
		panic(ended{err})
	}
}

// Give returns memory before the end of Eval, because it is garbage.
func (e *Env) Give(bytes int64) {
	if e != nil {
		e.Memory.Give(bytes)
	}
}

// Release releases what a subgraph returned. Sequences share their elements with others.
func (e *Env) Release(ts ...*tensor.Tensor) {
	for _, t := range ts {
		switch {
		case e == nil || t == nil:
		case t.IsSequence():
			e.Memory.Pass(t.Size())
		default:
			e.Memory.Give(t.Size())
		}
	}
}

// New makes a tensor of zeros.
func (e *Env) New(d tensor.DType, shape ...int) *tensor.Tensor {
	n, err := tensor.Shape(shape).CheckElements(d)
	if err != nil {
		panic(ended{err})
	}
	e.Take(bytesOf(d, n))
	return tensor.New(d, shape...)
}

// Outputs makes the tensors of what op returns for these operands.
func (e *Env) Outputs(op Op, in []*tensor.Tensor) []*tensor.Tensor {
	values := make([]*Value, len(in))
	for i, t := range in {
		if t != nil {
			values[i] = &Value{Type: TensorOf(t.DType(), Dims(t.Shape()...)...)}
		}
	}
	types, err := op.Infer(values)
	if err != nil {
		panic(ended{err})
	}
	out := make([]*tensor.Tensor, len(types))
	for i, t := range types {
		shape, ok := t.Static()
		if !ok {
			panic(ended{fmt.Errorf("the size of result %d, %v, is not known", i, t)})
		}
		out[i] = e.New(t.DType, shape...)
	}
	return out
}

// Output is Outputs of an op that returns one tensor.
func (e *Env) Output(op Op, in []*tensor.Tensor) *tensor.Tensor { return e.Outputs(op, in)[0] }

// Clone copies a tensor.
func (e *Env) Clone(t *tensor.Tensor) *tensor.Tensor {
	e.Take(t.Size())
	return t.Clone()
}

// Float64s reads all elements of a tensor.
func (e *Env) Float64s(t *tensor.Tensor) []float64 {
	e.Take(8 * int64(t.Len()))
	e.Work(t.Len())
	return t.Float64s()
}

// Make makes a slice of zeros.
func Make[T any](e *Env, n int) []T {
	var zero T
	if size := int64(unsafe.Sizeof(zero)); size > 0 {
		if int64(n) > 1<<62/size {
			panic(ended{fmt.Errorf("%d elements of working memory", n)})
		}
		e.Take(int64(n) * size)
	}
	return make([]T, n)
}

// workStep is the number of elementary steps between two looks at the context: less than a millisecond of most.
const workStep = 1 << 14

// Work counts elementary steps before they run.
func (e *Env) Work(steps int) {
	if e == nil {
		return
	}
	if e.work += steps; e.work < workStep {
		return
	}
	e.work = 0
	if e.Context != nil && e.Context.Err() != nil {
		panic(ended{e.Context.Err()})
	}
}

// Range counts to n, and one step of work for each number.
func (e *Env) Range(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range n {
			if e.Work(1); !yield(i) {
				return
			}
		}
	}
}

// Subgraph runs one of the node's subgraphs, by Call.
func (e *Env) Subgraph(subgraph int, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if e == nil || e.Call == nil {
		return nil, errors.New("it has subgraphs and cannot be computed from its operands alone")
	}
	return e.Call(subgraph, in)
}

// Evaluator runs graphs within the Env.
func (e *Env) Evaluator() *Evaluator {
	if e == nil {
		return new(Evaluator)
	}
	return &Evaluator{Context: e.Context, Memory: e.Memory}
}
