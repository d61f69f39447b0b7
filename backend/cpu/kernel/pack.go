package kernel

import "github.com/rlxc/rlxc/internal/packed"

// packing is the layout of a constant B[K,N] of words for the register tiles: panels of as many columns as a tile
// covers, one after the other; a panel holds for each k its columns side by side. The last panel is as wide as its
// columns need, rounded up to whole vectors and filled with zeros. It depends on the level alone, not on the sizes of
// caches.
type packing struct {
	tile          *gemmTile
	form          packed.Form
	k, n          int // k in words
	panelsPerPart int
}

func newPacking(tile *gemmTile, form packed.Form, k, n int) packing {
	// About 256 KB a part: long enough to be worth claiming, short enough to spread.
	panelBytes := max(1, 4*k*tile.cols())
	return packing{tile, form, k, n, max(1, (256<<10)/panelBytes)}
}

// Layout describes the layout. Packed matrices of equal layout, K and N may be exchanged between levels.
func (p *packing) Layout() packed.Layout {
	return packed.Layout{Form: p.form, Panel: p.tile.cols(), Vector: p.tile.vec, Deep: p.tile.deep}
}

// deepen brings a panel of rows of words into the order of a deep tile, if it has one.
func (p *packing) deepen(panel []uint32, row int) {
	if !p.tile.deep {
		return
	}
	var first, second [maxPanelCols]uint32
	for ; len(panel) >= 2*row; panel = panel[2*row:] {
		a, b := first[:copy(first[:row], panel)], second[:copy(second[:row], panel[row:])]
		for c := range a {
			panel[2*c], panel[2*c+1] = a[c], b[c]
		}
	}
}

// maxPanelCols is the most columns of a panel of a deep tile.
const maxPanelCols = 16

// Parts is the number of independent pieces.
func (p *packing) Parts() int { return ceilDiv(p.tile.panels(p.n), p.panelsPerPart) }

// words is the length of the panels.
func (p *packing) words() int { return p.k * roundUp(p.n, p.tile.vec) }

// part returns the panels of a part.
func (p *packing) part(part int) (lo, hi int) {
	lo = part * p.panelsPerPart
	return lo, min(lo+p.panelsPerPart, p.tile.panels(p.n))
}

// Pack lays out a constant B[K,N] for [Gemm].
type Pack struct {
	packing
	K, N int
	set  *Set
}

// NewPackB plans the packing of a B with k rows and n columns.
func (s *Set) NewPackB(k, n int) *Pack {
	return &Pack{packing: newPacking(&s.gemm, packed.F32, k, n), K: k, N: n, set: s}
}

// Len is the number of floats of the packed matrix.
func (p *Pack) Len() int { return p.words() }

// Run packs one part. Element (k, n) of src is at k·row + n·col: (ldb, 1) for a row-major B, (1, ldb) for one that is
// stored as [N,K].
func (p *Pack) Run(part int, dst, src []float32, row, col int) {
	lo, hi := p.part(part)
	for panel := lo; panel < hi; panel++ {
		n := panel * p.tile.cols()
		cols, packedCols := p.tile.panelCols(panel, p.N)
		p.set.packPanel(dst[n*p.K:][:packedCols*p.K], packedCols, src[min(len(src), n*col):], row, col, p.K, cols)
	}
}

// packPanel fills one panel of packedCols columns, of which cols are real.
func (s *Set) packPanel(dst []float32, packedCols int, src []float32, row, col, k, cols int) {
	if cols < packedCols {
		clear(dst)
	}
	if k > 0 && cols > 0 {
		s.copy2D(dst, packedCols, 1, src, row, col, k, cols)
	}
}
