package cpu

import (
	"unsafe"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// transforms reports whether vectors of n floats of that type have a kernel.
func transforms(n ir.Dim, d tensor.DType) bool {
	length, known := n.Const()
	return (d == tensor.F32 || d == tensor.F64) && (!known || length >= 1 && length <= kernel.MaxFourier)
}

// dftEntry transforms the vectors along an axis.
func (d *processor) dftEntry() entry {
	return entry{
		Supports: func(n *ir.Node) bool { return transforms(n.Op.(ops.DFT).Length, n.Inputs[0].Type.DType) },
		Scratch:  func(n *ir.Node) []int64 { return d.fourierScratch(n.Op.(ops.DFT).Length.Int()) },
		Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
			if in[0].dtype == tensor.F64 {
				return dftStep[float64](b, n.Op.(ops.DFT), in[0], out[0]), nil
			}
			return dftStep[float32](b, n.Op.(ops.DFT), in[0], out[0]), nil
		},
	}
}

// fourierScratch is a vector, its transform, and what the transform works with, for each worker.
func (d *processor) fourierScratch(n int) []int64 {
	return []int64{int64(d.Threads() * align(16*(2*n+kernel.FourierScratch(n))))}
}

// A fourierBench is the memory of a worker.
type fourierBench struct{ v, w, scratch []complex128 }

// benches returns a function for the scratch memory of a worker, whose size fourierScratch gives.
func benches(b *binder, n int) func(m *machine, worker int) fourierBench {
	memory, size := b.scratchBytes(0), 2*n+kernel.FourierScratch(n)
	each := align(16 * size)
	return func(m *machine, worker int) fourierBench {
		all := unsafe.Slice((*complex128)(unsafe.Pointer(&memory.bytes(m)[worker*each])), size)
		return fourierBench{all[:n], all[n:][:n], all[2*n:]}
	}
}

func dftStep[T float](b *binder, op ops.DFT, x, y operand) step {
	last, n := len(x.shape)-1, op.Length.Int()
	f := kernel.NewFourier(n, op.Inverse)
	bench := benches(b, n)
	inner, px, py := x.shape[op.Axis+1:last].Elements(), x.shape[last], y.shape[last]
	lines := x.shape[:op.Axis].Elements() * inner
	from, to := x.shape[op.Axis], y.shape[op.Axis]
	scale := 1.0
	if op.Inverse {
		scale = 1 / float64(n)
	}
	parts, perPart := rowParts(lines, 8*n)
	return step{parts: parts, run: func(m *machine, part, worker int) {
		d, s, w := elements[T](m, &y), elements[T](m, &x), bench(m, worker)
		for line := part * perPart; line < min((part+1)*perPart, lines); line++ {
			outer, i := line/inner, line%inner
			clear(w.v)
			for k := range min(n, from) {
				at := ((outer*from+k)*inner + i) * px
				if w.v[k] = complex(float64(s[at]), 0); px == 2 {
					w.v[k] = complex(float64(s[at]), float64(s[at+1]))
				}
			}
			if op.Inverse && op.OneSided { // the other half is the mirror image
				for k := n/2 + 1; k < n; k++ {
					w.v[k] = complex(real(w.v[n-k]), -imag(w.v[n-k]))
				}
			}
			f.Transform(w.w, w.v, w.scratch)
			for k, z := range w.w[:to] {
				at := ((outer*to+k)*inner + i) * py
				if d[at] = T(real(z) * scale); py == 2 {
					d[at+1] = T(imag(z) * scale)
				}
			}
		}
	}}
}

// stftEntry transforms frames of signals.
func (d *processor) stftEntry() entry {
	return entry{
		Supports: func(n *ir.Node) bool {
			return n.Inputs[0].Type.DType == tensor.F32 && transforms(ir.N(n.Op.(ops.STFT).Length), tensor.F32)
		},
		Scratch: func(n *ir.Node) []int64 { return d.fourierScratch(n.Op.(ops.STFT).Length) },
		Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
			op, x, y := n.Op.(ops.STFT), in[0], out[0]
			f := kernel.NewFourier(op.Length, false)
			bench := benches(b, op.Length)
			weighted := n.HasOperand(1)
			frames, bins, numbers := y.shape[1], y.shape[2], x.shape[2]
			parts, perPart := rowParts(x.shape[0]*frames, 8*op.Length)
			return step{parts: parts, run: func(m *machine, part, worker int) {
				d, s, w := y.f32(m), x.f32(m), bench(m, worker)
				var window []float32
				if weighted {
					window = in[1].f32(m)
				}
				for frame := part * perPart; frame < min((part+1)*perPart, x.shape[0]*frames); frame++ {
					from := s[(frame/frames*x.shape[1]+frame%frames*op.Step)*numbers:]
					for i := range w.v {
						weight := 1.0
						if weighted {
							weight = float64(window[i])
						}
						if w.v[i] = complex(float64(from[i*numbers])*weight, 0); numbers == 2 {
							w.v[i] += complex(0, float64(from[2*i+1])*weight)
						}
					}
					f.Transform(w.w, w.v, w.scratch)
					for k, z := range w.w[:bins] {
						d[(frame*bins+k)*2], d[(frame*bins+k)*2+1] = float32(real(z)), float32(imag(z))
					}
				}
			}}, nil
		},
	}
}
