package kernel

// attentionTileFunc computes C = (A·B + C·scale)·factor for register tiles that are below each other, where scale and factor
// hold a number for each row. Without a scale C is not read; without a factor there is none. Element (r, i) of A is at
// r·aRow + i·aCol; rows of B and C are contiguous. The number of rows, and of vectors in a row of the tile, are fixed for
// each function; cols says how many columns of the last vector are real: only those of C are touched, all of B are read.
type attentionTileFunc func(tiles, k int, a *float32, aRow, aCol int, b *float32, bRow int, c *float32, cRow, cols int, scale,
	factor *float32)

// attentionTile is the register tiles of one level: kernels[v][r] handles r rows of v vectors. Unlike those of a Gemm they
// are made for a short K: they have no epilogue but what attention needs, and prefetch for few rows alone.
type attentionTile struct {
	vec     int // columns in a vector
	kernels [][]attentionTileFunc
}

// vecs is the most vectors in a row of a tile.
func (t *attentionTile) vecs() int { return len(t.kernels) - 1 }

// attentionProduct is the operands of a product. Strides count elements.
type attentionProduct struct {
	m, n, k       int
	a             []float32
	aRow, aCol    int
	b             []float32 // [k, n], the rows filled up to whole vectors
	bRow          int
	c             []float32
	cRow          int
	scale, factor []float32 // [m], or nil
}

// multiply computes a product.
func (s *Set) multiply(p *attentionProduct) {
	t := &s.attention
	if p.m == 0 || p.n == 0 {
		return
	}
	if p.k > 0 {
		demand(p.a, (p.m-1)*p.aRow+(p.k-1)*p.aCol+1)
		demand(p.b, (p.k-1)*p.bRow+roundUp(p.n, t.vec))
	}
	demand(p.c, (p.m-1)*p.cRow+p.n)
	vecs := ceilDiv(p.n, t.vec)
	width := evenBlock(vecs, t.vecs())
	for v := 0; v < vecs; v += width {
		width := min(width, vecs-v)
		col := v * t.vec
		kernels := t.kernels[width]
		for row := 0; row < p.m; {
			height := min(len(kernels)-1, p.m-row)
			tiles := (p.m - row) / height
			kernels[height](tiles, p.k, pointerAt(p.a, row*p.aRow), p.aRow, p.aCol, pointerAt(p.b, col), p.bRow,
				pointerAt(p.c, row*p.cRow+col), p.cRow,
				min(t.vec, p.n-col-(width-1)*t.vec), pointerAt(p.scale, row), pointerAt(p.factor, row))
			row += tiles * height
		}
	}
}

// attentionTileGeneric is the plain Go form.
var attentionTileGeneric = func() attentionTile {
	const vecs, rows = 2, 4
	t := attentionTile{vec: genericLanes, kernels: make([][]attentionTileFunc, vecs+1)}
	for v := 1; v <= vecs; v++ {
		t.kernels[v] = make([]attentionTileFunc, rows+1)
		for r := 1; r <= rows; r++ {
			t.kernels[v][r] = attentionGeneric(r, v)
		}
	}
	return t
}()

func attentionGeneric(rows, vecs int) attentionTileFunc {
	return func(tiles, k int, a *float32, aRow, aCol int, b *float32, bRow int, c *float32, cRow, cols int, scale, factor *float32) {
		for r := range tiles * rows {
			for v := range vecs {
				var sum [genericLanes]float32
				if k > 0 {
					sumsF32(noescape(&sum), k, offset(a, r*aRow), aCol, offset(b, v*genericLanes), bRow)
				}
				real := genericLanes
				if v == vecs-1 {
					real = cols
				}
				for j, x := range sum[:real] {
					out := offset(c, r*cRow+v*genericLanes+j)
					if scale != nil {
						x += *out * *offset(scale, r)
					}
					if factor != nil {
						x *= *offset(factor, r)
					}
					*out = x
				}
			}
		}
	}
}
