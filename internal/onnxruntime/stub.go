//go:build !cgo

package onnxruntime

import (
	"context"
	"errors"
	"time"

	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/tensor"
)

// ErrNoCgo is what every function returns in a build without cgo.
var ErrNoCgo = errors.New("this rlxc was built without cgo, which running onnxruntime needs: build it with CGO_ENABLED=1 and a C compiler")

// Available reports whether this build can run onnxruntime.
const Available = false

// A Session is a model loaded into onnxruntime.
type Session struct{}

// Open loads the model in a file.
func Open(string, Options) (*Session, error) { return nil, ErrNoCgo }

// New loads a model that is in memory.
func New(*onnx.Model, Options) (*Session, error) { return nil, ErrNoCgo }

// Version is the version of the library.
func (*Session) Version() string { return "" }

// LoadTime is how long onnxruntime took to make the session.
func (*Session) LoadTime() time.Duration { return 0 }

// Inputs describes what a run takes, in the model's order.
func (*Session) Inputs() []ValueInfo { return nil }

// Outputs describes what a run returns, in the model's order, marks last.
func (*Session) Outputs() []ValueInfo { return nil }

// Run runs the model.
func (*Session) Run(context.Context, map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	return nil, ErrNoCgo
}

// A Fixed is a session with inputs and outputs in place.
type Fixed struct{}

// Fix runs the session once and keeps inputs and outputs for the runs to come.
func (*Session) Fix(map[string]*tensor.Tensor) (*Fixed, error) { return nil, ErrNoCgo }

// Run runs the session.
func (*Fixed) Run() error { return ErrNoCgo }

// Close frees the inputs and outputs.
func (*Fixed) Close() {}

// Close frees the session.
func (*Session) Close() error { return ErrNoCgo }
