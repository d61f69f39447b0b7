package ir

import (
	"fmt"
	"math"

	"github.com/rlxc/rlxc/tensor"
)

// inferPacked checks the operands of packed attention.
func (o Attention) inferPacked(in []*Value) error {
	q, k := in[AttentionQ].Type, in[AttentionK].Type
	t := in[AttentionSequences].Type
	if t.DType != tensor.I32 || len(t.Shape) != 2 || Same(t.Shape[1], N(SequenceFields)) == No || Same(q.Shape[0], N(1)) == No {
		return fmt.Errorf("sequences %v for attention of %v: want i32[R,4], and one batch", t, q)
	}
	mask, positions := Operand(in, AttentionMask), Operand(in, AttentionPositions)
	if p := positions; p != nil && (p.Type.DType != tensor.I64 || len(p.Type.Shape) != 2 || Same(p.Type.Shape[0], N(1)) == No ||
		Same(p.Type.Shape[1], k.Shape[1]) == No) {
		return fmt.Errorf("positions %v for keys %v: i64[1,T] is needed", p.Type, k)
	}
	for at := AttentionQueryScores; at <= AttentionKeyScores; at += 2 {
		if err := inferRelative(in, at); err != nil {
			return err
		}
	}
	switch {
	case o.Offset:
		return fmt.Errorf("packed attention takes no offset")
	case positions == nil && (mask != nil || o.ByQuery(in)):
		return fmt.Errorf("packed attention needs positions for a mask and bounds")
	case o.ByQuery(in) && Same(q.Shape[1], k.Shape[1]) == No:
		return fmt.Errorf("%v queries have no positions beside %v keys", q.Shape[1], k.Shape[1])
	}
	return nil
}

// inferRelative checks the scores by relative position that operand at begins.
func inferRelative(in []*Value, at int) error {
	scores, index, q := Operand(in, at), Operand(in, at+1), in[AttentionQ].Type
	if scores == nil && index == nil {
		return nil
	}
	if scores == nil || index == nil {
		return fmt.Errorf("operands %d and %d: one of scores and indices", at, at+1)
	}
	s, i := scores.Type, index.Type
	if s.DType != q.DType || len(s.Shape) != 4 || Same(s.Shape[0], N(1)) == No || Same(s.Shape[1], q.Shape[2]) == No ||
		Same(s.Shape[2], q.Shape[1]) == No {
		return fmt.Errorf("scores %v by relative position for queries %v: [1,H,S,N] is needed", s, q)
	}
	if i.DType != tensor.I64 || len(i.Shape) != 2 || Same(i.Shape[0], i.Shape[1]) == No {
		return fmt.Errorf("indices %v of relative positions: i64[P,P] is needed", i)
	}
	return nil
}

// ByQuery reports whether bounds, a mask or scores by relative position distinguish the queries of packed attention.
func (o Attention) ByQuery(in []*Value) bool {
	if o.Causal || o.Window != 0 || Operand(in, AttentionQueryScores) != nil || Operand(in, AttentionKeyScores) != nil {
		return true
	}
	mask := Operand(in, AttentionMask)
	if mask == nil {
		return false
	}
	s := mask.Type.Shape
	return len(s) > 1 && !s[len(s)-2].Is(1)
}

// relativeScore is what the scores by relative position that operand at begins add for a head, the token that has the scores, at its
// position, and another position.
func relativeScore(in []*tensor.Tensor, at, head, token, own, other int) (float64, error) {
	scores, index := Operand(in, at), Operand(in, at+1)
	if scores == nil {
		return 0, nil
	}
	if size := index.Shape()[0]; own < 0 || own >= size || other < 0 || other >= size {
		return 0, fmt.Errorf("positions %d and %d of indices %v", own, other, index.Shape())
	}
	n := scores.Shape()[3]
	i := int(index.Int64(own*index.Shape()[0] + other))
	if i < -n || i >= n {
		return 0, fmt.Errorf("index %d of %d scores by relative position", i, n)
	}
	if i < 0 {
		i += n
	}
	return scores.Float64((head*scores.Shape()[2]+token)*n + i), nil
}

// evalPacked is attention within each sequence.
func (o Attention) evalPacked(env *Env, in []*tensor.Tensor, listed *tensor.Tensor) ([]*tensor.Tensor, error) {
	q, k, v := in[AttentionQ], in[AttentionK], in[AttentionV]
	sequences, err := sequencesOf(listed, q.Shape()[1], k.Shape()[1])
	if err != nil {
		return nil, err
	}
	y := env.New(q.DType(), append(q.Shape()[:3].Clone(), v.Shape()[3])...)
	one := o // bounds go into the mask
	one.NaNGuard, one.Causal, one.Window = true, false, 0
	for r, sequence := range sequences {
		args := []*tensor.Tensor{tokensOf(env, q, sequence[0], sequence[1]), tokensOf(env, k, sequence[2], sequence[3]),
			tokensOf(env, v, sequence[2], sequence[3]), nil}
		if Operand(in, AttentionPositions) != nil {
			if args[AttentionMask], err = o.maskOfSequence(env, in, r, sequence); err != nil {
				return nil, fmt.Errorf("sequence %d: %w", r, err)
			}
		}
		result, err := one.Eval(env, args)
		if err != nil {
			return nil, err
		}
		copyRun(y, sequence[0]*y.Shape()[2:].Elements(), result[0], 0, result[0].Len())
	}
	return []*tensor.Tensor{y}, nil
}

// tokensOf are some tokens of x [1,T,…].
func tokensOf(env *Env, x *tensor.Tensor, from, to int) *tensor.Tensor {
	return CopyStrided(env, x, append(tensor.Shape{1, to - from}, x.Shape()[2:]...), x.Shape().Strides(), from*x.Shape()[2:].Elements())
}

// maskOfSequence is what mask, bounds and relative positions add to the scores [1,H,queries,keys] of sequence r.
func (o Attention) maskOfSequence(env *Env, in []*tensor.Tensor, r int, sequence [SequenceFields]int) (*tensor.Tensor, error) {
	mask, positions, heads := Operand(in, AttentionMask), in[AttentionPositions], in[AttentionQ].Shape()[2]
	queries, keys := sequence[1]-sequence[0], sequence[3]-sequence[2]
	y := env.New(tensor.F32, 1, heads, queries, keys)
	var at func(int) int
	var shape tensor.Shape
	if mask != nil {
		shape = tensor.Shape{in[AttentionSequences].Shape()[0], heads, 1, 1}
		copy(shape[4-min(2, mask.Rank()):], mask.Shape()[max(0, mask.Rank()-2):])
		at = broadcastIndex(mask.Shape(), shape)
	}
	for i := range queries {
		for j := range keys {
			s, t := 0, int(positions.Int64(sequence[2]+j))
			if in[AttentionQ].Shape()[1] == in[AttentionK].Shape()[1] {
				s = int(positions.Int64(sequence[0] + i))
			}
			for h := range heads {
				x := 0.0
				if !o.sees(s, t, 0, 0) {
					x = math.Inf(-1)
				}
				if mask != nil {
					a, b := s, t
					if shape[2] == 1 {
						a = 0
					}
					if shape[3] == 1 {
						b = 0
					}
					if a < 0 || a >= shape[2] || b < 0 || b >= shape[3] {
						return nil, fmt.Errorf("positions %d and %d of a mask %v", s, t, mask.Shape())
					}
					m := mask.Float64(at(((r*heads+h)*shape[2]+a)*shape[3] + b))
					if mask.DType() == tensor.Bool {
						m = math.Log(m) // 0 or −∞
					}
					x += m
				}
				byQuery, err := relativeScore(in, AttentionQueryScores, h, sequence[0]+i, s, t)
				if err != nil {
					return nil, err
				}
				byKey, err := relativeScore(in, AttentionKeyScores, h, sequence[2]+j, t, s)
				if err != nil {
					return nil, err
				}
				x += byQuery + byKey
				y.SetFloat64((h*queries+i)*keys+j, x)
			}
		}
	}
	return y, nil
}
