package models

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/tensor"
)

// Sets lists the folders test_data_set_N beside a model, which hold what a run was given and what it answered, in order of their
// numbers.
func Sets(folder fs.FS) ([]string, error) {
	sets, err := fs.Glob(folder, "test_data_set_*")
	slices.SortFunc(sets, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return sets, err
}

// ReadSet reads the files kind_0.pb, kind_1.pb, … of a set, where kind is "input" or "output", as the tensors of these names.
func ReadSet(folder fs.FS, set, kind string, names []string) (map[string]*tensor.Tensor, error) {
	out := map[string]*tensor.Tensor{}
	for i, name := range names {
		file := path.Join(set, fmt.Sprintf("%s_%d.pb", kind, i))
		data, err := fs.ReadFile(folder, file)
		if err != nil {
			return nil, fmt.Errorf("recorded %s %q: %w", kind, name, err)
		}
		v, err := onnx.ParseValue(data, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out[name] = v.Tensor.Aligned() // the file puts it anywhere
	}
	return out, nil
}
