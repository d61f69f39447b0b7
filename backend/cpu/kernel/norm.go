package kernel

import "math"

// NormArgs are the operands of LayerNorm and RMSNorm over rows of a matrix. Strides count elements. Dst may be X,
// Residual or Sum.
type NormArgs struct {
	Dst      []float32
	DstRow   int
	X        []float32
	XRow     int
	Residual []float32 // added to X first, or nil
	ResRow   int
	Sum      []float32 // receives X + Residual, or nil
	SumRow   int
	Scale    []float32 // [cols]
	Bias     []float32 // [cols], or nil
	Epsilon  float32
}

// LayerNorm normalises rows lo ≤ row < hi of cols elements: (x − mean)/√(variance + ε)·scale + bias.
func (s *Set) LayerNorm(args *NormArgs, lo, hi, cols int) { args.run(s.layerNorm, lo, hi, cols) }

// RMSNorm normalises rows lo ≤ row < hi of cols elements: x/√(mean of x² + ε)·scale + bias.
func (s *Set) RMSNorm(args *NormArgs, lo, hi, cols int) { args.run(s.rmsNorm, lo, hi, cols) }

// normFunc normalises rows. sum is not nil where res is not: it may be dst. res and bias may be nil.
type normFunc func(dst *float32, dstRow int, x *float32, xRow int, res *float32, resRow int, sum *float32, sumRow int, scale,
	bias *float32, epsilon float32, rows, cols int)

// run calls the kernel for as many rows at a time as one call may take.
func (a *NormArgs) run(norm normFunc, lo, hi, cols int) {
	if hi <= lo || cols == 0 {
		return
	}
	if step := rowsPerCall(cols); hi-lo > step {
		for ; lo < hi; lo += step {
			a.run(norm, lo, min(hi, lo+step), cols)
		}
		return
	}
	last := func(row int) int { return (hi-1)*row + cols - 1 }
	_, _, _ = a.Dst[last(a.DstRow)], a.X[last(a.XRow)], a.Scale[cols-1]
	if a.Bias != nil {
		_ = a.Bias[cols-1]
	}
	x, xRow := a.X, a.XRow
	var res, sum *float32
	var sumRow int
	switch {
	case a.Residual != nil && a.Sum != nil:
		_, _ = a.Residual[last(a.ResRow)], a.Sum[last(a.SumRow)]
		res, sum, sumRow = pointerAt(a.Residual, lo*a.ResRow), pointerAt(a.Sum, lo*a.SumRow), a.SumRow
	case a.Residual != nil:
		_ = a.Residual[last(a.ResRow)]
		res, sum, sumRow = pointerAt(a.Residual, lo*a.ResRow), pointerAt(a.Dst, lo*a.DstRow), a.DstRow
	case a.Sum != nil:
		_ = a.Sum[last(a.SumRow)]
		for r := lo; r < hi; r++ {
			copy(a.Sum[r*a.SumRow:][:cols], x[r*xRow:][:cols])
		}
	}
	norm(pointerAt(a.Dst, lo*a.DstRow), a.DstRow, pointerAt(x, lo*xRow), xRow, res, a.ResRow, sum, sumRow, pointer(a.Scale),
		pointer(a.Bias), a.Epsilon, hi-lo, cols)
}

// normGeneric returns LayerNorm, or without the mean RMSNorm, in plain Go.
func normGeneric(centred bool) normFunc {
	return func(dst *float32, dstRow int, x *float32, xRow int, res *float32, resRow int, sum *float32, sumRow int, scale, bias *float32,
		epsilon float32, rows, cols int) {
		for r := range rows {
			from, fromRow := x, xRow
			if res != nil {
				for c := range cols {
					*offset(sum, r*sumRow+c) = *offset(x, r*xRow+c) + *offset(res, r*resRow+c)
				}
				from, fromRow = sum, sumRow
			}
			var mean, variance float64
			if centred {
				for c := range cols {
					mean += float64(*offset(from, r*fromRow+c))
				}
				mean /= float64(cols)
			}
			for c := range cols {
				d := float64(*offset(from, r*fromRow+c)) - mean
				variance += d * d
			}
			factor := 1 / math.Sqrt(variance/float64(cols)+float64(epsilon))
			for c := range cols {
				y := float32((float64(*offset(from, r*fromRow+c))-mean)*factor) * *offset(scale, c)
				if bias != nil {
					y += *offset(bias, c)
				}
				*offset(dst, r*dstRow+c) = y
			}
		}
	}
}
