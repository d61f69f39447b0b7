package kernel

import "unsafe"

// slideFunc writes, for each of count positions and each of cols channels, a word: the bytes, changed by flip, of that channel in four
// neighbouring pixels, which are srcRow bytes apart, from the position's first pixel on. Positions are as many pixels apart as the function
// says.
type slideFunc func(dst *uint32, dstRow int, src *uint8, srcRow int, flip uint32, count, cols int)

// depthwiseWords sums up products of bytes, four taps at a time.
type depthwiseWords struct {
	sum   depthwiseFunc // adds products of unsigned pixels with signed weights, in int32
	slide [2]slideFunc  // functions for positions that are one pixel apart, and two
}

// DepthwiseS8 is a planned convolution of bytes each channel of which is a separate one: Outputs is Channels. There are as many rows of
// copied pixels as the window has: the rows of the next position replace those that it does not read.
//
// Where there are kernels for it, a copied pixel is a word that has its neighbours in it, too, so that a row of the window is one product
// for each four of its taps. A few channels go at a time, whose words stay in the first-level cache. Elsewhere, pixels are widened to
// floats as they are copied, of which sums over a few taps are exact; the kernel is that of [Depthwise].
type DepthwiseS8 struct {
	convWindow
	set   *Set
	words bool
	step  int // pixels from one word to the next
	chunk int // channels that go at a time
}

// MaxDepthwiseS8 is the most taps over which sums of products of bytes, less their zero points, are exact in floats.
const MaxDepthwiseS8 = 1 << 24 / (255 * 255)

// wordChannels is the number of channels whose words go at a time.
const wordChannels = 32

// NewDepthwiseS8 plans a convolution of bytes.
func (s *Set) NewDepthwiseS8(shape ConvShape) *DepthwiseS8 {
	d := &DepthwiseS8{set: s, step: 1, chunk: shape.Channels, words: s.depthwiseWords.sum != nil && shape.DilationWide == 1 &&
		shape.KernelWidth > 1}
	most := s.caches.l2 / 4 / 4
	if d.words {
		d.chunk, most = min(d.chunk, wordChannels), s.caches.l1*3/4/4
	}
	d.convWindow = newConvWindow(shape, d.chunk, most, true)
	if d.words && d.StrideWide%2 == 0 {
		d.step = 2
	}
	return d
}

// Parts is the number of independent pieces.
func (d *DepthwiseS8) Parts() int {
	if d.Channels == 0 {
		return 0
	}
	return d.areas()
}

// rowTaps is the number of rows of weights that a row of the window has.
func (d *DepthwiseS8) rowTaps() int {
	if d.words {
		return ceilDiv(d.KernelWidth, 4)
	}
	return d.KernelWidth
}

// copied is the number of copied pixels of a row of that many positions.
func (d *DepthwiseS8) copied(wide int) int { return ceilDiv(d.copiedColumns(wide), d.step) }

// edgeBytes is the room for the pixels at both ends of a row.
func (d *DepthwiseS8) edgeBytes() int { return roundUp((d.copied(d.wide)*d.step+3)*d.chunk, 8) }

// maxPasses is the number of signed bytes into which the distance of a weight from its zero point may fall.
const maxPasses = 3

// Pack prepares constant weights, that of tap t and channel c at t·Channels + c, for Run: rows of distances from their zero points, of
// which there is one for each channel, or one, or none; then the sum of each channel. Where unsigned is set, the weights are unsigned, and
// 128 has been taken from their zero points. Distances beyond a signed byte are the sum of several.
func (d *DepthwiseS8) Pack(weights []byte, zeros []int32, unsigned bool) []byte {
	n, flip := d.Channels, int32(0)
	if unsigned {
		flip = 128
	}
	distance := func(tap, c int) int32 {
		w := int32(int8(weights[tap*n+c]))
		if unsigned {
			w = int32(weights[tap*n+c]) - flip
		}
		if len(zeros) > 0 {
			w -= zeros[min(c, len(zeros)-1)]
		}
		return w
	}
	all, passes := d.KernelHeight*d.KernelWidth, 1
	sums := make([]int32, n)
	for c := range n {
		for tap := range all {
			w := distance(tap, c)
			sums[c] += w
			for d.words && w != clampS8(w, passes) {
				passes++
			}
		}
	}
	rows := passes * d.KernelHeight * d.rowTaps()
	packed := make([]uint32, (rows+1)*n)
	bytes := bytesOfWords(packed)
	for c := range n {
		for tap := range all {
			w := distance(tap, c)
			if !d.words {
				elementsOf[float32](bytes)[tap*n+c] = float32(w)
				continue
			}
			row := tap/d.KernelWidth*d.rowTaps() + tap%d.KernelWidth/4
			for pass := range passes {
				part := clampS8(w, 1)
				bytes[4*((pass*d.KernelHeight*d.rowTaps()+row)*n+c)+tap%d.KernelWidth%4] = byte(part)
				w -= part
			}
		}
		packed[rows*n+c] = uint32(sums[c])
	}
	return bytes
}

// clampS8 is the nearest sum of that many signed bytes.
func clampS8(x int32, bytes int) int32 { return min(max(x, -128*int32(bytes)), 127*int32(bytes)) }

// ScratchBytes is the scratch memory that one worker needs: offsets of the weights' rows, copied pixels and the ends of a row of them, a
// row of sums, and what all positions share: what the sums begin with, zeros in place of a bias, and the factor of each channel.
func (d *DepthwiseS8) ScratchBytes() int {
	return 8*maxPasses*d.KernelHeight*d.rowTaps() + d.edgeBytes() + 4*(d.chunk*(d.KernelHeight*d.copied(d.wide)+d.wide)+3*d.Channels)
}

// Run computes one part, 0 ≤ part < Parts(), with ScratchBytes() bytes of scratch that no other part uses meanwhile.
func (d *DepthwiseS8) Run(part int, args *ConvS8Args, scratch []byte) {
	n, perRow := d.Channels, d.rowTaps()
	args.checkResult(d.Images*d.PositionsHigh*d.PositionsWide, n)
	d.checkPixels(args)
	weights := elementsOf[float32](args.B)
	rows := len(weights)/n - 1
	area := d.area(part)
	copied := d.copied(area.wide)
	offsets := unsafe.Slice((*int)(unsafe.Pointer(&scratch[0])), rows)
	scratch = scratch[8*rows:]
	edge := scratch[:d.edgeBytes()]
	scratch = scratch[len(edge):]
	take := func(n int) []float32 {
		taken := floats(scratch, n)
		scratch = scratch[4*n:]
		return taken
	}
	pixels, sums := take(d.chunk*copied*d.KernelHeight), take(d.chunk*area.wide)
	start, zeros, factor := take(n), take(n), take(n)
	clear(zeros)
	clear(start)
	for i, sum := range elementsOf[int32](args.B)[rows*n:][:n] {
		if d.words {
			elementsOf[int32](bytesOfFloats(start))[i] = -args.Zero[0] * sum
		}
		if factor[i] = 1; args.Sums == nil {
			factor[i] = args.Scale[0] * args.BScale[i]
		}
	}
	for first := 0; first < n; first += d.chunk {
		f := finishing{col: first, cols: min(d.chunk, n-first)}
		f.factor, f.offset = factor[first:][:f.cols], elementsOf[int32](bytesOfFloats(zeros))[:f.cols]
		for y, next := 0, 0; y < area.high; y++ {
			top := y * d.StrideHigh
			for next = max(next, top); next < top+d.KernelHeight; next++ {
				from, to, src := d.pixels(args, area, next)
				row := pixels[next%d.KernelHeight*f.cols*copied:][:f.cols*copied]
				if d.words {
					d.slideRow(elementsOf[uint32](bytesOfFloats(row)), args, from, to, src, f, edge)
				} else {
					d.widenRow(row, args, from, to, src)
				}
			}
			for i := range offsets {
				ky, at := i/perRow%d.KernelHeight, i%perRow*d.DilationWide
				if d.words {
					at = i % perRow * 4 / d.step
				}
				offsets[i] = 4 * f.cols * ((top+ky)%d.KernelHeight*copied + at)
			}
			sum := d.set.depthwise
			if d.words {
				sum = d.set.depthwiseWords.sum
			}
			sum(pointer(sums), f.cols, pointer(pixels), d.StrideWide/d.step*f.cols, pointer(offsets), rows, pointerAt(weights, first), n,
				pointerAt(start, first), area.wide, f.cols, lowest, highest)
			d.finish(args, d.position(area, y), area.wide, sums, f, zeros)
		}
	}
}

// slideRow makes words of the pixels [first, last) of a row, of which src has the first, and of the zero point around them.
func (d *DepthwiseS8) slideRow(dst []uint32, args *ConvS8Args, first, last int, src []uint8, f finishing, edge []byte) {
	words, column, flip := len(dst)/f.cols, args.XColumn, uint32(0)
	zero := byte(args.Zero[0])
	if args.Signed {
		flip = 0x80808080
	}
	slide := d.set.depthwiseWords.slide[d.step-1]
	// Around the words whose pixels all are in the image, pixels are brought together first.
	lo, hi := ceilDiv(first, d.step), floorDiv(last-4, d.step)+1
	if hi <= lo {
		lo, hi = words, words
	} else {
		src := src[(lo*d.step-first)*column+f.col:]
		_ = src[((hi-lo-1)*d.step+3)*column+f.cols-1]
		slide(pointerAt(dst, lo*f.cols), f.cols, pointer(src), column, flip, hi-lo, f.cols)
	}
	for _, ends := range [][2]int{{0, lo}, {hi, words}} {
		if ends[0] >= ends[1] {
			continue
		}
		begin, count := ends[0]*d.step, (ends[1]-ends[0]-1)*d.step+4
		for i := range count {
			to := edge[i*f.cols:][:f.cols]
			if p := begin + i; p >= first && p < last {
				copy(to, src[(p-first)*column+f.col:])
			} else {
				fill(to, zero^byte(flip))
			}
		}
		slide(pointerAt(dst, ends[0]*f.cols), f.cols, pointer(edge), f.cols, flip, ends[1]-ends[0], f.cols)
	}
}

// widenRow copies the pixels [first, last) of a row from src as their distances from the zero point.
func (d *DepthwiseS8) widenRow(dst []float32, args *ConvS8Args, first, last int, src []uint8) {
	n, column := d.Channels, args.XColumn*d.columnStep
	clear(dst[:first*n])
	clear(dst[last*n:])
	each, times := n, last-first
	if column == n {
		each, times = n*times, min(times, 1)
	}
	for i := range times {
		to, from := dst[first*n+i*each:][:each], src[i*column:][:each]
		if args.Signed {
			d.set.DequantizeS8(to, bytesAs[int8](from), 1, int8(args.Zero[0]-128))
		} else {
			d.set.DequantizeU8(to, from, 1, uint8(args.Zero[0]))
		}
	}
}

// finish writes the result of the sums of some channels of a row of positions. The sums are integers, or floats that hold integers.
func (d *DepthwiseS8) finish(args *ConvS8Args, row, rows int, sums []float32, f finishing, zeros []float32) {
	n, out := f.cols, args.Quantized
	whole := elementsOf[int32](bytesOfFloats(sums))
	if args.Sums != nil {
		for r := range rows {
			to := args.Sums[(row+r)*args.CRow+f.col:][:n]
			if d.words {
				copy(to, whole[r*n:])
				continue
			}
			for c, sum := range sums[r*n:][:n] {
				to[c] = int32(sum)
			}
		}
		return
	}
	bias := zeros[:n]
	if args.Bias != nil {
		bias = args.Bias[f.col:][:n]
	}
	if args.requantizes() {
		pick := rescaling
		if d.words {
			pick = requantizing
		}
		out.Dst = out.Dst[row*out.Row+f.col:]
		f.lowest = out.lowest(args.Act)
		d.set.requantize(pick, out, pointer(whole), n, f, bias, rows)
		return
	}
	for r := range rows {
		line, integers := sums[r*n:][:n], whole[r*n:][:n]
		for c := range line {
			if d.words {
				line[c] = float32(integers[c])
			}
			line[c] = float32(line[c]*f.factor[c]) + bias[c]
		}
	}
	to, toRow := pointer(sums), n
	if out.Dst == nil {
		to, toRow = pointerAt(args.C, row*args.CRow+f.col), args.CRow
		d.set.copy2D(args.C[row*args.CRow+f.col:], args.CRow, 1, sums, n, 1, rows, n)
	}
	d.set.finishS8(&args.GemmS8Args, row, rows, f.col, n, to, toRow, to, toRow)
}
