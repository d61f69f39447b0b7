package kernel

import (
	"math"
	"unsafe"
)

// GemmDigits is a [Gemm] of few rows whose B was packed by [Set.NewPackBlocks] and is read as it is packed. A row of A is the sum of
// rows of signed bytes, its digits. Three of them, each of which rounds what the one before left, are as near to the row as 2⁻²⁴ of
// its largest magnitude, the distance of float32's numbers there: the product is that of floats. One digit with a scale for each
// block of B is a row that the product rounds. Sums of bytes are exact.
type GemmDigits struct {
	M, N, K int

	set      *Set
	blocking blocking
	pack     *PackBlocks
	tile     *digitTile
	digits   int
}

// Numbers of digits.
const (
	RoundedRows = 1
	FloatRows   = 3
)

// digitTile is the register tile of GemmDigits, as wide as that of float32: kernels[digits][r][v] handles r rows of v vectors.
type digitTile struct {
	step    int // the most rows of words whose products are added up as integers
	most    int // rows of A; for more of them others are as fast
	kernels map[int][][]digitsFunc
}

// digitsFunc multiplies register tiles that are below each other: for each row and column the sum over the blocks of
// bScale·Σ aScale·(Σ a·b − zero·total), the first sum over digits, and then the epilogue of gemmFunc. A block of b is a row of scales, one
// of zero points and groups rows of words, of which step at most are summed up at a time. The digits of a row of A are aDigit words apart.
// For each step there are for each digit its scale and the total of its bytes, which may be that of the block in one of its steps and 0 in
// the others.
type digitsFunc func(tiles, blocks, groups, step int, a *float32, aRow, aDigit int, aScale *float32, aScaleRow int, b *float32,
	bRow int, c *float32, cRow int, cols int, alpha float32, bias, res *float32, resRow int, flags int)

// NewGemmDigits plans C[m,n] = A[m,k]·B[k,n] for an A of RoundedRows or FloatRows, or returns nil where [GemmBlocksS8] or [GemmStored]
// is as fast.
func (s *Set) NewGemmDigits(m, n, k, block, bits, digits int) *GemmDigits {
	tile := s.blocks(bits).digits
	if tile == nil || m > tile.most || digits == RoundedRows && m > tile.most/2 {
		return nil
	}
	g := &GemmDigits{M: m, N: n, K: k, set: s, pack: s.NewPackBlocks(k, n, block, bits), tile: tile, digits: digits}
	g.blocking = s.newBlocking(&s.gemm, m, n, g.rowBytes()/4, blockRows)
	return g
}

// blocks is the number of blocks of a row, steps that of the sums of each.
func (g *GemmDigits) blocks() int { return ceilDiv(g.K, g.pack.Block) }
func (g *GemmDigits) steps() int  { return ceilDiv(g.pack.Block, g.stepLength()) }

// stepLength is the number of elements of a sum.
func (g *GemmDigits) stepLength() int { return min(g.pack.Block, g.tile.step*32/g.pack.Bits) }

// rowBytes is the length of a digit of a row, rowScales the number of floats that belong to a row.
func (g *GemmDigits) rowBytes() int  { return g.blocks() * g.pack.Block }
func (g *GemmDigits) rowScales() int { return g.blocks() * g.steps() * 2 * g.digits }

// Split is the scratch that all parts share, by its pieces: bytes of A, and floats that belong to them.
func (g *GemmDigits) Split() (bytes, scales int) {
	return g.M * g.digits * g.rowBytes(), g.M * g.rowScales()
}

// Quantize writes the bytes and scales of row r of A; work is scratch of K floats.
func (g *GemmDigits) Quantize(bytes []uint8, scales, work, row []float32, r int) {
	length, apart, size := g.pack.Block, 2*g.digits*g.steps(), g.rowBytes()
	if g.digits == FloatRows { // each sum has separate scales
		length, apart = g.stepLength(), 2*g.digits
	}
	bytes, scales = bytes[r*g.digits*size:][:g.digits*size], scales[r*g.rowScales():][:g.rowScales()]
	clear(scales)
	at := g.pack.Block
	if length == at { // all blocks are alike
		at = size
	}
	from, rest := row[:g.K], work[:g.K]
	for i := range g.digits {
		for lo := 0; lo < g.K; lo += at {
			hi := min(lo+at, g.K)
			g.set.quantizeRow(bytes[i*size:][lo:lo+at], 0, scales[lo/g.pack.Block*g.steps()*2*g.digits+2*i:], apart, from[lo:hi],
				rest[lo:hi], length)
		}
		from = rest
	}
	if g.digits == RoundedRows { // a block has one scale in all its steps
		for i := range g.blocks() * g.steps() {
			scales[2*i] = scales[i/g.steps()*g.steps()*2]
		}
		return
	}
	left := []float32{0}
	if g.set.ReduceRows(ReduceSum, left, rest, 0, 1, g.K); left[0]-left[0] != 0 { // what is not finite leaves no finite rest
		scales[0] = float32(math.NaN())
	}
}

// Parts is the number of independent pieces of Run.
func (g *GemmDigits) Parts() int { return g.blocking.parts() }

// Run computes one part, 0 ≤ part < Parts(), of what args says, of which A is not read and Alpha is 1. C and the residual may be one where
// Act is NoUnary.
func (g *GemmDigits) Run(part int, bytes []uint8, scales []float32, args *GemmArgs, packed []byte) {
	args.checkResult(g.M, g.N)
	nBytes, nScales := g.Split()
	demand(bytes, nBytes)
	demand(scales, nScales)
	words, tile := g.rowBytes()/4, g.blocking.tile
	kernels := g.tile.kernels[g.digits]
	rows := gemmTile{rows: len(kernels) - 1}
	rowLo, rowHi, panelLo, panelHi := g.blocking.part(part)
	flags, res := 0, args.Residual
	if args.Act == Relu {
		flags = gemmRelu
	}
	if args.Act > Relu {
		res = nil // after the activation
	}
	for p := panelLo; p < panelHi; p++ {
		cols, packedCols := tile.panelCols(p, g.N)
		col, vecs := p*tile.cols(), ceilDiv(cols, tile.vec)
		panel := elementsOf[float32](packed)[col*g.pack.k:][:packedCols*g.pack.k]
		for row, tiles := rowLo, ceilDiv(rowHi-rowLo, rows.rows); row < rowHi; {
			height, run := rows.run(rowHi-row, tiles, g.digits*words)
			kernels[height][vecs](run, g.blocks(), g.pack.Block*g.pack.Bits/32, g.tile.step,
				(*float32)(unsafe.Pointer(pointerAt(bytes, row*g.digits*4*words))), g.digits*words, words,
				pointerAt(scales, row*g.rowScales()), g.rowScales(), pointer(panel), packedCols,
				pointerAt(args.C, row*args.CRow+col), args.CRow, cols-(vecs-1)*tile.vec, 1, pointerAt(args.Bias, col),
				pointerAt(res, row*args.ResRow+col), args.ResRow, flags)
			if args.Act > Relu {
				g.set.activate(args, row, run*height, col, cols)
			}
			row, tiles = row+run*height, tiles-run
		}
	}
}
