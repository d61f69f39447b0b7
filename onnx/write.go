package onnx

import (
	"fmt"
	"math"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc/onnx/onnxpb"
)

// Marshal writes a model, or any other message of package onnxpb, as the bytes of a file. Equal messages give equal bytes.
// protobuf ends at 2 GiB: a larger model is an error.
func Marshal(p proto.Message) ([]byte, error) {
	if size := proto.Size(p); size > math.MaxInt32 {
		return nil, fmt.Errorf("a model of %d bytes does not fit into one protobuf file, which ends at 2 GiB", size)
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(p)
}

// Save writes a model to a file, weights and all. The file appears at once when it is complete, so that a model may be saved
// over the one that it was read from, whose mapping keeps the old contents.
func Save(path string, p *onnxpb.ModelProto) error {
	data, err := Marshal(p)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
