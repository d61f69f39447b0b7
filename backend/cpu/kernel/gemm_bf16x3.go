package kernel

import (
	"math/bits"
	"unsafe"
)

// GemmBF16x3 is a [Gemm] that multiplies by matrix units where the level has such for bfloat16, and the product is large enough. Each
// float is the sum of three parts of bfloat16, exactly, and the product of two floats is the sum of the products of six pairs of parts:
// what the other three would add is below 2⁻²⁴ of it (Henry, Tang, Heinecke: Leveraging the bfloat16 Artificial Intelligence Datatype For
// Higher-Precision Computations, 2019).
//
// A part of the work splits its rows of A along a block of K, then columns of B, two tiles at a time, and multiplies these by all rows.
// A result depends on its row and its column alone.
type GemmBF16x3 struct {
	Gemm

	tiles blocking // blocking of the product by tiles; it has no columns if the embedded Gemm computes the product
}

// splitFunc splits floats into blocks, one for each of the steps: in turn a tile of each part, the largest first. A word of row r of a
// tile holds the parts of x = src[r·row+i] and of src[r·row+second+i], the next step is at a distance of step floats. Floats are
// multiplied by 2²⁴ first, so that no part is subnormal: tiles take these for 0.
type splitFunc func(dst, src *float32, row, second, step, rows, steps int)

// x3Next is the columns of B to be split next, by tiles: where one begins and its distance of rows in bytes, where it goes, the number of
// words, 16 for each step, and how many bytes it is to what is split then, which is prefetched; then zeros.
type x3Next [x3ColTiles + 1]struct {
	src   *float32
	row   int
	dst   *float32
	words int
	ahead int
}

// bf16x3Func multiplies blocks of A, of two tiles of rows at a time, by those of B, and adds the sums to C or puts them there. It leaves
// rows as they are where a sum is not finite, and sets their bits in bad. Meanwhile, it splits next: that many words after each of the
// products of a step.
type bf16x3Func func(tiles, rows int, a, b *float32, steps int, sums, c *float32, cRow, cols, flags int, bad *uint32, next *[15]int,
	each int)

type bf16x3Funcs struct {
	split    splitFunc
	multiply [x3ColTiles + 1]bf16x3Func // function for each number of tiles along the columns
}

const (
	x3RowTiles = 2
	x3ColTiles = 2

	x3Products = 6                   // products of parts that are added; those of the smallest parts are left out
	x3Side     = 16                  // rows and columns of a tile, and words in one
	x3Step     = 2 * x3Side          // floats of a row of A in one step
	x3Block    = 3 * x3Side * x3Side // words of the three parts of a tile
	x3Rows     = x3RowTiles * x3Side

	x3Sums = x3Rows * x3ColTiles * x3Side // sums that the tile registers hold
	x3Few  = x3Side * x3Step

	x3Depth     = 256 // most floats of a block along K: those of A stay in the L2 cache, together with two tiles of columns of B
	x3BlockRows = 128 // most rows of a part: for all of them, it splits B once
)

// x3Tile is the tile of C.
var x3Tile = gemmTile{rows: x3Rows, vecs: x3ColTiles, vec: x3Side, kernels: [][]gemmFunc{}}

// The rates of splitting floats and of multiplying, in picoseconds, which only steer how a product is cut.
const (
	x3SplitTime    = 130
	x3MultiplyTime = 4
)

// The sizes from which on matrix units are faster.
const (
	x3LeastRows  = 64
	x3LeastCols  = 64
	x3LeastDepth = 128
)

// HasBF16x3 reports whether products of some size need scratch memory.
func (s *Set) HasBF16x3() bool { return s.bf16x3.split != nil }

// AddsByParts reports whether [Set.NewGemmBF16x3] multiplies such a product by matrix units.
func (s *Set) AddsByParts(m, n, k int) bool {
	return s.HasBF16x3() && m >= x3LeastRows && n >= x3LeastCols && k >= x3LeastDepth
}

// NewGemmBF16x3 plans C[m,n] = A[m,k]·B[k,n] for a packed B, and that number of workers. These have no influence on results.
func (s *Set) NewGemmBF16x3(m, n, k, workers int) *GemmBF16x3 {
	if !s.AddsByParts(m, n, k) {
		return &GemmBF16x3{Gemm: *s.NewGemm(m, n, k, workers)}
	}
	return s.newGemmBF16x3(m, n, k, workers)
}

func (s *Set) newGemmBF16x3(m, n, k, workers int) *GemmBF16x3 {
	g := &GemmBF16x3{Gemm: *s.NewGemm(m, n, k, workers)}
	b := blocking{m: m, n: n, k: k, tile: &x3Tile, rowBlocks: max(1, ceilDiv(m, x3BlockRows)),
		kBlock: roundUp(evenBlock(k, x3Depth), x3Step)}
	rows := ceilDiv(m, b.rowBlocks)
	b.cutPanels(b.rowBlocks, workers, func(int) (prepare, panel int) {
		return rows * k * x3SplitTime / 1000, x3Tile.cols() * k * (x3SplitTime + rows*x3MultiplyTime) / 1000
	})
	g.tiles = b
	return g
}

// Parts is the number of independent pieces.
func (g *GemmBF16x3) Parts() int {
	if g.tiles.n == 0 {
		return g.Gemm.Parts()
	}
	return g.tiles.parts()
}

// ScratchBytes is the scratch memory that one worker needs.
func (g *GemmBF16x3) ScratchBytes() int {
	if g.tiles.n == 0 {
		return 0
	}
	return 4 * ((g.rowTiles()+2*x3ColTiles)*g.tileWords() + x3Sums + x3Few)
}

// rowTiles is the most tiles of rows of a part, and tileWords the length of one when it is split.
func (g *GemmBF16x3) rowTiles() int {
	return ceilDiv(ceilDiv(g.M, x3Rows), g.tiles.rowBlocks) * x3RowTiles
}

func (g *GemmBF16x3) tileWords() int { return g.tiles.kBlock / x3Step * x3Block }

// Run computes one part, 0 ≤ part < Parts(), with ScratchBytes() bytes of scratch that no other part uses meanwhile.
func (g *GemmBF16x3) Run(part int, args *GemmArgs, scratch []byte) {
	if g.tiles.n == 0 {
		g.Gemm.Run(part, args)
		return
	}
	args.check(g.M, g.N, g.K)
	words := floats(scratch, g.ScratchBytes()/4)
	take := func(n int) []float32 {
		taken := words[:n:n]
		words = words[n:]
		return taken
	}
	p := x3Part{GemmBF16x3: g, args: args, a: take(g.rowTiles() * g.tileWords()), sums: take(x3Sums), few: take(x3Few)}
	for i := range p.b {
		p.b[i] = take(x3ColTiles * g.tileWords())
	}
	p.rowLo, p.rowHi, p.first, p.end = g.tiles.part(part)
	at := x3Group{0, p.first}
	p.splitColumns(at, nil)
	for following := true; following; {
		if at.group == p.first {
			p.splitRows(at)
		}
		p.b[0], p.b[1] = p.b[1], p.b[0]
		var next x3Next
		var then x3Group
		if then, following = p.after(at); following {
			p.splitColumns(then, &next)
		}
		p.multiply(at, &next)
		at = then
	}
}

// x3Group is two tiles of columns in a block of K.
type x3Group struct{ kLo, group int }

// after is the group that is computed after another, if there is one.
func (p *x3Part) after(at x3Group) (next x3Group, ok bool) {
	if at.group+1 < p.end {
		return x3Group{at.kLo, at.group + 1}, true
	}
	kLo := at.kLo + p.tiles.kBlock
	return x3Group{kLo, p.first}, kLo < p.K
}

// depth is the number of floats along K, and steps that of steps, of which the last may not be whole.
func (p *x3Part) depth(at x3Group) int { return min(p.tiles.kBlock, p.K-at.kLo) }

func (p *x3Part) steps(at x3Group) int { return ceilDiv(p.depth(at), x3Step) }

// x3Part is one part of a product.
type x3Part struct {
	*GemmBF16x3
	args         *GemmArgs
	rowLo, rowHi int
	first, end   int // groups of columns

	a    []float32    // the split rows of A
	b    [2][]float32 // split columns of B: those that are multiplied, and those that are being split
	sums []float32    // sums of a tile
	few  []float32    // copy of the last columns of a row, if they are fewer than a step
}

func (p *x3Part) splitRows(at x3Group) {
	steps, args := p.steps(at), p.args
	whole := p.depth(at) / x3Step
	if args.ACol != 1 {
		whole = 0
	}
	for row := p.rowLo; row < p.rowHi; row += x3Side {
		dst, rows := p.a[(row-p.rowLo)/x3Side*steps*x3Block:], min(x3Side, p.rowHi-row)
		if whole > 0 {
			p.set.bf16x3.split(pointer(dst), pointerAt(args.A, row*args.ARow+at.kLo), args.ARow, x3Side, x3Step, rows, whole)
		}
		for step := whole; step < steps; step++ {
			k := at.kLo + step*x3Step
			clear(p.few)
			depth := min(x3Step, at.kLo+p.depth(at)-k)
			p.set.copy2D(p.few, x3Step, 1, args.A[row*args.ARow+k*args.ACol:], args.ARow, args.ACol, rows, depth)
			p.set.bf16x3.split(pointerAt(dst, step*x3Block), pointer(p.few), x3Step, x3Side, 0, rows, 1)
		}
	}
}

// column is where a tile of columns of B begins in its block of K, and the distance of its rows.
func (p *x3Part) column(at x3Group, i int) (b *float32, row int) {
	tile, col := p.blocking.tile, at.group*x3Tile.cols()+i*x3Side
	panel := col / tile.cols()
	_, row = tile.panelCols(panel, p.N)
	return pointerAt(p.args.B, panel*tile.cols()*p.K+col%tile.cols()+at.kLo*row), row
}

// columns is the number of columns.
func (p *x3Part) columns(at x3Group) int { return min(x3Tile.cols(), p.N-at.group*x3Tile.cols()) }

// splitColumns splits columns, or leaves the whole steps to what takes next.
func (p *x3Part) splitColumns(at x3Group, next *x3Next) {
	whole, rest := p.depth(at)/x3Step, p.depth(at)%x3Step
	then, following := p.after(at)
	for i := range ceilDiv(p.columns(at), x3Side) {
		dst := p.b[1][i*p.steps(at)*x3Block:]
		src, row := p.column(at, i)
		switch {
		case whole == 0:
		case next != nil:
			next[i].src, next[i].row, next[i].dst, next[i].words = src, 4*row, pointer(dst), x3Side*whole
			if following && i*x3Side < p.columns(then) {
				b, _ := p.column(then, i)
				next[i].ahead = int(uintptr(unsafe.Pointer(b)) - uintptr(unsafe.Pointer(src)))
			}
		default:
			p.set.bf16x3.split(pointer(dst), src, row, x3Side*row, x3Step*row, x3Side, whole)
		}
		if rest > 0 {
			clear(p.few)
			p.set.copyRows(pointer(p.few), x3Side, offset(src, whole*x3Step*row), row, rest, x3Side)
			p.set.bf16x3.split(pointerAt(dst, whole*x3Block), pointer(p.few), x3Side, x3Side*x3Side, 0, x3Side, 1)
		}
	}
}

// multiply computes all rows of some columns.
func (p *x3Part) multiply(at x3Group, next *x3Next) {
	args, steps := p.args, p.steps(at)
	col, cols := at.group*x3Tile.cols(), p.columns(at)
	tiles := ceilDiv(cols, x3Side)
	starts := args.startsFromResidual(p.K, 0)
	if starts && at.kLo == 0 {
		p.set.startFromResidual(args, p.rowLo, p.rowHi, col, cols)
	}
	flags := 0
	if at.kLo > 0 || starts {
		flags = gemmAccumulate
	}
	var bad [x3BlockRows / x3Rows]uint32
	high := ceilDiv(p.rowHi-p.rowLo, x3Rows)
	p.set.bf16x3.multiply[tiles](high, p.rowHi-p.rowLo, pointer(p.a), pointer(p.b[0]), steps, pointer(p.sums),
		pointerAt(args.C, p.rowLo*args.CRow+col), args.CRow, cols-(tiles-1)*x3Side, flags, noescape(&bad[0]),
		(*[15]int)(unsafe.Pointer(noescape(next))), ceilDiv(x3ColTiles*x3Side, x3Products*high))
	for i, rows := range bad[:high] {
		for ; rows != 0; rows &= rows - 1 {
			p.again(at, p.rowLo+i*x3Rows+bits.TrailingZeros32(rows))
		}
	}
	if at.kLo+p.depth(at) < p.K {
		return
	}
	rest := *args // what the sums lack
	if starts {
		rest.Residual = nil
	}
	if rest.Bias != nil || rest.Act != NoUnary || rest.Alpha != 1 || rest.Residual != nil {
		p.set.gemmPanel(p.blocking.tile, noescape(&rest), gemmPanel{rowLo: p.rowLo, rowHi: p.rowHi, col: col, cols: cols, kBlock: 1,
			summed: true, b: pointer(p.b[0])})
	}
}

// again multiplies a row by floats, to whose block of K a sum belongs that was not finite: an operand is not finite or huge.
func (p *x3Part) again(at x3Group, row int) {
	args := *p.args
	args.A = args.A[at.kLo*args.ACol:]
	col, cols := at.group*x3Tile.cols(), p.columns(at)
	for i := range ceilDiv(cols, x3Side) {
		b, bRow := p.column(x3Group{0, at.group}, i)
		p.set.gemmPanel(p.blocking.tile, noescape(&args), gemmPanel{rowLo: row, rowHi: row + 1, col: col + i*x3Side,
			cols: min(x3Side, cols-i*x3Side), k: p.K + 1, from: at.kLo, kBlock: p.depth(at), alone: true, // as if more of K followed
			b: b, bRow: bRow})
	}
}
