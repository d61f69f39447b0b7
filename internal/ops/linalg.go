package ops

import (
	"fmt"
	"math"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// BitCast reads the bits of elements as another type of the same size.
type BitCast struct {
	ir.Opaque[BitCast]
	To tensor.DType
}

func (o BitCast) Infer(in []*ir.Value) ([]ir.Type, error) {
	x := in[0].Type
	if !o.To.Valid() || o.To.Bits() != x.DType.Bits() || o.To.Bits() == 0 {
		return nil, fmt.Errorf("the bits of %v as type %v", x, o.To)
	}
	return []ir.Type{ir.TensorOf(o.To, x.Shape...)}, nil
}

func (o BitCast) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return []*tensor.Tensor{env.Clone(in[0].Bitcast(o.To))}, nil
}

// CumProd is the product of the elements up to each one along an axis.
type CumProd struct {
	ir.Opaque[CumProd]
	Axis               int
	Exclusive, Reverse bool
}

func (o CumProd) Infer(in []*ir.Value) ([]ir.Type, error) {
	x := in[0].Type
	if !x.DType.IsFloat() && !x.DType.IsInt() || o.Axis < 0 || o.Axis >= len(x.Shape) {
		return nil, fmt.Errorf("products of %v along axis %d", x, o.Axis)
	}
	return []ir.Type{x}, nil
}

func (o CumProd) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	y := env.Output(o, in)
	x := in[0]
	n, inner := x.Shape()[o.Axis], x.Shape()[o.Axis+1:].Elements()
	if x.Len() == 0 {
		return []*tensor.Tensor{y}, nil
	}
	for line := range env.Range(x.Shape()[:o.Axis].Elements() * inner) {
		env.Work(n)
		product, whole := 1.0, int64(1)
		for k := range n {
			if o.Reverse {
				k = n - 1 - k
			}
			at := (line/inner*n+k)*inner + line%inner
			before, wholeBefore := product, whole
			if x.DType().IsFloat() {
				product *= x.Float64(at)
			} else {
				whole *= x.Int64(at)
			}
			switch {
			case x.DType().IsFloat() && o.Exclusive:
				y.SetFloat64(at, before)
			case x.DType().IsFloat():
				y.SetFloat64(at, product)
			case o.Exclusive:
				y.SetInt64(at, wholeBefore)
			default:
				y.SetInt64(at, whole)
			}
		}
	}
	return []*tensor.Tensor{y}, nil
}

// Det is the determinant of square matrices.
type Det struct{ ir.Opaque[Det] }

func (o Det) Infer(in []*ir.Value) ([]ir.Type, error) {
	x := in[0].Type
	r := len(x.Shape)
	if r < 2 || ir.Same(x.Shape[r-2], x.Shape[r-1]) == ir.No || !x.DType.IsFloat() {
		return nil, fmt.Errorf("%v holds no square matrices", x)
	}
	return []ir.Type{ir.TensorOf(x.DType, x.Shape[:r-2]...)}, nil
}

func (o Det) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	y := env.Output(o, in)
	values, n := env.Float64s(in[0]), in[0].Shape()[in[0].Rank()-1]
	for i := range env.Range(y.Len()) {
		y.SetFloat64(i, determinant(env, values[i*n*n:(i+1)*n*n], n))
	}
	return []*tensor.Tensor{y}, nil
}

// determinant eliminates below pivots, the largest of each column; it changes a.
func determinant(env *ir.Env, a []float64, n int) float64 {
	det := 1.0
	for k := range n {
		pivot := k
		for i := k + 1; i < n; i++ {
			if math.Abs(a[i*n+k]) > math.Abs(a[pivot*n+k]) {
				pivot = i
			}
		}
		if a[pivot*n+k] == 0 {
			return 0
		}
		if pivot != k {
			det = -det
			for j := range n {
				a[k*n+j], a[pivot*n+j] = a[pivot*n+j], a[k*n+j]
			}
		}
		det *= a[k*n+k]
		for i := k + 1; i < n; i++ {
			env.Work(n - k)
			f := a[i*n+k] / a[k*n+k]
			for j := k; j < n; j++ {
				a[i*n+j] -= f * a[k*n+j]
			}
		}
	}
	return det
}
