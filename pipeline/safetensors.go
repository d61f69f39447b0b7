package pipeline

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"

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

func openSafetensors(system files.System, path string) (*safetensors, error) {
	m, err := system.Map(path)
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

// A stored is a tensor in a file: its type, its shape, and the range of its bytes in safetensors.data.
type stored struct {
	dtype      tensor.DType
	shape      tensor.Shape
	begin, end uint64
}

// find returns where a tensor is. It fails if the file has no such tensor, or one whose type is unknown or whose range is wrong.
func (s *safetensors) find(name string) (t stored, err error) {
	var h struct {
		DType   string       `json:"dtype"`
		Shape   tensor.Shape `json:"shape"`
		Offsets []uint64     `json:"data_offsets"`
	}
	raw, ok := s.header[name]
	if !ok {
		return t, fmt.Errorf("%s has no tensor %q", s.path, name)
	}
	if err := json.Unmarshal(raw, &h); err != nil {
		return t, fmt.Errorf("%s: tensor %q: %w", s.path, name, err)
	}
	if t.dtype, ok = storedTypes[h.DType]; !ok {
		return t, fmt.Errorf("%s: tensor %q is %s: want one of %v", s.path, name, h.DType, sortedKeys(storedTypes))
	}
	if slices.ContainsFunc(h.Shape, func(n int) bool { return n < 0 }) {
		return t, fmt.Errorf("%s: tensor %q has the shape %v", s.path, name, h.Shape)
	}
	n, err := h.Shape.CheckElements(t.dtype)
	if err != nil {
		return t, fmt.Errorf("%s: tensor %q: %w", s.path, name, err)
	}
	if len(h.Offsets) != 2 || h.Offsets[0] > h.Offsets[1] || h.Offsets[1] > uint64(len(s.data)) ||
		h.Offsets[1]-h.Offsets[0] != uint64(t.dtype.Bytes(n)) {
		return t, fmt.Errorf("%s: tensor %q needs %d bytes, but its range is %v of %d", s.path, name, t.dtype.Bytes(n), h.Offsets,
			len(s.data))
	}
	t.shape, t.begin, t.end = h.Shape, h.Offsets[0], h.Offsets[1]
	return t, nil
}

// floats copies a tensor of the given shape as float32.
func (s *safetensors) floats(name string, shape ...int) ([]float32, error) {
	t, err := s.find(name)
	switch {
	case err != nil:
		return nil, err
	case !t.dtype.IsFloat():
		return nil, fmt.Errorf("%s: tensor %q is %s: want floats", s.path, name, t.dtype)
	case !t.shape.Equal(shape):
		return nil, fmt.Errorf("%s: tensor %q has the shape %v: the configuration requires %v", s.path, name, t.shape, shape)
	}
	data, out := s.data[t.begin:t.end], make([]float32, t.shape.Elements())
	if t.dtype == tensor.F32 {
		for i := range out {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
		return out, nil
	}
	from, err := tensor.FromBytes(t.dtype, tensor.Shape{len(out)}, data)
	if err != nil {
		return nil, err
	}
	for i := range out {
		out[i] = float32(from.Float64(i))
	}
	return out, nil
}

// storedTypes are the types of weights and of indices.
var storedTypes = map[string]tensor.DType{"F32": tensor.F32, "F16": tensor.F16, "BF16": tensor.BF16, "F64": tensor.F64, "I8": tensor.I8,
	"I32": tensor.I32, "I64": tensor.I64}
