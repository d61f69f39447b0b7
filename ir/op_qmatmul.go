package ir

import (
	"cmp"
	"fmt"

	"github.com/rlxc/rlxc/tensor"
)

// QMatMul is a product of 8-bit quantised values: exact int32 sums of (a − aZero)·(b − bZero), times aScale·bScale, plus bias, through
// Act, plus residual, quantised again if yScale is given. ONNX writes it as MatMulInteger, QLinearMatMul, QGemm, or a product between
// DequantizeLinear and QuantizeLinear. It prints as onnx.QMatMul.
//
// Operands: a [..,M,K] u8 or i8 quantised values, or f32 that is quantised on the way as DynamicQuantize does (aZero and aScale are then
// absent); b [..,K,N] ([..,N,K] with TransB) u8 or i8; aZero a scalar and bZero a scalar or [N], of their quantised values' types, nil
// for 0; aScale a scalar and bScale a scalar or [N]; bias [N], as i32 added to the sums or as a float after the scales; residual of the
// result's shape; yScale and yZero scalars, or [N] both. Without bScale the result is the i32 sums, with yScale it is quantised values of
// yZero's type, and otherwise it has bScale's type. All arithmetic after the sums is float32's.
//
// If a is quantised on the way, an operand may list the sequences of a packed batch, i32 [R,4] as Pack returns them. Then each sequence
// has a separate scale and zero point, from the rows of a that are its keys, as if it were multiplied alone. The results of rows in no
// sequence are unspecified.
type QMatMul struct {
	TransB bool
	Act    UnaryFn
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
	QMatMulSequences
)

func (QMatMul) Kind() Kind { return KindQMatMul }

func is8Bit(d tensor.DType) bool { return d == tensor.U8 || d == tensor.I8 }

// Dynamic reports whether a is quantised on the way.
func (QMatMul) Dynamic(in []*Value) bool { return in[QMatMulA].Type.DType == tensor.F32 }

func (o QMatMul) Infer(in []*Value) ([]Type, error) {
	out, err := o.product(in)
	if err != nil {
		return nil, err
	}
	for _, check := range []func([]*Value, Type) error{o.checkPresence, o.checkTypes} {
		if err := check(in, out); err != nil {
			return nil, err
		}
	}
	if err := checkResidual(Operand(in, QMatMulResidual), out); err != nil {
		return nil, err
	}
	if zero := Operand(in, QMatMulYZero); zero != nil {
		out.DType = zero.Type.DType
	}
	return []Type{out}, nil
}

// product is the type of what may be quantised again: sums, or floats of the scales' type.
func (o QMatMul) product(in []*Value) (Type, error) {
	a, b := in[QMatMulA].Type, in[QMatMulB].Type
	if !is8Bit(b.DType) || !is8Bit(a.DType) && !o.Dynamic(in) {
		return Type{}, fmt.Errorf("a quantised product of %s and %s", a.DType, b.DType)
	}
	a.DType, b.DType = tensor.F32, tensor.F32 // as a product of floats has its shape
	types, err := MatMul{TransB: o.TransB}.Infer([]*Value{{Type: a}, {Type: b}})
	if err != nil {
		return Type{}, err
	}
	out := types[0]
	out.DType = tensor.I32
	if scale := Operand(in, QMatMulBScale); scale != nil {
		out.DType = scale.Type.DType
	}
	return out, nil
}

// checkPresence holds the operands to those that go together.
func (o QMatMul) checkPresence(in []*Value, _ Type) error {
	aZero, aScale, bScale := Operand(in, QMatMulAZero), Operand(in, QMatMulAScale), Operand(in, QMatMulBScale)
	bias, residual, yScale, yZero := Operand(in, QMatMulBias), Operand(in, QMatMulResidual), Operand(in, QMatMulYScale),
		Operand(in, QMatMulYZero)
	rows := Operand(in, QMatMulSequences)
	if err := o.Act.checkEpilogue(); err != nil {
		return err
	}
	switch dynamic := o.Dynamic(in); {
	case rows != nil && (!dynamic || rows.Type.DType != tensor.I32 || len(rows.Type.Shape) != 2 ||
		Same(rows.Type.Shape[1], N(SequenceFields)) == No):
		return fmt.Errorf("rows %v beside %v", rows.Type, in[QMatMulA].Type)
	case rows != nil && len(in[QMatMulB].Type.Shape) != 2:
		return fmt.Errorf("sequences with a product with %v", in[QMatMulB].Type)
	case dynamic && (aZero != nil || aScale != nil):
		return fmt.Errorf("scales beside an operand that has none")
	case !dynamic && (bScale == nil) != (aScale == nil) || dynamic && bScale == nil:
		return fmt.Errorf("one of two scales")
	case bScale != nil && !bScale.Type.DType.IsFloat():
		return fmt.Errorf("scales of %s", bScale.Type.DType)
	case bScale == nil && (o.Act != NoUnary || bias != nil && bias.Type.DType != tensor.I32 || residual != nil || yScale != nil):
		return fmt.Errorf("an epilogue of floats without scales")
	case (yScale == nil) != (yZero == nil):
		return fmt.Errorf("one of scale and zero point of the result")
	case yZero != nil && !is8Bit(yZero.Type.DType):
		return fmt.Errorf("results of %s", yZero.Type.DType)
	case yZero != nil && len(yZero.Type.Shape) != len(yScale.Type.Shape):
		return fmt.Errorf("scales %v and zero points %v of the result", yScale.Type, yZero.Type)
	}
	return nil
}

// checkTypes holds scales, zero points and bias to numbers, or columns of numbers, of the types that they must have.
func (o QMatMul) checkTypes(in []*Value, out Type) error {
	n := out.Shape[len(out.Shape)-1]
	scalar := func(i int, d tensor.DType) error {
		if v := Operand(in, i); v != nil && (len(v.Type.Shape) != 0 || v.Type.DType != d) {
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
	biasType, yType := out.DType, tensor.Invalid
	if bias := Operand(in, QMatMulBias); bias != nil && bias.Type.DType == tensor.I32 {
		biasType = tensor.I32
	}
	if zero := Operand(in, QMatMulYZero); zero != nil {
		yType = zero.Type.DType
	}
	return cmp.Or(
		scalar(QMatMulAZero, in[QMatMulA].Type.DType), scalar(QMatMulAScale, out.DType), columns(QMatMulYScale, out.DType),
		columns(QMatMulYZero, yType), columns(QMatMulBZero, in[QMatMulB].Type.DType), columns(QMatMulBScale, out.DType),
		columns(QMatMulBias, biasType),
	)
}

func (o QMatMul) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	in = append(append([]*tensor.Tensor{}, in...), make([]*tensor.Tensor, QMatMulSequences+1-len(in))...)
	if in[QMatMulSequences] != nil {
		return o.evalPacked(env, in)
	}
	if in[QMatMulA].DType() == tensor.F32 {
		q, err := DynamicQuantize{}.Eval(env, in[:1])
		if err != nil {
			return nil, err
		}
		in[QMatMulA], in[QMatMulAScale], in[QMatMulAZero] = q[0], q[1], q[2]
	}
	sums, err := MatMul{TransB: o.TransB}.Eval(env, []*tensor.Tensor{
		differences(env, in[QMatMulA], in[QMatMulAZero], false), differences(env, in[QMatMulB], in[QMatMulBZero], o.TransB)})
	if err != nil {
		return nil, err
	}
	sum := sums[0]
	n := sum.Shape()[sum.Rank()-1]
	bias, scale, yScale := in[QMatMulBias], in[QMatMulBScale], in[QMatMulYScale]
	if bias != nil && bias.DType() == tensor.I32 {
		for i := range env.Range(sum.Len()) {
			sum.SetInt64(i, sum.Int64(i)+bias.Int64(i%n))
		}
		bias = nil
	}
	if scale == nil {
		return sums, nil
	}
	act := func(x float64) float64 { return x }
	if fn := o.Act; fn != NoUnary {
		act = func(x float64) float64 { return unaryTable[fn].real(x, Unary{}) }
	}
	out := scale.DType()
	if yScale != nil {
		if err := checkScales(yScale); err != nil {
			return nil, err
		}
		out = in[QMatMulYZero].DType()
	}
	y := env.New(out, sum.Shape()...)
	for i := range env.Range(sum.Len()) {
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
			setQuantized(y, i, v/float32(yScale.Float64(k)), in[QMatMulYZero], k, false)
		} else {
			y.SetFloat64(i, float64(v))
		}
	}
	return []*tensor.Tensor{y}, nil
}

// differences is x − zero as i32, where zero is nil, one number, or one for each column (row when byRow) of matrices.
func differences(env *Env, x, zero *tensor.Tensor, byRow bool) *tensor.Tensor {
	y := env.New(tensor.I32, x.Shape()...)
	columns := x.Shape()[x.Rank()-1]
	for i := range env.Range(x.Len()) {
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

// evalPacked multiplies each sequence separately.
func (o QMatMul) evalPacked(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	a, residual := in[QMatMulA], in[QMatMulResidual]
	k := a.Shape()[a.Rank()-1]
	count := a.Shape()[:a.Rank()-1].Elements()
	sequences, err := sequencesOf(in[QMatMulSequences], count, count)
	if err != nil {
		return nil, err
	}
	part := func(x *tensor.Tensor, width, from, to int) *tensor.Tensor {
		y := env.New(x.DType(), to-from, width)
		copyRun(y, 0, x, from*width, (to-from)*width)
		return y
	}
	var y *tensor.Tensor
	for _, r := range append(sequences, [SequenceFields]int{}) { // the last for the type alone
		scale, zero := dynamicRange(tensor.Of[float32](part(a, k, r[2], r[3])))
		own := append([]*tensor.Tensor{}, in...)
		quantized := env.New(tensor.U8, r[1]-r[0], k)
		for i, v := range tensor.Of[float32](part(a, k, r[0], r[1])) {
			quantized.Bytes()[i] = quantizeDynamic(v, scale, zero)
		}
		own[QMatMulA], own[QMatMulSequences] = quantized, nil
		own[QMatMulAScale], own[QMatMulAZero] = tensor.Scalar(scale), tensor.Scalar(zero)
		n := in[QMatMulB].Shape()[1]
		if o.TransB {
			n = in[QMatMulB].Shape()[0]
		}
		if residual != nil {
			own[QMatMulResidual] = part(residual, n, r[0], r[1])
		}
		one, err := o.Eval(env, own)
		if err != nil {
			return nil, err
		}
		if y == nil {
			y = env.New(one[0].DType(), append(a.Shape()[:a.Rank()-1].Clone(), n)...)
		}
		copyRun(y, r[0]*n, one[0], 0, one[0].Len())
	}
	return []*tensor.Tensor{y}, nil
}
