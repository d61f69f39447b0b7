package ir

import (
	"fmt"

	"github.com/rlxc/rlxc/tensor"
)

// QLayerNorm is a LayerNorm of f32 whose result is quantised, and whose residual may be quantised values. Operands: those of LayerNorm,
// the residual as f32, or as u8 or i8 with its scale and zero point after it; then scale and zero point of the result. Scales
// are f32 scalars, a zero point may be nil for 0 but for the result's, whose type is that of the result. Result 0 is the quantised values;
// with Float, result 1 is the floats from which they were rounded.
type QLayerNorm struct {
	Axes  int
	Eps   float32
	RMS   bool
	Float bool
}

// The operand positions of QLayerNorm after those of LayerNorm.
const (
	QLayerNormResidualScale = LayerNormResidual + 1 + iota
	QLayerNormResidualZero
	QLayerNormYScale
	QLayerNormYZero
)

func (QLayerNorm) Kind() Kind { return KindQLayerNorm }

// norm is the op without roundings.
func (o QLayerNorm) norm() LayerNorm { return LayerNorm{Axes: o.Axes, Eps: o.Eps, RMS: o.RMS} }

func (o QLayerNorm) Infer(in []*Value) ([]Type, error) {
	floating := append([]*Value{}, in[:LayerNormResidual+1]...)
	residual, yZero := in[LayerNormResidual], Operand(in, QLayerNormYZero)
	if in[LayerNormX].Type.DType != tensor.F32 || Operand(in, QLayerNormYScale) == nil || yZero == nil || !is8Bit(yZero.Type.DType) {
		return nil, fmt.Errorf("a quantised norm of %v needs f32, a scale and a zero point of u8 or i8", in[LayerNormX].Type)
	}
	quantized := residual != nil && is8Bit(residual.Type.DType)
	if quantized != (in[QLayerNormResidualScale] != nil) || !quantized && in[QLayerNormResidualZero] != nil {
		return nil, fmt.Errorf("a quantised residual has a scale, one of floats has none")
	}
	if quantized {
		floating[LayerNormResidual] = &Value{Type: TensorOf(tensor.F32, residual.Type.Shape...)}
		if z := in[QLayerNormResidualZero]; z != nil && (len(z.Type.Shape) != 0 || z.Type.DType != residual.Type.DType) {
			return nil, fmt.Errorf("zero point %v for quantised values %v", z.Type, residual.Type)
		}
	}
	for _, i := range []int{QLayerNormResidualScale, QLayerNormYScale, QLayerNormYZero} {
		if v := in[i]; v != nil && (len(v.Type.Shape) != 0 || i != QLayerNormYZero && v.Type.DType != tensor.F32) {
			return nil, fmt.Errorf("operand %d is %v where one number is needed", i, v.Type)
		}
	}
	types, err := o.norm().Infer(floating)
	if err != nil {
		return nil, err
	}
	y := TensorOf(yZero.Type.DType, types[0].Shape...)
	if o.Float {
		return []Type{y, types[0]}, nil
	}
	return []Type{y}, nil
}

// Eval implements Op by the ops that a QLayerNorm replaces.
func (o QLayerNorm) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	floating := append([]*tensor.Tensor{}, in[:LayerNormResidual+1]...)
	if in[QLayerNormResidualScale] != nil {
		residual, err := Dequantize{To: tensor.F32}.Eval(env, in[LayerNormResidual:QLayerNormYScale])
		if err != nil {
			return nil, err
		}
		floating[LayerNormResidual] = residual[0]
	}
	y, err := o.norm().Eval(env, floating)
	if err != nil {
		return nil, err
	}
	quantized, err := Quantize{To: in[QLayerNormYZero].DType()}.Eval(env, []*tensor.Tensor{y[0], in[QLayerNormYScale], in[QLayerNormYZero]})
	if err != nil || !o.Float {
		return quantized, err
	}
	return []*tensor.Tensor{quantized[0], y[0]}, nil
}
