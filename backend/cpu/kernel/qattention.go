package kernel

import "slices"

// QAttentionShape describes quantised attention: softmax(q·kᵀ + mask)·v with quantised probabilities.
type QAttentionShape struct {
	Batch, Heads    int
	Queries, Keys   int // lengths of the sequences
	Size, ValueSize int // length of a query and key, a multiple of 4, and of a value
}

// QAttention is a planned quantised attention. One part is some queries of one head: keys and values are packed, and then
// for each block of queries both products run with the softmax between them. The scores of a block stay in the L2 cache; the
// matrix of all scores never exists.
type QAttention struct {
	QAttentionShape

	set          *Set
	block        int // most queries of a block
	partsInHead  int
	packK, packV *PackS8
	blocks       [2]qAttentionBlock // products of a whole block of queries, and of the rest
	ones         []float32          // scales of the columns, which are all 1
}

// A qAttentionBlock is the two products of a block of queries.
type qAttentionBlock struct{ scores, values *GemmS8 }

// QuantizedHeads are quantised values [batch, sequence, head, size] in memory, with their zero point. Strides count bytes;
// the last axis is contiguous.
type QuantizedHeads struct {
	Quantized []byte
	Stride    AttentionStride
	Zero      int32
	Signed    bool
}

// QAttentionArgs are the operands of one [QAttention].
type QAttentionArgs struct {
	Q, K, V QuantizedHeads // the rows of Q start at multiples of 4 bytes
	Scale   float32        // factor of q·k

	// Mask is added to the scores. Its strides are 0 along the axes where it is broadcast. nil means no mask.
	Mask       []float32
	MaskStride MaskStride
	// Scores quantises and dequantises the scores before the softmax, if its scale is not 0.
	Scores Quantized
	Probs  Quantized // scale and zero point of the probabilities
	VScale float32   // scale of v

	// The result is floats, or quantised values where Quantized.Dst is not nil. The last axis is contiguous.
	Out       []float32
	OutStride AttentionStride
	Quantized Quantized // with the strides of OutStride
}

// NewQAttention plans a quantised attention.
func (s *Set) NewQAttention(shape QAttentionShape) *QAttention {
	// The scores of a block take a quarter of the L2 cache, so that its quantised values and the packed values fit beside them.
	block := max(s.gemmS8.rows, s.caches.l2/4/(4*max(1, shape.Keys))/s.gemmS8.rows*s.gemmS8.rows)
	block = max(1, min(block, blockRows, shape.Queries))
	a := &QAttention{QAttentionShape: shape, set: s, block: block, packK: s.NewPackS8(shape.Size, shape.Keys),
		packV: s.NewPackS8(shape.Keys, shape.ValueSize)}
	a.ones = slices.Repeat([]float32{1}, max(shape.Keys, shape.ValueSize))
	for i, rows := range []int{block, shape.Queries % block} {
		a.blocks[i] = qAttentionBlock{s.NewGemmS8(rows, shape.Keys, shape.Size, 1), s.NewGemmS8(rows, shape.ValueSize, shape.Keys, 1)}
	}
	// Packing again for each part costs little beside many queries; heads alone are parts enough if there are many.
	const enough = 8
	a.partsInHead = min(ceilDiv(shape.Queries, block), ceilDiv(enough, max(1, shape.Batch*shape.Heads)))
	return a
}

// Parts is the number of independent pieces.
func (a *QAttention) Parts() int { return a.Batch * a.Heads * a.partsInHead }

// qAttentionScratch is the scratch memory of one worker.
type qAttentionScratch struct {
	k, v   []byte    // packed
	q      []byte    // the queries of a block, where they are signed
	probs  []byte    // the quantised values of a block
	gemm   []byte    // the products'
	scores []float32 // scores of a block
	scale  []float32 // scales of the rows of a product
	zeros  []int32   // zero points of the rows and of the columns of a product
}

// scratch lays memory out, and returns the number of bytes that it takes; memory may be nil to learn that.
func (a *QAttention) scratch(memory []byte) (s qAttentionScratch, size int) {
	take := func(n int) []byte {
		from := size
		size = roundUp(size+n, 64)
		if memory == nil {
			return nil
		}
		return memory[from:][:n:n]
	}
	s.k, s.v = take(a.packK.Bytes()), take(a.packV.Bytes())
	s.q, s.probs = take(a.block*a.Size), take(a.block*roundUp(a.Keys, 4))
	s.gemm = take(max(a.blocks[0].scores.ScratchBytes(), a.blocks[0].values.ScratchBytes()))
	s.scores = elementsOf[float32](take(4 * a.block * a.Keys))
	s.scale, s.zeros = elementsOf[float32](take(4)), elementsOf[int32](take(2*4))
	return s, size
}

// ScratchBytes is the scratch memory that one worker needs, aligned for vectors.
func (a *QAttention) ScratchBytes() int {
	_, size := a.scratch(nil)
	return size
}

// at returns the quantised values of a head, beginning at a position.
func (h *QuantizedHeads) at(batch, head, position int) []byte {
	return h.Quantized[min(len(h.Quantized), batch*h.Stride.Batch+head*h.Stride.Head+position*h.Stride.Seq):]
}

// Run computes one part, 0 ≤ part < Parts(), with ScratchBytes() bytes of scratch that no other part uses meanwhile.
func (a *QAttention) Run(part int, args *QAttentionArgs, memory []byte) {
	s, _ := a.scratch(memory)
	head := part / a.partsInHead
	batch, head := head/a.Heads, head%a.Heads
	for p := range a.packK.Parts() {
		a.packK.Run(p, s.k, args.K.at(batch, head, 0), 1, args.K.Stride.Seq, !args.K.Signed)
	}
	for p := range a.packV.Parts() {
		a.packV.Run(p, s.v, args.V.at(batch, head, 0), args.V.Stride.Seq, 1, !args.V.Signed)
	}
	lo, hi := share(a.Queries, a.partsInHead, part%a.partsInHead, a.block)
	for ; lo < hi; lo += a.block {
		b := &a.blocks[0]
		if hi-lo < a.block {
			b = &a.blocks[1]
		}
		a.scoresOf(args, b.scores, batch, head, lo, &s)
		a.valuesOf(args, b.values, batch, head, lo, &s)
	}
}

// scoresOf computes the scores of a block of queries.
func (a *QAttention) scoresOf(args *QAttentionArgs, g *GemmS8, batch, head, first int, s *qAttentionScratch) {
	gemm := GemmS8Args{A: args.Q.at(batch, head, first), ARow: args.Q.Stride.Seq, B: s.k, C: s.scores, CRow: a.Keys}
	if args.Q.Signed {
		transposeRows(s.q, gemm.A, gemm.ARow, g.M, a.Size)
		gemm.A, gemm.ARow = s.q, a.Size
	}
	var mask []float32
	byKey := args.Mask != nil && args.MaskStride.Query == 0 && args.MaskStride.Key == 1
	if args.Mask != nil {
		mask = args.Mask[batch*args.MaskStride.Batch+head*args.MaskStride.Head+first*args.MaskStride.Query:]
	}
	if byKey {
		gemm.Bias = mask[:a.Keys]
	}
	a.multiply(g, &gemm, args.Scale, args.Q, args.K, s)
	switch {
	case mask == nil || byKey || a.Keys == 0:
	case args.MaskStride.Key == 1:
		a.set.BinaryRows(Add, s.scores, a.Keys, Rows{s.scores, a.Keys, 1}, Rows{mask, args.MaskStride.Query, 1}, g.M, a.Keys)
	default:
		for r := range g.M {
			row := s.scores[r*a.Keys:][:a.Keys]
			for c := range row {
				row[c] += mask[r*args.MaskStride.Query+c*args.MaskStride.Key]
			}
		}
	}
}

// valuesOf computes quantised probabilities from the scores of a block of queries, and the result from these.
func (a *QAttention) valuesOf(args *QAttentionArgs, g *GemmS8, batch, head, first int, s *qAttentionScratch) {
	row := roundUp(a.Keys, 4)
	// Quantised values that only the kernel sees are unsigned.
	inside := func(c Quantized) Quantized {
		c.Dst, c.Row = s.probs, row
		if c.Signed {
			c.Zero, c.Signed = c.Zero+128, false
		}
		return c
	}
	probs := inside(args.Probs)
	if a.Keys > 0 {
		if args.Scores.Scale != 0 {
			quantized := inside(args.Scores)
			a.set.quantizeValues(quantized, pointer(s.scores), a.Keys, g.M, a.Keys)
			for r := range g.M {
				a.set.DequantizeU8(s.scores[r*a.Keys:][:a.Keys], s.probs[r*row:][:a.Keys], quantized.Scale, uint8(quantized.Zero))
			}
		}
		a.set.Softmax(s.scores, a.Keys, s.scores, a.Keys, g.M, a.Keys)
		a.set.quantizeValues(probs, pointer(s.scores), a.Keys, g.M, a.Keys)
	}
	at := batch*args.OutStride.Batch + head*args.OutStride.Head + first*args.OutStride.Seq
	gemm := GemmS8Args{A: s.probs, ARow: row, B: s.v, CRow: args.OutStride.Seq}
	if args.Quantized.Dst != nil {
		gemm.Quantized = args.Quantized
		gemm.Quantized.Dst, gemm.Quantized.Row = args.Quantized.Dst[at:], args.OutStride.Seq
	} else {
		gemm.C = args.Out[at:]
	}
	a.multiply(g, &gemm, probs.Scale*args.VScale, QuantizedHeads{Zero: probs.Zero}, args.V, s)
}

// multiply runs a product whose operands have one scale and zero point each.
func (a *QAttention) multiply(g *GemmS8, args *GemmS8Args, scale float32, left, right QuantizedHeads, s *qAttentionScratch) {
	if left.Signed {
		left.Zero += 128
	}
	if !right.Signed {
		right.Zero -= 128
	}
	s.scale[0], s.zeros[0], s.zeros[1] = scale, left.Zero, right.Zero
	args.Scale, args.Zero, args.BScale = s.scale, s.zeros[:1], a.ones[:g.N]
	if right.Zero != 0 {
		args.BZero = s.zeros[1:]
	}
	for p := range g.Parts() {
		g.Run(p, args, s.gemm[:g.ScratchBytes()])
	}
}

// transposeRows copies signed values to contiguous rows, with flipped signs.
func transposeRows(dst, src []byte, srcRow, rows, cols int) {
	for r := range rows {
		for i, b := range src[r*srcRow:][:cols] {
			dst[r*cols+i] = b ^ 0x80
		}
	}
}
