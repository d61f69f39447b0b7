package kernel

import (
	"math"
	"unsafe"

	"github.com/rlxc/rlxc/internal/packed"
)

// PackBF16 rounds a constant float32 B[K,N] to bfloat16 and lays it out for [GemmBF16]: panels of words of two neighbours
// along K. An odd K is padded with zeros.
type PackBF16 struct {
	packing
	K, N int
	set  *Set
}

// NewPackBF16 plans the packing of a B with k rows and n columns.
func (s *Set) NewPackBF16(k, n int) *PackBF16 {
	return &PackBF16{packing: newPacking(&s.gemmBF16, packed.BF16, ceilDiv(k, 2), n), K: k, N: n, set: s}
}

// Len is the number of bfloat16 of the packed matrix. Its memory is aligned for 4-byte words.
func (p *PackBF16) Len() int { return 2 * p.words() }

// ScratchBytes is the scratch memory that one worker needs.
func (p *PackBF16) ScratchBytes() int { return 4 * 2 * p.k * p.tile.cols() }

// Run packs one part with scratch memory that no other part uses meanwhile. Element (k, n) of src is at k·row + n·col.
func (p *PackBF16) Run(part int, dst []uint16, src []float32, row, col int, scratch []byte) {
	words := wordsOf(dst)
	lo, hi := p.part(part)
	for panel := lo; panel < hi; panel++ {
		n := panel * p.tile.cols()
		cols, packedCols := p.tile.panelCols(panel, p.N)
		rows := floats(scratch, 2*p.k*packedCols)
		clear(rows[p.K*packedCols:])
		p.set.packPanel(rows[:p.K*packedCols], packedCols, src[min(len(src), n*col):], row, col, p.K, cols)
		if p.k > 0 {
			p.set.pairBF16(pointerAt(words, n*p.k), packedCols, pointer(rows), 2*packedCols, pointerAt(rows, packedCols), 2*packedCols,
				p.k, packedCols)
			p.deepen(elementsOf[uint32](bytesOfFloats(words[n*p.k:][:p.k*packedCols])), packedCols)
		}
	}
}

// wordsOf reads pairs of bfloat16 as the words of a tile.
func wordsOf(pairs []uint16) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(pairs))), len(pairs)/2)
}

// pairBF16Generic rounds a and b to bfloat16 and puts them into the lower and upper half of a word.
func pairBF16Generic(dst *float32, dstRow int, a *float32, aRow int, b *float32, bRow int, rows, cols int) {
	for r := range rows {
		for c := range cols {
			lower, upper := bf16Bits(*offset(a, r*aRow+c)), bf16Bits(*offset(b, r*bRow+c))
			*offset(dst, r*dstRow+c) = math.Float32frombits(uint32(upper)<<16 | uint32(lower))
		}
	}
}

// GemmBF16 is a [Gemm] of bfloat16 operands with sums and result in float32.
type GemmBF16 struct {
	M, N, K int

	set      *Set
	blocking blocking
}

// GemmBF16Args are the operands of one [GemmBF16]: those of GemmArgs, with A and B in bfloat16.
type GemmBF16Args struct {
	A    []uint16 // element (m, k) at m·ARow + k, aligned for 4-byte words
	ARow int      // even, with K rounded up to even inside; what fills a row up must be finite
	B    []uint16 // packed
	GemmArgs
}

// NewGemmBF16 plans C[m,n] = A[m,k]·B[k,n] for a B packed by [Set.NewPackBF16], for that many workers.
func (s *Set) NewGemmBF16(m, n, k, workers int) *GemmBF16 {
	g := &GemmBF16{M: m, N: n, K: k, set: s,
		blocking: s.newBlocking(&s.gemmBF16, m, n, ceilDiv(k, 2), max(blockRows, blockTiles*s.gemmBF16.rows))}
	g.blocking.spread(workers)
	return g
}

// Parts is the number of independent pieces.
func (g *GemmBF16) Parts() int { return g.blocking.parts() }

// Run computes one part, 0 ≤ part < Parts().
func (g *GemmBF16) Run(part int, args *GemmBF16Args) {
	words := args.GemmArgs
	words.A, words.ARow, words.ACol, words.B = wordsOf(args.A), args.ARow/2, 1, wordsOf(args.B)
	words.check(g.M, g.N, g.blocking.k)
	g.set.gemmPart(&g.blocking, part, &words)
}
