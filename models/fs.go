package models

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
	"testing/fstest"

	"github.com/rlxc/rlxc/onnx"
)

// recorded holds what onnxruntime answered for built-in models: folders test_data_set_N as ONNX's own tests have them, with
// input_i.pb and output_i.pb in the order of the graph. scripts/record.py wrote them.
//
//go:embed recorded/*/*/*.pb
var recorded embed.FS

// FS is a folder with the model of a name: model.onnx, and its data sets where there are recorded ones (bert-tiny).
func FS(name string) (fs.FS, error) {
	c, ok := Lookup(name)
	if !ok {
		return nil, fmt.Errorf("there is no built-in model %s; there are %s", onnx.Quote(name), strings.Join(Names(), ", "))
	}
	m, err := Build(c)
	if err != nil {
		return nil, err
	}
	data, err := onnx.Marshal(m)
	if err != nil {
		return nil, err
	}
	folder := fstest.MapFS{"model.onnx": {Data: data}} // the standard library's file system in memory
	root := "recorded/" + name + "/"
	files, err := fs.Glob(recorded, root+"*/*.pb") // none for a model without data sets
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		content, err := recorded.ReadFile(file)
		if err != nil {
			return nil, err
		}
		folder[strings.TrimPrefix(file, root)] = &fstest.MapFile{Data: content}
	}
	return folder, nil
}
