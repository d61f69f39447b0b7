package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/tensor"
)

// oip is the Open Inference Protocol, version 2, over REST (https://kserve.github.io/open-inference-protocol), with Triton's extension for
// binary tensors (https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_binary_data.md).
var oip = &protocol{"Open Inference Protocol", map[int]int{http.StatusUnprocessableEntity: http.StatusBadRequest},
	func(f *failure, _ int) any { return plainError{f.text} }, plainError{}}

type oipInput struct {
	Name       string        `json:"name" required:"yes"`
	Shape      []int         `json:"shape" required:"yes"`
	Datatype   string        `json:"datatype" required:"yes"`
	Parameters oipInputParts `json:"parameters"`
	Data       raw           `json:"data"`
}

type oipInputParts struct {
	Size *int `json:"binary_data_size"`
}

type oipOutput struct {
	Name       string         `json:"name" required:"yes"`
	Parameters oipOutputParts `json:"parameters"`
}

type oipOutputParts struct {
	Binary *bool `json:"binary_data"`
}

type oipRequest struct {
	ID         string          `json:"id"`
	Model      ignored         `json:"model_name"` // which kserve's client repeats
	Parameters oipRequestParts `json:"parameters"`
	Inputs     []oipInput      `json:"inputs" required:"yes"`
	Outputs    []oipOutput     `json:"outputs"`
}

type oipRequestParts struct {
	Binary bool `json:"binary_data_output"`
}

type oipResult struct {
	Name       string        `json:"name"`
	Shape      []int         `json:"shape"`
	Datatype   string        `json:"datatype"`
	Parameters oipInputParts `json:"parameters,omitempty"`
	Data       elements      `json:"data,omitempty"`
}

type oipAnswer struct {
	Model   string      `json:"model_name"`
	Version string      `json:"model_version"`
	ID      string      `json:"id,omitempty"`
	Outputs []oipResult `json:"outputs"`

	binary []*tensor.Tensor // of the outputs that are not JSON
}

// binaryHead is the header with the length of the JSON before binary tensors.
const binaryHead = "Inference-Header-Content-Length"

// headLength reads that header: the JSON of the body ends there. nil without it.
func (c *call) headLength() (*io.LimitedReader, error) {
	head := c.request.Header.Get(binaryHead)
	if head == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(head, 10, 64)
	if size := c.request.ContentLength; err != nil || n < 0 || size >= 0 && n > size {
		return nil, failf(http.StatusBadRequest, "", "header %s: %q is not a length within the body of %d bytes", ours(binaryHead), head,
			size)
	}
	return &io.LimitedReader{R: c.body, N: n}, nil
}

// write writes an answer, with its binary tensors after the JSON.
func (a oipAnswer) write(ctx context.Context, w http.ResponseWriter) error {
	if a.binary == nil {
		return writeJSON(ctx, w, http.StatusOK, a)
	}
	e := &encoder{ctx: ctx, to: w, status: http.StatusOK, kind: "application/octet-stream"}
	if err := e.object(reflect.ValueOf(a)); err != nil {
		return err
	}
	size := len(e.piece)
	w.Header().Set(binaryHead, strconv.Itoa(size))
	for _, t := range a.binary {
		size += rawSize(t)
	}
	w.Header().Set("Content-Length", strconv.Itoa(size))
	for _, t := range a.binary {
		if err := e.raw(t); err != nil {
			return e.end(err)
		}
	}
	return e.end(nil)
}

// modelVersion is the version of every model: there is one.
const modelVersion = "1"

// named opens the model of the path.
func (c *call) named() (*entry, *opened, error) {
	if v := c.request.PathValue("version"); v != "" && v != modelVersion {
		return nil, nil, failf(http.StatusNotFound, "", "unknown version %q: want %s", v, modelVersion)
	}
	return c.open(c.request.PathValue("model"), ofTexts)
}

// oipInfer is a route, whose body may have binary tensors after its JSON.
func (c *call) oipInfer(q *oipRequest) (a oipAnswer, err error) {
	e, m, err := c.named()
	if err != nil {
		return a, err
	}
	in := rlxc.Tensors{}
	for i := range q.Inputs {
		x := &q.Inputs[i]
		if in[x.Name] != nil {
			return a, invalid("inputs", "input %q is given twice", x.Name)
		}
		if in[x.Name], err = c.tensor(x); err != nil {
			return a, err
		}
	}
	if n, err := c.body.Read(make([]byte, 1)); n > 0 {
		return a, failf(http.StatusBadRequest, "", "the body has more bytes than its binary tensors")
	} else if err = bodyError(err); err != nil && !errors.Is(err, io.EOF) {
		return a, err
	}
	names := make([]string, len(q.Outputs))
	for i, o := range q.Outputs {
		names[i] = o.Name
	}
	a = oipAnswer{Model: e.Name, Version: modelVersion, ID: q.ID}
	err = m.infer(c.ctx, in, names, func(name string, t *tensor.Tensor) error {
		binary := q.Parameters.Binary
		for _, o := range q.Outputs {
			if o.Parameters.Binary != nil && o.Name == name {
				binary = *o.Parameters.Binary
			}
		}
		if err := c.share().Take(memory.Sum(int64(rawSize(t)), memory.Product(int64(len(t.Strings())), perString))); err != nil {
			return err
		}
		return a.add(name, t.Clone(), binary)
	})
	return a, err
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
			return invalid("inputs."+v.Name, "want datatype %s, not %s", ours(datatypes[v.DType]), ours(datatypes[t.DType()]))
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
	return oipServer{"rlxc", c.server.options.Version, []string{"binary_tensor_data", "model_configuration", "statistics"}}, nil
}

type oipHealth struct {
	Live  bool `json:"live"`
	Ready bool `json:"ready"`
}

func (c *call) oipLive() (oipHealth, error) {
	return oipHealth{Live: true, Ready: c.server.readiness(context.WithoutCancel(c.ctx)) == nil}, nil
}

func (c *call) oipReady() (oipHealth, error) {
	if err := c.server.readiness(context.WithoutCancel(c.ctx)); err != nil {
		return oipHealth{}, err
	}
	return oipHealth{Live: true, Ready: true}, nil
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
		out[i] = oipTensor{v.Name, datatypes[v.DType], sizes(v)}
	}
	return out
}

// sizes are those of a model's input or output, -1 for what varies.
func sizes(v rlxc.ValueInfo) []int {
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
