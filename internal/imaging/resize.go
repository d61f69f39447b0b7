package imaging

import (
	"image"
	"math"
)

// A Filter is an interpolation of Pillow, by its number in Pillow and in the files of models.
type Filter int

// The filters.
const (
	Nearest Filter = iota
	Lanczos
	Bilinear
	Bicubic
	Box
	Hamming
	linear // Bilinear without antialiasing, as in OpenCV; not a number of Pillow
)

// kernels has the weight of a pixel at distance x from the centre, which is 0 from support on. Nearest has none.
var kernels = [...]struct {
	support float64
	weight  func(x float64) float64
}{
	Lanczos:  {3, func(x float64) float64 { return sinc(x) * sinc(x/3) }},
	Bilinear: {1, func(x float64) float64 { return 1 - math.Abs(x) }},
	Bicubic: {2, func(x float64) float64 { // Keys' cubic with a = −1/2
		const a = -0.5
		x = math.Abs(x)
		if x < 1 {
			return float64((float64((a+2)*x)-(a+3))*x*x) + 1
		}
		return float64((float64((float64((x-5)*x)+8)*x) - 4) * a)
	}},
	Box:     {0.5, func(float64) float64 { return 1 }},
	Hamming: {1, func(x float64) float64 { return sinc(x) * (0.54 + float64(0.46*math.Cos(math.Pi*x))) }},
	linear:  {1, func(x float64) float64 { return 1 - math.Abs(x) }},
}

func sinc(x float64) float64 {
	if x == 0 {
		return 1
	}
	x *= math.Pi
	return math.Sin(x) / x
}

// fraction is the number of bits of a weight after the point: a sum of products with bytes leaves room for a sign and for overshoot.
const fraction = 32 - 8 - 2

// taps are the weights of the source pixels that make each target pixel of one axis: target i is the sum of weights[i] times the
// pixels from first[i] on. Both first and the ends rise with i.
type taps struct {
	first   []int
	weights [][]int32 // times 2^fraction
}

// end returns the source pixel after the last one of target i.
func (t taps) end(i int) int { return t.first[i] + len(t.weights[i]) }

// taps computes the weights of targets from to end (exclusive), where an axis of size in becomes size out. Filters but linear are
// stretched where they shrink the image, so that every source pixel counts. Conversions to float64 prevent fused multiplications, which
// would round differently on other processors.
func (f Filter) taps(in, out, from, end int) taps {
	t := taps{make([]int, end-from), make([][]int32, end-from)}
	scale := float64(in) / float64(out)
	stretch := max(scale, 1)
	if f == linear {
		stretch = 1
	}
	support := float64(kernels[f].support * stretch)
	raw := make([]float64, 0, int(math.Ceil(support))*2+1)
	for i := range t.first {
		center := float64((float64(from+i) + 0.5) * scale)
		first := max(int(center-support+0.5), 0)
		last := min(int(center+support+0.5), in)
		raw = raw[:0]
		sum := 0.0
		for x := first; x < last; x++ {
			d := float64((float64(x) - center + 0.5) * (1 / stretch))
			w := 0.0
			if math.Abs(d) < kernels[f].support || d == kernels[f].support && f == Box {
				w = kernels[f].weight(d)
			}
			raw = append(raw, w)
			sum += w
		}
		weights := make([]int32, len(raw))
		for k, w := range raw {
			weights[k] = int32(math.Round(w / sum * (1 << fraction)))
		}
		t.first[i], t.weights[i] = first, weights
	}
	return t
}

// resize scales r to width × height pixels and returns the part of the result in window, which it alone computes. The pixels equal those
// of Pillow: columns first, rounded to bytes, then rows. Each row of the source is scaled once and added to the rows of the result that
// need it, so no image is stored between the two passes.
func (r *Raster) resize(width, height int, f Filter, window image.Rectangle) *Raster {
	out := newRaster(window.Dx(), window.Dy())
	if f == Nearest || width == r.Width && height == r.Height {
		columns := nearest(r.Width, width, window.Min.X, window.Max.X)
		for y, from := range nearest(r.Height, height, window.Min.Y, window.Max.Y) {
			row, source := out.row(y), r.row(from)
			for x, from := range columns {
				copy(row[3*x:3*x+3], source[3*from:])
			}
		}
		return out
	}
	columns := f.taps(r.Width, width, window.Min.X, window.Max.X)
	rows := f.taps(r.Height, height, window.Min.Y, window.Max.Y)
	scaled := make([]byte, 3*out.Width)
	sums := make([][]int32, out.Height) // of result rows that source rows are still added to; nil before and after
	first, end := 0, 0                  // the range of sums in use
	for y := rows.first[0]; first < out.Height; y++ {
		columns.apply(scaled, r.row(y))
		for ; end < out.Height && rows.first[end] <= y; end++ {
			sums[end] = make([]int32, len(scaled))
		}
		for i := first; i < end; i++ {
			k := y - rows.first[i]
			if k >= len(rows.weights[i]) {
				continue
			}
			w, sum := rows.weights[i][k], sums[i][:len(scaled)]
			for x, v := range scaled {
				sum[x] += int32(v) * w
			}
		}
		for ; first < end && rows.end(first) == y+1; first++ {
			row := out.row(first)
			for x, sum := range sums[first] {
				row[x] = rounded(sum)
			}
			sums[first] = nil
		}
	}
	return out
}

// apply scales a row of pixels.
func (t taps) apply(to, from []byte) {
	for i, weights := range t.weights {
		var red, green, blue int32
		pixels := from[3*t.first[i]:][:3*len(weights)]
		for _, w := range weights {
			red += int32(pixels[0]) * w
			green += int32(pixels[1]) * w
			blue += int32(pixels[2]) * w
			pixels = pixels[3:]
		}
		to[3*i], to[3*i+1], to[3*i+2] = rounded(red), rounded(green), rounded(blue)
	}
}

// rounded returns the nearest byte to a sum of products with weights.
func rounded(sum int32) byte { return clip(int(sum+1<<(fraction-1)) >> fraction) }

// nearest returns the source pixel at the centre of each target pixel. The positions are summed up as in Pillow, whose rounding decides
// where a centre is on the border of two pixels.
func nearest(in, out, from, end int) []int {
	indices := make([]int, 0, end-from)
	scale := float64(in) / float64(out)
	at := scale * 0.5
	for i := range end {
		if i >= from {
			indices = append(indices, min(int(at), in-1))
		}
		at += scale
	}
	return indices
}
