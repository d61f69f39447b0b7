// Package rlxc compiles ONNX models and runs them.
//
//	m, err := rlxc.Open("model.onnx")
//	p, err := m.Compile(ctx, rlxc.CompileOptions{})
//	s, err := p.NewSession()
//	out, err := s.Run(ctx, rlxc.Tensors{"input_ids": ids, "attention_mask": mask})
//
// A Model is the content of a file. A Program is a model compiled for a device, once for all shapes: the graph is rewritten, and the
// weights are packed. A Session runs a program in separate memory. The first run at a shape plans the memory, and later runs allocate
// nothing.
//
// Errors have a kind (ErrInput, ErrShape, …), which errors.Is finds.
package rlxc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc/internal/engine"
	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/internal/frontend"
	"github.com/rlxc/rlxc/internal/inside"
	"github.com/rlxc/rlxc/internal/source"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// Tensor is a shape and row-major elements. Package tensor makes, reads and writes them.
type Tensor = tensor.Tensor

// DType is an element type.
type DType = tensor.DType

// Tensors maps names to tensors.
type Tensors map[string]*Tensor

// A Model is an opened model. Its file stays mapped until the model and everything compiled from it are closed. Several goroutines may
// use a model.
type Model struct {
	file            engine.Source
	inputs, outputs []ValueInfo
	overridable     []ValueInfo
	dims            []string
	warnings        []string

	mu      sync.Mutex
	lowered *ir.Graph // what opening made, with everything that level 0 runs, until a program is made of it
	shown   *ir.Graph // what inspect returned

	closed bool // mu guards it
}

// ValueInfo describes an input or output of a model.
type ValueInfo struct {
	Name  string `json:"name"`
	DType DType  `json:"dtype"`
	// Shape holds a number or a symbolic expression, such as "batch", for each axis.
	Shape []string `json:"shape"`
	// Default is true if a run may leave the input out. The input then has the value of the model's initializer: see WithOverridable.
	Default bool `json:"default,omitempty"`
}

// An Option changes how a model is opened.
type Option func(*opening) error

type opening struct {
	ops         []*ir.OpDef
	independent bool
	overridable []string
}

// Op defines a custom operator: its name in models, its shape rule, and its kernel on the host.
type Op = ir.OpDef

// WithOp defines an operator for the model to open. Nodes of that name run its kernel, even if rlxc implements an operator of the same
// name. Opening fails with ErrUnsupportedOp if two operators have the same name, or if one lacks a name, a shape rule or a kernel.
func WithOp(op Op) Option {
	return func(o *opening) (err error) {
		o.ops, err = ir.AddOp(o.ops, op)
		return err
	}
}

// WithIndependentSizes gives each dynamic axis of the inputs a separate size. It is for models that use one name for sizes that differ,
// for which a run fails otherwise. Axes that are equal in every run fuse better if they share a name. Opening a compiled file with this
// option fails with ErrInput.
func WithIndependentSizes() Option {
	return func(o *opening) error {
		o.independent = true
		return nil
	}
}

// WithOverridable makes initializers of an ONNX model inputs that have a default. Each name must be one of those that Model.Overridable
// describes. A run may give such an input a value or leave it out. Without this option, all initializers are constants, which rewrites
// compute with beforehand. Opening fails with ErrInput if the model has no such initializer, or if the file is a compiled file. A file that
// Program.Save writes keeps the inputs and their defaults.
func WithOverridable(names ...string) Option {
	return func(o *opening) error {
		o.overridable = append(o.overridable, names...)
		return nil
	}
}

// collect applies options.
func collect(opts []Option) (*opening, error) {
	o := &opening{}
	for _, opt := range opts {
		if opt == nil {
			return nil, errors.New("an option is nil")
		}
		if err := opt(o); err != nil {
			return nil, engine.WithKind(ErrUnsupportedOp, err)
		}
	}
	return o, nil
}

// Open opens a model file. The file is an ONNX model, with external data in or beneath its folder, or a compiled file that Program.Save
// wrote.
//
// It fails with ErrInvalidModel, ErrUnsupportedOp, or an error of the file system.
func Open(path string, opts ...Option) (*Model, error) {
	return open(opts, func(ops []*ir.OpDef) (engine.Source, error) { return frontend.Open(files.System{}, path, ops) })
}

// OpenFS opens a model file of a file system. Weights in an embed.FS or in a file of the operating system (os.DirFS) stay where they are,
// and all processes that use the program or the file share them; files of other systems are read into memory. OpenFS fails as Open does.
func OpenFS(fsys fs.FS, name string, opts ...Option) (*Model, error) {
	return open(opts, func(ops []*ir.OpDef) (engine.Source, error) { return frontend.Open(files.System{FS: fsys}, name, ops) })
}

// Read reads a model file of size bytes: an ONNX model without external data, or a compiled file. Errors refer to it by name. The whole
// file stays on the heap until everything made from it is closed, for an ONNX model in addition to its packed weights. Open needs half the
// memory. Read fails as Open does.
func Read(r io.ReaderAt, size int64, name string, opts ...Option) (*Model, error) {
	return open(opts, func(ops []*ir.OpDef) (engine.Source, error) { return frontend.Read(r, size, name, ops) })
}

// FromProto opens a model that was built in memory: an ONNX ModelProto, whichever package generated it. Messages of other packages are
// copied. A message that Model.Quantize returned is not copied and must not be changed afterwards. FromProto fails as Open does.
func FromProto(m proto.Message, name string, opts ...Option) (*Model, error) {
	p, ok := m.(*onnxpb.ModelProto)
	if !ok {
		data, err := proto.Marshal(m)
		if err != nil {
			return nil, engine.WithKind(ErrInvalidModel, fmt.Errorf("%s: %w", name, err))
		}
		return Read(bytes.NewReader(data), int64(len(data)), name, opts...)
	}
	return open(opts, func(ops []*ir.OpDef) (engine.Source, error) { return frontend.FromProto(p, name, ops) })
}

func open(opts []Option, file func([]*ir.OpDef) (engine.Source, error)) (*Model, error) {
	o, err := collect(opts)
	if err != nil {
		return nil, err
	}
	f, err := file(o.ops)
	if err != nil {
		return nil, err
	}
	plain := f
	if f, err = frontend.With(f, o.independent, o.overridable); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", plain.Name(), err), plain.Close())
	}
	g, err := f.Graph()
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	var overridable []ValueInfo
	if m, ok := f.(engine.Overridable); ok {
		overridable = inputInfo(m.Overridable())
		for i := range overridable {
			overridable[i].Default = true
		}
	}
	return &Model{file: f, lowered: g, warnings: g.Warnings, inputs: inputInfo(g.Inputs), outputs: outputInfo(g), overridable: overridable,
		dims: g.FreeSymbols()}, nil
}

// graph returns the lowered model for the caller to change.
func (m *Model) graph() (*ir.Graph, error) {
	m.mu.Lock()
	g := m.lowered
	m.lowered = nil
	m.mu.Unlock()
	if g != nil {
		return g, nil
	}
	return m.file.Graph()
}

// Name returns the path or name of the opened file.
func (m *Model) Name() string { return m.file.Name() }

// proto returns the ONNX model itself, or nil for a compiled file. It must not be changed.
func (m *Model) proto() *onnxpb.ModelProto {
	if f, ok := m.file.(frontend.ONNX); ok {
		return f.Model.Proto
	}
	return nil
}

// Inputs describes the inputs of a run, in the model's order.
func (m *Model) Inputs() []ValueInfo { return cloneInfo(m.inputs) }

// Overridable describes the initializers that WithOverridable accepts: those that an ONNX model of IR version 4 or newer lists as inputs
// too. It includes those that WithOverridable has made inputs. A compiled file has none.
func (m *Model) Overridable() []ValueInfo { return cloneInfo(m.overridable) }

// Outputs describes the outputs of a run, in the model's order.
func (m *Model) Outputs() []ValueInfo { return cloneInfo(m.outputs) }

func cloneInfo(infos []ValueInfo) []ValueInfo {
	out := slices.Clone(infos)
	for i := range out {
		out[i].Shape = slices.Clone(out[i].Shape)
	}
	return out
}

func inputInfo(inputs []*ir.Value) []ValueInfo {
	out := make([]ValueInfo, len(inputs))
	for i, v := range inputs {
		out[i] = valueInfo(v.Name, v.Type)
		out[i].Default = v.Default != nil
	}
	return out
}

func outputInfo(g *ir.Graph) []ValueInfo {
	out := make([]ValueInfo, len(g.Outputs))
	for i, v := range g.Outputs {
		out[i] = valueInfo(g.OutputNames[i], v.Type)
	}
	return out
}

func valueInfo(name string, t ir.Type) ValueInfo {
	return ValueInfo{Name: name, DType: t.DType, Shape: engine.Sizes(t)}
}

// Dims returns the symbolic dimensions of the inputs, in order of appearance.
func (m *Model) Dims() []string { return slices.Clone(m.dims) }

// Warnings returns contradictions between the types that the model declares and the types that its nodes compute. Runs return what the
// nodes compute. ZipMap returns a tensor instead of maps, and its warning lists the labels of the columns. At most one hundred warnings
// are returned.
func (m *Model) Warnings() []string { return slices.Clone(m.warnings) }

func init() {
	inside.Model = func(m any) (*ir.Graph, error) { return m.(*Model).inspect() }
	inside.Proto = func(m any) *onnxpb.ModelProto { return m.(*Model).proto() }
	inside.Program = func(p any) *engine.Program { return p.(*Program).engine }
	inside.Session = func(s any) *engine.Session { return s.(*Session).engine }
	inside.Compile = func(ctx context.Context, m, o any, part inside.Part, extend func(*ir.Graph) error) (any, error) {
		return m.(*Model).compile(ctx, part, extend, o.(CompileOptions))
	}
}

// inspect returns the lowered model, which must not be changed. It fails with ErrClosed, or as Open does if the model has to be read again.
func (m *Model) inspect() (*ir.Graph, error) {
	done, err := m.use()
	if err != nil {
		return nil, err
	}
	defer done()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.shown == nil {
		m.shown, m.lowered = m.lowered, nil
	}
	if m.shown == nil {
		g, err := m.file.Graph()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name(), err)
		}
		m.shown = g
	}
	return m.shown, nil
}

// Close releases the model. Programs compiled from it stay valid. It fails with ErrClosed if the model is closed.
func (m *Model) Close() error {
	m.mu.Lock()
	closed := m.closed
	m.closed = true
	m.mu.Unlock()
	if closed {
		return engine.ClosedError("model")
	}
	return m.file.Close()
}

// use keeps the file open until done, even if the model is closed meanwhile.
func (m *Model) use() (done func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, engine.ClosedError("model")
	}
	m.file.Retain()
	return func() { m.file.Close() }, nil
}

// VerifyFile verifies the checksums of all sections of a compiled file. Open does not verify them. An ONNX model has no checksums.
// VerifyFile fails with ErrClosed or ErrInvalidModel.
func (m *Model) VerifyFile() error {
	done, err := m.use()
	if err != nil {
		return err
	}
	defer done()
	if s, ok := m.file.(*source.Compiled); ok {
		return s.Verify()
	}
	return nil
}
