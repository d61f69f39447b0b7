package kernel

import "unsafe"

// Quantized is where and how a result is quantised: element (m, n) at m·Row + n of Dst becomes the low byte of
// clamp(round(x/Scale) + Zero), to −128…127 where Signed is set and to 0…255 otherwise; ties round to even.
type Quantized struct {
	Dst    []uint8
	Row    int
	Scale  float32
	Zero   int32
	Signed bool

	// Scales and Zeros, if not nil, are those of each column. Few of them differ from their neighbours.
	Scales []float32
	Zeros  []int32
}

// rowTotals computes, for rows [lo, hi) of A, what the zero points of B take from the sums: the sum of a − zero over K, times the
// zero point of all columns if there is only one.
func (g *GemmS8) rowTotals(args *GemmS8Args, lo, hi int, totals []int32) {
	if args.BZero == nil {
		clear(totals[:hi-lo])
		return
	}
	chunks := g.K / sumBytesChunk
	g.set.quantize.sumBytes(pointer(totals), pointerAt(args.A, lo*args.ARow), args.ARow, hi-lo, chunks)
	for r := lo; r < hi; r++ {
		zero := args.Zero[0]
		if len(args.Zero) > 1 {
			zero = args.Zero[r]
		}
		total := totals[r-lo] - zero*int32(g.K)
		for _, a := range args.A[r*args.ARow+chunks*sumBytesChunk:][:g.K-chunks*sumBytesChunk] {
			total += int32(a)
		}
		if len(args.BZero) == 1 {
			total *= args.BZero[0]
		}
		totals[r-lo] = total
	}
}

// finish takes the sums of some rows, cols side by side, to their place. The zero points of both sides come out of them:
// Σ(a − za)(b − zb) = Σab − za·Σb − zb·Σ(a − za); totals is the result of rowTotals.
func (g *GemmS8) finish(args *GemmS8Args, row, rows, col, cols int, totals, sums []int32) {
	step := 1
	if len(args.Scale) == 1 || len(args.Zero) == 1 {
		step = 0
	}
	colSums := g.pack.sums(args.B)[col:]
	if args.Sums != nil {
		for r := range rows {
			zero := args.Zero[(row+r)*step]
			out := args.Sums[(row+r)*args.CRow+col:][:cols]
			for c := range out {
				other := totals[r]
				if len(args.BZero) > 1 {
					other *= args.BZero[col+c]
				}
				out[c] = sums[r*cols+c] - zero*colSums[c] - other
			}
		}
		return
	}
	var colZero *int32
	if len(args.BZero) > 1 {
		colZero = pointerAt(args.BZero, col)
	}
	bias := args.Bias
	if bias == nil {
		bias = g.noBias
	}
	// What is not finished by the first step waits as floats where the sums were.
	c, cRow := (*float32)(unsafe.Pointer(pointer(sums))), cols
	to, toRow := c, cRow
	if args.Quantized.Dst == nil {
		to, toRow = pointerAt(args.C, row*args.CRow+col), args.CRow
	}
	if args.Residual == nil {
		c, cRow = to, toRow
	}
	g.set.quantize.dequantize(c, cRow, pointer(sums), cols, pointerAt(args.Scale, row*step), pointerAt(args.Zero, row*step), step,
		pointerAt(args.BScale, col), pointer(colSums), pointer(totals), colZero, pointerAt(bias, col), rows, cols)
	if args.Act != NoUnary {
		g.set.unary[args.Act](c, cRow, c, cRow, rows, cols, args.ActAlpha, args.ActBeta)
	}
	if args.Residual != nil {
		g.set.binary[Add][elementwise](to, toRow, c, cRow, pointerAt(args.Residual, row*args.ResRow+col), args.ResRow, rows, cols)
	}
	if out := args.Quantized; out.Dst != nil {
		out.Dst = out.Dst[row*out.Row+col:]
		if out.Scales == nil {
			g.set.quantizeValues(out, to, toRow, rows, cols)
			return
		}
		scales, zeros := out.Scales[col:][:cols], out.Zeros[col:][:cols]
		for lo, hi := 0, 0; lo < cols; lo = hi {
			out.Scale, out.Zero = scales[lo], zeros[lo]
			for hi = lo + 1; hi < cols && scales[hi] == out.Scale && zeros[hi] == out.Zero; {
				hi++
			}
			g.set.quantizeValues(out, offset(to, lo), toRow, rows, hi-lo)
			out.Dst = out.Dst[hi-lo:]
		}
	}
}
