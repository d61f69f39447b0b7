package tensor

import (
	"archive/zip"
	"fmt"
	"io"
	"strings"
	"unsafe"
)

// A Named is a tensor and its name, in files of several tensors.
type Named struct {
	Name   string
	Tensor *Tensor
}

// ReadNPZ reads NumPy's archive of arrays (.npz), in the order of the archive. It fails if the arrays take more than limit bytes of
// memory together, because a few megabytes of an archive may unpack to gigabytes.
func ReadNPZ(r io.ReaderAt, size, limit int64) ([]Named, error) {
	archive, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fmt.Errorf("not a .npz file: %w", err)
	}
	var out []Named
	for _, file := range archive.File {
		name, ok := strings.CutSuffix(file.Name, ".npy")
		if !ok {
			return nil, fmt.Errorf("not a .npz file: it holds %.100q", file.Name)
		}
		t, err := readZipped(file, limit)
		if err != nil {
			return nil, fmt.Errorf("array %.100q: %w", name, err)
		}
		limit -= t.memory()
		out = append(out, Named{name, t})
	}
	return out, nil
}

func readZipped(file *zip.File, limit int64) (*Tensor, error) {
	r, err := file.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return ReadNPY(r, limit)
}

// memory is the number of bytes that the elements take.
func (t *Tensor) memory() int64 {
	n := int64(len(t.data)) + int64(len(t.strs))*int64(unsafe.Sizeof(""))
	for _, s := range t.strs {
		n += int64(len(s))
	}
	return n
}

// WriteNPZ writes an archive as numpy.savez does: uncompressed. Equal tensors give equal bytes. It fails as WriteNPY does.
func WriteNPZ(w io.Writer, tensors []Named) error {
	archive := zip.NewWriter(w)
	for _, named := range tensors {
		f, err := archive.CreateHeader(&zip.FileHeader{Name: named.Name + ".npy", Method: zip.Store})
		if err != nil {
			return err
		}
		if err := WriteNPY(f, named.Tensor); err != nil {
			return fmt.Errorf("array %.100q: %w", named.Name, err)
		}
	}
	return archive.Close()
}
