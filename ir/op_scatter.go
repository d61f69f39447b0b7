package ir

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/tensor"
)

// ScatterElements is operand 0 with the elements of operand 2 written at the indices in operand 1 along Axis. Reduce combines them with
// the existing elements.
type ScatterElements struct {
	Axis   int
	Reduce Reduction
}

func (ScatterElements) Kind() Kind { return KindScatterElements }

// Infer returns operand 0's type.
func (o ScatterElements) Infer(in []*Value) ([]Type, error) {
	x, index, updates := in[0].Type, in[1].Type, in[2].Type
	if err := elementIndices(x, index, o.Axis); err != nil {
		return nil, err
	}
	if err := updatesLike(x, index.Shape, updates); err != nil {
		return nil, err
	}
	return []Type{x}, o.Reduce.scatters(x.DType)
}

func updatesLike(x Type, s Shape, updates Type) error {
	if updates.DType != x.DType || len(updates.Shape) != len(s) {
		return fmt.Errorf("updates %v: %s%v expected", updates, x.DType, s)
	}
	for i, d := range updates.Shape {
		if Same(d, s[i]) == No {
			return fmt.Errorf("updates %v: %s%v expected", updates, x.DType, s)
		}
	}
	return nil
}

// scatterFns are the functions by which scatters combine an element with an update, by reduction.
var scatterFns = [NumReductions]BinaryFn{Sum: Add, Prod: Mul, MaxOf: MaxFn, MinOf: MinFn}

// scatters returns an error if scatters of this reduction do not support values of type d.
func (r Reduction) scatters(d tensor.DType) error {
	switch {
	case r == NoReduction:
	case r >= NumReductions || scatterFns[r] == NoBinary:
		return fmt.Errorf("scattering does not combine by %s", r)
	case !d.IsFloat() && !d.IsInt():
		return fmt.Errorf("%s is not defined for %s", r, d)
	}
	return nil
}

// put writes x[j] to y[i], combined with what is there.
func (r Reduction) put(y *tensor.Tensor, i int, x *tensor.Tensor, j int) {
	if r == NoReduction {
		copyElement(y, i, x, j)
		return
	}
	row := binaryTable[scatterFns[r]]
	switch d := y.DType(); {
	case d.IsFloat():
		y.SetFloat64(i, row.real(y.Float64(i), x.Float64(j)))
	case d == tensor.U64 && row.wide != nil:
		y.SetInt64(i, int64(row.wide(uint64(y.Int64(i)), uint64(x.Int64(j)))))
	default:
		y.SetInt64(i, row.whole(y.Int64(i), x.Int64(j)))
	}
}

func (o ScatterElements) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	y, index, updates := env.Clone(in[0]), in[1], in[2]
	err := eachElement(env, y.Shape(), index, o.Axis, func(i, at int) { o.Reduce.put(y, at, updates, i) })
	return []*tensor.Tensor{y}, err
}

// ScatterND is operand 0 with slices of operand 2 written at the index tuples of operand 1. Reduce combines them with the existing
// elements.
type ScatterND struct{ Reduce Reduction }

func (ScatterND) Kind() Kind { return KindScatterND }

// Infer returns operand 0's type.
func (o ScatterND) Infer(in []*Value) ([]Type, error) {
	x, index, updates := in[0].Type, in[1].Type, in[2].Type
	tuple, err := tupleSize(x, index, 0)
	if err != nil {
		return nil, err
	}
	s := slices.Concat(index.Shape[:len(index.Shape)-1], x.Shape[tuple:])
	if err := updatesLike(x, s, updates); err != nil {
		return nil, err
	}
	return []Type{x}, o.Reduce.scatters(x.DType)
}

func (o ScatterND) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	y, index, updates := env.Clone(in[0]), in[1], in[2]
	is := index.Shape()
	inner := y.Shape()[is[len(is)-1]:].Elements()
	for t := range env.Range(is[:len(is)-1].Elements()) {
		at, err := tupleOffset(y.Shape(), index, t)
		if err != nil {
			return nil, err
		}
		for i := range env.Range(inner) {
			o.Reduce.put(y, at+i, updates, t*inner+i)
		}
	}
	return []*tensor.Tensor{y}, nil
}
