package cpu

import (
	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Resizing mixes whole rows first, along all axes but the last that changes, then along that one, so that what is in between is
// some rows of one worker.

const (
	// resizedAxes is the most axes that may change: the taps of a row are a product.
	resizedAxes = 3
	// resizeBlock is about how many elements are in between, and resizeRows how many rows at most; there are resizeParts if there are rows.
	resizeBlock = 32 << 10
	resizeRows  = 64
	resizeParts = 16
)

// resizeEntry runs resizing of float32.
func (d *processor) resizeEntry() entry {
	return entry{
		Supports: func(n *ir.Node) bool {
			op, x, changed := n.Op.(ops.Resize), n.Inputs[0].Type, 0
			for axis := range x.Shape {
				if !op.Keeps(axis, x.Shape) {
					changed++
				}
			}
			return x.DType == tensor.F32 && !op.Antialias && changed <= resizedAxes
		},
		StridedResult: func(n *ir.Node, strides []int) bool {
			p := planResize(n)
			return p.beforeLast(len(strides)) && p.inner >= narrow && rowsApart(n, strides)
		},
		Scratch: func(n *ir.Node) []int64 {
			p := planResize(n)
			return []int64{int64(d.Threads() * align(p.size().Bytes()))}
		},
		Bind: bindResize,
	}
}

// resizePlan is a bound resizing: outer and inner elements stay as they are, lead axes and the last one change between them.
type resizePlan struct {
	op                 ops.Resize
	first              int    // the first lead axis
	from, to           []int  // sizes of the lead axes, before and after
	same               []bool // whether the size of each lead axis, and of the last axis, stays the same
	wide, positions    int    // sizes of the last axis, before and after
	outer, inner       int
	column             int // distance between neighbouring positions of the result, in elements
	rows, perBlock     int // number of rows of positions over all lead axes, and of rows in a block
	leadTaps, lastTaps int
	outside            float32
}

func planResize(n *ir.Node) resizePlan {
	op, x, y := n.Op.(ops.Resize), n.Inputs[0].Type.Sizes(), n.Outputs[0].Type.Sizes()
	op.Shape = ir.Dims(y...)
	keeps := func(axis int) bool { return op.Keeps(axis, ir.Dims(x...)) }
	first, last := len(x), -1
	for axis := range x {
		if !keeps(axis) {
			first, last = min(first, axis), axis
		}
	}
	if last < 0 { // nothing changes: one axis that maps to itself, or none
		first, last = len(x)-1, len(x)-1
	}
	p := resizePlan{op: op, first: first, wide: 1, positions: 1, outer: 1, inner: 1, leadTaps: 1, lastTaps: 1,
		outside: float32(op.Extrapolation)}
	if last >= 0 {
		p.outer, p.inner = x[:first].Elements(), x[last+1:].Elements()
		p.from, p.to, p.wide, p.positions = x[first:last], y[first:last], x[last], y[last]
		p.column = p.inner
		for axis := first; axis < last; axis++ {
			p.same = append(p.same, keeps(axis))
			if !keeps(axis) {
				p.leadTaps *= op.Taps(axis, x[axis], y[axis])
			}
		}
		p.lastTaps = op.Taps(last, x[last], y[last])
	}
	p.same = append(p.same, last < 0 || keeps(last))
	p.rows = p.outer * tensor.Shape(p.to).Elements()
	p.perBlock = min(max(1, resizeBlock/max(p.wide*p.inner, 1)), resizeRows, max(1, p.rows/resizeParts))
	return p
}

// beforeLast reports whether the last axis that changes is the last but one of that many.
func (p *resizePlan) beforeLast(rank int) bool { return p.first+len(p.from) == rank-2 }

// mixTaps is the most taps along an axis, which are those of a cubic kernel.
const mixTaps = 4

// mixOf appends the neighbours of a position along an axis, with their weights. Axis len(p.from) is the last one.
func (p *resizePlan) mixOf(m ops.Mix, axis, position int) ops.Mix {
	switch {
	case p.same[axis]:
		return append(m, ops.Neighbour{At: position, Weight: 1})
	case axis < len(p.from):
		return p.op.Mix(m, p.first+axis, p.from[axis], p.to[axis], position)
	}
	return p.op.Mix(m, p.first+axis, p.wide, p.positions, position)
}

// between is the number of elements that are in between: none where rows are read as they are.
func (p *resizePlan) between() int {
	if len(p.from) == 0 {
		return 0
	}
	return p.perBlock * p.wide * p.inner
}

func (p *resizePlan) size() kernel.MixerSize {
	taps := max(p.leadTaps, p.lastTaps)
	z := kernel.MixerSize{Taps: taps, Rows: p.between()}
	if p.inner < narrow {
		z.Taps = max(taps, p.lastTaps*min(p.positions, narrowPositions))
	}
	return z
}

func bindResize(b *binder, n *ir.Node, in, out []operand) (step, error) {
	x, y, p := in[0], out[0], planResize(n)
	if p.beforeLast(len(y.shape)) {
		p.column = rowStride(&y)
	}
	if x.len() == 0 { // everything is outside
		return step{parts: 1, run: func(m *machine, _, _ int) {
			fill(y.f32(m), p.outside)
		}}, nil
	}
	scratch, each, set := b.scratchBytes(0), align(p.size().Bytes()), b.d.set
	return step{parts: ceilDiv(p.rows, p.perBlock), run: func(m *machine, part, worker int) {
		k := kernel.NewMixer(scratch.bytes(m)[worker*each:][:each], p.size())
		lo, hi := part*p.perBlock, min((part+1)*p.perBlock, p.rows)
		p.block(set, &k, y.f32(m)[lo*p.positions*p.column:], x.f32(m), lo, hi)
	}}, nil
}

// block computes rows [lo, hi) of positions to dst.
func (p *resizePlan) block(set *kernel.Set, k *kernel.Mixer, dst, x []float32, lo, hi int) {
	from := p.wide * p.inner
	src := k.Rows
	if len(p.from) == 0 {
		src = x[lo*from:]
	}
	var outside [resizeRows]bool
	for row := lo; row < hi && len(p.from) > 0; row++ {
		outside[row-lo] = !p.mixLead(set, k, src[(row-lo)*from:][:from], x, row)
	}
	if p.inner < narrow {
		p.mixNarrow(k, dst, src, hi-lo)
	} else {
		p.mixPositions(set, k, dst, src, hi-lo)
	}
	for row, is := range outside[:hi-lo] {
		if is {
			for position := range p.positions {
				fill(dst[(row*p.positions+position)*p.column:][:p.inner], p.outside)
			}
		}
	}
}

// mixLead mixes one row along all axes but the last. It returns false, and zeros, where the row is outside.
func (p *resizePlan) mixLead(set *kernel.Set, k *kernel.Mixer, dst, x []float32, row int) bool {
	stride, taps := len(dst), 1
	k.Offsets[0], k.Scalars[0] = 0, 1
	var buffer [mixTaps]ops.Neighbour
	for axis := len(p.from) - 1; axis >= 0; axis-- {
		mix := p.mixOf(buffer[:0], axis, row%p.to[axis])
		if row /= p.to[axis]; len(mix) == 0 {
			clear(dst)
			return false
		}
		for i := len(mix) - 1; i >= 0; i-- { // the first goes last: it replaces what there was
			for t := range taps {
				k.Offsets[i*taps+t] = k.Offsets[t] + 4*stride*mix[i].At
				k.Scalars[i*taps+t] = k.Scalars[t] * float32(mix[i].Weight)
			}
		}
		taps *= len(mix)
		stride *= p.from[axis]
	}
	cols := min(len(dst), kernel.MixBlock)
	for t, w := range k.Scalars[:taps] {
		k.Weigh(t, w, cols)
	}
	blocks, rest := len(dst)/cols, len(dst)%cols
	src := x[row*stride:]
	k.Sum(set, dst, cols, src, cols, taps, blocks, cols)
	if rest > 0 {
		k.Sum(set, dst[blocks*cols:], 0, src[blocks*cols:], 0, taps, 1, rest)
	}
	return true
}

// narrow is the number of elements of a position below which they are mixed one by one.
const narrow = 8

// mixPositions mixes rows along the last axis, one position of all rows at a time.
func (p *resizePlan) mixPositions(set *kernel.Set, k *kernel.Mixer, dst, src []float32, rows int) {
	var buffer [mixTaps]ops.Neighbour
	for position := range p.positions {
		mix, at := p.mixOf(buffer[:0], len(p.from), position), dst[position*p.column:]
		if len(mix) == 0 {
			for row := range rows {
				fill(at[row*p.positions*p.column:][:p.inner], p.outside)
			}
			continue
		}
		for t, m := range mix {
			k.Offsets[t] = 4 * p.inner * m.At
			k.Weigh(t, float32(m.Weight), min(p.inner, kernel.MixBlock))
		}
		k.Sum(set, at, p.positions*p.column, src, p.wide*p.inner, len(mix), rows, p.inner)
	}
}

// narrowPositions is the number of positions whose neighbours and weights are computed once for all rows.
const narrowPositions = 256

// mixNarrow does the same without a kernel's call for a few elements.
func (p *resizePlan) mixNarrow(k *kernel.Mixer, dst, src []float32, rows int) {
	from, to, taps := p.wide*p.inner, p.positions*p.inner, p.lastTaps
	var buffer [mixTaps]ops.Neighbour
	for first := 0; first < p.positions; first += narrowPositions {
		count := min(narrowPositions, p.positions-first)
		for i := range count {
			mix, at := p.mixOf(buffer[:0], len(p.from), first+i), k.Offsets[i*taps:][:taps]
			for t := range at {
				if at[t] = -1; t < len(mix) { // there may be fewer at the ends
					at[t], k.Scalars[i*taps+t] = mix[t].At*p.inner, float32(mix[t].Weight)
				}
			}
		}
		at, w := k.Offsets[:count*taps], k.Scalars[:count*taps]
		for row := range rows {
			s, d := src[row*from:][:from], dst[row*to+first*p.inner:][:count*p.inner]
			if p.inner == 1 && taps == 2 {
				mixPairs(d, s, at, w, p.outside)
				continue
			}
			for i := range d {
				position := i / p.inner
				d[i] = mixed(s[i-position*p.inner:], at[position*taps:][:taps], w[position*taps:][:taps], p.outside)
			}
		}
	}
}

// mixPairs computes elements of two others each, of which a lacking one has no offset.
func mixPairs(dst, src []float32, at []int, w []float32, outside float32) {
	for i := range dst {
		o, w := (*[2]int)(at[2*i:]), (*[2]float32)(w[2*i:])
		if o[1] < 0 {
			dst[i] = mixed(src, o[:], w[:], outside)
			continue
		}
		dst[i] = w[0]*src[o[0]] + w[1]*src[o[1]]
	}
}

// mixed is an element of the others at some offsets, or is outside.
func mixed(src []float32, at []int, w []float32, outside float32) float32 {
	if at[0] < 0 {
		return outside
	}
	sum := float32(0)
	for t, o := range at {
		if o < 0 {
			break
		}
		sum += w[t] * src[o]
	}
	return sum
}
