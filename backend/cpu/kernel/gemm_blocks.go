package kernel

import (
	"encoding/binary"
	"unsafe"

	"github.com/rlxc/rlxc/internal/packed"
)

// PackBlocks lays out a constant B[K,N] of numbers of 4 or 8 bits, quantised in blocks along K, for [GemmStored]. A panel of
// columns holds for each block of K the scales and zero points of its columns as float32, then rows of words. A word holds the
// numbers of four neighbouring k, a byte each, or those of eight of 4 bits: byte j those of k = j, in its lower half, and
// k = 4 + j.
type PackBlocks struct {
	packing
	K, N, Block, Bits int
}

// NewPackBlocks plans the packing of a B with k rows and n columns in blocks of the given length, a multiple of 8.
func (s *Set) NewPackBlocks(k, n, block, bits int) *PackBlocks {
	form := packed.Q4
	if bits == 8 {
		form = packed.Q8
	}
	return &PackBlocks{packing: newPacking(&s.gemm, form, ceilDiv(k, block)*(2+block*bits/32), n), K: k, N: n, Block: block, Bits: bits}
}

// Bytes is the size of the packed matrix. Its memory is aligned for float32.
func (p *PackBlocks) Bytes() int { return 4 * p.words() }

// blockBytes is the size of one block of a panel.
func (p *PackBlocks) blockBytes(packedCols int) int { return packedCols * (8 + p.Block*p.Bits/8) }

// Run packs one part. The operands are as ONNX's MatMulNBits has them: src[n, block, byte] holds the numbers, two of 4 bits a
// byte, the first in the lower half; scales[n, block] and zeros[n, block], which are nil where all are in the middle.
func (p *PackBlocks) Run(part int, dst, src []byte, scales, zeros []float32) {
	blocks, lo, hi := ceilDiv(p.K, p.Block), 0, 0
	per, middle := 8/p.Bits, float32(int(1)<<(p.Bits-1))
	lo, hi = p.part(part)
	for panel := lo; panel < hi; panel++ {
		first := panel * p.tile.cols()
		cols, packedCols := p.tile.panelCols(panel, p.N)
		for b := range blocks {
			size := p.blockBytes(packedCols)
			out := dst[first*p.k*4+b*size:][:size]
			clear(out)
			scale, zero, words := blockParts(out, packedCols)
			for c := range cols {
				n := first + c
				scale[c], zero[c] = scales[n*blocks+b], middle
				if zeros != nil {
					zero[c] = zeros[n*blocks+b]
				}
				row := src[(n*blocks+b)*p.Block/per:][:p.Block/per]
				for i := range len(row) / 4 {
					word := binary.LittleEndian.Uint32(row[4*i:])
					if p.Bits == 4 {
						word = q4Word(word)
					}
					words[i*packedCols+c] = word
				}
			}
		}
	}
}

// q4Word packs eight consecutive numbers into a word.
func q4Word(x uint32) uint32 {
	spread := func(x uint32) uint32 {
		x = (x | x<<8) & 0x00ff00ff
		return (x | x<<4) & 0x0f0f0f0f
	}
	return spread(x&0xffff) | spread(x>>16)<<4
}

// Q4InOrder undoes what packing does to the order of eight numbers in a word.
func Q4InOrder(word uint32) uint32 {
	join := func(x uint32) uint32 {
		x &= 0x0f0f0f0f
		x = (x | x>>4) & 0x00ff00ff
		return (x | x>>8) & 0xffff
	}
	return join(word) | join(word>>4)<<16
}

// blockParts returns the parts of one block of a panel.
func blockParts(block []byte, packedCols int) (scale, zero []float32, words []uint32) {
	return floats(block, packedCols), floats(block[4*packedCols:], packedCols), elementsOf[uint32](block[8*packedCols:])
}

// blockFuncs are the kernels for weights in blocks of one size of number.
type blockFuncs struct {
	decode decodeFunc
	unpack unpackFunc
	tile   blockTile
	digits *digitTile `optional:"where floats are as good"`
}

// blocks returns the kernels for numbers of 4 or 8 bits.
func (s *Set) blocks(bits int) *blockFuncs {
	if bits == 8 {
		return &s.q8
	}
	return &s.q4
}

// decodeFunc writes the rows of dst that each row of words holds: (number − zero)·scale. cols is a multiple of the tile's vector.
type decodeFunc func(dst *float32, src *uint8, scale, zero *float32, groups, cols int)

func decodeQ4Generic(dst *float32, src *uint8, scale, zero *float32, groups, cols int) {
	for i := range groups {
		for c := range cols {
			quantized := Q4InOrder(*(*uint32)(unsafe.Pointer(offset(src, 4*(i*cols+c)))))
			for k := range 8 {
				*offset(dst, (8*i+k)*cols+c) = (float32(quantized>>(4*k)&15) - *offset(zero, c)) * *offset(scale, c)
			}
		}
	}
}

func decodeQ8Generic(dst *float32, src *uint8, scale, zero *float32, groups, cols int) {
	for i := range groups {
		for c := range cols {
			for k := range 4 {
				*offset(dst, (4*i+k)*cols+c) = (float32(*offset(src, 4*(i*cols+c)+k)) - *offset(zero, c)) * *offset(scale, c)
			}
		}
	}
}
