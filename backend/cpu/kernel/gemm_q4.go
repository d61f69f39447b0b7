package kernel

import (
	"encoding/binary"
	"unsafe"
)

// PackQ4 lays out a constant B[K,N] of 4-bit numbers, quantised in blocks along K, for [GemmQ4]. A panel of columns holds
// for each block of K the scales and zero points of its columns as float32, then a row of words for each eight k: byte j of a
// word holds those of k = j, in its lower half, and k = 4 + j.
type PackQ4 struct {
	packing
	K, N, Block int
}

// NewPackQ4 plans the packing of a B with k rows and n columns in blocks of the given even length.
func (s *Set) NewPackQ4(k, n, block int) *PackQ4 {
	blocks := ceilDiv(k, block)
	return &PackQ4{packing: newPacking(&s.gemm, "q4x8", blocks*(2+block/8), n), K: k, N: n, Block: block}
}

// Bytes is the size of the packed matrix. Its memory is aligned for float32.
func (p *PackQ4) Bytes() int { return 4 * p.words() }

// blockBytes is the size of one block of a panel.
func (p *PackQ4) blockBytes(packedCols int) int { return packedCols * (8 + p.Block/2) }

// Run packs one part. The operands are as ONNX's MatMulNBits has them: src[n, block, byte] holds two numbers a byte, the
// first in the lower half; scales[n, block]; zeros[n, byte] packed alike, a byte for two blocks, or nil where all are 8.
func (p *PackQ4) Run(part int, dst, src []byte, scales []float32, zeros []byte) {
	blocks, lo, hi := ceilDiv(p.K, p.Block), 0, 0
	lo, hi = p.part(part)
	for panel := lo; panel < hi; panel++ {
		first := panel * p.tile.cols()
		cols, packedCols := p.tile.panelCols(panel, p.N)
		for b := range blocks {
			size := p.blockBytes(packedCols)
			out := dst[first*p.k*4+b*size:][:size]
			clear(out)
			scale, zero, words := q4Block(out, packedCols)
			for c := range cols {
				n := first + c
				scale[c], zero[c] = scales[n*blocks+b], 8
				if zeros != nil {
					zero[c] = float32(zeros[n*ceilDiv(blocks, 2)+b/2] >> (4 * (b % 2)) & 15)
				}
				for i := range p.Block / 8 {
					words[i*packedCols+c] = q4Word(binary.LittleEndian.Uint32(src[((n*blocks+b)*p.Block/8+i)*4:]))
				}
			}
		}
	}
}

// q4Word brings eight numbers that follow each other to their places in a word.
func q4Word(x uint32) uint32 {
	spread := func(x uint32) uint32 {
		x = (x | x<<8) & 0x00ff00ff
		return (x | x<<4) & 0x0f0f0f0f
	}
	return spread(x&0xffff) | spread(x>>16)<<4
}

// Q4Codes undoes what packing does to the order of eight numbers in a word.
func Q4Codes(word uint32) uint32 {
	join := func(x uint32) uint32 {
		x &= 0x0f0f0f0f
		x = (x | x>>4) & 0x00ff00ff
		return (x | x>>8) & 0xffff
	}
	return join(word) | join(word>>4)<<16
}

// q4Block gives the parts of one block of a panel.
func q4Block(block []byte, packedCols int) (scale, zero []float32, words []uint32) {
	return floats(block, packedCols), floats(block[4*packedCols:], packedCols), elementsOf[uint32](block[8*packedCols:])
}

// decodeQ4Func writes eight rows of dst for each row of words: (number − zero)·scale. cols is a multiple of the tile's vector.
type decodeQ4Func func(dst *float32, src *uint8, scale, zero *float32, groups, cols int)

func decodeQ4Generic(dst *float32, src *uint8, scale, zero *float32, groups, cols int) {
	for i := range groups {
		for c := range cols {
			codes := Q4Codes(*(*uint32)(unsafe.Pointer(offset(src, 4*(i*cols+c)))))
			for k := range 8 {
				*offset(dst, (8*i+k)*cols+c) = (float32(codes>>(4*k)&15) - *offset(zero, c)) * *offset(scale, c)
			}
		}
	}
}

// GemmQ4 is a [Gemm] whose B was packed by [Set.NewPackQ4]: a block of a panel is decoded to float32 in scratch memory,
// and used for all rows of the part while it is in cache.
type GemmQ4 struct {
	M, N, K int

	set      *Set
	blocking blocking
	pack     *PackQ4
}

// NewGemmQ4 plans C[m,n] = A[m,k]·B[k,n] for a B quantised in blocks of the given length.
func (s *Set) NewGemmQ4(m, n, k, block int) *GemmQ4 {
	g := &GemmQ4{M: m, N: n, K: k, set: s, blocking: s.newBlocking(&s.gemm, m, n, k, blockRows), pack: s.NewPackQ4(k, n, block)}
	// A decoded block that few rows use stays in half of the L1 cache.
	if m <= 2*s.gemm.rows {
		g.blocking.kBlock = evenBlock(k, max(block, s.caches.l1/2/(4*s.gemm.cols())))
	}
	g.blocking.kBlock = roundUp(g.blocking.kBlock, block)
	return g
}

// Parts is the number of independent pieces.
func (g *GemmQ4) Parts() int { return g.blocking.parts() }

// ScratchBytes is the scratch memory that one worker needs.
func (g *GemmQ4) ScratchBytes() int { return 4 * g.blocking.kBlock * g.blocking.tile.cols() }

// Run computes one part, 0 ≤ part < Parts(), with ScratchBytes() bytes of scratch that no other part uses meanwhile. The
// operands are those of a Gemm, but for B: it is packed.
func (g *GemmQ4) Run(part int, args *GemmArgs, packed, scratch []byte) {
	args.check(g.M, g.N, g.K)
	rowLo, rowHi, panelLo, panelHi := g.blocking.part(part)
	for p := panelLo; p < panelHi; p++ {
		cols, packedCols := g.blocking.tile.panelCols(p, g.N)
		col := p * g.blocking.tile.cols()
		source := q4Panel{g.pack, packed[4*col*g.pack.k:][:4*packedCols*g.pack.k], packedCols, floats(scratch, g.ScratchBytes()/4)}
		g.set.gemmPanel(g.blocking.tile, args, gemmPanel{rowLo: rowLo, rowHi: rowHi, col: col, cols: cols, k: g.K, kBlock: g.blocking.kBlock, q4: hide(&source), bRow: packedCols})
	}
}

// q4Panel is a panel that is decoded block by block.
type q4Panel struct {
	pack       *PackQ4
	packed     []byte
	packedCols int
	decoded    []float32
}

// block decodes k rows from first on, which begins a block.
func (p *q4Panel) block(s *Set, first, k int) *float32 {
	for lo := 0; lo < k; lo += p.pack.Block {
		size := p.pack.blockBytes(p.packedCols)
		scale, zero, words := q4Block(p.packed[(first+lo)/p.pack.Block*size:][:size], p.packedCols)
		s.decodeQ4(pointerAt(p.decoded, lo*p.packedCols), pointer(bytesOfWords(words)), pointer(scale), pointer(zero), ceilDiv(min(p.pack.Block, k-lo), 8), p.packedCols)
	}
	return pointer(p.decoded)
}
