package kernel

import (
	"math"
	"unsafe"
)

// GemmBlocksS8 is a [Gemm] whose B was packed by [Set.NewPackBlocks] and whose A is 8-bit values, in blocks as long as those
// of B: exact sums for each block, which are scaled and added up as float32. A panel of B becomes signed bytes in scratch memory,
// and is used for all rows of the part while it is in cache.
type GemmBlocksS8 struct {
	M, N, K int

	set      *Set
	blocking blocking
	pack     *PackBlocks
	zeros    bool
}

// GemmBlocksS8Args are the operands of one [GemmBlocksS8].
type GemmBlocksS8Args struct {
	// Quantized is what QuantizeBlocks writes, a row of RowBytes() after the other, Scales its other result.
	Quantized []uint8
	Scales    []float32
	// GemmArgs are the others; A is not read, Alpha is 1.
	GemmArgs
}

// blockTile is the register tile of GemmBlocksS8, as wide as that of float32: kernels[r][v] handles r rows of v vectors.
type blockTile struct {
	rows    int // most rows
	kernels [][]gemmBlocksFunc
}

// gemmBlocksFunc multiplies register tiles that are below each other: for each row and column the sum over the blocks of
// (bSum + Σ a·b)·(aScale·bScale), and then the epilogue of gemmFunc. a holds four unsigned bytes a word, b signed ones. Strides
// count words; bSum has the stride of b. With gemmZeros, (zero − 128)·total is taken from a block's sum, where total is after the
// block's aScale, and zero a row of b after its bScale.
type gemmBlocksFunc func(tiles, blocks, words int, a *float32, aRow int, aScale *float32, aScaleRow int, b *float32, bRow int,
	bScale *float32, bScaleRow int, bSum *int32, c *float32, cRow int, cols int, alpha float32, bias, res *float32, resRow int, flags int)

// unpackFunc writes blocks of a packed panel as words of four signed bytes: those of 4 bits with the zero points taken off, those
// of 8 bits less 128; and −128 times the sum of each column of a block, because quantised values of A are 128 too high: none are
// written for a tile that takes 128 from these itself.
type unpackFunc func(dst *uint32, sums *int32, src *float32, blocks, groups, cols int)

// quantizeBlocksFunc rounds blocks to 127ths of their largest magnitude, ties to even, and adds an offset. For each block it writes the
// scale and the sum of the quantised values without the offset, scaleStep floats after those of the block before, and what rounding left
// if rest is not nil. rest may be src. The length of a block is a multiple of 16.
type quantizeBlocksFunc func(dst *uint8, offset int32, scale *float32, scaleStep int, src, rest *float32, blocks, block int)

// quantizeRow is quantizeBlocks of a row of any length; the rest of dst stands for 0.
func (s *Set) quantizeRow(dst []uint8, offset int32, scales []float32, scaleStep int, src, rest []float32, block int) {
	whole := len(src) / block
	left := len(src) - whole*block
	_ = dst[len(src)-1]
	if rest != nil {
		_ = rest[len(src)-1]
	}
	_ = scales[(ceilDiv(len(src), block)-1)*scaleStep+1]
	if whole > 0 {
		s.quantizeBlocks(pointer(dst), offset, pointer(scales), scaleStep, pointer(src), pointer(rest), whole, block)
	}
	tail := dst[len(src):]
	for i := range tail {
		tail[i] = uint8(offset)
	}
	if left == 0 {
		return
	}
	at, quantize := whole*block, quantizeBlocksGeneric
	if left%16 == 0 {
		quantize = s.quantizeBlocks
	}
	quantize(pointerAt(dst, at), offset, pointerAt(scales, whole*scaleStep), scaleStep, pointerAt(src, at), pointerAt(rest, at), 1, left)
}

// NewGemmBlocksS8 plans C[m,n] = A[m,k]·B[k,n] for an A and a B quantised in blocks of the given length, and that number of workers, which
// have no influence on results. Without zeros, all zero points of B are in the middle.
func (s *Set) NewGemmBlocksS8(m, n, k, block, bits int, zeros bool, workers int) *GemmBlocksS8 {
	g := &GemmBlocksS8{M: m, N: n, K: k, set: s, pack: s.NewPackBlocks(k, n, block, bits), zeros: zeros && bits == 8}
	g.blocking = s.newBlocking(&s.gemm, m, n, g.RowBytes()/4, blockRows)
	g.blocking.cutRows(workers, k*s.gemm.cols()/decodedPerNanosecond)
	return g
}

// RowBytes is the length of a row of A: whole blocks.
func (g *GemmBlocksS8) RowBytes() int { return roundUp(g.K, g.pack.Block) }

// blocks is the number of blocks of a row of A.
func (g *GemmBlocksS8) blocks() int { return g.RowBytes() / g.pack.Block }

// RowScales is the number of floats that belong to the quantised values of a row: for each block its scale and its sum.
func (g *GemmBlocksS8) RowScales() int { return 2 * g.blocks() }

// Parts is the number of independent pieces.
func (g *GemmBlocksS8) Parts() int { return g.blocking.parts() }

// ScratchBytes is the scratch memory that one worker needs: a panel, and the sums of its columns.
func (g *GemmBlocksS8) ScratchBytes() int {
	return g.blocking.tile.cols() * (g.RowBytes() + 4*g.blocks())
}

// QuantizeBlocks writes the quantised values of rows lo ≤ row < hi of K elements, and what belongs to them.
func (g *GemmBlocksS8) QuantizeBlocks(quantized []uint8, scales, src []float32, srcRow, lo, hi int) {
	for r := lo; r < hi; r++ {
		g.set.quantizeRow(quantized[r*g.RowBytes():][:g.RowBytes()], 128, scales[r*g.RowScales():][:g.RowScales()], 2,
			src[r*srcRow:][:g.K], nil, g.pack.Block)
	}
}

// Run computes one part, 0 ≤ part < Parts(), with ScratchBytes() bytes of scratch that no other part uses meanwhile.
func (g *GemmBlocksS8) Run(part int, args *GemmBlocksS8Args, packed, scratch []byte) {
	args.check(g.M, g.N, 0)
	demand(args.Quantized, g.M*g.RowBytes())
	demand(args.Scales, g.M*g.RowScales())
	tile := g.blocking.tile
	funcs := g.set.blocks(g.pack.Bits)
	rows := gemmTile{rows: funcs.tile.rows}
	rowLo, rowHi, panelLo, panelHi := g.blocking.part(part)
	words := elementsOf[uint32](scratch[:g.ScratchBytes()])
	sums := elementsOf[int32](bytesOfWords(words[tile.cols()*g.RowBytes()/4:]))
	blocks, block := g.blocks(), g.pack.Block
	for p := panelLo; p < panelHi; p++ {
		cols, packedCols := tile.panelCols(p, g.N)
		col, vecs := p*tile.cols(), ceilDiv(cols, tile.vec)
		panel := elementsOf[float32](packed)[col*g.pack.k:][:packedCols*g.pack.k]
		funcs.unpack(pointer(words), pointer(sums), pointer(panel), blocks, block*g.pack.Bits/32, packedCols)
		flags, res := 0, args.Residual
		if args.Act == Relu {
			flags = gemmRelu
		}
		if g.zeros {
			flags |= gemmZeros
		}
		if args.Act > Relu {
			res = nil // after the activation
		}
		for row, tiles := rowLo, ceilDiv(rowHi-rowLo, rows.rows); row < rowHi; {
			height, run := rows.run(rowHi-row, tiles, g.RowBytes()/4)
			funcs.tile.kernels[height][vecs](run, blocks, block/4,
				(*float32)(unsafe.Pointer(pointerAt(args.Quantized, row*g.RowBytes()))), g.RowBytes()/4,
				pointerAt(args.Scales, 2*row*blocks), 2*blocks, (*float32)(unsafe.Pointer(pointer(words))), packedCols, pointer(panel),
				g.pack.blockBytes(packedCols)/4, pointer(sums),
				pointerAt(args.C, row*args.CRow+col), args.CRow, cols-(vecs-1)*tile.vec, 1, pointerAt(args.Bias, col),
				pointerAt(res, row*args.ResRow+col), args.ResRow, flags)
			if args.Act > Relu {
				g.set.activate(&args.GemmArgs, row, run*height, col, cols)
			}
			row, tiles = row+run*height, tiles-run
		}
	}
}

// blocksGeneric is the plain Go tile.
func blocksGeneric() blockTile {
	t := blockTile{rows: 4, kernels: [][]gemmBlocksFunc{nil}}
	for rows := 1; rows <= t.rows; rows++ {
		t.kernels = append(t.kernels, []gemmBlocksFunc{nil, gemmBlocksGeneric(rows, 1), gemmBlocksGeneric(rows, 2)})
	}
	return t
}

func gemmBlocksGeneric(rows, vecs int) gemmBlocksFunc {
	return func(tiles, blocks, words int, a *float32, aRow int, aScale *float32, aScaleRow int, b *float32, bRow int, bScale *float32,
		bScaleRow int, bSum *int32, c *float32, cRow int, cols int, alpha float32, bias, res *float32, resRow int, flags int) {
		for r := range tiles * rows {
			for v := range vecs {
				first, real := v*genericLanes, genericLanes
				if v == vecs-1 {
					real = cols
				}
				var total [genericLanes]float32
				for block := range blocks {
					sum := *(*[genericLanes]float32)(unsafe.Pointer(offset(bSum, block*bRow+first)))
					sumsS8(noescape(&sum), words, offset(a, r*aRow+block*words), 1, offset(b, block*words*bRow+first), bRow)
					x, y := offset(aScale, r*aScaleRow+2*block), offset(bScale, block*bScaleRow+first)
					for j, bits := range sum {
						exact := float32(int32(math.Float32bits(bits)))
						if flags&gemmZeros != 0 {
							exact -= (*offset(y, bRow+j) - 128) * *offset(x, 1)
						}
						total[j] += exact * (*x * *offset(y, j))
					}
				}
				for j, t := range total[:real] {
					j += first
					if bias != nil {
						t += *offset(bias, j)
					}
					if flags&gemmRelu != 0 && t < 0 {
						t = 0
					}
					if res != nil {
						t += *offset(res, r*resRow+j)
					}
					*offset(c, r*cRow+j) = t
				}
			}
		}
	}
}

func unpackQ4Generic(dst *uint32, sums *int32, src *float32, blocks, groups, cols int) {
	for b := range blocks {
		for c := range cols {
			zero, sum := uint32(*offset(src, cols+c)), int32(0)
			for i := range groups {
				word := math.Float32bits(*offset(src, (2+i)*cols+c))
				for half := range 2 {
					var bytes uint32
					for j := range 4 {
						x := word>>(8*j+4*half)&15 - zero
						bytes |= x & 0xff << (8 * j)
						sum += int32(x)
					}
					*offset(dst, (2*(b*groups+i)+half)*cols+c) = bytes
				}
			}
			*offset(sums, b*cols+c) = -128 * sum
		}
		src = offset(src, (2+groups)*cols)
	}
}

func unpackQ8Generic(dst *uint32, sums *int32, src *float32, blocks, groups, cols int) {
	for b := range blocks {
		for c := range cols {
			sum := int32(0)
			for i := range groups {
				word := math.Float32bits(*offset(src, (2+i)*cols+c)) ^ 0x80808080
				for j := range 4 {
					sum += int32(int8(word >> (8 * j)))
				}
				*offset(dst, (b*groups+i)*cols+c) = word
			}
			*offset(sums, b*cols+c) = -128 * sum
		}
		src = offset(src, (2+groups)*cols)
	}
}

func quantizeBlocksGeneric(dst *uint8, by int32, scale *float32, scaleStep int, src, rest *float32, blocks, block int) {
	for b := range blocks {
		var largest float32
		for i := range block {
			largest = max(largest, float32(math.Abs(float64(*offset(src, b*block+i)))))
		}
		inverse, total := min(127/largest, math.MaxFloat32), float32(0)
		back := largest / 127
		*offset(scale, b*scaleStep) = back
		for i := range block {
			x, q := *offset(src, b*block+i), float32(0)
			if scaled := x * inverse; scaled == scaled {
				q = float32(math.RoundToEven(float64(scaled)))
			}
			*offset(dst, b*block+i) = uint8(int32(q) + by)
			total += q
			if rest != nil {
				*offset(rest, b*block+i) = float32(float64(x) - float64(q)*float64(back))
			}
		}
		*offset(scale, b*scaleStep+1) = total
	}
}
