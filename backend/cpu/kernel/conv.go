package kernel

import "unsafe"

// A ConvShape is a convolution of images with the channels last over two spatial axes: Height × Width pixels of Channels, a
// window of KernelHeight × KernelWidth of them at PlacesHigh × PlacesWide places, Outputs channels of the result. Top and Left
// are the zeros in front of the first row and column; windows may reach as far over the others' ends as they do.
type ConvShape struct {
	Images, Height, Width, Channels int
	KernelHeight, KernelWidth       int
	StrideHigh, StrideWide          int
	DilationHigh, DilationWide      int
	Top, Left                       int
	PlacesHigh, PlacesWide          int
	Outputs                         int
}

// ConvArgs are the operands of one [Conv]: those of a Gemm with the places as rows, but for A. W is packed by [Set.NewPackB] with
// the taps, and for each tap the channels, along K.
type ConvArgs struct {
	GemmArgs
	X                     []float32 // channel c of a pixel at image·XImage + row·XRow + column·XColumn + c
	XImage, XRow, XColumn int
}

// Conv is a planned convolution of all channels with all outputs: a product whose A holds, for each place, what the window meets
// there. A is never whole in memory. A part copies the elements of some places that one block of K needs to scratch memory, which
// stays in the cache, and multiplies them with the panels of W.
type Conv struct {
	ConvShape
	set      *Set
	blocking blocking
	rows     int // most rows of a part
}

// convPanels is the least number of panels in a part of many: the more share a copy, the less it costs.
const convPanels = 8

// NewConv plans a convolution.
func (s *Set) NewConv(shape ConvShape) *Conv {
	c := &Conv{ConvShape: shape, set: s}
	k := shape.KernelHeight * shape.KernelWidth * shape.Channels
	m := shape.Images * shape.PlacesHigh * shape.PlacesWide
	b := s.newBlocking(&s.gemm, m, shape.Outputs, k, blockRows)
	// A block of K of the copied rows takes half of the L2 cache, whatever the rest of K.
	most := min(blockRows, max(4*s.gemm.rows, s.caches.l2/2/(4*copiedRow(b.kBlock))))
	b.rowBlocks = max(1, ceilDiv(m, most))
	b.panelsPerPart = min(max(b.panelsPerPart, convPanels), s.gemm.panels(shape.Outputs))
	b.panelGroups = ceilDiv(s.gemm.panels(shape.Outputs), max(1, b.panelsPerPart))
	c.blocking = b
	c.rows = min(m, ceilDiv(ceilDiv(m, s.gemm.rows), b.rowBlocks)*s.gemm.rows)
	return c
}

// copiedRow is the distance of copied rows: no power of two, whose rows would fall on the same lines of the cache.
func copiedRow(k int) int { return roundUp(k, 16) + 16 }

// Parts is the number of independent pieces.
func (c *Conv) Parts() int { return c.blocking.parts() }

// ScratchBytes is the scratch memory that one worker needs.
func (c *Conv) ScratchBytes() int { return 4 * c.rows * copiedRow(c.blocking.kBlock) }

// Run computes one part, 0 ≤ part < Parts(), with ScratchBytes() bytes of scratch that no other part uses meanwhile.
func (c *Conv) Run(part int, args *ConvArgs, scratch []byte) {
	b := &c.blocking
	args.checkResult(b.m, b.n)
	c.checkPixels(args)
	rowLo, rowHi, panelLo, panelHi := b.part(part)
	if rowLo == rowHi {
		return
	}
	row := copiedRow(b.kBlock)
	copied := floats(scratch, (rowHi-rowLo)*row)
	g := args.GemmArgs
	g.A, g.ARow, g.ACol = copied, row, 1
	over := g.Residual != nil && pointer(g.Residual) == pointer(g.C)
	g.C = g.C[rowLo*g.CRow:]
	if g.Residual != nil && !over {
		g.Residual = g.Residual[rowLo*g.ResRow:]
	} else if over {
		g.Residual = g.C
	}
	for kLo := 0; kLo == 0 || kLo < b.k; kLo += b.kBlock {
		c.copyPatches(copied, row, args, rowLo, rowHi, kLo, min(b.kBlock, b.k-kLo))
		for p := panelLo; p < panelHi; p++ {
			col := p * b.tile.cols()
			cols, packedCols := b.tile.panelCols(p, b.n)
			c.set.gemmPanel(b.tile, noescape(&g), gemmPanel{rowHi: rowHi - rowLo, col: col, cols: cols, from: kLo, alone: true, k: b.k, kBlock: b.kBlock,
				b: pointer(args.B[col*b.k:][:packedCols*b.k]), bRow: packedCols, followed: true})
		}
	}
}

// checkPixels panics if X is too short, before anything reads beyond it. Of images without pixels, nothing is read.
func (c *Conv) checkPixels(args *ConvArgs) {
	if c.Images*c.Height*c.Width == 0 {
		return
	}
	demand(args.X, (c.Images-1)*args.XImage+(c.Height-1)*args.XRow+(c.Width-1)*args.XColumn+c.Channels)
}

// copyPatches copies steps [kLo, kLo+kLen) of K of the rows [rowLo, rowHi).
func (c *Conv) copyPatches(dst []float32, dstRow int, args *ConvArgs, rowLo, rowHi, kLo, kLen int) {
	line := c.KernelWidth * c.Channels // of K, which one row of the kernel takes
	first, last := kLo/max(line, 1), ceilDiv(kLo+kLen, max(line, 1))
	joined := c.DilationWide == 1 && args.XColumn == c.Channels
	image, place := rowLo/(c.PlacesHigh*c.PlacesWide), rowLo%(c.PlacesHigh*c.PlacesWide)
	high, wide := place/c.PlacesWide, place%c.PlacesWide
	for r := range rowHi - rowLo {
		to := dst[r*dstRow:][:kLen]
		left := wide*c.StrideWide - c.Left
		for ky := first; ky < last; ky++ {
			from, until := max(ky*line, kLo), min((ky+1)*line, kLo+kLen)
			part := to[from-kLo : until-kLo]
			y := high*c.StrideHigh - c.Top + ky*c.DilationHigh
			if y < 0 || y >= c.Height {
				clear(part)
				continue
			}
			pixels := image*args.XImage + y*args.XRow
			if joined && left >= 0 && left+c.KernelWidth <= c.Width {
				copy(part, args.X[pixels+left*c.Channels+from-ky*line:])
				continue
			}
			c.copyLine(part, args, pixels, left, from-ky*line)
		}
		if wide++; wide == c.PlacesWide {
			wide = 0
			if high++; high == c.PlacesHigh {
				high, image = 0, image+1
			}
		}
	}
}

// copyLine copies what a row of the kernel meets from step at of it on, pixel by pixel; beyond the ends there are zeros.
func (c *Conv) copyLine(dst []float32, args *ConvArgs, pixels, left, at int) {
	for len(dst) > 0 {
		kx, channel := at/c.Channels, at%c.Channels
		n := min(c.Channels-channel, len(dst))
		if x := left + kx*c.DilationWide; x < 0 || x >= c.Width {
			clear(dst[:n])
		} else {
			copy(dst[:n], args.X[pixels+x*args.XColumn+channel:])
		}
		dst, at = dst[n:], at+n
	}
}

// depthwiseFunc sums, for each of so many places, srcRow elements apart in src, and each of cols channels, bias and what the taps
// meet, which lie offsets (in bytes) from the place, times their weights, whose rows are wRow apart. There is one tap at least.
type depthwiseFunc func(dst *float32, dstRow int, src *float32, srcRow int, offsets *int, taps int, w *float32, wRow int, bias *float32, places, cols int)

func depthwiseGeneric(dst *float32, dstRow int, src *float32, srcRow int, offsets *int, taps int, w *float32, wRow int, bias *float32, places, cols int) {
	for p := range places {
		for c := range cols {
			sum := *offset(bias, c)
			for t := range taps {
				at := *(*int)(unsafe.Add(unsafe.Pointer(offsets), t*int(unsafe.Sizeof(0)))) / 4
				sum += *offset(w, t*wRow+c) * *offset(src, p*srcRow+at+c)
			}
			*offset(dst, p*dstRow+c) = sum
		}
	}
}

// Depthwise is a planned convolution each channel of which is one of its own: Outputs is Channels. A part is some rows of places.
type Depthwise struct {
	ConvShape
	set  *Set
	rows int // of places in a part
}

// NewDepthwise plans a convolution.
func (s *Set) NewDepthwise(shape ConvShape) *Depthwise {
	// About 4 multiplications a nanosecond.
	row := max(1, shape.PlacesWide*shape.Channels*shape.KernelHeight*shape.KernelWidth/4)
	return &Depthwise{ConvShape: shape, set: s, rows: max(1, partNanoseconds/row)}
}

// Parts is the number of independent pieces.
func (d *Depthwise) Parts() int { return ceilDiv(d.Images*d.PlacesHigh, d.rows) }

// ScratchBytes is the scratch memory that one worker needs: offsets of taps, and where there is no bias, its zeros.
func (d *Depthwise) ScratchBytes() int { return 8*d.KernelHeight*d.KernelWidth + 4*d.Channels }

// Run computes one part, 0 ≤ part < Parts(), with ScratchBytes() bytes of scratch that no other part uses meanwhile. B is not
// packed: the weights of tap t and channel c are at t·Channels + c.
func (d *Depthwise) Run(part int, args *ConvArgs, scratch []byte) {
	c := &Conv{ConvShape: d.ConvShape}
	args.checkResult(d.Images*d.PlacesHigh*d.PlacesWide, d.Channels)
	c.checkPixels(args)
	demand(args.B, d.KernelHeight*d.KernelWidth*d.Channels)
	taps := d.KernelHeight * d.KernelWidth
	offsets := unsafe.Slice((*int)(unsafe.Pointer(&scratch[0])), taps)
	bias := args.Bias
	if bias == nil {
		bias = floats(scratch[8*taps:], d.Channels)
		clear(bias)
	}
	for row := part * d.rows; row < min((part+1)*d.rows, d.Images*d.PlacesHigh); row++ {
		d.row(row, args, offsets, bias)
	}
}

// row computes one row of places: those whose windows lie inside the row of pixels at once, the others each with the taps that
// meet a pixel. What lies above or below the image is left out for all of them.
func (d *Depthwise) row(row int, args *ConvArgs, offsets []int, bias []float32) {
	image, y := row/d.PlacesHigh, row%d.PlacesHigh*d.StrideHigh-d.Top
	extent := (d.KernelWidth-1)*d.DilationWide + 1
	inner := min(max(ceilDiv(d.Left, d.StrideWide), 0), d.PlacesWide)                       // the first place inside
	outer := max(inner, min(d.PlacesWide, floorDiv(d.Width-extent+d.Left, d.StrideWide)+1)) // the first one after
	for place := 0; place < d.PlacesWide; {
		count := 1
		if place == inner && outer > inner {
			count = outer - inner
		}
		x := place*d.StrideWide - d.Left
		// Kernel rows that meet the image are neighbours, and so are kernel columns: the weights of a row of them are evenly apart
		// unless columns are cut off, where each row goes by itself.
		kyLo, kyHi := meets(y, d.DilationHigh, d.KernelHeight, d.Height)
		kxLo, kxHi := meets(x, d.DilationWide, d.KernelWidth, d.Width)
		if count > 1 {
			kxLo, kxHi = 0, d.KernelWidth
		}
		dst := (row*d.PlacesWide + place) * args.CRow
		from, add := bias, bias
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
			origin := image*args.XImage + (y+kyLo*d.DilationHigh)*args.XRow + (x+kxLo*d.DilationWide)*args.XColumn
			d.set.depthwise(pointerAt(args.C, dst), args.CRow, pointerAt(args.X, origin), d.StrideWide*args.XColumn, pointer(offsets), n,
				pointerAt(args.B, (ky*d.KernelWidth+kxLo)*d.Channels), d.Channels, pointer(add), count, d.Channels)
			add = args.C[dst:]
			ky += rows
		}
		d.set.finish(args, row*d.PlacesWide+place, count, d.Channels)
		place += count
	}
}

// meets returns the elements [lo, hi) of a kernel that stand, dilation apart from the first at x on, on one of n pixels.
func meets(x, dilation, kernel, n int) (lo, hi int) {
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
