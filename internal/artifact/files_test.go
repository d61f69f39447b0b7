package artifact

import (
	"archive/zip"
	"bytes"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
)

func TestFilesReadsWhatWasWritten(t *testing.T) {
	held, err := Files(written(t))
	require.NoError(t, err)
	for name, want := range files {
		got, err := fs.ReadFile(held, name)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	list, err := fs.Glob(held, "*")
	require.NoError(t, err)
	require.Equal(t, []string{"1_Pooling", "tokenizer.json"}, list)

	var b bytes.Buffer
	require.NoError(t, Write(&b, "small.onnx", 2, nil, Target{"cpu/avx512", program(t)}))
	held, err = Files(b.Bytes())
	require.NoError(t, err)
	require.Nil(t, held)
}

// TestFilesRefuses holds that archives are refused which Write does not write, and which would take more memory than the file has bytes.
func TestFilesRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		header zip.FileHeader
		raw    bool // the header's sizes are written as they are
		want   string
	}{
		{"a compressed file", zip.FileHeader{Name: "a", Method: zip.Deflate}, false, `its file "a" is compressed`},
		{"a file larger than the archive", zip.FileHeader{Name: "a", UncompressedSize64: 1 << 40, CompressedSize64: 4}, true,
			`its file "a" has 1099511627776 bytes, but 4 are stored`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b bytes.Buffer
			z := zip.NewWriter(&b)
			create := z.CreateHeader
			if c.raw {
				create = z.CreateRaw
			}
			w, err := create(&c.header)
			require.NoError(t, err)
			_, err = w.Write([]byte("text"))
			require.NoError(t, err)
			require.NoError(t, z.Close())
			_, err = readArchive(b.Bytes())
			require.EqualError(t, err, c.want)
		})
	}
	_, err := readArchive([]byte("no archive"))
	require.ErrorContains(t, err, "its files: zip: ")

	for name, spoil := range map[string]func(h *Header){
		"its files are in section 9: there are 0 to 3": func(h *Header) { h.Files = 10 },
		"its files are damaged":                        func(h *Header) { h.Sections[h.Files-1].Crc++ },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Files(forge(t, spoil))
			require.ErrorIs(t, err, ErrInvalid)
			require.ErrorContains(t, err, name)
		})
	}
	for _, name := range []string{"", ".", "/etc/passwd", "../x", "a//b"} {
		err := Write(new(bytes.Buffer), "", 0, map[string][]byte{name: nil}, Target{Graph: ir.NewGraph("g")})
		require.ErrorContains(t, err, "is not the path of a file within a folder", name)
	}
}
