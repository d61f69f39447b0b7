package conformance

import (
	"archive/tar"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// archive holds the backend node tests of the Python package onnx 1.23.2 (Apache-2.0), as testdata/generate.py writes
// them: a folder a test, with model.onnx and test_data_set_0/{input_i,output_i}.pb.
const archive = "testdata/onnx-node-1.23.2.tar.zst"

// A testCase is one node test: a model of one node, mostly, with inputs and the outputs of the reference.
type testCase struct {
	name  string
	model []byte
	files map[string][]byte // "input_0.pb", …
}

// loadCases reads them once, sorted by name.
var loadCases = sync.OnceValues(func() ([]*testCase, error) { return readCases(archive) })

func readCases(archive string) ([]*testCase, error) {
	f, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	byName := map[string]*testCase{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		parts := strings.Split(h.Name, "/") // node/test_abs/model.onnx, node/test_abs/test_data_set_0/input_0.pb
		if len(parts) < 3 {
			return nil, fmt.Errorf("%s: unexpected file %s", archive, h.Name)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		c := byName[parts[1]]
		if c == nil {
			c = &testCase{name: parts[1], files: map[string][]byte{}}
			byName[parts[1]] = c
		}
		if base := path.Base(h.Name); base == "model.onnx" {
			c.model = data
		} else {
			c.files[base] = data
		}
	}
	var cases []*testCase
	for _, c := range byName {
		cases = append(cases, c)
	}
	slices.SortFunc(cases, func(a, b *testCase) int { return strings.Compare(a.name, b.name) })
	return cases, nil
}

// values decodes the files "input_0.pb", "input_1.pb", … or those of the outputs.
func (c *testCase) values(kind string, infos []*onnxpb.ValueInfoProto) ([]*tensor.Tensor, error) {
	var out []*tensor.Tensor
	for i := 0; ; i++ {
		data, ok := c.files[fmt.Sprintf("%s_%d.pb", kind, i)]
		if !ok {
			return out, nil
		}
		decode := tensorOf
		if i < len(infos) && infos[i].GetType().GetTensorType() == nil {
			decode = sequenceOf
		}
		t, err := decode(data)
		if err != nil {
			return nil, fmt.Errorf("%s %d: %w", kind, i, err)
		}
		out = append(out, t)
	}
}

func tensorOf(data []byte) (*tensor.Tensor, error) {
	tp := new(onnxpb.TensorProto)
	if err := proto.Unmarshal(data, tp); err != nil {
		return nil, err
	}
	t, err := onnx.Tensor(tp)
	if err != nil {
		return nil, err
	}
	return t.Aligned(), nil
}

// sequenceOf reads a SequenceProto or OptionalProto of onnx-data.proto, whose fields have the same numbers: 3 for tensors,
// 5 for sequences, 7 for optionals.
func sequenceOf(data []byte) (*tensor.Tensor, error) {
	elems := []*tensor.Tensor{}
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		data = data[n:]
		if n = protowire.ConsumeFieldValue(number, kind, data); n < 0 {
			return nil, protowire.ParseError(n)
		}
		field := data[:n]
		data = data[n:]
		if decode := map[protowire.Number]func([]byte) (*tensor.Tensor, error){3: tensorOf, 5: sequenceOf,
			7: sequenceOf}[number]; decode != nil {
			value, _ := protowire.ConsumeBytes(field)
			t, err := decode(value)
			if err != nil {
				return nil, err
			}
			elems = append(elems, t)
		}
	}
	return tensor.NewSequence(elems...), nil
}
