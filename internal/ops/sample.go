package ops

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// GridSample reads images [N,C,…] between their elements, where a grid [N,…,r] of coordinates says.
type GridSample struct {
	ir.Opaque[GridSample]
	Mode    string // nearest, linear, cubic
	Padding string // zeros, border, reflection
	Corners bool   `ir:"align_corners"` // ±1 are the centres of the outermost elements, not their edges
}

func (o GridSample) Infer(in []*ir.Value) ([]ir.Type, error) {
	x, grid := in[0].Type, in[1].Type
	if !slices.Contains([]string{"nearest", "linear", "cubic"}, o.Mode) ||
		!slices.Contains([]string{"zeros", "border", "reflection"}, o.Padding) {
		return nil, fmt.Errorf("mode %q, padding_mode %q", o.Mode, o.Padding)
	}
	r := len(x.Shape) - 2
	if r < 1 || len(grid.Shape) != r+2 || ir.Same(grid.Shape[r+1], ir.N(r)) == ir.No || ir.Same(grid.Shape[0], x.Shape[0]) == ir.No ||
		!x.DType.IsFloat() && !x.DType.IsInt() || !grid.DType.IsFloat() {
		return nil, fmt.Errorf("grid %v for images %v", grid, x)
	}
	return []ir.Type{ir.TensorOf(x.DType, slices.Concat(x.Shape[:2], grid.Shape[1:r+1])...)}, nil
}

func (o GridSample) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	y := env.Output(o, in)
	o.sample(env, in[0], in[1], y)
	return []*tensor.Tensor{y}, nil
}

func (s GridSample) sample(env *ir.Env, x, grid, y *tensor.Tensor) {
	spatial := x.Shape()[2:]
	r, size, positions := len(spatial), spatial.Elements(), y.Shape()[2:].Elements()
	strides, channels, values := spatial.Strides(), x.Shape()[1], env.Float64s(x)
	taps := make([]Mix, r)
	counts := make(tensor.Shape, r)
	if size == 0 {
		return
	}
	for p := range x.Shape()[0] * positions {
		for axis := range r {
			taps[axis] = s.Neighbours(taps[axis][:0], float32(grid.Float64(p*r+r-1-axis)), spatial[axis])
			counts[axis] = len(taps[axis])
		}
		n, position := p/positions, p%positions
		for ch := range channels {
			sum := 0.0
			ir.EachIndex(env, counts, func(_ int, idx []int) {
				at, weight := (n*channels+ch)*size, 1.0
				for axis, k := range idx {
					at += taps[axis][k].At * strides[axis]
					weight *= taps[axis][k].Weight
				}
				sum += weight * values[at]
			})
			y.SetFloat64((n*channels+ch)*positions+position, sum)
		}
	}
}

// Neighbours appends the weighted elements of an axis of size n around a coordinate between −1 and 1, four at most; elements in a
// padding of zeros are left out. Coordinates are float32, so that halves round as in other runtimes. A cubic kernel weighs neighbours by
// their distance from the coordinate itself: with a padding of border, only the neighbours move into the image.
func (s GridSample) Neighbours(m Mix, coordinate float32, n int) Mix {
	lo, hi := -0.5, float64(n)-0.5
	x := float64(((coordinate+1)*float32(n) - 1) / 2)
	if s.Corners {
		lo, hi = 0, float64(n-1)
		x = float64((coordinate + 1) / 2 * float32(n-1))
	}
	if s.Mode == "nearest" {
		x = math.RoundToEven(x)
	}
	if x < lo || x > hi {
		switch s.Padding {
		case "border":
			if s.Mode != "cubic" {
				x = min(max(x, 0), float64(n-1))
			}
		case "reflection":
			x = reflect(x, lo, hi)
		}
	}
	add := func(at, weight float64) {
		if at < 0 || at >= float64(n) {
			switch s.Padding {
			case "zeros":
				return
			case "border":
				at = min(max(at, 0), float64(n-1))
			case "reflection":
				at = math.Trunc(reflect(at, lo, hi))
			}
		}
		m = append(m, Neighbour{min(max(int(at), 0), n-1), weight})
	}
	lower := math.Floor(x)
	d := x - lower
	switch s.Mode {
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

// reflect mirrors x at the borders until it is between them.
func reflect(x, lo, hi float64) float64 {
	if lo == hi {
		return lo
	}
	d := math.Mod(math.Abs(x-lo), 2*(hi-lo))
	return lo + min(d, 2*(hi-lo)-d)
}
