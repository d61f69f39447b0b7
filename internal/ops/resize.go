package ops

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Resize mixes the elements of a result from those of the operand, axis by axis (ONNX, Resize and Upsample).
type Resize struct {
	ir.Opaque[Resize]
	Shape          ir.Shape  // shape of the result
	Scales         []float64 // scale of each axis; 0 for the quotient of the sizes
	Roi            []float64 // a start and an end for each axis; only tf_crop_and_resize uses it
	Mode           string    // nearest, linear, cubic
	Coordinates    string
	Nearest        string // a key of nearestModes
	CubicA         float64
	ExcludeOutside bool
	Extrapolation  float64
	Antialias      bool
}

func (o Resize) Infer(in []*ir.Value) ([]ir.Type, error) {
	x := in[0].Type
	if err := o.Check(len(x.Shape)); err != nil {
		return nil, err
	}
	if !x.DType.IsFloat() && !x.DType.IsInt() || len(o.Shape) != len(x.Shape) {
		return nil, fmt.Errorf("%v for %v", x, o.Shape)
	}
	return []ir.Type{ir.TensorOf(x.DType, o.Shape...)}, nil
}

// Check reports parameters that mean nothing for that many axes.
func (o Resize) Check(axes int) error {
	if len(o.Scales) != axes || o.Roi != nil && len(o.Roi) != 2*axes || o.Coordinates == "tf_crop_and_resize" && o.Roi == nil {
		return fmt.Errorf("%d scales for %d axes", len(o.Scales), axes)
	}
	if _, ok := coordinateModes[o.Coordinates]; !ok {
		return fmt.Errorf("coordinate_transformation_mode %q is not known", o.Coordinates)
	}
	if _, ok := nearestModes[o.Nearest]; !ok {
		return fmt.Errorf("nearest_mode %q is not known", o.Nearest)
	}
	if !slices.Contains([]string{"nearest", "linear", "cubic"}, o.Mode) {
		return fmt.Errorf("mode %q is not known", o.Mode)
	}
	return nil
}

// Span is the part of an axis that the result shows.
func (o Resize) Span(axis int) float64 {
	if o.Coordinates == "tf_crop_and_resize" {
		return o.Roi[2*axis+1] - o.Roi[2*axis]
	}
	return 1
}

// Keeps reports whether an axis of an operand of that shape is known to stay as it is. A result of the same size may show some elements
// twice, where its scale is near 1. As in onnxruntime, it does not if no axis changes its size, and nothing is cropped of an axis that
// keeps its own.
func (o Resize) Keeps(axis int, x ir.Shape) bool {
	s := o.Scales[axis]
	return ir.Same(x[axis], o.Shape[axis]) == ir.Yes && (s == 0 || s == 1 || x.Equal(o.Shape))
}

func (o Resize) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	y := env.Output(o, in)
	if y.Len() == 0 { // another axis may be as long as it likes
		return []*tensor.Tensor{y}, nil
	}
	s, values := in[0].Shape().Clone(), env.Float64s(in[0])
	bound, from := o, ir.Dims(in[0].Shape()...)
	bound.Shape = ir.Dims(y.Shape()...)
	// Axes that shrink come first: nothing on the way is then larger than the operand or the result.
	for _, shrinks := range []bool{true, false} {
		for axis, n := range y.Shape() {
			if shrinks == (n < in[0].Shape()[axis]) && !bound.Keeps(axis, from) {
				values = mixAxis(env, values, s, axis, o.Mixes(env, axis, s[axis], n), o.Extrapolation)
				s[axis] = n
			}
		}
	}
	for i, v := range values {
		y.SetFloat64(i, v)
	}
	return []*tensor.Tensor{y}, nil
}

// coordinateModes map position x of n in a result to a coordinate in an axis of size in; wide is scale·in, which may have a fraction that
// n lacks (ONNX, Resize, coordinate_transformation_mode). They round to float32 at each step, as onnxruntime and PyTorch do: which pixel
// is nearest may depend on it. Modes align_corners and tf_crop_and_resize use n, as onnxruntime and PyTorch do; ONNX's reference uses wide.
var coordinateModes = map[string]func(x, in, n, scale, wide float32, roi [2]float32) float32{
	"half_pixel": func(x, _, _, scale, _ float32, _ [2]float32) float32 { return float32((x+0.5)/scale) - 0.5 },
	"half_pixel_symmetric": func(x, in, n, scale, wide float32, _ [2]float32) float32 {
		return float32(float64(in/2*(1-n/wide)) + (float64(x)+0.5)/float64(scale) - 0.5)
	},
	"pytorch_half_pixel": func(x, _, n, scale, _ float32, _ [2]float32) float32 {
		if n == 1 {
			return 0
		}
		return float32((x+0.5)/scale) - 0.5
	},
	"tf_half_pixel_for_nn": func(x, _, _, scale, _ float32, _ [2]float32) float32 { return (x + 0.5) / scale },
	"align_corners": func(x, in, n, _, _ float32, _ [2]float32) float32 {
		if n == 1 {
			return 0
		}
		return float32(x*(in-1)) / (n - 1)
	},
	"asymmetric": func(x, _, _, scale, _ float32, _ [2]float32) float32 { return x / scale },
	"tf_crop_and_resize": func(x, in, n, _, _ float32, roi [2]float32) float32 {
		if n == 1 {
			return float32(0.5 * float64(roi[0]+roi[1]) * float64(in-1))
		}
		return float32(roi[0]*(in-1)) + float32(float32(x*(roi[1]-roi[0]))*(in-1))/(n-1)
	},
}

// tie is how far from the middle between two neighbours onnxruntime takes a pixel to be there, since coordinates are rounded.
const tie = 1e-6

// nearestModes choose the upper of two neighbours by the distance from the lower one, which is above 0 and at most 1.
var nearestModes = map[string]func(ratio float64) bool{
	"round_prefer_floor": func(ratio float64) bool { return ratio >= 0.5+tie },
	"round_prefer_ceil":  func(ratio float64) bool { return ratio > 0.5-tie },
	"floor":              func(ratio float64) bool { return ratio == 1 },
	"ceil":               func(float64) bool { return true },
	"simple":             nil, // before opset 11: up where the axis shrinks, down elsewhere
}

// A Mix is the weighted neighbours that one element of a result is made of; none: it is outside.
type Mix []Neighbour

// A Neighbour is an element along an axis, and its weight.
type Neighbour struct {
	At     int
	Weight float64
}

const neighbourBytes = 16

// Mixes returns the mix of each of n elements of the result along an axis of size in of the operand.
func (o Resize) Mixes(env *ir.Env, axis, in, n int) []Mix {
	out := ir.Make[Mix](env, n)
	taps := o.Taps(axis, in, n)
	for x := range out {
		env.Work(4 * taps)
		env.Take(neighbourBytes * int64(taps))
		out[x] = o.Mix(make(Mix, 0, taps), axis, in, n, x)
	}
	return out
}

// Mix appends the neighbours and weights of element x of n along an axis. in is the size of the operand along that axis.
func (o Resize) Mix(m Mix, axis, in, n, x int) Mix {
	if in == 0 { // everything is outside
		return m
	}
	scale, wide, roi := o.scale(axis, in, n), float32(n), [2]float32{0, 1}
	if s := o.Scales[axis]; s != 0 {
		wide = float32(s * float64(in))
	}
	if o.Roi != nil {
		roi = [2]float32{float32(o.Roi[2*axis]), float32(o.Roi[2*axis+1])}
	}
	at := float64(coordinateModes[o.Coordinates](float32(x), float32(in), float32(n), float32(scale), wide, roi))
	if o.Coordinates == "tf_crop_and_resize" && (at < 0 || at > float64(in-1)) {
		return m
	}
	lower := math.Ceil(at) - 1 // the neighbour below, so that a whole coordinate is at distance 1
	ratio, sum, start := at-lower, 0.0, len(m)
	shrink := o.shrink(scale)
	first, end := o.neighbours(shrink)
	if o.Mode == "nearest" && o.upper(ratio, scale) {
		first, end = 1, 2
	}
	for i := first; i < end; i++ {
		p := int(lower) + i
		if inside := p >= 0 && p < in; !inside && o.ExcludeOutside {
			continue
		}
		w := o.weight(shrink * (float64(i) - ratio))
		sum += w
		m = append(m, Neighbour{min(max(p, 0), in-1), w})
	}
	for k := range m[start:] {
		m[start+k].Weight /= sum
	}
	return m
}

// upper reports whether the upper of two neighbours is the nearest.
func (o Resize) upper(ratio, scale float64) bool {
	if f := nearestModes[o.Nearest]; f != nil {
		return f(ratio)
	}
	return ratio == 1 || scale < 1
}

// Taps is the number of neighbours of a mix of n elements along an axis of size in, at most.
func (o Resize) Taps(axis, in, n int) int {
	first, end := o.neighbours(o.shrink(o.scale(axis, in, n)))
	return end - first
}

func (o Resize) scale(axis, in, n int) float64 {
	if s := o.Scales[axis]; s != 0 {
		return s
	}
	return float64(n) / float64(in)
}

// shrink is by how much the kernel is narrower than its elements are apart: with antialias and a scale below 1 it widens.
func (o Resize) shrink(scale float64) float64 {
	if o.Antialias {
		return min(scale, 1)
	}
	return 1
}

// neighbours are those that the kernel reaches, [first, end) from the lower one; of nearest it is the lower one.
func (o Resize) neighbours(shrink float64) (first, end int) {
	reach := 1.0
	switch o.Mode {
	case "nearest":
		return 0, 1
	case "cubic":
		reach = 2
	}
	first = int(math.Floor(-reach/shrink)) + 1
	return first, 2 - first
}

// weight is the kernel at that distance.
func (o Resize) weight(distance float64) float64 {
	switch o.Mode {
	case "nearest":
		return 1
	case "cubic":
		return cubic(distance, o.CubicA)
	}
	return max(0, 1-math.Abs(distance))
}

// cubic is the cubic convolution kernel (Keys 1981).
func cubic(x, a float64) float64 {
	x = math.Abs(x)
	switch {
	case x <= 1:
		return ((a+2)*x-(a+3))*x*x + 1
	case x < 2:
		return ((a*x-5*a)*x+8*a)*x - 4*a
	}
	return 0
}

// mixAxis applies mixes along one axis of values of shape s.
func mixAxis(env *ir.Env, values []float64, s tensor.Shape, axis int, mixes []Mix, outside float64) []float64 {
	in, n, inner := s[axis], len(mixes), s[axis+1:].Elements()
	outer := s[:axis].Elements()
	out := ir.Make[float64](env, outer*n*inner)
	defer env.Give(8 * int64(len(values)))
	for b := range outer {
		for x, m := range mixes {
			for i := range inner {
				env.Work(1 + len(m))
				v := outside
				if len(m) > 0 {
					v = 0
				}
				for _, t := range m {
					v += t.Weight * values[(b*in+t.At)*inner+i]
				}
				out[(b*n+x)*inner+i] = v
			}
		}
	}
	return out
}
