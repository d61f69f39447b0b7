package ir

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/tensor"
)

// typed are values of types, "_" for none.
func typed(t *testing.T, words []string) []*Value {
	in := make([]*Value, len(words))
	for i, word := range words {
		if name, sizes, ok := strings.Cut(word, "["); ok {
			d, err := tensor.ParseDType(name)
			require.NoError(t, err, word)
			in[i] = &Value{Type: TensorOf(d)}
			for _, size := range strings.FieldsFunc(sizes, func(r rune) bool { return r == ',' || r == ']' }) {
				if n, err := strconv.Atoi(size); err == nil {
					in[i].Type.Shape = append(in[i].Type.Shape, N(n))
				} else {
					in[i].Type.Shape = append(in[i].Type.Shape, Sym(size))
				}
			}
		}
	}
	return in
}

// TestShapeRulesRefuse: operands that an op takes, and with one of them in another form, "POSITION TYPE", why it does not. others are the
// same op with other parameters.
func TestShapeRulesRefuse(t *testing.T) {
	const (
		taken    = ""
		residual = "residual"
		fit      = "fit"
	)
	window := Window{Kernel: []int{3}, Strides: []int{1}, Dilations: []int{1}, Pads: []int{1, 1}, Auto: "NOTSET"}
	for _, c := range []struct {
		op      Op
		base    string
		changes map[string]string
		others  map[string]Op
	}{
		{Quantize{To: tensor.U8, Axis: 1}, "f32[2,4] f32[4] u8[4]", map[string]string{
			"0 i32[2,4]": taken, "1 f32[] 2 u8[]": taken, "2 _": taken, "0 i64[2,4]": "cannot be quantised",
			"1 i32[4]": "cannot be quantised",
			"2 i8[4]":  "the zero point is", "2 u8[]": "zero points", "2 u8[3]": "zero points", "1 f32[3] 2 _": "for axis 1",
			"1 f32[1,4] 2 _": "for axis 1"},
			map[string]Op{"nothing is quantised to f16": Quantize{To: tensor.F16}, "nothing is quantised to i32": Quantize{To: tensor.I32},
				"axis -1 of": Quantize{To: tensor.U8, Axis: -1}, "axis 2 of": Quantize{To: tensor.U8, Axis: 2}}},
		{Quantize{To: tensor.F8E4M3FN, Axis: 1, Block: 3}, "f32[2,4] f32[2,2]", map[string]string{"1 f32[]": taken,
			"1 f32[2]":   "for blocks of 3",
			"1 f32[2,1]": "for blocks of 3", "1 f32[2,3]": "for blocks of 3", "1 f32[1,2]": "for blocks of 3"},
			map[string]Op{"for blocks of -1": Quantize{To: tensor.U16, Axis: 1, Block: -1}}},
		{QMatMul{}, "u8[n,4] i8[4,6] u8[] i8[6] f32[] f32[6] f32[6] f32[n,6] f32[] u8[]", map[string]string{
			"2 _ 3 _ 6 _ 7 _ 8 _ 9 _": taken, "0 i16[n,4]": "a quantised product", "1 f32[4,6]": "a quantised product",
			"1 i8[5,6]": "inner sizes", "10 i32[r,4]": "rows i32[r,4] beside", "4 _": "one of two scales", "5 _": "one of two scales",
			"4 i32[] 5 i32[]": "scales of i32", "8 _": "one of scale and zero point", "9 _": "one of scale and zero point",
			"9 i16[]": "results of i16", "9 u8[6]": "of the result", "8 f32[6] 9 u8[6]": taken, "8 f32[5] 9 u8[5]": "operand 8",
			"8 f64[]": "operand 8", "2 i8[]": "operand 2", "2 u8[1]": "operand 2", "4 f64[]": "operand 4", "4 f32[1]": "operand 4",
			"3 u8[6]": "operand 3", "3 i8[5]": "operand 3", "3 i8[1,6]": "operand 3", "5 f32[5]": "operand 5", "6 f32[]": "operand 6",
			"6 f32[5]": "operand 6", "6 f64[6]": "operand 6", "6 i32[6]": taken, "7 f64[n,6]": residual, "7 f32[6]": residual,
			"7 f32[n,5]": residual}, nil},
		{QMatMul{}, "u8[n,4] i8[4,6]", map[string]string{"6 i32[6]": taken, "6 f32[6]": "an epilogue of floats",
			"7 i32[n,6]": "an epilogue of floats", "8 f32[] 9 u8[]": "an epilogue of floats"},
			map[string]Op{"an epilogue of floats": QMatMul{Act: Relu}}},
		{QMatMul{}, "f32[n,4] i8[4,6] _ _ _ f32[6] _ _ _ _ i32[r,4]", map[string]string{"10 _": taken, "10 i64[r,4]": "rows",
			"10 i32[r]":   "rows",
			"10 i32[r,3]": "rows", "0 f32[2,n,4] 1 i8[2,4,6]": "sequences with a product", "2 u8[]": "scales beside",
			"4 f32[]": "scales beside",
			"5 _":     "one of two scales"}, nil},
		{QConv{Window: window, Group: 2}, "u8[n,5,4] i8[3,2,6] u8[] i8[6] f32[] f32[6] f32[6] f32[n,5,6]", map[string]string{
			"0 f32[n,5,4]": "a quantised convolution", "1 f32[3,2,6]": "a quantised convolution", "1 i8[2,2,6]": "kernel",
			"7 f32[n,4,6]": residual,
			"5 f32[5]":     "operand 5"}, nil},
		{QAttention{}, "u8[1,s,2,4] i8[1,9,2,4] u8[1,9,2,4] f32[1,1,s,9] f32[] u8[] f32[] i8[] f32[] u8[] f32[] u8[] f32[] u8[] f32[] i8[]",
			map[string]string{"5 _ 7 _ 9 _ 13 _": taken, "10 _ 11 _ 14 _ 15 _": taken, "0 f32[1,s,2,4]": "operand 0 of f32",
				"3 f16[1,1,s,9]": "operand 3 of f16", "16 i32[r,4]": "takes no mask",
				"1 i8[1,9,1,4] 2 u8[1,9,1,4]": "2 heads of queries and 1",
				"4 _":                         "operands 4 and 5",
				"4 _ 5 _":                     "operands 4 and 5", "12 _ 13 _": "operands 12 and 13", "10 _": "operands 10 and 11",
				"11 _": "operands 10 and 11", "14 _": "operands 14 and 15", "15 _": "operands 14 and 15", "6 f64[]": "scale f64[]",
				"6 f32[1]": "scale f32[1]", "13 u16[]": "zero point u16[]", "9 u8[1]": "zero point u8[1]", "5 i8[]": "for quantised values",
				"9 i8[]": "for quantised values", "3 f32[1,1,s,8]": "mask"}, nil},
		{QLayerNorm{Axes: 1}, "f32[n,4] f32[4] f32[4] u8[n,4] f32[] u8[] f32[] i8[]", map[string]string{"3 f32[n,4] 4 _ 5 _": taken,
			"5 _":        taken,
			"0 f16[n,4]": "needs f32", "6 _": "needs f32", "7 _": "needs f32", "7 u16[]": "needs f32", "4 _ 5 _": "a quantised residual",
			"3 f32[n,4] 5 _": "a quantised residual", "3 f32[n,4] 4 _": "a quantised residual", "5 i8[]": "zero point",
			"5 u8[1]":  "zero point",
			"4 f32[1]": "operand 4", "4 f64[]": "operand 4", "6 f64[]": "operand 6", "6 f32[1]": "operand 6", "7 i8[1]": "operand 7",
			"3 u8[n,3]": residual, "3 u8[n]": residual}, nil},
		{MatMulNBits{K: 32, N: 5, Bits: 4, Block: 32}, "f32[s,32] u8[5,1,16] f32[5] u8[5] i32[32] f32[5] f32[s,5]", map[string]string{
			"3 f32[5]": taken, "3 _ 4 _ 5 _ 6 _": taken, "0 i32[s,32]": "a product of", "0 f32[]": "a product of",
			"0 f32[s,31]":  "a product of",
			"1 u8[5,1,15]": "operand 1", "1 i8[5,1,16]": "operand 1", "2 f32[4]": "operand 2", "2 f64[5]": "operand 2",
			"3 u8[4]":  "operand 3",
			"3 f64[5]": "operand 3", "4 i32[31]": "operand 4", "4 i64[32]": "operand 4", "5 f32[4]": "operand 5", "5 f64[5]": "operand 5",
			"6 f64[s,5]": residual, "6 f32[5]": residual, "6 f32[s,6]": residual, "6 f32[1,5]": taken},
			map[string]Op{"sizes K = 0": MatMulNBits{N: 5, Bits: 4, Block: 32}, "N = 0": MatMulNBits{K: 32, Bits: 4, Block: 32},
				"block_size = 0":    MatMulNBits{K: 32, N: 5, Bits: 4},
				"K = 268435457":     MatMulNBits{K: maxNBits + 1, N: 5, Bits: 4, Block: 32},
				"weights of 3 bits": MatMulNBits{K: 32, N: 5, Bits: 3, Block: 32},
				"blocks of 24":      MatMulNBits{K: 32, N: 5, Bits: 4, Block: 24},
				"blocks of 8":       MatMulNBits{K: 32, N: 5, Bits: 4, Block: 8},
				"blocks of 48":      MatMulNBits{K: 32, N: 5, Bits: 4, Block: 48, Int8: true}}},
		{QEmbedding{}, "f32[4] f32[4] u8[9,4] i64[n,3] f32[4] u8[4]", map[string]string{"5 _": taken, "2 f32[9,4] 4 _ 5 _": taken,
			"4 _ 5 _": "quantised values have a scale", "2 f32[9,4] 5 _": "floats have none", "2 f32[9,4] 4 _": "floats have none",
			"5 i8[4]": "zero point", "4 f32[3] 5 _": "for axis 1", "2 _": "is not a table"}, nil},
		{Chain{Ops: []Op{MatMul{}, MatMul{}}}, "f32[n,4] f32[4,8] f32[8] f32[8,6] f32[6] f32[n,6]", map[string]string{
			"2 _ 4 _ 5 _": taken, "1 f32[5,8]": "inner sizes", "3 f32[7,6]": "inner sizes", "2 f32[7]": "bias", "4 f32[5]": "bias",
			"5 f32[n,5]": residual, "3 _": "op 1 is no product", "6 f32[n,6]": "2 ops with 7 operands"},
			map[string]Op{"a chain of 1 ops": Chain{Ops: []Op{MatMul{}}}, "a chain of 0 ops": Chain{},
				"op 0 is no product": Chain{Ops: []Op{Copy{}, MatMul{}}}, "op 1 is no product": Chain{Ops: []Op{MatMul{}, nil}}}},
		{Chain{Ops: []Op{MatMulNBits{K: 32, N: 5, Bits: 4, Block: 32}, MatMul{}}},
			"f32[n,32] u8[5,1,16] f32[5] _ _ f32[5] f32[5,6] _ f32[n,6]",
			map[string]string{"5 _": taken, "1 u8[5,1,15]": "80 elements", "6 f32[4,6]": "inner sizes", "6 _": "op 1 is no product",
				"8 f32[n,5]": residual, "9 f32[n,6]": "2 ops with 10 operands"}, nil},
		{Chain{Ops: []Op{MatMul{}, Conv{Window: window, Group: 2}}}, "f32[n,5,4] f32[4,8] _ f32[3,4,6] f32[6]", map[string]string{
			"3 f32[2,4,6]": "kernel", "1 f32[4,6]": "in 2 groups"}, nil},
		{MatMul{}, "f32[n,4] f32[4,6] f32[6] f32[n,6]", map[string]string{"1 f16[4,6]": taken, "1 bf16[4,6]": taken,
			"1 f64[4,6]": "matmul of",
			"0 f16[n,4]": "matmul of", "0 f64[n,4] 1 f16[4,6]": "matmul of", "0 f32[4]": "at least two axes",
			"1 f32[4]":   "at least two axes",
			"1 f32[5,6]": "inner sizes", "2 f64[6]": "a bias or residual of", "3 f64[n,6]": "a bias or residual of",
			"2 f32[5]":   "bias f32[5]",
			"2 f32[1,6]": "bias f32[1,6]", "3 f32[6]": residual, "3 f32[n,5]": residual, "0 bool[n,4] 1 bool[4,6]": "not defined for bool",
			"0 f32[2,n,4] 1 f32[3,4,6]": "2 and 3"}, nil},
		{MatMul{}, "i32[n,4] i32[4,6]", nil, map[string]Op{"not defined for i32": MatMul{Alpha: 2}, "for i32": MatMul{Act: Relu}}},
		{LayerNorm{Axes: 1}, "f32[n,4] f32[4] f32[4] f32[n,4]", map[string]string{"2 _": taken, "0 i32[n,4]": "not defined for i32",
			"1 f64[4]": fit, "1 f32[3]": fit, "2 f32[n,4]": fit, "3 f32[4]": residual, "3 f32[n,3]": residual, "3 f64[n,4]": residual},
			map[string]Op{"the last 0 axes": LayerNorm{}, "the last 3 axes": LayerNorm{Axes: 3}}},
		{Attention{Scale: 1}, "f32[2,3,4,8] f32[2,5,2,8] f32[2,5,2,6] f32[2,4,3,5]", map[string]string{"3 bool[1,1,3,5]": taken,
			"3 _": taken,
			"0 i32[2,3,4,8] 1 i32[2,5,2,8] 2 i32[2,5,2,6]": "attention of", "1 f64[2,5,2,8]": "attention of",
			"2 f64[2,5,2,6]": "attention of",
			"0 f32[2,3,32]":  "four axes", "1 f32[2,5,16]": "four axes", "2 f32[2,5,12]": "four axes", "0 f32[1,3,4,8]": "axis 0 differs",
			"2 f32[1,5,2,6]": "axis 0 differs", "2 f32[2,4,2,6]": "do not match values", "2 f32[2,5,1,6]": "do not match values",
			"0 f32[2,3,4,7]": "differ in size", "0 f32[2,3,3,8]": "cannot share", "1 f32[2,5,0,8] 2 f32[2,5,0,6]": "cannot share",
			"3 i32[2,4,3,5]": "neither bool nor", "3 f32[2,4,3,4]": "mask"}, nil},
		{Rotary{}, "f32[2,3,4,8] f32[2,3,4] f32[2,3,4]", map[string]string{"1 f32[1,3,4] 2 f32[1,3,4]": taken,
			"1 f32[2,3,3] 2 f32[2,3,3]": taken,
			"0 i32[2,3,4,8]":            "rotary of",
			"1 f64[2,3,4]":              "rotary of", "2 f64[2,3,4]": "rotary of", "0 f32[2,3,32]": "four axes",
			"1 f32[3,4]": "twice three", "2 f32[3,4]": "twice three", "1 f32[3,3,4] 2 f32[3,3,4]": fit, "1 f32[2,2,4] 2 f32[2,2,4]": fit,
			"1 f32[2,3,5] 2 f32[2,3,5]": fit, "2 f32[1,3,4]": fit}, nil},
	} {
		infer := func(op Op, change, why string) {
			words := strings.Fields(c.base)
			for f := strings.Fields(change); len(f) > 0; f = f[2:] {
				at, err := strconv.Atoi(f[0])
				require.NoError(t, err)
				for len(words) <= at {
					words = append(words, "_")
				}
				words[at] = f[1]
			}
			if _, err := op.Infer(typed(t, words)); why == "" {
				require.NoError(t, err, "%#v %s", op, change)
			} else {
				require.ErrorContains(t, err, why, "%#v %s", op, change)
			}
		}
		infer(c.op, "", taken)
		for change, why := range c.changes {
			infer(c.op, change, why)
		}
		for why, op := range c.others {
			infer(op, "", why)
		}
	}
}
