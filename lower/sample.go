package lower

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

var sampleRows = []row{
	{"AffineGrid", 20, lowerAffineGrid},
	{"GridSample", 16, lowerGridSample},
}

// lowerAffineGrid multiplies homogeneous coordinates, the innermost axis first, by the matrices theta [N,r,r+1].
func lowerAffineGrid(c *Context) []*ir.Value {
	theta, corners := c.In(0), c.AttrBool("align_corners", false)
	if !c.IsConst(1) && c.In(1).Dims == nil {
		if Rank(theta) != 3 {
			c.Failf("theta %v", theta.Type)
		}
		shape := ir.Shape{theta.Type.Shape[0]}
		axes, _ := theta.Type.Shape[1].Const()
		for k := range axes {
			shape = append(shape, c.Fresh(k))
		}
		return c.AtRun(ir.TensorOf(theta.Type.DType, append(shape, theta.Type.Shape[1])...))
	}
	size := c.Dims(1)
	r := len(size) - 2
	if r < 1 || Rank(theta) != 3 || ir.Same(theta.Type.Shape[1], ir.N(r)) == ir.No || ir.Same(theta.Type.Shape[2], ir.N(r+1)) == ir.No {
		c.Failf("theta %v for images %v", theta.Type, ir.Shape(size))
	}
	spatial := ir.Shape(size[2:])
	scalar := func(v float64) *ir.Value { return c.Scalar(tensor.F64, v) }
	column := append(slices.Clone(spatial), ir.N(1))
	var columns []*ir.Value
	for axis := r - 1; axis >= 0; axis-- {
		x := c.cast(c.count(spatial[axis], axis, r+1), tensor.F64)
		n := spatial[axis]
		if corners {
			n = ir.Max(n.Sub(ir.N(1)), ir.N(1)) // a single element lies at the first corner
		} else {
			x = c.binary(ir.Add, x, scalar(0.5))
		}
		x = c.binary(ir.Div, c.binary(ir.Mul, x, scalar(2)), c.cast(c.sizeScalar(n), tensor.F64))
		columns = append(columns, c.expand(c.binary(ir.Sub, x, scalar(1)), column))
	}
	columns = append(columns, c.expand(scalar(1), column))
	points := c.reshape(c.Emit(ir.Concat{Axis: r}, columns...), ir.Shape{spatial.Elements(), ir.N(r + 1)})
	grid := c.Emit(ir.MatMul{TransB: true}, points, c.cast(theta, tensor.F64))
	grid = c.cast(grid, theta.Type.DType)
	return []*ir.Value{c.reshape(grid, slices.Concat(ir.Shape{theta.Type.Shape[0]}, spatial, ir.Shape{ir.N(r)}))}
}

// A sampler reads images between their elements (ONNX, GridSample).
type sampler struct {
	mode    string // nearest, linear, cubic
	padding string // zeros, border, reflection
	corners bool   // ±1 are the centres of the outermost elements, not their edges
}

func lowerGridSample(c *Context) []*ir.Value {
	x, grid := c.In(0).Type, c.In(1).Type
	s := sampler{c.AttrString("mode", "linear"), c.AttrString("padding_mode", "zeros"), c.AttrBool("align_corners", false)}
	switch s.mode {
	case "bilinear":
		s.mode = "linear"
	case "bicubic":
		s.mode = "cubic"
	}
	if !slices.Contains([]string{"nearest", "linear", "cubic"}, s.mode) || !slices.Contains([]string{"zeros", "border", "reflection"}, s.padding) {
		c.Failf("mode %q, padding_mode %q", s.mode, s.padding)
	}
	r := len(x.Shape) - 2
	if r < 1 || len(grid.Shape) != r+2 || ir.Same(grid.Shape[r+1], ir.N(r)) == ir.No || ir.Same(grid.Shape[0], x.Shape[0]) == ir.No ||
		!x.DType.IsFloat() && !x.DType.IsInt() || !grid.DType.IsFloat() {
		c.Failf("grid %v for images %v", grid, x)
	}
	run := func(o ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		y := resultOf(o, 0)
		if n := in[0].Shape()[0]; in[1].Shape()[0] != n || in[1].Shape()[r+1] != r {
			return nil, fmt.Errorf("grid %v for images %v", in[1], in[0])
		}
		s.sample(in[0], in[1], y)
		return []*tensor.Tensor{y}, nil
	}
	shape := slices.Concat(x.Shape[:2], grid.Shape[1:r+1])
	return c.Kernel(run, ir.TensorOf(x.DType, shape...))
}

func (s sampler) sample(x, grid, y *tensor.Tensor) {
	spatial := x.Shape()[2:]
	r, size, places := len(spatial), spatial.Elements(), y.Shape()[2:].Elements()
	strides, channels, values := spatial.Strides(), x.Shape()[1], x.Float64s()
	taps := make([]mix, r)
	counts := make(tensor.Shape, r)
	if size == 0 {
		return
	}
	for p := range x.Shape()[0] * places {
		for axis := range r {
			taps[axis] = s.neighbours(float32(grid.Float64(p*r+r-1-axis)), spatial[axis])
			counts[axis] = len(taps[axis])
		}
		n, place := p/places, p%places
		for ch := range channels {
			sum := 0.0
			ir.EachIndex(counts, func(_ int, idx []int) {
				at, weight := (n*channels+ch)*size, 1.0
				for axis, k := range idx {
					at += taps[axis][k].at * strides[axis]
					weight *= taps[axis][k].weight
				}
				sum += weight * values[at]
			})
			y.SetFloat64((n*channels+ch)*places+place, sum)
		}
	}
}

// neighbours gives the weighted elements of an axis of size n around a coordinate between −1 and 1; elements in a padding
// of zeros are left out. Coordinates are float32, so that halves round as in other runtimes.
func (s sampler) neighbours(coordinate float32, n int) (m mix) {
	lo, hi := -0.5, float64(n)-0.5
	x := float64(((coordinate+1)*float32(n) - 1) / 2)
	if s.corners {
		lo, hi = 0, float64(n-1)
		x = float64((coordinate + 1) / 2 * float32(n-1))
	}
	if s.mode == "nearest" {
		x = math.RoundToEven(x)
	}
	if x < lo || x > hi {
		switch s.padding {
		case "border":
			x = min(max(x, 0), float64(n-1))
		case "reflection":
			x = reflect(x, lo, hi)
		}
	}
	add := func(at, weight float64) {
		if at < 0 || at >= float64(n) {
			switch s.padding {
			case "zeros":
				return
			case "border":
				at = min(max(at, 0), float64(n-1))
			case "reflection":
				at = math.Trunc(reflect(at, lo, hi))
			}
		}
		m = append(m, neighbour{min(max(int(at), 0), n-1), weight})
	}
	lower := math.Floor(x)
	d := x - lower
	switch s.mode {
	case "nearest":
		add(x, 1)
	case "linear":
		add(lower, 1-d)
		add(lower+1, d)
	case "cubic":
		for k := -1.0; k <= 2; k++ {
			add(lower+k, cubic(k-d, -0.75))
		}
	}
	return m
}

// reflect mirrors x at the borders until it lies between them.
func reflect(x, lo, hi float64) float64 {
	if lo == hi {
		return lo
	}
	d := math.Mod(math.Abs(x-lo), 2*(hi-lo))
	return lo + min(d, 2*(hi-lo)-d)
}
