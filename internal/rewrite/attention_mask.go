package rewrite

import (
	"math"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// attentionMask is what was done to the scores before the softmax: add was added, then fill was put where keep is false or
// drop is true. With excludes the probabilities there were set to 0 after the softmax.
type attentionMask struct {
	m               *match
	shape           ir.Shape
	dtype           tensor.DType
	add, keep, drop *ir.Value
	fill            float64
	excludes        bool
	gone            fills
}

// fills says which numbers a mask may set or add to exclude a key: exp(fill − max) is 0 in float32 for every score
// above fill + 104, and a row that is masked whole is an average, the same as with any other such number. A NaN never is one.
type fills func(d tensor.DType, fill float64) bool

// lowestFills are those below which no score of the type is.
func lowestFills(d tensor.DType, fill float64) bool { return fill <= 0.9*lowest(d) }

// weakFills are those of old models, which are lower than any score that occurs in them.
func weakFills(_ tensor.DType, fill float64) bool { return fill <= -1e4 }

// That does not hold of a row where another mask lowers every key that this one leaves: the keys that are excluded count there, by how
// far the two masks are apart. What is added beside a weak fill must therefore be known not to be a mask.
const weakMasks = "scores, and scores with what else is added to them, are above −9,800, so that a key is excluded if its score was " +
	"set to −10,000 or lower, or lowered by that much"

// mildest is the least number that may be added to scores beside a weak fill.
const mildest = -100

// mild reports whether no element of v is below mildest: constants, what moves their elements, and choices among them.
func mild(v *ir.Value, fuel *int) bool {
	if t := v.Const; t != nil {
		t = t.Aligned()
		for i := range t.Len() {
			if !(t.Float64(i) >= mildest) {
				return false
			}
		}
		return true
	}
	if *fuel--; *fuel < 0 || v.Def == nil {
		return false
	}
	in := v.Def.Inputs
	switch v.Def.Op.Kind() {
	case ir.KindReshape, ir.KindTranspose, ir.KindSlice, ir.KindExpand, ir.KindCopy, ir.KindGather, ir.KindGatherND, ir.KindGatherElements:
		return mild(in[0], fuel)
	case ir.KindWhere:
		return mild(in[1], fuel) && mild(in[2], fuel)
	case ir.KindConcat:
		return !slices.ContainsFunc(in, func(x *ir.Value) bool { return !mild(x, fuel) })
	}
	return false
}

// operand returns the mask as ir.Attention takes it.
func (x *attentionMask) operand() (*ir.Value, bool) {
	m := x.m
	if x.keep == nil && x.drop == nil {
		if x.excludes {
			m.refuse("it is masked only after the softmax")
			return nil, false
		}
		return x.shaped(x.add), true
	}
	if !x.gone(x.dtype, x.fill) {
		m.refuse("masked scores become %g, which is not a mask", x.fill)
		return nil, false
	}
	if fuel := maxChase; x.add != nil && !lowestFills(x.dtype, x.fill) && !mild(x.add, &fuel) {
		m.refuse("masked scores become %g, but the value added to the others may also be a mask", x.fill)
		return nil, false
	}
	keep := x.keep
	if keep == nil {
		keep = m.emit(ir.Unary{Fn: ir.Not}, x.drop)
	}
	gone := math.IsInf(x.fill, -1) || x.excludes
	if gone && x.add == nil {
		return x.shaped(keep), true
	}
	other, rest := x.add, math.Inf(-1)
	if other == nil {
		other = m.e.constant("", scalarOf(x.dtype, 0))
	}
	if !gone {
		rest = lowest(x.dtype)
	}
	return x.shaped(m.emit(ir.Where{}, keep, other, m.e.constant("", scalarOf(x.dtype, rest)))), true
}

// shaped adds to a mask of fewer axes those of the scores, four in the end.
func (x *attentionMask) shaped(v *ir.Value) *ir.Value {
	if v == nil {
		return nil
	}
	if len(x.shape) == 3 { // one head
		s := v.Type.Shape
		for len(s) < 3 {
			s = append(ir.Shape{ir.N(1)}, s...)
		}
		return x.m.reshape(v, ir.Shape{s[0], ir.N(1), s[1], s[2]})
	}
	return v
}

// lowest is the lowest finite number of a type.
func lowest(d tensor.DType) float64 {
	switch d {
	case tensor.F16:
		return -65504
	case tensor.BF16:
		return -0x1.FEp127
	case tensor.F64:
		return -math.MaxFloat64
	}
	return -math.MaxFloat32
}

func scalarOf(d tensor.DType, x float64) *tensor.Tensor {
	t := tensor.New(d)
	t.SetFloat64(0, x)
	return t
}
