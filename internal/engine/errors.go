package engine

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/ir"
)

// The kinds of errors, for errors.Is. The text of an error names what is wrong and what to do; these say whose fault it is.
var (
	// ErrInvalidModel: the file is not a model, or the model contradicts itself or the ONNX specification.
	ErrInvalidModel = errors.New("invalid model")
	// ErrUnsupportedOp: the model is valid ONNX but uses what rlxc does not understand.
	ErrUnsupportedOp = errors.New("unsupported operator")
	// ErrShape: sizes do not fit at a node of the model.
	ErrShape = errors.New("shape mismatch")
	// ErrInput: an input is missing, unknown, or of the wrong type or shape, or its contents lead out of range.
	ErrInput = errors.New("wrong input")
	// ErrNoDevice: the backend, device or instruction level asked for is not there.
	ErrNoDevice = errors.New("no such device")
	// ErrMemory: the plan needs more than the memory limit.
	ErrMemory = errors.New("memory limit")
	// ErrWork: a run has more operations than the limit allows.
	ErrWork = errors.New("work limit")
	// ErrBusy: another goroutine uses the session.
	ErrBusy = errors.New("session in use")
	// ErrClosed: the model, program or session is closed.
	ErrClosed = errors.New("closed")
	// ErrFileChanged: a file that the program reads weights from was written to or truncated.
	ErrFileChanged = errors.New("file changed while in use")
	// ErrInternal: a fault of rlxc, which some model or size brings to light.
	ErrInternal = errors.New("internal error")
)

// ErrNoContext is what calls without a context return.
var ErrNoContext = errors.New("the context is nil: use context.Background() if there is no deadline")

// ClosedError is the error of using a closed model, program or session. Like one of a closed file, it is an os.ErrClosed too.
func ClosedError(what string) error {
	return WithKind(ErrClosed, WithKind(os.ErrClosed, fmt.Errorf("the %s is closed", what)))
}

// Guard turns a panic, which is a fault of rlxc that some model brings to light, into an error: the process lives on. It is
// deferred with the result of debug.SetPanicOnFault(true), so that this holds too where another process has truncated the model's file.
func Guard(err *error, before bool) {
	debug.SetPanicOnFault(before)
	r := recover()
	if r == nil {
		return
	}
	if *err = files.FaultError(r); *err == nil {
		*err = WithKind(ErrInternal, fmt.Errorf("internal error: %v", r))
	}
}

// kindError is an error of a kind.
type kindError struct {
	error
	kind error
}

func (e *kindError) Is(target error) bool { return target == e.kind }
func (e *kindError) Unwrap() error        { return e.error }

// WithKind adds a kind to an error without changing its text. It returns nil for nil.
func WithKind(kind, err error) error {
	if err == nil {
		return nil
	}
	return &kindError{err, kind}
}

// bindError finds the kind of what binding sizes and running report.
func bindError(err error) error {
	var in *ir.InputError
	var shape *ir.ShapeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &in):
		return WithKind(ErrInput, err)
	case errors.As(err, &shape):
		return WithKind(ErrShape, err)
	}
	return err
}
