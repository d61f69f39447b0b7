package tensor

import (
	"archive/zip"
	"fmt"
	"io"
	"strings"
)

// A Named is a tensor and its name, as files of several tensors hold them in order.
type Named struct {
	Name   string
	Tensor *Tensor
}

// ReadNPZ reads NumPy's archive of arrays (.npz), in the order of the archive.
func ReadNPZ(r io.ReaderAt, size int64) ([]Named, error) {
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
		t, err := readZipped(file)
		if err != nil {
			return nil, fmt.Errorf("array %.100q: %w", name, err)
		}
		out = append(out, Named{name, t})
	}
	return out, nil
}

func readZipped(file *zip.File) (*Tensor, error) {
	r, err := file.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return ReadNPY(r)
}

// WriteNPZ writes an archive as numpy.savez does: uncompressed. Equal tensors give equal bytes.
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
