package pipeline

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/tensor"
)

// A safetensors is an open file of weights: 8 bytes that say how long the header is, a header of JSON that says where each tensor
// is stored, and the tensors (https://github.com/huggingface/safetensors, "Format").
type safetensors struct {
	*files.Mapping
	path   string
	header map[string]json.RawMessage
	data   []byte // what follows the header
}

// maxHeader is the format's own limit.
const maxHeader = 100 << 20

func openSafetensors(path string) (*safetensors, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular(): // opening a pipe would wait for a writer
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := files.Map(f)
	if err != nil {
		return nil, err
	}
	s := &safetensors{Mapping: m, path: path}
	if err := s.readHeader(m.Bytes()); err != nil {
		m.Close()
		return nil, fmt.Errorf("%s is not a safetensors file: %w", path, err)
	}
	return s, nil
}

func (s *safetensors) readHeader(file []byte) error {
	if len(file) < 8 {
		return fmt.Errorf("it has %d bytes", len(file))
	}
	length := binary.LittleEndian.Uint64(file)
	if length > maxHeader || length > uint64(len(file)-8) {
		return fmt.Errorf("its header has %d bytes, but the file has %d", length, len(file))
	}
	s.data = file[8+length:]
	return json.Unmarshal(file[8:8+length], &s.header)
}

// floats copies a tensor of the given shape as float32.
func (s *safetensors) floats(name string, shape ...int) ([]float32, error) {
	var t struct {
		DType   string   `json:"dtype"`
		Shape   []int    `json:"shape"`
		Offsets []uint64 `json:"data_offsets"`
	}
	raw, ok := s.header[name]
	if !ok {
		return nil, fmt.Errorf("%s has no tensor %q", s.path, name)
	}
	if err := json.Unmarshal(raw, &t); err != nil {
		return nil, fmt.Errorf("%s: tensor %q: %w", s.path, name, err)
	}
	d, ok := floatTypes[t.DType]
	n := 1
	for _, size := range shape {
		n *= size
	}
	switch {
	case !ok:
		return nil, fmt.Errorf("%s: tensor %q is %s: want one of %v", s.path, name, t.DType, sortedKeys(floatTypes))
	case fmt.Sprint(t.Shape) != fmt.Sprint(shape):
		return nil, fmt.Errorf("%s: tensor %q has the shape %v: the configuration requires %v", s.path, name, t.Shape, shape)
	case len(t.Offsets) != 2 || t.Offsets[0] > t.Offsets[1] || t.Offsets[1] > uint64(len(s.data)) ||
		t.Offsets[1]-t.Offsets[0] != uint64(d.Bytes(n)):
		return nil, fmt.Errorf("%s: tensor %q needs %d bytes, but its range is %v of %d", s.path, name, d.Bytes(n), t.Offsets, len(s.data))
	}
	data := s.data[t.Offsets[0]:t.Offsets[1]]
	out := make([]float32, n)
	if d == tensor.F32 {
		for i := range out {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
		return out, nil
	}
	from, err := tensor.FromBytes(d, tensor.Shape{n}, data)
	if err != nil {
		return nil, err
	}
	for i := range out {
		out[i] = float32(from.Float64(i))
	}
	return out, nil
}

// floatTypes are the types of weights.
var floatTypes = map[string]tensor.DType{"F32": tensor.F32, "F16": tensor.F16, "BF16": tensor.BF16, "F64": tensor.F64}
