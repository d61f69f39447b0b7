package kernel

import (
	"fmt"
	"unsafe"
)

// Gemm is a planned product C[M,N] = act(alpha·A[M,K]·B[K,N] + bias[N]) + residual[M,N] of float32 matrices whose B
// was packed by [Set.NewPackB].
//
// The work is cut into blocks of rows times groups of panels (the columns that one register tile covers); each is one
// part. Within a part the panels run outermost, then blocks of K that keep a slice of the panel and a tile of A
// near the core, then tiles of rows. Every element is one chain of multiply-adds in the order of K, cut only
// between the blocks of K.
type Gemm struct {
	M, N, K int

	set           *Set
	rowBlocks     int // blocks of rows, of equal height in tiles
	panelsPerPart int
	panelGroups   int
	kBlock        int
}

// GemmArgs are the operands of one [Gemm]. Strides count elements. C must not overlap any operand.
type GemmArgs struct {
	A        []float32 // element (m, k) at m·ARow + k·ACol
	ARow     int
	ACol     int
	B        []float32 // packed
	C        []float32 // element (m, n) at m·CRow + n
	CRow     int
	Alpha    float32
	Bias     []float32  // [N], or nil
	Act      Activation // applied behind the bias
	Residual []float32  // element (m, n) at m·ResRow + n, or nil; added behind the activation
	ResRow   int
}

// Activation is a function that a product applies to its result before it leaves the cache.
type Activation uint8

const (
	ActNone Activation = iota
	ActRelu
	ActGelu     // x/2·(1+erf(x/√2))
	ActGeluTanh // the approximation of it by tanh
	ActTanh
	numActivations
)

// gemmFunc multiplies register tiles that lie below each other: for each, rows × cols of C (+)= A·B over k steps, then
// the epilogue. Strides count elements; B has its columns side by side and bRow elements from one k to the next. The
// number of rows, and of vectors in a row of the tile, are fixed for each function; cols says how many columns of
// the last vector are real: only those of C, bias and res are touched, all of B are read. From next on, memory is
// prefetched at nextStep bytes for each k of each tile.
type gemmFunc func(tiles, k int, a *float32, aRow, aCol int, b *float32, bRow int, next uintptr, nextStep int, c *float32, cRow int, cols int, alpha float32, bias, res *float32, resRow int, flags int)

// Flags of a gemmFunc.
const (
	gemmAccumulate = 1 << iota // add what C holds to the sum, before all else
	gemmScale                  // multiply by alpha
	gemmRelu                   // clamp at 0, between bias and residual
)

// gemmTile is the register tile of one level: kernels[r][v] handles r rows of v vectors.
type gemmTile struct {
	rows    int // most rows
	vecs    int // most vectors
	vec     int // floats in a vector
	kernels [][]gemmFunc
}

// layout names the packed form that the tile reads.
func (t *gemmTile) layout() string { return fmt.Sprintf("f32/%d/%d", t.cols(), t.vec) }

// cols is the width of a panel.
func (t *gemmTile) cols() int { return t.vecs * t.vec }

// gemmCost estimates the time of a product in nanoseconds, at the rates of one fast core: 150 GFLOP/s, or 20 GB/s
// for reading B. It only steers the blocking, so it is one constant for all machines.
func gemmCost(m, n, k int) int { return max(2*m*n*k/150, 4*n*k/20) + 1 }

// NewGemm plans C[m,n] = A[m,k]·B[k,n] for a packed B.
func (s *Set) NewGemm(m, n, k int) *Gemm { return s.newGemm(m, n, k, 128) }

// newGemm plans with the given limit to the rows of a part.
func (s *Set) newGemm(m, n, k, limit int) *Gemm {
	g := &Gemm{M: m, N: n, K: k, set: s}
	tileRows := s.gemm.rows
	// A tile of A takes half of the L1 cache, in steps that divide common sizes of K evenly.
	g.kBlock = evenBlock(k, max(64, s.caches.l1/2/(4*tileRows)))
	// A block of rows takes half of the L2 cache at most, and is small enough for its parts to spread.
	blockRows := min(limit, max(4*tileRows, s.caches.l2/2/(4*max(k, 1))))
	g.rowBlocks = max(1, ceilDiv(m, blockRows))
	panels := ceilDiv(n, s.gemm.cols())
	rows := ceilDiv(m, g.rowBlocks)
	g.panelsPerPart = max(1, min(panels, partNanoseconds/gemmCost(rows, s.gemm.cols(), k)))
	g.panelGroups = ceilDiv(panels, g.panelsPerPart)
	return g
}

// Parts is the number of independent pieces.
func (g *Gemm) Parts() int {
	if g.M == 0 || g.N == 0 {
		return 0
	}
	return g.rowBlocks * g.panelGroups
}

// Run computes one part, 0 ≤ part < Parts().
func (g *Gemm) Run(part int, args *GemmArgs) {
	args.check(g.M, g.N, g.K)
	width := g.set.gemm.cols()
	rowLo, rowHi, panelLo, panelHi := g.bounds(part)
	for p := panelLo; p < panelHi; p++ {
		cols := min(width, g.N-p*width)
		packedCols := roundUp(cols, g.set.gemm.vec)
		b := args.B[p*width*g.K:][:packedCols*g.K]
		g.set.gemmPanel(args, gemmPanel{rowLo, rowHi, p * width, cols, g.K, g.kBlock, pointer(b), packedCols, true})
	}
}

// bounds gives the rows and panels of a part.
func (g *Gemm) bounds(part int) (rowLo, rowHi, panelLo, panelHi int) {
	rowLo, rowHi = share(g.M, g.rowBlocks, part/g.panelGroups, g.set.gemm.rows)
	panelLo = part % g.panelGroups * g.panelsPerPart
	panelHi = min(panelLo+g.panelsPerPart, ceilDiv(g.N, g.set.gemm.cols()))
	return rowLo, rowHi, panelLo, panelHi
}

// check panics if an operand is too short, before assembly could write past it.
func (args *GemmArgs) check(m, n, k int) {
	if k > 0 {
		_ = args.A[(m-1)*args.ARow+(k-1)*args.ACol]
	}
	_ = args.C[(m-1)*args.CRow+n-1]
	if args.Bias != nil {
		_ = args.Bias[n-1]
	}
	if args.Residual != nil {
		_ = args.Residual[(m-1)*args.ResRow+n-1]
	}
}

// callSteps is the most k steps of tiles in one call of assembly, which cannot be interrupted: about 50 µs.
const callSteps = 16 * 768

// gemmPanel is the part of a product that one panel of B gives: rows [rowLo, rowHi) of the cols columns from col on.
type gemmPanel struct {
	rowLo, rowHi int
	col, cols    int
	k, kBlock    int
	b            *float32
	bRow         int
	followed     bool // the next panel lies behind this one in memory
}

func (s *Set) gemmPanel(args *GemmArgs, p gemmPanel) {
	vecs := ceilDiv(p.cols, s.gemm.vec)
	tiles := ceilDiv(p.rowHi-p.rowLo, s.gemm.rows)
	bias := pointerAt(args.Bias, p.col)
	for kLo := 0; ; kLo += p.kBlock {
		kLen := min(p.kBlock, p.k-kLo)
		flags, last := 0, kLo+kLen >= p.k
		if kLo > 0 {
			flags |= gemmAccumulate
		}
		var tileBias, tileRes *float32
		if last {
			tileBias = bias
			if args.Alpha != 1 {
				flags |= gemmScale
			}
			if args.Act == ActRelu {
				flags |= gemmRelu
			}
		}
		separate := last && args.Act > ActRelu
		bBlock := offset(p.b, kLo*p.bRow)
		// While the tiles use this block of the panel, each brings its share of the following one into the L2 cache.
		// A lone tile streams: it gains nothing and asks for what it reads. The address may lie behind the matrix,
		// so it must not be a pointer.
		blockBytes := 4 * kLen * p.bRow
		next, nextStep := uintptr(unsafe.Pointer(bBlock)), 4*p.bRow
		if p.followed && tiles > 1 {
			next, nextStep = next+uintptr(blockBytes), nextStep/tiles
		}
		maxRun := max(1, callSteps/max(kLen, 1))
		for row, t := p.rowLo, 0; t < tiles; {
			// The rows are spread evenly: taller tiles first, then those of one row less.
			rows := ceilDiv(p.rowHi-row, tiles-t)
			run := tiles - t
			if short := (tiles-t)*rows - (p.rowHi - row); short > 0 {
				run -= short
			}
			run = min(run, maxRun)
			c := &args.C[row*args.CRow+p.col]
			if last && !separate {
				tileRes = pointerAt(args.Residual, row*args.ResRow+p.col)
			}
			s.gemm.kernels[rows][vecs](run, kLen, pointerAt(args.A, row*args.ARow+kLo*args.ACol), args.ARow, args.ACol,
				bBlock, p.bRow, next+uintptr(t*blockBytes/tiles), nextStep, c, args.CRow, p.cols-(vecs-1)*s.gemm.vec, args.Alpha, tileBias, tileRes, args.ResRow, flags)
			if separate {
				s.activate(args, row, run*rows, p.col, p.cols)
			}
			row, t = row+run*rows, t+run
		}
		if last {
			return
		}
	}
}

// activate applies the activation and the residual to a tile that the kernel has just left in the L1 cache.
func (s *Set) activate(args *GemmArgs, row, rows, col, cols int) {
	c := &args.C[row*args.CRow+col]
	s.unary[args.Act.unary()](c, args.CRow, c, args.CRow, rows, cols)
	if args.Residual != nil {
		r := &args.Residual[row*args.ResRow+col]
		s.binary[Add][elementwise](c, args.CRow, c, args.CRow, r, args.ResRow, rows, cols)
	}
}
