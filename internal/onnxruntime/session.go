//go:build cgo

package onnxruntime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/tensor"
)

// Available reports whether this build can run onnxruntime.
const Available = true

// A Session is a model loaded into onnxruntime. One goroutine at a time uses it.
type Session struct {
	s        *ort.DynamicAdvancedSession
	in, out  []port
	results  int // of the session: a port may take two
	loadTime time.Duration
}

// oldest is the first version of onnxruntime that has the interface which the binding was made for.
const oldest = "1.24"

// library is the one that the process has loaded: there can be no second.
var library struct {
	sync.Mutex
	path string
}

// start loads the library on first use.
func start(path string) error {
	path, err := Find(path)
	if err != nil {
		return err
	}
	library.Lock()
	defer library.Unlock()
	switch library.path {
	case path:
		return nil
	case "":
	default:
		return fmt.Errorf("onnxruntime is already loaded from %s: a process cannot load %s too", library.path, path)
	}
	ort.SetSharedLibraryPath(path)
	if err := ort.InitializeEnvironment(); err != nil {
		// The binding has a number for a library that does not know the interface asked for, no error to tell by.
		if strings.Contains(err.Error(), "Error setting ORT API base") {
			return fmt.Errorf("%s is too old: this rlxc needs onnxruntime %s or newer, such as pip install onnxruntime==1.31.1", path, oldest)
		}
		return fmt.Errorf("%s cannot be loaded as onnxruntime's library: %w", path, said(err))
	}
	library.path = path
	return nil
}

// Open loads the model in a file.
func Open(path string, o Options) (*Session, error) {
	m, err := onnx.Open(path)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return load(m, path, o)
}

// New loads a model that is in memory; the session does not need it afterwards.
func New(m *onnx.Model, o Options) (*Session, error) { return load(m, "", o) }

// load makes the session from the file itself where there is one and the model needs no change: that is how programs use
// onnxruntime.
func load(m *onnx.Model, path string, o Options) (*Session, error) {
	if err := start(o.Library); err != nil {
		return nil, err
	}
	s := &Session{}
	var err error
	proto := unzipped(m.Proto)
	if s.in, s.out, err = ports(proto, o.Taps); err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name(), err)
	}
	var data []byte
	changed := path == "" || proto != m.Proto
	if o.Level == None && saturates() {
		if p := widened(proto); p != nil {
			proto, changed = p, true
		}
	}
	if p := adapt(proto, s.in, s.out); p != nil {
		proto, changed = p, true
	}
	if changed {
		if data, err = onnx.Marshal(proto); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name(), err)
		}
	}
	options, err := sessionOptions(o)
	if err != nil {
		return nil, fmt.Errorf("onnxruntime: %w", err)
	}
	defer options.Destroy()
	in, out := s.names()
	begin := time.Now()
	if data != nil {
		s.s, err = ort.NewDynamicAdvancedSessionWithONNXData(data, in, out, options)
	} else {
		s.s, err = ort.NewDynamicAdvancedSession(path, in, out, options)
	}
	s.loadTime = time.Since(begin)
	if err != nil {
		return nil, fmt.Errorf("onnxruntime cannot load %s: %w", m.Name(), said(err))
	}
	return s, nil
}

// names lists the session's inputs and outputs.
func (s *Session) names() (in, out []string) {
	for _, p := range s.in {
		in = append(in, p.Name)
	}
	if len(in) == 0 {
		in = []string{placeholder}
	}
	for _, p := range s.out {
		out = append(out, p.value)
		if p.shape != "" {
			out = append(out, p.shape)
		}
	}
	s.results = len(out)
	return in, out
}

var levels = [...]ort.GraphOptimizationLevel{
	All: ort.GraphOptimizationLevelEnableAll, Extended: ort.GraphOptimizationLevelEnableExtended,
	Basic: ort.GraphOptimizationLevelEnableBasic, None: ort.GraphOptimizationLevelDisableAll,
}

func sessionOptions(o Options) (*ort.SessionOptions, error) {
	s, err := ort.NewSessionOptions()
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		s.SetGraphOptimizationLevel(levels[o.Level]),
		s.SetIntraOpNumThreads(o.Threads),
		s.SetInterOpNumThreads(1),
		s.SetLogSeverityLevel(ort.LoggingLevelFatal), // errors come back as such; a second copy on stderr helps nobody
	)
	if err != nil {
		s.Destroy()
		return nil, err
	}
	return s, nil
}

// said is what onnxruntime itself said, on one line and without the binding's own words around it.
func said(err error) error {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return errors.New(strings.Join(strings.Fields(err.Error()), " "))
}

// Version is the version of the library.
func (*Session) Version() string { return ort.GetVersion() }

// LoadTime is how long onnxruntime took to make the session.
func (s *Session) LoadTime() time.Duration { return s.loadTime }

// Inputs describes what a run takes, in the model's order.
func (s *Session) Inputs() []ValueInfo { return infos(s.in) }

// Outputs describes what a run returns, in the model's order, marks last.
func (s *Session) Outputs() []ValueInfo { return infos(s.out) }

func infos(ports []port) []ValueInfo {
	out := make([]ValueInfo, len(ports))
	for i, p := range ports {
		out[i] = p.ValueInfo
	}
	return out
}

// Run runs the model. The tensors that it returns are the caller's. A context that ends makes onnxruntime stop at the next
// node.
func (s *Session) Run(ctx context.Context, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	in, err := s.values(inputs)
	defer destroy(in)
	if err != nil {
		return nil, err
	}
	options, err := ort.NewRunOptions()
	if err != nil {
		return nil, fmt.Errorf("onnxruntime: %w", err)
	}
	defer options.Destroy()
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		options.Terminate()
		close(ended)
	})
	out := make([]ort.Value, s.results)
	err = s.s.RunWithOptions(in, out, options)
	if !stop() {
		<-ended // options must outlive its use
	}
	defer destroy(out)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("onnxruntime: %w", said(err))
	}
	return s.tensors(out)
}

// values puts the inputs in the session's order.
func (s *Session) values(inputs map[string]*tensor.Tensor) ([]ort.Value, error) {
	for name := range inputs {
		if !slices.ContainsFunc(s.in, func(p port) bool { return p.Name == name }) {
			return nil, fmt.Errorf("the model has no input %q: it takes %s", name, strings.Join(s.inputNames(), ", "))
		}
	}
	if len(s.in) == 0 {
		v, err := toValue(tensor.New(tensor.F32, 1))
		return []ort.Value{v}, err
	}
	var in []ort.Value
	for _, p := range s.in {
		t := inputs[p.Name]
		switch {
		case t == nil:
			return in, fmt.Errorf("input %q is missing", p.Name)
		case t.DType() != p.DType:
			return in, fmt.Errorf("input %q is %v, the model takes %v", p.Name, t.DType(), p.DType)
		}
		v, err := toValue(t)
		if err != nil {
			return in, fmt.Errorf("input %q: %w", p.Name, err)
		}
		in = append(in, v)
	}
	return in, nil
}

func (s *Session) inputNames() []string {
	names := make([]string, len(s.in))
	for i, p := range s.in {
		names[i] = p.Name
	}
	return names
}

// tensors reads the session's results into the model's outputs.
func (s *Session) tensors(values []ort.Value) (map[string]*tensor.Tensor, error) {
	out := map[string]*tensor.Tensor{}
	for _, p := range s.out {
		t, err := carries[p.carrier].out(values[0])
		if err != nil {
			return nil, fmt.Errorf("output %q: %w", p.Name, err)
		}
		values = values[1:]
		if p.shape != "" {
			shape, err := carries[tensor.I64].out(values[0])
			if err != nil {
				return nil, fmt.Errorf("shape of output %q: %w", p.Name, err)
			}
			values = values[1:]
			t = convert(t.Reshape(narrow(shape.Int64s())...), p.DType)
		}
		out[p.Name] = t
	}
	return out, nil
}

// A Fixed is a session with inputs and outputs in place: a run copies nothing, as programs that care for time use
// onnxruntime.
type Fixed struct {
	s       *Session
	in, out []ort.Value
}

// Fix runs the session once, which finds the sizes of the outputs, and keeps their memory and the inputs for the runs to
// come.
func (s *Session) Fix(inputs map[string]*tensor.Tensor) (*Fixed, error) {
	in, err := s.values(inputs)
	f := &Fixed{s, in, make([]ort.Value, s.results)}
	if err == nil {
		err = f.Run()
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Run runs the session.
func (f *Fixed) Run() error {
	if err := f.s.s.Run(f.in, f.out); err != nil {
		return fmt.Errorf("onnxruntime: %w", said(err))
	}
	return nil
}

// Close frees the inputs and outputs.
func (f *Fixed) Close() {
	destroy(f.in)
	destroy(f.out)
}

func destroy(values []ort.Value) {
	for _, v := range values {
		if v != nil {
			v.Destroy()
		}
	}
}

// Close frees the session.
func (s *Session) Close() error { return s.s.Destroy() }
