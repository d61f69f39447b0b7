package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// attentionCase is one attention of a test: q, k and v packed in one tensor [batch, seq, 3 parts, heads, size] if all
// sizes agree, in separate tensors else.
type attentionCase struct {
	AttentionShape
	args AttentionArgs
	out  *guarded
	what string
	// overQueries moves the operands to other memory, of which Out is that of Q.
	overQueries func(args *AttentionArgs) (memory *guarded)
}

func strideOf(heads, size, gap int, seq int) AttentionStride {
	row := heads*size + gap
	return AttentionStride{Batch: seq * row, Head: size, Seq: row}
}

// newAttentionCase takes numbers of few digits, so that scores are exact: added to -10000 they would round either way else.
func newAttentionCase(r *rand.Rand, shape AttentionShape) *attentionCase {
	c := &attentionCase{AttentionShape: shape}
	a := &c.args
	a.Scale = 0.25
	random := func(r *rand.Rand, n int) *guarded {
		x := random(r, n)
		for i, v := range x.inner {
			x.inner[i] = float32(math.Round(64*float64(v))) / 64
		}
		return x
	}
	if shape.Heads == shape.KVHeads && shape.Size == shape.ValueSize && shape.Queries == shape.Keys {
		a.QStride = strideOf(shape.Heads, shape.Size, 2*shape.Heads*shape.Size, shape.Queries)
		packed := random(r, shape.Batch*a.QStride.Batch).inner
		a.Q, a.K, a.V = packed, packed[min(len(packed), shape.Heads*shape.Size):], packed[min(len(packed), 2*shape.Heads*shape.Size):]
		a.KStride, a.VStride = a.QStride, a.QStride
		c.overQueries = func(args *AttentionArgs) *guarded {
			g := newGuarded(len(args.Q), 0)
			copy(g.inner, args.Q)
			args.Q, args.K, args.V = g.inner, g.inner[len(args.Q)-len(args.K):], g.inner[len(args.Q)-len(args.V):]
			return g
		}
	} else {
		a.QStride = strideOf(shape.Heads, shape.Size, 3, shape.Queries)
		a.KStride = strideOf(shape.KVHeads, shape.Size, 0, shape.Keys)
		a.VStride = AttentionStride{Batch: shape.KVHeads * shape.Keys * shape.ValueSize, Head: shape.Keys * shape.ValueSize,
			Seq: shape.ValueSize}
		a.Q, a.K, a.V = random(r, shape.Batch*a.QStride.Batch).inner, random(r, shape.Batch*a.KStride.Batch).inner,
			random(r, shape.Batch*a.VStride.Batch).inner
		c.overQueries = func(args *AttentionArgs) *guarded {
			g := newGuarded(len(args.Q), 0)
			copy(g.inner, args.Q)
			args.Q = g.inner
			return g
		}
	}
	a.OutStride = strideOf(shape.Heads, shape.ValueSize, 1, shape.Queries)
	c.out = newGuarded(shape.Batch*a.OutStride.Batch, 0)
	a.Out = c.out.inner
	return c
}

// scores returns the row of scores of one query, by the formula.
func (c *attentionCase) scores(b, h, i int) []float32 {
	a := &c.args
	kv := h / (c.Heads / c.KVHeads)
	row := make([]float32, c.Keys)
	for j := range row {
		var sum float64
		for d := range c.Size {
			q := a.Q[b*a.QStride.Batch+h*a.QStride.Head+i*a.QStride.Seq+d]
			k := a.K[b*a.KStride.Batch+kv*a.KStride.Head+j*a.KStride.Seq+d]
			sum += float64(q) * float64(k)
		}
		score := sum * float64(a.Scale)
		if a.Softcap != 0 {
			score = float64(a.Softcap) * math.Tanh(score/float64(a.Softcap))
		}
		row[j] = float32(score)
		if a.Bias != nil {
			row[j] += a.Bias[b*a.BiasStride.Batch+h*a.BiasStride.Head+i*a.BiasStride.Query+j*a.BiasStride.Key]
		}
		if a.Mask != nil && a.Mask[b*a.MaskStride.Batch+h*a.MaskStride.Head+i*a.MaskStride.Query+j*a.MaskStride.Key] == 0 {
			row[j] = negInf
		}
		if w := a.Window; w != nil && (w.Left >= 0 && j < i+w.Offset-w.Left || w.Right >= 0 && j > i+w.Offset+w.Right) {
			row[j] = negInf
		}
	}
	return row
}

func (c *attentionCase) test(t *testing.T, plan *Attention, tolerance float64) {
	t.Helper()
	a := &c.args
	scratch := newGuarded(plan.ScratchBytes()/4, 0)
	for part := range plan.Parts() {
		for i := range scratch.inner {
			scratch.inner[i] = float32(math.NaN()) // nothing may be read before it is written
		}
		plan.Run(part, a, bytesOfFloats(scratch.inner))
	}
	scratch.check(t, c.what)
	c.out.checkGaps(t, c.what, c.Heads*c.ValueSize+1, c.Heads*c.ValueSize)
	for b := range c.Batch {
		for h := range c.Heads {
			kv := h / (c.Heads / c.KVHeads)
			for i := range c.Queries {
				weights := softmaxFloat64(c.scores(b, h, i))
				if a.NaNGuard && c.Keys > 0 && math.IsNaN(weights[0]) {
					clear(weights)
				}
				for d := range c.ValueSize {
					var want float64
					for j, w := range weights {
						want += w * float64(a.V[b*a.VStride.Batch+kv*a.VStride.Head+j*a.VStride.Seq+d])
					}
					got := a.Out[b*a.OutStride.Batch+h*a.OutStride.Head+i*a.OutStride.Seq+d]
					requireClose(t, want, got, tolerance, "%s: batch %d head %d query %d element %d", c.what, b, h, i, d)
				}
			}
		}
	}
	if c.Size == c.ValueSize {
		c.testOverQueries(t, plan)
	}
}

// testOverQueries: with Out in the memory of Q, each result is the same to the bit, and all other elements stay.
func (c *attentionCase) testOverQueries(t *testing.T, plan *Attention) {
	t.Helper()
	a := c.args
	memory := c.overQueries(&a)
	want, row, width := slices.Clone(memory.inner), a.QStride.Seq, c.Heads*c.Size
	for i := range c.Batch * c.Queries {
		copy(want[i*row:], c.args.Out[i*c.args.OutStride.Seq:][:width])
	}
	a.Out, a.OutStride = a.Q, a.QStride
	scratch := make([]byte, plan.ScratchBytes())
	for part := range plan.Parts() {
		plan.Run(part, &a, scratch)
	}
	memory.check(t, c.what)
	for i, x := range memory.inner {
		if math.Float32bits(x) != math.Float32bits(want[i]) {
			t.Fatalf("%s, over its queries: element %d is %v, not %v", c.what, i, x, want[i])
		}
	}
}

// attentionForms are the variations that every shape is tested with.
var attentionForms = []struct {
	name string
	set  func(r *rand.Rand, c *attentionCase)
}{
	{"plain", func(r *rand.Rand, c *attentionCase) {}},
	{"padding by the lowest number", func(r *rand.Rand, c *attentionCase) { keyBias(c, -math.MaxFloat32) }},
	{"padding by -10000", func(r *rand.Rand, c *attentionCase) { keyBias(c, -10000) }},
	{"padding by -∞", func(r *rand.Rand, c *attentionCase) { keyBias(c, negInf) }},
	{"padding by -∞, guarded", func(r *rand.Rand, c *attentionCase) { keyBias(c, negInf); c.args.NaNGuard = true }},
	{"padding at the front, bias over keys alone", func(r *rand.Rand, c *attentionCase) {
		bias := operand[float32](c.Keys)
		for j := range c.Keys / 2 {
			bias[j] = -1e9
		}
		c.args.Bias, c.args.BiasStride = bias, MaskStride{Key: 1}
	}},
	{"bias for all", func(r *rand.Rand, c *attentionCase) {
		c.args.Bias = random(r, c.Batch*c.Heads*c.Queries*c.Keys).inner
		c.args.BiasStride = MaskStride{c.Heads * c.Queries * c.Keys, c.Queries * c.Keys, c.Keys, 1}
	}},
	{"bias shared by heads, mask for all", func(r *rand.Rand, c *attentionCase) {
		c.args.Bias = random(r, c.Batch*c.Queries*c.Keys).inner
		c.args.BiasStride = MaskStride{c.Queries * c.Keys, 0, c.Keys, 1}
		randomMask(r, c, MaskStride{c.Heads * c.Queries * c.Keys, c.Queries * c.Keys, c.Keys, 1})
	}},
	{"mask over keys, guarded", func(r *rand.Rand, c *attentionCase) {
		randomMask(r, c, MaskStride{Batch: c.Keys, Key: 1})
		c.args.NaNGuard = true
	}},
	{"key bias and mask for all", func(r *rand.Rand, c *attentionCase) {
		keyBias(c, -1e9)
		randomMask(r, c, MaskStride{0, c.Queries * c.Keys, c.Keys, 1})
	}},
	{"causal", func(r *rand.Rand, c *attentionCase) { c.args.Window = &Window{Left: -1} }},
	{"causal after a past", func(r *rand.Rand, c *attentionCase) {
		c.args.Window = &Window{Left: -1, Offset: c.Keys - c.Queries}
	}},
	{"band", func(r *rand.Rand, c *attentionCase) { c.args.Window = &Window{Left: 3, Right: 5} }},
	{"band to the right, with padding", func(r *rand.Rand, c *attentionCase) {
		c.args.Window = &Window{Left: 40, Right: -1, Offset: 2}
		keyBias(c, -math.MaxFloat32)
	}},
	{"softcap", func(r *rand.Rand, c *attentionCase) { c.args.Softcap = 0.7; keyBias(c, -1e9) }},
	{"a value that is not finite after the padding", func(r *rand.Rand, c *attentionCase) {
		keyBias(c, -10000)
		if n := len(c.args.V); n > 0 {
			c.args.V[n-1] = float32(math.Inf(1))
		}
	}},
	{"scores that reach over the padding", func(r *rand.Rand, c *attentionCase) { keyBias(c, -150); c.args.Scale = 32 }},
}

// keyBias pads the last half of the keys of the first batch, and all keys of the last.
func keyBias(c *attentionCase, padding float32) {
	bias := operand[float32](c.Batch * c.Keys)
	for b := range c.Batch {
		for j := range c.Keys {
			if b == c.Batch-1 && b > 0 || j > c.Keys/2 {
				bias[b*c.Keys+j] = padding
			}
		}
	}
	c.args.Bias, c.args.BiasStride = bias, MaskStride{Batch: c.Keys, Key: 1}
}

func randomMask(r *rand.Rand, c *attentionCase, stride MaskStride) {
	c.args.Mask, c.args.MaskStride = operand[byte](c.Batch*c.Heads*c.Queries*c.Keys), stride
	for i := range c.args.Mask {
		c.args.Mask[i] = byte(r.IntN(2))
	}
}

func TestAttention(t *testing.T) {
	shapes := []AttentionShape{
		{2, 2, 2, 1, 1, 4, 4},
		{2, 2, 2, 17, 17, 32, 32},
		{2, 2, 2, 50, 50, 7, 7},
		{1, 4, 2, 3, 9, 16, 20},
		{2, 2, 1, 49, 130, 5, 3},
		{1, 1, 1, 49, 500, 8, 8}, // several blocks of keys
		{1, 2, 2, 5, 0, 4, 4},
		{2, 6, 2, 1, 130, 16, 20}, // heads instead of queries
		{1, 40, 2, 1, 300, 8, 8},
		{1, 4, 2, 1, 0, 8, 8},
		{2, 12, 12, 1, 130, 33, 16}, // heads that read keys apart instead of queries
		{1, 6, 6, 1, 3 * apartKeys, 64, 64},
		{3, 5, 5, 1, apartKeys + 1, 16, 48},
		{2, 4, 4, 1, 1, 32, 32},
		{1, 2, 2, 1, 0, 16, 16},
	}
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		for _, shape := range shapes {
			for _, form := range attentionForms {
				c := newAttentionCase(r, shape)
				form.set(r, c)
				c.what = fmt.Sprintf("%+v, %s", shape, form.name)
				c.test(t, s.NewAttention(shape), 2e-6*(1+float64(c.args.Scale)))
				c.what += ", bfloat16"
				// of the weights: those of the test's operands that are scaled by a power of two are exact
				c.test(t, s.NewAttentionBF16(shape), 1.0/256)
			}
		}
	})
}

// TestAttentionTrimsPadding shows that padded keys are left out, and that leaving them out changes no bit.
func TestAttentionTrimsPadding(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		shape := AttentionShape{1, 2, 2, 40, 40, 16, 16}
		c := newAttentionCase(r, shape)
		keyBias(c, -10000)
		plan := s.NewAttention(shape)
		scratch := make([]byte, plan.ScratchBytes())
		run := func() []float32 {
			for part := range plan.Parts() {
				plan.Run(part, &c.args, scratch)
			}
			return append([]float32(nil), c.args.Out...)
		}
		trimmed := run()
		p := attentionPart{Attention: plan, args: &c.args, q: c.args.Q, k: c.args.K, v: c.args.V, queries: 40,
			keyBias: make([]float32, 40), norms: make([]float32, 40)}
		lo, hi := p.keyRange()
		require.Equal(t, []int{0, 21}, []int{lo, hi})
		c.args.V[39*c.args.VStride.Seq] = float32(math.Inf(1)) // one head has to look at all keys now
		whole := run()
		for i, got := range whole {
			if got == got && math.Float32bits(got) != math.Float32bits(trimmed[i]) {
				t.Fatalf("element %d is %v with all keys, %v with those that count", i, got, trimmed[i])
			}
		}
	})
}
