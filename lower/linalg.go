package lower

import (
	"math"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Small operators that are kept as they are.
var linalgRows = []row{
	{"BitCast", 26, lowerBitCast},
	{"CumProd", 26, lowerCumProd},
	{"Det", 11, lowerDet},
}

func lowerBitCast(c *Context) []*ir.Value {
	x, to := c.In(0).Type, tensor.DType(c.AttrInt("to", 0))
	if !to.Valid() || to.Bits() != x.DType.Bits() || to.Bits() == 0 {
		c.Failf("the bits of %v as type %v", x, to)
	}
	run := func(_ ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		return []*tensor.Tensor{in[0].Bitcast(to).Clone()}, nil
	}
	return c.Kernel(run, ir.TensorOf(to, x.Shape...))
}

func lowerCumProd(c *Context) []*ir.Value {
	x := c.In(0).Type
	axis := c.Axis(int(c.number(1)), len(x.Shape))
	exclusive, reverse := c.AttrBool("exclusive", false), c.AttrBool("reverse", false)
	if !x.DType.IsFloat() && !x.DType.IsInt() {
		c.Failf("products of %s", x.DType.ONNX())
	}
	run := func(o ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		x, y := in[0], resultOf(o, 0)
		n, inner := x.Shape()[axis], x.Shape()[axis+1:].Elements()
		for line := range x.Shape()[:axis].Elements() * inner {
			product, whole := 1.0, int64(1)
			for k := range n {
				if reverse {
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
				case x.DType().IsFloat() && exclusive:
					y.SetFloat64(at, before)
				case x.DType().IsFloat():
					y.SetFloat64(at, product)
				case exclusive:
					y.SetInt64(at, wholeBefore)
				default:
					y.SetInt64(at, whole)
				}
			}
		}
		return []*tensor.Tensor{y}, nil
	}
	return c.Kernel(run, x)
}

func lowerDet(c *Context) []*ir.Value {
	x := c.In(0).Type
	r := len(x.Shape)
	if r < 2 || ir.Same(x.Shape[r-2], x.Shape[r-1]) == ir.No || !x.DType.IsFloat() {
		c.Failf("%v holds no square matrices", x)
	}
	run := func(o ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		y, values, n := resultOf(o, 0), in[0].Float64s(), in[0].Shape()[r-1]
		for i := range y.Len() {
			y.SetFloat64(i, determinant(values[i*n*n:(i+1)*n*n], n))
		}
		return []*tensor.Tensor{y}, nil
	}
	return c.Kernel(run, ir.TensorOf(x.DType, x.Shape[:r-2]...))
}

// determinant eliminates below pivots, the largest of each column; it changes a.
func determinant(a []float64, n int) float64 {
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
			f := a[i*n+k] / a[k*n+k]
			for j := k; j < n; j++ {
				a[i*n+j] -= f * a[k*n+j]
			}
		}
	}
	return det
}
