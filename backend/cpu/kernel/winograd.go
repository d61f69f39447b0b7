package kernel

import "math"

// Winograd is a planned convolution with windows of 3 × 3 neighbours at every position, by tiles of 4 × 4 positions: F(4×4, 3×3) of Lavin
// and Gray (arXiv 1509.09308), which multiplies a quarter as often as [Conv]. The 6 × 6 pixels under a tile are values of a polynomial in
// two variables at 36 points; there the convolution is a product of channels, for each point one of all tiles with a matrix of weights. The
// points of an axis are 0, 1, −1, ½, −2 and ∞: with them sums are nearly as exact as sums over taps, where those of 0, ±1, ±2, ∞ lose four
// times as much.
type Winograd struct {
	ConvShape
	set        *Set
	blocking   blocking
	high, wide int // maximum number of tiles of a part, along rows and columns
	pitch      int // distance between the values of neighbouring tiles at one point, in elements
	channels   int // channels of a block of stored weights, which are transformed while they are decoded; 0 for other weights
}

const (
	winogradOut    = 4 // positions along a side of a tile
	winogradIn     = 6 // pixels, and points
	winogradTap    = 3 // taps
	WinogradPoints = winogradIn * winogradIn
	// winogradOnes is the point (1, 1), where everything counts once for each position.
	winogradOnes = winogradIn + 1
)

// winogradPerNanosecond is about how many values at the points are computed in a nanosecond.
const winogradPerNanosecond = 8

// winogradFunc transforms, for each of rows and of cols, elements that are srcStep apart in src to others that are dstStep apart: six to
// six, six to four, or three to six. There is one row at least.
type winogradFunc func(dst *float32, dstStep, dstRow int, src *float32, srcStep, srcRow int, rows, cols int)

// winogradFuncs are the transforms of pixels to values at the points, of those to positions, and of taps to the points.
type winogradFuncs struct{ input, output, weights winogradFunc }

func winogradInputGeneric(dst *float32, dstStep, dstRow int, src *float32, srcStep, srcRow int, rows, cols int) {
	for r := range rows {
		for c := range cols {
			x, y := offset(src, r*srcRow+c), offset(dst, r*dstRow+c)
			d0, d1, d2 := *x, *offset(x, srcStep), *offset(x, 2*srcStep)
			d3, d4, d5 := *offset(x, 3*srcStep), *offset(x, 4*srcStep), *offset(x, 5*srcStep)
			a, b := d4-d2, d3-d1
			*y = d0 + d4 - 2*d2 + 1.5*b
			*offset(y, dstStep) = d4 - d1 + 0.5*d2 + 2.5*d3
			*offset(y, 2*dstStep) = d4 + d1 + 0.5*d3 - 2.5*d2
			*offset(y, 3*dstStep) = a + 2*b
			*offset(y, 4*dstStep) = a - 0.5*b
			*offset(y, 5*dstStep) = d1 + d5 - 2*d3 + 1.5*a
		}
	}
}

func winogradOutputGeneric(dst *float32, dstStep, dstRow int, src *float32, srcStep, srcRow int, rows, cols int) {
	for r := range rows {
		for c := range cols {
			x, y := offset(src, r*srcRow+c), offset(dst, r*dstRow+c)
			m3, m4 := *offset(x, 3*srcStep), *offset(x, 4*srcStep)
			s, d := *offset(x, srcStep)+*offset(x, 2*srcStep), *offset(x, srcStep)-*offset(x, 2*srcStep)
			*y = *x + m3 + m4 + s
			*offset(y, dstStep) = d + 0.5*m3 - 2*m4
			*offset(y, 2*dstStep) = s + 0.25*m3 + 4*m4
			*offset(y, 3*dstStep) = d + *offset(x, 5*srcStep) + 0.125*m3 - 8*m4
		}
	}
}

func winogradWeightsGeneric(dst *float32, dstStep, dstRow int, src *float32, srcStep, srcRow int, rows, cols int) {
	for r := range rows {
		for c := range cols {
			x, y := offset(src, r*srcRow+c), offset(dst, r*dstRow+c)
			g0, g1, g2 := *x, *offset(x, srcStep), *offset(x, 2*srcStep)
			e := g0 + g2
			*y = g0
			*offset(y, dstStep) = (e + g1) * (1. / 3)
			*offset(y, 2*dstStep) = (g1 - e) * (1. / 3)
			*offset(y, 3*dstStep) = g0*(-16./15) - g1*(8./15) - g2*(4./15)
			*offset(y, 4*dstStep) = g0*(1./15) - g1*(2./15) + g2*(4./15)
			*offset(y, 5*dstStep) = g2
		}
	}
}

// RunWinograd packs a panel of what weights w [9,K,N] are at the points: WinogradPoints matrices in dst, one after the other. They are the
// same at all levels.
func (p *Pack) RunWinograd(panel int, dst, w []float32) {
	first := panel * p.tile.cols()
	cols, packedCols := p.tile.panelCols(panel, p.N)
	if cols < packedCols {
		for point := range WinogradPoints {
			clear(dst[point*p.Len()+first*p.K:][:p.K*packedCols])
		}
	}
	down := make([]float64, winogradTap*winogradIn*cols)
	var values [winogradIn][]float64
	var points [winogradIn][]float32
	for k := range p.K {
		for i := range winogradTap {
			for q := range values {
				values[q] = down[(q*winogradTap+i)*cols:][:cols]
			}
			tap := func(row int) []float32 { return w[((row*winogradTap+i)*p.K+k)*p.N+first:][:cols] }
			winogradWeights(&values, tap(0), tap(1), tap(2))
		}
		for q := range winogradIn {
			for r := range points {
				points[r] = dst[(q*winogradIn+r)*p.Len()+first*p.K+k*packedCols:][:cols]
			}
			row := down[q*winogradTap*cols:]
			winogradWeights(&points, row[:cols], row[cols:][:cols], row[2*cols:][:cols])
		}
	}
}

// winogradWeights writes what the three taps of an axis are at its points, for a row of columns.
func winogradWeights[To, From float32 | float64](points *[winogradIn][]To, a, b, c []From) {
	n := len(a)
	b, c = b[:n], c[:n]
	p0, p1, p2, p3, p4, p5 := points[0][:n], points[1][:n], points[2][:n], points[3][:n], points[4][:n], points[5][:n]
	for i := range a {
		g0, g1, g2 := float64(a[i]), float64(b[i]), float64(c[i])
		e := g0 + g2
		p0[i], p1[i], p2[i], p5[i] = To(g0), To((e+g1)*(1./3)), To((g1-e)*(1./3)), To(g2)
		p3[i], p4[i] = To(g0*(-16./15)-g1*(8./15)-g2*(4./15)), To(g0*(1./15)-g1*(2./15)+g2*(4./15))
	}
}

// NewWinograd plans a convolution whose strides and dilations are 1, with a kernel of 3 × 3, for that many workers. Its weights are stored,
// or else float32.
func (s *Set) NewWinograd(shape ConvShape, workers int, stored bool) *Winograd {
	w := &Winograd{ConvShape: shape, set: s, pitch: shape.Channels}
	if shape.Channels%256 == 0 {
		w.pitch += 16 // rows of a tile of products must not fall on the same lines of the cache
	}
	// What a part keeps takes three quarters of the L2 cache at most, if that is enough for two register tiles of products.
	down, across := ceilDiv(shape.PositionsHigh, winogradOut), ceilDiv(shape.PositionsWide, winogradOut)
	least := 2 * s.gemm.rows
	most, room := 4*s.gemm.rows, s.caches.l2*3/4
	if stored { // what brings weights to the points pays for many tiles
		fitting := s.caches.l2 / 4 / (4 * WinogradPoints * s.gemm.cols()) / storedRows * storedRows
		w.channels = max(storedRows, min(roundUp(shape.Channels, storedRows), fitting))
		least, most, room = 4*s.gemm.rows, 8*s.gemm.rows, 2*s.caches.l2
	}
	fits := func(high, wide int) bool {
		w.high, w.wide = high, wide
		return high*wide <= least || high*wide <= most && w.ScratchBytes() <= room
	}
	even := func(n, most int) int { return ceilDiv(max(n, 1), ceilDiv(max(n, 1), most)) }
	high, wide := 1, max(1, across)
	for wide > 1 && !fits(1, wide) {
		wide = even(across, wide-1)
	}
	for high < down && fits(high+1, wide) {
		high++
	}
	// As many rows of tiles as let the workers be done first: more use the weights more often, less let them be done at once. The columns
	// of a part, all of which huge pixels spoil, are the same for any number of workers.
	w.blocking = s.newBlocking(&s.gemm, high*wide, shape.Outputs, shape.Channels, blockRows)
	best, fastest := *w, math.MaxInt
	for rows := high; rows > 0 && (rows == high || !stored); rows-- {
		w.high, w.wide = even(down, rows), wide
		time := w.blocking.cutPanels(w.areas(), workers, func(i int) (prepare, panel int) {
			_, _, _, high, wide := w.area(i)
			return WinogradPoints * high * wide * shape.Channels / winogradPerNanosecond,
				WinogradPoints * gemmCost(high*wide, s.gemm.cols(), shape.Channels)
		})
		if time < fastest {
			best, fastest = *w, time
		}
	}
	return &best
}

// winogradScratch is what a part keeps: its pixels; one row of its tiles along one axis; all tiles at the points; sums of a panel
// there, and those back along one axis; a tile that reaches over the end; a block of stored weights as taps, along one axis, and at the
// points.
type winogradScratch struct{ pixels, rows, points, sums, back, edge, taps, along, weights []float32 }

// sizes are the lengths of a part's scratch.
func (w *Winograd) sizes(high, wide int) [9]int {
	row, tiles, cols := (wide*winogradOut+2)*w.Channels, high*wide, w.set.gemm.cols()
	sizes := [9]int{(high*winogradOut + 2) * row, winogradIn * row, WinogradPoints * tiles * w.pitch, WinogradPoints * tiles * cols,
		winogradOut * winogradIn * tiles * cols, winogradOut * cols}
	if w.channels > 0 {
		sizes[6], sizes[7], sizes[8] = winogradTap*winogradTap*w.strip(decodedRows(storedRows)), winogradTap*winogradIn*w.strip(storedRows),
			WinogradPoints*w.strip(w.channels)
	}
	return sizes
}

// Parts is the number of independent pieces.
func (w *Winograd) Parts() int {
	if w.Outputs == 0 {
		return 0
	}
	return w.areas() * w.blocking.panelGroups
}

// areas is the number of parts of all tiles.
func (w *Winograd) areas() int {
	return w.Images * ceilDiv(w.PositionsHigh, winogradOut*w.high) * ceilDiv(w.PositionsWide, winogradOut*w.wide)
}

// area is the tiles of a part: the first one of an image, and how many.
func (w *Winograd) area(i int) (image, top, left, high, wide int) {
	down, across := ceilDiv(w.PositionsHigh, winogradOut), ceilDiv(w.PositionsWide, winogradOut)
	downs, acrosses := ceilDiv(down, w.high), ceilDiv(across, w.wide)
	image, top, left = i/acrosses/downs, i/acrosses%downs*w.high, i%acrosses*w.wide
	return image, top, left, min(w.high, down-top), min(w.wide, across-left)
}

// ScratchBytes is the scratch memory that one worker needs.
func (w *Winograd) ScratchBytes() int {
	all := 0
	for _, n := range w.sizes(w.high, w.wide) {
		all += n
	}
	return 4 * all
}

// Run computes one part, 0 ≤ part < Parts(), with ScratchBytes() bytes of scratch that no other part uses meanwhile. B holds the
// matrices of the points one after the other, each packed by [Set.NewPackB].
func (w *Winograd) Run(part int, args *ConvArgs, scratch []byte) {
	c, b := &Conv{convWindow: convWindow{ConvShape: w.ConvShape, columnStep: 1, pixel: w.Channels}, set: w.set}, &w.blocking
	args.checkResult(w.Images*w.PositionsHigh*w.PositionsWide, w.Outputs)
	c.checkPixels(args)
	panels := b.tile.panels(w.Outputs)
	panelLo := part % b.panelGroups * b.panelsPerPart
	panelHi := min(panelLo+b.panelsPerPart, panels)
	t := winogradTiles{Winograd: w}
	t.image, t.top, t.left, t.high, t.wide = w.area(part / b.panelGroups)
	keep := floats(scratch, w.ScratchBytes()/4)
	for i, to := range []*[]float32{&t.pixels, &t.rows, &t.points, &t.sums, &t.back, &t.edge, &t.taps, &t.along, &t.weights} {
		n := w.sizes(t.high, t.wide)[i]
		*to, keep = keep[:n], keep[n:]
	}
	t.row = (t.wide*winogradOut + 2) * w.Channels
	for r := range t.high*winogradOut + 2 {
		c.copyRow(t.pixels[r*t.row:][:t.row], args, t.image, t.top*winogradOut+r-w.Top, t.left*winogradOut-w.Left)
	}
	huge := t.huge(0, t.high)
	t.forward()
	for p := panelLo; p < panelHi; p++ {
		t.panel(p, args)
		var weights []float32
		for y := range t.high {
			if huge && t.huge(y, y+1) || !t.tame(y, p, args) {
				if weights == nil {
					weights = t.window(p, args)
				}
				t.direct(y, p, weights, args)
			}
		}
		t.finish(p, args)
	}
}

// winogradTiles are the tiles of one part.
type winogradTiles struct {
	*Winograd
	winogradScratch
	image, top, left int // the first tile's
	high, wide       int
	row              int // length of a row of pixels
}

// forward brings the pixels to the points.
func (t *winogradTiles) forward() {
	tiles, input := t.high*t.wide, t.set.winograd.input
	for y := range t.high {
		input(pointer(t.rows), t.row, 0, pointerAt(t.pixels, y*winogradOut*t.row), t.row, 0, 1, t.row)
		for i := range winogradIn {
			input(pointerAt(t.points, (i*winogradIn*tiles+y*t.wide)*t.pitch), tiles*t.pitch, t.pitch,
				pointerAt(t.rows, i*t.row), t.Channels, winogradOut*t.Channels, t.wide, t.Channels)
		}
	}
}

// panel computes the columns of one panel at all positions of the tiles, with the bias.
func (t *winogradTiles) panel(p int, args *ConvArgs) {
	tile, tiles, output := t.blocking.tile, t.high*t.wide, t.set.winograd.output
	col := p * tile.cols()
	cols, packedCols := tile.panelCols(p, t.Outputs)
	each, block := t.Channels*roundUp(t.Outputs, tile.vec), t.Channels
	if t.channels > 0 {
		block = t.channels
	}
	for k := 0; k == 0 || k < t.Channels; k += block {
		panel := gemmPanel{rowHi: tiles, cols: cols, k: t.Channels, kBlock: t.blocking.kBlock, bRow: packedCols}
		if t.channels > 0 {
			panel.from, panel.kBlock, panel.alone = k, min(block, t.Channels-k), true
			t.transformStored(p, args, k, panel.kBlock)
		}
		for point := range WinogradPoints {
			g := GemmArgs{A: t.points[point*tiles*t.pitch+k:], ARow: t.pitch, ACol: 1, C: t.sums[point*tiles*packedCols:],
				CRow: packedCols, Alpha: 1}
			if point == winogradOnes && args.Bias != nil {
				g.Bias = args.Bias[col:]
			}
			source := storedPanel{first: k, n: panel.kBlock}
			if t.channels > 0 {
				source.decoded = pointerAt(t.weights, point*t.strip(t.channels))
				panel.stored = noescape(&source)
			} else {
				panel.b = pointer(args.B[point*each+col*t.Channels:][:packedCols*t.Channels])
				if panel.next = after(panel.b, each); point == WinogradPoints-1 {
					panel.next = after(pointer(args.B), (col+cols)*t.Channels)
				}
			}
			t.set.gemmPanel(tile, noescape(&g), panel)
		}
	}
	all := winogradIn * tiles * packedCols
	output(pointer(t.back), all, 0, pointer(t.sums), all, 0, 1, all)
	t.eachRow(0, t.high, func(y, i, position, wide int) {
		from := pointerAt(t.back, (i*winogradIn*tiles+y*t.wide)*packedCols)
		whole := wide / winogradOut
		if whole > 0 {
			output(pointerAt(args.C, position*args.CRow+col), args.CRow, winogradOut*args.CRow, from, tiles*packedCols, packedCols, whole,
				cols)
		}
		if whole < t.wide {
			output(pointer(t.edge), packedCols, 0, offset(from, whole*packedCols), tiles*packedCols, 0, 1, cols)
			for x := whole * winogradOut; x < wide; x++ {
				copy(args.C[(position+x)*args.CRow+col:][:cols], t.edge[x%winogradOut*packedCols:])
			}
		}
	})
}

// transformStored transforms n channels of stored weights, from first on, of the columns of a panel. A strip of channels stays in the L1
// cache between the axes.
func (t *winogradTiles) transformStored(p int, args *ConvArgs, first, n int) {
	_, cols := t.blocking.tile.panelCols(p, t.Outputs)
	room, along, point, weights := t.strip(decodedRows(storedRows)), t.strip(storedRows), t.strip(t.channels), t.set.winograd.weights
	for k := 0; k < n; k += storedRows {
		rows := min(storedRows, n-k)
		for tap := range winogradTap * winogradTap {
			source := args.Stored.panel(t.blocking.tile, p, t.Outputs, t.taps[tap*room:][:room])
			source.block(t.set, tap*t.Channels+first+k, rows)
		}
		weights(pointer(t.along), winogradTap*along, along, pointerAt(t.taps, storedRows*cols), winogradTap*room, room, winogradTap,
			rows*cols)
		weights(pointerAt(t.weights, k*cols), point, winogradIn*point, pointer(t.along), along, winogradTap*along, winogradIn, rows*cols)
	}
}

// strip is the distance of that many rows of a panel to the next: those that are used together must not fall on the same lines of the
// cache.
func (w *Winograd) strip(rows int) int { return rows*w.set.gemm.cols() + 16 }

// eachRow calls f for each row of positions of the rows [lo, hi) of tiles: row i of the tiles in row y, with its first position and its
// width.
func (t *winogradTiles) eachRow(lo, hi int, f func(y, i, position, wide int)) {
	wide := min(t.wide*winogradOut, t.PositionsWide-t.left*winogradOut)
	for y := lo; y < hi; y++ {
		for i := range min(winogradOut, t.PositionsHigh-(t.top+y)*winogradOut) {
			f(y, i, (t.image*t.PositionsHigh+(t.top+y)*winogradOut+i)*t.PositionsWide+t.left*winogradOut, wide)
		}
	}
}

// winogradMost is the magnitude of pixels and of results from which on direct computes the results.
const winogradMost = 1 << 20

// huge reports whether a pixel under the rows [first, end) of tiles is above winogradMost. A NaN shows in the results, whatever the
// weights.
func (t *winogradTiles) huge(first, end int) bool {
	lo, hi := t.set.MinMax(t.pixels[first*winogradOut*t.row : (end*winogradOut+2)*t.row])
	return lo <= -winogradMost || hi >= winogradMost
}

// tame reports whether all results of a channel under a row of tiles are below winogradMost: large weights make large results, too.
func (t *winogradTiles) tame(y, p int, args *ConvArgs) bool {
	tame, col := true, p*t.blocking.tile.cols()
	t.eachRow(y, y+1, func(_, _, position, wide int) {
		for x := range wide {
			y := args.C[(position+x)*args.CRow+col]
			tame = tame && -winogradMost < y && y < winogradMost
		}
	})
	return tame
}

// window returns the taps of the columns of a panel.
func (t *winogradTiles) window(p int, args *ConvArgs) []float32 {
	tile, k := t.blocking.tile, winogradTap*winogradTap*t.Channels
	_, packedCols := tile.panelCols(p, t.Outputs)
	if t.channels == 0 {
		return t.fromPoints(args.B, p*tile.cols(), packedCols)
	}
	source := args.Stored.panel(tile, p, t.Outputs, make([]float32, decodedRows(k)*packedCols))
	source.block(t.set, 0, k)
	return source.room[storedRows*packedCols:]
}

// direct computes the columns of one panel at a row of tiles tap by tap, without transforms. It is for tiles with infinite or huge pixels:
// by the transforms, the infinity or the rounding error would reach positions whose windows do not have that pixel.
func (t *winogradTiles) direct(y, p int, weights []float32, args *ConvArgs) {
	tile, k := t.blocking.tile, winogradTap*winogradTap*t.Channels
	col := p * tile.cols()
	cols, packedCols := tile.panelCols(p, t.Outputs)
	block := evenBlock(3*t.Channels, t.blocking.kBlock)
	t.eachRow(y, y+1, func(y, i, position, wide int) {
		g := GemmArgs{ARow: t.Channels, ACol: 1, C: args.C[position*args.CRow+col:], CRow: args.CRow, Alpha: 1}
		if args.Bias != nil {
			g.Bias = args.Bias[col:]
		}
		for row := range 3 {
			for from := 0; from < 3*t.Channels; from += block {
				g.A = t.pixels[(y*winogradOut+i+row)*t.row+from:]
				t.set.gemmPanel(tile, noescape(&g), gemmPanel{rowHi: wide, cols: cols, k: k, from: row*3*t.Channels + from,
					kBlock: min(block, 3*t.Channels-from),
					alone:  true, b: pointer(weights), bRow: packedCols})
			}
		}
	})
}

// fromPoints returns the taps of the columns of a panel of float32.
func (t *winogradTiles) fromPoints(packed []float32, col, packedCols int) []float32 {
	each, n := t.Channels*roundUp(t.Outputs, t.blocking.tile.vec), t.Channels*packedCols
	weights := make([]float32, winogradTap*winogradTap*n)
	for tap := range winogradTap * winogradTap {
		// The first and the last tap are points, and the middle one is the difference of those of 1 and −1.
		for _, q := range winogradTaps[tap/3] {
			for _, r := range winogradTaps[tap%3] {
				from := packed[(q.point*winogradIn+r.point)*each+col*t.Channels:]
				for i := range n {
					weights[tap*n+i] += q.factor * r.factor * from[i]
				}
			}
		}
	}
	return weights
}

// winogradTaps says how the taps of an axis follow from its points.
var winogradTaps = [3][]struct {
	point  int
	factor float32
}{{{0, 1}}, {{1, 1.5}, {2, 1.5}}, {{5, 1}}}

// finish applies activation and residual.
func (t *winogradTiles) finish(p int, args *ConvArgs) {
	if args.Act == NoUnary && args.Residual == nil {
		return
	}
	cols, _ := t.blocking.tile.panelCols(p, t.Outputs)
	t.eachRow(0, t.high, func(_, _, position, wide int) {
		t.set.activate(&args.GemmArgs, position, wide, p*t.blocking.tile.cols(), cols)
	})
}
