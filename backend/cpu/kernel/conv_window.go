package kernel

// A window over copied pixels: how parts are cut, and what they copy. Pixels between windows of one element are left out.
type convWindow struct {
	ConvShape
	rowStep, columnStep int // distance in the image between neighbouring copied pixels, in pixels
	pixel               int // distance between copied pixels, in elements
	high, wide          int // maximum number of positions of a part along rows and columns
}

// stepWindow is a window that leaves out pixels between those it meets where it has one element along an axis.
func stepWindow(shape ConvShape, pixel int) convWindow {
	if shape.Channels == 0 || shape.Outputs == 0 {
		shape.KernelHeight, shape.KernelWidth = 1, 1 // weights of no elements may be of any size
	}
	w := convWindow{ConvShape: shape, rowStep: 1, columnStep: 1, pixel: pixel}
	if shape.KernelHeight == 1 {
		w.rowStep, w.StrideHigh, w.DilationHigh = shape.StrideHigh, 1, 1
	}
	if shape.KernelWidth == 1 {
		w.columnStep, w.StrideWide, w.DilationWide = shape.StrideWide, 1, 1
	}
	return w
}

// inside are those of count pixels, columnStep apart from column x on, that are in the image.
func (w *convWindow) inside(x, count int) (first, last int) {
	return min(ceilDiv(max(0, -x), w.columnStep), count), min(count, ceilDiv(max(0, w.Width-x), w.columnStep))
}

// copiedRows is the number of rows of pixels that that many rows of positions meet. If there are rows between those of the window, there is
// one row of positions, and only what it meets is copied.
func (w *convWindow) copiedRows(high int) int {
	if w.DilationHigh != 1 {
		return w.KernelHeight
	}
	return (high-1)*w.StrideHigh + w.KernelHeight
}

// copiedColumns is the number of pixels that a row of that many positions meets.
func (w *convWindow) copiedColumns(wide int) int {
	return (wide-1)*w.StrideWide + (w.KernelWidth-1)*w.DilationWide + 1
}

// areas is the number of parts of all positions.
func (w *convWindow) areas() int {
	return w.Images * ceilDiv(w.PositionsHigh, w.high) * ceilDiv(w.PositionsWide, w.wide)
}

// A convArea is the positions of a part.
type convArea struct {
	image, top, left int
	high, wide       int
}

func (w *convWindow) area(part int) convArea {
	acrosses, downs := ceilDiv(w.PositionsWide, w.wide), ceilDiv(w.PositionsHigh, w.high)
	a := convArea{left: part % acrosses * w.wide, top: part / acrosses % downs * w.high, image: part / acrosses / downs}
	a.wide, a.high = min(w.wide, w.PositionsWide-a.left), min(w.high, w.PositionsHigh-a.top)
	return a
}

// position is the index of the first position of a row of an area.
func (w *convWindow) position(a convArea, y int) int {
	return (a.image*w.PositionsHigh+a.top+y)*w.PositionsWide + a.left
}

// share is an eighth of all positions: there are parts for several workers.
func (w *convWindow) share() int { return ceilDiv(w.Images*w.PositionsHigh*w.PositionsWide, 8) }

// cut chooses the positions of a part: at most that many, in rows no narrower than needed for what they copy to fit.
func (w *convWindow) cut(positions, narrow int, fits func(high, wide int) bool) {
	even := func(n, most int) int { return ceilDiv(max(n, 1), ceilDiv(max(n, 1), most)) }
	w.high, w.wide = 1, even(w.PositionsWide, blockRows)
	for w.wide > narrow && !fits(1, w.wide) {
		w.wide = even(w.PositionsWide, w.wide-1)
	}
	if w.DilationHigh == 1 {
		for w.high < w.PositionsHigh && (w.high+1)*w.wide <= positions && fits(w.high+1, w.wide) {
			w.high++
		}
		w.high = even(w.PositionsHigh, w.high)
	}
}
