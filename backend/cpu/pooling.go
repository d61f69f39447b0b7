package cpu

import (
	"math"
	"unsafe"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Pools are sums and maxima of rows of channels.

const (
	// poolAxes is the most spatial axes.
	poolAxes = 3
	// poolTaps is the most elements of a window: Eval looks at the deadline within larger ones.
	poolTaps = 1 << 12
)

// isPool reports whether rows are summed, or compared, under that window.
func isPool(w ir.Window, n *ir.Node) bool {
	return n.Inputs[0].Type.DType == tensor.F32 && isSmall(w)
}

// isSmall reports whether a window has few axes and elements, which are not far apart.
func isSmall(w ir.Window) bool {
	taps := 1
	for _, k := range w.Kernel {
		taps = min(k, poolTaps+1) * min(taps, poolTaps+1)
	}
	return len(w.Kernel) <= poolAxes && taps <= poolTaps && w.Extent(len(w.Kernel)-1) <= poolTaps
}

// averagePoolEntry runs means under a window.
func (d *processor) averagePoolEntry() entry {
	return entry{
		Supports: func(n *ir.Node) bool { return isPool(n.Op.(ops.AveragePool).Window, n) },
		Scratch:  func(n *ir.Node) []int64 { return d.poolScratch(n.Op.(ops.AveragePool).Window, n) },
		Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
			op := n.Op.(ops.AveragePool)
			x, y, p, set, add := in[0], out[0], planPool(op.Window, n), b.d.set, combineFloats(b.d.set, kernel.Add)
			return p.step(b, func(m *machine, r poolRow) {
				d, src := y.f32(m), x.f32(m)
				combineRow(p, r, d, src, 0, 0, add)
				p.spans(r, func(s poolSpan) {
					count := len(r.rows) * s.taps
					if count == 0 {
						return // zero
					}
					if op.CountIncludePad {
						count = r.padded * s.padded
					}
					into := d[(r.to+s.position)*p.channels:][:s.positions*p.channels]
					share, all := [1]float32{float32(1 / float64(count))}, [1]float32{}
					set.BinaryRows(kernel.Mul, into, 0, kernel.Rows{Data: into, Col: 1}, kernel.Rows{Data: share[:]}, 1, len(into))
					if set.ReduceRows(kernel.ReduceSum, all[:], into, 0, 1, len(into)); all[0]-all[0] == 0 {
						return
					}
					p.elementsOf(r, s, func(to int, taps poolElements) { // a sum was infinite, of which the mean may be finite
						sum := 0.0
						for i := range taps.all {
							sum += float64(src[i])
						}
						d[to] = float32(sum / float64(count))
					})
				})
			}), nil
		},
	}
}

// maxPoolEntry runs the largest elements under a window, of bytes too if their indices are not used.
func (d *processor) maxPoolEntry() entry {
	return entry{
		Supports: func(n *ir.Node) bool {
			w := n.Op.(ops.MaxPool).Window
			return isPool(w, n) || is8Bit(n.Inputs[0].Type.DType) && len(n.Outputs) == 1 && isSmall(w)
		},
		Scratch: func(n *ir.Node) []int64 { return d.poolScratch(n.Op.(ops.MaxPool).Window, n) },
		Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
			op := n.Op.(ops.MaxPool)
			x, y, p := in[0], out[0], planPool(op.Window, n)
			if len(out) == 2 {
				return p.step(b, func(m *machine, r poolRow) {
					p.largest(r, y.f32(m), x.f32(m), elements[int64](m, &out[1]), op)
				}), nil
			}
			if is8Bit(x.dtype) {
				larger, least := combineBytes(b.d.set, x.dtype == tensor.I8), uint8(0)
				if x.dtype == tensor.I8 {
					least = 0x80
				}
				return p.step(b, func(m *machine, r poolRow) { combineRow(p, r, y.bytes(m), x.bytes(m), least, least, larger) }), nil
			}
			larger, none, least := combineFloats(b.d.set, kernel.Max), float32(math.Inf(-1)), float32(op.Least(tensor.F32))
			return p.step(b, func(m *machine, r poolRow) { combineRow(p, r, y.f32(m), x.f32(m), none, least, larger) }), nil
		},
	}
}

// A combiner makes the sums, or the larger, of rows of cols elements, which are aRow and bRow apart, and writes them dstRow apart. dst may
// be a.
type combiner[T any] func(dst []T, dstRow int, a []T, aRow int, b []T, bRow, rows, cols int)

func combineFloats(set *kernel.Set, op kernel.BinaryOp) combiner[float32] {
	return func(dst []float32, dstRow int, a []float32, aRow int, b []float32, bRow, rows, cols int) {
		x, y := kernel.Rows{Data: a, Row: aRow, Col: 1}, kernel.Rows{Data: b, Row: bRow, Col: 1}
		set.BinaryRows(op, dst, dstRow, x, y, rows, cols)
	}
}

func combineBytes(set *kernel.Set, signed bool) combiner[uint8] {
	return func(dst []uint8, dstRow int, a []uint8, aRow int, b []uint8, bRow, rows, cols int) {
		for r := range rows {
			set.MaxBytes(dst[r*dstRow:][:cols], a[r*aRow:], b[r*bRow:], signed)
		}
	}
}

// combineRow combines what windows meet: first the rows of x, with none around them, and then neighbours along the last axis. It writes
// empty where a window is in the padding alone.
func combineRow[T tensor.Element](p *poolPlan, r poolRow, d, x []T, none, empty T, combine combiner[T]) {
	into := d[(r.to+r.first)*p.channels : (r.to+r.last)*p.channels]
	if len(r.rows) == 0 {
		fill(into, empty)
		return
	}
	last := len(p.to) - 1
	first := r.first*p.Strides[last] - p.before[last]
	room := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(r.room))), p.meets(r.last-r.first)*p.channels)
	lo, hi := kernel.Meets(first, 1, len(room)/p.channels, p.from[last])
	for i := range lo * p.channels {
		room[i] = none
	}
	for i := hi * p.channels; i < len(room); i++ {
		room[i] = none
	}
	row := room[lo*p.channels : hi*p.channels]
	from := func(i int) []T { return x[r.rows[i]+(first+lo)*p.channels:][:len(row)] }
	if len(r.rows) == 1 {
		copy(row, from(0))
	}
	for i, best := 1, from(0); i < len(r.rows); i++ {
		combine(row, 0, best, 0, from(i), 0, 1, len(row))
		best = row
	}
	rows, cols, next := r.last-r.first, p.channels, p.next()
	if next == cols { // neighbours are one row
		rows, cols = 1, len(into)
	}
	if p.Kernel[last] == 1 {
		for i := range rows {
			copy(into[i*cols:][:cols], room[i*next:])
		}
	}
	best, bestRow := room, next
	for k := 1; k < p.Kernel[last]; k++ {
		combine(into, cols, best, bestRow, room[k*p.Dilations[last]*p.channels:], next, rows, cols)
		best, bestRow = into, cols
	}
	p.spans(r, func(s poolSpan) {
		if s.taps == 0 {
			fill(d[(r.to+s.position)*p.channels:][:s.positions*p.channels], empty)
		}
	})
}

// largest finds the largest elements of windows and where they are, the first where several are equal or NaN.
func (p *poolPlan) largest(r poolRow, d, s []float32, positions []int64, op ops.MaxPool) {
	least := float32(op.Least(tensor.F32))
	size := p.from.Elements()
	p.elements(r, func(to int, taps poolElements) {
		d[to], positions[to] = least, 0
		at := -1
		for i := range taps.all {
			if at < 0 || s[i] > s[at] || s[i] != s[i] && s[at] == s[at] {
				at = i
			}
		}
		if at < 0 {
			return
		}
		d[to] = s[at]
		image, pixel, ch := at/p.channels/size, at/p.channels%size, at%p.channels
		if op.ColumnMajor {
			pixel = ops.ColumnMajor(p.from, pixel)
		}
		positions[to] = int64((image*p.channels+ch)*size + pixel)
	})
}

// lpPoolEntry runs p-norms under a window.
func (d *processor) lpPoolEntry() entry {
	return entry{
		Supports: func(n *ir.Node) bool { return isPool(n.Op.(ops.LpPool).Window, n) },
		Scratch:  func(n *ir.Node) []int64 { return d.poolScratch(n.Op.(ops.LpPool).Window, n) },
		Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
			op, x, y := n.Op.(ops.LpPool), in[0], out[0]
			p := planPool(op.Window, n)
			power, root := norm(op.P)
			return p.step(b, func(m *machine, r poolRow) {
				d, s := y.f32(m), x.f32(m)
				p.elements(r, func(to int, taps poolElements) {
					sum := 0.0
					for i := range taps.all {
						sum += power(float64(s[i]))
					}
					d[to] = float32(root(sum))
				})
			}), nil
		},
	}
}

// norm is what is added up for a p-norm, and what becomes of the sum.
func norm(p int) (power, root func(v float64) float64) {
	switch p {
	case 1:
		return math.Abs, itself[float64]
	case 2:
		return square[float64], math.Sqrt
	}
	return func(v float64) float64 { return math.Pow(math.Abs(v), float64(p)) },
		func(v float64) float64 { return math.Pow(v, 1/float64(p)) }
}

// poolPlan is a bound pool over [N,…,C].
type poolPlan struct {
	ir.Window
	images, channels int
	from, to         tensor.Shape // spatial sizes
	before, after    []int        // padding
	rows             int          // maximum number of rows of x in a window
	taps             int          // maximum number of elements of a window along the last axis
	block            int          // number of positions of a row that are computed at a time
}

// poolBlock is how many elements of a row of x stay in the cache.
const poolBlock = 1 << 13

// A poolSpan is neighbouring positions along an axis whose windows meet as many elements: one, or such as are inside.
type poolSpan struct {
	position, positions int
	pixel               int // the first that the first window meets
	taps, padded        int // elements of the window that are inside, and with the padding
}

func planPool(w ir.Window, n *ir.Node) *poolPlan {
	x, y := n.Inputs[0].Type.Sizes(), n.Outputs[0].Type.Sizes()
	last := len(x) - 1
	p := &poolPlan{Window: w, images: x[0], channels: x[last], from: x[1:last], to: y[1:last], rows: 1, taps: 1}
	p.before, p.after = w.Padding(p.from)
	for axis, size := range p.from {
		p.rows, p.taps = p.rows*p.taps, max(1, min(w.Kernel[axis], size))
	}
	// Neighbouring blocks both read the elements by which a window is longer than its stride. So a block has at least about as many.
	last = len(p.to) - 1
	extent := w.Extent(last)
	p.block = max(1, min(p.to[last], max(extent, poolBlock/max(1, p.channels)-extent)/w.Strides[last]))
	return p
}

// meets is how many elements along the last axis that many positions meet, padding included.
func (p *poolPlan) meets(positions int) int {
	last := len(p.to) - 1
	return (positions-1)*p.Strides[last] + p.Extent(last)
}

// span is the window of a position along an axis.
func (p *poolPlan) span(axis, position int) poolSpan {
	first := position*p.Strides[axis] - p.before[axis]
	lo, hi := kernel.Meets(first, p.Dilations[axis], p.Kernel[axis], p.from[axis])
	_, end := kernel.Meets(first, p.Dilations[axis], p.Kernel[axis], p.from[axis]+p.after[axis])
	return poolSpan{position: position, positions: 1, pixel: first + lo*p.Dilations[axis], taps: hi - lo, padded: end}
}

// next is how far neighbouring positions along the last axis are apart in x.
func (p *poolPlan) next() int { return p.Strides[len(p.Strides)-1] * p.channels }

// A poolRow is the positions [first, last) of a row of the result.
type poolRow struct {
	to, first, last int   // position 0 is position to of the result
	rows            []int // the first elements of the rows of x that the windows meet
	padded          int   // their number with the padding
	room            []byte
}

// spans calls f for the positions of a row: those whose windows are inside at once, the others each.
func (p *poolPlan) spans(r poolRow, f func(s poolSpan)) {
	last := len(p.to) - 1
	for position := r.first; position < r.last; {
		s := p.span(last, position)
		if s.taps == p.Kernel[last] {
			s.positions = min((p.from[last]+p.before[last]-p.Extent(last))/p.Strides[last]+1, r.last) - position
		}
		f(s)
		position += s.positions
	}
}

// poolElements are what a window meets on one channel.
type poolElements struct {
	rows             []int
	from, taps, next int
}

// all are the elements in their order.
func (e poolElements) all(yield func(i int) bool) {
	for _, row := range e.rows {
		for k := range e.taps {
			if !yield(row + e.from + k*e.next) {
				return
			}
		}
	}
}

// elements calls f for each element of a row of the result.
func (p *poolPlan) elements(r poolRow, f func(to int, taps poolElements)) {
	p.spans(r, func(s poolSpan) { p.elementsOf(r, s, f) })
}

// elementsOf calls f for each element of a span.
func (p *poolPlan) elementsOf(r poolRow, s poolSpan, f func(to int, taps poolElements)) {
	for i := range s.positions * p.channels {
		f((r.to+s.position)*p.channels+i, poolElements{rows: r.rows, from: s.pixel*p.channels + i/p.channels*p.next() + i%p.channels,
			taps: s.taps, next: p.Dilations[len(p.to)-1] * p.channels})
	}
}

// poolScratch returns the scratch size of a pool, in bytes: for each worker a list of rows, and a row for their combination.
func (d *processor) poolScratch(w ir.Window, n *ir.Node) []int64 {
	return []int64{int64(d.Threads() * planPool(w, n).scratchBytes())}
}

func (p *poolPlan) scratchBytes() int {
	return align(8*p.rows) + align(4*p.channels*p.meets(p.block))
}

// step calls f for all blocks of rows of the result.
func (p *poolPlan) step(b *binder, f func(m *machine, r poolRow)) step {
	last := len(p.to) - 1
	perImage := p.to[:last].Elements()
	blocks := ceilDiv(p.to[last], p.block)
	count := p.images * perImage * blocks
	parts, perPart := rowParts(count, p.block*p.channels*(p.rows+p.taps))
	scratch, each := b.scratchBytes(0), p.scratchBytes()
	return step{parts: parts, run: func(m *machine, part, worker int) {
		own := scratch.bytes(m)[worker*each:][:each]
		rows := unsafe.Slice((*int)(unsafe.Pointer(&own[0])), p.rows)
		for i := part * perPart; i < min((part+1)*perPart, count); i++ {
			row, block := i/blocks, i%blocks
			r := poolRow{to: row * p.to[last], first: block * p.block, last: min((block+1)*p.block, p.to[last]), padded: 1,
				room: own[align(8*p.rows):]}
			rest, found, next, from := row, 1, p.from[last]*p.channels, 0
			rows[0] = 0
			for axis := last - 1; axis >= 0; axis-- {
				s := p.span(axis, rest%p.to[axis])
				for k := s.taps - 1; k >= 0; k-- {
					for t := range found {
						rows[k*found+t] = rows[t] + k*p.Dilations[axis]*next
					}
				}
				from += s.pixel * next
				found, r.padded = found*s.taps, r.padded*s.padded
				next, rest = next*p.from[axis], rest/p.to[axis]
			}
			r.rows = rows[:found]
			for t := range r.rows {
				r.rows[t] += from + rest*next
			}
			f(m, r)
		}
	}}
}
