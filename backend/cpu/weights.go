package cpu

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/packed"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A format is how the constant matrix of a float32 product is packed, which decides how the product is computed.
type format uint8

const (
	formatF32  format = iota // as it is
	formatBF16               // rounded to bfloat16; a is rounded on the way, and sums are float32
	// rounded to 127ths of each column's largest magnitude; each row of a is quantised on the way, and sums are exact
	formatS8
	numFormats
)

// maxS8 is the largest K of which exact sums of u8·s8 fit an int32.
const maxS8 = 1 << 16

// formats is the list of formats. Data are tensors of dtype.
var formats = [numFormats]struct {
	form   packed.Form
	dtype  tensor.DType
	layout func(s *kernel.Set, k, n int) (layout packed.Layout, length int)
	// pack lays out w, whose element (k, n) is at k·row + n·col.
	pack func(d *Device, dst *tensor.Tensor, w []float32, k, n, row, col int)
	// unpack is its opposite.
	unpack func(dst []float32, src *ir.Packed, k, n int)
	// scratch and bind are the rest of a product's row.
	scratch func(d *Device, n *ir.Node) []int64
	bind    func(b *binder, n *ir.Node) (step, error)
}{
	formatF32: {
		form: packed.F32, dtype: tensor.F32,
		layout: func(s *kernel.Set, k, n int) (packed.Layout, int) { p := s.NewPackB(k, n); return p.Layout(), p.Len() },
		pack:   packF32,
		unpack: func(dst []float32, src *ir.Packed, k, n int) {
			unpackWords(src.Layout, tensor.Of[float32](src.Data), 1, k, n, func(i, _ int, x float32) { dst[i] = x })
		},
		scratch: func(*Device, *ir.Node) []int64 { return nil },
		bind:    bindF32,
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
		scratch: scratchBF16,
		bind:    bindBF16,
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
		scratch: scratchS8,
		bind:    bindS8,
	},
}

// formatAsked is the format that the options of a device ask for.
func formatAsked(o backend.Options) format {
	switch {
	case o.Weights == tensor.I8:
		return formatS8
	case o.Precision == tensor.BF16:
		return formatBF16
	}
	return formatF32
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

// formatFor is the format to pack a float32 weight of k rows in.
func (d *Device) formatFor(k int) format {
	if d.format == formatS8 && k > maxS8 {
		return formatF32
	}
	return d.format
}

// pack lays out one float32 matrix.
func (d *Device) pack(f format, w *tensor.Tensor, transposed bool) *ir.Packed {
	layout, data := d.lay(d.weights.take, f, w, transposed)
	return d.weights.keep(layout, data)
}

// lay lays out one float32 matrix in memory that take returns.
func (d *Device) lay(take func(tensor.DType, ...int) *tensor.Tensor, f format, w *tensor.Tensor, transposed bool) (packed.Layout,
	*tensor.Tensor) {
	s := w.Shape()
	k, n, row, col := s[len(s)-2], s[len(s)-1], s[len(s)-1], 1
	if transposed {
		k, n, row, col = n, k, 1, s[len(s)-1]
	}
	layout, length := formats[f].layout(d.set, k, n)
	data := take(formats[f].dtype, length)
	formats[f].pack(d, data, floats(w), k, n, row, col)
	return layout, data
}

// adopt takes a weight that a compiled file holds packed. One that was packed for another level of instructions, or in
// float32 where less is asked for, is packed anew.
func (d *Device) adopt(w *ir.Value, transposed bool) (again bool, err error) {
	s := w.Type.Sizes()
	k, n := s[len(s)-2], s[len(s)-1]
	if transposed {
		k, n = n, k
	}
	if target.IsHalf(w.Type.DType) && w.Packed.Layout.Form.IsWide() {
		return d.adoptHalf(w, k, n)
	}
	has, err := formatOf(w.Packed)
	if err != nil {
		return false, fmt.Errorf("weight %q: %w", w.Name, err)
	}
	f := d.formatFor(k)
	switch {
	case f == formatF32:
		f = has
	case has != formatF32 && has != f:
		return false, fmt.Errorf("the file was compiled with weights of %s: for %s compile the model again", formats[has].form,
			formats[f].form)
	}
	if layout, length := formats[f].layout(d.set, k, n); w.Packed.Layout == layout {
		return false, holds(w.Packed, formats[f].dtype, length)
	}
	plain, err := unpack(w.Packed, k, n)
	if err != nil {
		return false, fmt.Errorf("weight %q: %w", w.Name, err)
	}
	w.Packed = d.pack(f, plain, false)
	return true, nil
}

// packedAs checks a packed weight of float32.
func packedAs(p *ir.Packed, layout packed.Layout, length int) error {
	if p.Layout != layout {
		return fmt.Errorf("the weight is not packed as %s, which this CPU level reads", layout)
	}
	return holds(p, tensor.F32, length)
}

// holds checks the data of a packed weight.
func holds(p *ir.Packed, d tensor.DType, length int) error {
	if p.Data == nil || p.Data.DType() != d || p.Data.Len() != length {
		return fmt.Errorf("the packed weight does not hold %d %s", length, d)
	}
	return nil
}

// unpack returns the row-major [k,n] matrix of a packed one, whatever level it was packed for.
func unpack(p *ir.Packed, k, n int) (*tensor.Tensor, error) {
	f, err := formatOf(p)
	if err != nil {
		return nil, err
	}
	per := 4 / formats[f].dtype.Size()
	length := (k + per - 1) / per * per * p.Layout.Columns(n)
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

// unpackWords passes on every element of a matrix that is packed in words of per neighbours along K, with its place in the
// row-major one and its column.
func unpackWords[T any](l packed.Layout, src []T, per, k, n int, to func(i, col int, x T)) {
	words := (k + per - 1) / per
	for first := 0; first < n; first += l.Panel {
		cols := min(l.Panel, n-first)
		row := l.Columns(cols)
		panel := src[first*words*per:]
		for r := range k {
			for c := range cols {
				to(r*n+first+c, first+c, panel[l.Word(r/per, c, words, row)*per+r%per])
			}
		}
	}
}

func packF32(d *Device, dst *tensor.Tensor, w []float32, k, n, row, col int) {
	p, to := d.set.NewPackB(k, n), tensor.Of[float32](dst)
	d.pool.Run(p.Parts(), func(part, _ int) { p.Run(part, to, w, row, col) })
}

func packBF16(d *Device, dst *tensor.Tensor, w []float32, k, n, row, col int) {
	p, to := d.set.NewPackBF16(k, n), tensor.Of[uint16](dst)
	own := align(p.ScratchBytes())
	scratch := tensor.AlignedBytes(d.Threads() * own)
	d.pool.Run(p.Parts(), func(part, worker int) { p.Run(part, to, w, row, col, scratch[worker*own:][:p.ScratchBytes()]) })
}

// columnScales are the scales after an int8 weight of n columns.
func columnScales(data *tensor.Tensor, n int) []float32 {
	b := data.Bytes()
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b[len(b)-4*n:]))), n)
}

func packS8(d *Device, dst *tensor.Tensor, w []float32, k, n, row, col int) {
	const strip = 64 // columns of a part
	quantized, scales := make([]byte, k*n), columnScales(dst, n)
	d.pool.Run((n+strip-1)/strip, func(part, _ int) {
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
