package imaging

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLetterboxesAreThoseOfUltralytics has sizes that its LetterBox gives.
func TestLetterboxesAreThoseOfUltralytics(t *testing.T) {
	for _, x := range []struct {
		width, height, boxWidth, boxHeight, stride                  int
		resizedWidth, resizedHeight, left, top, outWidth, outHeight int
	}{
		{400, 300, 320, 320, 0, 320, 240, 0, 40, 320, 320},
		{400, 300, 320, 320, 32, 320, 240, 0, 8, 320, 256},
		{300, 401, 256, 320, 0, 239, 320, 8, 0, 256, 320},
		{641, 427, 640, 640, 0, 640, 426, 0, 107, 640, 640},
		{641, 427, 640, 640, 32, 640, 426, 0, 11, 640, 448},
		{1000, 1, 64, 64, 0, 64, 1, 0, 31, 64, 64},
		{9, 7, 96, 64, 32, 82, 64, 7, 0, 96, 64},
		{6000, 4000, 640, 640, 0, 640, 427, 0, 106, 640, 640},
	} {
		t.Run(fmt.Sprintf("%dx%d in %dx%d by %d", x.width, x.height, x.boxWidth, x.boxHeight, x.stride), func(t *testing.T) {
			p, err := Letterbox(x.boxHeight, x.boxWidth, x.stride)
			require.NoError(t, err)
			l, err := p.layout(x.width, x.height)
			require.NoError(t, err)
			require.Equal(t, []int{x.resizedWidth, x.resizedHeight, -x.left, -x.top, x.outWidth, x.outHeight},
				[]int{l.width, l.height, l.window.Min.X, l.window.Min.Y, l.shape.Width, l.shape.Height})
		})
	}
	_, err := Letterbox(0, 640, 32)
	require.ErrorContains(t, err, "size of 640×0 pixels")
	_, err = Letterbox(60000, 60000, 0)
	require.ErrorContains(t, err, "size of 60000×60000 pixels")
}

// TestSourceInvertsTheGeometry compares the colours of tensors with those of the points that Source returns: red counts columns, and green
// counts rows.
func TestSourceInvertsTheGeometry(t *testing.T) {
	r := newRaster(120, 80)
	for y := range r.Height {
		for x := range r.Width {
			r.row(y)[3*x], r.row(y)[3*x+1] = byte(2*x), byte(2*y)
		}
	}
	letterbox := func(height, width, stride int) *Processor {
		p, err := Letterbox(height, width, stride)
		require.NoError(t, err)
		return p
	}
	parsed := func(settings string) *Processor {
		p, err := parse([]byte(settings), "")
		require.NoError(t, err)
		return p
	}
	for name, p := range map[string]*Processor{
		"letterbox":           letterbox(64, 64, 0),
		"letterbox by stride": letterbox(256, 256, 32),
		"upright letterbox":   letterbox(50, 300, 0),
		"crop":                parsed(as("CLIP", `"size":60,"crop_size":[40,70]`)),
		"pad":                 parsed(as("Detr", `"size":{"shortest_edge":50,"longest_edge":90},"pad_size":{"height":99,"width":97}`)),
		"squeeze":             parsed(as("RTDetr", `"size":{"height":40,"width":100}`)),
	} {
		t.Run(name, func(t *testing.T) {
			l, err := p.layout(r.Width, r.Height)
			require.NoError(t, err)
			values := make([]float32, l.shape.Values())
			require.NoError(t, p.Float32(values, r))
			compared := 0
			for y := range l.shape.Height {
				for x := range l.shape.Width {
					sx, sy := p.Source(r.Width, r.Height, float64(x)+0.5, float64(y)+0.5)
					if sx < 4 || sy < 4 || sx > float64(r.Width)-4 || sy > float64(r.Height)-4 { // filters see the edges
						continue
					}
					compared++
					at := y*l.shape.Width + x
					for ch, want := range []float64{2*sx - 1, 2*sy - 1} {
						v := values[ch*l.shape.Height*l.shape.Width+at]
						require.InDelta(t, want, (v-p.values[ch][0])/(p.values[ch][255]-p.values[ch][0])*255, 1, "%d, %d", x, y)
					}
				}
			}
			require.Greater(t, compared, 500)
			grey := p.values[0][114]
			if inside := p.config.fill != 0; inside && l.shape.Height > l.height+1 {
				require.Equal(t, grey, values[0])
				require.Equal(t, grey, values[len(values)-1])
			}
		})
	}
}
