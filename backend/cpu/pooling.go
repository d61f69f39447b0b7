package cpu

import (
	"math"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Pools that are no slices of their operand (lower/patches.go) are sums and maxima of rows of channels.

const (
	// poolAxes is the most spatial axes.
	poolAxes = 3
	// poolTaps is the most elements of a window: Eval looks at the deadline within larger ones.
	poolTaps = 1 << 12
)

// isPool reports whether rows of channels are summed, or compared, under that window.
func isPool(w ir.Window, n *ir.Node) bool {
	taps := 1
	for _, k := range w.Kernel {
		taps = min(k, poolTaps+1) * min(taps, poolTaps+1)
	}
	return n.Inputs[0].Type.DType == tensor.F32 && len(w.Kernel) <= poolAxes && taps <= poolTaps
}

// averagePoolEntry runs means under a window.
func (d *processor) averagePoolEntry() entry {
	return entry{
		Supports: func(n *ir.Node) bool {
			return isPool(n.Op.(ops.AveragePool).Window, n)
		},
		Scratch: func(n *ir.Node) []int64 {
			p := planPool(n.Op.(ops.AveragePool).Window, n)
			return []int64{int64(d.Threads() * align(p.size().Bytes()))}
		},
		Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
			op := n.Op.(ops.AveragePool)
			x, y, p := in[0], out[0], planPool(op.Window, n)
			scratch, each, set := b.scratchBytes(0), align(p.size().Bytes()), b.d.set
			parts, perPart := p.parts()
			return step{parts: parts, run: func(m *machine, part, worker int) {
				k := kernel.NewMixer(scratch.bytes(m)[worker*each:][:each], p.size())
				d, s := y.f32(m), x.f32(m)
				p.run(part, perPart, k.Offsets, func(w poolWindow) {
					count := w.taps
					if op.CountIncludePad {
						count = w.padded
					}
					into := d[w.to:][:w.positions*p.channels]
					if w.taps == 0 {
						clear(into)
						return
					}
					k.Weigh(0, float32(1/float64(count)), min(p.channels, kernel.MixBlock))
					k.Sum(set, into, p.channels, s[w.from:], p.next(), w.taps, 0, w.positions, p.channels)
				})
			}}, nil
		},
	}
}

// maxPoolEntry runs the largest elements under a window.
func (d *processor) maxPoolEntry() entry {
	return entry{
		Supports: func(n *ir.Node) bool {
			return isPool(n.Op.(ops.MaxPool).Window, n)
		},
		Scratch: func(n *ir.Node) []int64 {
			p := planPool(n.Op.(ops.MaxPool).Window, n)
			return []int64{int64(d.Threads() * align(p.size().Bytes()))}
		},
		Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
			x, y, p := in[0], out[0], planPool(n.Op.(ops.MaxPool).Window, n)
			scratch, each, set := b.scratchBytes(0), align(p.size().Bytes()), b.d.set
			parts, perPart := p.parts()
			if len(out) == 2 {
				columns := n.Op.(ops.MaxPool).ColumnMajor
				return step{parts: parts, run: func(m *machine, part, worker int) {
					offsets := kernel.NewMixer(scratch.bytes(m)[worker*each:][:each], p.size()).Offsets
					d, s, positions := y.f32(m), x.f32(m), elements[int64](m, &out[1])
					p.run(part, perPart, offsets, func(w poolWindow) { p.largest(w, offsets[:w.taps], d, s, positions, columns) })
				}}, nil
			}
			return step{parts: parts, run: func(m *machine, part, worker int) {
				offsets := kernel.NewMixer(scratch.bytes(m)[worker*each:][:each], p.size()).Offsets
				d, s := y.f32(m), x.f32(m)
				p.run(part, perPart, offsets, func(w poolWindow) {
					into := d[w.to:][:w.positions*p.channels]
					if w.taps == 0 {
						clear(into) // padding alone, as Eval has it
					}
					best := kernel.Rows{Data: into, Row: p.channels, Col: 1}
					for i, o := range offsets[:w.taps] {
						tap := kernel.Rows{Data: s[w.from+o/4:], Row: p.next(), Col: 1}
						before := best
						if i == 0 {
							before = tap
						}
						set.BinaryRows(kernel.Max, into, p.channels, before, tap, w.positions, p.channels)
					}
				})
			}}, nil
		},
	}
}

// largest finds the largest elements of windows and where they are, the first where several are equal or NaN.
func (p *poolPlan) largest(w poolWindow, offsets []int, d, s []float32, positions []int64, columns bool) {
	size := p.from.Elements()
	for i := range w.positions * p.channels {
		position, ch := i/p.channels, i%p.channels
		to := w.to + i
		if d[to], positions[to] = 0, 0; len(offsets) == 0 {
			continue
		}
		first := w.from + position*p.next() + ch
		at := first + offsets[0]/4
		for _, o := range offsets[1:] {
			if v, best := s[first+o/4], s[at]; v > best || v != v && best == best {
				at = first + o/4
			}
		}
		d[to] = s[at]
		image, pixel := at/p.channels/size, at/p.channels%size
		if columns {
			pixel = ops.ColumnMajor(p.from, pixel)
		}
		positions[to] = int64((image*p.channels+ch)*size + pixel)
	}
}

// lpPoolEntry runs p-norms under a window.
func (d *processor) lpPoolEntry() entry {
	e := d.maxPoolEntry()
	e.Supports = func(n *ir.Node) bool { return isPool(n.Op.(ops.LpPool).Window, n) }
	e.Scratch = func(n *ir.Node) []int64 {
		p := planPool(n.Op.(ops.LpPool).Window, n)
		return []int64{int64(d.Threads() * align(p.size().Bytes()))}
	}
	e.Bind = func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		op, x, y := n.Op.(ops.LpPool), in[0], out[0]
		p := planPool(op.Window, n)
		power, root := norm(op.P)
		scratch, each := b.scratchBytes(0), align(p.size().Bytes())
		parts, perPart := p.parts()
		return step{parts: parts, run: func(m *machine, part, worker int) {
			offsets := kernel.NewMixer(scratch.bytes(m)[worker*each:][:each], p.size()).Offsets
			d, s := y.f32(m), x.f32(m)
			p.run(part, perPart, offsets, func(w poolWindow) {
				for i := range w.positions * p.channels {
					sum, first := 0.0, w.from+i/p.channels*p.next()+i%p.channels
					for _, o := range offsets[:w.taps] {
						sum += power(float64(s[first+o/4]))
					}
					d[w.to+i] = float32(root(sum))
				}
			})
		}}, nil
	}
	return e
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
	taps             int          // of a window, at most
}

// A poolSpan is neighbouring positions along an axis whose windows meet as many elements: one, or such as are inside.
type poolSpan struct {
	position, positions int
	pixel               int // the first that the first window meets
	taps, padded        int // elements of the window that are inside, and with the padding
}

func planPool(w ir.Window, n *ir.Node) poolPlan {
	x, y := n.Inputs[0].Type.Sizes(), n.Outputs[0].Type.Sizes()
	last := len(x) - 1
	p := poolPlan{Window: w, images: x[0], channels: x[last], from: x[1:last], to: y[1:last], taps: 1}
	p.before, p.after = w.Padding(p.from)
	for axis, size := range p.from {
		p.taps *= max(1, min(w.Kernel[axis], size))
	}
	return p
}

// span is the window of a position along an axis.
func (p *poolPlan) span(axis, position int) poolSpan {
	first := position*p.Strides[axis] - p.before[axis]
	lo, hi := kernel.Meets(first, p.Dilations[axis], p.Kernel[axis], p.from[axis])
	_, end := kernel.Meets(first, p.Dilations[axis], p.Kernel[axis], p.from[axis]+p.after[axis])
	return poolSpan{position: position, positions: 1, pixel: first + lo*p.Dilations[axis], taps: hi - lo, padded: end}
}

// spans is the window of a position along the last axis, if it is inside with all those after it that do.
func (p *poolPlan) spans(position int) poolSpan {
	last := len(p.to) - 1
	s := p.span(last, position)
	if k := p.Kernel[last]; s.taps == k {
		extent := (k-1)*p.Dilations[last] + 1
		s.positions = min((p.from[last]+p.before[last]-extent)/p.Strides[last]+1, p.to[last]) - position
	}
	return s
}

func (p *poolPlan) size() kernel.MixerSize { return kernel.MixerSize{Taps: p.taps, Weights: 1} }

// next is how far neighbouring positions along the last axis are apart in x.
func (p *poolPlan) next() int { return p.Strides[len(p.Strides)-1] * p.channels }

// parts cuts the rows of positions.
func (p *poolPlan) parts() (parts, perPart int) {
	last := len(p.to) - 1
	return rowParts(p.images*p.to[:last].Elements(), p.to[last]*p.channels*p.taps)
}

// A poolWindow is the windows of neighbouring positions.
type poolWindow struct {
	from, to     int // the first element of x, and of the result
	positions    int
	taps, padded int
}

// run calls f for the windows of the rows of a part, with the offsets of their taps from the first one, in bytes.
func (p *poolPlan) run(part, perPart int, offsets []int, f func(w poolWindow)) {
	last := len(p.to) - 1
	perImage := p.to[:last].Elements()
	for row := part * perPart; row < min((part+1)*perPart, p.images*perImage); row++ {
		var at [poolAxes]poolSpan
		rest := row
		for axis := last - 1; axis >= 0; axis-- {
			at[axis] = p.span(axis, rest%p.to[axis])
			rest /= p.to[axis]
		}
		for position := 0; position < p.to[last]; position += at[last].positions {
			at[last] = p.spans(position)
			w := poolWindow{to: (row*p.to[last] + at[last].position) * p.channels, positions: at[last].positions, taps: 1, padded: 1}
			next := p.channels // how far neighbours along an axis are apart
			offsets[0] = 0
			for axis := last; axis >= 0; axis-- {
				for k := at[axis].taps - 1; k >= 0; k-- {
					for t := range w.taps {
						offsets[k*w.taps+t] = offsets[t] + 4*k*p.Dilations[axis]*next
					}
				}
				w.from += at[axis].pixel * next
				w.taps, w.padded = w.taps*at[axis].taps, w.padded*at[axis].padded
				next *= p.from[axis]
			}
			w.from += rest * next
			f(w)
		}
	}
}
