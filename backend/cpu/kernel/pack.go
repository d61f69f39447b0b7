package kernel

// Pack lays out a constant B[K,N] for [Gemm]: panels of as many columns as a register tile covers, one after the
// other; a panel holds for each k its columns side by side. The last panel is as wide as its columns need, rounded up
// to whole vectors and filled with zeros. It depends on the level alone, not on the sizes of caches.
type Pack struct {
	K, N int

	set           *Set
	panelsPerPart int
}

// NewPackB plans the packing of a B with k rows and n columns.
func (s *Set) NewPackB(k, n int) *Pack {
	// About 256 KB a part: long enough to be worth claiming, short enough to spread.
	panelBytes := max(1, 4*k*s.gemm.cols())
	return &Pack{K: k, N: n, set: s, panelsPerPart: max(1, (256<<10)/panelBytes)}
}

// Len is the number of floats of the packed matrix.
func (p *Pack) Len() int { return p.K * roundUp(p.N, p.set.gemm.vec) }

// Layout names the layout. Packed matrices of equal layout, K and N may be exchanged between levels.
func (p *Pack) Layout() string { return p.set.gemm.layout() }

// Parts is the number of independent pieces.
func (p *Pack) Parts() int {
	return ceilDiv(ceilDiv(p.N, p.set.gemm.cols()), p.panelsPerPart)
}

// Run packs one part. Element (k, n) of src is at k·row + n·col: (ldb, 1) for a row-major B, (1, ldb) for one that is
// stored as [N,K].
func (p *Pack) Run(part int, dst, src []float32, row, col int) {
	width := p.set.gemm.cols()
	for panel := part * p.panelsPerPart; panel < (part+1)*p.panelsPerPart && panel*width < p.N; panel++ {
		n := panel * width
		cols := min(width, p.N-n)
		packedCols := roundUp(cols, p.set.gemm.vec)
		p.set.packPanel(dst[n*p.K:][:packedCols*p.K], packedCols, src[min(len(src), n*col):], row, col, p.K, cols)
	}
}

// packPanel fills one panel of packedCols columns, of which cols are real.
func (s *Set) packPanel(dst []float32, packedCols int, src []float32, row, col, k, cols int) {
	if cols < packedCols {
		clear(dst)
	}
	if k > 0 && cols > 0 {
		s.copy2D(dst, packedCols, 1, src, row, col, k, cols)
	}
}
