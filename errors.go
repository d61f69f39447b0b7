package rlxc

import "github.com/rlxc/rlxc/internal/engine"

// The kinds of errors, for errors.Is. The text of an error names what is wrong and what to do; the kind says whose fault it is.
// Errors of the file system and of a context keep their own identity (fs.ErrNotExist, context.Canceled). An error of no kind is a
// fault of rlxc or of the device; its text then starts with "internal error" or names the device.
var (
	// ErrInvalidModel: the file is not a model, or the model contradicts itself or the ONNX specification.
	ErrInvalidModel = engine.ErrInvalidModel
	// ErrUnsupportedOp: the model is valid ONNX but uses something that rlxc does not implement.
	ErrUnsupportedOp = engine.ErrUnsupportedOp
	// ErrShape: sizes do not match at a node of the model.
	ErrShape = engine.ErrShape
	// ErrInput: an input is missing, unknown, or of the wrong type or shape, or it holds an index that is out of range; or an
	// option or dimension has a value that it cannot have.
	ErrInput = engine.ErrInput
	// ErrNoDevice: the backend, device, instruction level or precision asked for is not available.
	ErrNoDevice = engine.ErrNoDevice
	// ErrMemory: a run needs more than the memory limit.
	ErrMemory = engine.ErrMemory
	// ErrWork: a run has more operations than CompileOptions.MaxFlops.
	ErrWork = engine.ErrWork
	// ErrBusy: another goroutine uses the session.
	ErrBusy = engine.ErrBusy
	// ErrClosed: the model, program or session is closed.
	ErrClosed = engine.ErrClosed
)
