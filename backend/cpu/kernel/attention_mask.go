package kernel

import "math"

var negInf = float32(math.Inf(-1))

// shareBias gathers what bias and mask add to the scores of all queries alike: what has no stride along the queries.
func (p *attentionPart) shareBias() {
	args := p.args
	bias := args.Bias != nil && args.BiasStride.Query == 0
	mask := args.Mask != nil && args.MaskStride.Query == 0
	if !bias && !mask {
		p.keyBias = nil
		return
	}
	clear(p.keyBias)
	if bias {
		p.set.copy2D(p.keyBias, 1, 1, args.Bias[p.at(args.BiasStride, 0):], args.BiasStride.Key, args.BiasStride.Key, 1, p.Keys)
	}
	if mask {
		at := p.at(args.MaskStride, 0)
		for k := range p.keyBias {
			if args.Mask[at+k*args.MaskStride.Key] == 0 {
				p.keyBias[k] = negInf
			}
		}
	}
}

// trim gives the range of keys that count. It leaves out keys outside the window, and masked keys at both ends whose
// weight is zero in float32 whatever the query says: those whose bias is so far below another key's that no
// product of the queries and keys at hand can make up for it. Where all keys are masked alike none is left out.
func (p *attentionPart) trim(q, keys, values []float32) (lo, hi int) {
	const zeroBelow = -104 // e^x is 0 in float32
	lo, hi = 0, p.Keys
	if w := p.args.Window; w != nil {
		if w.Left >= 0 {
			lo = max(0, p.query+w.Offset-w.Left)
		}
		if w.Right >= 0 {
			hi = min(hi, p.query+p.queries+w.Offset+w.Right)
		}
		return lo, hi // the best key of one query may be outside the window of another
	}
	if p.keyBias == nil || p.args.Mask != nil && p.args.MaskStride.Query != 0 || p.args.Bias != nil && p.args.BiasStride.Query != 0 {
		return lo, hi
	}
	p.set.ReduceRows(ReduceMax, p.scale, p.keyBias, 0, 1, p.Keys)
	best := p.scale[0]
	if !(p.keyBias[0] < best+zeroBelow || p.keyBias[p.Keys-1] < best+zeroBelow) {
		return lo, hi
	}
	reach := float64(p.args.Scale) * math.Sqrt(p.largest(q, p.args.QStride.Seq, p.queries, p.Size)*p.largest(keys, p.args.KStride.Seq, p.Keys, p.Size))
	floor := float64(best) + zeroBelow - 2.01*math.Abs(reach)
	for hi > lo && float64(p.keyBias[hi-1]) < floor {
		hi--
	}
	for lo < hi && float64(p.keyBias[lo]) < floor {
		lo++
	}
	// Zero times a value that is not finite is NaN: such values count.
	stride := p.args.VStride.Seq
	before := p.largest(values, stride, lo, p.ValueSize)
	behind := p.largest(values[min(len(values), hi*stride):], stride, p.Keys-hi, p.ValueSize)
	if math.IsInf(before+behind, 0) {
		return 0, p.Keys
	}
	return lo, hi
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

// mask adds to the scores of n keys what is not the same for all queries.
func (p *attentionPart) mask(first, n int) {
	args := p.args
	if args.Bias != nil && args.BiasStride.Query != 0 {
		at, stride := p.at(args.BiasStride, first), args.BiasStride
		p.set.copy2D(p.extra, p.columns, 1, args.Bias[at:], stride.Key, stride.Query, n, p.queries)
		p.set.BinaryRows(Add, p.scores, p.columns, Rows{p.scores, p.columns, 1}, Rows{p.extra, p.columns, 1}, n, p.queries)
	}
	if args.Mask != nil && args.MaskStride.Query != 0 {
		at, stride := p.at(args.MaskStride, first), args.MaskStride
		for k := range n {
			row := p.scores[k*p.columns:][:p.queries]
			for q := range row {
				if args.Mask[at+k*stride.Key+q*stride.Query] == 0 {
					row[q] = negInf
				}
			}
		}
	}
	if args.Window != nil {
		p.window(first, n)
	}
}

// at is the place of the first query and of a key in a bias or mask.
func (p *attentionPart) at(stride MaskStride, key int) int {
	return p.batch*stride.Batch + p.head*stride.Head + p.query*stride.Query + key*stride.Key
}

// window sets the scores outside the band to -∞. Key k is seen by a run of queries around the one on whose diagonal
// it lies.
func (p *attentionPart) window(first, n int) {
	w := p.args.Window
	for k := range n {
		row := p.scores[k*p.columns:][:p.queries]
		diagonal := first + k - w.Offset - p.query
		lo, hi := 0, p.queries
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
