package rewrite

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// quantNormRules let norms return quantised values, and add them. They run when norms have taken their residuals.
func quantNormRules() []*Rule {
	x, scale, bias, residual, by, zero := value(), value(), value(), value(), value(), value()
	norm := with(node[ir.LayerNorm](x, optional(scale), optional(bias), optional(residual)),
		func(o ir.LayerNorm) bool { return !o.Sum }).replaced()
	quantised := node[ir.Quantize](norm, by, optional(zero))
	quantizes := node[ir.QLayerNorm](x, optional(scale), optional(bias), residual).rest().when("a residual that may be quantised",
		func(_ *match, v *ir.Value) bool {
			return at(v, ir.QLayerNormResidualScale) == nil
		})
	return []*Rule{
		{Name: "qlayernorm", changes: Rounding, pattern: quantised, near: 2, build: func(m *match) *ir.Value {
			quantized := m.root.Outputs[0].Type.DType
			if !perTensor[ir.Quantize](m.root.Outputs[0]) || !is8Bit(quantized) {
				return m.refuse("its quantised values are %s, or have many scales", quantized)
			}
			yZero := m.get(zero)
			if yZero == nil {
				yZero = m.e.constant("", tensor.New(quantized))
			}
			old := m.get(norm)
			o := opOf[ir.LayerNorm](m, norm)
			q := ir.QLayerNorm{Axes: o.Axes, Eps: o.Eps, RMS: o.RMS, Float: len(old.Uses) > 1 || m.e.outputs[old]}
			y := m.emit(q, m.get(x), m.get(scale), m.get(bias), m.get(residual), nil, nil, m.get(by), yZero)
			if q.Float {
				m.replace(old, y.Def.Outputs[1])
			}
			return y
		}},
		{Name: "qlayernorm.residual", changes: Rounding, pattern: quantizes, build: func(m *match) *ir.Value {
			in := slices.Clone(m.root.Inputs)
			if isDequantized(in[ir.LayerNormX]) && !isDequantized(in[ir.LayerNormResidual]) {
				in[ir.LayerNormX], in[ir.LayerNormResidual] = in[ir.LayerNormResidual], in[ir.LayerNormX]
			}
			from := in[ir.LayerNormResidual]
			if !perTensor[ir.Dequantize](from) || !is8Bit(at(from, 0).Type.DType) {
				return nil
			}
			in[ir.LayerNormResidual], in[ir.QLayerNormResidualScale], in[ir.QLayerNormResidualZero] = at(from, 0), at(from, 1), at(from, 2)
			y := m.emit(m.root.Op, in...)
			if m.root.Op.(ir.QLayerNorm).Float {
				m.replace(m.root.Outputs[1], y.Def.Outputs[1])
			}
			return y
		}},
	}
}
