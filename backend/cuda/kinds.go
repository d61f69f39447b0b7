package cuda

import "github.com/rlxc/rlxc/tensor"

// kinds numbers the element types as the kernels do (Kind in _gen/common.cuh).
var kinds = map[tensor.DType]int32{
	tensor.F32: 0, tensor.F16: 1, tensor.BF16: 2, tensor.F64: 3, tensor.I64: 4, tensor.I32: 5, tensor.I16: 6, tensor.I8: 7,
	tensor.U8: 8, tensor.U16: 9, tensor.U32: 10, tensor.Bool: 11,
}

// floats are the types that kernels of floats take, with what names of kernels have for them. They compute in float32.
var floats = map[tensor.DType]string{tensor.F32: "f32", tensor.F16: "f16", tensor.BF16: "bf16"}

func isFloat(d tensor.DType) bool { return floats[d] != "" }

// isCounted reports whether reductions take the type.
func isCounted(d tensor.DType) bool { return isFloat(d) || d == tensor.I64 || d == tensor.I32 }
