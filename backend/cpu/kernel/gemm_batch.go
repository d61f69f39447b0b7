package kernel

// BatchGemm is a planned batch of products C = act(alpha·A·B + bias) + residual whose B is an activation: it is read
// where it is, by strides, and brought into panels in scratch memory as far as that pays.
//
// A part is a group of panels of one product and a block of its rows.
type BatchGemm struct {
	Batch, M, N, K int

	set    *Set
	one    blocking // blocking of one product of the batch
	direct bool     // whole panels of a row-major B are read in place, and not packed
}

// BatchGemmArgs are the operands of one [BatchGemm]. B and the strides of the embedded operands are those of one
// product; the offsets, in elements, say where each product of the batch has its operands, so that any broadcast of
// the batch axes is a matter of the offsets.
type BatchGemmArgs struct {
	GemmArgs          // B: element (k, n) at k·BRow + n·BCol
	BRow, BCol  int   // one of them is 1 for speed
	AOffset     []int // [Batch]
	BOffset     []int
	COffset     []int
	ResidOffset []int // nil without a residual
}

// batchBlockRows is the most rows of a part: each part packs its panels for itself, so it is higher than for a
// constant B.
const batchBlockRows = 512

// NewBatchGemm plans batch products of C[m,n] = A[m,k]·B[k,n] for that many workers, which have no influence on results.
func (s *Set) NewBatchGemm(batch, m, n, k, workers int) *BatchGemm {
	// Packing a panel costs about as much as two tiles of rows.
	const packedTiles = 4
	g := &BatchGemm{Batch: batch, M: m, N: n, K: k, set: s, one: s.newBlocking(&s.gemm, m, n, k, batchBlockRows),
		direct: m <= packedTiles*s.gemm.rows}
	g.one.cutRows(ceilDiv(workers, max(1, batch)), g.one.panelCost(2*s.gemm.rows))
	return g
}

// Parts is the number of independent pieces.
func (g *BatchGemm) Parts() int { return g.Batch * g.one.parts() }

// ScratchBytes is the scratch memory that one worker needs.
func (g *BatchGemm) ScratchBytes() int {
	return 4 * g.K * min(g.set.gemm.cols(), roundUp(g.N, g.set.gemm.vec))
}

// Run computes one part, 0 ≤ part < Parts(), with ScratchBytes() bytes of scratch that no other part uses meanwhile.
func (g *BatchGemm) Run(part int, args *BatchGemmArgs, scratch []byte) {
	batch, part := part/g.one.parts(), part%g.one.parts()
	own := args.GemmArgs
	own.A, own.C = own.A[min(len(own.A), args.AOffset[batch]):], own.C[args.COffset[batch]:]
	if own.Residual != nil {
		own.Residual = own.Residual[args.ResidOffset[batch]:]
	}
	own.check(g.M, g.N, g.K)
	b := own.B[min(len(own.B), args.BOffset[batch]):]
	if g.K > 0 {
		demand(b, (g.K-1)*args.BRow+(g.N-1)*args.BCol+1)
	}
	packed := floats(scratch, g.ScratchBytes()/4)
	rowLo, rowHi, panelLo, panelHi := g.one.part(part)
	for p := panelLo; p < panelHi; p++ {
		col := p * g.set.gemm.cols()
		cols := min(g.set.gemm.cols(), g.N-col)
		panel := gemmPanel{rowLo: rowLo, rowHi: rowHi, col: col, cols: cols, k: g.K, kBlock: g.one.kBlock}
		from := b[min(len(b), col*args.BCol):]
		if g.direct && args.BCol == 1 && cols%g.set.gemm.vec == 0 {
			panel.b, panel.bRow = pointer(from), args.BRow
		} else {
			panel.b, panel.bRow = pointer(packed), roundUp(cols, g.set.gemm.vec)
			g.set.packPanel(packed[:panel.bRow*g.K], panel.bRow, from, args.BRow, args.BCol, g.K, cols)
		}
		g.set.gemmPanel(&g.set.gemm, &own, panel)
	}
}
