package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// qAttentionCase is one quantised attention with all its operands.
type qAttentionCase struct {
	QAttentionShape
	args    QAttentionArgs
	out     *guarded
	what    string
	outRow  int
	perByte bool // the result is quantised
}

func newQAttentionCase(r *rand.Rand, shape QAttentionShape) *qAttentionCase {
	c := &qAttentionCase{QAttentionShape: shape, perByte: r.IntN(2) == 0}
	heads := func(length, size int) QuantizedHeads {
		h := QuantizedHeads{Zero: r.Int32N(40) + 100, Signed: r.IntN(2) == 0}
		row := shape.Heads*size + 4*r.IntN(2)
		h.Stride = AttentionStride{Batch: length * row, Head: size, Seq: row}
		h.Quantized = operand[byte](max(0, (shape.Batch*length-1)*row+shape.Heads*size))
		if h.Signed {
			h.Zero -= 128
		}
		for i := range h.Quantized {
			h.Quantized[i] = byte(r.Uint32())
		}
		return h
	}
	a := &c.args
	a.Q, a.K, a.V = heads(shape.Queries, shape.Size), heads(shape.Keys, shape.Size), heads(shape.Keys, shape.ValueSize)
	a.Scale, a.VScale = 4/(128*128*float32(shape.Size)), 1.0/128
	a.Probs = Quantized{Scale: 1.0 / 255, Zero: r.Int32N(2)}
	switch r.IntN(3) {
	case 0:
		a.MaskStride = MaskStride{Batch: shape.Keys, Key: 1}
		a.Mask = random(r, shape.Batch*shape.Keys).inner
	case 1:
		a.MaskStride = MaskStride{Head: shape.Queries * shape.Keys, Query: shape.Keys, Key: 1}
		a.Mask = random(r, shape.Heads*shape.Queries*shape.Keys).inner
	}
	if r.IntN(2) == 0 {
		a.Scores = Quantized{Scale: 0.05, Zero: 100, Signed: r.IntN(2) == 0}
	}
	c.outRow = shape.Heads*shape.ValueSize + 3
	a.OutStride = AttentionStride{Batch: shape.Queries * c.outRow, Head: shape.ValueSize, Seq: c.outRow}
	c.out = newGuarded(shape.Batch*shape.Queries*c.outRow, r.IntN(16))
	a.Out = c.out.inner
	if c.perByte {
		a.Quantized = Quantized{Dst: bytesOfFloats(c.out.inner), Scale: 1.0 / 128, Zero: 0, Signed: true}
	}
	c.what = fmt.Sprintf("%+v, q %v, k %v, v %v, mask %v, scores %v, quantised values %v", shape, a.Q.Signed, a.K.Signed, a.V.Signed,
		a.MaskStride, a.Scores, c.perByte)
	return c
}

// q reads an element of a head as the number without its zero point.
func (h *QuantizedHeads) q(batch, head, position, i int) float64 {
	b := h.at(batch, head, position)[i]
	if h.Signed {
		return float64(int8(b)) - float64(h.Zero)
	}
	return float64(b) - float64(h.Zero)
}

// want computes the results of a query by the formula.
func (c *qAttentionCase) want(batch, head, query int) []float64 {
	a := &c.args
	scores := make([]float64, c.Keys)
	highest := math.Inf(-1)
	for t := range scores {
		for i := range c.Size {
			scores[t] += a.Q.q(batch, head, query, i) * a.K.q(batch, head, t, i)
		}
		scores[t] *= float64(a.Scale)
		if a.Mask != nil {
			scores[t] += float64(a.Mask[batch*a.MaskStride.Batch+head*a.MaskStride.Head+query*a.MaskStride.Query+t*a.MaskStride.Key])
		}
		if s := a.Scores; s.Scale != 0 {
			lo, hi := 0.0, 255.0
			if s.Signed {
				lo, hi = -128, 127
			}
			q := quantizeFloat64(float32(scores[t]), s.Scale, lo, hi, float64(s.Zero))
			scores[t] = float64(float32(q-int(s.Zero)) * s.Scale)
		}
		highest = max(highest, scores[t])
	}
	sum := 0.0
	for t, s := range scores {
		scores[t] = math.Exp(s - highest)
		sum += scores[t]
	}
	out := make([]float64, c.ValueSize)
	for t, e := range scores {
		p := min(max(math.RoundToEven(e/sum/float64(a.Probs.Scale))+float64(a.Probs.Zero), 0), 255) - float64(a.Probs.Zero)
		for i := range out {
			out[i] += p * a.V.q(batch, head, t, i) * float64(a.Probs.Scale*a.VScale)
		}
	}
	return out
}

// TestQAttention compares with the formula. A score or a probability that is next to the middle between two quantised
// values may fall to either side, which moves a result by a step of one key: few results may do so.
func TestQAttention(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		off, all := 0, 0
		for _, queries := range []int{1, s.gemmS8.rows + 1, blockRows + 9} {
			for _, keys := range []int{1, 3, 16, 49, 130} {
				for _, size := range []int{4, 32} {
					c := newQAttentionCase(r, QAttentionShape{Batch: 2, Heads: 3, Queries: queries, Keys: keys, Size: size,
						ValueSize: size - 1})
					plan := s.NewQAttention(c.QAttentionShape)
					scratch := newGuarded(plan.ScratchBytes()/4, 0)
					for p := range plan.Parts() {
						plan.Run(p, &c.args, bytesOfFloats(scratch.inner))
					}
					scratch.check(t, c.what)
					c.out.check(t, c.what)
					for batch := range c.Batch {
						for head := range c.Heads {
							for query := range queries {
								if query >= 10 && query < queries-10 {
									continue
								}
								for i, want := range c.want(batch, head, query) {
									at := (batch*queries+query)*c.outRow + head*c.ValueSize + i
									got, near := float64(c.args.Out[min(at, len(c.args.Out)-1)]), 1e-5
									if c.perByte {
										got, near = float64(int8(c.args.Quantized.Dst[at]))/128, 0.5/128+1e-5
										want = min(max(want, -1), 127.0/128)
									}
									all++
									if math.Abs(got-want) > near {
										off++
										require.InDelta(t, want, got, near+0.1, "%s at %d %d %d %d", c.what, batch, head, query, i)
									}
								}
							}
						}
					}
				}
			}
		}
		require.Less(t, off, all/100, "of %d", all)
	})
}
