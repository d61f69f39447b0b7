package kernel

// unaryGeneric are the plain kernels: they round the function of float64 once.
var unaryGeneric = func() (kernels [NumUnary]unaryFunc) {
	for op := range NumUnary {
		kernels[op] = func(dst *float32, dstRow int, src *float32, srcRow int, rows, cols int, alpha, beta float32) {
			f := Unary{op, alpha, beta}
			for r := range rows {
				for c := range cols {
					*offset(dst, r*dstRow+c) = float32(f.at(float64(*offset(src, r*srcRow+c))))
				}
			}
		}
	}
	return kernels
}()
