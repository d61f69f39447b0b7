package main

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/pipeline"
)

// TestBoxesAreDrawnWhereTheyAre has a box within the image, one that reaches beyond it, and one that is all outside.
func TestBoxesAreDrawnWhereTheyAre(t *testing.T) {
	grey := image.NewGray(image.Rect(0, 0, 160, 120))
	for i := range grey.Pix {
		grey.Pix[i] = 200
	}
	var file, out bytes.Buffer
	require.NoError(t, png.Encode(&file, grey))
	require.NoError(t, drawDetections(&out, pipeline.Image{Data: file.Bytes()}, []pipeline.Detection{
		{Label: "cat", Score: 0.9, Box: [4]float32{20, 40, 100, 90}},
		{Label: "a label that is wider than the image", Score: 0.8, Box: [4]float32{-30, 100, math.MaxFloat32, 115}},
		{Label: "bird", Score: 0.7, Box: [4]float32{500, 500, 600, 600}},
	}))
	drawn, err := png.Decode(&out)
	require.NoError(t, err)
	require.Equal(t, grey.Bounds(), drawn.Bounds())
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(drawn.At(x, y)).(color.RGBA) }
	background, cat, wide := color.RGBA{200, 200, 200, 255}, at(20, 60), at(150, 100)
	require.Contains(t, boxColors, cat)
	require.Contains(t, boxColors, wide)
	for _, edge := range []image.Point{{20, 40}, {99, 60}, {60, 89}, {21, 88}} {
		require.Equal(t, cat, at(edge.X, edge.Y), edge)
	}
	for _, other := range []image.Point{{60, 60}, {18, 60}, {101, 60}, {22, 80}, {150, 50}, {158, 118}} {
		require.Equal(t, background, at(other.X, other.Y), other)
	}
	require.Equal(t, wide, at(60, 114))
	white := 0
	for y := 25; y < 40; y++ {
		for x := 20; x < 100; x++ {
			if at(x, y) == (color.RGBA{255, 255, 255, 255}) {
				white++
			}
		}
	}
	require.Greater(t, white, 60, "letters above the box")
}
