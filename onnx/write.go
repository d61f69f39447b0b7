package onnx

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/onnx/onnxpb"
)

// maxFile is the size at which protobuf ends. Tests lower it.
var maxFile = math.MaxInt32

// Marshal returns a model, or any other message of package onnxpb, as the bytes of a file. Equal messages give equal bytes. It fails for
// a model of more than 2 GiB, the limit of protobuf.
func Marshal(p proto.Message) ([]byte, error) {
	if size := proto.Size(p); size > maxFile {
		return nil, fmt.Errorf("a model of %d bytes does not fit into one protobuf file, which ends at 2 GiB", size)
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(p)
}

// Save writes a model to a file. A model above 2 GiB has its weights in a second file beside it, "F.data". Files appear when
// they are complete: files.ReplaceFile. It fails with an error of the file system, or if the model without its weights is
// above 2 GiB.
func Save(path string, p *onnxpb.ModelProto) error {
	if proto.Size(p) > maxFile {
		var err error
		if p, err = saveWeights(path+".data", p); err != nil {
			return err
		}
	}
	data, err := Marshal(p)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return files.ReplaceFile(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// Weights below externalSize bytes stay in the model's file. externalAlign suits every element and vector load.
const externalSize, externalAlign = 1 << 10, 64

// saveWeights writes the large initializers of a model to a file and returns the model that names it.
func saveWeights(path string, p *onnxpb.ModelProto) (*onnxpb.ModelProto, error) {
	p = Shallow(p)
	p.Graph = Shallow(p.Graph)
	p.Graph.Initializer = append([]*onnxpb.TensorProto{}, p.Graph.Initializer...)
	return p, files.ReplaceFile(path, func(w io.Writer) error {
		to, offset := bufio.NewWriterSize(w, 1<<20), 0
		for i, tp := range p.Graph.Initializer {
			t, err := Tensor(tp)
			if err != nil {
				return err
			}
			if len(t.Bytes()) < externalSize {
				continue
			}
			gap := -offset & (externalAlign - 1)
			to.Write(make([]byte, gap))
			to.Write(t.Bytes()) // an error stays until Flush
			offset += gap
			p.Graph.Initializer[i] = &onnxpb.TensorProto{
				Name: tp.Name, DataType: tp.DataType, Dims: tp.Dims, DocString: tp.DocString, DataLocation: onnxpb.TensorProto_EXTERNAL,
				ExternalData: []*onnxpb.StringStringEntryProto{
					{Key: "location", Value: filepath.Base(path)},
					{Key: "offset", Value: strconv.Itoa(offset)},
					{Key: "length", Value: strconv.Itoa(len(t.Bytes()))},
				},
			}
			offset += len(t.Bytes())
		}
		return to.Flush()
	})
}

// Shallow copies a message and shares what it holds.
func Shallow[M proto.Message](m M) M {
	from := m.ProtoReflect()
	to := from.New()
	from.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		to.Set(f, v)
		return true
	})
	return to.Interface().(M)
}
