package ir

import (
	"fmt"

	"github.com/rlxc/rlxc/tensor"
)

// QEmbedding is an Embedding whose tables may be quantized: rows are gathered, then dequantised. Operands: scale and bias of
// the norm, or nil, and then in fours a table, f32 or u8 or i8, and its index, as those of Embedding; the scale of a table of
// quantised values, f32, one number or one for each column, and its zero point of the same shape, or nil for 0.
type QEmbedding struct {
	Eps float32
	RMS bool
}

func (QEmbedding) Kind() Kind { return KindQEmbedding }

func (o QEmbedding) Infer(in []*Value) ([]Type, error) {
	if len(in) < EmbeddingTable+2 {
		return nil, fmt.Errorf("embedding of %d operands", len(in))
	}
	floating := append([]*Value{}, in[:EmbeddingTable]...)
	for i := EmbeddingTable; i < len(in); i += 4 {
		table, scale, zero := in[i], Operand(in, i+2), Operand(in, i+3)
		if table == nil {
			return nil, fmt.Errorf("operand %d is not a table", i)
		}
		quantized := is8Bit(table.Type.DType)
		if quantized != (scale != nil) || scale == nil && zero != nil {
			return nil, fmt.Errorf("table %v: quantised values have a scale, floats have none", table.Type)
		}
		if quantized {
			d := Dequantize{To: tensor.F32, Axis: 1}
			types, err := d.Infer([]*Value{table, scale, zero})
			if err != nil {
				return nil, err
			}
			table = &Value{Type: types[0]}
		}
		floating = append(floating, table, Operand(in, i+1))
	}
	return Embedding(o).Infer(floating)
}

func (o QEmbedding) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	floating := append([]*tensor.Tensor{}, in[:EmbeddingTable]...)
	for i := EmbeddingTable; i < len(in); i += 4 {
		table := in[i]
		if scale := Operand(in, i+2); scale != nil {
			wide, err := Dequantize{To: tensor.F32, Axis: 1}.Eval(env, []*tensor.Tensor{table, scale, Operand(in, i+3)})
			if err != nil {
				return nil, err
			}
			table = wide[0]
		}
		floating = append(floating, table, Operand(in, i+1))
	}
	return Embedding(o).Eval(env, floating)
}
