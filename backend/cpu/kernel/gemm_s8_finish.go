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

// bounds are the least and the largest quotient of a result.
func (q *Quantized) bounds() (lo, hi float32) {
	lo, hi = 0, 255
	if q.Signed {
		lo, hi = -128, 127
	}
	return lo - float32(q.Zero), hi - float32(q.Zero)
}

// lowest is the least quotient of an activation's result: that of ReLU is 0.
func (q *Quantized) lowest(act UnaryOp) float32 {
	lo, _ := q.bounds()
	if act == Relu {
		lo = max(lo, 0)
	}
	return lo
}

// requantize quantises what follows from sums of some columns, side by side, by the kernels that pick takes.
func (s *Set) requantize(pick func(q *quantizeFuncs) requantizeFunc, to Quantized, sums *int32, sumsRow int, f finishing, bias []float32,
	rows int) {
	_, hi := to.bounds()
	_, _ = to.Dst[(rows-1)*to.Row+f.cols-1], bias[f.cols-1]
	s.quantize.eachWidth(f.cols, to.Scale, func(q *quantizeFuncs, at, cols int) {
		pick(q)(pointerAt(to.Dst, at), to.Row, offset(sums, at), sumsRow, pointerAt(f.offset, at), pointerAt(f.factor, at),
			pointerAt(bias, at),
			to.Scale, 1/to.Scale, f.lowest, hi, to.Zero, rows, cols)
	})
}

func requantizing(q *quantizeFuncs) requantizeFunc { return q.requantize }

func rescaling(q *quantizeFuncs) requantizeFunc { return q.rescale }

// rowTotals computes, for rows [lo, hi) of A, what the zero points of B take from the sums: the sum of a − zero over K, times the
// zero point of all columns if there is only one.
func (g *GemmS8) rowTotals(args *GemmS8Args, lo, hi int, totals []int32) {
	if args.BZero == nil || g.K == 0 { // no bytes of A then
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

// finishing is what all rows of some columns share when their sums are finished.
type finishing struct {
	col, cols int
	// What the zero point of A takes from the sums, and the factor of both scales, where that is all that there is to it, and the result
	// is quantised by one scale; or nil.
	offset []int32
	factor []float32
	lowest float32 // lower bound of the result, divided by the result's scale
}

// requantizes reports whether the result follows from the scaled sums by one scale alone: without a residual, an activation or floats
// between them.
func (args *GemmS8Args) requantizes() bool {
	out := &args.Quantized
	return args.Sums == nil && out.Dst != nil && out.Scales == nil && args.Residual == nil &&
		(args.Act == NoUnary || args.Act == Relu && out.Scale > 0)
}

// sharesScale reports whether all rows have one scale and zero point, and columns no zero points.
func (args *GemmS8Args) sharesScale() bool { return args.BZero == nil && len(args.Scale) == 1 }

// columns prepares for finish, in scratch for two numbers a column.
func (g *GemmS8) columns(args *GemmS8Args, col, cols int, scratch []byte) finishing {
	if !args.requantizes() || !args.sharesScale() || g.set.quantize.requantize == nil {
		return finishing{col: col, cols: cols}
	}
	f := finishing{col: col, cols: cols, offset: elementsOf[int32](scratch)[:cols], factor: elementsOf[float32](scratch[4*cols:])[:cols],
		lowest: args.Quantized.lowest(args.Act)}
	for i, sum := range g.pack.sums(args.B)[col:][:cols] {
		f.offset[i], f.factor[i] = sum*args.Zero[0], args.Scale[0]*args.BScale[col+i]
	}
	return f
}

// finish writes the results of the sums of some rows of cols contiguous columns. The zero points of both sides come out of them: Σ(a −
// za)(b − zb) = Σab − za·Σb − zb·Σ(a − za); totals is the result of rowTotals.
func (g *GemmS8) finish(args *GemmS8Args, row, rows int, f finishing, totals, sums []int32) {
	col, cols := f.col, f.cols
	if args.Addend != nil {
		addend := args.Addend[col:][:cols]
		for r := range rows {
			row := sums[r*cols:][:cols]
			for c, v := range addend {
				row[c] += v
			}
		}
	}
	bias := args.Bias
	if bias == nil {
		bias = g.noBias
	}
	if f.offset != nil {
		out := args.Quantized
		out.Dst = out.Dst[row*out.Row+col:]
		g.set.requantize(requantizing, out, pointer(sums), cols, f, bias[col:], rows)
		return
	}
	step := 1
	if len(args.Scale) == 1 {
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
	g.set.finishS8(args, row, rows, col, cols, c, cRow, to, toRow)
}

// finishS8 does what follows from products in floats, at c: activation, residual and the way to a result in floats, at to, and then, if it
// is wanted, the result in bytes.
func (s *Set) finishS8(args *GemmS8Args, row, rows, col, cols int, c *float32, cRow int, to *float32, toRow int) {
	if args.Act != NoUnary {
		s.unary[args.Act](c, cRow, c, cRow, rows, cols, args.ActAlpha, args.ActBeta)
	}
	if args.Residual != nil {
		s.binary[Add][elementwise](to, toRow, c, cRow, pointerAt(args.Residual, row*args.ResRow+col), args.ResRow, rows, cols)
	}
	if out := args.Quantized; out.Dst != nil {
		out.Dst = out.Dst[row*out.Row+col:]
		if out.Scales == nil {
			s.quantizeValues(out, to, toRow, rows, cols)
			return
		}
		scales, zeros := out.Scales[col:][:cols], out.Zeros[col:][:cols]
		for lo, hi := 0, 0; lo < cols; lo = hi {
			out.Scale, out.Zero = scales[lo], zeros[lo]
			for hi = lo + 1; hi < cols && scales[hi] == out.Scale && zeros[hi] == out.Zero; {
				hi++
			}
			s.quantizeValues(out, offset(to, lo), toRow, rows, hi-lo)
			out.Dst = out.Dst[hi-lo:]
		}
	}
}
