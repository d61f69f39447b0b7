package ops

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// The operands of DynamicQuantizeLSTM after those of LSTM: scales and zero points of the weights, one for each direction, or for each
// of its 4·H columns.
const (
	QuantizedLSTMWScale = RecurrentP + 1 + iota
	QuantizedLSTMWZero
	QuantizedLSTMRScale
	QuantizedLSTMRZero
)

// DynamicQuantizeLSTM is an LSTM with weights of 8 bits, [D, I, 4·H] and [D, H, 4·H]. It rounds the inputs, all steps and sequences
// together, and the states of each step to 8 bits as DynamicQuantizeLinear does, before products take them.
type DynamicQuantizeLSTM struct {
	ir.Opaque[DynamicQuantizeLSTM]
	LSTM
}

// quantizedWeights are the operands that make W and those that make R.
var quantizedWeights = [...][3]int{{RecurrentW, QuantizedLSTMWScale, QuantizedLSTMWZero},
	{RecurrentR, QuantizedLSTMRScale, QuantizedLSTMRZero}}

func (o DynamicQuantizeLSTM) Infer(in []*ir.Value) ([]ir.Type, error) {
	plain := make([]*ir.Value, RecurrentP+1)
	copy(plain, in)
	for _, operands := range quantizedWeights {
		at := operands[0]
		w, scale, zero := ir.Operand(in, at), ir.Operand(in, operands[1]), ir.Operand(in, operands[2])
		if w == nil || scale == nil || zero == nil {
			return nil, fmt.Errorf("weights %s without values, a scale or a zero point", recurrentNames[at])
		}
		if d := w.Type.DType; d != tensor.I8 && d != tensor.U8 || zero.Type.DType != d || scale.Type.DType != tensor.F32 || rank(w) != 3 {
			return nil, fmt.Errorf("weights %s: %v with scales %v and zero points %v", recurrentNames[at], w.Type, scale.Type, zero.Type)
		}
		s := w.Type.Shape
		for _, v := range []*ir.Value{scale, zero} {
			if n := rank(v); n != 1 && n != 2 || ir.Same(v.Type.Shape[0], s[0]) == ir.No || n == 2 &&
				ir.Same(v.Type.Shape[1], s[2]) == ir.No {
				return nil, fmt.Errorf("weights %s, %v, have scales or zero points %v: one for each direction or for each of its "+
					"columns is needed", recurrentNames[at], w.Type, v.Type)
			}
		}
		plain[at] = &ir.Value{Type: ir.TensorOf(tensor.F32, s[0], s[2], s[1])}
	}
	return o.LSTM.Infer(plain)
}

func (o DynamicQuantizeLSTM) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	plain := slices.Clone(in[:RecurrentP+1])
	for _, operands := range quantizedWeights {
		w, err := dequantizedTransposed(env, in[operands[0]], in[operands[1]], in[operands[2]])
		if err != nil {
			return nil, fmt.Errorf("weights %s: %w", recurrentNames[operands[0]], err)
		}
		plain[operands[0]] = w
	}
	return o.eval(env, o.LSTM, plain, 4, LSTMDefaults, (*recurrence).lstm, false, o.InputForget, true)
}

// dequantizedTransposed is the float32 matrices that the bytes [D, K, N] stand for, each transposed.
func dequantizedTransposed(env *ir.Env, w, scale, zero *tensor.Tensor) (*tensor.Tensor, error) {
	s := w.Shape()
	directions, k, n := s[0], s[1], s[2]
	for _, t := range []*tensor.Tensor{scale, zero} {
		if t.Len() != directions && t.Len() != directions*n {
			return nil, fmt.Errorf("%v with scales or zero points %v", w, t)
		}
	}
	// of is where the number of a column is.
	of := func(t *tensor.Tensor, d, c int) int {
		if t.Len() == directions {
			return d
		}
		return d*n + c
	}
	env.Work(w.Len())
	out := env.New(tensor.F32, directions, n, k)
	to := tensor.Of[float32](out)
	for d := range directions {
		for c := range n {
			z, f := zero.Int64(of(zero, d, c)), float32(scale.Float64(of(scale, d, c)))
			for i := range k {
				to[(d*n+c)*k+i] = float32(w.Int64((d*k+i)*n+c)-z) * f
			}
		}
	}
	return out, nil
}
