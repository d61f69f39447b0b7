package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/tensor"
)

// oip is the Open Inference Protocol, version 2, over REST (https://kserve.github.io/open-inference-protocol), with Triton's extension for binary
// tensors (https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_binary_data.md).
var oip = &protocol{"Open Inference Protocol", map[int]int{http.StatusUnprocessableEntity: http.StatusBadRequest},
	func(f *failure, _ int) any { return plainError{f.text} }, plainError{}}

// Datatypes are the names of element types in the Open Inference Protocol.
var Datatypes = map[tensor.DType]string{tensor.Bool: "BOOL", tensor.U8: "UINT8", tensor.U16: "UINT16", tensor.U32: "UINT32", tensor.U64: "UINT64",
	tensor.I8: "INT8", tensor.I16: "INT16", tensor.I32: "INT32", tensor.I64: "INT64", tensor.F16: "FP16", tensor.BF16: "BF16", tensor.F32: "FP32",
	tensor.F64: "FP64", tensor.String: "BYTES"}

func dtypeNamed(name string) (tensor.DType, bool) {
	for d, n := range Datatypes {
		if n == name {
			return d, true
		}
	}
	return tensor.Invalid, false
}

// numbers are the elements of tensors as Go slices, for JSON.
var numbers = map[tensor.DType]func(t *tensor.Tensor) any{
	tensor.F32:    func(t *tensor.Tensor) any { return tensor.Of[float32](t) },
	tensor.F64:    func(t *tensor.Tensor) any { return tensor.Of[float64](t) },
	tensor.U64:    func(t *tensor.Tensor) any { return tensor.Of[uint64](t) },
	tensor.String: func(t *tensor.Tensor) any { return t.Strings() },
	tensor.Bool: func(t *tensor.Tensor) any {
		out := make([]bool, t.Len())
		for i := range out {
			out[i] = t.Int64(i) != 0
		}
		return out
	},
}

// elements are the elements of any tensor.
func elements(t *tensor.Tensor) any {
	if f := numbers[t.DType()]; f != nil {
		return f(t)
	}
	if t.DType().IsFloat() {
		return t.Float64s()
	}
	return t.Int64s()
}

type oipParameters map[string]any

type oipInput struct {
	Name       string          `json:"name" required:"yes"`
	Shape      []int           `json:"shape" required:"yes"`
	Datatype   string          `json:"datatype" required:"yes"`
	Parameters oipParameters   `json:"parameters,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
}

type oipOutput struct {
	Name       string        `json:"name" required:"yes"`
	Parameters oipParameters `json:"parameters,omitempty"`
}

type oipRequest struct {
	ID         string        `json:"id,omitempty"`
	Parameters oipParameters `json:"parameters,omitempty"`
	Inputs     []oipInput    `json:"inputs" required:"yes"`
	Outputs    []oipOutput   `json:"outputs,omitempty"`
}

type oipResult struct {
	Name       string        `json:"name"`
	Shape      []int         `json:"shape"`
	Datatype   string        `json:"datatype"`
	Parameters oipParameters `json:"parameters,omitempty"`
	Data       any           `json:"data,omitempty"`
}

type oipAnswer struct {
	Model   string      `json:"model_name"`
	Version string      `json:"model_version"`
	ID      string      `json:"id,omitempty"`
	Outputs []oipResult `json:"outputs"`

	binary []byte // of the outputs that are not JSON
}

// binaryHead is the header with the length of the JSON before binary tensors.
const binaryHead = "Inference-Header-Content-Length"

// write writes an answer, with its binary tensors after the JSON.
func (a oipAnswer) write(w http.ResponseWriter) error {
	if a.binary == nil {
		return writeJSON(w, http.StatusOK, a)
	}
	head, err := json.Marshal(a)
	if err != nil {
		return err
	}
	w.Header().Set(binaryHead, strconv.Itoa(len(head)))
	return writeBytes(w, http.StatusOK, "application/octet-stream", append(head, a.binary...))
}

// modelVersion is the version of every model: there is one.
const modelVersion = "1"

// named opens the model of the path.
func (c *call) named() (*entry, *opened, error) {
	if v := c.request.PathValue("version"); v != "" && v != modelVersion {
		return nil, nil, failf(http.StatusNotFound, "", "there is no version %q: want %s", v, modelVersion)
	}
	return c.open(c.request.PathValue("model"))
}

// oipInfer is a route, whose body may have binary tensors after its JSON.
func (c *call) oipInfer(body []byte) (any, error) {
	text, tail := body, []byte(nil)
	if head := c.request.Header.Get(binaryHead); head != "" {
		n, err := strconv.Atoi(head)
		if err != nil || n < 0 || n > len(body) {
			return nil, failf(http.StatusBadRequest, "", "header %s: %q is not a length within the body of %d bytes", binaryHead, head, len(body))
		}
		text, tail = body[:n], body[n:]
	}
	var q oipRequest
	if err := decode(text, &q); err != nil {
		return nil, err
	}
	e, m, err := c.named()
	if err != nil {
		return nil, err
	}
	in := rlxc.Tensors{}
	for i := range q.Inputs {
		x := &q.Inputs[i]
		if in[x.Name] != nil {
			return nil, invalid("inputs", "there are two inputs %q", x.Name)
		}
		t, rest, err := x.tensor(tail)
		if err != nil {
			return nil, err
		}
		in[x.Name], tail = t, rest
	}
	if len(tail) > 0 {
		return nil, failf(http.StatusBadRequest, "", "the body has %d bytes more than its binary tensors", len(tail))
	}
	names := make([]string, len(q.Outputs))
	for i, o := range q.Outputs {
		names[i] = o.Name
	}
	a := oipAnswer{Model: e.Name, Version: modelVersion, ID: q.ID}
	asBinary := q.Parameters["binary_data_output"] == true
	err = m.infer(c.ctx, in, names, func(name string, t *tensor.Tensor) error {
		binary := asBinary
		for _, o := range q.Outputs {
			if v, ok := o.Parameters["binary_data"]; ok && o.Name == name {
				binary = v == true
			}
		}
		return a.add(name, t, binary)
	})
	return a, err
}

// add adds an output to an answer.
func (a *oipAnswer) add(name string, t *tensor.Tensor, binary bool) error {
	r := oipResult{Name: name, Shape: append([]int{}, t.Shape()...), Datatype: Datatypes[t.DType()]}
	switch {
	case r.Datatype == "":
		return failf(http.StatusUnprocessableEntity, "", "output %q is of type %v, which the protocol lacks", name, t.DType())
	case binary:
		data := RawTensor(t)
		r.Parameters = oipParameters{"binary_data_size": len(data)}
		if a.binary == nil {
			a.binary = []byte{}
		}
		a.binary = append(a.binary, data...)
	default:
		if t.DType().IsFloat() {
			for i := range t.Len() {
				if v := t.Float64(i); math.IsNaN(v) || math.IsInf(v, 0) {
					return failf(http.StatusUnprocessableEntity, "outputs", "output %q has %v at element %d, which JSON lacks: ask for binary data", name, v, i)
				}
			}
		}
		data, err := json.Marshal(elements(t)) // the session's memory is used again
		if err != nil {
			return err
		}
		if t.DType() == tensor.U8 { // which Go writes as base64
			data, err = json.Marshal(t.Int64s())
		}
		r.Data = json.RawMessage(data)
		if err != nil {
			return err
		}
	}
	a.Outputs = append(a.Outputs, r)
	return nil
}

// tensor reads an input, whose data may be the beginning of tail.
func (x *oipInput) tensor(tail []byte) (*tensor.Tensor, []byte, error) {
	field := "inputs." + x.Name
	if size, ok := x.Parameters["binary_data_size"]; ok {
		n, ok := size.(float64)
		if !ok || n < 0 || n > float64(len(tail)) || n != math.Trunc(n) {
			return nil, nil, invalid(field, "binary_data_size is %v, and %d bytes are left", size, len(tail))
		}
		t, err := ReadRawTensor(x.Name, x.Datatype, x.Shape, tail[:int(n)])
		return t, tail[int(n):], err
	}
	d, err := checkTensor(x.Name, x.Datatype, x.Shape)
	if err != nil {
		return nil, nil, err
	}
	if data := bytes.TrimSpace(x.Data); len(data) == 0 || data[0] != '[' {
		return nil, nil, invalid(field, "want data: a list")
	}
	t, err := tensor.ParseJSON(x.Data, d)
	if err != nil {
		return nil, nil, invalid(field, "%v", err)
	}
	if t.Len() != tensor.Shape(x.Shape).Elements() {
		return nil, nil, invalid(field, "the shape %v has %d elements, and the data %d", x.Shape, tensor.Shape(x.Shape).Elements(), t.Len())
	}
	return t.Reshape(x.Shape...), tail, nil
}

// checkTensor checks what is said of a tensor.
func checkTensor(name, datatype string, shape []int) (tensor.DType, error) {
	d, ok := dtypeNamed(datatype)
	if !ok {
		return d, invalid("inputs."+name, "there is no datatype %q", datatype)
	}
	if slices.ContainsFunc(shape, func(n int) bool { return n < 0 }) {
		return d, invalid("inputs."+name, "the shape %v has a negative size", shape)
	}
	if _, err := tensor.Shape(shape).CheckElements(d); err != nil {
		return d, invalid("inputs."+name, "%v", err)
	}
	return d, nil
}

// ReadRawTensor reads a tensor as the protocol writes it in binary: elements one after the other, little-endian; strings with their lengths
// in four bytes before them.
func ReadRawTensor(name, datatype string, shape []int, data []byte) (*tensor.Tensor, error) {
	d, err := checkTensor(name, datatype, shape)
	if err != nil {
		return nil, err
	}
	if d != tensor.String {
		t, err := tensor.FromBytes(d, shape, data)
		if err != nil {
			return nil, invalid("inputs."+name, "%v", err)
		}
		return t.Clone(), nil // aligned, and without the rest of the body
	}
	var list []string
	for len(data) > 0 {
		if len(data) < 4 || uint64(len(data)-4) < uint64(binary.LittleEndian.Uint32(data)) {
			return nil, invalid("inputs."+name, "a string is longer than what is left of the data")
		}
		n := 4 + int(binary.LittleEndian.Uint32(data))
		list, data = append(list, string(data[4:n])), data[n:]
	}
	if n := tensor.Shape(shape).Elements(); n != len(list) {
		return nil, invalid("inputs."+name, "the shape %v has %d elements, and the data %d", shape, n, len(list))
	}
	return tensor.FromStrings(list, shape...), nil
}

// RawTensor writes what ReadRawTensor reads.
func RawTensor(t *tensor.Tensor) []byte {
	if t.DType() != tensor.String {
		return t.Bytes()
	}
	var out []byte
	for _, s := range t.Strings() {
		out = append(binary.LittleEndian.AppendUint32(out, uint32(len(s))), s...)
	}
	return out
}

// infer checks inputs against what the program takes, runs it, and calls take with the outputs that are asked for, in order; none means
// all. The tensors are valid until take returns.
func (m *opened) infer(ctx context.Context, in rlxc.Tensors, outputs []string, take func(name string, t *tensor.Tensor) error) error {
	p := m.tensors.program
	infos := p.Inputs()
	for _, v := range infos {
		t := in[v.Name]
		switch {
		case t == nil:
			return invalid("inputs", "the input %q is missing", v.Name)
		case t.DType() != v.DType:
			return invalid("inputs."+v.Name, "want datatype %s, not %s", Datatypes[v.DType], Datatypes[t.DType()])
		case t.Rank() != len(v.Shape) && !slices.Contains(v.Shape, "*"):
			return invalid("inputs."+v.Name, "want a shape of %d axes, [%s], not %v", len(v.Shape), strings.Join(v.Shape, ", "), t.Shape())
		}
	}
	for name := range in {
		if !slices.ContainsFunc(infos, func(v rlxc.ValueInfo) bool { return v.Name == name }) {
			return invalid("inputs", "the model has no input %q", name)
		}
	}
	var all []string
	for _, v := range p.Outputs() {
		all = append(all, v.Name)
	}
	for _, name := range outputs {
		if !slices.Contains(all, name) {
			return invalid("outputs", "the model has no output %q: it has %s", name, strings.Join(all, ", "))
		}
	}
	if len(outputs) == 0 {
		outputs = all
	}
	return m.tensors.run(ctx, in, func(out rlxc.Tensors) error {
		for _, name := range outputs {
			if err := take(name, out[name]); err != nil {
				return err
			}
		}
		return nil
	})
}

type oipServer struct {
	Name       string   `json:"name"`
	Version    string   `json:"version"`
	Extensions []string `json:"extensions"`
}

func (c *call) oipServer() (oipServer, error) {
	return oipServer{"rlxc", c.server.options.Version, []string{"binary_tensor_data"}}, nil
}

type oipHealth struct {
	Live  bool `json:"live"`
	Ready bool `json:"ready"`
}

func (c *call) oipLive() (oipHealth, error) {
	return oipHealth{Live: true, Ready: !c.server.draining.Load()}, nil
}

func (c *call) oipReady() (oipHealth, error) {
	if c.server.draining.Load() {
		return oipHealth{}, failf(http.StatusServiceUnavailable, "", "the server is shutting down")
	}
	return c.oipLive()
}

type oipTensor struct {
	Name     string `json:"name"`
	Datatype string `json:"datatype"`
	Shape    []int  `json:"shape"` // -1 for what varies
}

type oipModel struct {
	Name     string      `json:"name"`
	Versions []string    `json:"versions"`
	Platform string      `json:"platform"`
	Inputs   []oipTensor `json:"inputs"`
	Outputs  []oipTensor `json:"outputs"`
}

func oipTensors(infos []rlxc.ValueInfo) []oipTensor {
	out := make([]oipTensor, len(infos))
	for i, v := range infos {
		out[i] = oipTensor{v.Name, Datatypes[v.DType], Sizes(v)}
	}
	return out
}

// Sizes are those of a model's input or output, -1 for what varies.
func Sizes(v rlxc.ValueInfo) []int {
	shape := make([]int, len(v.Shape))
	for i, text := range v.Shape {
		n, err := strconv.Atoi(text)
		if err != nil {
			n = -1
		}
		shape[i] = n
	}
	return shape
}

func (c *call) oipModel() (a oipModel, err error) {
	e, m, err := c.named()
	if err != nil {
		return a, err
	}
	p := m.tensors.program
	return oipModel{e.Name, []string{modelVersion}, platform, oipTensors(p.Inputs()), oipTensors(p.Outputs())}, nil
}

// platform is the protocol's name of the format of models.
const platform = "onnx_onnxv1"

type oipModelReady struct {
	Name  string `json:"name"`
	Ready bool   `json:"ready"`
}

func (c *call) oipModelReady() (a oipModelReady, err error) {
	e, _, err := c.named()
	if err != nil {
		return a, err
	}
	return oipModelReady{e.Name, true}, nil
}

// Infer runs a served model on tensors: for front ends other than HTTP. take is called with each output that is asked for, in order; none
// means all. The tensors are valid until take returns. An error has a status: see Status.
func (s *Server) Infer(ctx context.Context, model, version string, in rlxc.Tensors, outputs []string, take func(name string, t *tensor.Tensor) error) error {
	select {
	case s.requests <- struct{}{}:
		defer func() { <-s.requests }()
	default:
		return failf(http.StatusTooManyRequests, "", "the server answers as many requests as it may: try again later")
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	return s.with(ctx, model, version, func(m *opened) error { return m.infer(ctx, in, outputs, take) })
}

// Signature returns what a served model takes and gives.
func (s *Server) Signature(ctx context.Context, model, version string) (inputs, outputs []rlxc.ValueInfo, err error) {
	err = s.with(ctx, model, version, func(m *opened) error {
		inputs, outputs = m.tensors.program.Inputs(), m.tensors.program.Outputs()
		return nil
	})
	return inputs, outputs, err
}

// with calls do with a model.
func (s *Server) with(ctx context.Context, model, version string, do func(m *opened) error) error {
	if version != "" && version != modelVersion {
		return failf(http.StatusNotFound, "", "there is no version %q: want %s", version, modelVersion)
	}
	e, err := s.find(model, nil)
	if err != nil {
		return err
	}
	m, done, err := e.use(ctx)
	if err != nil {
		return err
	}
	defer done()
	return do(m)
}

// Ready reports whether requests should be sent here.
func (s *Server) Ready() bool { return !s.draining.Load() }

// CheckKey checks an API key. An error has a status: see Status.
func (s *Server) CheckKey(key string) error {
	if len(s.options.Keys) == 0 {
		return nil
	}
	return s.checkKey(key)
}

// Status returns the status of HTTP that an error has, and what of it may leave the machine.
func Status(err error) (status int, text string) {
	f := failureOf(err)
	return f.status, f.text
}
