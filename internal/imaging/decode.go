// Package imaging turns image files into the tensors that vision models take, as the image processors of transformers do.
//
//	header, err := imaging.ReadHeader(file, imaging.MaxPixels) // sizes, before anything is decoded
//	raster, err := header.Decode()                             // upright 8-bit RGB
//	shape, err := processor.Shape(header.Width, header.Height) // of the tensor
//	err = processor.Float32(tensor, raster)                    // [3, height, width]
//
// decode.go reads files and upright.go their orientation. color.go converts what the decoders return to RGB with Pillow's arithmetic.
// resize.go resamples with Pillow's. config.go reads a model's files, and processor.go makes the tensors that they describe.
package imaging

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"

	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"
	"golang.org/x/image/webp"
)

const (
	// MaxPixels is the usual limit on the pixels of an image. Above the same number Pillow warns of a decompression bomb.
	MaxPixels = 1 << 30 / 4 / 3
	// maxSide bounds width and height, because tables of a resize are as long as a side. It is JPEG's own limit.
	maxSide = 1<<16 - 1
)

// A Raster is an 8-bit RGB image, the way up in which people see it.
type Raster struct {
	Width, Height int
	Pix           []byte // [Height, Width, 3]
}

func newRaster(width, height int) *Raster {
	return &Raster{width, height, make([]byte, 3*width*height)}
}

// row returns the pixels of row y, [Width, 3].
func (r *Raster) row(y int) []byte { return r.Pix[3*r.Width*y:][:3*r.Width] }

// A format is a row of the table of file formats.
type format struct {
	name        string
	magic       string // first bytes of a file; "?" stands for any byte
	config      func(io.Reader) (image.Config, error)
	decode      func(io.Reader) (image.Image, error)
	orientation func(file []byte) int // 1 to 8 as in EXIF; nil where files have none
	// memory returns the most bytes per pixel that decode holds at once.
	memory func(file []byte, c image.Config) float64
}

var formats = []format{
	{"JPEG", "\xff\xd8\xff", jpeg.DecodeConfig, jpeg.Decode, jpegOrientation, jpegMemory},
	{"PNG", "\x89PNG\r\n\x1a\n", png.DecodeConfig, png.Decode, pngOrientation, pngMemory},
	{"GIF", "GIF87a", gif.DecodeConfig, decodeGIF, nil, always(2)},
	{"GIF", "GIF89a", gif.DecodeConfig, decodeGIF, nil, always(2)},
	{"WebP", "RIFF????WEBPVP8", webp.DecodeConfig, webp.Decode, webpOrientation, always(3 * 4)},
	{"BMP", "BM", bmp.DecodeConfig, bmp.Decode, nil, always(4)},
	{"TIFF", "II*\x00", tiff.DecodeConfig, tiff.Decode, tiffOrientation, always(2 * 8)},
	{"TIFF", "MM\x00*", tiff.DecodeConfig, tiff.Decode, tiffOrientation, always(2 * 8)},
}

func always(bytes float64) func([]byte, image.Config) float64 {
	return func([]byte, image.Config) float64 { return bytes }
}

// pngMemory counts an image of 4 or 8 bytes per pixel, which has fewer only with a palette or grey. An interlaced image needs another for
// its passes.
func pngMemory(file []byte, c image.Config) float64 {
	bytes := 4.0
	switch c.ColorModel {
	case color.Gray16Model, color.RGBA64Model, color.NRGBA64Model:
		bytes = 8
	}
	const interlaced = 28 // offset of the flag in the file
	if len(file) > interlaced && file[interlaced] == 0 {
		return bytes
	}
	return 2 * bytes
}

// jpegMemory counts the samples of the frame: 1.5 per pixel if the chroma is halved in both axes, 3 if it is whole. Progressive files need
// 4 more bytes per sample. CMYK, and RGB as Adobe stores it, need 4 more bytes per pixel.
func jpegMemory(file []byte, c image.Config) float64 {
	most := 4 + 4*4 + 4.0
	found := most
	jpegSegments(file, func(marker byte, content []byte) bool {
		if marker > 0xc2 { // no frame that jpeg.Decode reads
			return true
		}
		if len(content) < 6 || len(content) != 6+3*int(content[5]) {
			return false
		}
		samples, largest := 0, 1
		for i := 7; i < len(content); i += 3 {
			n := int(content[i]>>4) * int(content[i]&15)
			samples, largest = samples+n, max(largest, n)
		}
		found = float64(samples) / float64(largest)
		if marker == 0xc2 {
			found *= 5
		}
		if c.ColorModel == color.CMYKModel || c.ColorModel == color.RGBAModel || bytes.Contains(file, []byte("Adobe")) {
			found += 4
		}
		return false
	})
	return min(found, most)
}

// A Header is what an image file states before its pixels are decoded.
type Header struct {
	Format        string // such as "JPEG"
	Width, Height int    // size of the upright image, in pixels
	file          []byte
	format        *format
	orientation   int // EXIF's tag, 1 to 8
	memory        int64
}

// ReadHeader reads the beginning of an image file in memory. It fails if the format is none of JPEG, PNG, GIF, WebP, BMP and TIFF, and
// if the image has more than limit pixels. The header refers to file, which must not change until Decode has returned.
func ReadHeader(file []byte, limit int) (*Header, error) {
	h := &Header{file: file}
	for i := range formats {
		if hasMagic(file, formats[i].magic) {
			h.format = &formats[i]
		}
	}
	if h.format == nil {
		return nil, fmt.Errorf("not an image that can be read: want JPEG, PNG, GIF, WebP, BMP or TIFF")
	}
	h.Format = h.format.name
	c, err := h.format.config(bytes.NewReader(file))
	if err != nil {
		return nil, fmt.Errorf("damaged or unsupported %s image: %w", h.Format, err)
	}
	h.Width, h.Height = c.Width, c.Height
	if h.Width < 1 || h.Height < 1 {
		return nil, fmt.Errorf("%s image of %d×%d pixels is empty", h.Format, h.Width, h.Height)
	}
	if max(h.Width, h.Height) > maxSide || h.Width > limit/h.Height {
		return nil, fmt.Errorf("%s image of %d×%d pixels is too large: want at most %d pixels, and %d on a side: scale it down first",
			h.Format, h.Width, h.Height, limit, maxSide)
	}
	h.orientation = 1
	if h.format.orientation != nil {
		h.orientation = h.format.orientation(file)
	}
	// Decoders round sides up to whole blocks of at most 32 pixels. Rasters have 3 bytes per pixel. Another is made to turn an image.
	h.memory = int64(h.format.memory(file, c)*float64(h.Width+31)*float64(h.Height+31)) + 3*int64(h.Width)*int64(h.Height) + 1<<20
	if turns[h.orientation] != (turn{}) {
		h.memory += 3 * int64(h.Width) * int64(h.Height)
	}
	if turns[h.orientation].transpose {
		h.Width, h.Height = h.Height, h.Width
	}
	return h, nil
}

func hasMagic(file []byte, magic string) bool {
	if len(file) < len(magic) {
		return false
	}
	for i := range magic {
		if magic[i] != '?' && magic[i] != file[i] {
			return false
		}
	}
	return true
}

// Memory returns the most bytes that Decode holds at once, the raster included.
func (h *Header) Memory() int64 { return h.memory }

// Decode decodes the image, of an animation the first frame, and turns it upright. Its pixels are those of Pillow's convert("RGB"):
// transparency is dropped, the upper byte of 16-bit colours is taken, and 16-bit grey is clipped at 255.
func (h *Header) Decode() (*Raster, error) {
	m, err := h.format.decode(bytes.NewReader(h.file))
	if err != nil {
		return nil, fmt.Errorf("damaged or unsupported %s image of %d×%d pixels: %w", h.Format, h.Width, h.Height, err)
	}
	r, err := toRGB(m, h.Format)
	if err != nil {
		return nil, err
	}
	r = r.turn(turns[h.orientation])
	if r.Width != h.Width || r.Height != h.Height {
		return nil, fmt.Errorf("damaged %s image: %d×%d pixels where its header has %d×%d", h.Format, r.Width, r.Height, h.Width, h.Height)
	}
	return r, nil
}

// decodeGIF decodes the first frame onto the whole screen. Like Pillow it fills what the frame leaves free with the transparent colour,
// or else with colour 0, and keeps the RGB of the transparent colour, which image/gif replaces by black. So the flag of transparency is
// cleared in a copy of the blocks before the frame.
func decodeGIF(r io.Reader) (image.Image, error) {
	file, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	control, width, height := gifControl(file)
	fill := byte(0)
	if control > 0 && file[control]&1 != 0 {
		fill = file[control+3]
		head := bytes.Clone(file[:control+1])
		head[control] &^= 1
		r = io.MultiReader(bytes.NewReader(head), bytes.NewReader(file[control+1:]))
	} else {
		r = bytes.NewReader(file)
	}
	m, err := gif.Decode(r)
	if err != nil {
		return nil, err
	}
	frame, ok := m.(*image.Paletted)
	if !ok {
		return nil, fmt.Errorf("frame without a palette")
	}
	screen := image.NewPaletted(image.Rect(0, 0, width, height), frame.Palette)
	for i := range screen.Pix {
		screen.Pix[i] = fill
	}
	b := frame.Bounds().Intersect(screen.Rect)
	for y := b.Min.Y; y < b.Max.Y; y++ {
		copy(screen.Pix[screen.PixOffset(b.Min.X, y):][:b.Dx()], frame.Pix[frame.PixOffset(b.Min.X, y):])
	}
	return screen, nil
}

// gifControl returns the size of a GIF's screen and the offset of the flags in the graphic control extension of the first frame. The
// offset is 0 if the frame has none.
func gifControl(file []byte) (control, width, height int) {
	if len(file) < 13 {
		return 0, 0, 0
	}
	width, height = int(file[6])|int(file[7])<<8, int(file[8])|int(file[9])<<8
	at := 13
	if flags := file[10]; flags&0x80 != 0 {
		at += 3 << (flags&7 + 1)
	}
	for at+8 <= len(file) && file[at] == 0x21 { // extensions, until the image
		if file[at+1] == 0xf9 {
			control = at + 3
		}
		for at += 2; at < len(file) && file[at] != 0; at += 1 + int(file[at]) {
		}
		at++
	}
	return control, width, height
}
