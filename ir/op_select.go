package ir

import (
	"fmt"

	"github.com/rlxc/rlxc/tensor"
)

// Where selects, element by element, operand 1 if operand 0 (bool) is true and operand 2 otherwise. All three broadcast.
type Where struct{}

func (Where) Kind() Kind { return KindWhere }

func (Where) Infer(in []*Value) ([]Type, error) {
	c, a, b := in[0].Type, in[1].Type, in[2].Type
	if c.DType != tensor.Bool {
		return nil, fmt.Errorf("the condition is %s, not bool", c.DType)
	}
	if a.DType != b.DType {
		return nil, fmt.Errorf("a choice between %s and %s", a.DType, b.DType)
	}
	s, err := BroadcastShapes(c.Shape, a.Shape, b.Shape)
	if err != nil {
		return nil, err
	}
	return []Type{TensorOf(a.DType, s...)}, nil
}

func (o Where) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	c, a, b := in[0], in[1], in[2]
	y := env.Output(o, in)
	s := y.Shape()
	ic, ia, ib := broadcastIndex(c.Shape(), s), broadcastIndex(a.Shape(), s), broadcastIndex(b.Shape(), s)
	for i := range env.Range(y.Len()) {
		if c.Int64(ic(i)) != 0 {
			copyElement(y, i, a, ia(i))
		} else {
			copyElement(y, i, b, ib(i))
		}
	}
	return []*tensor.Tensor{y}, nil
}

// Content implements contenter where every condition is decided.
func (Where) Content(in []*Value) []Dim {
	c, a, b := in[0].Dims, in[1].Dims, in[2].Dims
	if len(c) == 0 || len(a) == 0 || len(b) == 0 {
		return nil
	}
	out := make([]Dim, max(len(c), len(a), len(b)))
	for i := range out {
		yes, ok := c[i%len(c)].Const()
		switch {
		case !ok:
			return nil
		case yes != 0:
			out[i] = a[i%len(a)]
		default:
			out[i] = b[i%len(b)]
		}
	}
	return out
}

// Clip limits operand 0 to at least operand 1 and at most operand 2, scalars of its type; either may be absent. Where the
// limits cross, the upper one wins (ONNX, Clip).
type Clip struct{}

func (Clip) Kind() Kind { return KindClip }

func (Clip) Infer(in []*Value) ([]Type, error) {
	t := in[0].Type
	if !t.DType.IsFloat() && !t.DType.IsInt() {
		return nil, fmt.Errorf("clip is not defined for %s", t.DType)
	}
	for _, limit := range in[1:] {
		if limit != nil && (limit.Type.DType != t.DType || len(limit.Type.Shape) != 0) {
			return nil, fmt.Errorf("limit %v of %v is not a scalar of that type", limit.Type, t)
		}
	}
	return []Type{t}, nil
}

// Eval is max, then min.
func (Clip) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	y := env.Clone(in[0])
	for i, fn := range []BinaryFn{MaxFn, MinFn} {
		limit := Operand(in, 1+i)
		if limit == nil {
			continue
		}
		r, err := Binary{fn}.Eval(env, []*tensor.Tensor{y, limit})
		if err != nil {
			return nil, err
		}
		y = r[0]
	}
	return []*tensor.Tensor{y}, nil
}

func (Clip) Content(in []*Value) []Dim {
	out := append([]Dim(nil), in[0].Dims...)
	for i, combine := range []func(...Dim) Dim{Max, Min} {
		limit := Operand(in, 1+i)
		if limit == nil {
			continue
		}
		if limit.Dims == nil {
			return nil
		}
		for k, d := range out {
			out[k] = combine(d, limit.Dims[0])
		}
	}
	return out
}
