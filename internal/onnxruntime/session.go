package onnxruntime

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/tensor"
)

// A Session is a model loaded into onnxruntime. One goroutine at a time uses it.
type Session struct {
	*library
	handle   uintptr
	in, out  []ValueInfo
	names    [2][]*byte // names of the inputs and of the outputs, as C strings
	loadTime time.Duration
}

// Open loads the model in a file.
func Open(path string, o Options) (*Session, error) {
	m, err := onnx.Open(path)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return newSession(m, path, o)
}

// New loads a model that is in memory; the session does not need it afterwards.
func New(m *onnx.Model, o Options) (*Session, error) { return newSession(m, "", o) }

// newSession makes the session from the file itself where there is one and the model needs no change: that is how programs use
// onnxruntime.
func newSession(m *onnx.Model, path string, o Options) (*Session, error) {
	l, err := start(o.Library)
	if err != nil {
		return nil, err
	}
	s := &Session{library: l}
	proto := unzipped(m.Proto)
	if s.in, s.out, err = ports(proto, o); err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name(), err)
	}
	for i, list := range [][]ValueInfo{s.in, s.out} {
		for _, v := range list {
			s.names[i] = append(s.names[i], &append([]byte(v.Name), 0)[0])
		}
	}
	if o.Level == None && saturates() {
		if p := widened(proto); p != nil {
			proto = p
		}
	}
	proto = tapped(proto, s.out)
	var data []byte
	if path == "" || proto != m.Proto {
		if data, err = onnx.Marshal(proto); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name(), err)
		}
	}
	var options uintptr
	if err := l.check(createSessionOptions, uintptr(unsafe.Pointer(&options))); err != nil {
		return nil, fmt.Errorf("onnxruntime: %w", err)
	}
	defer l.release(releaseSessionOptions, options)
	if err := errors.Join(
		l.check(setSessionGraphOptimization, options, levels[o.Level]),
		l.check(setIntraOpNumThreads, options, uintptr(o.Threads)),
		l.check(setInterOpNumThreads, options, 1),
		l.check(setSessionLogSeverityLevel, options, loggingLevelFatal), // errors come back as such; a second copy on stderr is of no use
	); err != nil {
		return nil, fmt.Errorf("onnxruntime: %w", err)
	}
	begin := time.Now()
	if data != nil {
		err = l.check(createSessionFromArray, l.env, uintptr(unsafe.Pointer(&data[0])), uintptr(len(data)), options,
			uintptr(unsafe.Pointer(&s.handle)))
	} else {
		err = l.check(createSession, l.env, uintptr(unsafe.Pointer(&pathBytes(path)[0])), options, uintptr(unsafe.Pointer(&s.handle)))
	}
	s.loadTime = time.Since(begin)
	if err != nil {
		return nil, fmt.Errorf("onnxruntime cannot load %s: %w", m.Name(), err)
	}
	return s, nil
}

var levels = [...]uintptr{All: enableAll, Extended: enableExtended, Basic: enableBasic, None: disableAll}

// Version is the version of the library.
func (s *Session) Version() string { return s.version }

// LoadTime is how long onnxruntime took to make the session.
func (s *Session) LoadTime() time.Duration { return s.loadTime }

// Inputs describes what a run takes, in the model's order.
func (s *Session) Inputs() []ValueInfo { return slices.Clone(s.in) }

// Outputs describes what a run returns, in the model's order, marks last.
func (s *Session) Outputs() []ValueInfo { return slices.Clone(s.out) }

// Run runs the model. The tensors that it returns are the caller's. A context that ends makes onnxruntime stop at the next
// node.
func (s *Session) Run(ctx context.Context, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	in, err := s.values(inputs)
	defer s.destroy(in)
	if err != nil {
		return nil, err
	}
	var options uintptr
	if err := s.check(createRunOptions, uintptr(unsafe.Pointer(&options))); err != nil {
		return nil, fmt.Errorf("onnxruntime: %w", err)
	}
	defer s.release(releaseRunOptions, options)
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		s.check(runOptionsSetTerminate, options)
		close(ended)
	})
	out := make([]value, len(s.out))
	err = s.run(options, in, out)
	if !stop() {
		<-ended // options must outlive its use
	}
	defer s.destroy(out)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("onnxruntime: %w", err)
	}
	results := map[string]*tensor.Tensor{}
	for i, v := range s.out {
		if results[v.Name], err = s.toTensor(out[i]); err != nil {
			return nil, fmt.Errorf("output %q: %w", v.Name, err)
		}
	}
	return results, nil
}

// run calls onnxruntime, which makes the outputs that have no handle.
func (s *Session) run(options uintptr, in, out []value) error {
	handles, names := make([]uintptr, 0, len(in)+len(out)+1), make([]*byte, 0, len(in)+len(out)+1)
	for i, v := range in {
		if v.handle != 0 { // it is 0 for a default
			handles, names = append(handles, v.handle), append(names, s.names[0][i])
		}
	}
	count := len(handles)
	for i, v := range out {
		handles, names = append(handles, v.handle), append(names, s.names[1][i])
	}
	handles, names = append(handles, 0), append(names, nil) // so that an empty list has an address
	results := handles[count:]
	err := s.check(runSession, s.handle, options, uintptr(unsafe.Pointer(&names[0])), uintptr(unsafe.Pointer(&handles[0])), uintptr(count),
		uintptr(unsafe.Pointer(&names[count])), uintptr(len(out)), uintptr(unsafe.Pointer(&results[0])))
	for i := range out {
		out[i].handle = results[i]
	}
	runtime.KeepAlive(s)
	runtime.KeepAlive(in)
	return err
}

// values puts the inputs in the session's order.
func (s *Session) values(inputs map[string]*tensor.Tensor) (in []value, err error) {
	var known []string
	for _, v := range s.in {
		known = append(known, v.Name)
	}
	for name := range inputs {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("the model has no input %q: it takes %s", name, strings.Join(known, ", "))
		}
	}
	for _, v := range s.in {
		t := inputs[v.Name]
		switch {
		case t == nil && v.Default:
			in = append(in, value{})
			continue
		case t == nil:
			return in, fmt.Errorf("input %q is missing", v.Name)
		case t.DType() != v.DType:
			return in, fmt.Errorf("input %q is %v, the model takes %v", v.Name, t.DType(), v.DType)
		}
		given, err := s.toValue(t)
		in = append(in, given)
		if err != nil {
			return in, fmt.Errorf("input %q: %w", v.Name, err)
		}
	}
	return in, nil
}

// A Fixed is a session with inputs and outputs in place: a run copies nothing, as programs that care for time use
// onnxruntime.
type Fixed struct {
	s       *Session
	in, out []value
	fresh   bool // outputs are made again: one has another rank than declared, which onnxruntime refuses of memory that is given
}

// Fix runs the session once, which finds the sizes of the outputs, and keeps their memory and the inputs for the runs to
// come.
func (s *Session) Fix(inputs map[string]*tensor.Tensor) (*Fixed, error) {
	in, err := s.values(inputs)
	f := &Fixed{s: s, in: in, out: make([]value, len(s.out))}
	if err == nil {
		err = f.Run()
	}
	if err == nil && f.Run() != nil {
		f.fresh = true
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
	if f.fresh {
		f.s.destroy(f.out)
		clear(f.out)
	}
	if err := f.s.run(0, f.in, f.out); err != nil {
		return fmt.Errorf("onnxruntime: %w", err)
	}
	return nil
}

// Close frees the inputs and outputs.
func (f *Fixed) Close() {
	f.s.destroy(f.in)
	f.s.destroy(f.out)
}

// Close frees the session.
func (s *Session) Close() error {
	s.release(releaseSession, s.handle)
	s.handle = 0
	return nil
}
