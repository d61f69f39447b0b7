package kernel

// AttentionShape describes softmax(scale·Q·Kᵀ + bias)·V. Heads are grouped: query head h reads the keys and values of
// head h/(Heads/KVHeads).
type AttentionShape struct {
	Batch           int
	Heads, KVHeads  int
	Queries, Keys   int // lengths of the sequences
	Size, ValueSize int // length of a query and key, and of a value
}

// Attention is a planned attention. One part is a block of queries of one head. It passes over the keys once, block
// by block, and keeps a running maximum and sum for each query, so that the matrix of scores never exists. Everything
// in a part lies transposed, with the queries of the block side by side: then both products run on the register
// tiles of Gemm with K and V read in place, and the softmax works on whole vectors of queries.
type Attention struct {
	AttentionShape

	set         *Set
	queryBlock  int
	queryBlocks int
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
	// A block of scores takes half of the L1 cache.
	keyBlock := max(s.gemm.rows, s.caches.l1/2/(4*s.gemm.cols())/s.gemm.rows*s.gemm.rows)
	block := min(s.gemm.cols(), max(1, shape.Queries))
	return &Attention{
		AttentionShape: shape,
		set:            s,
		queryBlock:     block,
		queryBlocks:    ceilDiv(shape.Queries, block),
		keyBlock:       roundUp(evenBlock(shape.Keys, keyBlock), s.gemm.rows),
	}
}

// Parts is the number of independent pieces.
func (a *Attention) Parts() int { return a.Batch * a.Heads * a.queryBlocks }

// ScratchBytes is the scratch memory that one worker needs.
func (a *Attention) ScratchBytes() int {
	return 4 * (a.columns()*(a.Size+2*a.keyBlock+a.ValueSize+3) + 2*a.Keys)
}

// columns is the width of the scratch matrices: the queries of a block in whole vectors.
func (a *Attention) columns() int { return roundUp(a.queryBlock, a.set.gemm.vec) }

// attentionPart is the work on one block of queries: its operands, cut to the head, and its scratch matrices, all of
// which have one column for each query.
type attentionPart struct {
	*Attention
	args    *AttentionArgs
	batch   int
	head    int
	query   int // the first
	queries int
	columns int

	q       []float32 // [Size, columns]: the queries, transposed
	scores  []float32 // [keyBlock, columns]
	extra   []float32 // [keyBlock, columns]: what is added to the scores
	out     []float32 // [ValueSize, columns]: the result, transposed
	highest []float32 // [columns]: the state of the softmax
	sum     []float32
	scale   []float32
	keyBias []float32 // [Keys]: what is added to the scores of all queries, or nil
	norms   []float32 // [Keys]
}

// Run computes one part, 0 ≤ part < Parts(), with ScratchBytes() bytes of scratch that no other part uses meanwhile.
func (a *Attention) Run(part int, args *AttentionArgs, scratch []byte) {
	p := attentionPart{
		Attention: a,
		args:      args,
		batch:     part / a.queryBlocks / a.Heads,
		head:      part / a.queryBlocks % a.Heads,
		query:     part % a.queryBlocks * a.queryBlock,
	}
	p.queries = min(a.queryBlock, a.Queries-p.query)
	p.columns = roundUp(p.queries, a.set.gemm.vec)
	p.allot(floats(scratch, a.ScratchBytes()/4))
	p.run()
}

// allot cuts the scratch memory.
func (p *attentionPart) allot(scratch []float32) {
	take := func(n int) (taken []float32) {
		taken, scratch = scratch[:n:n], scratch[n:]
		return taken
	}
	p.q = take(p.Size * p.columns)
	p.scores = take(p.keyBlock * p.columns)
	p.extra = take(p.keyBlock * p.columns)
	p.out = take(p.ValueSize * p.columns)
	p.highest, p.sum, p.scale = take(p.columns), take(p.columns), take(p.columns)
	p.keyBias, p.norms = take(p.Keys), take(p.Keys)
}

func (p *attentionPart) run() {
	s, args := p.set, p.args
	kvHead := p.head / (p.Heads / p.KVHeads)
	q := args.Q[p.batch*args.QStride.Batch+p.head*args.QStride.Head+p.query*args.QStride.Seq:]
	keys := args.K[min(len(args.K), p.batch*args.KStride.Batch+kvHead*args.KStride.Head):]
	values := args.V[min(len(args.V), p.batch*args.VStride.Batch+kvHead*args.VStride.Head):]

	if p.queries < p.columns {
		clear(p.q)
	}
	s.copy2D(p.q, p.columns, 1, q, 1, args.QStride.Seq, p.Size, p.queries)
	clear(p.out)
	startSoftmax(p.highest, p.sum)
	lo, hi := 0, 0
	if p.Keys > 0 {
		p.shareBias()
		lo, hi = p.trim(q, keys, values)
	}
	for first := lo; first < hi; first += p.keyBlock {
		n := min(p.keyBlock, hi-first)
		p.score(keys[first*args.KStride.Seq:], n)
		p.mask(first, n)
		s.softmaxStep(&p.scores[0], p.columns, n, p.columns, pointerAt(p.keyBias, first), &p.highest[0], &p.sum[0], &p.scale[0])
		if first > lo {
			s.BinaryRows(Mul, p.out, p.columns, Rows{p.out, p.columns, 1}, Rows{p.scale, 0, 1}, p.ValueSize, p.columns)
		}
		p.average(values[first*args.VStride.Seq:], n)
	}
	p.finish()
}

// score computes the products of n keys with the queries: scores = scale·K·Qᵀ.
func (p *attentionPart) score(keys []float32, n int) {
	args := GemmArgs{A: keys, ARow: p.args.KStride.Seq, ACol: 1, C: p.scores, CRow: p.columns, Alpha: p.args.Scale}
	if p.args.Softcap != 0 {
		args.Alpha /= p.args.Softcap
	}
	p.product(&args, p.q, n, p.Size)
	if p.args.Softcap != 0 {
		scores := p.scores[:n*p.columns]
		p.set.Unary(Tanh, scores, scores)
		p.scale[0] = p.args.Softcap
		p.set.BinaryRows(Mul, scores, 0, Rows{scores, 0, 1}, Rows{p.scale, 0, 0}, 1, len(scores))
	}
}

// average adds the values of n keys, weighted by the scores: out += Vᵀ·scores.
func (p *attentionPart) average(values []float32, n int) {
	args := GemmArgs{A: values, ARow: 1, ACol: p.args.VStride.Seq, C: p.out, CRow: p.columns, Alpha: 1, Residual: p.out, ResRow: p.columns}
	p.product(&args, p.scores, p.ValueSize, n)
}

// product computes C[m, columns] from B[k, columns]. K is not cut: both of its kinds are short.
func (p *attentionPart) product(args *GemmArgs, b []float32, m, k int) {
	if m == 0 {
		return
	}
	args.check(m, p.columns, k)
	p.set.gemmPanel(args, gemmPanel{rowHi: m, cols: p.columns, k: k, kBlock: max(k, 1), b: pointer(b), bRow: p.columns})
}

// finish divides by the sums and writes the result.
func (p *attentionPart) finish() {
	args := p.args
	p.set.Unary(Reciprocal, p.scale, p.sum)
	if args.NaNGuard {
		for i, sum := range p.sum {
			if sum == 0 {
				p.scale[i] = 0
			}
		}
	}
	p.set.BinaryRows(Mul, p.out, p.columns, Rows{p.out, p.columns, 1}, Rows{p.scale, 0, 1}, p.ValueSize, p.columns)
	out := args.Out[p.batch*args.OutStride.Batch+p.head*args.OutStride.Head+p.query*args.OutStride.Seq:]
	p.set.copy2D(out, args.OutStride.Seq, 1, p.out, 1, p.columns, p.queries, p.ValueSize)
}
