package kernel

// GemmHalf is a [Gemm] whose B was packed by [Set.NewPackB] and then rounded to 16-bit floats: a block of a panel is widened in
// scratch memory, and used for all rows of the part while it is in cache.
type GemmHalf struct {
	M, N, K int

	set      *Set
	blocking blocking
}

// NewGemmHalf plans C[m,n] = A[m,k]·B[k,n] for a packed B of 16-bit floats.
func (s *Set) NewGemmHalf(m, n, k int) *GemmHalf {
	g := &GemmHalf{M: m, N: n, K: k, set: s, blocking: s.newBlocking(&s.gemm, m, n, k, blockRows)}
	g.blocking.decodes(s)
	return g
}

// Parts is the number of independent pieces.
func (g *GemmHalf) Parts() int { return g.blocking.parts() }

// ScratchBytes is the scratch memory that one worker needs.
func (g *GemmHalf) ScratchBytes() int { return 4 * g.blocking.kBlock * g.blocking.tile.cols() }

// Run computes one part, 0 ≤ part < Parts(), with ScratchBytes() bytes of scratch that no other part uses meanwhile. The
// operands are those of a Gemm, but for B: it is packed, bfloat16 or else IEEE halves.
func (g *GemmHalf) Run(part int, args *GemmArgs, packed []uint16, bf16 bool, scratch []byte) {
	args.check(g.M, g.N, g.K)
	rowLo, rowHi, panelLo, panelHi := g.blocking.part(part)
	for p := panelLo; p < panelHi; p++ {
		cols, packedCols := g.blocking.tile.panelCols(p, g.N)
		col := p * g.blocking.tile.cols()
		source := halfPanel{packed[col*g.K:][:packedCols*g.K], bf16, packedCols, floats(scratch, g.ScratchBytes()/4)}
		g.set.gemmPanel(g.blocking.tile, args, gemmPanel{rowLo: rowLo, rowHi: rowHi, col: col, cols: cols, k: g.K, kBlock: g.blocking.kBlock, coded: noescape(&source), bRow: packedCols})
	}
}

// halfPanel is a panel that is widened block by block.
type halfPanel struct {
	packed     []uint16
	bf16       bool
	packedCols int
	widened    []float32
}

// block implements coded.
func (p *halfPanel) block(s *Set, first, k int) *float32 {
	src := p.packed[first*p.packedCols:][:k*p.packedCols]
	if p.bf16 {
		s.FromBF16(p.widened[:len(src)], src)
	} else {
		s.FromF16(p.widened[:len(src)], src)
	}
	return pointer(p.widened)
}
