package target

import (
	"fmt"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// An OpDef is a custom operator that a user brings.
type OpDef struct {
	// Name is the operator's ONNX name, with its domain in front where it is not ai.onnx: "com.example.Normalise".
	Name string
	// Infer gives the types of the results. Sizes may be symbolic.
	Infer func(in []ir.Type, attrs ir.Attrs) ([]ir.Type, error)
	// Eval computes the results on the host. The operands must not be changed or kept.
	Eval func(in []*tensor.Tensor, attrs ir.Attrs) ([]*tensor.Tensor, error)
	// WGSL, where it is given, is what backend wgpu runs instead of Eval: declarations, among them fn compute(i: u32), which is
	// called for every element i of result 0 and may write whatever of the results belongs to it. It calls x0(i), x1(i), … for
	// element i (u32, row-major) of an operand, y0(i, v), y1(i, v), … to write one of a result, and x0_size(axis) or
	// y0_size(axis) for sizes. Elements are f32 for floats, bool, u32 for u8 and u32, and i32 for i8, i32 and i64, of which the
	// low 32 bits are seen. Attributes that are numbers are constants, i32 or f32, of their names with attr_ in front. What has
	// results of fewer than 32 bits, or operands of other types, runs by Eval.
	WGSL string
}

// Ops are custom operators by name.
type Ops map[string]*OpDef

// Add registers an operator. A name that stands twice, or a definition without shape rule or kernel, is an error.
func (o Ops) Add(d *OpDef) error {
	switch {
	case d.Name == "":
		return fmt.Errorf("a custom operator needs a name")
	case d.Infer == nil || d.Eval == nil:
		return fmt.Errorf("custom operator %s needs a shape rule (Infer) and a kernel (Eval)", d.Name)
	case o[d.Name] != nil:
		return fmt.Errorf("custom operator %s is registered twice", d.Name)
	}
	o[d.Name] = d
	return nil
}
