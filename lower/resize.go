package lower

import (
	"math"
	"slices"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
)

var resizeRows = []row{
	{"Upsample", 7, lowerUpsampleAttr},
	{"Upsample", 9, lowerResizeScales},
	{"Resize", 10, lowerResizeScales},
	{"Resize", 11, lowerResize},
}

// oldResizing is the resizing of opsets before 11.
func oldResizing(c *context) ops.Resize {
	mode := c.AttrString("mode", "nearest")
	if mode == "bilinear" {
		mode = "linear"
	}
	return ops.Resize{Mode: mode, Coordinates: "asymmetric", Nearest: "simple"}
}

func lowerUpsampleAttr(c *context) []*ir.Value {
	r := oldResizing(c)
	scales, _ := c.AttrFloats("scales")
	for _, s := range scales {
		r.Scales = append(r.Scales, float64(s))
	}
	return c.resize(r, nil)
}

func lowerResizeScales(c *context) []*ir.Value {
	r := oldResizing(c)
	r.Scales = c.Const(1).Float64s()
	return c.resize(r, nil)
}

func lowerResize(c *context) []*ir.Value {
	x := c.In(0)
	r := ops.Resize{
		Mode:           c.AttrString("mode", "nearest"),
		Coordinates:    c.AttrString("coordinate_transformation_mode", "half_pixel"),
		Nearest:        c.AttrString("nearest_mode", "round_prefer_floor"),
		CubicA:         float64(c.AttrFloat("cubic_coeff_a", -0.75)),
		ExcludeOutside: c.AttrBool("exclude_outside", false),
		Extrapolation:  float64(c.AttrFloat("extrapolation_value", 0)),
	}
	axes, policy := upTo(rank(x)), "stretch"
	if c.Version() >= 18 {
		if list, ok := c.AttrInts("axes"); ok {
			axes = axes[:0]
			for _, a := range list {
				axes = append(axes, c.Axis(a, rank(x)))
				if slices.Index(axes, axes[len(axes)-1]) < len(axes)-1 {
					c.Failf("axes %v name an axis twice", list)
				}
			}
		}
		policy, r.Antialias = c.AttrString("keep_aspect_ratio_policy", "stretch"), c.AttrBool("antialias", false)
	}
	r.Roi = slices.Repeat([]float64{0, 1}, rank(x))
	if c.Opt(1) != nil && r.Coordinates == "tf_crop_and_resize" {
		roi := c.Const(1).Float64s()
		if len(roi) != 2*len(axes) {
			c.Failf("roi has %d numbers for %d axes", len(roi), len(axes))
		}
		for i, a := range axes {
			r.Roi[2*a], r.Roi[2*a+1] = roi[i], roi[len(axes)+i]
		}
	}
	r.Scales = slices.Repeat([]float64{1}, rank(x))
	if c.Opt(3) != nil && !c.In(3).Type.Shape.Elements().Is(0) {
		if c.Opt(2) != nil && !c.In(2).Type.Shape.Elements().Is(0) {
			c.Failf("both scales and sizes are given")
		}
		return c.resize(r, c.resizeSizes(&r, axes, policy))
	}
	scales := c.Const(2).Float64s()
	if len(scales) != len(axes) {
		c.Failf("%d scales for %d axes: want one each", len(scales), len(axes))
	}
	for i, a := range axes {
		r.Scales[a] = scales[i]
	}
	return c.resize(r, nil)
}

// resizeSizes reads the sizes of the result, which the policy may adjust to keep the proportions.
func (c *context) resizeSizes(r *ops.Resize, axes []int, policy string) ir.Shape {
	x, sizes := c.In(0).Type.Shape, c.Dims(3)
	if len(sizes) != len(axes) {
		c.Failf("%d sizes for %d axes: want one each", len(sizes), len(axes))
	}
	shape := slices.Clone(x)
	if policy == "stretch" {
		for i, a := range axes {
			if sizes[i].Is(0) && !x[a].Is(0) {
				c.Failf("axis %d would have size 0", a)
			}
			shape[a], r.Scales[a] = sizes[i], 0
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
		shape[a], r.Scales[a] = ir.N(int(math.Floor(scale*float64(x[a].Int())+0.5))), scale
	}
	return shape
}

// resize keeps the node; without a shape the scales say it.
func (c *context) resize(r ops.Resize, shape ir.Shape) []*ir.Value {
	x := c.In(0)
	if d := x.Type.DType; !d.IsFloat() && !d.IsInt() {
		c.Unsupportedf("resizing %s", d.ONNX())
	}
	if err := r.Check(rank(x)); err != nil {
		c.Failf("%w", err)
	}
	if shape == nil {
		shape = make(ir.Shape, rank(x))
		for i, d := range x.Type.Shape {
			shape[i] = c.scaled(d, r.Scales[i]*r.Span(i))
		}
	}
	r.Shape = shape
	if !slices.ContainsFunc(upTo(rank(x)), func(axis int) bool { return !r.Keeps(axis, x.Type.Shape) }) {
		return []*ir.Value{x}
	}
	if times := repeats(r, x.Type.Shape); times != nil {
		return []*ir.Value{c.repeat(x, times)}
	}
	if rank(x) < 3 || !r.Keeps(1, x.Type.Shape) {
		return c.opaque(r, x)
	}
	if n, known := x.Type.Shape[1].Const(); known && n < channelsOfImage {
		return c.opaque(r, x)
	}
	order := append(slices.Delete(upTo(rank(x)), 1, 2), 1)
	planes := r
	planes.Shape, planes.Scales, planes.Roi = nil, nil, nil
	for _, axis := range order {
		planes.Shape, planes.Scales = append(planes.Shape, r.Shape[axis]), append(planes.Scales, r.Scales[axis])
		if r.Roi != nil {
			planes.Roi = append(planes.Roi, r.Roi[2*axis:2*axis+2]...)
		}
	}
	return []*ir.Value{c.channelsFirst(c.opaque(planes, c.channelsLast(x))[0])}
}

// channelsOfImage is the fewest channels that are moved to the end before a resizing: those of an image are not worth it.
const channelsOfImage = 8

// maxRepeats bounds the times that an element is repeated for sizes alone to report.
const maxRepeats = 8

// repeats is how many times each spatial axis of [N,C,…] repeats its elements, nil where the resizing does something else.
func repeats(r ops.Resize, from ir.Shape) (times []int) {
	floor := r.Coordinates == "asymmetric" && (r.Nearest == "floor" || r.Nearest == "simple") ||
		r.Coordinates == "half_pixel" && (r.Nearest == "round_prefer_floor" || r.Nearest == "round_prefer_ceil")
	if r.Mode != "nearest" || !floor || r.Antialias || len(from) < 3 {
		return nil
	}
	for i, d := range from {
		k := 1
		for k <= maxRepeats && !(r.Scales[i] == float64(k) || r.Scales[i] == 0 && r.Shape[i].Equal(d.Mul(ir.N(k)))) {
			k++
		}
		if k > maxRepeats || i < 2 && k > 1 {
			return nil
		}
		if i >= 2 {
			times = append(times, k)
		}
	}
	return times
}

// repeat puts every element of the spatial axes of [N,C,…] that many times beside itself, with the channels last meanwhile.
func (c *context) repeat(x *ir.Value, times []int) *ir.Value {
	x = c.channelsLast(x)
	s := x.Type.Shape
	split, wide, joined := ir.Shape{s[0]}, ir.Shape{s[0]}, ir.Shape{s[0]}
	for i, k := range times {
		d := s[1+i]
		split, wide, joined = append(split, d, ir.N(1)), append(wide, d, ir.N(k)), append(joined, d.Mul(ir.N(k)))
	}
	channels := s[len(s)-1]
	y := c.expand(c.reshape(x, append(split, channels)), append(wide, channels))
	return c.channelsFirst(c.reshape(y, append(joined, channels)))
}

// scaled is ⌊d·scale⌋; a symbol times a fraction is left to the run.
func (c *context) scaled(d ir.Dim, scale float64) ir.Dim {
	if !(scale > 0 && scale < 1<<32) {
		c.Failf("scale %v: want a positive number below 2³²", scale)
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
