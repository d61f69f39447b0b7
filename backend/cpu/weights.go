package cpu

import (
	"fmt"
	"math"
	"runtime"
	"unsafe"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/packed"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// maxS8 is the largest K of which exact sums of u8·s8 fit an int32.
const maxS8 = 1 << 16

// formats is the list of formats. Data are tensors of dtype.
var formats = [numFormats]struct {
	form   packed.Form
	dtype  tensor.DType
	layout func(s *kernel.Set, k, n int) (layout packed.Layout, length int)
	// pack lays out w, whose element (k, n) is at k·row + n·col.
	pack func(d *processor, dst *tensor.Tensor, w []float32, k, n, row, col int)
	// unpack is its opposite.
	unpack func(dst []float32, src *ir.Packed, k, n int)
}{
	formatF32: {
		form: packed.F32, dtype: tensor.F32,
		layout: func(s *kernel.Set, k, n int) (packed.Layout, int) { p := s.NewPackB(k, n); return p.Layout(), p.Len() },
		pack:   packF32,
		unpack: func(dst []float32, src *ir.Packed, k, n int) {
			unpackWords(src.Layout, tensor.Of[float32](src.Data), 1, k, n, func(i, _ int, x float32) { dst[i] = x })
		},
	},
	formatBF16: {
		form: packed.BF16, dtype: tensor.BF16,
		layout: func(s *kernel.Set, k, n int) (packed.Layout, int) {
			p := s.NewPackBF16(k, n)
			return p.Layout(), p.Len()
		},
		pack: packBF16,
		unpack: func(dst []float32, src *ir.Packed, k, n int) {
			unpackWords(src.Layout, tensor.Of[uint16](src.Data), 2, k, n,
				func(i, _ int, x uint16) { dst[i] = math.Float32frombits(uint32(x) << 16) })
		},
	},
	formatS8: {
		form: packed.S8Scaled, dtype: tensor.U8,
		layout: func(s *kernel.Set, k, n int) (packed.Layout, int) {
			p := s.NewPackS8(k, n)
			return withForm(p.Layout(), packed.S8Scaled), p.Bytes() + 4*n
		},
		pack: packS8,
		unpack: func(dst []float32, src *ir.Packed, k, n int) {
			quantized, scales := signed(src.Data.Bytes()), columnScales(src.Data, n)
			unpackWords(src.Layout, quantized, 4, k, n, func(i, col int, x int8) { dst[i] = float32(x) * scales[col] })
		},
	},
}

// formatAsked returns the format of weights that the options request.
func formatAsked(o backend.Options) format {
	switch {
	case o.Weights == tensor.I8:
		return formatS8
	case o.Precision == tensor.BF16:
		return formatBF16
	}
	return formatF32
}

func packF32(d *processor, dst *tensor.Tensor, w []float32, k, n, row, col int) {
	p, to := d.set.NewPackB(k, n), tensor.Of[float32](dst)
	d.pool.Run(p.Parts(), func(part, _ int) { p.Run(part, to, w, row, col) })
	flushSubnormals(to)
}

// flushSubnormals makes a packed weight's numbers below the normal range zeros, if there are some among those that it looks at. Training
// with decay leaves such, and a processor takes a hundred cycles for a product with one.
func flushSubnormals(w []float32) {
	const samples, farthest = 1024, 256
	isSubnormal := func(v float32) bool { return v != 0 && math.Float32bits(v)&0x7f800000 == 0 }
	found, step := false, min(len(w)/samples, farthest)|1 // odd, to meet all columns
	for i := 0; i < len(w) && !found; i += step {
		found = isSubnormal(w[i])
	}
	if !found {
		return
	}
	for i, v := range w {
		if isSubnormal(v) {
			w[i] = 0
		}
	}
}

func packBF16(d *processor, dst *tensor.Tensor, w []float32, k, n, row, col int) {
	p, to := d.set.NewPackBF16(k, n), tensor.Of[uint16](dst)
	own := align(p.ScratchBytes())
	scratch := tensor.AlignedBytes(d.Threads() * own)
	d.pool.Run(p.Parts(), func(part, worker int) { p.Run(part, to, w, row, col, scratch[worker*own:][:p.ScratchBytes()]) })
}

func packS8(d *processor, dst *tensor.Tensor, w []float32, k, n, row, col int) {
	const strip = 64 // columns of a part
	quantized, scales := make([]byte, k*n), columnScales(dst, n)
	d.pool.Run(ceilDiv(n, strip), func(part, _ int) {
		lo, hi := part*strip, min((part+1)*strip, n)
		for i := range k {
			for c := lo; c < hi; c++ {
				scales[c] = max(scales[c], float32(math.Abs(float64(w[i*row+c*col]))))
			}
		}
		for c := lo; c < hi; c++ {
			scales[c] /= 127
		}
		for i := range k {
			for c := lo; c < hi; c++ {
				if scales[c] > 0 { // which is inexact where it is subnormal
					quantized[i*n+c] = byte(int8(min(max(math.RoundToEven(float64(w[i*row+c*col]/scales[c])), -127), 127)))
				}
			}
		}
	})
	p := d.set.NewPackS8(k, n)
	d.pool.Run(p.Parts(), func(part, _ int) { p.Run(part, dst.Bytes()[:p.Bytes()], quantized, n, 1, false) })
}

// floats sees a weight as float32 where it is. Files put weights at any address; where the processor loads from any
// address they need not be copied first.
func floats(w *tensor.Tensor) []float32 {
	switch runtime.GOARCH {
	case "amd64", "arm64":
		if w.Len() > 0 {
			return unsafe.Slice((*float32)(unsafe.Pointer(&w.Bytes()[0])), w.Len())
		}
	}
	return tensor.Of[float32](w.Aligned())
}

type packKey struct {
	w          *ir.Value
	transposed bool
}

// replace makes operand i of n a packed weight, and lets go of the plain one when nothing else reads it.
func (d *processor) replace(g *ir.Graph, n *ir.Node, i int, to *ir.Value) {
	w := n.Inputs[i]
	n.SetInput(i, to)
	if len(w.Uses) > 0 || g.IsOutput(w) || w.Def != nil {
		return
	}
	data := w.Const
	if data == nil {
		data = w.Packed.Data
	}
	w.Const, w.Packed = nil, nil
	d.release(data.Bytes())
}

// withForm is a layout of other elements.
func withForm(l packed.Layout, f packed.Form) packed.Layout {
	l.Form = f
	return l
}

// partOf is one of several equal parts of data.
func partOf(data *tensor.Tensor, i, parts int) *tensor.Tensor {
	length := data.Len() / parts
	size := data.DType().Size() * length
	t, err := tensor.FromBytes(data.DType(), tensor.Shape{length}, data.Bytes()[i*size:][:size])
	if err != nil {
		panic(err) // the bytes are as many
	}
	return t
}

// formatOf is the format of a packed weight.
func formatOf(p *ir.Packed) (format, error) {
	for f := range formats {
		if formats[f].form == p.Layout.Form {
			return format(f), nil
		}
	}
	return 0, fmt.Errorf("it is packed as %q: compile the model again", p.Layout)
}

// unpack returns the row-major [k,n] form of a packed matrix, for any level.
func unpack(p *ir.Packed, k, n int) (*tensor.Tensor, error) {
	f, err := formatOf(p)
	if err != nil {
		return nil, err
	}
	per := 4 / formats[f].dtype.Size()
	length := ceilDiv(k, per) * per * p.Layout.Columns(n)
	if f == formatS8 {
		length += 8 * n // the sums and scales of the columns
	}
	if err := holds(p, formats[f].dtype, length); err != nil {
		return nil, err
	}
	out := tensor.New(tensor.F32, k, n)
	formats[f].unpack(tensor.Of[float32](out), p, k, n)
	return out, nil
}
