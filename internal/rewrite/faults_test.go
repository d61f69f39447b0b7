package rewrite

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// floats, ints and bytes are inputs of one axis.
func floats(x ...float32) *tensor.Tensor { return tensor.FromSlice(x) }
func ints(x ...int64) *tensor.Tensor     { return tensor.FromSlice(x) }

// TestMeaningIsKept runs graphs on which a rule once changed more than roundings, or refused what is right, before and after
// all passes.
func TestMeaningIsKept(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		name, text string
		inputs     []*tensor.Tensor
	}{
		{"a quotient that is rounded down", `graph "" (%0: f32[n]) { const %1: f32[] = [41] %2 = div(%0, %1) %3 = floor(%2) return %3 }`,
			[]*tensor.Tensor{floats(41, 82, 164)}},
		{"through views and sums", `graph "" (%0: f32[n]) { const %1: f32[] = [41] const %4: f32[1] = [1] %2 = div(%0, %1)
			%5 = reshape(%2) {shape=[n,1]} %6 = add(%5, %4) %3 = cast(%6) {to=i64} return %3 }`, []*tensor.Tensor{floats(41, 82, 164)}},
		{"a quotient that is compared", `graph "" (%0: f32[n]) { const %1: f32[] = [41] const %2: f32[3] = [1,2,4] %3 = div(%0, %1)
			%4 = equal(%3, %2) return %4 }`,
			[]*tensor.Tensor{floats(41, 82, 164)}},
		{"a quotient whose largest counts", `graph "" (%0: f32[n]) { const %1: f32[] = [41] const %2: f32[2] = [0,1] %3 = div(%0, %1)
			%4 = concat(%3, %2) {axis=0} %5 = argmax(%4) {axis=0} return %5 }`,
			[]*tensor.Tensor{floats(41, 0)}},
		{"factors that are joined", `graph "" (%0: f32[n]) { const %1: f32[] = [0.1] const %2: f32[] = [30] %3 = mul(%0, %1)
			%4 = mul(%3, %2) %5 = ceil(%4) return %5 }`,
			[]*tensor.Tensor{floats(1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 17, 19, 23)}},
		{"a quantised value of a quotient", `graph "" (%0: f32[n]) { const %1: f32[] = [41] const %5: f32[] = [1] const %6: u8[] = [0]
			const %7: f32[] = [0.5]
			%2 = div(%0, %1) %3 = sub(%2, %7) %4 = quantize(%3, %5, %6) {axis=0, to=u8}
			return %4 }`, []*tensor.Tensor{floats(41, 82, 164)}},
		{"positions of an axis that may be stretched", `graph "" (%0: f32[n], %1: f32[m]) { %2 = range() {step=1, len=n, dtype=i64}
			%3 = range() {step=1, len=m, dtype=i64}
			%4 = greater_or_equal(%2, %3) return %4 }`, []*tensor.Tensor{floats(1), floats(1, 2, 3, 4, 5)}},
		{"positions beyond their type", `graph "" (%0: f32[n]) { const %1: i8[] = [0] %2 = range() {step=1, len=n, dtype=i64}
			%3 = cast(%2) {to=i8}
			%4 = greater_or_equal(%3, %1) return %4 }`, []*tensor.Tensor{tensor.New(tensor.F32, 200)}},
		{"differences below 0 without a sign", `graph "" (%0: f32[n]) { const %1: u8[] = [3] const %5: u8[] = [200]
			%2 = range() {step=1, len=n, dtype=i64} %3 = cast(%2) {to=u8}
			%4 = sub(%3, %1) %6 = less_or_equal(%4, %5) return %6 }`, []*tensor.Tensor{floats(1, 2, 3, 4, 5)}},
		{"places from both ends", `graph "" (%0: f32[n]) { const %1: i64[] = [2] %2 = range() {step=1, len=n, dtype=i64} %3 = sub(%2, %1)
			%4 = gather(%0, %3) return %4 }`,
			[]*tensor.Tensor{floats(1, 2, 3, 4, 5)}},
		{"places from the end", `graph "" (%0: f32[n]) { const %1: i64[2] = [-2,-1] %4 = gather(%0, %1) return %4 }`,
			[]*tensor.Tensor{floats(1, 2, 3, 4, 5)}},
		{"a bias of one number for all columns",
			`graph "" (%0: f32[a,3], %1: f32[3,n], %2: f32[m]) { %3 = matmul(%0, %1) %4 = add(%3, %2) return %4 }`,
			[]*tensor.Tensor{tensor.FromSlice([]float32{1, 2, 3}, 1, 3), tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 3, 2), floats(7)}},
		{"a bias of a symbolic size for two columns",
			`graph "" (%0: f32[a,3], %1: f32[3,2], %2: f32[m]) { %3 = matmul(%0, %1) %4 = add(%3, %2) return %4 }`,
			[]*tensor.Tensor{tensor.FromSlice([]float32{1, 2, 3}, 1, 3), tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 3, 2), floats(7)}},
		{"a bias of one number for columns of a symbolic size",
			`graph "" (%0: f32[a,3], %1: f32[3,n]) { const %2: f32[1] = [7] %3 = matmul(%0, %1) %4 = add(%3, %2) return %4 }`,
			[]*tensor.Tensor{tensor.FromSlice([]float32{1, 2, 3}, 1, 3), tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 3, 2)}},
		{"indices of a symbolic size that is 1", `graph "" (%0: i64[2,3], %1: i64[m,3]) { const %2: f32[4,2] = [1,2,3,5,8,13,21,34]
			%3 = gather(%2, %0) %4 = gather(%2, %1)
			%5 = add(%3, %4) %6 = layernorm(%5) {axes=1}
			return %6 }`, []*tensor.Tensor{tensor.FromSlice([]int64{0, 1, 2, 3, 0, 1}, 2, 3), tensor.FromSlice([]int64{3, 3, 1}, 1, 3)}},
		{"the power 1/2 of −∞", `graph "" (%0: f32[n]) { const %1: f32[] = [0.5] %2 = pow(%0, %1) return %2 }`,
			[]*tensor.Tensor{floats(-inf, 4, inf)}},
		{"the power −1/2 of −∞", `graph "" (%0: f32[n]) { const %1: f32[] = [-0.5] %2 = pow(%0, %1) return %2 }`,
			[]*tensor.Tensor{floats(-inf, 4, inf)}},
		{"the reciprocal of a subnormal", `graph "" (%0: f32[n], %1: f32[n]) { %2 = reciprocal(%1) %3 = mul(%0, %2) return %3 }`,
			[]*tensor.Tensor{floats(0, 1e-40, 2), floats(1e-40, 1e-40, 4)}},
		{"an exponent that is nearly 2", `graph "" (%0: f32[n]) { const %1: f32[] = [2.0000005] %2 = pow(%0, %1) return %2 }`,
			[]*tensor.Tensor{floats(1e30, 1e-30)}},
		{"a factor that is nearly 1", `graph "" (%0: f32[n]) { const %1: f32[] = [1.0000002] %2 = mul(%0, %1) %3 = sub(%2, %0)
			return %3 }`, []*tensor.Tensor{floats(1, 3)}},
		{"integers divided", `graph "" (%0: i64[n]) { const %1: i64[] = [2] %2 = div(%0, %1) return %2 }`,
			[]*tensor.Tensor{ints(1, -3, 5)}},
		{"a division by a subnormal", `graph "" (%0: f32[n]) { const %1: f32[] = [1e-40] %2 = div(%0, %1) return %2 }`,
			[]*tensor.Tensor{floats(1e-40, 2e-40)}},
		{"a division by what has a subnormal reciprocal", `graph "" (%0: f32[n]) { const %1: f32[] = [3e38] %2 = div(%0, %1) return %2 }`,
			[]*tensor.Tensor{floats(3e38, 1e38)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, err := ir.Interpret(parse(t, c.text), c.inputs)
			require.NoError(t, err)
			for _, o := range []Options{{Level: O2, Verify: true}, {Level: O2, Verify: true, Exact: true}} {
				g := parse(t, c.text)
				_, err = Run(t.Context(), g, nil, o)
				require.NoError(t, err)
				got, err := ir.Interpret(g, c.inputs)
				require.NoError(t, err, g.String())
				for i := range want {
					requireClose(t, want[i], got[i], g.String())
				}
			}
		})
	}
}

// TestExactKeepsMeaning: rules that change more than roundings do so at -O 2, and not where exactness is asked for.
func TestExactKeepsMeaning(t *testing.T) {
	heads := tensor.New(tensor.F32, 1, 1, 2, 2)
	copy(tensor.Of[float32](heads), []float32{110, 0, 0, 110}) // scores of 12,100 and 0
	for _, c := range []struct {
		rule, text string
		inputs     []*tensor.Tensor
	}{
		{"quantize.pair", `graph "" (%0: f32[n]) { const %1: f32[] = [0.0078740157] const %2: i8[] = [0] %3 = neg(%0)
			%4 = quantize(%3, %1, %2) {to=i8}
			%5 = dequantize(%4, %1, %2) {to=f32} %6 = reduce_sum(%5) {axes=[0], keepdims=true} return %6 }`,
			[]*tensor.Tensor{floats(5, 0.3)}},
		{"gather.unchecked", `graph "" (%0: i64[n]) { const %1: f32[3] = [2,2,2] %2 = gather(%1, %0) return %2 }`,
			[]*tensor.Tensor{ints(1, 7)}},
		{"attention.weak_mask", `graph "" (%0: f32[b,1,s,2], %1: bool[s]) { const %2: f32[] = [-10000] const %7: f32[] = [-1]
			%8 = mul(%0, %7)
			%3 = matmul(%0, %8) {transb=true} %4 = where(%1, %3, %2) %5 = softmax(%4) {axis=3} %6 = matmul(%5, %0) return %6 }`,
			[]*tensor.Tensor{heads, tensor.FromSlice([]bool{true, false})}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			want, wantErr := ir.Interpret(parse(t, c.text), c.inputs)
			run := func(o Options) ([]*tensor.Tensor, *Stats, error) {
				g := parse(t, c.text)
				s, err := Run(t.Context(), g, nil, o)
				require.NoError(t, err)
				got, err := ir.Interpret(g, c.inputs)
				return got, s, err
			}
			got, s, err := run(Options{Level: O2, Verify: true})
			require.Contains(t, ruleNames(s), c.rule)
			if wantErr == nil {
				require.NoError(t, err)
				require.NotEqual(t, want[0].Bytes(), got[0].Bytes(), "the case shows no difference")
			}
			got, s, err = run(Options{Level: O2, Verify: true, Exact: true})
			require.NotContains(t, ruleNames(s), c.rule)
			if wantErr != nil {
				require.ErrorContains(t, err, wantErr.Error())
				return
			}
			require.NoError(t, err)
			requireClose(t, want[0], got[0], c.text)
		})
	}
}

func ruleNames(s *Stats) (names []string) {
	for _, r := range s.Rules {
		names = append(names, r.Rule)
	}
	return names
}

// TestSumsOfScoresEnd: a sum of products and of masks may be seen from either product.
func TestSumsOfScoresEnd(t *testing.T) {
	const text = `graph "" (%0: f32[b,2,s,4], %1: f32[b,2,s,4], %2: f32[s], %3: f32[s]) {
		%4 = matmul(%0, %1) {transb=true}
		%5 = matmul(%1, %0) {transb=true}
		%6 = add(%4, %2)
		%7 = add(%5, %6)
		%8 = add(%7, %3)
		%9 = add(%8, %5)
		%10 = softmax(%9) {axis=3}
		%11 = matmul(%10, %1)
		return %11
	}`
	g := parse(t, text)
	_, err := Run(t.Context(), g, nil, Options{Level: O2, Verify: true})
	require.NoError(t, err)
	requireEqualResults(t, parse(t, text), g)
}

// TestExactKeepsRange: with Exact, no constant factor moves so that an overflow or an underflow vanishes.
func TestExactKeepsRange(t *testing.T) {
	for _, c := range []struct {
		rule, text string
		x          float64
	}{
		{"mul.mul", `graph "" (%0: f32[n,1]) { const %1: f32[] = [1e20] %2 = mul(%0, %1) %3 = div(%2, %1) return %3 }`, 1e30},
		{"mul.mul", `graph "" (%0: f32[n,1]) { const %1: f32[] = [1e-30] const %2: f32[] = [1e30] %3 = mul(%0, %1) %4 = mul(%3, %2)
			return %4 }`, 1e-30},
		{"mul.mul", `graph "" (%0: f32[n,1]) { const %1: f32[] = [4] const %2: f32[] = [0.25] %3 = mul(%0, %1) %4 = mul(%3, %2)
			return %4 }`, 3e38},
		{"matmul.scale_a", `graph "" (%0: f32[n,1], %1: f32[1,1]) { const %2: f32[] = [1e20] %3 = mul(%0, %2) %4 = matmul(%3, %1)
			return %4 }`, 1e-10},
		{"matmul.scale", `graph "" (%0: f32[n,1], %1: f32[1,1]) { const %2: f32[] = [1e-20] %3 = matmul(%0, %1) %4 = mul(%3, %2)
			return %4 }`, 1e30},
		{"columns.scale", `graph "" (%0: f32[n,1]) { const %1: f32[1,2] = [1e20, 1e20] const %2: f32[2] = [1e-20, 1e-30]
			%3 = matmul(%0, %1) %4 = mul(%3, %2) return %4 }`, 1e30},
	} {
		t.Run(c.rule, func(t *testing.T) {
			g := parse(t, c.text)
			in := []*tensor.Tensor{tensor.FromSlice([]float32{float32(c.x)}, 1, 1)}
			for range len(g.Inputs) - 1 {
				in = append(in, tensor.FromSlice([]float32{1e10}, 1, 1))
			}
			want, err := ir.Interpret(g, in)
			require.NoError(t, err)
			s, err := Run(t.Context(), g, nil, Options{Level: O2, Verify: true, Exact: true})
			require.NoError(t, err)
			require.NotContains(t, ruleNames(s), c.rule)
			got, err := ir.Interpret(g, in)
			require.NoError(t, err)
			requireClose(t, want[0], got[0], c.text)

			g = parse(t, c.text)
			s, err = Run(t.Context(), g, nil, Options{Level: O2, Verify: true})
			require.NoError(t, err)
			require.Contains(t, ruleNames(s), c.rule)
		})
	}
}
