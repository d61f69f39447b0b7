package ops

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// NonMaxSuppression picks, for every image and class, boxes [images, n, 4] by falling score [images, classes, n] that overlap no
// box picked before by more than a threshold, as (image, class, box) triples. Operands 2, 3 and 4 are the largest number of
// picks a class, the threshold of overlap, and the least score.
type NonMaxSuppression struct {
	ir.Opaque[NonMaxSuppression]
	Typed
	Centre bool `ir:"center_point_box"` // boxes are centre and size, not two corners
}

func (o NonMaxSuppression) Infer(in []*ir.Value) ([]ir.Type, error) {
	if b, s := in[0].Type.Shape, in[1].Type.Shape; len(b) != 3 || len(s) != 3 || ir.Same(b[2], ir.N(4)) == ir.No ||
		ir.Same(b[0], s[0]) == ir.No || ir.Same(b[1], s[2]) == ir.No {
		return nil, fmt.Errorf("boxes %v with scores %v", in[0].Type, in[1].Type)
	}
	return o.Types, nil
}

func (o NonMaxSuppression) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	limit, overlap, least := 0.0, 0.0, math.Inf(-1)
	for i, to := range []*float64{2: &limit, 3: &overlap, 4: &least} {
		if t := ir.Operand(in, i); to != nil && t != nil {
			if t.Len() != 1 {
				return nil, fmt.Errorf("operand %d has %d elements, not one", i, t.Len())
			}
			*to = t.Float64(0)
		}
	}
	if ir.Operand(in, 3) != nil && !(overlap >= 0 && overlap <= 1) {
		return nil, fmt.Errorf("iou_threshold = %v: it is a share, from 0 to 1", overlap)
	}
	if b, s := in[0].Shape(), in[1].Shape(); len(b) != 3 || len(s) != 3 || b[2] != 4 || b[0] != s[0] || b[1] != s[2] {
		return nil, fmt.Errorf("boxes %v with scores %v", in[0], in[1])
	}
	picked := suppress(env, in[0], in[1], limit, float32(overlap), float32(least), o.Centre)
	return []*tensor.Tensor{tensor.FromSlice(picked, len(picked)/3, 3)}, nil
}

// Most implements ir.Bounded: every box is picked for every class.
func (o NonMaxSuppression) Most(in [][]int) [][]int {
	return [][]int{{tensor.Shape(in[1]).Elements(), 3}}
}

// suppress returns (image, class, box) triples. The arithmetic is that of onnxruntime, in 32 bits: thresholds are met or
// missed by the last of them.
func suppress(env *ir.Env, boxes, scores *tensor.Tensor, limit float64, overlap, least float32, centre bool) []int64 {
	n, classes := boxes.Shape()[1], scores.Shape()[1]
	corners := ir.Make[[4]float32](env, boxes.Shape()[0]*n)
	order, selected := ir.Make[int](env, n), ir.Make[int](env, n)
	for i := range corners {
		var p [4]float32
		for k := range p {
			p[k] = float32(boxes.Float64(i*4 + k))
		}
		if centre {
			p = [4]float32{p[0] - p[2]/2, p[1] - p[3]/2, p[0] + p[2]/2, p[1] + p[3]/2}
		}
		corners[i] = [4]float32{min(p[0], p[2]), min(p[1], p[3]), max(p[0], p[2]), max(p[1], p[3])}
	}
	out := []int64{}
	if n == 0 {
		return out
	}
	for image := range boxes.Shape()[0] {
		for class := range env.Range(classes) {
			score := func(i int) float32 { return float32(scores.Float64((image*classes+class)*n + i)) }
			order, selected = order[:0], selected[:0]
			for i := range env.Range(n) {
				if score(i) > least {
					order = append(order, i)
				}
			}
			slices.SortStableFunc(order, func(a, b int) int {
				env.Work(4)
				switch {
				case score(a) > score(b):
					return -1
				case score(a) < score(b):
					return 1
				}
				return 0
			})
			for _, i := range order {
				if float64(len(selected)) >= limit {
					break
				}
				env.Work(4 * (1 + len(selected)))
				if !slices.ContainsFunc(selected, func(k int) bool { return iou(corners[image*n+i], corners[image*n+k]) > overlap }) {
					selected = append(selected, i)
					if len(out) == cap(out) {
						env.Take(2 * 8 * int64(3+len(out)))
					}
					out = append(out, int64(image), int64(class), int64(i))
				}
			}
		}
	}
	return out
}

// iou is the area that two boxes share over the area that they cover.
func iou(a, b [4]float32) float32 {
	h, w := min(a[2], b[2])-max(a[0], b[0]), min(a[3], b[3])-max(a[1], b[1])
	if h <= 0 || w <= 0 {
		return 0
	}
	area := func(p [4]float32) float32 { return (p[2] - p[0]) * (p[3] - p[1]) }
	shared := h * w
	return shared / (area(a) + area(b) - shared)
}

// RoiAlign cuts a grid of samples out of an image for every region (He et al. 2017, Mask R-CNN).
type RoiAlign struct {
	ir.Opaque[RoiAlign]
	Max           bool // the largest sample of a cell, not their mean
	HalfPixel     bool `ir:"half_pixel"`
	Height, Width int
	SamplingRatio int     `ir:"sampling_ratio"`
	Scale         float32 `ir:"spatial_scale"`
}

func (o RoiAlign) Infer(in []*ir.Value) ([]ir.Type, error) {
	x, rois, batch := in[0], in[1], in[2]
	if rank(x) != 4 || rank(rois) != 2 || rank(batch) != 1 || ir.Same(rois.Type.Shape[1], ir.N(4)) == ir.No ||
		ir.Same(rois.Type.Shape[0], batch.Type.Shape[0]) == ir.No {
		return nil, fmt.Errorf("images %v, regions %v, batch indices %v", x.Type, rois.Type, batch.Type)
	}
	if o.Height < 1 || o.Width < 1 || o.SamplingRatio < 0 || o.SamplingRatio > 1<<10 {
		return nil, fmt.Errorf("%d × %d samples, sampling_ratio %d", o.Height, o.Width, o.SamplingRatio)
	}
	return []ir.Type{ir.TensorOf(x.Type.DType, rois.Type.Shape[0], x.Type.Shape[1], ir.N(o.Height), ir.N(o.Width))}, nil
}

func (o RoiAlign) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	y := env.Output(o, in)
	x, rois, batch := in[0], in[1], in[2]
	s := x.Shape()
	oh, ow, shift, scale, ratio := o.Height, o.Width, 0.0, float64(o.Scale), o.SamplingRatio
	if o.HalfPixel {
		shift = 0.5
	}
	for r := range rois.Shape()[0] {
		image := batch.Int64(r)
		if image < 0 || image >= int64(s[0]) {
			return nil, fmt.Errorf("region %d is of image %d of %d", r, image, s[0])
		}
		at := func(k int) float64 { return rois.Float64(r*4+k)*scale - shift }
		x0, y0, w, h := at(0), at(1), at(2)-at(0), at(3)-at(1)
		if shift == 0 {
			w, h = max(w, 1), max(h, 1)
		}
		binH, binW := h/float64(oh), w/float64(ow)
		gridH, gridW := ratio, ratio
		if ratio == 0 {
			gridH, gridW = int(math.Ceil(binH)), int(math.Ceil(binW))
		}
		if gridH > 1<<12 || gridW > 1<<12 {
			return nil, fmt.Errorf("region %d has %d × %d samples a cell", r, gridH, gridW)
		}
		for ch := range s[1] {
			plane := (int(image)*s[1] + ch) * s[2] * s[3]
			for i := range oh {
				for j := range ow {
					sum, best, n := 0.0, math.Inf(-1), 0
					env.Work(4 * gridH * gridW)
					for gi := range gridH {
						for gj := range gridW {
							v, largest := bilinear(x, plane, s[2], s[3],
								y0+(float64(i)+(float64(gi)+0.5)/float64(gridH))*binH,
								x0+(float64(j)+(float64(gj)+0.5)/float64(gridW))*binW)
							sum, best, n = sum+v, max(best, largest), n+1
						}
					}
					v := best
					if !o.Max || n == 0 {
						v = sum / float64(max(n, 1))
					}
					y.SetFloat64(((r*s[1]+ch)*oh+i)*ow+j, v)
				}
			}
		}
	}
	return []*tensor.Tensor{y}, nil
}

// bilinear samples a plane at a position between its elements. The plane is 0 outside. largest is the largest of the four weighted
// neighbours: mode max computes the maximum of these.
func bilinear(x *tensor.Tensor, plane, h, w int, y, xx float64) (v, largest float64) {
	if y < -1 || y > float64(h) || xx < -1 || xx > float64(w) || h == 0 || w == 0 || math.IsNaN(y) || math.IsNaN(xx) {
		return 0, 0
	}
	y, xx = max(y, 0), max(xx, 0)
	y0, x0 := min(int(y), h-1), min(int(xx), w-1)
	y1, x1 := min(y0+1, h-1), min(x0+1, w-1)
	if y0 == h-1 {
		y = float64(y0)
	}
	if x0 == w-1 {
		xx = float64(x0)
	}
	ly, lx := y-float64(y0), xx-float64(x0)
	at := func(i, j int) float64 { return x.Float64(plane + i*w + j) }
	parts := [4]float64{(1 - ly) * (1 - lx) * at(y0, x0), (1 - ly) * lx * at(y0, x1), ly * (1 - lx) * at(y1, x0), ly * lx * at(y1, x1)}
	return parts[0] + parts[1] + parts[2] + parts[3], max(parts[0], parts[1], parts[2], parts[3])
}

// MaxRoiPool takes the largest element of each cell of a region, whose corners are rounded to elements (Girshick 2015, Fast R-CNN).
type MaxRoiPool struct {
	ir.Opaque[MaxRoiPool]
	Height, Width int
	Scale         float32 `ir:"spatial_scale"`
}

func (o MaxRoiPool) Infer(in []*ir.Value) ([]ir.Type, error) {
	x, rois := in[0], in[1]
	if rank(x) != 4 || rank(rois) != 2 || ir.Same(rois.Type.Shape[1], ir.N(5)) == ir.No {
		return nil, fmt.Errorf("images %v, regions %v: [N,C,H,W] and [regions,5] are needed", x.Type, rois.Type)
	}
	if o.Height < 1 || o.Width < 1 {
		return nil, fmt.Errorf("%d × %d cells", o.Height, o.Width)
	}
	return []ir.Type{ir.TensorOf(x.Type.DType, rois.Type.Shape[0], x.Type.Shape[1], ir.N(o.Height), ir.N(o.Width))}, nil
}

func (o MaxRoiPool) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	y := env.Output(o, in)
	x, rois := in[0], in[1]
	s := x.Shape()
	for r := range rois.Shape()[0] {
		image := rois.Float64(r * 5)
		if !(image >= 0 && image < float64(s[0])) {
			return nil, fmt.Errorf("region %d is of image %v of %d", r, image, s[0])
		}
		corner := func(k int) int { return toElement(float32(rois.Float64(r*5+k)) * o.Scale) }
		rows := cells(corner(2), corner(4), o.Height, s[2])
		cols := cells(corner(1), corner(3), o.Width, s[3])
		for ch := range s[1] {
			plane := (int(image)*s[1] + ch) * s[2] * s[3]
			for i, row := range rows {
				for j, col := range cols {
					env.Work(1 + (row[1]-row[0])*(col[1]-col[0]))
					best := 0.0 // of no elements
					for k := row[0]; k < row[1]; k++ {
						for l := col[0]; l < col[1]; l++ {
							if v := x.Float64(plane + k*s[3] + l); k == row[0] && l == col[0] || v > best {
								best = v
							}
						}
					}
					y.SetFloat64(((r*s[1]+ch)*o.Height+i)*o.Width+j, best)
				}
			}
		}
	}
	return []*tensor.Tensor{y}, nil
}

// toElement rounds a coordinate, halves away from zero, to one that may be multiplied.
func toElement(x float32) int {
	const far = 1 << 30
	if x != x {
		return 0
	}
	return int(math.Round(float64(min(max(x, -far), far))))
}

// cells are the elements, from the first to the one after the last, of each of n cells from one corner to the other, as far as there are
// any.
func cells(from, to, n, size int) [][2]int {
	all := make([][2]int, n)
	each := float32(max(to-from+1, 1)) / float32(n)
	for i := range all {
		lo := from + int(math.Floor(float64(float32(i)*each)))
		hi := from + int(math.Ceil(float64(float32(i+1)*each)))
		all[i][0] = min(max(lo, 0), size)
		all[i][1] = max(all[i][0], min(max(hi, 0), size))
	}
	return all
}

// DeformConv is a convolution whose taps are moved by offsets and weighted by a mask (Dai et al. 2017; Zhu et al. 2019).
type DeformConv struct {
	ir.Opaque[DeformConv]
	ir.Window
	Group       int
	OffsetGroup int `ir:"offset_group"`
}

func (o DeformConv) Infer(in []*ir.Value) ([]ir.Type, error) {
	x, w, offset := in[0].Type, in[1].Type, in[2].Type
	if len(x.Shape) != 4 || len(w.Shape) != 4 || o.Group < 1 || o.Group > MaxSize {
		return nil, fmt.Errorf("images %v, weights %v in %d groups: two spatial axes are needed", x, w, o.Group)
	}
	if err := o.Fit(x.Shape); err != nil {
		return nil, err
	}
	if err := o.Covers(w.Shape[2:]); err != nil {
		return nil, err
	}
	if len(offset.Shape) != 4 || o.OffsetGroup < 1 {
		return nil, fmt.Errorf("offsets %v in %d groups", offset, o.OffsetGroup)
	}
	return []ir.Type{ir.TensorOf(x.DType, o.Result(x.Shape, w.Shape[0])...)}, nil
}

func (o DeformConv) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x, w, offset, bias, mask := in[0], in[1], in[2], ir.Operand(in, 3), ir.Operand(in, 4)
	y := env.Output(o, in)
	groups, offsetGroups := o.Group, o.OffsetGroup
	s, k, out := x.Shape(), w.Shape(), y.Shape()
	taps, positions := o.Kernel[0]*o.Kernel[1], out[2]*out[3]
	if s[1] != k[1]*groups || k[0]%groups != 0 || s[1]%offsetGroups != 0 {
		return nil, fmt.Errorf("weights %v in %d groups, %d groups of offsets, for %v", w, groups, offsetGroups, x)
	}
	if !offset.Shape().Equal(tensor.Shape{s[0], offsetGroups * taps * 2, out[2], out[3]}) ||
		mask != nil && !mask.Shape().Equal(tensor.Shape{s[0], offsetGroups * taps, out[2], out[3]}) || bias != nil && bias.Len() != k[0] {
		return nil, fmt.Errorf("offsets %v, mask %v, bias %v for the result %v", offset, mask, bias, y)
	}
	before, _ := o.Padding(s[2:])
	for n := range s[0] {
		for oc := range k[0] {
			group := oc / (k[0] / groups)
			for position := range positions {
				sum := 0.0
				if bias != nil {
					sum = bias.Float64(oc)
				}
				for ic := range k[1] {
					env.Work(4 * taps)
					channel := group*k[1] + ic
					og := channel / (s[1] / offsetGroups)
					for t := range taps {
						at := (n*offsetGroups+og)*taps + t
						dy, dx := offset.Float64(at*2*positions+position), offset.Float64((at*2+1)*positions+position)
						v := between(x, (n*s[1]+channel)*s[2]*s[3], s[2], s[3],
							float64(position/out[3]*o.Strides[0]-before[0]+t/o.Kernel[1]*o.Dilations[0])+dy,
							float64(position%out[3]*o.Strides[1]-before[1]+t%o.Kernel[1]*o.Dilations[1])+dx)
						if mask != nil {
							v *= mask.Float64(at*positions + position)
						}
						sum += v * w.Float64((oc*k[1]+ic)*taps+t)
					}
				}
				y.SetFloat64((n*k[0]+oc)*positions+position, sum)
			}
		}
	}
	return []*tensor.Tensor{y}, nil
}

// between samples a plane that is 0 all around.
func between(x *tensor.Tensor, plane, h, w int, y, xx float64) float64 {
	if !(y > -1 && y < float64(h) && xx > -1 && xx < float64(w)) {
		return 0
	}
	y0, x0 := int(math.Floor(y)), int(math.Floor(xx))
	ly, lx := y-float64(y0), xx-float64(x0)
	at := func(i, j int) float64 {
		if i < 0 || i >= h || j < 0 || j >= w {
			return 0
		}
		return x.Float64(plane + i*w + j)
	}
	return (1-ly)*((1-lx)*at(y0, x0)+lx*at(y0, x0+1)) + ly*((1-lx)*at(y0+1, x0)+lx*at(y0+1, x0+1))
}
