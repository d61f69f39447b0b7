package ir

import (
	"fmt"
	"math"

	"github.com/rlxc/rlxc/tensor"
)

// QMatMul is a product of 8-bit codes: exact int32 sums of (a − aZero)·(b − bZero), times aScale·bScale, plus bias, through
// Act, plus residual, quantised again where yScale is given. It stands for what ONNX writes as MatMulInteger, QLinearMatMul,
// QGemm and products between DequantizeLinear and QuantizeLinear. It prints as onnx.QMatMul.
//
// Operands: a [..,M,K] u8 or i8 codes, or f32 that is quantised on the way as DynamicQuantize does (aZero and aScale are
// then absent); b [..,K,N] ([..,N,K] with TransB) u8 or i8; aZero a scalar and bZero a scalar or [N], of their codes' types,
// nil for 0; aScale a scalar and bScale a scalar or [N]; bias [N], as i32 added to the sums or as a float behind the scales;
// residual of the result's shape; yScale and yZero scalars, or [N] both. Without bScale the result is the i32 sums, with yScale it is
// codes of yZero's type, and otherwise it has bScale's type. All arithmetic behind the sums is float32's.
type QMatMul struct {
	TransB bool
	Act    Activation
}

// The operand positions of QMatMul.
const (
	QMatMulA = iota
	QMatMulB
	QMatMulAZero
	QMatMulBZero
	QMatMulAScale
	QMatMulBScale
	QMatMulBias
	QMatMulResidual
	QMatMulYScale
	QMatMulYZero
)

// Kind implements Op.
func (QMatMul) Kind() Kind { return KindQMatMul }

func is8Bit(d tensor.DType) bool { return d == tensor.U8 || d == tensor.I8 }

// Dynamic reports whether a is quantised on the way.
func (QMatMul) Dynamic(in []*Value) bool { return in[QMatMulA].Type.DType == tensor.F32 }

// Infer implements Op.
func (o QMatMul) Infer(in []*Value) ([]Type, error) {
	a, b := in[QMatMulA].Type, in[QMatMulB].Type
	dynamic := o.Dynamic(in)
	if !is8Bit(b.DType) || !is8Bit(a.DType) && !dynamic {
		return nil, fmt.Errorf("a quantised product of %s and %s", a.DType, b.DType)
	}
	wide := a
	wide.DType = tensor.F32
	codes := b
	codes.DType = tensor.F32
	floating := []*Value{{Type: wide}, {Type: codes}}
	types, err := MatMul{TransB: o.TransB}.Infer(floating)
	if err != nil {
		return nil, err
	}
	out := types[0]
	n := out.Shape[len(out.Shape)-1]
	scalar := func(i int, d tensor.DType) error {
		if v := Operand(in, i); v != nil && (len(v.Type.Shape) != 0 || d != tensor.Invalid && v.Type.DType != d) {
			return fmt.Errorf("operand %d is %v where one number is needed", i, v.Type)
		}
		return nil
	}
	columns := func(i int, d tensor.DType) error {
		v := Operand(in, i)
		if v == nil || len(v.Type.Shape) == 0 && i != QMatMulBias && v.Type.DType == d {
			return nil
		}
		if len(v.Type.Shape) != 1 || Same(v.Type.Shape[0], n) == No || v.Type.DType != d {
			return fmt.Errorf("operand %d is %v where %s of %v columns are needed", i, v.Type, d, n)
		}
		return nil
	}
	scale, yScale, yZero := Operand(in, QMatMulBScale), Operand(in, QMatMulYScale), Operand(in, QMatMulYZero)
	bias, residual := Operand(in, QMatMulBias), Operand(in, QMatMulResidual)
	out.DType = tensor.I32
	if scale != nil {
		out.DType = scale.Type.DType
	}
	switch {
	case dynamic && (Operand(in, QMatMulAZero) != nil || Operand(in, QMatMulAScale) != nil):
		return nil, fmt.Errorf("scales beside an operand that has none")
	case !dynamic && (scale == nil) != (Operand(in, QMatMulAScale) == nil) || dynamic && scale == nil:
		return nil, fmt.Errorf("one of two scales")
	case scale != nil && !scale.Type.DType.IsFloat():
		return nil, fmt.Errorf("scales of %s", scale.Type.DType)
	case scale == nil && (o.Act != NoActivation || bias != nil && bias.Type.DType != tensor.I32 || residual != nil || yScale != nil):
		return nil, fmt.Errorf("an epilogue of floats without scales")
	case (yScale == nil) != (yZero == nil):
		return nil, fmt.Errorf("one of scale and zero point of the result")
	case yZero != nil && !is8Bit(yZero.Type.DType):
		return nil, fmt.Errorf("results of %s", yZero.Type.DType)
	case yZero != nil && len(yZero.Type.Shape) != len(yScale.Type.Shape):
		return nil, fmt.Errorf("scales %v and zero points %v of the result", yScale.Type, yZero.Type)
	}
	yType := tensor.Invalid
	if yZero != nil {
		yType = yZero.Type.DType
	}
	biasType := out.DType
	if bias != nil && bias.Type.DType == tensor.I32 {
		biasType = tensor.I32
	}
	for _, err := range []error{
		scalar(QMatMulAZero, a.DType), scalar(QMatMulAScale, out.DType), columns(QMatMulYScale, out.DType), columns(QMatMulYZero, yType),
		columns(QMatMulBZero, b.DType), columns(QMatMulBScale, out.DType), columns(QMatMulBias, biasType),
	} {
		if err != nil {
			return nil, err
		}
	}
	if residual != nil {
		if residual.Type.DType != out.DType || len(residual.Type.Shape) != len(out.Shape) {
			return nil, fmt.Errorf("residual %v for %v", residual.Type, out)
		}
		for i, d := range residual.Type.Shape {
			if Same(d, out.Shape[i]) == No {
				return nil, fmt.Errorf("residual %v for %v", residual.Type, out)
			}
		}
	}
	if yZero != nil {
		out.DType = yZero.Type.DType
	}
	return []Type{out}, nil
}

// Eval implements Op.
func (o QMatMul) Eval(in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	in = append(append([]*tensor.Tensor{}, in...), make([]*tensor.Tensor, QMatMulYZero+1-len(in))...)
	if in[QMatMulA].DType() == tensor.F32 {
		q, err := DynamicQuantize{}.Eval(in[:1])
		if err != nil {
			return nil, err
		}
		in[QMatMulA], in[QMatMulAScale], in[QMatMulAZero] = q[0], q[1], q[2]
	}
	sums, err := MatMul{TransB: o.TransB}.Eval([]*tensor.Tensor{
		differences(in[QMatMulA], in[QMatMulAZero], false), differences(in[QMatMulB], in[QMatMulBZero], o.TransB)})
	if err != nil {
		return nil, err
	}
	sum := sums[0]
	n := sum.Shape()[sum.Rank()-1]
	bias, scale, yScale := in[QMatMulBias], in[QMatMulBScale], in[QMatMulYScale]
	if bias != nil && bias.DType() == tensor.I32 {
		for i := range sum.Len() {
			sum.SetInt64(i, sum.Int64(i)+bias.Int64(i%n))
		}
		bias = nil
	}
	if scale == nil {
		return sums, nil
	}
	act := func(x float64) float64 { return x }
	if fn := o.Act.Unary(); fn != NoUnary {
		act = func(x float64) float64 { return unaryTable[fn].real(x, Unary{}) }
	}
	out := scale.DType()
	if yScale != nil {
		if err := checkScales(yScale); err != nil {
			return nil, err
		}
		out = in[QMatMulYZero].DType()
	}
	y := tensor.New(out, sum.Shape()...)
	for i := range sum.Len() {
		column := 0
		if scale.Rank() > 0 {
			column = i % n
		}
		v := float32(sum.Int64(i)) * (float32(in[QMatMulAScale].Float64(0)) * float32(scale.Float64(column)))
		if bias != nil {
			v += float32(bias.Float64(i % n))
		}
		v = float32(act(float64(v)))
		if r := in[QMatMulResidual]; r != nil {
			v += float32(r.Float64(i))
		}
		if yScale != nil {
			k := i % n % yScale.Len()
			setCode(y, i, v/float32(yScale.Float64(k)), in[QMatMulYZero], k, false)
		} else {
			y.SetFloat64(i, float64(v))
		}
	}
	return []*tensor.Tensor{y}, nil
}

// differences is x − zero as i32, where zero is nil, one number, or one for each column (row when byRow) of matrices.
func differences(x, zero *tensor.Tensor, byRow bool) *tensor.Tensor {
	y := tensor.New(tensor.I32, x.Shape()...)
	columns := x.Shape()[x.Rank()-1]
	for i := range x.Len() {
		v := x.Int64(i)
		switch {
		case zero == nil:
		case zero.Rank() == 0:
			v -= zero.Int64(0)
		case byRow:
			v -= zero.Int64(i / columns % zero.Len())
		default:
			v -= zero.Int64(i % columns)
		}
		y.SetInt64(i, v)
	}
	return y
}

// MatMulNBits is act(a·wᵀ + bias) + residual with weights of Bits bits (2, 4 or 8), quantised in blocks of Block elements
// along K: w[n,k] = (code − zero)·scale. Operands: a [..,K] of floats; codes u8 [N, blocks, Block·Bits/8], the first code of
// a byte in its low bits; scales [N·blocks] of a's type; zeros packed as the codes with a whole number of bytes a row,
// u8 [N·⌈blocks·Bits/8⌉], or of a's type [N·blocks], or nil for 2^(Bits−1); groups i32 [K], the block of each k, or nil for
// k/Block; bias [N]; residual of the result's shape. With Int8 (onnxruntime's accuracy_level 4) each block of a row of a is
// rounded first: to 127ths of its largest magnitude, ties to even.
type MatMulNBits struct {
	K, N, Bits, Block int
	Int8              bool
	Act               Activation
}

// The operand positions of MatMulNBits.
const (
	NBitsA = iota
	NBitsCodes
	NBitsScales
	NBitsZeros
	NBitsGroups
	NBitsBias
	NBitsResidual
)

// Kind implements Op.
func (MatMulNBits) Kind() Kind { return KindMatMulNBits }

// Blocks is the number of blocks of a row of weights.
func (o MatMulNBits) Blocks() int { return (o.K + o.Block - 1) / o.Block }

// Infer implements Op.
func (o MatMulNBits) Infer(in []*Value) ([]Type, error) {
	a := in[NBitsA].Type
	if o.Bits != 2 && o.Bits != 4 && o.Bits != 8 {
		return nil, fmt.Errorf("weights of %d bits: 2, 4 and 8 are known", o.Bits)
	}
	if o.Block < 16 || o.Block&(o.Block-1) != 0 {
		return nil, fmt.Errorf("blocks of %d: a power of two from 16 on is needed", o.Block)
	}
	if o.K < 1 || o.N < 1 || !a.DType.IsFloat() || len(a.Shape) < 1 || Same(a.Shape[len(a.Shape)-1], N(o.K)) == No {
		return nil, fmt.Errorf("a product of %v and [%d,%d]", a, o.K, o.N)
	}
	want := func(i int, d tensor.DType, n int) error {
		v := Operand(in, i)
		if v == nil {
			return nil
		}
		if v.Type.DType != d || Same(v.Type.Shape.Elements(), N(n)) == No {
			return fmt.Errorf("operand %d is %v where %d elements of %s are needed", i, v.Type, n, d)
		}
		return nil
	}
	zeros, zeroType := o.N*o.Blocks(), a.DType
	if z := Operand(in, NBitsZeros); z != nil && z.Type.DType == tensor.U8 {
		zeros, zeroType = o.N*((o.Blocks()*o.Bits+7)/8), tensor.U8
	}
	for _, err := range []error{
		want(NBitsCodes, tensor.U8, o.N*o.Blocks()*o.Block*o.Bits/8), want(NBitsScales, a.DType, o.N*o.Blocks()),
		want(NBitsZeros, zeroType, zeros), want(NBitsGroups, tensor.I32, o.K), want(NBitsBias, a.DType, o.N),
	} {
		if err != nil {
			return nil, err
		}
	}
	out := append(append(Shape{}, a.Shape[:len(a.Shape)-1]...), N(o.N))
	if r := Operand(in, NBitsResidual); r != nil && (r.Type.DType != a.DType || len(r.Type.Shape) != len(out)) {
		return nil, fmt.Errorf("residual %v for %v", r.Type, out)
	}
	return []Type{TensorOf(a.DType, out...)}, nil
}

// Weight gives the weights that the codes stand for, [N,K] of the scales' type.
func (o MatMulNBits) Weight(codes, scales, zeros, groups *tensor.Tensor) (*tensor.Tensor, error) {
	w := tensor.New(scales.DType(), o.N, o.K)
	blocks, per := o.Blocks(), 8/o.Bits
	bitsOf := func(t *tensor.Tensor, row, rowBytes, i int) float64 {
		return float64(t.Bytes()[row*rowBytes+i/per] >> (i % per * o.Bits) & (1<<o.Bits - 1))
	}
	for n := range o.N {
		for k := range o.K {
			block := k / o.Block
			if groups != nil {
				if block = int(groups.Int64(k)); block < 0 || block >= blocks {
					return nil, fmt.Errorf("g_idx[%d] is %d: there are %d blocks", k, block, blocks)
				}
			}
			zero := math.Ldexp(1, o.Bits-1)
			switch {
			case zeros == nil:
			case zeros.DType() == tensor.U8:
				zero = bitsOf(zeros, n, (blocks+per-1)/per, block)
			default:
				zero = zeros.Float64(n*blocks + block)
			}
			w.SetFloat64(n*o.K+k, (bitsOf(codes, n, blocks*o.Block/per, k)-zero)*scales.Float64(n*blocks+block))
		}
	}
	return w, nil
}

// Eval implements Op.
func (o MatMulNBits) Eval(in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	w, err := o.Weight(in[NBitsCodes], in[NBitsScales], Operand(in, NBitsZeros), Operand(in, NBitsGroups))
	if err != nil {
		return nil, err
	}
	a := in[NBitsA]
	s := a.Shape()
	rows, shape := s[:len(s)-1].Elements(), append(s[:len(s)-1].Clone(), o.N)
	residual := Operand(in, NBitsResidual)
	if residual != nil {
		residual = residual.Reshape(rows, o.N)
	}
	wide := a
	if o.Int8 {
		wide = o.rounded(a)
	}
	out, err := MatMul{TransB: true, Act: o.Act}.Eval([]*tensor.Tensor{wide.Reshape(rows, o.K), w, Operand(in, NBitsBias), residual})
	if err != nil || !o.Int8 {
		return []*tensor.Tensor{out[0].Reshape(shape...)}, err
	}
	y := tensor.New(a.DType(), shape...)
	for i := range y.Len() {
		y.SetFloat64(i, out[0].Float64(i))
	}
	return []*tensor.Tensor{y}, nil
}

// rounded is a with every block rounded to 8 bits.
func (o MatMulNBits) rounded(a *tensor.Tensor) *tensor.Tensor {
	y, v := tensor.New(tensor.F64, a.Shape()...), a.Float64s()
	for row := 0; row < len(v); row += o.K {
		for k := 0; k < o.K; k += o.Block {
			block := v[row+k : row+min(k+o.Block, o.K)]
			var largest float32
			for _, x := range block {
				largest = max(largest, float32(math.Abs(x)))
			}
			if largest == 0 {
				continue
			}
			scale, inverse := largest/127, 127/largest
			for i, x := range block {
				y.SetFloat64(row+k+i, math.RoundToEven(float64(float32(x)*inverse))*float64(scale))
			}
		}
	}
	return y
}
