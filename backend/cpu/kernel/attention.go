package kernel

// AttentionShape describes softmax(scale·Q·Kᵀ + bias)·V. Heads are grouped: query head h reads the keys and values of
// head h/(Heads/KVHeads).
type AttentionShape struct {
	Batch           int
	Heads, KVHeads  int
	Queries, Keys   int // lengths of the sequences
	Size, ValueSize int // length of a query and key, and of a value
}

// Attention is a planned attention. One part is some blocks of queries of one head. It passes over the keys once, block
// by block, and keeps a running maximum and sum for each query, so that the matrix of scores never exists. Everything
// in a part lies transposed, with the queries of a block side by side: then both products run on the register tiles
// of Gemm with K and V as they are, and the softmax works on whole vectors of queries.
type Attention struct {
	AttentionShape

	set         *Set
	queryBlock  int // queries side by side
	partBlocks  int // blocks of queries in a part, which share the work on a block of keys
	partsInHead int
	keyBlock    int
}

// AttentionArgs are the operands. Strides count elements and are those of the batch, head and sequence axes; the last
// axis of Q, K, V and Out is contiguous. Out must not overlap the others.
type AttentionArgs struct {
	Q, K, V, Out                         []float32
	QStride, KStride, VStride, OutStride AttentionStride
	Scale                                float32
	Softcap                              float32 // scores become c·tanh(scores/c) before the bias; 0: they do not

	// Bias is added to the scores; its strides are 0 along the axes that it is broadcast over. nil: nothing is added.
	Bias       []float32
	BiasStride MaskStride
	// Mask tells the keys to attend to from those (0) that get a score of -∞, with strides like Bias. nil: all.
	Mask       []byte
	MaskStride MaskStride
	// Window leaves query i the keys i+Offset−Left … i+Offset+Right; the others get a score of -∞.
	Window *Window
	// NaNGuard makes the result of a query all whose scores are -∞ zero; it is NaN else.
	NaNGuard bool
}

// AttentionStride is the distance of neighbours along the batch, head and sequence axes, in elements.
type AttentionStride struct{ Batch, Head, Seq int }

// MaskStride is the distance of neighbours along the axes of the scores, in elements.
type MaskStride struct{ Batch, Head, Query, Key int }

// Window is a band of the scores. A negative Left or Right is no limit: causal attention is {Left: -1}.
type Window struct{ Left, Right, Offset int }

// NewAttention plans an attention.
func (s *Set) NewAttention(shape AttentionShape) *Attention {
	const mostBlocks = 3
	// A block of scores takes half of the L1 cache.
	keyBlock := max(s.gemm.rows, s.caches.l1/2/(4*s.gemm.cols())/s.gemm.rows*s.gemm.rows)
	block := min(s.gemm.cols(), max(1, shape.Queries))
	blocks := ceilDiv(shape.Queries, block)
	return &Attention{
		AttentionShape: shape,
		set:            s,
		queryBlock:     block,
		partBlocks:     min(mostBlocks, blocks),
		partsInHead:    ceilDiv(blocks, mostBlocks),
		keyBlock:       roundUp(evenBlock(shape.Keys, keyBlock), s.gemm.rows),
	}
}

// Parts is the number of independent pieces.
func (a *Attention) Parts() int { return a.Batch * a.Heads * a.partsInHead }

// ScratchBytes is the scratch memory that one worker needs.
func (a *Attention) ScratchBytes() int {
	columns := roundUp(a.queryBlock, a.set.gemm.vec)
	blocks := a.partBlocks * columns * (a.Size + a.ValueSize + 3)
	return 4 * (blocks + a.keyBlock*(2*columns+a.Size+a.ValueSize) + 2*a.Keys)
}

// attentionPart is the work on some blocks of queries: its operands, cut to the head, and its scratch memory.
type attentionPart struct {
	*Attention
	args        *AttentionArgs
	batch, head int
	q           []float32 // from the first query on
	k, v        []float32 // of the head
	first       int       // query
	queries     int
	scratch     []float32 // not yet taken

	// All matrices of a block of queries have one column for each query.
	scores []float32 // [keyBlock, columns]
	extra  []float32 // [keyBlock, columns]: what is added to the scores

	keys    []float32 // [keyBlock, Size]: the current block of keys, if they lie apart
	values  []float32 // [keyBlock, ValueSize]
	keyBias []float32 // [Keys]: what is added to the scores of all queries, or nil
	norms   []float32 // [Keys]
}

// attentionBlock is the state of one block of queries.
type attentionBlock struct {
	*attentionPart
	first   int // query
	queries int
	columns int
	started bool

	q       []float32 // [Size, columns]: the queries, transposed
	out     []float32 // [ValueSize, columns]: the result, transposed
	highest []float32 // [columns]: the state of the softmax
	sum     []float32
	scale   []float32
}

// take cuts n floats from the scratch memory.
func (p *attentionPart) take(n int) (taken []float32) {
	taken, p.scratch = p.scratch[:n:n], p.scratch[n:]
	return taken
}

// Run computes one part, 0 ≤ part < Parts(), with ScratchBytes() bytes of scratch that no other part uses meanwhile.
func (a *Attention) Run(part int, args *AttentionArgs, scratch []byte) {
	head := part / a.partsInHead
	p := attentionPart{
		Attention: a,
		args:      args,
		batch:     head / a.Heads,
		head:      head % a.Heads,
		first:     part % a.partsInHead * a.partBlocks * a.queryBlock,
		scratch:   floats(scratch, a.ScratchBytes()/4),
	}
	p.queries = min(a.partBlocks*a.queryBlock, a.Queries-p.first)
	kvHead := p.head / (a.Heads / a.KVHeads)
	from := func(x []float32, stride AttentionStride, head int) []float32 {
		return x[min(len(x), p.batch*stride.Batch+head*stride.Head):]
	}
	p.q = from(args.Q, args.QStride, p.head)[p.first*args.QStride.Seq:]
	p.k, p.v = from(args.K, args.KStride, kvHead), from(args.V, args.VStride, kvHead)
	hide(&p).run()
}

func (p *attentionPart) run() {
	var blocks [3]attentionBlock
	n := 0
	for q := 0; q < p.queries; q += p.queryBlock {
		blocks[n] = p.newBlock(q, min(p.queryBlock, p.queries-q))
		n++
	}
	widest := blocks[0].columns
	p.scores, p.extra = p.take(p.keyBlock*widest), p.take(p.keyBlock*widest)
	p.keys, p.values = p.take(p.keyBlock*p.Size), p.take(p.keyBlock*p.ValueSize)
	p.keyBias, p.norms = p.take(p.Keys), p.take(p.Keys)
	lo, hi := p.keyRange()
	for first := lo; first < hi; first += p.keyBlock {
		p.step(blocks[:n], first, min(p.keyBlock, hi-first))
	}
	for i := range blocks[:n] {
		blocks[i].finish()
	}
}

// newBlock prepares the queries from p.first + q on.
func (p *attentionPart) newBlock(q, queries int) attentionBlock {
	columns := roundUp(queries, p.set.gemm.vec)
	b := attentionBlock{attentionPart: p, first: p.first + q, queries: queries, columns: columns,
		q: p.take(p.Size * columns), out: p.take(p.ValueSize * columns),
		highest: p.take(columns), sum: p.take(columns), scale: p.take(columns)}
	if queries < columns {
		clear(b.q)
	}
	p.set.copy2D(b.q, columns, 1, p.q[q*p.args.QStride.Seq:], 1, p.args.QStride.Seq, p.Size, queries)
	clear(b.out)
	startSoftmax(b.highest, b.sum)
	return b
}

// step takes n keys from first on into all blocks of queries.
func (p *attentionPart) step(blocks []attentionBlock, first, n int) {
	gather := func(to, from []float32, row, cols int) (rows []float32, stride int) {
		from = from[first*row:]
		if row == cols {
			return from, row
		}
		// Rows that lie apart, often by a power of two, would share few sets of the cache.
		p.set.copy2D(to, cols, 1, from, row, 1, n, cols)
		return to, cols
	}
	keys, keyRow := gather(p.keys, p.k, p.args.KStride.Seq, p.Size)
	values, valueRow := gather(p.values, p.v, p.args.VStride.Seq, p.ValueSize)
	for i := range blocks {
		b := &blocks[i]
		if lo, hi := p.args.Window.keys(b.first, b.queries, p.Keys); first >= hi || first+n <= lo {
			continue
		}
		b.score(keys, keyRow, n)
		b.mask(first, n)
		p.set.softmaxStep(pointer(p.scores), b.columns, n, b.columns, pointerAt(p.keyBias, first), pointer(b.highest), pointer(b.sum), pointer(b.scale))
		if b.started {
			b.scaleOut()
		}
		b.started = true
		b.average(values, valueRow, n)
	}
}

// score computes the products of n keys with the queries: scores = scale·K·Qᵀ.
func (b *attentionBlock) score(keys []float32, keyRow, n int) {
	args := GemmArgs{A: keys, ARow: keyRow, ACol: 1, C: b.scores, CRow: b.columns, Alpha: b.args.Scale}
	if b.args.Softcap != 0 {
		args.Alpha /= b.args.Softcap
	}
	b.product(&args, b.q, n, b.Size)
	if b.args.Softcap != 0 {
		scores := b.scores[:n*b.columns]
		b.set.Unary(Tanh, scores, scores)
		b.scale[0] = b.args.Softcap
		b.set.BinaryRows(Mul, scores, 0, Rows{scores, 0, 1}, Rows{b.scale, 0, 0}, 1, len(scores))
	}
}

// average adds the values of n keys, weighted by the scores: out += Vᵀ·scores.
func (b *attentionBlock) average(values []float32, valueRow, n int) {
	args := GemmArgs{A: values, ARow: 1, ACol: valueRow, C: b.out, CRow: b.columns, Alpha: 1, Residual: b.out, ResRow: b.columns}
	b.product(&args, b.scores, b.ValueSize, n)
}

// product computes C[m, columns] from B[k, columns]. K is not cut: both of its kinds are short.
func (b *attentionBlock) product(args *GemmArgs, operand []float32, m, k int) {
	if m == 0 {
		return
	}
	args.check(m, b.columns, k)
	b.set.gemmPanel(&b.set.gemm, args, gemmPanel{rowHi: m, cols: b.columns, k: k, kBlock: max(k, 1), b: pointer(operand), bRow: b.columns})
}

// scaleOut multiplies each column of the result by its scale.
func (b *attentionBlock) scaleOut() {
	b.set.BinaryRows(Mul, b.out, b.columns, Rows{b.out, b.columns, 1}, Rows{b.scale, 0, 1}, b.ValueSize, b.columns)
}

// finish divides by the sums and writes the result.
func (b *attentionBlock) finish() {
	args := b.args
	b.set.Unary(Reciprocal, b.scale, b.sum)
	if args.NaNGuard {
		for i, sum := range b.sum {
			if sum == 0 {
				b.scale[i] = 0
			}
		}
	}
	b.scaleOut()
	out := args.Out[b.batch*args.OutStride.Batch+b.head*args.OutStride.Head+b.first*args.OutStride.Seq:]
	b.set.copy2D(out, args.OutStride.Seq, 1, b.out, 1, b.columns, b.queries, b.ValueSize)
}
