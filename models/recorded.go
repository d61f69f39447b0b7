package models

import (
	"cmp"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// Sets lists the folders test_data_set_N beside a model, in the order of their numbers. Each holds the inputs and the outputs of a run.
func Sets(folder fs.FS) ([]string, error) {
	sets, err := fs.Glob(folder, "test_data_set_*")
	slices.SortFunc(sets, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return sets, err
}

// maxRecorded bounds a file of a set: protobuf ends there.
const maxRecorded = math.MaxInt32

// ReadSet reads the files kind_0.pb, kind_1.pb, … of a set, where kind is "input" or "output", as the values that a graph
// declares; without a type they are tensors.
func ReadSet(folder fs.FS, set, kind string, declared []*onnxpb.ValueInfoProto) (map[string]*tensor.Tensor, error) {
	out := map[string]*tensor.Tensor{}
	for i, info := range declared {
		file := path.Join(set, fmt.Sprintf("%s_%d.pb", kind, i))
		data, err := files.System{FS: folder}.ReadFile(file, maxRecorded)
		if err != nil {
			return nil, fmt.Errorf("recorded %s %q: %w", kind, info.Name, err)
		}
		v, err := onnx.ParseValue(data, info.Type)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out[info.Name] = v.Whole().Aligned() // the file puts it anywhere
	}
	return out, nil
}

// Named declares values of these names without types.
func Named(names []string) []*onnxpb.ValueInfoProto {
	out := make([]*onnxpb.ValueInfoProto, len(names))
	for i, name := range names {
		out[i] = &onnxpb.ValueInfoProto{Name: name}
	}
	return out
}
