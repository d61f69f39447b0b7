package imaging

import (
	"errors"
	"fmt"
	"image"
	"maps"
	"math"
	"slices"
)

func sortedNames() []string { return slices.Sorted(maps.Keys(classes)) }

// A Processor makes the tensors that a model takes. It does not change, so many goroutines may use it at once.
//
// The pixels are those of the torchvision variant of the class, which AutoImageProcessor chooses, up to a last step: torchvision resizes
// with weights of fewer bits, or in floating point, so that its pixels differ from Pillow's, which are the ones here, by up to 1 of 255.
type Processor struct {
	class  string // its name in classes; empty for a letterbox
	config config
	values [3][256]float32 // what a byte of each channel becomes
}

func newProcessor(c config) (*Processor, error) {
	s := c.Size
	switch {
	case c.DoResize && s.Shortest == 0 && (s.Height == 0 || s.Width == 0) && (s.MaxH == 0 || s.MaxW == 0):
		return nil, errors.New("size has an unsupported form: want height and width, shortest_edge, or max_height and max_width")
	case c.DoCenterCrop && (c.CropSize.Height == 0 || c.CropSize.Width == 0):
		return nil, errors.New("crop_size has no height and width")
	case c.DoPad && c.PadSize != size{} && (c.PadSize.Height == 0 || c.PadSize.Width == 0):
		return nil, errors.New("pad_size has no height and width")
	case c.Resample < Nearest || c.Resample > Hamming:
		return nil, fmt.Errorf("resample %d is unknown: want 0 to 5, as in Pillow", c.Resample)
	case c.DoNormalize && slices.Contains(c.Std[:], 0):
		return nil, errors.New("image_std contains 0")
	}
	p := &Processor{config: c}
	for ch := range p.values {
		for b := range p.values[ch] {
			v := float64(b)
			if c.DoRescale {
				v = float64(v * c.RescaleFactor) // not fused with a subtraction, which would round differently on other processors
				if c.RescaleOffset {
					v--
				}
			}
			if c.DoNormalize {
				v = (v - c.Mean[ch]) / c.Std[ch]
			}
			if c.IncludeTop {
				v /= c.Std[ch]
			}
			p.values[ch][b] = float32(v)
		}
	}
	return p, nil
}

// Class returns the name of the processor's class in transformers, such as "DetrImageProcessor"; empty for a letterbox.
func (p *Processor) Class() string { return p.class }

// A Shape is the size of the tensor of one image, [3, Height, Width]. The image occupies its first ContentHeight rows and ContentWidth
// columns, which are where a pixel mask is 1. The rest is padding and 0.
type Shape struct{ Height, Width, ContentHeight, ContentWidth int }

// Values returns the number of values in the tensor.
func (s Shape) Values() int { return 3 * s.Height * s.Width }

// Shape returns the size of the tensor of an image of width × height pixels, which may be known from a Header. It fails if the image is
// so long and narrow that it would become empty or have more than MaxPixels.
func (p *Processor) Shape(width, height int) (Shape, error) {
	l, err := p.layout(width, height)
	return l.shape, err
}

// A layout is where the pixels of an image go.
type layout struct {
	width, height int             // size of the resized image, in pixels
	window        image.Rectangle // the part of the resized image that the tensor has; it may reach beyond the image
	shape         Shape
}

func (p *Processor) layout(width, height int) (layout, error) {
	l := layout{width: width, height: height}
	if p.config.DoResize {
		l.width, l.height = p.config.resized(width, height)
	}
	l.window = image.Rect(0, 0, l.width, l.height)
	if p.config.DoCenterCrop {
		// Halves round towards the left and the top, of what is cut off as of what is added.
		crop := p.config.CropSize
		if m := p.config.stride; m > 0 {
			crop.Width, crop.Height = l.width+(crop.Width-l.width)%m, l.height+(crop.Height-l.height)%m
		}
		left, top := (l.width-crop.Width)/2, (l.height-crop.Height)/2
		l.window = image.Rect(left, top, left+crop.Width, top+crop.Height)
	}
	l.shape = Shape{l.window.Dy(), l.window.Dx(), l.window.Dy(), l.window.Dx()}
	if pad := p.config.PadSize; p.config.DoPad && pad.Height > 0 {
		if pad.Height < l.shape.Height || pad.Width < l.shape.Width {
			return l, fmt.Errorf("image of %d×%d pixels becomes %d×%d, which is more than pad_size: %d×%d", width, height,
				l.shape.Width, l.shape.Height, pad.Width, pad.Height)
		}
		l.shape.Height, l.shape.Width = pad.Height, pad.Width
	}
	switch s := l.shape; {
	case l.width < 1 || l.height < 1:
		return l, fmt.Errorf("image of %d×%d pixels is too narrow: it would be resized to %d×%d", width, height, l.width, l.height)
	case s.Width > MaxPixels/s.Height:
		return l, fmt.Errorf("image of %d×%d pixels is too narrow: it would be resized to %d×%d, and the limit is %d pixels", width, height,
			l.width, l.height, MaxPixels)
	}
	return l, nil
}

// Source returns the point of an image of width × height pixels that the tensor of the image has at (x, y). Points are in pixels from the
// upper left corner. Those of padding are outside the image. Shape must succeed for the image.
func (p *Processor) Source(width, height int, x, y float64) (sourceX, sourceY float64) {
	l, _ := p.layout(width, height)
	x, y = x+float64(l.window.Min.X), y+float64(l.window.Min.Y) // in the resized image
	return x * float64(width) / float64(l.width), y * float64(height) / float64(l.height)
}

// resized returns the size after resizing. The order of multiplications and divisions, and what is rounded down, are those of
// transformers, because a pixel more or less moves all others.
func (c *config) resized(width, height int) (w, h int) {
	s := c.Size
	switch {
	case s.Shortest > 0 && s.Longest > 0:
		w, h = c.between(width, height)
	case s.Shortest > 0:
		long := int(float64(s.Shortest*max(width, height)) / float64(min(width, height)))
		if w, h = s.Shortest, long; width > height {
			w, h = h, w
		}
	case s.MaxH > 0:
		scale := min(float64(s.MaxH)/float64(height), float64(s.MaxW)/float64(width))
		w, h = int(float64(width)*scale), int(float64(height)*scale)
		if c.letterbox {
			w, h = max(1, int(math.RoundToEven(float64(width)*scale))), max(1, int(math.RoundToEven(float64(height)*scale)))
		}
	default:
		w, h = s.Width, s.Height
	}
	if m := c.SizeDivisor; m > 0 {
		w, h = (w+m-1)/m*m, (h+m-1)/m*m
	}
	if m := c.floorMultiple; m > 0 {
		w, h = w-w%m, h-h%m
	}
	return w, h
}

// between returns the size of which the shortest edge is Size.Shortest, or the longest is Size.Longest if that is smaller.
func (c *config) between(width, height int) (w, h int) {
	short, long := float64(min(width, height)), float64(max(width, height))
	side, exact := c.Size.Shortest, float64(c.Size.Shortest)
	if long/short*float64(side) > float64(c.Size.Longest) {
		exact = float64(c.Size.Longest) * short / long
		side = int(math.RoundToEven(exact))
	}
	switch {
	case min(width, height) == side && (c.floorMultiple == 0 || height <= width): // YOLOS asks this of upright images last
		return width, height
	case width < height:
		return side, int(exact * float64(height) / float64(width))
	}
	return int(exact * float64(width) / float64(height)), side
}

// Float32 writes the tensor of an image to dst, which has Shape.Values of the image's size.
func (p *Processor) Float32(dst []float32, r *Raster) error {
	l, err := p.layout(r.Width, r.Height)
	if err != nil {
		return err
	}
	if len(dst) != l.shape.Values() {
		return fmt.Errorf("tensor of %d values for an image that has %d", len(dst), l.shape.Values())
	}
	visible := l.window.Intersect(image.Rect(0, 0, l.width, l.height))
	pixels := r.resize(l.width, l.height, p.config.Resample, visible)
	at := visible.Min.Sub(l.window.Min) // of the first pixel in the tensor
	for ch := range 3 {
		plane, from := dst[ch*l.shape.Height*l.shape.Width:][:l.shape.Height*l.shape.Width], ch
		if p.config.FlipChannels {
			from = 2 - ch
		}
		value := &p.values[ch]
		for y := range l.shape.Height {
			row := plane[y*l.shape.Width:][:l.shape.Width]
			clear(row)
			if y >= l.shape.ContentHeight {
				continue
			}
			if visible != l.window {
				for x := range l.shape.ContentWidth {
					row[x] = value[p.config.fill]
				}
			}
			if y < at.Y || y >= at.Y+pixels.Height {
				continue
			}
			row = row[at.X:][:pixels.Width]
			for x, source := 0, pixels.row(y - at.Y)[from:]; x < len(row); x++ {
				row[x] = value[source[3*x]]
			}
		}
	}
	return nil
}
