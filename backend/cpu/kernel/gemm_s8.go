package kernel

import (
	"encoding/binary"
	"math"

	"github.com/rlxc/rlxc/internal/packed"
)

// PackS8 lays out a constant int8 matrix B[K,N] for [GemmS8]: panels of words of four neighbours along K, then the sums
// of the columns, which correct for the zero points of A. K is padded with zeros to whole words.
type PackS8 struct {
	packing
	K, N int
	set  *Set
}

// NewPackS8 plans the packing of a B with k rows and n columns.
func (s *Set) NewPackS8(k, n int) *PackS8 {
	return &PackS8{packing: newPacking(&s.gemmS8, packed.S8, ceilDiv(k, 4), n), K: k, N: n, set: s}
}

// Bytes is the size of the packed matrix. Its memory is aligned for int32.
func (p *PackS8) Bytes() int { return 4*p.words() + 4*p.N }

// sums returns the sums of the columns of a packed matrix.
func (p *PackS8) sums(packed []byte) []int32 {
	return elementsOf[int32](packed[4*p.words():])[:p.N]
}

// Run packs one part. Element (k, n) of src is at k·row + n·col. Where src holds unsigned bytes, unsigned is set; then
// 128 is taken from each byte, and from the zero points of B that go with it.
func (p *PackS8) Run(part int, dst, src []byte, row, col int, unsigned bool) {
	flip := uint32(0)
	if unsigned {
		flip = 0x80808080
	}
	lo, hi := p.part(part)
	sums := elementsOf[float32](dst[4*p.words():])
	for panel := lo; panel < hi; panel++ {
		first := panel * p.tile.cols()
		cols, packedCols := p.tile.panelCols(panel, p.N)
		words := elementsOf[uint32](dst)[first*p.k:][:packedCols*p.k]
		quick := p.packWords(words, packedCols, cols, src[min(len(src), first*col):], row, col, flip)
		for i := range p.k {
			line := words[i*packedCols:][:packedCols]
			clear(line[cols:])
			if i < quick {
				continue
			}
			words4(line[:cols], src[min(len(src), 4*i*row+first*col):], row, col, min(4, p.K-4*i), flip)
		}
		if p.set.Lacks != nil {
			columnSums(sums[first:][:cols], words, packedCols)
			p.deepen(words, packedCols)
			continue
		}
		p.deepen(words, packedCols)
		// The sums of the columns are their products with ones, which a stride of 0 repeats.
		ones := math.Float32frombits(0x01010101)
		vecs := ceilDiv(cols, p.tile.vec)
		p.tile.kernels[1][vecs](1, p.k, noescape(&ones), 0, 0, pointer(elementsOf[float32](dst)[first*p.k:]), packedCols, 0, 0,
			pointerAt(sums, first), cols, cols-(vecs-1)*p.tile.vec, 1, nil, nil, 0, 0)
	}
}

// columnSums writes the sums of the columns of a panel as int32, in plain Go.
func columnSums(dst []float32, words []uint32, packedCols int) {
	for c := range dst {
		sum := int32(0)
		for i := c; i < len(words); i += packedCols {
			for _, x := range [4]int8{int8(words[i]), int8(words[i] >> 8), int8(words[i] >> 16), int8(words[i] >> 24)} {
				sum += int32(x)
			}
		}
		dst[c] = math.Float32frombits(uint32(sum))
	}
}

// packWords fills the first rows of a panel by vectors and returns their number.
func (p *PackS8) packWords(panel []uint32, panelRow, cols int, src []byte, row, col int, flip uint32) (rows int) {
	rows = p.K / 4
	switch lanes := p.set.quantize.lanes; {
	case rows == 0:
	case col == 1: // rows of B interleave
		_, _ = panel[(rows-1)*panelRow+cols-1], src[(4*rows-1)*row+cols-1]
		whole := cols / lanes * lanes
		if whole > 0 {
			p.set.quantize.interleave(pointer(panel), panelRow, pointer(src), row, flip, rows, whole)
		}
		if whole < cols {
			quantizeGeneric.interleave(pointerAt(panel, whole), panelRow, pointerAt(src, whole), row, flip, rows, cols-whole)
		}
	case row == 1 && col%4 == 0: // a transpose of words
		p.set.copy2D(elementsOf[float32](bytesOfWords(panel)), panelRow, 1, elementsOf[float32](src), 1, col/4, rows, cols)
		if flip != 0 {
			for i := range panel[:rows*panelRow] {
				panel[i] ^= flip
			}
		}
	default:
		return 0
	}
	return rows
}

// words4 gathers n ≤ 4 neighbours along K into each word of a line.
func words4(line []uint32, src []byte, row, col, n int, flip uint32) {
	switch {
	case n == 4 && row == 1:
		for c := range line {
			line[c] = binary.LittleEndian.Uint32(src[c*col:]) ^ flip
		}
	default:
		for c := range line {
			var word uint32
			for i := range n {
				word |= uint32(src[i*row+c*col]) << (8 * i)
			}
			line[c] = word ^ flip&(1<<(8*n)-1)
		}
	}
}

// GemmS8 is a planned product of bytes: exact sums of unsigned A[M,K] times signed B[K,N] packed by [Set.NewPackS8], from
// which follow C = act((sums − zero points)·scales + bias) + residual, or quantised values of it.
type GemmS8 struct {
	M, N, K int

	set      *Set
	blocking blocking
	pack     *PackS8
	noBias   []float32
}

// GemmS8Args are the operands of one [GemmS8]. Strides count elements.
type GemmS8Args struct {
	A     []uint8   // element (m, k) at m·ARow + k
	ARow  int       // bytes from one row to the next: a multiple of 4, and at least K. Bytes of a row after K may have any value
	Scale []float32 // [M], or [1] for all rows
	Zero  []int32   // zero points, as many as scales

	B      []byte    // packed
	BScale []float32 // [N]
	BZero  []int32   // [N], or [1] for all columns, or nil for none
	Bias   []float32 // [N], or nil
	Addend []int32   // [N]: numbers that are added to the sums; nil for none

	C        []float32 // element (m, n) at m·CRow + n
	CRow     int
	Act      UnaryOp
	ActAlpha float32 // its parameters
	ActBeta  float32
	Residual []float32 // added after the activation: element (m, n) at m·ResRow + n, or nil; may be C
	ResRow   int

	// Sums, if not nil, receives the exact sums of (A − Zero)·(B − BZero) in place of C: element (m, n) at m·CRow + n.
	Sums []int32
	// Quantized, if its Dst is not nil, receives C quantised, in place of C.
	Quantized Quantized
}

// NewGemmS8 plans a product of bytes for that many workers.
func (s *Set) NewGemmS8(m, n, k, workers int) *GemmS8 {
	g := &GemmS8{M: m, N: n, K: k, set: s, blocking: s.newBlocking(&s.gemmS8, m, n, ceilDiv(k, 4), blockRows), pack: s.NewPackS8(k, n),
		noBias: make([]float32, n)}
	g.blocking.spread(workers)
	return g
}

// Parts is the number of independent pieces.
func (g *GemmS8) Parts() int { return g.blocking.parts() }

// ScratchBytes is the scratch memory that one worker needs: the sums of the rows of A, what all rows of a panel share, and a block of C.
func (g *GemmS8) ScratchBytes() int {
	tile := g.blocking.tile
	columns := tile.cols()
	if tile.joined[sumsOnly] != nil {
		columns *= blockRows / tile.rows
	}
	return 4 * (g.partRows()*(1+tile.cols()) + 2*columns)
}

// partRows is the most rows of a part: blocks of rows end where tiles do.
func (g *GemmS8) partRows() int { return roundUp(blockRows, g.blocking.tile.rows) }

// Run computes one part, 0 ≤ part < Parts(), with ScratchBytes() bytes of scratch that no other part uses meanwhile.
func (g *GemmS8) Run(part int, args *GemmS8Args, scratch []byte) {
	words := g.blocking.k
	if words > 0 {
		demand(args.A, (g.M-1)*args.ARow+4*words)
	}
	args.checkResult(g.M, g.N)
	rowLo, rowHi, panelLo, panelHi := g.blocking.part(part)
	scratch = scratch[:g.ScratchBytes()]
	totals := elementsOf[int32](scratch[:4*g.partRows()])
	g.rowTotals(args, rowLo, rowHi, totals)
	scratch = scratch[4*g.partRows():]
	tile := g.blocking.tile
	scales := args.scales()
	most := blockRows / tile.rows
	if scales && tile.joined[args.Act] != nil {
		most = math.MaxInt
	}
	for p := panelLo; p < panelHi; {
		cols, packedCols := tile.panelCols(p, g.N)
		col := p * tile.cols()
		together := g.blocking.together(p, panelHi, rowHi-rowLo, most)
		n := max(1, together)
		if together > 0 && scales {
			g.scaled(args, rowLo, rowHi, n, col, cols, scratch)
		} else {
			b := elementsOf[float32](args.B)[col*words:][:n*packedCols*words]
			g.panel(args, rowLo, rowHi, together, col, n*cols, packedCols, b, totals, scratch)
		}
		p += n
	}
}

// checkResult panics if the result is too short.
func (args *GemmS8Args) checkResult(m, n int) {
	switch {
	case args.Sums != nil:
		demand(args.Sums, (m-1)*args.CRow+n)
	case args.Quantized.Dst != nil:
		demand(args.Quantized.Dst, (m-1)*args.Quantized.Row+n)
	default:
		demand(args.C, (m-1)*args.CRow+n)
	}
}

// panel computes rows [rowLo, rowHi) of the cols columns from col on, of one panel or of those that a call takes together: runs of tiles to
// scratch, then what follows from the sums while they are in cache.
func (g *GemmS8) panel(args *GemmS8Args, rowLo, rowHi, together, col, cols, packedCols int, b []float32, totals []int32, scratch []byte) {
	tile, k := g.blocking.tile, g.blocking.k
	vecs, tiles := ceilDiv(cols, tile.vec), ceilDiv(rowHi-rowLo, tile.rows)
	next := newPrefetch(pointer(b), after(pointer(b), len(b)), len(b), packedCols, tiles)
	f := g.columns(args, col, cols, scratch)
	scratch = scratch[8*cols:]
	sums := elementsOf[float32](scratch)
	for row, t := rowLo, 0; t < tiles; {
		rows, run := tile.run(rowHi-row, tiles-t, k)
		a := pointerAt(elementsOf[float32](bytesAs[byte](args.A)), row*args.ARow/4)
		if together > 0 {
			run = 1
			tile.joined[sumsOnly](together, run, rows, packedCols, k, a, args.ARow/4, pointer(b), pointer(sums), cols, 1, 0, nil, nil, nil,
				nil, 0, 0)
		} else {
			tile.kernels[rows][vecs](run, k, a, args.ARow/4, 1, pointer(b), packedCols, next.tile(t), next.step, pointer(sums), cols,
				cols-(vecs-1)*tile.vec, 1, nil, nil, 0, 0)
		}
		g.finish(args, row, run*rows, f, totals[row-rowLo:], elementsOf[int32](scratch))
		row, t = row+run*rows, t+run
	}
}

// scales reports whether one factor a column is between the sums and a result in floats.
func (args *GemmS8Args) scales() bool {
	return args.sharesScale() && args.Sums == nil && args.Quantized.Dst == nil && args.Addend == nil
}

// scaled computes rows [rowLo, rowHi) of neighbouring panels of cols columns, the first at col, by the tile's kernel that scales.
func (g *GemmS8) scaled(args *GemmS8Args, rowLo, rowHi, panels, col, cols int, scratch []byte) {
	tile, k := g.blocking.tile, g.blocking.k
	bias := args.Bias
	if bias == nil {
		bias = g.noBias
	}
	a, b := elementsOf[float32](bytesAs[byte](args.A)), elementsOf[float32](args.B)[col*k:][:panels*cols*k]
	colSums, colScale, all := g.pack.sums(args.B)[col:], args.BScale[col:], panels*cols
	_, _, _ = colSums[all-1], colScale[all-1], bias[col+all-1]
	flags, scaled := 0, tile.joined[args.Act]
	apart := scaled == nil
	switch {
	case apart:
		scaled = tile.joined[NoUnary]
	case args.Act == Relu:
		flags |= gemmRelu
	}
	tiles := ceilDiv(rowHi-rowLo, tile.rows)
	for row, t := rowLo, 0; t < tiles; {
		rows, run := tile.run(rowHi-row, tiles-t, k*panels)
		if apart {
			run = 1
		}
		c, cRow := pointerAt(args.C, row*args.CRow+col), args.CRow
		res := pointerAt(args.Residual, row*args.ResRow+col)
		if apart && res != nil { // which may be C
			c, cRow, res = pointer(elementsOf[float32](scratch)), all, nil
		}
		scaled(panels, run, rows, cols, k, pointerAt(a, row*args.ARow/4), args.ARow/4, pointer(b), c, cRow, args.Scale[0], args.Zero[0],
			pointer(colSums), pointer(colScale), pointerAt(bias, col), res, args.ResRow, flags)
		if apart {
			g.set.finishS8(args, row, run*rows, col, all, c, cRow, pointerAt(args.C, row*args.CRow+col), args.CRow)
		}
		row, t = row+run*rows, t+run
	}
}
