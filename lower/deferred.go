package lower

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

func (c *context) deferred(types ...ir.Type) ops.Deferred {
	c.b.deferred++
	return ops.Deferred{Typed: typed(types...), Domain: c.domain, Operator: c.name, Version: c.version, Attrs: c.attrs,
		Lowering: NewDeferred()}
}

// NewDeferred returns an ops.Lowering for a node. It lowers the node with the operands at hand and evaluates the result, which serves
// again for operands of the same types and the same integers. It fails with ErrUnsupported if it knows no such operator.
func NewDeferred() ops.Lowering {
	var last atomic.Pointer[lowered]
	return func(env *ir.Env, o ops.Deferred, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		l := last.Load()
		if l == nil || !l.serves(in) {
			var err error
			if l, err = lowerWith(o, in, decides); err == nil {
				last.Store(l)
			} else if l, err = lowerWith(o, in, func(*tensor.Tensor) bool { return true }); err != nil {
				return nil, err
			}
		}
		return l.run(env, in)
	}
}

// A lowered is what a Deferred has become for some operands.
type lowered struct {
	graph  *ir.Graph
	fixed  []*tensor.Tensor // by operand: what is constant in graph
	inputs []int            // the operands that are inputs of graph
	shapes []tensor.Shape   // of those
}

// decides reports whether a node's form may follow from the content of an operand: of a few integers.
func decides(t *tensor.Tensor) bool {
	const few = 64
	return t.IsSequence() || !t.DType().IsFloat() && t.Len() <= few
}

// lowerWith lowers the node of o with those operands constant that fixed says.
func lowerWith(o ops.Deferred, in []*tensor.Tensor, fixed func(t *tensor.Tensor) bool) (*lowered, error) {
	b := &builder{g: ir.NewGraph(o.String()), lists: map[*ir.Value][]*ir.Value{}, memo: ir.NewMemo(math.MaxInt), maxFold: math.MaxInt}
	l := &lowered{graph: b.g, fixed: make([]*tensor.Tensor, len(in))}
	values := make([]*ir.Value, len(in))
	for i, t := range in {
		switch {
		case t == nil:
		case fixed(t):
			l.fixed[i] = t.Clone() // which the run may write over
			values[i] = b.g.NewConst("", l.fixed[i])
		default:
			values[i] = b.g.NewValue(fmt.Sprintf("operand %d", i), ir.TensorOf(t.DType(), ir.Dims(t.Shape()...)...))
			b.g.Inputs = append(b.g.Inputs, values[i])
			l.inputs, l.shapes = append(l.inputs, i), append(l.shapes, t.Shape().Clone())
		}
	}
	op := operator{domain: o.Domain, name: o.Operator, version: o.Version, attrs: o.Attrs}
	for i := range o.Types {
		op.outputs = append(op.outputs, fmt.Sprintf("output %d", i))
	}
	out, err := b.lowerNode(op, values)
	if err != nil {
		return nil, err
	}
	if b.deferred > 0 {
		return nil, errors.New("the operator needs data that it computes itself")
	}
	for i, v := range out {
		if v == nil {
			return nil, fmt.Errorf("%w: output %d is not computed", ErrUnsupported, i)
		}
	}
	b.g.Outputs = out[:min(len(out), len(o.Types))]
	return l, nil
}

// serves reports whether l is what these operands would become.
func (l *lowered) serves(in []*tensor.Tensor) bool {
	if len(in) != len(l.fixed) {
		return false
	}
	given := 0
	for i, t := range in {
		switch x := l.fixed[i]; {
		case x != nil:
			if t == nil || t.IsSequence() || t.DType() == tensor.String || t.DType() != x.DType() || !t.Shape().Equal(x.Shape()) ||
				!bytes.Equal(t.Bytes(), x.Bytes()) {
				return false
			}
		case given < len(l.inputs) && l.inputs[given] == i:
			if t == nil || t.IsSequence() || t.DType() != l.graph.Inputs[given].Type.DType || !t.Shape().Equal(l.shapes[given]) {
				return false
			}
			given++
		case t != nil:
			return false
		}
	}
	return true
}

// run evaluates l.
func (l *lowered) run(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	inputs := make([]*tensor.Tensor, len(l.inputs))
	for k, i := range l.inputs {
		inputs[k] = in[i]
	}
	results, err := env.Evaluator().Graph(l.graph, inputs, ir.Binding{})
	if err != nil {
		return nil, err
	}
	for i, t := range results {
		if l.graph.Outputs[i].Def == nil { // an operand passed through, or a constant, which the next run needs
			results[i] = t.Clone()
		}
	}
	return results, nil
}
