package imaging

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"flag"
	"fmt"
	"image"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var large = flag.String("images", "", "folder with large images, which models/scripts/images.py has written")

// recorded opens the large images, or else the small ones in testdata.
func recorded(t *testing.T) fs.FS {
	t.Helper()
	if *large != "" {
		return os.DirFS(*large)
	}
	packed, err := os.Open("testdata/images.zip.gz")
	require.NoError(t, err)
	defer packed.Close()
	unpacked, err := gzip.NewReader(packed)
	require.NoError(t, err)
	data, err := io.ReadAll(unpacked)
	require.NoError(t, err)
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	return archive
}

// sized reads a recorded array: width, height, and its bytes.
func sized(t *testing.T, folder fs.FS, name string) (width, height int, data []byte) {
	t.Helper()
	data, err := fs.ReadFile(folder, name)
	require.NoError(t, err)
	return int(binary.LittleEndian.Uint32(data)), int(binary.LittleEndian.Uint32(data[4:])), data[8:]
}

func names(t *testing.T, folder fs.FS, under string) []string {
	t.Helper()
	entries, err := fs.ReadDir(folder, under)
	require.NoError(t, err)
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = e.Name()
	}
	return out
}

func decode(t *testing.T, folder fs.FS, name string) *Raster {
	t.Helper()
	data, err := fs.ReadFile(folder, path.Join("images", name))
	require.NoError(t, err)
	h, err := ReadHeader(data, MaxPixels)
	require.NoError(t, err)
	r, err := h.Decode()
	require.NoError(t, err)
	return r
}

// apart counts by how much values differ, in steps of 1 of 255.
type apart struct {
	n, over int // values, and those more than a step apart
	most    float64
}

func (a *apart) add(d float64) {
	a.n++
	if d > 1.001 {
		a.over++
	}
	a.most = max(a.most, d)
}

// within fails if a difference is larger than most, or more than that share of the values is more than a step apart.
func (a apart) within(t *testing.T, most, share float64) {
	t.Helper()
	require.LessOrEqual(t, a.most, most+0.001, a)
	require.LessOrEqual(t, float64(a.over), float64(a.n)*share, a)
}

// Sums of cosines are rounded differently by image/jpeg and libjpeg-turbo, so that luma, chroma and black differ by at most 1. That is up
// to 1 + 1.772 steps of a colour, one more with black or where a filter sharpens, and less where it averages.
const jpegMost, jpegShare = 4, 0.04

func (a apart) String() string {
	return fmt.Sprintf("%d of %d values are more than a step apart, the largest difference is %.3f steps", a.over, a.n, a.most)
}

func TestPixelsAreThoseOfPillow(t *testing.T) {
	folder := recorded(t)
	for _, name := range names(t, folder, "images") {
		t.Run(name, func(t *testing.T) {
			width, height, want := sized(t, folder, path.Join("pixels", name))
			r := decode(t, folder, name)
			require.Equal(t, []int{width, height}, []int{r.Width, r.Height})
			var a apart
			for i, w := range want {
				a.add(math.Abs(float64(w) - float64(r.Pix[i])))
			}
			t.Log(a)
			if strings.HasPrefix(name, "jpeg-") {
				a.within(t, jpegMost, jpegShare)
			} else {
				a.within(t, 0, 0)
			}
		})
	}
}

func TestResizedPixelsEqualPillows(t *testing.T) {
	folder := recorded(t)
	w, h, pixels := sized(t, folder, "resize/source")
	source := &Raster{w, h, pixels}
	for f := Nearest; f <= Hamming; f++ {
		for _, name := range names(t, folder, fmt.Sprintf("resize/%d", f)) {
			t.Run(fmt.Sprintf("%d/%s", f, name), func(t *testing.T) {
				width, height, want := sized(t, folder, fmt.Sprintf("resize/%d/%s", f, name))
				whole := source.resize(width, height, f, image.Rect(0, 0, width, height))
				require.True(t, string(want) == string(whole.Pix))
				window := image.Rect(width/3, height/4, width-1, height)
				part := source.resize(width, height, f, window)
				for y := range part.Height {
					require.Equal(t, whole.row(window.Min.Y + y)[3*window.Min.X:3*window.Max.X], part.row(y), "row %d of a window", y)
				}
			})
		}
	}
}

func TestTensorsAreThoseOfTransformers(t *testing.T) {
	folder := recorded(t)
	rasters := map[string]*Raster{}
	for _, name := range names(t, folder, "processors") {
		under, err := fs.Sub(folder, path.Join("processors", name))
		require.NoError(t, err)
		p, err := Load(func(name string) ([]byte, error) { return fs.ReadFile(under, name) })
		require.NoError(t, err)
		for _, backend := range names(t, under, ".") {
			if strings.HasSuffix(backend, ".json") {
				continue
			}
			t.Run(name+"/"+backend, func(t *testing.T) {
				var all, jpeg, other apart
				for _, file := range names(t, under, backend) {
					width, height, want := sized(t, under, path.Join(backend, file))
					if rasters[file] == nil {
						rasters[file] = decode(t, folder, file)
					}
					r := rasters[file]
					s, err := p.Shape(r.Width, r.Height)
					require.NoError(t, err, file)
					require.Equal(t, []int{width, height}, []int{s.Width, s.Height}, file)
					got := make([]float32, s.Values())
					for i := range got { // padding is written too
						got[i] = -1
					}
					require.NoError(t, p.Float32(got, r))
					some := &other
					if path.Ext(file) == ".jpg" {
						some = &jpeg
					}
					for i, v := range got {
						step := p.values[i/(width*height)]
						want := math.Float32frombits(binary.LittleEndian.Uint32(want[4*i:]))
						d := math.Abs(float64(v)-float64(want)) / float64(step[1]-step[0])
						all.add(d)
						some.add(d)
					}
				}
				t.Log(all)
				if *large != "" && backend == "torchvision" && p.config.Resample == Nearest {
					return // it computes positions as float32, and takes the other one of two equally near pixels
				}
				jpeg.within(t, jpegMost, jpegShare)
				other.within(t, 2, 1e-5) // torchvision's weights have fewer bits than Pillow's, and round in two passes
				share := 0.001
				if name == "efficientnet" || name == "dinov3" || *large == "" {
					// Resampling to the nearest pixel averages nothing; DINOv3 is resized in floating point, without two of the
					// roundings; and most of the small images that are JPEGs grow.
					share = 0.002
				}
				require.LessOrEqual(t, float64(all.over), float64(all.n)*share, all)
			})
		}
	}
}
