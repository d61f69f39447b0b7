package ir

import (
	"fmt"

	"github.com/rlxc/rlxc/tensor"
)

// QAttention is attention of quantised values: for each head softmax(q·kᵀ + mask)·v, whose probabilities are quantised before they are
// multiplied by v. Both products have exact int32 sums, as those of QMatMul.
//
// Operands: q [B,S,H,D], k [B,T,H,D] and v [B,T,H,E] of u8 or i8, any strided views; mask, f32 that broadcasts to [B,H,S,T], or nil; then
// pairs of a scale (f32) and a zero point, scalars: of q, of k and of v; of the scores, which are rounded to quantised values and back
// between mask and softmax if given; of the probabilities; and of the result [B,S,H,E], which is f32 without them. A factor of the scores
// is part of q's scale. Operand QAttentionSequences is AttentionSequences, and excludes a mask.
type QAttention struct{}

// The operand positions of QAttention. A zero point follows its scale.
const (
	QAttentionQ = iota
	QAttentionK
	QAttentionV
	QAttentionMask
	QAttentionQScale
	QAttentionQZero
	QAttentionKScale
	QAttentionKZero
	QAttentionVScale
	QAttentionVZero
	QAttentionScoreScale
	QAttentionScoreZero
	QAttentionProbScale
	QAttentionProbZero
	QAttentionYScale
	QAttentionYZero
	QAttentionSequences
)

func (QAttention) Kind() Kind { return KindQAttention }

func (QAttention) Infer(in []*Value) ([]Type, error) {
	floating := make([]*Value, QAttentionMask+1)
	for i := range floating {
		v := Operand(in, i)
		if v == nil {
			continue
		}
		if i != QAttentionMask && !is8Bit(v.Type.DType) || i == QAttentionMask && v.Type.DType != tensor.F32 {
			return nil, fmt.Errorf("quantised attention with operand %d of %s", i, v.Type.DType)
		}
		floating[i] = &Value{Type: TensorOf(tensor.F32, v.Type.Shape...)}
	}
	if rows := Operand(in, QAttentionSequences); rows != nil {
		if floating[QAttentionMask] != nil {
			return nil, fmt.Errorf("packed quantised attention takes no mask")
		}
		floating = append(floating, rows)
	}
	types, err := Attention{}.Infer(floating)
	if err != nil {
		return nil, err
	}
	if Same(in[QAttentionQ].Type.Shape[2], in[QAttentionK].Type.Shape[2]) == No {
		return nil, fmt.Errorf("%v heads of queries and %v of keys", in[QAttentionQ].Type.Shape[2], in[QAttentionK].Type.Shape[2])
	}
	for i := QAttentionQScale; i <= QAttentionYZero; i += 2 {
		scale, zero := Operand(in, i), Operand(in, i+1)
		needed := i != QAttentionScoreScale && i != QAttentionYScale
		if scale == nil && (zero != nil || needed) || scale != nil && zero == nil && !needed {
			return nil, fmt.Errorf("operands %d and %d: one of scale and zero point", i, i+1)
		}
		if scale != nil && (scale.Type.DType != tensor.F32 || len(scale.Type.Shape) != 0) {
			return nil, fmt.Errorf("scale %v where one f32 is needed", scale.Type)
		}
		if zero == nil {
			continue
		}
		if !is8Bit(zero.Type.DType) || len(zero.Type.Shape) != 0 {
			return nil, fmt.Errorf("zero point %v where one quantised value is needed", zero.Type)
		}
		if of := (i - QAttentionQScale) / 2; of <= QAttentionV && zero.Type.DType != in[of].Type.DType {
			return nil, fmt.Errorf("zero point %v for quantised values %v", zero.Type, in[of].Type)
		}
	}
	if y := Operand(in, QAttentionYZero); y != nil {
		types[0].DType = y.Type.DType
	}
	return types, nil
}

// ProbType is the type of the probabilities' quantised values.
func (QAttention) ProbType(in []*Value) tensor.DType {
	if zero := Operand(in, QAttentionProbZero); zero != nil {
		return zero.Type.DType
	}
	return tensor.U8
}

// Eval implements Op by the ops that a QAttention replaces.
func (o QAttention) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if rows := Operand(in, QAttentionSequences); rows != nil {
		return o.evalPacked(env, in, rows)
	}
	in = append(append([]*tensor.Tensor{}, in...), make([]*tensor.Tensor, QAttentionYZero+1-len(in))...)
	var failed error
	eval := func(op Op, args ...*tensor.Tensor) *tensor.Tensor {
		if failed != nil {
			return nil
		}
		out, err := op.Eval(env, args)
		if failed = err; err != nil {
			return nil
		}
		return out[0]
	}
	heads := func(x *tensor.Tensor) *tensor.Tensor { return eval(Transpose{Perm: []int{0, 2, 1, 3}}, x) }
	rounded := func(x *tensor.Tensor, at int) *tensor.Tensor {
		to := tensor.U8
		if in[at+1] != nil {
			to = in[at+1].DType()
		}
		return eval(Quantize{To: to}, x, in[at], in[at+1])
	}
	scores := eval(QMatMul{TransB: true}, heads(in[QAttentionQ]), heads(in[QAttentionK]), in[QAttentionQZero], in[QAttentionKZero],
		in[QAttentionQScale], in[QAttentionKScale])
	if in[QAttentionMask] != nil {
		scores = eval(Binary{Fn: Add}, scores, in[QAttentionMask])
	}
	if in[QAttentionScoreScale] != nil {
		scores = eval(Dequantize{To: tensor.F32}, rounded(scores, QAttentionScoreScale), in[QAttentionScoreScale], in[QAttentionScoreZero])
	}
	probs := rounded(eval(Softmax{Axis: 3}, scores), QAttentionProbScale)
	y := eval(QMatMul{}, probs, heads(in[QAttentionV]), in[QAttentionProbZero], in[QAttentionVZero], in[QAttentionProbScale],
		in[QAttentionVScale], nil, nil, in[QAttentionYScale], in[QAttentionYZero])
	return []*tensor.Tensor{heads(y)}, failed
}

// evalPacked is attention within each row; queries without keys give 0.
func (o QAttention) evalPacked(env *Env, in []*tensor.Tensor, rows *tensor.Tensor) ([]*tensor.Tensor, error) {
	q, k, v := in[QAttentionQ], in[QAttentionK], in[QAttentionV]
	sequences, err := sequencesOf(rows, q.Shape()[1], k.Shape()[1])
	if err != nil {
		return nil, err
	}
	y := env.New(tensor.F32, append(q.Shape()[:3].Clone(), v.Shape()[3])...)
	if zero := in[QAttentionYZero]; zero != nil {
		y = env.New(zero.DType(), y.Shape()...)
		for i := range y.Len() {
			y.SetInt64(i, zero.Int64(0))
		}
	}
	for _, sequence := range sequences {
		if sequence[0] == sequence[1] || sequence[2] == sequence[3] {
			continue
		}
		args := append([]*tensor.Tensor{}, in[:QAttentionSequences]...)
		args[QAttentionQ] = tokensOf(env, q, sequence[0], sequence[1])
		args[QAttentionK], args[QAttentionV] = tokensOf(env, k, sequence[2], sequence[3]), tokensOf(env, v, sequence[2], sequence[3])
		one, err := o.Eval(env, args)
		if err != nil {
			return nil, err
		}
		copyRun(y, sequence[0]*y.Shape()[2:].Elements(), one[0], 0, one[0].Len())
	}
	return []*tensor.Tensor{y}, nil
}
