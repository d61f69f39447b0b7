package ir

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/tensor"
)

func TestReduce(t *testing.T) {
	x := f32(tensor.Shape{2, 3}, 1, -2, 3, 4, 5, -6)
	none := f32(tensor.Shape{0, 2})
	along := func(fn Reduction, axes ...int) Reduce { return Reduce{Fn: fn, Axes: axes} }
	runText(t, []textCase{
		{"sum", along(Sum, 1), ins{x}, "f32[2] 2 3"},
		{"sum of columns", along(Sum, 0), ins{x}, "f32[3] 5 3 -3"},
		{"kept", Reduce{Fn: Sum, Axes: []int{0, 1}, KeepDims: true}, ins{x}, "f32[1,1] 5"},
		{"outer and inner axes", along(Sum, 0, 2), ins{f32(tensor.Shape{2, 2, 2}, 1, 2, 3, 4, 5, 6, 7, 8)}, "f32[2] 14 22"},
		{"mean", along(Mean, 1), ins{x}, "f32[2] 0.66666669 1"},
		{"max", along(MaxOf, 1), ins{x}, "f32[2] 3 5"},
		{"min", along(MinOf, 0, 1), ins{x}, "f32[] -6"},
		{"NaN", along(MaxOf, 0), ins{f32(nil, 1, float32(nan), 3)}, "f32[] NaN"},
		{"prod", along(Prod, 1), ins{x}, "f32[2] -6 -120"},
		{"l1", along(L1, 1), ins{x}, "f32[2] 6 15"},
		{"l2", along(L2, 0), ins{f32(tensor.Shape{2, 1}, 3, 4)}, "f32[1] 5"},
		{"log_sum", along(LogSum, 0), ins{f32(nil, 2, 6)}, "f32[] 2.0794415"},
		{"log_sum_exp", along(LogSumExp, 0), ins{f32(nil, 1000, 1000)}, "f32[] 1000.6932"},
		{"log_sum_exp of −∞", along(LogSumExp, 0), ins{f32(nil, float32(-inf), float32(-inf))}, "f32[] -INF"},
		{"sum_square", along(SumSquare, 1), ins{x}, "f32[2] 14 77"},
		{"no axes", along(SumSquare), ins{x}, "f32[2,3] 1 4 9 16 25 36"},
		{"scalar", along(LogSum), ins{of(tensor.F32, tensor.Shape{}, 1)}, "f32[] 0"},
		{"f16 sums beyond its precision", along(Sum, 0), ins{of(tensor.F16, nil, 2048, 1, 1)}, "f16[] 2050"},

		{"sum of nothing", along(Sum, 0), ins{none}, "f32[2] 0 0"},
		{"mean of nothing", along(Mean, 0), ins{none}, "f32[2] NaN NaN"},
		{"max of nothing", along(MaxOf, 0), ins{none}, "f32[2] -INF -INF"},
		{"min of nothing", along(MinOf, 0), ins{none}, "f32[2] INF INF"},
		{"prod of nothing", along(Prod, 0), ins{none}, "f32[2] 1 1"},
		{"l2 of nothing", along(L2, 0), ins{none}, "f32[2] 0 0"},
		{"log_sum of nothing", along(LogSum, 0), ins{none}, "f32[2] -INF -INF"},
		{"log_sum_exp of nothing", along(LogSumExp, 0), ins{none}, "f32[2] -INF -INF"},
		{"nothing to give", along(Sum, 1), ins{none}, "f32[0]"},
		{"max of no int8", along(MaxOf, 0), ins{tensor.New(tensor.I8, 0)}, "i8[] -128"},
		{"min of no int64", along(MinOf, 0), ins{tensor.New(tensor.I64, 0)}, "i64[] 9223372036854775807"},
		{"min of no uint64", along(MinOf, 0), ins{tensor.New(tensor.U64, 0)}, "u64[] 18446744073709551615"},
		{"min of no bool", along(MinOf, 0), ins{tensor.New(tensor.Bool, 0)}, "bool[] 1"},
		{"mean of no int32", along(Mean, 0), ins{tensor.New(tensor.I32, 0)}, "i32[] 0"},

		{"int8 wraps", along(Sum, 0), ins{whole[int8](100, 100)}, "i8[] -56"},
		{"mean of int32 truncates", along(Mean, 0), ins{whole[int32](-2, -1)}, "i32[] -1"},
		{"mean of uint64", along(Mean, 0), ins{whole[uint64](1<<63, 1)}, "u64[] 4611686018427387904"},
		{"max of uint64", along(MaxOf, 0), ins{whole[uint64](1<<63, 1)}, "u64[] 9223372036854775808"},
		{"l2 of int32", along(L2, 0), ins{whole[int32](5, 5)}, "i32[] 7"},
		{"log_sum of int32", along(LogSum, 1), ins{of(tensor.I32, tensor.Shape{3, 2}, 1000, 97, 0, 0, -5, 1)}, "i32[3] 7 -2147483648 0"},
		{"l1 of int32", along(L1, 0), ins{whole[int32](-5, 5)}, "i32[] 10"},
		{"max of bool", along(MaxOf, 0), ins{whole(false, true)}, "bool[] 1"},
		{"sum of bool", along(Sum, 0), ins{whole(false, true)}, "error: reduce_sum is not defined for bool"},
		{"axis", along(Sum, 2), ins{x}, "error: axes [2] of rank 2"},
		{"unsorted", along(Sum, 1, 0), ins{x}, "error: not sorted"},
	})
}

func TestEveryReductionHasAName(t *testing.T) {
	for r := NoReduction + 1; r < NumReductions; r++ {
		require.Equal(t, Op(Reduce{Fn: r}), prototypes["reduce_"+r.String()])
	}
	require.Equal(t, Op(ArgReduce{Min: true}), prototypes["argmin"])
	require.Equal(t, "argmax", OpName(ArgReduce{Axis: 3}))
}

func TestArgReduce(t *testing.T) {
	x := f32(tensor.Shape{2, 3}, 2, 2, 1, 0, 3, 3)
	runText(t, []textCase{
		{"first", ArgReduce{Axis: 1}, ins{x}, "i64[2] 0 1"},
		{"last", ArgReduce{Axis: 1, Last: true, KeepDims: true}, ins{x}, "i64[2,1] 1 2"},
		{"columns", ArgReduce{Axis: 0}, ins{x}, "i64[3] 0 1 1"},
		{"min", ArgReduce{Min: true, Axis: 1}, ins{x}, "i64[2] 2 0"},
		{"last of the smallest", ArgReduce{Min: true, Axis: 0, Last: true}, ins{i64(nil, 4, 1, 1, 9)}, "i64[] 2"},
		{"uint64", ArgReduce{}, ins{whole[uint64](1, math.MaxUint64)}, "i64[] 1"},
		{"NaN", ArgReduce{Last: true}, ins{f32(nil, 3, float32(nan), 3, float32(nan))}, "i64[] 2"},
		{"NaN first", ArgReduce{Last: true}, ins{f32(nil, float32(nan), 3)}, "i64[] 0"}, // as onnxruntime has it
		{"no rows", ArgReduce{Axis: 1}, ins{f32(tensor.Shape{0, 3})}, "i64[0]"},
		{"no elements", ArgReduce{Axis: 0}, ins{f32(tensor.Shape{0, 3})}, "error: axis 0 has no elements"},
	})
}

func TestSoftmax(t *testing.T) {
	runText(t, []textCase{
		{"rows", Softmax{Axis: 1}, ins{f32(tensor.Shape{2, 2}, 0, 0, 1000, 0)}, "f32[2,2] 0.5 0.5 1 0"},
		{"columns", Softmax{Axis: 0}, ins{f32(tensor.Shape{2, 2}, 0, 7, 0, 7)}, "f32[2,2] 0.5 0.5 0.5 0.5"},
		{"log", Softmax{Axis: 0, Log: true}, ins{f32(nil, 0, -1000)}, "f32[2] 0 -1000"},
		{"some masked", Softmax{}, ins{f32(nil, 1, float32(-inf))}, "f32[2] 1 0"},
		{"all masked", Softmax{}, ins{f32(nil, float32(-inf), float32(-inf))}, "f32[2] NaN NaN"},
		{"empty", Softmax{Axis: 1}, ins{f32(tensor.Shape{2, 0})}, "f32[2,0]"},
		{"integers", Softmax{}, ins{i64(nil, 1)}, "error: softmax is not defined for i64"},
	})
}

func TestCumSum(t *testing.T) {
	x := i64(tensor.Shape{2, 3}, 1, 2, 3, 4, 5, 6)
	runText(t, []textCase{
		{"rows", CumSum{Axis: 1}, ins{x}, "i64[2,3] 1 3 6 4 9 15"},
		{"columns", CumSum{Axis: 0}, ins{x}, "i64[2,3] 1 2 3 5 7 9"},
		{"exclusive", CumSum{Axis: 1, Exclusive: true}, ins{x}, "i64[2,3] 0 1 3 0 4 9"},
		{"reverse", CumSum{Axis: 1, Reverse: true}, ins{x}, "i64[2,3] 6 5 3 15 11 6"},
		{"both", CumSum{Axis: 1, Exclusive: true, Reverse: true}, ins{x}, "i64[2,3] 5 3 0 11 6 0"},
		{"reals", CumSum{}, ins{f32(nil, 0.5, 0.25)}, "f32[2] 0.5 0.75"},
		{"empty", CumSum{Reverse: true}, ins{f32(tensor.Shape{0})}, "f32[0]"},
		{"axis", CumSum{Axis: 2}, ins{x}, "error: axis 2 for rank 2"},
	})
}
