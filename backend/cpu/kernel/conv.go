package kernel

import (
	"math"
	"unsafe"
)

// A ConvShape is a convolution of images with the channels last over two spatial axes: Height × Width pixels of Channels, a window of
// KernelHeight × KernelWidth of them at PositionsHigh × PositionsWide positions, Outputs channels of the result. Top and Left are the zeros
// in front of the first row and column; windows may reach as far over the others' ends as they do.
type ConvShape struct {
	Images, Height, Width, Channels int
	KernelHeight, KernelWidth       int
	StrideHigh, StrideWide          int
	DilationHigh, DilationWide      int
	Top, Left                       int
	PositionsHigh, PositionsWide    int
	Outputs                         int
}

// ConvArgs are the operands of one [Conv]: those of a Gemm with the positions as rows, but for A. W is packed by [Set.NewPackB] with
// the taps, and for each tap the channels, along K.
type ConvArgs struct {
	GemmArgs
	Stored                *Stored   // replaces B in a plan of stored weights
	X                     []float32 // channel c of a pixel at image·XImage + row·XRow + column·XColumn + c·XChannel
	XImage, XRow, XColumn int
	XChannel              int
}

// Conv is a planned convolution of all channels with all outputs: products without a matrix of patches. What one row of the window
// meets at neighbouring positions are rows of a matrix that overlap, where pixels are side by side with their padding, and the rows
// of the window are blocks of K. A part copies the pixels of its positions, with zeros around them, to scratch memory, which stays in
// the cache.
type Conv struct {
	convWindow
	set      *Set
	blocking blocking
	group    int // rows of positions that a block of K goes over at a time
	step     int // taps that are one block of K: of a row of the window, or 1
	stored   bool
}

// storedPositions is the number of positions that a block of stored weights is decoded for, at least, if there are that many.
const storedPositions = 2 * blockRows

// NewConv plans a convolution for that many workers. Its weights are stored, or else float32.
func (s *Set) NewConv(shape ConvShape, workers int, stored bool) *Conv {
	c := &Conv{convWindow: stepWindow(shape, shape.Channels), set: s, stored: stored}
	shape, c.step = c.ConvShape, c.KernelWidth
	m := shape.Images * shape.PositionsHigh * shape.PositionsWide
	c.blocking = s.newBlocking(&s.gemm, m, shape.Outputs, shape.KernelHeight*shape.KernelWidth*shape.Channels, blockRows)
	if far := 4 * shape.Channels * shape.StrideWide; far >= 1024 && far%1024 == 0 {
		c.pixel, c.step = shape.Channels+16, 1 // rows of a tile must not fall on the same lines of the cache
	}
	if shape.DilationWide != 1 {
		c.step = 1
	}
	// What is copied takes half of the L2 cache; a part has some hundred positions.
	positions := min(4*blockRows, max(blockRows, c.share()))
	if stored {
		positions = max(positions, storedPositions)
	}
	c.cut(positions, 4*s.gemm.rows, func(high, wide int) bool {
		return c.copiedRows(high)*c.copiedRow(wide) <= s.caches.l2/2/4
	})
	c.blocking.cutPanels(c.areas(), workers, func(i int) (prepare, panel int) {
		a := c.area(i)
		return c.copiedRows(a.high) * c.copiedRow(a.wide) / copiedPerNanosecond, gemmCost(a.high*a.wide, s.gemm.cols(), c.blocking.k)
	})
	// The sums of a group stay in the L1 cache from one block of K to the next.
	c.group = max(1, s.caches.l1/2/4/max(1, c.wide*min(shape.Outputs, s.gemm.cols())))
	if stored {
		c.group = c.high
	}
	return c
}

// copiedPerNanosecond is about how many elements of pixels are copied in a nanosecond.
const copiedPerNanosecond = 4

// copiedRow is the distance of copied rows.
func (c *Conv) copiedRow(wide int) int {
	return c.copiedColumns(wide) * c.pixel
}

// Parts is the number of independent pieces.
func (c *Conv) Parts() int {
	if c.blocking.parts() == 0 {
		return 0
	}
	return c.areas() * c.blocking.panelGroups
}

// ScratchBytes is the scratch memory that one worker needs.
func (c *Conv) ScratchBytes() int {
	return 4 * (max(1, c.copiedRows(c.high)*c.copiedRow(c.wide)) + c.decoded())
}

// decoded is the room for a block of decoded weights.
func (c *Conv) decoded() int {
	if !c.stored {
		return 0
	}
	return decodedRows(evenBlock(c.step*c.Channels, c.blocking.kBlock)) * c.blocking.tile.cols()
}

// Run computes one part, 0 ≤ part < Parts(), with ScratchBytes() bytes of scratch that no other part uses meanwhile.
func (c *Conv) Run(part int, args *ConvArgs, scratch []byte) {
	b := &c.blocking
	args.checkResult(b.m, b.n)
	c.checkPixels(args)
	panelLo := part % b.panelGroups * b.panelsPerPart
	area := c.area(part / b.panelGroups)
	row := c.copiedRow(area.wide)
	pixels, room := floats(scratch, c.copiedRows(area.high)*row), elementsOf[float32](scratch)
	room = room[len(room)-c.decoded():]
	for r := range c.copiedRows(area.high) {
		c.copyRow(pixels[r*row:][:row], args, area.image, (area.top*c.StrideHigh+r*c.DilationHigh)*c.rowStep-c.Top,
			area.left*c.StrideWide*c.columnStep-c.Left)
	}
	if c.KernelHeight*c.KernelWidth == 1 && area.wide == c.PositionsWide { // the rows of positions are one
		area.wide, area.high = area.high*area.wide, 1
	}
	g := args.GemmArgs
	g.ARow, g.ACol = c.StrideWide*c.pixel, 1
	over := g.Residual != nil && pointer(g.Residual) == pointer(g.C)
	for p := panelLo; p < min(panelLo+b.panelsPerPart, b.tile.panels(b.n)); p++ {
		col := p * b.tile.cols()
		cols, packedCols := b.tile.panelCols(p, b.n)
		panel := gemmPanel{rowHi: area.wide, col: col, cols: cols, alone: true, k: b.k, bRow: packedCols}
		var source storedPanel
		if c.stored {
			source = args.Stored.panel(b.tile, p, b.n, room)
			panel.stored = noescape(&source)
		} else {
			panel.b = pointer(args.B[col*b.k:][:packedCols*b.k])
		}
		for from := 0; from < area.high; from += c.group {
			for tap := 0; tap == 0 || tap < c.KernelHeight*c.KernelWidth; tap += c.step {
				all := c.step * c.Channels
				block := evenBlock(all, b.kBlock)
				for k := 0; k == 0 || k < all; k += block {
					panel.from, panel.kBlock = tap*c.Channels+k, min(block, all-k)
					panel.calls = min(c.group, area.high-from)
					if !c.stored {
						panel.next = after(offset(panel.b, panel.from*packedCols), panel.kBlock*packedCols)
					}
					for y := from; y < min(from+c.group, area.high); y++ {
						panel.call = y - from
						g.A = pixels[(y*c.StrideHigh+tap/c.KernelWidth)*row+tap%c.KernelWidth*c.DilationWide*c.pixel+k:]
						position := c.position(area, y)
						g.C = args.C[position*g.CRow:]
						if over {
							g.Residual = g.C
						} else if args.Residual != nil {
							g.Residual = args.Residual[position*g.ResRow:]
						}
						c.set.gemmPanel(b.tile, noescape(&g), panel)
					}
				}
			}
		}
	}
}

// checkPixels panics if X is too short, before anything reads beyond it. Of images without pixels, nothing is read.
func (c *Conv) checkPixels(args *ConvArgs) {
	if c.Images*c.Height*c.Width == 0 {
		return
	}
	demand(args.X, (c.Images-1)*args.XImage+(c.Height-1)*args.XRow+(c.Width-1)*args.XColumn+(c.Channels-1)*args.XChannel+1)
}

// copyRow copies what dst has room for of row y of an image, columnStep apart from column x on. Beyond the ends there are zeros.
func (c *Conv) copyRow(dst []float32, args *ConvArgs, image, y, x int) {
	count := len(dst) / max(1, c.pixel)
	first, last := c.inside(x, count)
	if y < 0 || y >= c.Height || first >= last {
		clear(dst)
		return
	}
	clear(dst[:first*c.pixel])
	clear(dst[last*c.pixel:])
	dst, src := dst[first*c.pixel:last*c.pixel], args.X[image*args.XImage+y*args.XRow+(x+first*c.columnStep)*args.XColumn:]
	column := args.XColumn * c.columnStep
	if (args.XChannel == 1 || c.Channels == 1) && column == c.Channels && c.pixel == c.Channels {
		copy(dst, src)
		return
	}
	count = last - first
	switch {
	case c.Channels == 3 && c.pixel == 3 && column == 1: // of an image with the channels first
		red, green, blue := src[:count], src[args.XChannel:][:count], src[2*args.XChannel:][:count]
		for i, x := range red {
			p := (*[3]float32)(dst[3*i:])
			p[0], p[1], p[2] = x, green[i], blue[i]
		}
	case c.Channels < 8: // the transposing kernel works on blocks of eight
		for channel := range c.Channels {
			for i := range count {
				dst[i*c.pixel+channel] = src[i*column+channel*args.XChannel]
			}
		}
	default:
		c.set.copy2D(dst, c.pixel, 1, src, column, args.XChannel, count, c.Channels)
	}
}

// depthwiseFunc sums, for each of that many positions, srcRow elements apart in src, and each of cols channels, bias and what the taps
// meet, at offsets (in bytes) from the position, times their weights, whose rows are wRow apart: no less than least and no more than most.
// There is one tap at least.
type depthwiseFunc func(dst *float32, dstRow int, src *float32, srcRow int, offsets *int, taps int, w *float32, wRow int, bias *float32,
	positions, cols int, least, most float32)

// Bounds that bound nothing.
var lowest, highest = float32(math.Inf(-1)), float32(math.Inf(1))

func depthwiseGeneric(dst *float32, dstRow int, src *float32, srcRow int, offsets *int, taps int, w *float32, wRow int, bias *float32,
	positions, cols int, least, most float32) {
	for p := range positions {
		for c := range cols {
			sum := *offset(bias, c)
			for t := range taps {
				at := *(*int)(unsafe.Add(unsafe.Pointer(offsets), t*int(unsafe.Sizeof(0)))) / 4
				sum += *offset(w, t*wRow+c) * *offset(src, p*srcRow+at+c)
			}
			*offset(dst, p*dstRow+c) = min(max(sum, least), most)
		}
	}
}

// Depthwise is a planned convolution each channel of which is a separate one: Outputs is Channels. A part is some rows of positions.
type Depthwise struct {
	ConvShape
	set  *Set
	rows int // rows of positions in a part
}

// NewDepthwise plans a convolution.
func (s *Set) NewDepthwise(shape ConvShape) *Depthwise {
	// About 4 multiplications a nanosecond.
	row := max(1, shape.PositionsWide*shape.Channels*shape.KernelHeight*shape.KernelWidth/4)
	return &Depthwise{ConvShape: shape, set: s, rows: max(1, partNanoseconds/row)}
}

// Parts is the number of independent pieces.
func (d *Depthwise) Parts() int { return ceilDiv(d.Images*d.PositionsHigh, d.rows) }

// ScratchBytes is the scratch memory that one worker needs: offsets of taps, and where there is no bias, its zeros.
func (d *Depthwise) ScratchBytes() int { return 8*d.KernelHeight*d.KernelWidth + 4*d.Channels }

// Run computes one part, 0 ≤ part < Parts(), with ScratchBytes() bytes of scratch that no other part uses meanwhile. B is not
// packed: the weights of tap t and channel c are at t·Channels + c.
func (d *Depthwise) Run(part int, args *ConvArgs, scratch []byte) {
	c := &Conv{convWindow: convWindow{ConvShape: d.ConvShape}}
	args.checkResult(d.Images*d.PositionsHigh*d.PositionsWide, d.Channels)
	c.checkPixels(args)
	demand(args.B, d.KernelHeight*d.KernelWidth*d.Channels)
	taps := d.KernelHeight * d.KernelWidth
	offsets := unsafe.Slice((*int)(unsafe.Pointer(&scratch[0])), taps)
	bias := args.Bias
	if bias == nil {
		bias = floats(scratch[8*taps:], d.Channels)
		clear(bias)
	}
	for row := part * d.rows; row < min((part+1)*d.rows, d.Images*d.PositionsHigh); row++ {
		d.row(row, args, offsets, bias)
	}
}

// depthwiseRun is the most positions of a call, which goes through them for each vector of channels: the pixels that they meet stay in the
// L1 cache.
const depthwiseRun = 16

// row computes one row of positions: those whose windows are inside the row of pixels together, the others each with the taps that
// meet a pixel. What is above or below the image is left out for all of them.
func (d *Depthwise) row(row int, args *ConvArgs, offsets []int, bias []float32) {
	image, y := row/d.PositionsHigh, row%d.PositionsHigh*d.StrideHigh-d.Top
	extent := (d.KernelWidth-1)*d.DilationWide + 1
	inner := min(max(ceilDiv(d.Left, d.StrideWide), 0), d.PositionsWide)                       // the first position inside
	outer := max(inner, min(d.PositionsWide, floorDiv(d.Width-extent+d.Left, d.StrideWide)+1)) // the first one after
	least, most, bounds := args.bounds()
	for position := 0; position < d.PositionsWide; {
		count := 1
		whole := inner <= position && position < outer
		if whole {
			count = min(depthwiseRun, outer-position)
		}
		x := position*d.StrideWide - d.Left
		// Kernel rows that meet the image are neighbours, and so are kernel columns: the weights of a row of them are evenly apart
		// unless columns are cut off, where each row goes separately.
		kyLo, kyHi := Meets(y, d.DilationHigh, d.KernelHeight, d.Height)
		kxLo, kxHi := Meets(x, d.DilationWide, d.KernelWidth, d.Width)
		if whole {
			kxLo, kxHi = 0, d.KernelWidth
		}
		dst := (row*d.PositionsWide + position) * args.CRow
		from, add, bounded := bias, bias, false
		for ky := kyLo; ky < kyHi || ky == kyLo; {
			rows := kyHi - ky
			if kxHi-kxLo < d.KernelWidth {
				rows = min(rows, 1)
			}
			n := 0
			for r := range rows {
				for kx := kxLo; kx < kxHi; kx++ {
					offsets[n] = 4 * ((ky+r-kyLo)*d.DilationHigh*args.XRow + (kx-kxLo)*d.DilationWide*args.XColumn)
					n++
				}
			}
			if n == 0 {
				if ky == kyLo { // padding alone
					for p := range count {
						copy(args.C[dst+p*args.CRow:][:d.Channels], from)
					}
				}
				break
			}
			lo, hi := lowest, highest
			if bounded = bounds && ky+rows == kyHi; bounded {
				lo, hi = least, most
			}
			origin := image*args.XImage + (y+kyLo*d.DilationHigh)*args.XRow + (x+kxLo*d.DilationWide)*args.XColumn
			d.set.depthwise(pointerAt(args.C, dst), args.CRow, pointerAt(args.X, origin), d.StrideWide*args.XColumn, pointer(offsets), n,
				pointerAt(args.B, (ky*d.KernelWidth+kxLo)*d.Channels), d.Channels, pointer(add), count, d.Channels, lo, hi)
			add = args.C[dst:]
			ky += rows
		}
		if !bounded || args.Residual != nil {
			d.set.finish(args, row*d.PositionsWide+position, count, d.Channels)
		}
		position += count
	}
}

// bounds returns those of an activation that does nothing but bound, or of none.
func (args *GemmArgs) bounds() (least, most float32, ok bool) {
	switch args.Act {
	case NoUnary:
		return lowest, highest, true
	case Relu:
		return 0, highest, true
	case Clamp:
		return args.ActAlpha, args.ActBeta, true
	}
	return 0, 0, false
}

// Meets returns the elements [lo, hi) of a kernel, dilation apart from the first at x, that are on one of n pixels.
func Meets(x, dilation, kernel, n int) (lo, hi int) {
	lo = min(max(ceilDiv(-x, dilation), 0), kernel)
	return lo, max(lo, min(kernel, floorDiv(n-1-x, dilation)+1))
}

// floorDiv is a/b rounded down, for b > 0.
func floorDiv(a, b int) int {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// finish applies activation and residual to rows that a kernel has just left in the cache.
func (s *Set) finish(args *ConvArgs, row, rows, cols int) {
	if args.Act != NoUnary || args.Residual != nil {
		s.activate(&args.GemmArgs, row, rows, 0, cols)
	}
}
