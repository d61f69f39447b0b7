package kernel

import "unsafe"

// ConvS8Args are the operands of one [ConvS8] or [DepthwiseS8]: those of a [GemmS8] with the positions as rows, but for A. There is one
// scale and zero point of X. B is packed by [Set.NewPackS8], with the taps, and for each tap [Set.ConvPixel] channels, along K; that of a
// DepthwiseS8 by its Pack, zero points included.
type ConvS8Args struct {
	GemmS8Args
	X                     []uint8 // channel c of a pixel at image·XImage + row·XRow + column·XColumn + c·XChannel
	XImage, XRow, XColumn int
	XChannel              int
	Signed                bool // X holds signed bytes: 128 is added to each, as it has been to Zero
}

// ConvPixel is the number of bytes of a pixel as [ConvS8] copies it: whole words, of which those beyond the channels count for nothing.
func (s *Set) ConvPixel(channels int) int { return PixelBytes(channels, s.gemmS8.deep) }

// PixelBytes is [Set.ConvPixel] of a level whose layout of weights is deep, or not: whose words are by pairs.
func PixelBytes(channels int, deep bool) int {
	if deep {
		return roundUp(channels, 8)
	}
	return roundUp(channels, 4)
}

// newConvWindow plans parts that have at most that many elements of copied pixels at a time, pixel of them for each pixel: those of all
// rows, or of those that one row of positions meets.
func newConvWindow(shape ConvShape, pixel, most int, byRow bool) convWindow {
	w := stepWindow(shape, pixel)
	fits := func(high, wide int) bool {
		if byRow {
			high = 1
		}
		return w.copiedRows(high)*w.copiedColumns(wide)*pixel <= most
	}
	w.cut(max(blockRows, w.share()), 16, fits)
	return w
}

// pixels are those of copied row r of an area: the pixels [first, last) are in the image, and begin at src, XColumn·columnStep apart.
func (w *convWindow) pixels(args *ConvS8Args, a convArea, r int) (first, last int, src []uint8) {
	columns := w.copiedColumns(a.wide)
	y := (a.top*w.StrideHigh+r*w.DilationHigh)*w.rowStep - w.Top
	x := a.left*w.StrideWide*w.columnStep - w.Left
	first, last = w.inside(x, columns)
	if y < 0 || y >= w.Height || first >= last {
		return 0, 0, nil
	}
	return first, last, args.X[a.image*args.XImage+y*args.XRow+(x+first*w.columnStep)*args.XColumn:]
}

// checkPixels panics if X is too short, before anything reads beyond it. Of images without pixels, nothing is read.
func (w *convWindow) checkPixels(args *ConvS8Args) {
	if w.Images*w.Height*w.Width > 0 && w.Channels > 0 {
		demand(args.X, (w.Images-1)*args.XImage+(w.Height-1)*args.XRow+(w.Width-1)*args.XColumn+(w.Channels-1)*args.XChannel+1)
	}
}

// ConvS8 is a planned convolution of bytes of all channels with all outputs: products without a matrix of patches, as [Conv] is for
// floats. The zero point of X is around the copied pixels, and fills them up to whole words.
type ConvS8 struct {
	convWindow
	gemm *GemmS8
	step int // taps that are one block of K: of a row of the window, or 1
}

// NewConvS8 plans a convolution of bytes for that many workers.
func (s *Set) NewConvS8(shape ConvShape, workers int) *ConvS8 {
	c := &ConvS8{convWindow: newConvWindow(shape, s.ConvPixel(shape.Channels), s.caches.l2/2, false)}
	c.gemm = s.NewGemmS8(shape.Images*shape.PositionsHigh*shape.PositionsWide, shape.Outputs, c.KernelHeight*c.KernelWidth*c.pixel, workers)
	c.step = c.KernelWidth
	if c.DilationWide != 1 {
		c.step = 1
	}
	b := &c.gemm.blocking
	b.cutPanels(c.areas(), workers, func(i int) (prepare, panel int) {
		a := c.area(i)
		words := c.copiedRows(a.high) * c.copiedColumns(a.wide) * c.pixel / 4
		return words / copiedPerNanosecond, gemmCost(a.high*a.wide, b.tile.cols(), b.k)
	})
	return c
}

// Parts is the number of independent pieces.
func (c *ConvS8) Parts() int {
	if c.gemm.Parts() == 0 {
		return 0
	}
	return c.areas() * c.gemm.blocking.panelGroups
}

// ScratchBytes is the scratch memory that one worker needs: pixels and their sums, totals of the positions, what the rows of a panel share,
// and the sums of a row of positions.
func (c *ConvS8) ScratchBytes() int {
	pixels := c.copiedRows(c.high) * c.copiedColumns(c.wide)
	cols := c.gemm.blocking.tile.cols()
	return 4 * max(1, pixels*c.pixel/4+pixels+c.high*c.wide+2*cols+c.wide*cols)
}

// Run computes one part, 0 ≤ part < Parts(), with ScratchBytes() bytes of scratch that no other part uses meanwhile.
func (c *ConvS8) Run(part int, args *ConvS8Args, scratch []byte) {
	b := &c.gemm.blocking
	args.checkResult(c.gemm.M, c.gemm.N)
	c.checkPixels(args)
	panelLo := part % b.panelGroups * b.panelsPerPart
	area := c.area(part / b.panelGroups)
	row := c.copiedColumns(area.wide) * c.pixel
	take := func(n int) []byte {
		taken := scratch[:n:n]
		scratch = scratch[n:]
		return taken
	}
	pixels := take(c.copiedRows(area.high) * row)
	for r := range c.copiedRows(area.high) {
		first, last, src := c.convWindow.pixels(args, area, r)
		c.copyRow(pixels[r*row:][:row], args, first, last, src)
	}
	sums := elementsOf[int32](take(4 * (len(pixels) / max(1, c.pixel))))
	totals := elementsOf[int32](take(4 * area.high * area.wide))
	c.totals(args, area, pixels, sums, totals)
	for p := panelLo; p < min(panelLo+b.panelsPerPart, b.tile.panels(b.n)); p++ {
		c.panel(args, area, p, elementsOf[float32](pixels), totals, scratch)
	}
}

// panel computes the columns of a panel: of each row of positions the sums, block by block of K, and then what follows from them while they
// are in cache.
func (c *ConvS8) panel(args *ConvS8Args, area convArea, p int, words []float32, totals []int32, scratch []byte) {
	tile, k := c.gemm.blocking.tile, c.gemm.blocking.k
	col := p * tile.cols()
	cols, packedCols := tile.panelCols(p, c.gemm.N)
	b := elementsOf[float32](args.B)[col*k:][:packedCols*k]
	f := c.gemm.columns(&args.GemmS8Args, col, cols, scratch)
	sums := scratch[8*tile.cols():][:4*area.wide*cols]
	pixel, vecs, tiles := c.pixel/4, ceilDiv(cols, tile.vec), ceilDiv(area.wide, tile.rows)
	row, block := c.copiedColumns(area.wide)*pixel, c.step*pixel
	for y := range area.high {
		for tap := 0; tap == 0 || tap < c.KernelHeight*c.KernelWidth; tap += c.step {
			flags := 0
			if tap > 0 {
				flags = gemmAccumulate
			}
			at := tap * pixel * packedCols
			next := newPrefetch(pointerAt(b, at), after(pointerAt(b, at), len(b)), block*packedCols, packedCols, area.high*tiles)
			a := words[min(len(words), (y*c.StrideHigh+tap/c.KernelWidth)*row+tap%c.KernelWidth*c.DilationWide*pixel):]
			for x, t := 0, 0; t < tiles; {
				rows, run := tile.run(area.wide-x, tiles-t, block)
				tile.kernels[rows][vecs](run, block, pointerAt(a, x*c.StrideWide*pixel), c.StrideWide*pixel, 1,
					pointerAt(b, at), packedCols, next.tile(y*tiles+t), next.step, pointerAt(elementsOf[float32](sums), x*cols),
					cols, cols-(vecs-1)*tile.vec, 1, nil, nil, 0, flags)
				x, t = x+run*rows, t+run
			}
		}
		c.gemm.finish(&args.GemmS8Args, c.position(area, y), area.wide, f, totals[y*area.wide:], elementsOf[int32](sums))
	}
}

// copyRow copies the pixels [first, last) of a row from src, with the zero point around them and after their channels.
func (c *ConvS8) copyRow(dst []byte, args *ConvS8Args, first, last int, src []uint8) {
	flip := byte(0)
	if args.Signed {
		flip = 0x80
	}
	zero := byte(args.Zero[0])
	column := args.XColumn * c.columnStep
	if c.pixel != c.Channels {
		fill(dst, zero)
	} else {
		fill(dst[:first*c.pixel], zero)
		fill(dst[last*c.pixel:], zero)
	}
	dst = dst[first*c.pixel : last*c.pixel]
	switch count := last - first; {
	case count == 0:
	case args.XChannel == 1 && column == c.Channels && c.pixel == c.Channels:
		copy(dst, src[:len(dst)])
		flipSigns(dst, flip)
	case args.XChannel == 1:
		for i := range count {
			to := dst[i*c.pixel:][:c.Channels]
			copy(to, src[i*column:])
			flipSigns(to, flip)
		}
	case c.pixel == 4 && c.Channels == 3 && column == 1: // of an image with the channels first
		c.threeChannels(dst, args, src, uint32(flip)*0x010101|uint32(zero)<<24)
	default:
		for channel := range c.Channels {
			from, to := src[channel*args.XChannel:], dst[channel:]
			_, _ = from[(count-1)*column], to[(count-1)*c.pixel]
			for i := range count {
				to[i*c.pixel] = from[i*column] ^ flip
			}
		}
	}
}

// threeChannels copies pixels of three channels that are apart as words, each changed by flip.
func (c *ConvS8) threeChannels(dst []byte, args *ConvS8Args, src []uint8, flip uint32) {
	words := elementsOf[uint32](dst)
	n := len(words)
	first, second, third := src[:n], src[args.XChannel:][:n], src[2*args.XChannel:][:n]
	for i := range words {
		words[i] = (uint32(first[i]) | uint32(second[i])<<8 | uint32(third[i])<<16) ^ flip
	}
}

// flipSigns flips the bits of flip in each byte.
func flipSigns(x []byte, flip byte) {
	if flip == 0 {
		return
	}
	flips := uint64(flip) * 0x0101010101010101
	for ; len(x) >= 8; x = x[8:] {
		*(*uint64)(unsafe.Pointer(&x[0])) ^= flips
	}
	for i := range x {
		x[i] ^= flip
	}
}

// fill sets all bytes.
func fill(x []byte, to byte) {
	if to == 0 {
		clear(x)
		return
	}
	if len(x) > 0 {
		x[0] = to
	}
	for done := 1; done < len(x); done *= 2 {
		copy(x[done:], x[:done])
	}
}

// totals computes, for each position, what the zero points of B take from its sums: see [GemmS8.rowTotals]. A pixel is added up once.
func (c *ConvS8) totals(args *ConvS8Args, area convArea, pixels []byte, sums, totals []int32) {
	clear(totals)
	if args.BZero == nil || c.pixel == 0 {
		return
	}
	chunks := c.pixel / sumBytesChunk
	if len(sums) > 0 {
		c.gemm.set.quantize.sumBytes(pointer(sums), pointer(pixels), c.pixel, len(sums), chunks)
	}
	for i := range sums {
		sums[i] -= args.Zero[0] * int32(c.pixel)
		for _, x := range pixels[i*c.pixel:][chunks*sumBytesChunk : c.pixel] {
			sums[i] += int32(x)
		}
	}
	columns := c.copiedColumns(area.wide)
	for y := range area.high {
		for x := range area.wide {
			total := int32(0)
			for tap := range c.KernelHeight * c.KernelWidth {
				total += sums[(y*c.StrideHigh+tap/c.KernelWidth)*columns+x*c.StrideWide+tap%c.KernelWidth*c.DilationWide]
			}
			if len(args.BZero) == 1 {
				total *= args.BZero[0]
			}
			totals[y*area.wide+x] = total
		}
	}
}
