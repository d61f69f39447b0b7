package rlxc

import "github.com/rlxc/rlxc/internal/engine"

// The kinds of errors, for errors.Is. The text of an error names what is wrong and what to do; these say whose fault it is.
var (
	// ErrInvalidModel: the file is not a model, or the model contradicts itself or the ONNX specification.
	ErrInvalidModel = engine.ErrInvalidModel
	// ErrUnsupportedOp: the model is valid ONNX but uses what rlxc does not understand.
	ErrUnsupportedOp = engine.ErrUnsupportedOp
	// ErrShape: sizes do not fit at a node of the model.
	ErrShape = engine.ErrShape
	// ErrInput: an input is missing, unknown, or of the wrong type or shape, or its contents lead out of range.
	ErrInput = engine.ErrInput
	// ErrNoDevice: the backend, device or instruction level asked for is not there.
	ErrNoDevice = engine.ErrNoDevice
	// ErrMemory: the plan needs more than the memory limit.
	ErrMemory = engine.ErrMemory
	// ErrBusy: another goroutine uses the session.
	ErrBusy = engine.ErrBusy
	// ErrClosed: the model, program or session is closed.
	ErrClosed = engine.ErrClosed
)
