package ir

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/tensor"
)

var (
	nan = math.NaN()
	inf = math.Inf(1)
)

// of makes a tensor of any number type; a nil shape is a vector's.
func of(d tensor.DType, shape tensor.Shape, v ...float64) *tensor.Tensor {
	if shape == nil {
		shape = tensor.Shape{len(v)}
	}
	x := tensor.New(d, shape...)
	for i, n := range v {
		if d.IsFloat() {
			x.SetFloat64(i, n)
		} else {
			x.SetInt64(i, int64(n))
		}
	}
	return x
}

func whole[T tensor.Element](v ...T) *tensor.Tensor { return tensor.FromSlice(v) }

// content prints a tensor as "f32[2] 1 NaN".
func content(x *tensor.Tensor) string {
	parts := []string{x.String()}
	for i := range x.Len() {
		if x.DType() == tensor.String {
			parts = append(parts, fmt.Sprintf("%q", x.Strings()[i]))
		} else {
			parts = append(parts, numberText(x, i))
		}
	}
	return strings.Join(parts, " ")
}

// A textCase is evalCase with its result in text.
type textCase struct {
	name string
	op   Op
	in   []*tensor.Tensor
	want string // content, or "error: …"
}

type ins = []*tensor.Tensor

func runText(t *testing.T, cases []textCase) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g := NewGraph("case")
			in := make([]*Value, len(c.in))
			for i, x := range c.in {
				if x != nil {
					in[i] = g.NewConst("", x)
				}
			}
			types, err := Infer(&Node{Op: c.op, Inputs: in})
			var out []*tensor.Tensor
			if err == nil {
				out, err = EvalOp(nil, c.op, c.in)
			}
			if message, ok := strings.CutPrefix(c.want, "error: "); ok {
				require.ErrorContains(t, err, message)
				return
			}
			require.NoError(t, err)
			require.Len(t, out, len(types))
			var text []string
			for i, x := range out {
				require.Equal(t, types[i].Sizes(), x.Shape(), "Infer and Eval agree")
				require.Equal(t, types[i].DType, x.DType(), "Infer and Eval agree")
				text = append(text, content(x))
			}
			require.Equal(t, c.want, strings.Join(text, "; "))
		})
	}
}

func TestUnary(t *testing.T) {
	f := func(fn UnaryFn, v ...float64) (Op, ins) { return Unary{Fn: fn}, ins{of(tensor.F32, nil, v...)} }
	for _, c := range []struct {
		fn   UnaryFn
		x    []float64
		want string
	}{
		{Round, []float64{0.5, 1.5, 2.5, -0.5, -1.5, 2.4999}, "0 2 2 -0 -2 2"},
		{Sign, []float64{-3, 0, 7, nan, -inf}, "-1 0 1 NaN -1"},
		{Relu, []float64{-1, 2, nan}, "0 2 NaN"},
		{Sqrt, []float64{4, -1}, "2 NaN"},
		{Softplus, []float64{0, 1000, -1000}, "0.69314718 1000 0"},
		{Gelu, []float64{0, 1, -40}, "0 0.84134477 -0"},
		{HardSwish, []float64{-3, 0, 1.5, 3}, "-0 0 1.125 3"},
		{Sigmoid, []float64{0, -1000, 1000}, "0.5 0 1"},
		{Floor, []float64{-0.5, 1.5}, "-1 1"},
		{Ceil, []float64{-0.5, 1.5}, "-0 2"},
	} {
		op, in := f(c.fn, c.x...)
		runText(t, []textCase{{c.fn.String(), op, in, fmt.Sprintf("f32[%d] %s", len(c.x), c.want)}})
	}
	runText(t, []textCase{
		{"leaky_relu", Unary{LeakyRelu, 0.5, 0}, ins{f32(nil, -2, 3)}, "f32[2] -1 3"},
		{"elu", Unary{Elu, 2, 0}, ins{f32(nil, -1, 3)}, "f32[2] -1.2642411 3"},
		{"selu", Unary{Selu, 2, 3}, ins{f32(nil, -1, 1)}, "f32[2] -3.7927234 3"},
		{"celu", Unary{Celu, 2, 0}, ins{f32(nil, -2, 3, float32(nan))}, "f32[3] -1.2642411 3 NaN"},
		{"thresholded_relu", Unary{ThresholdedRelu, 1, 0}, ins{f32(nil, 1, 1.5, float32(nan))}, "f32[3] 0 1.5 0"},
		{"hard_sigmoid", Unary{HardSigmoid, 0.5, 0.25}, ins{f32(nil, -1, 0.5, 9)}, "f32[3] 0 0.5 1"},
		{"silu with alpha", Unary{Silu, 2, 0}, ins{f32(nil, 0, 1)}, "f32[2] 0 0.88079709"},
		{"infinities", Unary{IsInf, 1, 1}, ins{of(tensor.F16, nil, inf, -inf, 1, nan)}, "bool[4] 1 1 0 0"},
		{"+∞ only", Unary{IsInf, 1, 0}, ins{of(tensor.F8E5M2, nil, 1)}, "bool[1] 0"},
		{"−∞ only", Unary{IsInf, 0, 1}, ins{of(tensor.F64, nil, inf, -inf)}, "bool[2] 0 1"},
		{"is_nan", Unary{Fn: IsNaN}, ins{of(tensor.BF16, nil, inf, nan)}, "bool[2] 0 1"},
		{"abs of the smallest int8", Unary{Fn: Abs}, ins{whole[int8](-128, -1)}, "i8[2] -128 1"},
		{"abs of the largest uint64", Unary{Fn: Abs}, ins{whole[uint64](math.MaxUint64)}, "u64[1] 18446744073709551615"},
		{"sign of uint64", Unary{Fn: Sign}, ins{whole[uint64](math.MaxUint64, 0)}, "u64[2] 1 0"},
		{"relu of int32", Unary{Fn: Relu}, ins{whole[int32](-5, 5)}, "i32[2] 0 5"},
		{"not", Unary{Fn: Not}, ins{whole(true, false)}, "bool[2] 0 1"},
		{"not of integers", Unary{Fn: Not}, ins{whole[int32](1)}, "error: not is not defined for i32"},
		{"bitwise_not", Unary{Fn: BitwiseNot}, ins{whole[uint8](1)}, "u8[1] 254"},
		{"exp of integers", Unary{Fn: Exp}, ins{whole[int32](1)}, "error: exp is not defined for i32"},
		{"f16", Unary{Fn: Reciprocal}, ins{of(tensor.F16, nil, 3)}, "f16[1] 0.33325195"},
	})
}

func TestBinary(t *testing.T) {
	i8s, u64s := whole[int8], whole[uint64]
	runText(t, []textCase{
		{"broadcast", Binary{Add}, ins{f32(tensor.Shape{2, 1}, 1, 2), f32(nil, 10, 20)}, "f32[2,2] 11 21 12 22"},
		{"no broadcast", Binary{Add}, ins{f32(nil, 1, 2), f32(nil, 1, 2, 3)}, "error: axis 0: sizes 2 and 3 do not broadcast"},
		{"mixed types", Binary{Add}, ins{f32(nil, 1), i64(nil, 1)}, "error: add of f32 and i64"},
		{"wraps", Binary{Add}, ins{i8s(127), i8s(1)}, "i8[1] -128"},
		{"div truncates", Binary{Div}, ins{i64(nil, -7, 7), i64(nil, 2, -2)}, "i64[2] -3 -3"},
		{"div by 0", Binary{Div}, ins{i64(nil, 1, 5), i64(nil, 2, 0)}, "error: integer division by zero (element 1)"},
		{"mod by 0", Binary{Mod}, ins{u64s(5), u64s(0)}, "error: integer division by zero (element 0)"},
		{"fmod by 0", Binary{FMod}, ins{i8s(5), i8s(0)}, "error: integer division by zero (element 0)"},
		{"smallest by −1", Binary{Div}, ins{whole[int32](math.MinInt32), whole[int32](-1)}, "i32[1] -2147483648"},
		{"smallest i64 by −1", Binary{Div}, ins{i64(nil, math.MinInt64), i64(nil, -1)}, "i64[1] -9223372036854775808"},
		{"div of uint64", Binary{Div}, ins{u64s(math.MaxUint64), u64s(2)}, "u64[1] 9223372036854775807"},
		{"real by 0", Binary{Div}, ins{f32(nil, 1, -1, 0), f32(nil, 0, 0, 0)}, "f32[3] INF -INF NaN"},
		{"mod has the divisor's sign", Binary{Mod}, ins{i64(nil, -4, 7, -4), i64(nil, 3, -3, -1)}, "i64[3] 2 -2 0"},
		{"fmod has the dividend's", Binary{FMod}, ins{i64(nil, -4, 7), i64(nil, 3, -3)}, "i64[2] -1 1"},
		{"mod of reals", Binary{Mod}, ins{f32(nil, -4.5, 5, 0, -1), f32(nil, 3, float32(inf), -2, float32(inf))}, "f32[4] 1.5 5 -0 INF"},
		{"fmod of reals", Binary{FMod}, ins{f32(nil, -4.5, 5), f32(nil, 3, 0)}, "f32[2] -1.5 NaN"},
		{"mod of uint64", Binary{Mod}, ins{u64s(math.MaxUint64), u64s(10)}, "u64[1] 5"},
		{"pow", Binary{Pow}, ins{i64(nil, 2, -2, 2, 1, -1, 0), i64(nil, 10, 3, -1, -5, -3, 0)}, "i64[6] 1024 -8 0 1 -1 1"},
		{"pow wraps", Binary{Pow}, ins{whole[int32](3), i64(nil, 21)}, "i32[1] 1870418611"},
		{"integer to a real power", Binary{Pow}, ins{i64(nil, 2, 9), f32(nil, 0.5, 0.5)}, "i64[2] 1 3"},
		{"real to an integer power", Binary{Pow}, ins{f32(nil, 1.5, -2), whole[uint8](2, 3)}, "f32[2] 2.25 -8"},
		{"pow of bool", Binary{Pow}, ins{f32(nil, 1), whole(true)}, "error: pow of f32 and bool"},
		{"max passes NaN on", Binary{MaxFn}, ins{f32(nil, float32(nan), 1), f32(nil, 1, float32(nan))}, "f32[2] NaN NaN"},
		{"min passes NaN on", Binary{MinFn}, ins{f32(nil, float32(nan), 1), f32(nil, 1, 2)}, "f32[2] NaN 1"},
		{"max of uint64", Binary{MaxFn}, ins{u64s(math.MaxUint64), u64s(1)}, "u64[1] 18446744073709551615"},
		{"less of uint64", Binary{Less}, ins{u64s(math.MaxUint64), u64s(1)}, "bool[1] 0"},
		{"less with NaN", Binary{LessOrEqual}, ins{f32(nil, float32(nan)), f32(nil, float32(nan))}, "bool[1] 0"},
		{"equal bool", Binary{Equal}, ins{whole(true, false), whole(true, true)}, "bool[2] 1 0"},
		{"equal strings", Binary{Equal}, ins{str(nil, "a", "b"), str(nil, "b")}, "bool[2] 0 1"},
		{"less of strings", Binary{Less}, ins{str(nil, "a"), str(nil, "b")}, "error: less is not defined for str"},
		{"and", Binary{And}, ins{whole(true, true), whole(true, false)}, "bool[2] 1 0"},
		{"and of integers", Binary{And}, ins{i64(nil, 1), i64(nil, 1)}, "error: and is not defined for i64"},
		{"xor", Binary{Xor}, ins{whole(true, true), whole(true, false)}, "bool[2] 0 1"},
		{"shift left", Binary{ShiftLeft}, ins{i8s(1, 64, 1, 1), i8s(3, 1, 8, -1)}, "i8[4] 8 -128 0 0"},
		{"shift right", Binary{ShiftRight}, ins{i8s(-128, -1, 127, -5), i8s(1, 7, -1, 100)}, "i8[4] -64 -1 0 -1"},
		{"shift of uint64", Binary{ShiftRight}, ins{u64s(math.MaxUint64, 1), u64s(60, 64)}, "u64[2] 15 0"},
		{"prelu", Binary{PRelu}, ins{f32(nil, -2, 2), f32(nil, 0.25)}, "f32[2] -0.5 2"},
		{"prelu of uint64", Binary{PRelu}, ins{u64s(math.MaxUint64), u64s(3)}, "u64[1] 18446744073709551615"},
		{"f16 rounds to nearest", Binary{Add}, ins{of(tensor.F16, nil, 2048), of(tensor.F16, nil, 1.001953125)}, "f16[1] 2050"},
	})
}

func TestWhereAndClip(t *testing.T) {
	runText(t, []textCase{
		{"where", Where{}, ins{whole(true, false), f32(tensor.Shape{2, 1}, 1, 2), f32(nil, 9)}, "f32[2,2] 1 9 2 9"},
		{"where of strings", Where{}, ins{whole(true, false), str(nil, "a"), str(nil, "b")}, `str[2] "a" "b"`},
		{"condition", Where{}, ins{i64(nil, 1), f32(nil, 1), f32(nil, 1)}, "error: the condition is i64"},
		{"two types", Where{}, ins{whole(true), f32(nil, 1), i64(nil, 1)}, "error: a choice between f32 and i64"},
		{"both limits", Clip{}, ins{f32(nil, -9, 0, 9, float32(nan)), of(tensor.F32, tensor.Shape{}, -1),
			of(tensor.F32, tensor.Shape{}, 2)}, "f32[4] -1 0 2 NaN"},
		{"limits that cross", Clip{}, ins{f32(nil, 0, 9), of(tensor.F32, tensor.Shape{}, 3), of(tensor.F32, tensor.Shape{}, 2)},
			"f32[2] 2 2"},
		{"upper limit only", Clip{}, ins{whole[int8](-9, 9), nil, of(tensor.I8, tensor.Shape{}, 2)}, "i8[2] -9 2"},
		{"uint64", Clip{}, ins{whole[uint64](math.MaxUint64), of(tensor.U64, tensor.Shape{}, 2)}, "u64[1] 18446744073709551615"},
		{"no limit", Clip{}, ins{f32(nil, 3)}, "f32[1] 3"},
		{"limit's type", Clip{}, ins{f32(nil, 3), scalarI64(3)}, "error: is not a scalar of that type"},
	})
}

func TestSizesGoThroughArithmetic(t *testing.T) {
	g := NewGraph("sizes")
	emit := func(op Op, in ...*Value) *Value {
		out, err := g.Append(op, in)
		require.NoError(t, err)
		return out[0]
	}
	sizes := emit(DimsOp{Dims: []Dim{Sym("batch"), N(12)}, DType: tensor.I64})
	three := g.NewConst("", i64(nil, 3))
	show := func(v *Value) string { return Shape(v.Dims).String() }

	require.Equal(t, "[3*batch,36]", show(emit(Binary{Mul}, sizes, three)))
	require.Equal(t, "[div(batch,3),4]", show(emit(Binary{Div}, sizes, three)))
	require.Equal(t, "[-batch,-12]", show(emit(Unary{Fn: Neg}, sizes)))
	require.Equal(t, "[batch,12]", show(emit(Unary{Fn: Abs}, sizes)))
	require.Equal(t, "[36*batch]", show(emit(Binary{Mul}, emit(Reduce{Fn: Prod, Axes: []int{0}, KeepDims: true}, sizes), three)))
	require.Equal(t, "[batch+12]", show(emit(Reduce{Fn: Sum, Axes: []int{0}}, sizes)))
	require.Equal(t, "[max(12,batch)]", show(emit(Reduce{Fn: MaxOf, Axes: []int{0}}, sizes)))
	require.Equal(t, "[batch,12]", show(emit(Cast{To: tensor.I32}, sizes)))
	require.Equal(t, "[]", show(emit(Cast{To: tensor.F32}, sizes)), "reals carry no sizes")
	require.Equal(t, "[]", show(emit(Binary{Less}, sizes, three)), "batch < 3 is open")
	more := emit(Binary{Add}, sizes, three)
	less := emit(Binary{Less}, sizes, more)
	require.Equal(t, "[1,1]", show(less))
	require.Equal(t, "[0,0]", show(emit(Unary{Fn: Not}, less)))
	require.Equal(t, "[1,1]", show(emit(Cast{To: tensor.Bool}, more)))
	require.Equal(t, "[batch,12]", show(emit(Where{}, less, sizes, three)))
	require.Equal(t, "[3,12]", show(emit(Where{}, emit(Binary{Equal}, emit(Binary{Sub}, sizes, sizes), g.NewConst("", i64(nil, 1, 0))),
		sizes, three)))
	low, high := g.NewConst("", scalarI64(4)), g.NewConst("", scalarI64(8))
	require.Equal(t, "[max(4,min(8,batch)),8]", strings.ReplaceAll(show(emit(Clip{}, sizes, low, high)), "min(8,max(4,batch))",
		"max(4,min(8,batch))"))
}

// TestHasStep looks for jumps of every function: a small step of the operand that the result answers with a large one.
func TestHasStep(t *testing.T) {
	for fn := NoUnary + 1; fn < NumUnary; fn++ {
		o := Unary{Fn: fn, Alpha: 0.75, Beta: 0.5}
		real := o.Real()
		if real == nil || fn == Reciprocal || fn == Tan || fn == Log || fn == Atanh {
			continue // which have a pole
		}
		jumps := false
		for x := -3.0; x < 3; x += 1.0 / 1024 {
			y, next := real(x), real(x+1.0/1024)
			jumps = jumps || next-y > 0.2 || y-next > 0.2
		}
		if jumps != fn.HasStep() {
			t.Errorf("%v: jumps %v, HasStep %v", fn, jumps, fn.HasStep())
		}
	}
}
