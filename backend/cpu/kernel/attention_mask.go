package kernel

import (
	"math"
	"slices"
)

var negInf = float32(math.Inf(-1))

// keys returns the range of keys that n queries from first on may see, of that many keys. A nil window shows all.
func (w *Window) keys(first, n, keys int) (lo, hi int) {
	lo, hi = 0, keys
	if w != nil && w.Left >= 0 {
		lo = max(0, first+w.Offset-w.Left)
	}
	if w != nil && w.Right >= 0 {
		hi = min(keys, first+n+w.Offset+w.Right)
	}
	return lo, hi
}

// visible is the range of keys that n queries from first on may see, of that many keys.
func (args *AttentionArgs) visible(first, n, keys int) (lo, hi int) {
	w := args.Window
	if w == nil || args.KeyAt == nil {
		return w.keys(first, n, keys)
	}
	lo, hi = 0, keys
	if w.Left >= 0 {
		lo, _ = slices.BinarySearch(args.KeyAt, args.QueryAt[first]+int64(w.Offset-w.Left))
	}
	if w.Right >= 0 {
		hi, _ = slices.BinarySearch(args.KeyAt, args.QueryAt[first+n-1]+int64(w.Offset+w.Right)+1)
	}
	return lo, hi
}

// keyRange gathers the bias that all queries share and returns the range of keys that count.
func (p *attentionPart) keyRange() (lo, hi int) {
	lo, hi = p.args.visible(p.first, p.queries, p.Keys)
	if lo >= hi {
		return lo, hi
	}
	p.shareBias()
	if p.args.Window != nil || p.keyBias == nil || p.perQuery() {
		return lo, hi // what is the best key for one query may be hidden from another
	}
	return p.trim()
}

// perQuery reports whether bias, mask or relative positions distinguish queries.
func (p *attentionPart) perQuery() bool {
	args := p.args
	return args.ByQuery.Scores != nil || args.ByKey.Scores != nil || args.Mask != nil && args.MaskStride.Query != 0 || args.Bias != nil &&
		args.BiasStride.Query != 0
}

// shareBias gathers what bias and mask add to the scores of all queries alike: what has no stride along the queries. Where
// that is nothing, as without padding, keyBias becomes nil.
func (p *attentionPart) shareBias() {
	args, gathered := p.args, p.keyBias
	p.keyBias = nil
	if args.Bias != nil && args.BiasStride.Query == 0 {
		bias, stride := args.Bias[p.at(args.BiasStride, 0, 0):], args.BiasStride.Key
		for k := range gathered {
			gathered[k] = bias[args.keyAt(k)*stride]
			if gathered[k] != 0 {
				p.keyBias = gathered
			}
		}
	}
	if args.Mask != nil && args.MaskStride.Query == 0 {
		if p.keyBias == nil {
			clear(gathered)
		}
		mask, stride := args.Mask[p.at(args.MaskStride, 0, 0):], args.MaskStride.Key
		for k := range gathered {
			if mask[args.keyAt(k)*stride] == 0 {
				gathered[k] = negInf
				p.keyBias = gathered
			}
		}
	}
}

// keyAt is the position of key k along the axes of bias and mask.
func (args *AttentionArgs) keyAt(k int) int {
	if args.KeyAt == nil {
		return k
	}
	return int(args.KeyAt[k])
}

// trim leaves out masked keys at both ends whose weight is zero in float32 whatever the query says: those whose bias is
// so far below another key's that no product of the queries and keys at hand can make up for it. Where all keys are
// masked alike none is left out.
func (p *attentionPart) trim() (lo, hi int) {
	const zeroBelow = -104 // e^x is 0 in float32
	lo, hi = 0, p.Keys
	p.set.ReduceRows(ReduceMax, p.norms, p.keyBias, 0, 1, p.Keys)
	best := p.norms[0]
	if !(p.keyBias[0] < best+zeroBelow || p.keyBias[p.Keys-1] < best+zeroBelow) {
		return lo, hi
	}
	queryNorm := p.largest(p.q, p.args.QStride.Seq, p.queries, p.Size)
	keyNorm := p.largestOfAll(p.k, p.args.keyApart, p.args.KStride.Seq, p.Keys, p.Size)
	reach := math.Abs(float64(p.args.Scale)) * math.Sqrt(queryNorm*keyNorm)
	floor := float64(best) + zeroBelow - 2.01*reach
	for hi > lo && float64(p.keyBias[hi-1]) < floor {
		hi--
	}
	for lo < hi && float64(p.keyBias[lo]) < floor {
		lo++
	}
	// Zero times a value that is not finite is NaN: such values count.
	stride, apart := p.args.VStride.Seq, p.args.valueApart
	before := p.largestOfAll(p.v, apart, stride, lo, p.ValueSize)
	after := p.largestOfAll(p.v[min(len(p.v), hi*stride):], apart, stride, p.Keys-hi, p.ValueSize)
	if math.IsInf(before+after, 0) {
		return 0, p.Keys
	}
	return lo, hi
}

// largestOfAll is the largest of what all queries read, at that distance of neighbours.
func (p *attentionPart) largestOfAll(x []float32, apart, row, rows, cols int) float64 {
	most := p.largest(x, row, rows, cols)
	for q := 1; q < p.queries && apart > 0; q++ {
		most = max(most, p.largest(from(x, q*apart), row, rows, cols))
	}
	return most
}

// largest is the largest sum of squares of a row, +∞ if any element is not finite.
func (p *attentionPart) largest(x []float32, row, rows, cols int) float64 {
	if rows == 0 {
		return 0
	}
	largest := 0.0
	for done := 0; done < rows; done += len(p.norms) {
		n := min(len(p.norms), rows-done)
		p.set.ReduceRows(ReduceSumSquares, p.norms, x[done*row:], row, n, cols)
		for _, norm := range p.norms[:n] {
			if norm != norm {
				return math.Inf(1)
			}
			largest = max(largest, float64(norm))
		}
	}
	return largest
}

// mask adds bias and masks to the scores of n keys.
func (b *attentionBlock) mask(first, n int) {
	args := b.args
	if b.keyBias != nil {
		if bias := b.keyBias[first:][:n]; slices.ContainsFunc(bias, func(x float32) bool { return x != 0 }) {
			b.set.BinaryRows(Add, b.scores, b.columns, Rows{b.scores, b.columns, 1}, Rows{bias, 1, 0}, n, b.columns)
		}
	}
	if args.Bias != nil && args.BiasStride.Query != 0 {
		at, stride := b.at(args.BiasStride, 0, 0), args.BiasStride
		if args.KeyAt == nil {
			at += b.first*stride.Query + first*stride.Key
			b.set.copy2D(b.extra, b.columns, 1, args.Bias[at:], stride.Key, stride.Query, n, b.queries)
		} else {
			for k, key := range args.KeyAt[first:][:n] {
				row, bias := b.extra[k*b.columns:][:b.queries], args.Bias[at+int(key)*stride.Key:]
				for q, query := range args.QueryAt[b.first:][:b.queries] {
					row[q] = bias[int(query)*stride.Query]
				}
			}
		}
		b.set.BinaryRows(Add, b.scores, b.columns, Rows{b.scores, b.columns, 1}, Rows{b.extra, b.columns, 1}, n, b.queries)
	}
	if args.ByQuery.Scores != nil || args.ByKey.Scores != nil {
		b.relative(first, n)
	}
	if args.Mask != nil && args.MaskStride.Query != 0 {
		at, stride := b.at(args.MaskStride, 0, 0), args.MaskStride
		for k := range n {
			row, mask := b.scores[k*b.columns:][:b.queries], args.Mask[at+args.keyAt(first+k)*stride.Key:]
			for q := range row {
				if mask[args.queryAt(b.first+q)*stride.Query] == 0 {
					row[q] = negInf
				}
			}
		}
	}
	if args.Window != nil {
		b.window(first, n)
	}
}

// relative adds the scores by relative position of n keys.
func (b *attentionBlock) relative(first, n int) {
	args := b.args
	for k := first; k < first+n; k++ {
		row, key := b.scores[(k-first)*b.columns:][:b.queries], args.keyAt(k)
		if r := &args.ByQuery; r.Scores != nil {
			for q := range row {
				row[q] += r.of(b.head, b.first+q)[r.at(args.queryAt(b.first+q), key)]
			}
		}
		if r := &args.ByKey; r.Scores != nil {
			own := r.of(b.head, k)
			for q := range row {
				row[q] += own[r.at(key, args.queryAt(b.first+q))]
			}
		}
	}
}

// of are the scores of a token.
func (r *RelativeScores) of(head, token int) []float32 {
	return r.Scores[head*r.Head+token*r.N:][:r.N]
}

// at is the score for the position of a token and another position.
func (r *RelativeScores) at(own, other int) int {
	i := int(r.Index[own*r.IndexRow+other])
	if i < 0 {
		i += r.N
	}
	return i
}

// queryAt is the position of query q along the axes of bias and mask.
func (args *AttentionArgs) queryAt(q int) int {
	if args.QueryAt == nil {
		return q
	}
	return int(args.QueryAt[q])
}

// at is the position of a query and a key in a bias or mask.
func (p *attentionPart) at(stride MaskStride, query, key int) int {
	return p.batch*stride.Batch + p.head*stride.Head + query*stride.Query + key*stride.Key
}

// window sets the scores outside the band to -∞. Key k is seen by a run of queries around the one on whose diagonal
// it is.
func (b *attentionBlock) window(first, n int) {
	w := b.args.Window
	if b.args.KeyAt != nil {
		b.windowAt(first, n)
		return
	}
	for k := range n {
		row := b.scores[k*b.columns:][:b.queries]
		diagonal := first + k - w.Offset - b.first
		lo, hi := 0, b.queries
		if w.Right >= 0 {
			lo = min(hi, max(lo, diagonal-w.Right))
		}
		if w.Left >= 0 {
			hi = max(lo, min(hi, diagonal+w.Left+1))
		}
		for q := range row {
			if q < lo || q >= hi {
				row[q] = negInf
			}
		}
	}
}

// windowAt does so for queries and keys at separate positions.
func (b *attentionBlock) windowAt(first, n int) {
	w := b.args.Window
	for k, key := range b.args.KeyAt[first:][:n] {
		row := b.scores[k*b.columns:][:b.queries]
		for q, query := range b.args.QueryAt[b.first:][:b.queries] {
			if ahead := int(key-query) - w.Offset; w.Right >= 0 && ahead > w.Right || w.Left >= 0 && -ahead > w.Left {
				row[q] = negInf
			}
		}
	}
}
