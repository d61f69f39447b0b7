package kernel

import "math"

// AttentionShape describes softmax(scale·Q·Kᵀ + bias)·V. Heads are grouped: query head h reads the keys and values of
// head h/(Heads/KVHeads).
type AttentionShape struct {
	Batch           int
	Heads, KVHeads  int
	Queries, Keys   int // lengths of the sequences
	Size, ValueSize int // length of a query and key, and of a value
}

// mostBlocks is the most blocks of queries in a part.
const mostBlocks = 6

// Attention is a planned attention. One part is some blocks of queries of one head. It passes over the keys once, block
// by block, and keeps a running maximum and sum for each query, so that the matrix of scores never exists. Scores are
// transposed, with the queries of a block side by side: then both products take K and V as they are, the softmax
// works on whole vectors of queries, and of all operands only Q has to be transposed.
type Attention struct {
	AttentionShape

	set         *Set
	pairs       bool // both products take words of two bfloat16
	queryBlock  int  // queries side by side
	partBlocks  int  // blocks of queries in a part, which share the work on a block of keys
	partsInHead int
	keyBlock    int
	group       int  // not 0: the queries are heads of one query
	apart       bool // and each of them reads the keys of its head
}

// AttentionArgs are the operands. Strides count elements and are those of the batch, head and sequence axes; the last
// axis of Q, K, V and Out is contiguous. Out must not overlap the others, but for a Q that is Out itself, with the same strides:
// a part brings its queries to scratch memory before it writes its results, and no other part reads them.
type AttentionArgs struct {
	Q, K, V, Out                         []float32
	QStride, KStride, VStride, OutStride AttentionStride
	Scale                                float32
	Softcap                              float32 // scores become c·tanh(scores/c) before the bias; 0: they do not

	// Bias is added to the scores; its strides are 0 along the axes that it is broadcast over. nil: nothing is added.
	Bias       []float32
	BiasStride MaskStride
	// Mask distinguishes the keys to attend to from those (0) that get a score of -∞, with strides like Bias. nil: all.
	Mask       []byte
	MaskStride MaskStride
	// Window restricts query i to the keys i+Offset−Left … i+Offset+Right. The other keys get a score of -∞. nil means no restriction.
	Window *Window
	// QueryAt and KeyAt are the positions of queries and keys along the axes of bias, mask and window, ascending. nil means 0, 1, 2, …
	QueryAt, KeyAt []int64
	// ByQuery and ByKey add scores by relative position, chosen by the positions of a query and a key.
	ByQuery, ByKey RelativeScores
	// keyApart and valueApart are the distances between the keys, and the values, of neighbouring queries, in elements. They are 0 if all
	// queries of a head have the same keys.
	keyApart, valueApart int
	// NaNGuard makes the result zero for a query whose scores are all -∞. Otherwise that result is NaN. Without keys it is always zero.
	NaNGuard bool
}

// AttentionStride is the distance of neighbours along the batch, head and sequence axes, in elements.
type AttentionStride struct{ Batch, Head, Seq int }

// RelativeScores are N scores of each token for each head, of which Index chooses by the position of the token (of the query in ByQuery, of
// the key in ByKey) and of the other one. Indices are from −N up. Nil Scores add nothing.
type RelativeScores struct {
	Scores   []float32 // [heads, tokens, N]
	Head, N  int       // distance of heads
	Index    []int64   // [positions, positions]
	IndexRow int
}

// MaskStride is the distance of neighbours along the axes of the scores, in elements.
type MaskStride struct{ Batch, Head, Query, Key int }

// Window is a band of the scores. A negative Left or Right is no limit: causal attention is {Left: -1}.
type Window struct{ Left, Right, Offset int }

// NewAttention plans an attention. Heads of a single query become queries of one head: those that read the same keys, so that their scores
// fill vectors, or a few neighbours, whose keys are often side by side. The plan's shape is then another than the one that was asked for.
// Such a plan takes no scores by relative position.
func (s *Set) NewAttention(shape AttentionShape) *Attention {
	group, apart := 0, false
	if shape.Queries == 1 && shape.Heads > shape.KVHeads {
		group = shape.Heads / shape.KVHeads
	} else if shape.Queries == 1 && shape.ValueSize%s.attention.vec == 0 {
		group, apart = neighbours(shape.Heads, apartBytes/4/max(shape.Size, 1)), true
	}
	if group > 0 {
		shape.Heads, shape.Queries = shape.Heads/group, group
		shape.KVHeads = shape.Heads
	}
	a := s.planAttention(shape, shape.Batch*shape.Heads, false)
	if a.group, a.apart = group, apart; apart {
		a.keyBlock = min(a.keyBlock, apartKeys)
	}
	return &a
}

// Queries that read keys apart pass over a block of apartKeys keys one after the other: what is beside the keys of one comes to the L2
// cache with them. apartBytes are enough of a key for a part to read as fast as whole rows.
const (
	apartKeys  = 64
	apartBytes = 512
)

// neighbours is the most heads, at most limit, that divide all heads.
func neighbours(heads, limit int) int {
	for n := limit; n > 1; n-- {
		if heads%n == 0 {
			return n
		}
	}
	return 1
}

// grouped returns a and its operands with heads instead of queries. A window of one query is a range of keys.
func (a *Attention) grouped(args *AttentionArgs) (plan Attention, own AttentionArgs) {
	plan, own = *a, *args
	own.QStride.Head, own.QStride.Seq = a.group*own.QStride.Head, own.QStride.Head
	own.OutStride.Head, own.OutStride.Seq = a.group*own.OutStride.Head, own.OutStride.Head
	own.BiasStride.Head, own.BiasStride.Query = a.group*own.BiasStride.Head, own.BiasStride.Head
	own.MaskStride.Head, own.MaskStride.Query = a.group*own.MaskStride.Head, own.MaskStride.Head
	if a.apart {
		own.KStride.Head, own.keyApart = a.group*own.KStride.Head, own.KStride.Head
		own.VStride.Head, own.valueApart = a.group*own.VStride.Head, own.VStride.Head
	}
	lo, hi := own.Window.keys(0, 1, a.Keys)
	if lo >= hi {
		own.Window = &Window{Offset: -a.group - 1} // no query sees a key
		return plan, own
	}
	plan.Keys, own.Window = hi-lo, nil
	own.K, own.V = own.K[lo*own.KStride.Seq:], own.V[lo*own.VStride.Seq:]
	if own.Bias != nil {
		own.Bias = own.Bias[lo*own.BiasStride.Key:]
	}
	if own.Mask != nil {
		own.Mask = own.Mask[lo*own.MaskStride.Key:]
	}
	return plan, own
}

// NewAttentionBF16 plans an attention whose products round their operands to bfloat16.
func (s *Set) NewAttentionBF16(shape AttentionShape) *Attention {
	a := s.planAttention(shape, shape.Batch*shape.Heads, true)
	return &a
}

// planAttention plans an attention that is one of a number of heads.
func (s *Set) planAttention(shape AttentionShape, heads int, pairs bool) Attention {
	tile := &s.attention
	a := Attention{AttentionShape: shape, set: s, pairs: pairs}
	vecs := ceilDiv(max(1, shape.Queries), tile.vec)
	a.queryBlock = evenBlock(vecs, tile.vecs()) * tile.vec
	blocks := ceilDiv(vecs*tile.vec, a.queryBlock)
	// Blocks that share a part read the keys and values once, but heads alone are parts enough only if there are many.
	const enough = 8
	a.partBlocks = 1
	if heads >= enough {
		a.partBlocks = evenBlock(blocks, mostBlocks)
	}
	a.partsInHead = ceilDiv(blocks, a.partBlocks)
	// A block of scores takes half of the L1 cache.
	a.keyBlock = roundUp(evenBlock(shape.Keys, s.caches.l1/2/(4*a.queryBlock)), 2)
	return a
}

// Parts is the number of independent pieces.
func (a *Attention) Parts() int { return a.Batch * a.Heads * a.partsInHead }

// ScratchBytes is the scratch memory that one worker needs.
func (a *Attention) ScratchBytes() int {
	block := a.queryBlock * (roundUp(a.Size, 2) + 4)
	keys := a.keyBlock * (2*a.queryBlock + a.Size + a.valueRow())
	if a.pairs {
		block += a.queryBlock * a.ValueSize
		keys += a.pairsScratch()
	}
	return 4 * (a.partBlocks*block + keys + 2*a.Keys)
}

// valueRow is the length of a value, filled up to whole vectors.
func (a *Attention) valueRow() int { return roundUp(a.ValueSize, a.set.attention.vec) }

// attentionPart is the work on some blocks of queries: its operands, cut to the head, and its scratch memory.
type attentionPart struct {
	*Attention
	args        *AttentionArgs
	batch, head int
	q           []float32 // queries of the head, beginning with the part's first one
	k, v        []float32 // keys and values of the head
	first       int       // index of the part's first query
	queries     int       // number of queries
	scratch     []float32 // scratch memory that is free
	before, by  float32   // factors that multiply the queries, and the scores in the softmax

	// The matrices of a block of queries have one column for each query.
	scores []float32 // [keyBlock, columns]
	extra  []float32 // [keyBlock, columns]: what is added to the scores

	keys    []float32 // [keyBlock, Size]: the current block of keys, if they are brought together
	values  []float32 // [keyBlock, valueRow]
	keyBias []float32 // [Keys]: what is added to the scores of all queries, or nil
	norms   []float32 // [Keys]

	pairsPart
}

// attentionBlock is the state of one block of queries.
type attentionBlock struct {
	*attentionPart
	first   int // query
	queries int
	columns int
	started bool

	q       []float32 // [Size, columns]: the queries, transposed if they read the same keys
	out     []float32 // results, beginning with that of the first query
	highest []float32 // [columns]: the state of the softmax
	sum     []float32
	scale   []float32
	inverse []float32

	transposed []float32 // [ValueSize, columns]: with pairs, the result before it is transposed
}

// take cuts n floats from the scratch memory.
func (p *attentionPart) take(n int) (taken []float32) {
	taken, p.scratch = p.scratch[:n:n], p.scratch[n:]
	return taken
}

// Run computes one part, 0 ≤ part < Parts(), with ScratchBytes() bytes of scratch that no other part uses meanwhile.
func (a *Attention) Run(part int, args *AttentionArgs, scratch []byte) {
	if a.group > 0 {
		plan, own := a.grouped(args)
		a, args = noescape(&plan), noescape(&own)
	}
	head := part / a.partsInHead
	p := attentionPart{
		Attention: a,
		args:      args,
		batch:     head / a.Heads,
		head:      head % a.Heads,
		first:     part % a.partsInHead * a.partBlocks * a.queryBlock,
		scratch:   elementsOf[float32](scratch),
	}
	p.queries = min(a.partBlocks*a.queryBlock, a.Queries-p.first)
	kvHead := p.head / (a.Heads / a.KVHeads)
	from := func(x []float32, stride AttentionStride, head int) []float32 {
		return x[min(len(x), p.batch*stride.Batch+head*stride.Head):]
	}
	p.q = from(args.Q, args.QStride, p.head)[p.first*args.QStride.Seq:]
	p.k, p.v = from(args.K, args.KStride, kvHead), from(args.V, args.VStride, kvHead)
	noescape(&p).run()
}

func (p *attentionPart) run() {
	p.scores, p.extra = p.take(p.keyBlock*p.queryBlock), p.take(p.keyBlock*p.queryBlock)
	p.keys, p.values = p.take(p.keyBlock*p.Size), p.take(p.keyBlock*p.valueRow())
	p.keyBias, p.norms = p.take(p.Keys), p.take(p.Keys)
	if p.pairs {
		p.takePairs()
	}
	lo, hi := p.keyRange()
	p.before, p.by = 1, p.args.Scale
	if p.args.Softcap != 0 || p.keyBias != nil || p.perQuery() || !(p.by > 0) {
		p.before, p.by = p.by, 1 // what follows the products wants scaled scores
	}
	if p.args.Softcap != 0 {
		p.before /= p.args.Softcap
	}
	var all [mostBlocks]attentionBlock
	blocks := all[:0]
	for q := 0; q < p.queries; q += p.queryBlock {
		blocks = append(blocks, p.newBlock(q, min(p.queryBlock, p.queries-q)))
	}
	for first := lo; first < hi; first += p.keyBlock {
		p.step(blocks, first, min(p.keyBlock, hi-first), hi)
	}
	for i := range blocks {
		if b := &blocks[i]; !b.started { // nothing divided by nothing
			for q := range b.inverse {
				b.inverse[q] = float32(math.Inf(1))
			}
			b.average(nil, 0, 0, true)
		}
	}
}

// newBlock prepares a block of queries, of which p.first + q is the first.
func (p *attentionPart) newBlock(q, queries int) attentionBlock {
	args := p.args
	columns := roundUp(queries, p.set.attention.vec)
	b := attentionBlock{attentionPart: p, first: p.first + q, queries: queries, columns: columns, q: p.take(roundUp(p.Size, 2) * columns),
		highest: p.take(columns), sum: p.take(columns), scale: p.take(columns), inverse: p.take(columns)}
	b.out = args.Out[p.batch*args.OutStride.Batch+p.head*args.OutStride.Head+b.first*args.OutStride.Seq:]
	if queries < columns {
		clear(b.q)
	}
	if from := p.q[q*args.QStride.Seq:]; p.apart { // as they are
		p.set.copy2D(b.q, p.Size, 1, from, args.QStride.Seq, 1, queries, p.Size)
	} else {
		p.set.copy2D(b.q, columns, 1, from, 1, args.QStride.Seq, p.Size, queries)
	}
	b.multiply(b.q[:p.Size*columns], p.before)
	if p.pairs {
		b.transposed = p.take(p.ValueSize * columns)
		p.set.pairRows(b.q, b.q, p.Size, columns)
	}
	startSoftmax(b.highest, b.sum)
	return b
}

// multiply multiplies x by a number.
func (b *attentionBlock) multiply(x []float32, by float32) {
	if by != 1 {
		b.scale[0] = by
		b.set.BinaryRows(Mul, x, 0, Rows{x, 0, 1}, Rows{b.scale, 0, 0}, 1, len(x))
	}
}

// step takes n keys from first on, of those before hi, into all blocks of queries.
func (p *attentionPart) step(blocks []attentionBlock, first, n, hi int) {
	// Rows that are apart, often by a power of two, share few sets of the cache, and have a page each.
	gather := func(to, from []float32, row, cols, width int) (rows []float32, stride int) {
		from = from[first*row:]
		if !p.pairs && cols == width && (row == cols || len(blocks) == 1) {
			return from, row
		}
		p.set.copy2D(to, width, 1, from, row, 1, n, cols)
		return to, width
	}
	keys, keyRow := gather(p.keys, p.k, p.args.KStride.Seq, p.Size, p.Size)
	width := p.valueRow()
	if p.pairs {
		width = p.ValueSize
	}
	values, valueRow := gather(p.values, p.v, p.args.VStride.Seq, p.ValueSize, width)
	if p.pairs {
		p.pairKeys(n)
	}
	for i := range blocks {
		b := &blocks[i]
		blockLo, blockHi := p.args.visible(b.first, b.queries, p.Keys)
		if first >= blockHi || first+n <= blockLo {
			continue
		}
		b.score(keys, keyRow, n)
		b.mask(first, n)
		p.set.softmaxStep(pointer(p.scores), n, b.columns, p.by, pointer(b.highest), pointer(b.sum), pointer(b.scale), pointer(b.inverse))
		b.average(values, valueRow, n, first+n >= min(hi, blockHi))
		b.started = true
	}
}

// score computes the products of n keys with the queries: scores = K·Qᵀ.
func (b *attentionBlock) score(keys []float32, keyRow, n int) {
	switch {
	case b.pairs:
		b.scorePairs(n)
	case b.apart:
		clear(b.scores[:n*b.columns])
		for q := range b.queries {
			b.set.dots(b.scores[q:], b.columns, keys[q*b.args.keyApart:], keyRow, b.q[q*b.Size:], n, b.Size)
		}
	default:
		b.set.multiply(&attentionProduct{m: n, n: b.columns, k: b.Size, a: keys, aRow: keyRow, aCol: 1, b: b.q, bRow: b.columns,
			c: b.scores, cRow: b.columns})
	}
	if b.args.Softcap != 0 {
		scores := b.scores[:n*b.columns]
		b.set.Unary(Unary{Op: Tanh}, scores, scores)
		b.multiply(scores, b.args.Softcap)
	}
}

// average adds the values of n keys, weighted by the scores, to the result: out = out·scale + scoresᵀ·V. After the last ones it
// divides by the sums.
func (b *attentionBlock) average(values []float32, valueRow, n int, last bool) {
	if last && (b.args.NaNGuard || b.Keys == 0) {
		for q, sum := range b.sum {
			if sum == 0 {
				b.inverse[q] = 0
			}
		}
	}
	if b.pairs {
		b.averagePairs(n, last)
		return
	}
	product := attentionProduct{m: b.queries, n: b.ValueSize, k: n, a: b.scores, aRow: 1, aCol: b.columns, b: values, bRow: valueRow,
		c: b.out, cRow: b.args.OutStride.Seq}
	if b.started {
		product.scale = b.scale
	}
	if last {
		product.factor = b.inverse
	}
	if !b.apart {
		b.set.multiply(&product)
		return
	}
	product.m = 1
	for range b.queries {
		b.set.multiply(&product)
		product.a, product.b, product.c = product.a[1:], from(product.b, b.args.valueApart), from(product.c, product.cRow)
		product.scale, product.factor = from(product.scale, 1), from(product.factor, 1)
	}
}
