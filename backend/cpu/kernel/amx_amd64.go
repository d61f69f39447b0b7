//go:build amd64 && !noasm

package kernel

// The kernels of AMX multiply tiles of 16 rows of 16 words. The words of a packed B are four bytes along K, which is how
// AMX wants them, so tiles are read from the same panels as the vectors of other levels. Tiles belong to a thread, and a
// goroutine may change threads anywhere but in assembly: each call sets the tile registers up and releases them.

const (
	amxTile     = 16 // rows of a tile, and words in one
	amxRowTiles = 2  // most tiles below each other in a call
	amxColTiles = 3  // most side by side
	amxTiles    = 8  // registers
)

// amxFunc is a [gemmFunc] with tile registers: config is set up for the rows of a tile of C and for steps of that many words as
// it says. A has its words side by side. The tiles are below each other in one panel or more: below of them in the first. Kernels that
// turn integers into floats take zero·colSums from the sums of a column, then multiply by alpha·colScale.
type amxFunc func(config *[64]byte, tiles, rows, steps int, a *float32, aRow int, b *float32, bRow int, c *float32, cRow, cols int,
	alpha float32, bias, res *float32, resRow int, flags int, next *[12]int, beside int, zero int32, colSums *int32, colScale *float32)

// amxKernels are the functions of one kind of product, by tiles of rows and of columns.
type amxKernels = [amxRowTiles + 1][amxColTiles + 1]amxFunc

// amxNext is how many bytes it is to the next tile in A, B, C, the residual, and what has one element a column: to that in the next panel,
// and from the last panel to the first below; then the number of panels, and how many rows of a tile are finished at a time
// while the next one multiplies.
func amxNext(panels, rows, steps, aRow, cRow, resRow, panelB, panelCols int) [12]int {
	back := 1 - panels
	return [12]int{0, 4 * panelB, 4 * panelCols, 4 * panelCols, 4 * panelCols,
		4 * rows * aRow, 4 * back * panelB, 4 * (rows*cRow + back*panelCols), 4 * (rows*resRow + back*panelCols), 4 * back * panelCols,
		panels, ceilDiv(rows, max(1, 2*steps-1))}
}

// gemmTileAMX returns the tile of 32 rows × 48 columns. Products of fewer rows than from stay with another level.
func gemmTileAMX(kernels *amxKernels, low gemmTile, from int) gemmTile {
	t := gemmTile{rows: amxRowTiles * amxTile, vecs: amxColTiles, vec: amxTile, speed: 6, wholeK: true}
	t.kernels = append(t.kernels, low.kernels[:from]...)
	for rows := from; rows <= t.rows; rows++ {
		funcs := []gemmFunc{nil}
		for vecs := 1; vecs <= t.vecs; vecs++ {
			funcs = append(funcs, gemmAMX(kernels[ceilDiv(rows, amxTile)][:], rows, vecs))
		}
		t.kernels = append(t.kernels, funcs)
	}
	return t
}

// gemmAMX returns the kernel of some rows and vectors. aCol must be 1.
func gemmAMX(kernels []amxFunc, rows, vecs int) gemmFunc {
	rowTiles := ceilDiv(rows, amxTile)
	// columns multiplies vecs vectors of columns, of which the last has cols: whole steps of K, then the rest.
	columns := func(vecs, tiles, k int, a *float32, aRow int, b *float32, bRow int, c *float32, cRow, cols int, alpha float32, bias,
		res *float32, resRow int, flags int) {
		steps, rest := k/amxTile, k%amxTile
		next := amxNext(1, rows, steps, aRow, cRow, resRow, 0, 0)
		if steps > 0 || rest == 0 {
			config := newTileConfig(rowTiles, vecs, rows, amxTile, cols)
			if rest == 0 {
				kernels[vecs](noescape(&config), tiles, rows, steps, a, aRow, b, bRow, c, cRow, cols, alpha, bias, res, resRow, flags,
					noescape(&next), 1, 0, nil, nil)
				return
			}
			kernels[vecs](noescape(&config), tiles, rows, steps, a, aRow, b, bRow, c, cRow, cols, 1, nil, nil, 0, flags&gemmAccumulate,
				noescape(&next), 1, 0, nil, nil)
			flags |= gemmAccumulate
		}
		config := newTileConfig(rowTiles, vecs, rows, rest, cols)
		done := k - rest
		kernels[vecs](noescape(&config), tiles, rows, 1, offset(a, done), aRow, offset(b, done*bRow), bRow, c, cRow, cols, alpha, bias,
			res, resRow, flags, noescape(&next), 1, 0, nil, nil)
	}
	return func(tiles, k int, a *float32, aRow, _ int, b *float32, bRow int, _ uintptr, _ int, c *float32, cRow int, cols int,
		alpha float32, bias, res *float32, resRow int, flags int) {
		vecs := vecs
		if cols < amxTile && shareTiles(rowTiles, vecs) {
			// A column of tiles that is narrower has tile registers of that shape, of which there are too few.
			vecs--
			columns(vecs, tiles, k, a, aRow, b, bRow, c, cRow, amxTile, alpha, bias, res, resRow, flags)
			b, c = offset(b, vecs*amxTile), offset(c, vecs*amxTile)
			if bias != nil {
				bias = offset(bias, vecs*amxTile)
			}
			if res != nil {
				res = offset(res, vecs*amxTile)
			}
			vecs = 1
		}
		columns(vecs, tiles, k, a, aRow, b, bRow, c, cRow, cols, alpha, bias, res, resRow, flags)
	}
}

// joinedAMX returns the [joinedFunc] of some kernels.
func joinedAMX(kernels *amxKernels) joinedFunc {
	return func(panels, tiles, rows, cols, k int, a *float32, aRow int, b *float32, c *float32, cRow int, scale float32, zero int32,
		colSums *int32, colScale, bias, res *float32, resRow int, flags int) {
		rowTiles, vecs, steps := ceilDiv(rows, amxTile), cols/amxTile, k/amxTile
		next := amxNext(panels, rows, steps, aRow, cRow, resRow, k*cols, cols)
		config := newTileConfig(rowTiles, vecs, rows, amxTile, amxTile)
		kernels[rowTiles][vecs](noescape(&config), panels*tiles, rows, steps, a, aRow, b, cols, c, cRow, amxTile, scale, bias, res, resRow,
			flags, noescape(&next), panels, zero, colSums, colScale)
	}
}

// shareTiles reports whether the sums leave too few registers for all tiles of a step, so that the tiles of A share one and
// those of B another.
func shareTiles(rows, cols int) bool { return rows*cols+rows+cols > amxTiles }

// newTileConfig describes the tile registers of a kernel: those of C, then of A, then of B. C has rows rows in equal tiles
// (of an odd number both have the one in the middle), and cols columns in its last tile; a step has that many words of K.
func newTileConfig(rowTiles, colTiles, rows, words, cols int) (config [64]byte) {
	const palette, bytesPerRow, rowCount = 0, 16, 48 // positions
	config[palette] = 1
	tile := 0
	set := func(rows, cols int) {
		config[bytesPerRow+2*tile], config[rowCount+tile] = byte(4*cols), byte(rows)
		tile++
	}
	height := rows - rows*(rowTiles-1)/2
	width := func(col int) int {
		if col == colTiles-1 {
			return cols
		}
		return amxTile
	}
	for range rowTiles {
		for col := range colTiles {
			set(height, width(col))
		}
	}
	if shareTiles(rowTiles, colTiles) {
		set(height, words)
		set(words, amxTile)
		return config
	}
	for range rowTiles {
		set(height, words)
	}
	for col := range colTiles {
		set(words, width(col))
	}
	return config
}

// amxPeak measures a loop over whole tiles of sums, with the given number of elements along K in a row of A.
func amxPeak(loop func(config *[64]byte, n int), k int) peakLoop {
	config := newTileConfig(amxRowTiles, amxColTiles, amxRowTiles*amxTile, amxTile, amxTile)
	return peakLoop{func(n int) { loop(&config, n) }, float64(amxRowTiles * amxColTiles * amxTile * amxTile * 2 * k)}
}
