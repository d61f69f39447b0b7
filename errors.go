package rlxc

import "github.com/rlxc/rlxc/internal/engine"

// The kinds of errors, for errors.Is. The text of an error says what is wrong and what to do. Its kind says what is at fault. Errors of
// the file system and of a context keep their identity (fs.ErrNotExist, context.Canceled). An error without a kind is a fault of the
// device, which its text names.
var (
	// ErrInvalidModel: the file is not a model, or the model contradicts itself or the ONNX specification.
	ErrInvalidModel = engine.ErrInvalidModel
	// ErrUnsupportedOp: the model is valid ONNX but uses something that rlxc does not implement.
	ErrUnsupportedOp = engine.ErrUnsupportedOp
	// ErrShape: sizes do not match at a node of the model.
	ErrShape = engine.ErrShape
	// ErrInput: an input is missing, unknown, or of the wrong type or shape; an input holds an index that is out of range; or an option
	// or dimension has an invalid value.
	ErrInput = engine.ErrInput
	// ErrNoDevice: the requested backend, device, instruction level or precision is not available.
	ErrNoDevice = engine.ErrNoDevice
	// ErrMemory: a run needs more than the memory limit.
	ErrMemory = engine.ErrMemory
	// ErrWork: a run needs more operations than CompileOptions.MaxFlops.
	ErrWork = engine.ErrWork
	// ErrBusy: another goroutine uses the session.
	ErrBusy = engine.ErrBusy
	// ErrClosed: the model, program or session is closed.
	ErrClosed = engine.ErrClosed
	// ErrFileChanged: a file that the program reads weights from was written to or truncated.
	ErrFileChanged = engine.ErrFileChanged
	// ErrInternal: a fault of rlxc. Planning failed, or the check that precedes the first run at new sizes rejected a plan made for these
	// sizes alone. The error then names the node.
	ErrInternal = engine.ErrInternal
)
