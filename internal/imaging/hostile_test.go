package imaging

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/jpeg"
	"image/png"
	"io"
	"io/fs"
	"math/rand/v2"
	"path"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// damaged returns a changed copy of a file: overwritten numbers and bytes, parts that are missing, repeated or exchanged.
func damaged(file []byte, rng *rand.Rand) []byte {
	out := bytes.Clone(file)
	for range 1 + rng.IntN(3) {
		if len(out) < 8 {
			return out
		}
		at := rng.IntN(len(out) - 4)
		if rng.IntN(2) == 0 {
			at = rng.IntN(min(len(out)-4, 64)) // headers
		}
		end := at + rng.IntN(min(len(out)-at, 64))
		switch rng.IntN(7) {
		case 0:
			out[at] ^= 1 << rng.IntN(8)
		case 1:
			out[at] = byte(rng.Uint32())
		case 2:
			binary.BigEndian.PutUint32(out[at:], []uint32{0, 1, 0xffff, 0x7fffffff, 0xffffffff}[rng.IntN(5)])
		case 3:
			binary.LittleEndian.PutUint32(out[at:], rng.Uint32()>>rng.IntN(32))
		case 4:
			out = out[:at]
		case 5:
			out = append(out[:end:end], out[at:]...)
		case 6:
			out = append(out[:at:at], out[end:]...)
		}
	}
	return out
}

// TestDamagedImagesFailWithOneError holds that each of 3,000 damaged files gives an image of its header's size or one line of error, and
// that decoding holds no more memory than the header announced.
func TestDamagedImagesFailWithOneError(t *testing.T) {
	folder, limit := recorded(t), 1<<18
	if *large != "" {
		limit = 1 << 22
	}
	all, read := 0, 0
	for i, name := range names(t, folder, "images") {
		file, err := fs.ReadFile(folder, path.Join("images", name))
		require.NoError(t, err)
		for seed := range 50 {
			all++
			bad := damaged(file, rand.New(rand.NewPCG(uint64(i), uint64(seed))))
			at := fmt.Sprintf("%s, seed %d", name, seed)
			h, err := ReadHeader(bad, limit)
			if err == nil {
				var r *Raster
				before := allocated()
				r, err = h.Decode()
				require.LessOrEqual(t, allocated()-before, h.Memory()+4*int64(len(bad)), "%s: %d×%d", at, h.Width, h.Height)
				if err == nil {
					read++
					require.Len(t, r.Pix, 3*h.Width*h.Height, at)
				}
			}
			if err != nil {
				require.NotContains(t, err.Error(), "\n", at)
				require.Regexp(t, "image", err.Error(), at)
			}
		}
	}
	t.Logf("%d damaged files, of which %d are read", all, read)
	require.GreaterOrEqual(t, all, 3000)
	require.Positive(t, read, "no damage was small enough to be read")
}

// TestMemoryIsThatOfDecoding holds Header.Memory to what decoding allocates: at least that, and at most twice as much. Photos in a request
// are refused by it.
func TestMemoryIsThatOfDecoding(t *testing.T) {
	const side = 1500
	at := image.Rect(0, 0, side, side)
	encode := func(f func(w io.Writer) error) []byte {
		var b bytes.Buffer
		require.NoError(t, f(&b))
		return b.Bytes()
	}
	baseline := encode(func(w io.Writer) error { return jpeg.Encode(w, image.NewRGBA(at), nil) })
	enlarged := func(name string) []byte {
		file, err := fs.ReadFile(recorded(t), name)
		require.NoError(t, err)
		frame := bytes.Index(file, []byte("\xff\xc0"))
		if frame < 0 {
			frame = bytes.Index(file, []byte("\xff\xc2"))
		}
		binary.BigEndian.PutUint16(file[frame+5:], side)
		binary.BigEndian.PutUint16(file[frame+7:], side)
		return file
	}
	exif := "\xff\xe1\x00\x22Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00\x00\x00\x00\x00"
	for name, file := range map[string][]byte{
		"JPEG":       baseline,
		"JPEG grey":  encode(func(w io.Writer) error { return jpeg.Encode(w, image.NewGray(at), nil) }),
		"JPEG aside": slices.Concat(baseline[:2], []byte(exif), baseline[2:]),
		"PNG":        encode(func(w io.Writer) error { return png.Encode(w, image.NewNRGBA(at)) }),
		"PNG 16 bit": encode(func(w io.Writer) error { return png.Encode(w, image.NewNRGBA64(at)) }),
		// Recorded files whose headers get the size. They end early, after decoding has taken its memory.
		"JPEG 4:4:4":       enlarged("images/jpeg-444.jpg"),
		"JPEG progressive": enlarged("images/jpeg-progressive.jpg"),
	} {
		t.Run(name, func(t *testing.T) {
			h, err := ReadHeader(file, MaxPixels)
			require.NoError(t, err)
			before := allocated()
			_, err = h.Decode()
			took := allocated() - before
			if err != nil {
				took += 3 * side * side // the raster
			}
			require.LessOrEqual(t, took, h.Memory())
			require.LessOrEqual(t, h.Memory(), 2*took)
		})
	}
}

// allocated returns the bytes that the process has ever allocated, which is at least what it held at once.
func allocated() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.TotalAlloc)
}

func TestBombsFailBeforeDecoding(t *testing.T) {
	folder := recorded(t)
	for _, x := range []struct {
		file string
		at   string // what comes before the two sizes
		size []byte
	}{
		{"png-rgb.png", "IHDR", []byte{0, 1, 0, 0, 0, 1, 0, 0}},
		{"png-alpha.png", "IHDR", []byte{0, 1, 0, 0, 0, 0, 0, 1}},
		{"jpeg-444.jpg", "\xff\xc0\x00\x11\x08", []byte{0xff, 0xff, 0xff, 0xff}},
		{"jpeg-progressive.jpg", "\xff\xc2\x00\x11\x08", []byte{0xff, 0xff, 0xff, 0xff}},
		{"gif.gif", "GIF87a", []byte{0xff, 0xff, 0xff, 0xff}},
		{"webp.webp", "\x9d\x01\x2a", []byte{0xff, 0x3f, 0xff, 0x3f}},
		{"webp-lossless.webp", "\x2f", []byte{0xff, 0xff, 0xff, 0x0f}},
		{"webp-alpha.webp", "VP8X\x0a\x00\x00\x00\x10\x00\x00\x00", []byte{0xff, 0x7f, 0, 0xff, 0x7f, 0}},
		{"bmp-rgb.bmp", "\x28\x00\x00\x00", []byte{0xff, 0xff, 0xff, 0, 0xff, 0xff, 0, 0}},
		{"tiff.tif", "\x00\x01\x04\x00\x01\x00\x00\x00", []byte{0xff, 0xff, 0xff, 0x0f}},
	} {
		t.Run(x.file, func(t *testing.T) {
			file, err := fs.ReadFile(folder, path.Join("images", x.file))
			require.NoError(t, err)
			at := bytes.Index(file, []byte(x.at))
			require.Positive(t, at+1)
			copy(file[at+len(x.at):], x.size)
			if x.at == "IHDR" {
				binary.BigEndian.PutUint32(file[29:], crc32.ChecksumIEEE(file[12:29]))
			}
			before := allocated()
			_, err = ReadHeader(file, MaxPixels)
			require.ErrorContains(t, err, "too large")
			require.Less(t, allocated()-before, int64(1<<20))
		})
	}
	_, err := ReadHeader([]byte("%PDF-1.7"), MaxPixels)
	require.EqualError(t, err, "not an image that can be read: want JPEG, PNG, GIF, WebP, BMP or TIFF")
	file, err := fs.ReadFile(folder, "images/png-rgb.png")
	require.NoError(t, err)
	h, err := ReadHeader(file, MaxPixels)
	require.NoError(t, err)
	_, err = ReadHeader(file, h.Width*h.Height-1)
	require.ErrorContains(t, err, fmt.Sprintf("%d×%d", h.Width, h.Height))
	require.False(t, strings.Contains(err.Error(), "\n"))
}
