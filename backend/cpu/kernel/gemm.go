package kernel

import "math"

// Gemm is a planned product C[M,N] = act(alpha·A[M,K]·B[K,N] + bias[N]) + residual[M,N] of float32 matrices whose B
// was packed by [Set.NewPackB].
//
// The work is cut into blocks of rows times groups of panels (the columns that one register tile covers); each is one
// part. Within a part the panels run outermost, then blocks of K that keep a slice of the panel and a tile of A
// near the core, then tiles of rows. Every element is one chain of multiply-adds in the order of K, cut only
// between the blocks of K.
type Gemm struct {
	M, N, K int

	set      *Set
	blocking blocking
}

// GemmArgs are the operands of one [Gemm]. Strides count elements. C must not overlap any operand, but for a residual that
// is C itself, where Act is NoUnary and Alpha is 1. Results are the same, bit for bit, whether it is or not.
type GemmArgs struct {
	A        []float32 // element (m, k) at m·ARow + k·ACol
	ARow     int
	ACol     int
	B        []float32 // packed
	C        []float32 // element (m, n) at m·CRow + n
	CRow     int
	Alpha    float32
	Bias     []float32 // [N], or nil
	Act      UnaryOp   // applied after the bias
	ActAlpha float32   // its parameters
	ActBeta  float32
	Residual []float32 // element (m, n) at m·ResRow + n, or nil; added after the activation
	ResRow   int
}

// NewGemm plans C[m,n] = A[m,k]·B[k,n] for a packed B, and that number of workers. These have no influence on results.
func (s *Set) NewGemm(m, n, k, workers int) *Gemm {
	g := &Gemm{M: m, N: n, K: k, set: s, blocking: s.newBlocking(&s.gemm, m, n, k, blockRows)}
	g.blocking.cutRows(workers, 0)
	return g
}

// blockRows is the most rows of a part, or more where that many tiles below each other have more: the faster a tile, the longer
// a panel has to last that comes from memory.
const (
	blockRows  = 128
	blockTiles = 16
)

// Parts is the number of independent pieces.
func (g *Gemm) Parts() int { return g.blocking.parts() }

// Run computes one part, 0 ≤ part < Parts().
func (g *Gemm) Run(part int, args *GemmArgs) {
	args.check(g.M, g.N, g.K)
	g.set.gemmPart(&g.blocking, part, args)
}

// gemmPart computes one part of a product of words.
func (s *Set) gemmPart(b *blocking, part int, args *GemmArgs) {
	rowLo, rowHi, panelLo, panelHi := b.part(part)
	most := math.MaxInt
	if b.tile.joined[args.Act] == nil && !args.clampsFromZero() {
		most = blockRows / b.tile.rows
	}
	for p := panelLo; p < panelHi; {
		col := p * b.tile.cols()
		cols, packedCols := b.tile.panelCols(p, b.n)
		together := b.together(p, panelHi, rowHi-rowLo, most)
		n := max(1, together)
		panel := args.B[col*b.k:][:n*packedCols*b.k]
		s.gemmPanel(b.tile, args, gemmPanel{rowLo: rowLo, rowHi: rowHi, col: col, cols: n * cols, k: b.k, kBlock: b.kBlock,
			b: pointer(panel), bRow: packedCols, together: together, next: after(pointer(panel), len(panel))})
		p += n
	}
}

// check panics if an operand is too short, before assembly could write past it. It does not read them: other parts are writing
// meanwhile.
func (args *GemmArgs) check(m, n, k int) {
	if k > 0 {
		demand(args.A, (m-1)*args.ARow+(k-1)*args.ACol+1)
	}
	args.checkResult(m, n)
}

// checkResult is check of what has the result's shape, and of the bias.
func (args *GemmArgs) checkResult(m, n int) {
	demand(args.C, (m-1)*args.CRow+n)
	if args.Bias != nil {
		demand(args.Bias, n)
	}
	if args.Residual != nil {
		demand(args.Residual, (m-1)*args.ResRow+n)
	}
}

// A gemmPanel is the part of a product that one panel of B, or several panels beside each other, contribute: rows rowLo to rowHi of the
// columns col to col + cols.
type gemmPanel struct {
	rowLo, rowHi int
	col, cols    int
	together     int // number of panels that one call computes, each with bRow of the columns; 0 for one panel
	k, kBlock    int
	from         int  // the first of the k steps, at which A begins
	alone        bool // whether the block of K at from is the only one to compute
	b            *float32
	bRow         int
	next         uintptr      // address of the memory that is read after the panel, or 0
	call, calls  int          // number of this call, and of the calls that use the block, each of which fetches a part of next; or 0, 0
	stored       *storedPanel // panel that must be decoded, in place of b; or nil
	summed       bool         // whether C holds sums to which the product is added
}

func (s *Set) gemmPanel(tile *gemmTile, args *GemmArgs, p gemmPanel) {
	vecs := ceilDiv(p.cols, tile.vec)
	tiles := ceilDiv(p.rowHi-p.rowLo, tile.rows)
	bias := pointerAt(args.Bias, p.col)
	starts := args.startsFromResidual(p.k, p.kBlock)
	if starts && p.from == 0 {
		s.startFromResidual(args, p.rowLo, p.rowHi, p.col, p.cols)
	}
	alpha, act := args.Alpha, 0
	switch {
	case args.Act == Relu:
		act = gemmRelu
	case args.clampsFromZero():
		alpha, act = args.ActBeta, gemmRelu|gemmAtMost
	}
	for kLo := p.from; ; kLo += p.kBlock {
		kLen := min(p.kBlock, p.k-kLo)
		flags, last := 0, kLo+kLen >= p.k
		if kLo > 0 || starts || p.summed {
			flags |= gemmAccumulate
		}
		var tileBias, tileRes *float32
		if last {
			tileBias = bias
			if args.Alpha != 1 {
				flags |= gemmScale
			}
			flags |= act
		}
		joined := tile.joined[NoUnary]
		separate := last && args.Act != NoUnary && act == 0
		if separate && p.together > 0 && tile.joined[args.Act] != nil {
			joined, separate = tile.joined[args.Act], false
		}
		var bBlock *float32
		if p.stored != nil {
			bBlock = p.stored.block(s, kLo, kLen)
		} else {
			bBlock = offset(p.b, kLo*p.bRow)
		}
		next := p.next
		if next != 0 && !last {
			next = after(bBlock, kLen*p.bRow)
		}
		ahead := newPrefetch(bBlock, next, kLen*p.bRow, p.bRow, tiles*max(1, p.calls))
		for row, t := p.rowLo, 0; t < tiles; {
			rows, run := tile.run(p.rowHi-row, tiles-t, kLen*max(1, p.together))
			if separate { // what a call leaves stays in the L1 cache
				run = min(run, max(1, blockRows/(rows*max(1, p.together))))
			}
			c := pointerAt(args.C, row*args.CRow+p.col)
			if last && !separate && !starts {
				tileRes = pointerAt(args.Residual, row*args.ResRow+p.col)
			}
			a := pointerAt(args.A, row*args.ARow+(kLo-p.from)*args.ACol)
			if p.together > 0 {
				joined(p.together, run, rows, p.bRow, kLen, a, args.ARow, bBlock, c, args.CRow, alpha, 0, nil, nil, tileBias, tileRes,
					args.ResRow, flags)
			} else {
				tile.kernels[rows][vecs](run, kLen, a, args.ARow, args.ACol, bBlock, p.bRow, ahead.tile(p.call*tiles+t), ahead.step, c,
					args.CRow, p.cols-(vecs-1)*tile.vec, alpha, tileBias, tileRes, args.ResRow, flags)
			}
			if separate {
				s.activate(args, row, run*rows, p.col, p.cols)
			}
			row, t = row+run*rows, t+run
		}
		if last || p.alone {
			return
		}
	}
}

// startsFromResidual reports whether sums over k start from the residual. They must if C is the residual and k has several blocks, because
// C then holds the sums of the first ones. The memory plan decides whether C is the residual, and results must not depend on that: so a
// residual elsewhere is copied to C in this case, and sums of one block have it added at the end in both cases.
func (args *GemmArgs) startsFromResidual(k, kBlock int) bool {
	return args.Residual != nil && args.Act == NoUnary && args.Alpha == 1 && kBlock < k
}

// startFromResidual copies the residual to C unless it is there.
func (s *Set) startFromResidual(args *GemmArgs, rowLo, rowHi, col, cols int) {
	if pointer(args.Residual) != pointer(args.C) {
		s.copyRows(pointerAt(args.C, rowLo*args.CRow+col), args.CRow, pointerAt(args.Residual, rowLo*args.ResRow+col), args.ResRow,
			rowHi-rowLo, cols)
	}
}

// clampsFromZero reports whether the activation is a clamp between 0 and a positive number, of products without a factor.
func (args *GemmArgs) clampsFromZero() bool {
	return args.Act == Clamp && args.ActAlpha == 0 && args.ActBeta > 0 && args.Alpha == 1
}

// activate applies the activation and the residual to rows that the kernel has just left in the cache.
func (s *Set) activate(args *GemmArgs, row, rows, col, cols int) {
	c := pointerAt(args.C, row*args.CRow+col)
	if args.Act != NoUnary {
		s.unary[args.Act](c, args.CRow, c, args.CRow, rows, cols, args.ActAlpha, args.ActBeta)
	}
	if args.Residual != nil {
		r := pointerAt(args.Residual, row*args.ResRow+col)
		s.binary[Add][elementwise](c, args.CRow, c, args.CRow, r, args.ResRow, rows, cols)
	}
}
