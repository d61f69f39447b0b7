package imaging

import (
	"fmt"
	"image"
	"image/color"
)

// toRGB converts an image as Pillow's convert("RGB") does. format is a name in the table of formats: a YCbCr image of WebP has other
// sizes of steps than one of JPEG.
func toRGB(m image.Image, format string) (*Raster, error) {
	b := m.Bounds()
	out := newRaster(b.Dx(), b.Dy())
	switch m := m.(type) {
	case *image.YCbCr:
		if format == "WebP" {
			ycbcr(out, m, webpChroma, webpRGB)
		} else {
			ycbcr(out, m, jpegChroma, jpegRGB)
		}
	case *image.NYCbCrA: // a WebP with transparency
		ycbcr(out, &m.YCbCr, webpChroma, webpRGB)
	case *image.Gray:
		each(out, m.Pix, m.Stride, 1, func(to, from []byte) { to[0], to[1], to[2] = from[0], from[0], from[0] })
	case *image.Gray16:
		each(out, m.Pix, m.Stride, 2, func(to, from []byte) {
			v := from[1]
			if from[0] != 0 {
				v = 255
			}
			to[0], to[1], to[2] = v, v, v
		})
	case *image.Paletted:
		var palette [256][3]byte // a missing colour is black
		for i, c := range m.Palette[:min(len(m.Palette), 256)] {
			rgb := color.NRGBAModel.Convert(c).(color.NRGBA)
			palette[i] = [3]byte{rgb.R, rgb.G, rgb.B}
		}
		each(out, m.Pix, m.Stride, 1, func(to, from []byte) { copy(to, palette[from[0]][:]) })
	case *image.NRGBA:
		each(out, m.Pix, m.Stride, 4, func(to, from []byte) { copy(to, from[:3]) })
	case *image.RGBA:
		each(out, m.Pix, m.Stride, 4, func(to, from []byte) {
			switch a := int(from[3]); a {
			case 0, 255:
				copy(to, from[:3])
			default: // colours are stored multiplied by a
				for c := range 3 {
					to[c] = byte(min(255*int(from[c])/a, 255))
				}
			}
		})
	case *image.NRGBA64:
		each(out, m.Pix, m.Stride, 8, func(to, from []byte) { to[0], to[1], to[2] = from[0], from[2], from[4] })
	case *image.RGBA64:
		each(out, m.Pix, m.Stride, 8, func(to, from []byte) { to[0], to[1], to[2] = from[0], from[2], from[4] })
	case *image.CMYK:
		each(out, m.Pix, m.Stride, 4, func(to, from []byte) {
			white := 255 - int(from[3])
			for c := range 3 {
				ink := int(from[c])*white + 128
				to[c] = byte(white - (ink>>8+ink)>>8) // white·(1 − ink/255), rounded
			}
		})
	default:
		return nil, fmt.Errorf("%s image has unsupported colours (%T): convert it to 8-bit RGB", format, m)
	}
	return out, nil
}

// each calls f with each pixel of out and the size bytes of the same pixel in pix.
func each(out *Raster, pix []byte, stride, size int, f func(to, from []byte)) {
	for y := range out.Height {
		to, from := out.row(y), pix[y*stride:]
		for x := range out.Width {
			f(to[3*x:3*x+3], from[size*x:size*x+size])
		}
	}
}

// A plane is the samples of one colour component.
type plane struct {
	pix           []byte
	stride        int
	width, height int
}

// row returns row y, or the nearest row at the top and the bottom.
func (p plane) row(y int) []byte { return p.pix[min(max(y, 0), p.height-1)*p.stride:][:p.width] }

// subsampling is how many pixels one sample of chroma covers, horizontally and vertically.
var subsampling = map[image.YCbCrSubsampleRatio][2]int{
	image.YCbCrSubsampleRatio444: {1, 1}, image.YCbCrSubsampleRatio422: {2, 1}, image.YCbCrSubsampleRatio420: {2, 2},
	image.YCbCrSubsampleRatio440: {1, 2}, image.YCbCrSubsampleRatio411: {4, 1}, image.YCbCrSubsampleRatio410: {4, 2},
}

// ycbcr converts an image whose chroma may have fewer samples: chroma writes a row with a sample for each pixel of row y, and rgb
// converts a row.
func ycbcr(out *Raster, m *image.YCbCr, chroma func(to []byte, p plane, y, h, v int), rgb func(to, luma, blue, red []byte)) {
	ratio := subsampling[m.SubsampleRatio]
	h, v := ratio[0], ratio[1]
	width, height := (out.Width+h-1)/h, (out.Height+v-1)/v
	planes := [2]plane{{m.Cb, m.CStride, width, height}, {m.Cr, m.CStride, width, height}}
	blue, red := make([]byte, h*width), make([]byte, h*width)
	for y := range out.Height {
		chroma(blue, planes[0], y, h, v)
		chroma(red, planes[1], y, h, v)
		rgb(out.row(y), m.Y[y*m.YStride:][:out.Width], blue, red)
	}
}

// jpegChroma interpolates chroma linearly ("fancy upsampling"), as libjpeg-turbo does in Pillow: a sample is weighed 3 and its neighbour
// 1 along each halved axis. The roundings alternate, so that they cancel. Chroma at a quarter of the resolution and rows of one or two
// samples are repeated.
func jpegChroma(to []byte, p plane, y, h, v int) {
	near := p.row(y / v)
	last := len(near) - 1
	if h > 2 || h == 2 && last < 2 {
		for x := range to {
			to[x] = near[x/h]
		}
		return
	}
	// A column is a·near + b·far.
	far, a, b := near, 1, 0
	round, bits := [2]int{1, 2}, 2 // what is added to the first and the second pixel of a pair
	if v == 2 {
		far, a, b = p.row(y/2-1+y%2*2), 3, 1
		round, bits = [2]int{8, 7}, 4
	}
	far = far[:len(near)]
	if h == 1 {
		for x := range to {
			to[x] = byte((a*int(near[x]) + b*int(far[x]) + b*(1+y%2)) / (a + b))
		}
		return
	}
	this := a*int(near[0]) + b*int(far[0])
	before := this
	for x := range near {
		after := this
		if x < last {
			after = a*int(near[x+1]) + b*int(far[x+1])
		}
		to[2*x] = byte((3*this + before + round[0]) >> bits)
		to[2*x+1] = byte((3*this + after + round[1]) >> bits)
		before, this = this, after
	}
}

// jpegRGB converts as JFIF defines, in fixed point of 16 bits. Its constants are 1.402, 0.344136, 0.714136 and 1.772.
func jpegRGB(to, luma, blue, red []byte) {
	for x, y := range luma {
		y, cb, cr, pixel := int(y), int(blue[x])-128, int(red[x])-128, to[3*x:3*x+3]
		pixel[0] = clip(y + (91881*cr+1<<15)>>16)
		pixel[1] = clip(y + (-22554*cb-46802*cr+1<<15)>>16)
		pixel[2] = clip(y + (116130*cb+1<<15)>>16)
	}
}

// webpChroma interpolates as libwebp does in Pillow: the nearest sample is weighed 9, its neighbours in the row and the column 3, and
// the diagonal one 1, in two roundings.
func webpChroma(to []byte, p plane, y, _, _ int) {
	near, far := p.row(y/2), p.row(y/2-1+y%2*2)
	for x := range to {
		n, v := int(near[x/2]), int(far[x/2])
		beside := x/2 - 1 + x%2*2
		if beside < 0 || beside >= len(near) {
			to[x] = byte((3*n + v + 2) >> 2)
			continue
		}
		h, d := int(near[beside]), int(far[beside])
		to[x] = byte(((n+3*h+3*v+d+8)>>3 + n) >> 1)
	}
}

// webpRGB converts from the range of video, 16 to 235, in libwebp's fixed point: 1.164, 1.596, 0.392, 0.813 and 2.017 times 2¹⁴.
func webpRGB(to, luma, blue, red []byte) {
	for x, y := range luma {
		y, cb, cr, pixel := int(y)*19077>>8, int(blue[x]), int(red[x]), to[3*x:3*x+3]
		pixel[0] = clip((y + cr*26149>>8 - 14234) >> 6)
		pixel[1] = clip((y - cb*6419>>8 - cr*13320>>8 + 8708) >> 6)
		pixel[2] = clip((y + cb*33050>>8 - 17685) >> 6)
	}
}

// clip returns the nearest value of a byte.
func clip(v int) byte { return byte(min(max(v, 0), 255)) }
