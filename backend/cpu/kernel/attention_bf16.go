package kernel

// Attention in bfloat16 computes both products by the tiles of GemmBF16, whose words are pairs of neighbours along K. K is the size of a
// head in scores = Q·Kᵀ, and the keys in weights·V. Queries, keys and values are rounded to bfloat16 when they are packed into words, and
// the weights after the softmax. Sums, scores and the softmax are float32. The second product writes the result transposed, because the
// softmax leaves the weights in the form of a right operand.

// A pairsPart is the memory of a part for words.
type pairsPart struct {
	keyPairs   []float32 // [keyBlock, keyWords]
	valuePairs []float32 // [ValueSize, keyBlock/2]
	valueRows  []float32 // [keyBlock/2, ValueSize]: the same, before they are transposed
}

// keyWords is the number of words of a query or key.
func (a *Attention) keyWords() int { return ceilDiv(a.Size, 2) }

// pairsScratch is the number of floats of a pairsPart.
func (a *Attention) pairsScratch() int { return a.keyBlock * (a.keyWords() + a.ValueSize) }

func (p *attentionPart) takePairs() {
	p.keyPairs = p.take(p.keyBlock * p.keyWords())
	p.valuePairs, p.valueRows = p.take(p.keyBlock/2*p.ValueSize), p.take(p.keyBlock/2*p.ValueSize)
}

// pairRows rounds neighbouring rows of x to words, in place. After an odd number of rows there is room for one more.
func (s *Set) pairRows(dst, x []float32, rows, cols int) {
	if rows%2 != 0 {
		clear(x[rows*cols:][:cols])
	}
	if rows > 0 && cols > 0 {
		s.pairBF16(pointer(dst), cols, pointer(x), 2*cols, pointerAt(x, cols), 2*cols, ceilDiv(rows, 2), cols)
	}
}

// pairKeys rounds n keys and values, which are together.
func (p *attentionPart) pairKeys(n int) {
	pairs, row := elementsOf[uint16](bytesOfFloats(p.keyPairs)), 2*p.keyWords()
	if row == p.Size {
		p.set.RoundBF16(pairs[:n*row], p.keys[:n*row])
	} else {
		for i := range n {
			p.set.RoundBF16(pairs[i*row:][:p.Size], p.keys[i*p.Size:][:p.Size])
			pairs[i*row+p.Size] = 0
		}
	}
	words := ceilDiv(n, 2)
	p.set.pairRows(p.valueRows, p.values, n, p.ValueSize)
	p.set.copy2D(p.valuePairs, words, 1, p.valueRows, 1, p.ValueSize, p.ValueSize, words)
}

// scorePairs computes the products of n keys with the queries: scores = K·Qᵀ.
func (b *attentionBlock) scorePairs(n int) {
	args := GemmArgs{A: b.keyPairs, ARow: b.keyWords(), ACol: 1, C: b.scores, CRow: b.columns, Alpha: 1}
	b.multiplyPairs(&args, n, b.keyWords(), b.q)
}

// averagePairs is average, by outᵀ = outᵀ·scale + Vᵀ·scores.
func (b *attentionBlock) averagePairs(n int, last bool) {
	b.set.pairRows(b.scores, b.scores, n, b.columns)
	words := ceilDiv(n, 2)
	args := GemmArgs{A: b.valuePairs, ARow: words, ACol: 1, C: b.transposed, CRow: b.columns, Alpha: 1}
	if b.started {
		b.multiplyColumns(b.scale)
		args.Residual, args.ResRow = b.transposed, b.columns
	}
	b.multiplyPairs(&args, b.ValueSize, words, b.scores)
	if last {
		b.multiplyColumns(b.inverse)
		b.set.copy2D(b.out, b.args.OutStride.Seq, 1, b.transposed, 1, b.columns, b.queries, b.ValueSize)
	}
}

// multiplyColumns multiplies each column of the result by its factor.
func (b *attentionBlock) multiplyColumns(factors []float32) {
	b.set.BinaryRows(Mul, b.transposed, b.columns, Rows{b.transposed, b.columns, 1}, Rows{factors, 0, 1}, b.ValueSize, b.columns)
}

// multiplyPairs computes C[m, columns] from B of that many rows of words.
func (b *attentionBlock) multiplyPairs(args *GemmArgs, m, words int, right []float32) {
	b.set.gemmPanel(&b.set.pairsBF16, args, gemmPanel{rowHi: m, cols: b.columns, k: words, kBlock: max(words, 1), b: pointer(right),
		bRow: b.columns})
}
