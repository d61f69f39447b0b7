package ir

// Gather takes slices of operand 0 along Axis at the indices of operand 1 (i32 or i64, any shape; negative indices count
// from the end). The result has the indices' shape in place of the axis. An index outside is a run-time error.
type Gather struct{ Axis int }

// Kind implements Op.
func (Gather) Kind() Kind { return KindGather }

// GatherElements takes single elements: out[i][j] = x[index[i][j]][j] for Axis 0 (ONNX, GatherElements).
type GatherElements struct{ Axis int }

// Kind implements Op.
func (GatherElements) Kind() Kind { return KindGatherElements }

// GatherND takes slices at the index tuples in the last axis of operand 1; the first BatchDims axes run along.
type GatherND struct{ BatchDims int }

// Kind implements Op.
func (GatherND) Kind() Kind { return KindGatherND }

// ScatterElements is operand 0 with the elements of operand 2 put at the places that operand 1 names along Axis, combined
// by Reduce with what stands there.
type ScatterElements struct {
	Axis   int
	Reduce Reduction
}

// Kind implements Op.
func (ScatterElements) Kind() Kind { return KindScatterElements }

// ScatterND is operand 0 with slices of operand 2 put at the index tuples of operand 1, combined by Reduce.
type ScatterND struct{ Reduce Reduction }

// Kind implements Op.
func (ScatterND) Kind() Kind { return KindScatterND }

// OneHot gives a new axis of size Depth at Axis, which holds values[1] at the index and values[0] elsewhere. Operands:
// indices (any number type), values [2]. Negative indices count from the end; indices outside give a row without a hit.
type OneHot struct {
	Axis  int
	Depth Dim
}

// Kind implements Op.
func (OneHot) Kind() Kind { return KindOneHot }
