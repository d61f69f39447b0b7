package kernel

import "math"

// GemmColumns is a [Gemm] whose B was packed by [Set.NewPackBlocks] with columns whole. Each row of A becomes the sum of three
// rows of 8-bit values, each of which rounds what the one before left: together they are as near to the row as 2⁻²⁴ of its largest
// magnitude, the distance of float32's numbers there. So the product is that of floats, from exact sums of bytes.
type GemmColumns struct {
	parts  *GemmBlocksS8
	finish int // rows of a part of Finish
}

// digits is the number of rows of 8-bit values that a row of floats becomes.
const digits = 3

// maxColumn is the most K of which exact sums of bytes fit an int32.
const maxColumn = 1 << 16

// fewRows is the most rows of A for which multiplying bytes pays: for more, a decoded panel of B is used often enough.
const fewRows = 32

// NewGemmColumns plans C[m,n] = A[m,k]·B[k,n], or returns nil where [GemmStored] is as fast. Without zeros, all zero points of B are
// in the middle.
func (s *Set) NewGemmColumns(m, n, k, block, bits int, zeros bool) *GemmColumns {
	if m > fewRows || !s.dotsBlocks || k > block || block > maxColumn {
		return nil
	}
	return &GemmColumns{parts: s.NewGemmBlocksS8(digits*m, n, k, block, bits, zeros), finish: max(1, callElements/4/max(n, 1))}
}

// Split is the scratch that all parts share, by its pieces: bytes of A, floats of their scales, floats of partial results.
func (g *GemmColumns) Split() (bytes, scales, sums int) {
	return g.parts.M * g.parts.RowBytes(), g.parts.M * g.parts.RowScales(), g.parts.M * g.parts.N
}

// Rows is the number of rows of A.
func (g *GemmColumns) Rows() int { return g.parts.M / digits }

// Quantize writes the bytes and scales of row r of A; work is scratch of 2·K floats.
func (g *GemmColumns) Quantize(bytes []uint8, scales, work, row []float32, r int) {
	p, s := g.parts, g.parts.set
	rest, rounded, size := row, work[p.K:][:p.K], p.RowBytes()
	for i := range digits {
		at := digits*r + i
		quantized, scale := bytes[at*size:][:size], scales[2*at:][:2]
		p.QuantizeBlocks(quantized, scale, rest, p.K, 0, 1)
		s.DequantizeU8(rounded, quantized[:p.K], scale[0], 128)
		s.Binary(Sub, work[:p.K], rest, rounded)
		rest = work[:p.K]
	}
	for _, x := range rest { // what is not finite leaves no finite rest
		if x-x != 0 {
			scales[2*digits*r] = float32(math.NaN())
			return
		}
	}
}

// Parts is the number of independent pieces of Run.
func (g *GemmColumns) Parts() int { return g.parts.Parts() }

// ScratchBytes is the scratch memory that one worker needs in Run.
func (g *GemmColumns) ScratchBytes() int { return g.parts.ScratchBytes() }

// Run writes one part, 0 ≤ part < Parts(), of the partial results.
func (g *GemmColumns) Run(part int, bytes []uint8, scales, sums []float32, packed, scratch []byte) {
	args := GemmBlocksS8Args{Quantized: bytes, Scales: scales, GemmArgs: GemmArgs{C: sums, CRow: g.parts.N, Alpha: 1}}
	g.parts.Run(part, noescape(&args), packed, scratch)
}

// FinishParts is the number of independent pieces of Finish.
func (g *GemmColumns) FinishParts() int { return ceilDiv(g.Rows(), g.finish) }

// Finish adds the partial results of one part up, and does the rest of args, of which A is not read and Alpha is 1.
func (g *GemmColumns) Finish(part int, sums []float32, args *GemmArgs) {
	s, n := g.parts.set, g.parts.N
	args.checkResult(g.Rows(), n)
	for r := part * g.finish; r < min((part+1)*g.finish, g.Rows()); r++ {
		of := func(i int) []float32 { return sums[(digits*r+i)*n:][:n] }
		y := of(0)
		for i := 1; i < digits; i++ {
			s.Binary(Add, y, y, of(i))
		}
		if args.Bias != nil {
			s.Binary(Add, y, y, args.Bias[:n])
		}
		if args.Act != NoUnary {
			s.Unary(Unary{Op: args.Act, Alpha: args.ActAlpha, Beta: args.ActBeta}, y, y)
		}
		c := args.C[r*args.CRow:][:n]
		if args.Residual != nil {
			s.Binary(Add, c, y, args.Residual[r*args.ResRow:][:n])
		} else {
			copy(c, y)
		}
	}
}
