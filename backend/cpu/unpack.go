package cpu

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/packed"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

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

// unpackWords passes on every element of a matrix that is packed in words of per neighbours along K, with its position in the
// row-major one and its column.
func unpackWords[T any](l packed.Layout, src []T, per, k, n int, to func(i, col int, x T)) {
	words := ceilDiv(k, per)
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

// columnScales are the scales after an int8 weight of n columns.
func columnScales(data *tensor.Tensor, n int) []float32 {
	b := data.Bytes()
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b[len(b)-4*n:]))), n)
}

// fits checks a packed weight of n columns: its form, and the size of the data, which are words of 4 bytes, as many a column as
// given, and what follows them.
func fits(p *ir.Packed, form packed.Form, words, n, more int) error {
	if p.Layout.Form != form {
		return fmt.Errorf("it is packed as %q: compile the model again", p.Layout)
	}
	if want := 4*words*p.Layout.Columns(n) + more; p.Data == nil || len(p.Data.Bytes()) != want {
		return fmt.Errorf("the packed weight does not hold %d bytes", want)
	}
	return nil
}

// unpackS8 returns the row-major [k,n] bytes of a matrix that kernel.PackS8 has packed, for any level.
func unpackS8(p *ir.Packed, k, n int, d tensor.DType) ([]byte, error) {
	words := (k + 3) / 4
	err := fits(p, packed.S8, words, n, 4*n)
	if err != nil {
		return nil, err
	}
	flip := byte(0)
	if d == tensor.U8 {
		flip = 0x80
	}
	out := make([]byte, k*n)
	unpackWords(p.Layout, p.Data.Bytes(), 4, k, n, func(i, _ int, x byte) { out[i] = x ^ flip })
	return out, nil
}

// packedBits is the size of packed numbers: those of 2 bits are packed as 4.
func packedBits(op ir.MatMulNBits) int { return max(op.Bits, 4) }

// unpackBlocks returns the quantised values of a matrix that kernel.PackBlocks has packed, for any level, in the layout of MatMulNBits.
// Values of 2 bits have 4 bits in it.
func unpackBlocks(p *ir.Packed, op ir.MatMulNBits) ([]byte, error) {
	bits := packedBits(op)
	form := packed.Q4
	if bits == 8 {
		form = packed.Q8
	}
	blocks, size := op.Blocks(), op.Block*bits/8
	err := fits(p, form, blocks*(2+size/4), op.N, 0)
	if err != nil {
		return nil, err
	}
	out, src := make([]byte, op.N*blocks*size), p.Data.Bytes()
	for first := 0; first < op.N; first += p.Layout.Panel {
		cols := min(p.Layout.Panel, op.N-first)
		row := p.Layout.Columns(cols)
		for b := range blocks {
			quantized := src[first*blocks*(8+size)+b*row*(8+size)+8*row:]
			for i := range size / 4 {
				for c := range cols {
					word := binary.LittleEndian.Uint32(quantized[4*(i*row+c):])
					if bits == 4 {
						word = kernel.Q4InOrder(word)
					}
					binary.LittleEndian.PutUint32(out[((first+c)*blocks+b)*size+4*i:], word)
				}
			}
		}
	}
	return out, nil
}

// unpackScales returns the scales and zero points [N,blocks] of a matrix that unpackBlocks has found to be whole.
func unpackScales(p *ir.Packed, op ir.MatMulNBits) (scales, zeros []float32) {
	blocks, size := op.Blocks(), op.Block*packedBits(op)/8
	scales, zeros = make([]float32, op.N*blocks), make([]float32, op.N*blocks)
	src := tensor.Of[float32](as32(p.Data))
	for first := 0; first < op.N; first += p.Layout.Panel {
		cols := min(p.Layout.Panel, op.N-first)
		row := p.Layout.Columns(cols)
		for b := range blocks {
			head := src[(first*blocks*(8+size)+b*row*(8+size))/4:]
			for c := range cols {
				scales[(first+c)*blocks+b], zeros[(first+c)*blocks+b] = head[c], head[row+c]
			}
		}
	}
	return scales, zeros
}

// as32 sees packed bytes as float32.
func as32(data *tensor.Tensor) *tensor.Tensor {
	t, err := tensor.FromBytes(tensor.F32, tensor.Shape{data.Len() / 4}, data.Bytes())
	if err != nil {
		panic(err) // packed matrices are whole words
	}
	return t.Aligned()
}
