package ir

import (
	"fmt"
	"math"

	"github.com/rlxc/rlxc/tensor"
)

// Quantize rounds x to quantised values: saturate(round(x/scale) + zero) for integers, ties to even, and the cast of x/scale for
// floats of at most 8 bits, which saturates unless Wrap. Operands: x, scale, zero of type To or nil for 0.
//
// One scale serves the whole tensor (rank 0), or each position along Axis has its own (rank 1), or each run of Block
// elements along Axis (a scale of x's rank). The division is float32's, as onnxruntime's is.
type Quantize struct {
	To    tensor.DType
	Axis  int
	Block int
	Wrap  bool
}

func (Quantize) Kind() Kind { return KindQuantize }

func (o Quantize) Infer(in []*Value) ([]Type, error) {
	x, scale, zero := in[0].Type, in[1].Type, Operand(in, 2)
	if !isQuantized(o.To) {
		return nil, fmt.Errorf("nothing is quantised to %s", o.To)
	}
	if !x.DType.IsFloat() && x.DType != tensor.I32 || !scale.DType.IsFloat() {
		return nil, fmt.Errorf("%s cannot be quantised by scales of %s", x.DType, scale.DType)
	}
	if zero != nil && zero.Type.DType != o.To {
		return nil, fmt.Errorf("the zero point is %s, the result %s", zero.Type.DType, o.To)
	}
	if err := fitScales(x.Shape, in[1], zero, o.Axis, o.Block); err != nil {
		return nil, err
	}
	return []Type{TensorOf(o.To, x.Shape...)}, nil
}

// isQuantized reports whether values are quantised to d.
func isQuantized(d tensor.DType) bool {
	return d.IsInt() && d.Bits() <= 16 || d.IsFloat() && d.Bits() <= 8
}

// fitScales checks the shapes of scales and zero points for a tensor of shape s.
func fitScales(s Shape, scale, zero *Value, axis, block int) error {
	t := scale.Type.Shape
	if zero != nil {
		same := len(zero.Type.Shape) == len(t)
		for i := 0; same && i < len(t); i++ {
			same = Same(zero.Type.Shape[i], t[i]) != No
		}
		if !same {
			return fmt.Errorf("zero points %v beside scales %v", zero.Type, scale.Type)
		}
	}
	if len(t) == 0 {
		return nil
	}
	if axis < 0 || axis >= len(s) {
		return fmt.Errorf("axis %d of %v", axis, s)
	}
	if block == 0 {
		if len(t) != 1 || Same(t[0], s[axis]) == No {
			return fmt.Errorf("scales %v for axis %d of %v", scale.Type, axis, s)
		}
		return nil
	}
	if len(t) != len(s) || block < 0 {
		return fmt.Errorf("scales %v for blocks of %d along axis %d of %v", scale.Type, block, axis, s)
	}
	for i, d := range s {
		if i == axis {
			d = d.Add(N(block - 1)).Div(N(block))
		}
		if Same(t[i], d) == No {
			return fmt.Errorf("scales %v for blocks of %d along axis %d of %v", scale.Type, block, axis, s)
		}
	}
	return nil
}

// scaleIndex returns the index of the scale of element i of a tensor of shape s.
func scaleIndex(s, scales tensor.Shape, axis, block int) func(i int) int {
	if len(scales) == 0 {
		return func(int) int { return 0 }
	}
	inner := s[axis+1:].Elements()
	if block == 0 {
		return func(i int) int { return i / inner % s[axis] }
	}
	return func(i int) int {
		outer, at := i/(inner*s[axis]), i/inner%s[axis]
		return (outer*scales[axis]+at/block)*inner + i%inner
	}
}

func (o Quantize) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x, scale, zero := in[0], in[1], Operand(in, 2)
	y := env.New(o.To, x.Shape()...)
	at := scaleIndex(x.Shape(), scale.Shape(), o.Axis, o.Block)
	if err := checkScales(scale); err != nil {
		return nil, err
	}
	for i := range env.Range(x.Len()) {
		k := at(i)
		setQuantized(y, i, float32(x.Float64(i))/float32(scale.Float64(k)), zero, k, o.Wrap)
	}
	return []*tensor.Tensor{y}, nil
}

// checkScales refuses scales by which nothing can be divided.
func checkScales(scale *tensor.Tensor) error {
	for i := range scale.Len() {
		if v := scale.Float64(i); v == 0 || math.IsNaN(v) {
			return fmt.Errorf("scale %d is %v: quantising divides by it", i, v)
		}
	}
	return nil
}

// setQuantized writes v, which is in units of the scale, as the quantised value of element i; zero may be nil.
func setQuantized(y *tensor.Tensor, i int, v float32, zero *tensor.Tensor, k int, wrap bool) {
	if y.DType().IsFloat() {
		Cast{To: y.DType(), Wrap: wrap}.setReal(y, i, float64(v))
		return
	}
	lo, hi := quantizedRange(y.DType())
	z := 0.0
	if zero != nil {
		z = float64(zero.Int64(k))
	}
	r := math.RoundToEven(float64(v)) + z
	if !(r > float64(lo)) { // NaN becomes the least, as in onnxruntime
		r = float64(lo)
	}
	y.SetInt64(i, int64(min(r, float64(hi))))
}

// quantizedRange is the smallest and largest value of an integer type of at most 32 bits.
func quantizedRange(d tensor.DType) (lo, hi int64) {
	if d.IsUnsigned() {
		return 0, 1<<d.Bits() - 1
	}
	return -1 << (d.Bits() - 1), 1<<(d.Bits()-1) - 1
}

// Dequantize returns the values that quantised values stand for: (x − zero)·scale. Operands: x, scale, zero of x's type or nil for 0,
// laid out as Quantize's. Products are float32's, rounded once more where To is narrower.
type Dequantize struct {
	To    tensor.DType
	Axis  int
	Block int
}

func (Dequantize) Kind() Kind { return KindDequantize }

func (o Dequantize) Infer(in []*Value) ([]Type, error) {
	x, scale, zero := in[0].Type, in[1].Type, Operand(in, 2)
	if !isQuantized(x.DType) && x.DType != tensor.I32 || !scale.DType.IsFloat() || !o.To.IsFloat() {
		return nil, fmt.Errorf("%s with scales of %s are not quantised values of %s", x.DType, scale.DType, o.To)
	}
	if zero != nil && zero.Type.DType != x.DType {
		return nil, fmt.Errorf("the zero point is %s, the quantised values are %s", zero.Type.DType, x.DType)
	}
	if err := fitScales(x.Shape, in[1], zero, o.Axis, o.Block); err != nil {
		return nil, err
	}
	return []Type{TensorOf(o.To, x.Shape...)}, nil
}

func (o Dequantize) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x, scale, zero := in[0], in[1], Operand(in, 2)
	y := env.New(o.To, x.Shape()...)
	at := scaleIndex(x.Shape(), scale.Shape(), o.Axis, o.Block)
	for i := range env.Range(x.Len()) {
		k := at(i)
		y.SetFloat64(i, float64(float32(quantizedAt(x, i, zero, k))*float32(scale.Float64(k))))
	}
	return []*tensor.Tensor{y}, nil
}

// ScaleAt returns which scale belongs to element i of quantised values of shape s.
func (o Dequantize) ScaleAt(s, scales tensor.Shape) func(i int) int {
	return scaleIndex(s, scales, o.Axis, o.Block)
}

// QuantizedValues returns a reader of the integers of at most 8 bits in t: element i, minus the smallest number of its type.
func QuantizedValues(t *tensor.Tensor) func(i int) byte {
	data, bits, flip := t.Bytes(), t.DType().Bits(), byte(0)
	if t.DType().IsSigned() {
		flip = 1 << (bits - 1)
	}
	per, mask := 8/bits, byte(1<<bits-1)
	return func(i int) byte { return data[i/per]>>(i%per*bits)&mask ^ flip }
}

// quantizedAt is x[i] − zero[k]; integers are subtracted as such.
func quantizedAt(x *tensor.Tensor, i int, zero *tensor.Tensor, k int) float64 {
	if x.DType().IsFloat() {
		v := x.Float64(i)
		if zero != nil {
			v -= zero.Float64(k)
		}
		return v
	}
	v := x.Int64(i)
	if zero != nil {
		v -= zero.Int64(k)
	}
	return float64(v)
}

// DynamicQuantize is ONNX's DynamicQuantizeLinear. It rounds float32 x to u8 quantised values with one scale and zero point, the second
// and third results. The range from min(x) to max(x), extended to include 0, is divided into 255 steps. A tensor of zeros has scale 1, as
// in onnxruntime.
type DynamicQuantize struct{}

func (DynamicQuantize) Kind() Kind { return KindDynamicQuantize }

func (DynamicQuantize) Infer(in []*Value) ([]Type, error) {
	x := in[0].Type
	if x.DType != tensor.F32 {
		return nil, fmt.Errorf("%s is not quantised dynamically", x.DType)
	}
	return []Type{TensorOf(tensor.U8, x.Shape...), TensorOf(tensor.F32), TensorOf(tensor.U8)}, nil
}

func (DynamicQuantize) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x := tensor.Of[float32](in[0])
	scale, zero := dynamicRange(x)
	y := env.New(tensor.U8, in[0].Shape()...)
	env.Work(2 * len(x))
	for i, v := range x {
		y.Bytes()[i] = quantizeDynamic(v, scale, zero)
	}
	return []*tensor.Tensor{y, tensor.Scalar(scale), tensor.Scalar(zero)}, nil
}

// dynamicRange is the scale and zero point that DynamicQuantizeLinear computes for x.
func dynamicRange(x []float32) (scale float32, zero uint8) {
	var lo, hi float32
	for _, v := range x {
		if v == v { // onnxruntime passes over NaN, unless it fills a vector of the processor
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	if scale = (hi - lo) / 255; scale == 0 {
		scale = 1
	}
	at := -lo / scale // no number where lo is −∞
	if !(at < 255) {
		at = 255
	}
	return scale, uint8(math.RoundToEven(float64(at)))
}

// RoundDynamic rounds x, which holds float32 values, as DynamicQuantize and Dequantize do.
func RoundDynamic(x []float64) {
	narrow := make([]float32, len(x))
	for i, v := range x {
		narrow[i] = float32(v)
	}
	scale, zero := dynamicRange(narrow)
	for i, v := range narrow {
		x[i] = (float64(quantizeDynamic(v, scale, zero)) - float64(zero)) * float64(scale)
	}
}

func quantizeDynamic(v, scale float32, zero uint8) uint8 {
	r := math.RoundToEven(float64(v/scale)) + float64(zero)
	if !(r > 0) { // NaN becomes 0
		return 0
	}
	return uint8(min(r, 255))
}
