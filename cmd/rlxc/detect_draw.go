package main

import (
	"fmt"
	"hash/fnv"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"

	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"

	"github.com/rlxc/rlxc/internal/imaging"
	"github.com/rlxc/rlxc/pipeline"
)

// boxColors are dark enough for white text. A label has the same colour in all images.
var boxColors = []color.RGBA{{214, 39, 40, 255}, {31, 119, 180, 255}, {0, 122, 61, 255}, {148, 60, 189, 255}, {168, 82, 0, 255},
	{0, 118, 127, 255}, {190, 24, 110, 255}, {84, 84, 84, 255}}

// drawDetections writes the upright image as PNG, with a box and a label for each object, the best on top.
func drawDetections(w io.Writer, file pipeline.Image, found []pipeline.Detection) error {
	header, err := imaging.ReadHeader(file.Data, imaging.MaxPixels)
	if err != nil {
		return err
	}
	raster, err := header.Decode()
	if err != nil {
		return err
	}
	bounds := image.Rect(0, 0, raster.Width, raster.Height)
	picture := image.NewRGBA(bounds)
	for i := range raster.Width * raster.Height {
		copy(picture.Pix[4*i:], raster.Pix[3*i:3*i+3])
		picture.Pix[4*i+3] = 255
	}
	scale := max(1, max(raster.Width, raster.Height)/700) // lines and letters are as large on a screen for any photo
	for i := len(found) - 1; i >= 0; i-- {
		d := found[i]
		hash := fnv.New32()
		hash.Write([]byte(d.Label))
		ink := image.NewUniform(boxColors[hash.Sum32()%uint32(len(boxColors))])
		corner := func(k int) image.Point { // a box may reach beyond the image by any length
			limit := func(v float32, most int) int { return int(min(max(math.Round(float64(v)), -1e6), float64(most)+1e6)) }
			return image.Pt(limit(d.Box[k], raster.Width), limit(d.Box[k+1], raster.Height))
		}
		box := image.Rectangle{Min: corner(0), Max: corner(2)}
		if !box.Overlaps(bounds) {
			continue
		}
		inner := box.Inset(2 * scale)
		for _, side := range []image.Rectangle{
			{box.Min, image.Pt(box.Max.X, inner.Min.Y)}, {image.Pt(box.Min.X, inner.Max.Y), box.Max},
			{box.Min, image.Pt(inner.Min.X, box.Max.Y)}, {image.Pt(inner.Max.X, box.Min.Y), box.Max},
		} {
			draw.Draw(picture, side.Intersect(bounds), ink, image.Point{}, draw.Src)
		}
		drawLabel(picture, box.Min, ink, scale, d)
	}
	return png.Encode(w, picture)
}

// drawLabel writes the label and the score of an object above its box, and within the image. Letters are whole multiples of a bitmap font.
func drawLabel(picture *image.RGBA, at image.Point, ink image.Image, scale int, d pipeline.Detection) {
	text, face := fmt.Sprintf("%s %.2f", d.Label, d.Score), basicfont.Face7x13
	letters := image.NewAlpha(image.Rect(0, 0, font.MeasureString(face, text).Ceil()+4, face.Height+2))
	drawer := font.Drawer{Dst: letters, Src: image.Opaque, Face: face, Dot: fixed.P(2, face.Ascent+1)}
	drawer.DrawString(text)
	size := letters.Bounds().Size().Mul(scale)
	most := picture.Bounds().Max.Sub(size)
	at.X, at.Y = max(0, min(at.X, most.X)), max(0, min(at.Y-size.Y, most.Y))
	plate := image.Rectangle{Min: at, Max: at.Add(size)}.Intersect(picture.Bounds())
	draw.Draw(picture, plate, ink, image.Point{}, draw.Src)
	for y := plate.Min.Y; y < plate.Max.Y; y++ {
		for x := plate.Min.X; x < plate.Max.X; x++ {
			if letters.AlphaAt((x-at.X)/scale, (y-at.Y)/scale).A > 127 {
				picture.SetRGBA(x, y, color.RGBA{255, 255, 255, 255})
			}
		}
	}
}
