package artifact

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"slices"
)

// pack writes files into a ZIP archive. The files are stored without compression, because a reader of compressed files has to bound what
// they unpack to, and without times, so that equal files give equal archives.
func pack(files map[string][]byte) ([]byte, error) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !fs.ValidPath(name) || name == "." {
			return nil, fmt.Errorf("%q is not the path of a file within a folder", name)
		}
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(files[name]); err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return b.Bytes(), err
}

// Files returns a copy of the files that a compiled file holds beside its programs, and nil if it holds none. It decodes no program, so
// that looking at a model's configuration is cheap. It fails with ErrInvalid.
func Files(data []byte) (fs.FS, error) {
	f, err := readFiles(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return f, nil
}

func readFiles(data []byte) (fs.FS, error) {
	h, err := readHeader(data)
	if err != nil || h.Files == 0 {
		return nil, err
	}
	s := h.Sections[h.Files-1]
	archive := bytes.Clone(data[s.Offset : s.Offset+s.Length])
	if crc32.Checksum(archive, castagnoli) != s.Crc {
		return nil, errors.New("its files are damaged: the checksum differs")
	}
	return readArchive(archive)
}

// readArchive reads an archive that pack wrote.
func readArchive(archive []byte) (fs.FS, error) {
	z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, fmt.Errorf("its files: %w", err)
	}
	for _, f := range z.File {
		if f.Method != zip.Store { // a small archive may unpack to any number of bytes
			return nil, fmt.Errorf("its file %q is compressed", f.Name)
		}
		if f.UncompressedSize64 != f.CompressedSize64 || f.CompressedSize64 > uint64(len(archive)) {
			return nil, fmt.Errorf("its file %q has %d bytes, but %d are stored", f.Name, f.UncompressedSize64, f.CompressedSize64)
		}
	}
	return z, nil
}
