package kernel

import (
	"math"
	"unsafe"
)

// gemmFunc multiplies register tiles that are below each other: for each, rows × cols of C (+)= A·B over k steps, then
// the epilogue. Strides count elements; B has its columns side by side and bRow elements from one k to the next. The
// number of rows, and of vectors in a row of the tile, are fixed for each function; cols says how many columns of
// the last vector are real: only those of C, bias and res are touched, all of B are read. From next on, memory is
// prefetched at nextStep bytes for each k of each tile.
type gemmFunc func(tiles, k int, a *float32, aRow, aCol int, b *float32, bRow int, next uintptr, nextStep int, c *float32, cRow int,
	cols int, alpha float32, bias, res *float32, resRow int, flags int)

// joinedFunc multiplies tiles like a [gemmFunc], in each of neighbouring panels of cols columns: a tile of rows in all panels, then the one
// below. It takes whole vectors of columns, and of k. Of floats it stores act(sum·scale + bias) + res; of integers either the sums or
// act((sum − zero·colSum)·(scale·colScale) + bias) + res.
type joinedFunc func(panels, tiles, rows, cols, k int, a *float32, aRow int, b *float32, c *float32, cRow int, scale float32, zero int32,
	colSums *int32, colScale, bias, res *float32, resRow int, flags int)

// Flags of a gemmFunc.
const (
	gemmAccumulate = 1 << iota // add what C holds to the sum, before all else
	gemmScale                  // multiply by alpha
	gemmRelu                   // clamp at 0, between bias and residual
	gemmZeros                  // take zero points of B off, in a gemmBlocksFunc
	gemmAtMost                 // with gemmRelu and not gemmScale: clamp at alpha from above, too
)

// gemmTile is the register tile of one level: kernels[r][v] handles r rows of v vectors.
type gemmTile struct {
	rows    int // most rows
	vecs    int // most vectors
	vec     int // columns in a vector
	kernels [][]gemmFunc
	deep    bool // words of B that are neighbours along K are side by side, by pairs
	speed   int  // rows that take the time of one by gemmCost; 0 is 1
	wholeK  bool // K is not divided into blocks: loading and storing sums for each block would cost more than cached operands save

	joined     [NumUnary + 1]joinedFunc `optional:"where panels are computed one by one"` // function for each activation, and for sumsOnly
	joinedFrom int                      // least number of rows for which joined is used
}

// sumsOnly is the index in joined of the function that stores sums of integers.
const sumsOnly = NumUnary

// cols is the width of a panel.
func (t *gemmTile) cols() int { return t.vecs * t.vec }

// panels returns the number of panels of n columns. The last may be narrower.
func (t *gemmTile) panels(n int) int { return ceilDiv(n, t.cols()) }

// panelCols returns the columns of a panel, real ones and with those that fill its last vector.
func (t *gemmTile) panelCols(panel, n int) (real, packed int) {
	real = min(t.cols(), n-panel*t.cols())
	return real, roundUp(real, t.vec)
}

// blocking cuts a product of m × n × k words into parts: blocks of rows times groups of panels.
type blocking struct {
	m, n, k       int
	tile          *gemmTile
	rowBlocks     int // number of blocks of rows, all of the same height in tiles
	panelsPerPart int
	panelGroups   int
	kBlock        int
	near          int // number of panels that stay in the L2 cache
}

// gemmCost estimates the time of a product in nanoseconds, at the rates of one fast core: 150 GFLOP/s, or 20 GB/s
// for reading B. It only steers the blocking, so it is one constant for all machines.
func gemmCost(m, n, k int) int { return max(2*m*n*k/150, 4*n*k/20) + 1 }

// panelCost is the gemmCost of some rows of a panel.
func (b *blocking) panelCost(rows int) int {
	return gemmCost(ceilDiv(rows, max(1, b.tile.speed)), b.tile.cols(), b.k)
}

// newBlocking plans with the given limit to the rows of a part. Integer products take K whole.
func (s *Set) newBlocking(tile *gemmTile, m, n, k, limit int) blocking {
	b := blocking{m: m, n: n, k: k, tile: tile, kBlock: max(1, k), near: max(1, s.caches.l2/4/max(1, 4*k*tile.cols()))}
	if !tile.wholeK {
		// A tile of A takes half of the L1 cache.
		b.kBlock = evenBlock(k, max(64, s.caches.l1/2/(4*tile.rows)))
	}
	if tile.deep {
		b.kBlock = roundUp(b.kBlock, 2)
	}
	// A block of rows takes half of the L2 cache at most, and is small enough for its parts to spread.
	blockRows := min(limit, max(4*tile.rows, s.caches.l2/2/(4*max(k, 1))))
	b.rowBlocks = max(1, ceilDiv(m, blockRows))
	rows := ceilDiv(m, b.rowBlocks)
	perPart, panels := max(1, partNanoseconds/b.panelCost(rows)), tile.panels(n)
	if panels > perPart { // an even number of groups: two threads are done at once
		perPart = ceilDiv(panels, roundUp(ceilDiv(panels, perPart), 2))
	}
	b.panelsPerPart = max(1, min(panels, perPart))
	b.panelGroups = ceilDiv(panels, b.panelsPerPart)
	return b
}

// callNanoseconds is the time of a call of a [joinedFunc] in which no tiles are multiplied: at its beginning and at its end.
const callNanoseconds = 250

// spread cuts a product of joined panels into parts for that many workers: the largest that let them be done first.
func (b *blocking) spread(workers int) {
	panels := b.tile.panels(b.n)
	if b.tile.joined[NoUnary] == nil || b.parts() == 0 {
		return
	}
	// A block has two tiles of rows at least: a few rows at the end would be for another function.
	least, first := math.MaxInt, b.rowBlocks
	for blocks := first; blocks <= max(first, min(workers, b.m/(2*b.tile.rows))); blocks *= 2 {
		panel := b.panelCost(ceilDiv(b.m, blocks))
		for groups := 1; groups <= min(panels, 4*workers); groups++ {
			perPart := ceilDiv(panels, groups)
			if perPart*panel < partNanoseconds && (groups > 1 || blocks > first) {
				break
			}
			if time := ceilDiv(blocks*groups, workers) * (callNanoseconds + perPart*panel); time < least {
				b.rowBlocks, b.panelsPerPart, b.panelGroups, least = blocks, perPart, ceilDiv(panels, perPart), time
			}
		}
	}
}

// cutRows doubles the blocks of rows while that lets a number of workers be done sooner by a tenth: the parts of a matrix of few panels are
// too few for all workers, or do not spread evenly. A block has two tiles of rows at least, which share what a panel costs to read. Each
// part spends prepare nanoseconds on a panel before it multiplies: to decode it, or to pack it.
func (b *blocking) cutRows(workers, prepare int) {
	time := func(blocks int) int {
		panel := prepare + b.panelCost(ceilDiv(b.m, blocks))
		return ceilDiv(blocks*b.panelGroups, workers) * (callNanoseconds + b.panelsPerPart*panel)
	}
	for blocks := 2 * b.rowBlocks; blocks <= b.m/(2*b.tile.rows); blocks *= 2 {
		if 10*time(blocks) < 9*time(b.rowBlocks) {
			b.rowBlocks = blocks
		}
	}
}

// cutPanels chooses how many panels a part computes of each of that many areas of positions: as many as let the workers be done first, by
// the nanoseconds that an area costs each of its parts before they begin, and those of a panel. It returns when they are done.
func (b *blocking) cutPanels(areas, workers int, cost func(area int) (prepare, panel int)) (least int) {
	panels := max(1, b.tile.panels(b.n))
	least = math.MaxInt
	for perPart := panels; perPart > 0 && (perPart == panels || workers > 1); perPart-- {
		groups := ceilDiv(panels, perPart)
		time := finishTime(areas*groups, workers, func(part int) int {
			prepare, panel := cost(part / groups)
			first := part % groups * perPart * b.tile.cols()
			return prepare + panel*min(b.n-first, perPart*b.tile.cols())/b.tile.cols()
		})
		if time < least {
			b.panelsPerPart, b.panelGroups, least = perPart, groups, time
		}
	}
	return least
}

// parts is the number of independent pieces.
func (b *blocking) parts() int {
	if b.m == 0 || b.n == 0 {
		return 0
	}
	return b.rowBlocks * b.panelGroups
}

// mostRows is the most rows of a part.
func (b *blocking) mostRows() (most int) {
	for block := range b.rowBlocks {
		lo, hi := share(b.m, b.rowBlocks, block, b.tile.rows)
		most = max(most, hi-lo)
	}
	return most
}

// part returns the rows and panels of a part.
func (b *blocking) part(part int) (rowLo, rowHi, panelLo, panelHi int) {
	rowLo, rowHi = share(b.m, b.rowBlocks, part/b.panelGroups, b.tile.rows)
	panelLo = part % b.panelGroups * b.panelsPerPart
	return rowLo, rowHi, panelLo, min(panelLo+b.panelsPerPart, b.tile.panels(b.n))
}

// together is how many of the panels [panel, end), at most a number of them, a call of a joinedFunc takes of some rows: 0 where there is no
// such function for them. A tile of A stays in the L1 cache while they come from the L2 cache.
func (b *blocking) together(panel, end, rows, most int) int {
	cols, packedCols := b.tile.panelCols(panel, b.n)
	if b.tile.joined[NoUnary] == nil || rows < b.tile.joinedFrom || b.k%b.tile.vec != 0 || cols != packedCols {
		return 0
	}
	return evenBlock(min(end-panel, (b.n-panel*b.tile.cols())/cols), min(most, b.near))
}

// callSteps is the most k steps of tiles in one call of assembly, which cannot be interrupted: about 50 µs.
const callSteps = 16 * 768

// run returns the next tiles that one call can do, of those which share the rows evenly: how many, and their height.
// Taller ones come first, then those of one row less.
func (t *gemmTile) run(rows, tiles, k int) (height, run int) {
	height = ceilDiv(rows, tiles)
	short := tiles*height - rows
	return height, min(tiles-short, max(1, callSteps/max(k, 1)))
}

// prefetch says what the tiles that use a block of a panel bring into the L2 cache meanwhile: each its share of the
// following block. A lone tile streams and gains nothing; it asks for the same line again and again, as do all where
// nothing follows. The address may be after the matrix, so it must not be a pointer.
type prefetch struct {
	from    uintptr
	step    int // bytes for each k
	perTile int // bytes from one tile's share to the next
}

func newPrefetch(block *float32, next uintptr, words, bRow, tiles int) prefetch {
	if next == 0 || tiles <= 1 {
		return prefetch{from: uintptr(unsafe.Pointer(block))}
	}
	return prefetch{next, 4 * bRow / tiles, 4 * words / tiles}
}

// after is the address after a number of words.
func after(block *float32, words int) uintptr {
	return uintptr(unsafe.Pointer(block)) + uintptr(4*words)
}

// tile returns the share of a tile.
func (p prefetch) tile(t int) uintptr { return p.from + uintptr(t*p.perTile) }
