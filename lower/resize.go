package lower

import (
	"math"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

var resizeRows = []row{
	{"Upsample", 7, lowerUpsampleAttr},
	{"Upsample", 9, lowerResizeScales},
	{"Resize", 10, lowerResizeScales},
	{"Resize", 11, lowerResize},
}

// A resizing says how the elements of a result lie among those of the operand, axis by axis, and how it mixes them.
type resizing struct {
	scales         []float64    // by axis; 0: the quotient of the sizes
	roi            [][2]float64 // by axis; only tf_crop_and_resize looks at it
	mode           string       // nearest, linear, cubic
	coordinates    string
	nearest        string
	cubicA         float64
	excludeOutside bool
	extrapolation  float64
	antialias      bool
}

// oldResizing is the resizing of opsets before 11: coordinates are scaled and rounded down.
func oldResizing(c *Context) resizing {
	mode := c.AttrString("mode", "nearest")
	if mode == "bilinear" {
		mode = "linear"
	}
	return resizing{mode: mode, coordinates: "asymmetric", nearest: "floor"}
}

func lowerUpsampleAttr(c *Context) []*ir.Value {
	r := oldResizing(c)
	scales, _ := c.AttrFloats("scales")
	for _, s := range scales {
		r.scales = append(r.scales, float64(s))
	}
	return c.resize(r, nil)
}

func lowerResizeScales(c *Context) []*ir.Value {
	r := oldResizing(c)
	r.scales = c.Const(1).Float64s()
	return c.resize(r, nil)
}

func lowerResize(c *Context) []*ir.Value {
	x := c.In(0)
	r := resizing{
		mode:           c.AttrString("mode", "nearest"),
		coordinates:    c.AttrString("coordinate_transformation_mode", "half_pixel"),
		nearest:        c.AttrString("nearest_mode", "round_prefer_floor"),
		cubicA:         float64(c.AttrFloat("cubic_coeff_a", -0.75)),
		excludeOutside: c.AttrBool("exclude_outside", false),
		extrapolation:  float64(c.AttrFloat("extrapolation_value", 0)),
	}
	axes, policy := firstAxes(Rank(x)), "stretch"
	if c.Version() >= 18 {
		if list, ok := c.AttrInts("axes"); ok {
			axes = axes[:0]
			for _, a := range list {
				axes = append(axes, c.Axis(a, Rank(x)))
				if slices.Index(axes, axes[len(axes)-1]) < len(axes)-1 {
					c.Failf("axes %v name an axis twice", list)
				}
			}
		}
		policy, r.antialias = c.AttrString("keep_aspect_ratio_policy", "stretch"), c.AttrBool("antialias", false)
	}
	r.roi = make([][2]float64, Rank(x))
	for i := range r.roi {
		r.roi[i] = [2]float64{0, 1}
	}
	if c.Opt(1) != nil && r.coordinates == "tf_crop_and_resize" {
		roi := c.Const(1).Float64s()
		if len(roi) != 2*len(axes) {
			c.Failf("roi has %d numbers for %d axes", len(roi), len(axes))
		}
		for i, a := range axes {
			r.roi[a] = [2]float64{roi[i], roi[len(axes)+i]}
		}
	}
	r.scales = slices.Repeat([]float64{1}, Rank(x))
	if c.Opt(3) != nil && !c.In(3).Type.Shape.Elements().Is(0) {
		if c.Opt(2) != nil && !c.In(2).Type.Shape.Elements().Is(0) {
			c.Failf("both scales and sizes are given")
		}
		return c.resize(r, c.resizeSizes(&r, axes, policy))
	}
	scales := c.Const(2).Float64s()
	if len(scales) != len(axes) {
		c.Failf("%d scales for %d axes", len(scales), len(axes))
	}
	for i, a := range axes {
		r.scales[a] = scales[i]
	}
	return c.resize(r, nil)
}

// resizeSizes reads the sizes of the result, which the policy may adjust to keep the proportions.
func (c *Context) resizeSizes(r *resizing, axes []int, policy string) ir.Shape {
	x, sizes := c.In(0).Type.Shape, c.Dims(3)
	if len(sizes) != len(axes) {
		c.Failf("%d sizes for %d axes", len(sizes), len(axes))
	}
	shape := slices.Clone(x)
	if policy == "stretch" {
		for i, a := range axes {
			shape[a], r.scales[a] = sizes[i], 0
		}
		return shape
	}
	scale := 0.0
	for i, a := range axes {
		from, ok1 := x[a].Const()
		to, ok2 := sizes[i].Const()
		if !ok1 || !ok2 {
			panic(needsRun{0}) // the smaller or larger quotient decides
		}
		q := float64(to) / float64(from)
		switch {
		case i == 0, policy == "not_larger" && q < scale, policy == "not_smaller" && q > scale:
			scale = q
		case policy != "not_larger" && policy != "not_smaller":
			c.Failf("keep_aspect_ratio_policy %q is not known", policy)
		}
	}
	for _, a := range axes {
		shape[a], r.scales[a] = ir.N(int(math.Floor(scale*float64(x[a].Int())+0.5))), scale
	}
	return shape
}

// resize keeps the node as a kernel; without a shape the scales give it.
func (c *Context) resize(r resizing, shape ir.Shape) []*ir.Value {
	x := c.In(0).Type
	if len(r.scales) != len(x.Shape) {
		c.Failf("%d scales for %v", len(r.scales), x)
	}
	if !x.DType.IsFloat() && !x.DType.IsInt() {
		c.Unsupportedf("resizing %s", x.DType.ONNX())
	}
	if _, ok := coordinateModes[r.coordinates]; !ok {
		c.Failf("coordinate_transformation_mode %q is not known", r.coordinates)
	}
	if _, ok := nearestModes[r.nearest]; !ok {
		c.Failf("nearest_mode %q is not known", r.nearest)
	}
	if !slices.Contains([]string{"nearest", "linear", "cubic"}, r.mode) {
		c.Failf("mode %q is not known", r.mode)
	}
	if shape == nil {
		shape = make(ir.Shape, len(x.Shape))
		for i, d := range x.Shape {
			shape[i] = c.scaled(d, r.scales[i]*r.span(i))
		}
	}
	run := func(o ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		y := resultOf(o, 0)
		if y.Len() == 0 { // another axis may be as long as it likes
			return []*tensor.Tensor{y}, nil
		}
		s, values := in[0].Shape().Clone(), in[0].Float64s()
		// Axes that shrink come first: nothing on the way is then larger than the operand or the result.
		for _, shrinks := range []bool{true, false} {
			for axis, n := range y.Shape() {
				if shrinks == (n < in[0].Shape()[axis]) && (s[axis] != n || r.coordinates == "tf_crop_and_resize") {
					values = mixAxis(values, s, axis, r.mixes(axis, s[axis], n), r.extrapolation)
					s[axis] = n
				}
			}
		}
		for i, v := range values {
			y.SetFloat64(i, v)
		}
		return []*tensor.Tensor{y}, nil
	}
	return c.Kernel(run, ir.TensorOf(x.DType, shape...))
}

// span is the part of the axis that the result shows.
func (r resizing) span(axis int) float64 {
	if r.coordinates == "tf_crop_and_resize" {
		return r.roi[axis][1] - r.roi[axis][0]
	}
	return 1
}

// scaled is ⌊d·scale⌋; a symbol times a fraction is left to the run.
func (c *Context) scaled(d ir.Dim, scale float64) ir.Dim {
	if !(scale > 0 && scale < 1<<32) {
		c.Failf("scale %v", scale)
	}
	if n, ok := d.Const(); ok {
		return ir.N(int(math.Floor(float64(n) * scale)))
	}
	if scale == math.Trunc(scale) {
		return d.Mul(ir.N(int(scale)))
	}
	if k := math.Round(1 / scale); k*scale == 1 {
		return d.Div(ir.N(int(k)))
	}
	panic(needsRun{0})
}

// coordinateModes map place x of n in a result to a coordinate in an axis of size in; wide is the exact size of the
// result, scale·in (ONNX, Resize, coordinate_transformation_mode).
var coordinateModes = map[string]func(x, in, n, scale, wide float64, roi [2]float64) float64{
	"half_pixel": func(x, _, _, scale, _ float64, _ [2]float64) float64 { return (x+0.5)/scale - 0.5 },
	"half_pixel_symmetric": func(x, in, n, scale, wide float64, _ [2]float64) float64 {
		return in/2*(1-n/wide) + (x+0.5)/scale - 0.5
	},
	"pytorch_half_pixel": func(x, _, _, scale, wide float64, _ [2]float64) float64 {
		if wide == 1 {
			return -0.5
		}
		return (x+0.5)/scale - 0.5
	},
	"align_corners": func(x, in, _, _, wide float64, _ [2]float64) float64 {
		if wide == 1 {
			return 0
		}
		return x * (in - 1) / (wide - 1)
	},
	"asymmetric": func(x, _, _, scale, _ float64, _ [2]float64) float64 { return x / scale },
	"tf_crop_and_resize": func(x, in, _, _, wide float64, roi [2]float64) float64 {
		if wide == 1 {
			return roi[0]*(in-1) + (roi[1]-roi[0])*(in-1)/2
		}
		return roi[0]*(in-1) + x*(roi[1]-roi[0])*(in-1)/(wide-1)
	},
}

// nearestModes choose the upper of two neighbours by the distance from the lower one, which is above 0 and at most 1.
var nearestModes = map[string]func(ratio float64) bool{
	"round_prefer_floor": func(ratio float64) bool { return ratio > 0.5 },
	"round_prefer_ceil":  func(ratio float64) bool { return ratio >= 0.5 },
	"floor":              func(ratio float64) bool { return ratio == 1 },
	"ceil":               func(float64) bool { return true },
}

// A mix is the weighted neighbours that one element of a result is made of; none: it lies outside.
type mix []neighbour

type neighbour struct {
	at     int
	weight float64
}

// mixes gives the mix of each of n elements along an axis of size in.
func (r resizing) mixes(axis, in, n int) []mix {
	scale := r.scales[axis]
	if scale == 0 {
		scale = float64(n) / float64(in)
	}
	var roi [2]float64
	if r.roi != nil {
		roi = r.roi[axis]
	}
	out := make([]mix, n)
	for x := range out[:n*min(in, 1)] { // of an empty axis everything lies outside
		at := coordinateModes[r.coordinates](float64(x), float64(in), float64(n), scale, scale*float64(in), roi)
		if r.coordinates == "tf_crop_and_resize" && (at < 0 || at > float64(in-1)) {
			continue
		}
		lower := math.Ceil(at) - 1 // the neighbour below, so that a whole coordinate is at distance 1
		first, weights := r.weights(at-lower, min(scale, 1))
		sum := 0.0
		for k, w := range weights {
			p := int(lower) + first + k
			if inside := p >= 0 && p < in; !inside && r.excludeOutside {
				continue
			}
			sum += w
			out[x] = append(out[x], neighbour{min(max(p, 0), in-1), w})
		}
		for k := range out[x] {
			out[x][k].weight /= sum
		}
	}
	return out
}

// weights gives the weights of neighbours first, first+1, … from the lower one, at that distance from it. With antialias
// and a scale below 1 the kernel widens.
func (r resizing) weights(ratio, scale float64) (first int, weights []float64) {
	kernel, reach := func(x float64) float64 { return max(0, 1-math.Abs(x)) }, 1.0
	switch r.mode {
	case "nearest":
		if nearestModes[r.nearest](ratio) {
			return 1, []float64{1}
		}
		return 0, []float64{1}
	case "cubic":
		kernel, reach = func(x float64) float64 { return cubic(x, r.cubicA) }, 2
	}
	if !r.antialias {
		scale = 1
	}
	first = int(math.Floor(-reach/scale)) + 1
	for i := first; i < 2-first; i++ {
		weights = append(weights, kernel(scale*(float64(i)-ratio)))
	}
	return first, weights
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
func mixAxis(values []float64, s tensor.Shape, axis int, mixes []mix, outside float64) []float64 {
	in, n, inner := s[axis], len(mixes), s[axis+1:].Elements()
	outer := s[:axis].Elements()
	out := make([]float64, outer*n*inner)
	for b := range outer {
		for x, m := range mixes {
			for i := range inner {
				v := outside
				if len(m) > 0 {
					v = 0
				}
				for _, t := range m {
					v += t.weight * values[(b*in+t.at)*inner+i]
				}
				out[(b*n+x)*inner+i] = v
			}
		}
	}
	return out
}
