package ir

import (
	"fmt"

	"github.com/rlxc/rlxc/tensor"
)

// Embedding is the normalised sum of table rows: y[b…,s] = LayerNorm(Σ tableᵢ[indexᵢ[b…,s]]) over the last axis, or RMSNorm.
// Operands: scale [H] and bias [H] of the norm, or nil, and then pairs of a table [V,H] and its index (i32 or i64, all of
// one shape [B…,S]; negative indices count from the end). A table without an index adds row s at position s, or its only
// row to all. The first table has an index. An index outside is a run-time error.
type Embedding struct {
	Eps float32
	RMS bool
}

// The operand positions of Embedding; from EmbeddingTable on tables and indices alternate.
const (
	EmbeddingScale = iota
	EmbeddingBias
	EmbeddingTable
	EmbeddingIndex
)

func (Embedding) Kind() Kind { return KindEmbedding }

func (o Embedding) Infer(in []*Value) ([]Type, error) {
	if len(in) < EmbeddingIndex+1 || len(in)%2 != 0 || in[EmbeddingTable] == nil || in[EmbeddingIndex] == nil {
		return nil, fmt.Errorf("embedding of %d operands: scale, bias and pairs of table and index are needed", len(in))
	}
	first, index := in[EmbeddingTable].Type, in[EmbeddingIndex].Type
	if !first.DType.IsFloat() || len(first.Shape) != 2 || len(index.Shape) == 0 {
		return nil, fmt.Errorf("embedding of table %v by %v", first, index)
	}
	width := first.Shape[1]
	for _, v := range in[:EmbeddingTable] {
		if v != nil && (v.Type.DType != first.DType || len(v.Type.Shape) != 1 || Same(v.Type.Shape[0], width) == No) {
			return nil, fmt.Errorf("a norm's operand %v beside table %v", v.Type, first)
		}
	}
	for i := EmbeddingTable; i < len(in); i += 2 {
		table, by := in[i], in[i+1]
		if table == nil || table.Type.DType != first.DType || len(table.Type.Shape) != 2 || Same(table.Type.Shape[1], width) == No {
			return nil, fmt.Errorf("operand %d is not a table beside %v", i, first)
		}
		if by == nil {
			rows := table.Type.Shape[0]
			if positions := index.Shape[len(index.Shape)-1]; Same(rows, N(1)) == No && LessEqual(positions, rows) == No {
				return nil, tooFewPositions(table, positions)
			}
			continue
		}
		if err := indexOperand(by.Type); err != nil {
			return nil, err
		}
		if len(by.Type.Shape) != len(index.Shape) {
			return nil, fmt.Errorf("indices %v and %v differ", index, by.Type)
		}
		for k, d := range by.Type.Shape {
			if Same(d, index.Shape[k]) == No {
				return nil, fmt.Errorf("indices %v and %v differ", index, by.Type)
			}
		}
	}
	return []Type{TensorOf(first.DType, append(append(Shape{}, index.Shape...), width)...)}, nil
}

func (o Embedding) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	first, index := in[EmbeddingTable], in[EmbeddingIndex]
	width, positions := first.Shape()[1], index.Shape()[index.Rank()-1]
	x := env.New(tensor.F64, append(index.Shape().Clone(), width)...)
	sum := tensor.Of[float64](x)
	for i := EmbeddingTable; i < len(in); i += 2 {
		table := in[i]
		rows := table.Shape()[0]
		for t := range env.Range(index.Len()) {
			row := 0
			switch {
			case in[i+1] != nil:
				var err error
				if row, err = fromStart(in[i+1].Int64(t), rows); err != nil {
					return nil, err
				}
			case rows != 1:
				row = t % positions
			}
			env.Work(width)
			for k := range width {
				sum[t*width+k] += table.Float64(row*width + k)
			}
		}
	}
	norm, err := LayerNorm{Axes: 1, Eps: o.Eps, RMS: o.RMS}.Eval(env, []*tensor.Tensor{x, in[EmbeddingScale], in[EmbeddingBias]})
	if err != nil {
		return nil, err
	}
	y := env.New(first.DType(), x.Shape()...)
	for i := range env.Range(y.Len()) {
		y.SetFloat64(i, norm[0].Float64(i))
	}
	return []*tensor.Tensor{y}, nil
}
