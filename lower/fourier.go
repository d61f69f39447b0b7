package lower

import (
	"math"
	"math/bits"
	"slices"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Fourier transforms. Complex tensors are real ones with a last axis of 2.
var fourierRows = []row{
	{"DFT", 17, lowerDFT},
	{"DFT", 20, lowerDFT},
	{"STFT", 17, lowerSTFT},
	{"MelWeightMatrix", 17, lowerMelWeightMatrix},
}

func lowerDFT(c *context) []*ir.Value {
	x := c.In(0).Type
	rank := len(x.Shape)
	axis := 1
	if c.Version() < 20 {
		axis = c.AttrInt("axis", 1)
	} else if axis = -2; c.Opt(2) != nil {
		axis = int(c.number(2))
	}
	if axis = c.Axis(axis, rank); axis == rank-1 {
		c.Failf("axis %d holds the parts of complex numbers", axis)
	}
	_, ok := x.Shape[rank-1].Const()
	if !ok {
		panic(needsRun{0})
	}
	inverse, onesided := c.AttrBool("inverse", false), c.AttrBool("onesided", false)
	n := x.Shape[axis]
	switch {
	case c.Opt(1) != nil:
		if n, ok = c.wholeNumber(c.In(1)); !ok {
			n = ir.N(int(c.number(1)))
		}
	case inverse && onesided:
		n = n.Sub(ir.N(1)).Mul(ir.N(2))
	}
	op := ops.DFT{Axis: axis, Length: n, Inverse: inverse, OneSided: onesided}
	if y := c.transformed(op, c.In(0)); y != nil {
		return []*ir.Value{y}
	}
	return c.opaque(op, c.In(0))
}

// maxTransform bounds the elements of the matrix of a transform that is computed as a product. Frames of speech have 400 or 512 samples,
// where products take less time than the steps of a fast transform.
const maxTransform = 1 << 21

// transformed is a transform of float32 along the axis before the last as a product, nil where it is none of a known, moderate length.
func (c *context) transformed(op ops.DFT, x *ir.Value) *ir.Value {
	types, err := ir.Infer(&ir.Node{Op: op, Inputs: []*ir.Value{x}})
	if err != nil {
		c.Failf("%w", err)
	}
	s, y := x.Type.Shape, types[0].Shape
	axis := len(s) - 2
	m := (*tensor.Tensor)(nil)
	if from, known := s[axis].Const(); known && op.Axis == axis && x.Type.DType == tensor.F32 {
		m = c.transformMatrix(op, nil, from, s[axis+1].Int(), y[axis+1].Int())
	}
	if m == nil {
		return nil
	}
	rows := c.reshape(x, append(slices.Clone(s[:axis]), ir.N(m.Shape()[0])))
	return c.reshape(c.Emit(ir.MatMul{}, rows, c.Constant(m)), y)
}

// transformMatrix is what multiplies vectors of that many numbers, each of one part or of two, to weight and transform them; nil
// where it is large, or of an unknown length.
func (c *context) transformMatrix(op ops.DFT, weights *tensor.Tensor, from, parts, results int) *tensor.Tensor {
	n, ok := op.Length.Const()
	to := n
	if op.OneSided && !op.Inverse {
		to = n/2 + 1
	}
	if !ok || from < 1 || from > n || from*parts > min(maxTransform, maxWeights-c.b.weights)/(to*results) {
		return nil
	}
	c.b.weights += from * parts * to * results
	used := from
	if op.OneSided && op.Inverse { // the other half is the mirror image
		used = min(from, n/2+1)
	}
	roots := make([]complex128, n)
	for i := range roots {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / float64(n))
		if roots[i] = complex(cos, -sin); op.Inverse {
			roots[i] = complex(cos/float64(n), sin/float64(n))
		}
	}
	m := tensor.New(tensor.F32, from*parts, to*results)
	for k := range used {
		weight := complex(1, 0)
		if weights != nil {
			weight = complex(weights.Float64(k), 0)
		}
		if op.Inverse && op.OneSided && k > 0 && n-k > n/2 {
			weight = 2
		}
		for j := range to {
			factor := roots[k*j%n] * weight
			for part, column := range []complex128{factor, factor * 1i}[:parts] {
				for result, v := range []float64{real(column), imag(column)}[:results] {
					m.SetFloat64((k*parts+part)*to*results+j*results+result, v)
				}
			}
		}
	}
	return m
}

func lowerSTFT(c *context) []*ir.Value {
	x, window := c.In(0), c.Opt(2)
	if rank(x) == 2 { // of real numbers, whose axis onnxruntime lets models leave out
		x = c.reshape(x, append(slices.Clone(x.Type.Shape), ir.N(1)))
	}
	if rank(x) != 3 {
		c.Failf("signal %v: want two axes or three", x.Type)
	}
	op := ops.STFT{Step: int(c.number(1)), OneSided: c.AttrBool("onesided", true)}
	length := x.Type.Shape[1]
	switch {
	case c.Opt(3) != nil:
		length = ir.N(int(c.number(3)))
	case window != nil:
		if rank(window) != 1 {
			c.Failf("window %v: want one axis", window.Type)
		}
		length = window.Type.Shape[0]
	}
	var ok bool
	if op.Length, ok = length.Const(); !ok {
		panic(needsRun{0})
	}
	if y := c.framed(op, x, window); y != nil {
		return []*ir.Value{y}
	}
	return c.opaque(op, x, window)
}

// framed is an STFT of real float32 as a convolution with the rows of its transform, nil where the transform is large or the window
// no constant.
func (c *context) framed(op ops.STFT, x, window *ir.Value) *ir.Value {
	types, err := ir.Infer(&ir.Node{Op: op, Inputs: []*ir.Value{x, window}})
	if err != nil {
		c.Failf("%w", err)
	}
	var weights *tensor.Tensor
	if window = c.weight(window); window != nil {
		if window.Const == nil {
			return nil
		}
		weights = window.Const.Aligned()
	}
	if x.Type.DType != tensor.F32 || !x.Type.Shape[2].Is(1) {
		return nil
	}
	m := c.transformMatrix(ops.DFT{Length: ir.N(op.Length), OneSided: op.OneSided}, weights, op.Length, 1, 2)
	if m == nil {
		return nil
	}
	frames := ir.Window{Kernel: []int{op.Length}, Strides: []int{op.Step}, Dilations: []int{1}, Pads: []int{0, 0}, Auto: "NOTSET"}
	return c.reshape(c.Emit(ir.Conv{Window: frames, Group: 1}, x, c.Constant(m.Reshape(op.Length, 1, m.Shape()[1]))), types[0].Shape)
}

// maxMelBits bounds the bands and bins of a matrix that compilation computes: together 2^22 elements at least, 2^24 at most.
const maxMelBits = 24

// lowerMelWeightMatrix returns the matrix from the bins of a spectrum to bands evenly spaced in mel.
func lowerMelWeightMatrix(c *context) []*ir.Value {
	bands, length, rate := int(c.number(0)), int(c.number(1)), c.number(2)
	low, high := c.number(3), c.number(4)
	to := tensor.DType(c.AttrInt("output_datatype", int(tensor.F32)))
	if bands < 1 || length < 1 || bits.Len(uint(bands))+bits.Len(uint(length)) > maxMelBits || !(rate > 0) || !(low >= 0) ||
		!(high >= low) || !to.Valid() || to == tensor.String {
		c.Failf("%d bands of %d bins at %v Hz from %v to %v: want positive numbers, in order", bands, length, rate, low, high)
	}
	bins := length/2 + 1
	mel := func(f float64) float64 { return 2595 * math.Log10(1+f/700) }
	step := (mel(high) - mel(low)) / float64(bands+2)
	edges := make([]int, bands+2)
	for i := range edges {
		f := 700 * (math.Pow(10, (mel(low)+float64(i)*step)/2595) - 1)
		if edges[i] = int(math.Floor(float64(length+1) * f / rate)); edges[i] < 0 || edges[i] >= bins {
			c.Failf("band %d begins at bin %d of %d", i, edges[i], bins)
		}
	}
	y := tensor.New(to, bins, bands)
	for i := range bands {
		left, centre, right := edges[i], edges[i+1], edges[i+2]
		if left == centre {
			y.SetFloat64(centre*bands+i, 1)
		}
		for k := left; k <= centre && left < centre; k++ {
			y.SetFloat64(k*bands+i, float64(k-left)/float64(centre-left))
		}
		for k := centre; k < right; k++ {
			y.SetFloat64(k*bands+i, float64(right-k)/float64(right-centre))
		}
	}
	return []*ir.Value{c.Constant(y)}
}

// Window functions: sums of cosines a₀ − a₁·cos(2πn/N) + a₂·cos(4πn/N).
var signalRows = []row{
	{"HannWindow", 17, lowerWindow(0.5, 0.5, 0)},
	{"HammingWindow", 17, lowerWindow(25.0/46, 21.0/46, 0)},
	{"BlackmanWindow", 17, lowerWindow(0.42, 0.5, 0.08)},
}

func lowerWindow(a0, a1, a2 float64) func(*context) []*ir.Value {
	return func(c *context) []*ir.Value {
		to, periodic := tensor.DType(c.AttrInt("output_datatype", int(tensor.F32))), c.AttrBool("periodic", true)
		size, ok := c.wholeNumber(c.In(0))
		if !ok && !c.IsConst(0) {
			return c.AtRun(ir.TensorOf(to, c.Fresh(0)))
		}
		if !ok {
			size = ir.N(int(c.number(0)))
		}
		period := size
		if !periodic {
			period = size.Sub(ir.N(1))
		}
		constant := func(v float64) *ir.Value { return c.Scalar(tensor.F64, v) }
		wave := func(frequency, amplitude float64) *ir.Value {
			x := c.binary(ir.Mul, c.cast(c.count(size, 0, 1), tensor.F64), constant(frequency*2*math.Pi))
			x = c.binary(ir.Div, x, c.cast(c.sizeScalar(period), tensor.F64))
			return c.binary(ir.Mul, c.unary(ir.Cos, x), constant(amplitude))
		}
		y := c.binary(ir.Add, wave(1, -a1), constant(a0))
		if a2 != 0 {
			y = c.binary(ir.Add, y, wave(2, a2))
		}
		return []*ir.Value{c.cast(y, to)}
	}
}
