// Package inside lets the packages of this module look into the types of the root package, whose methods return nothing that is not API.
package inside

import (
	"context"

	"github.com/rlxc/rlxc/internal/engine"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx/onnxpb"
)

// A Part is a part of a model.
type Part = engine.Part

// The root package sets them.
var (
	// Model returns the graph of an *rlxc.Model, as lowering made it. It must not be changed. It fails as opening the model does, and if
	// the model is closed.
	Model func(model any) (*ir.Graph, error)
	// Proto returns the ONNX model that an *rlxc.Model was read from, or nil for a compiled file. It must not be changed.
	Proto func(model any) *onnxpb.ModelProto
	// Compile compiles a part of an *rlxc.Model with rlxc.CompileOptions and returns an *rlxc.Program. extend appends nodes, inputs and
	// outputs to the rewritten graph, before its weights are prepared for the device; it may be nil.
	Compile func(ctx context.Context, model, options any, part Part, extend func(*ir.Graph) error) (program any, err error)
	// Program returns what runs an *rlxc.Program.
	Program func(program any) *engine.Program
	// Session returns what runs an *rlxc.Session.
	Session func(session any) *engine.Session
)
