package rewrite

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// ofBareTargets are conditions for targets without a kernel alone.
var ofBareTargets = map[string]bool{"conv.bytes lacks few taps": true, "conv.bytes lacks one group": true}

// TestConditions runs the sections "-- RULE lacks CONDITION --" of testdata: programs that lack one thing that a rule asks for. It must not
// apply, alone or with the others, and the program computes what it did.
func TestConditions(t *testing.T) {
	// without kernels for convolutions they become products, and rules for convolutions have nothing to meet
	all := &target.Target{Name: "all"}
	for k := range all.Kernels {
		all.Kernels[k].Runs = target.OnKernel
	}
	known := map[string][]*Rule{}
	for _, p := range passes {
		for _, r := range p.rules {
			known[r.Name] = append(known[r.Name], r)
		}
	}
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	checked := 0
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		require.NoError(t, err)
		for _, section := range a.Files {
			rule, _, ok := strings.Cut(section.Name, lacks)
			if !ok {
				continue
			}
			checked++
			text, targets := string(section.Data), []*target.Target{nil, all}
			if ofBareTargets[section.Name] {
				targets = targets[:1]
			}
			t.Run(section.Name, func(t *testing.T) {
				require.NotEmpty(t, known[rule], "there is no rule %s", rule)
				for _, to := range targets {
					alone := apply(parse(t, text), to, index(known[rule]), how{}) // or others leave it nothing to meet
					require.Empty(t, alone.fired)
					for _, o := range []Options{{Level: O2, Verify: true}, {Level: O2, Verify: true, Exact: true}} {
						g := parse(t, text)
						s, err := Run(t.Context(), g, to, o)
						require.NoError(t, err)
						require.NotContains(t, ruleNames(s), rule)
						requireEqualResults(t, parse(t, text), g)
					}
				}
			})
		}
	}
	require.Greater(t, checked, 150)
}

// TestHolds tries the extremes of every type in every other.
func TestHolds(t *testing.T) {
	types := []tensor.DType{tensor.String, tensor.C64, tensor.Bool, tensor.U8, tensor.I8, tensor.U16, tensor.I16, tensor.U32, tensor.I32,
		tensor.U64, tensor.I64, tensor.F16, tensor.BF16, tensor.F32, tensor.F64}
	digits := map[tensor.DType]int{tensor.F16: 11, tensor.BF16: 8, tensor.F32: 24, tensor.F64: 53}
	for _, large := range types {
		for _, small := range types {
			var want bool
			switch bits := small.Bits(); {
			case large == small:
				want = true
			case large == tensor.String || small == tensor.String || large == tensor.C64 || small == tensor.C64:
			case small == tensor.Bool:
				want = large != tensor.Bool
			case large == tensor.Bool, small.IsFloat() && large.IsInt():
			case large.IsFloat() && small.IsFloat():
				// The exponents, too: bfloat16 has those of float32, float16 fewer.
				want = digits[large] >= digits[small] && large != tensor.F16 || large == small
			case large.IsFloat():
				if small.IsSigned() {
					bits--
				}
				want = bits <= digits[large] && large != tensor.F16 && large != tensor.BF16
			case small.IsSigned():
				want = large.IsSigned() && large.Bits() >= bits
			default:
				want = large.IsSigned() && large.Bits() > bits || !large.IsSigned() && large.Bits() >= bits
			}
			if holds(large, small) && !want {
				t.Errorf("%s does not hold all of %s", large, small)
			}
		}
	}
	// What models have must be seen.
	for large, small := range map[tensor.DType]tensor.DType{tensor.I64: tensor.I32, tensor.F32: tensor.F16, tensor.I32: tensor.U8,
		tensor.F64: tensor.I32} {
		require.True(t, holds(large, small), "%s %s", large, small)
	}
}

// TestOtherResultsStay: a node of which another result is an output goes nowhere.
func TestOtherResultsStay(t *testing.T) {
	x := value()
	r := &Rule{Name: "test", pattern: node[ir.LayerNorm](x),
		build: func(m *match) *ir.Value { return m.emit(ir.LayerNorm{Axes: 1}, m.get(x)) }}
	g := parse(t, `graph "" (%0: f32[n]) { %1, %2 = layernorm(%0) {axes=1, sum=true} %3 = neg(%1) return %3, %2 }`)
	before := g.String()
	apply(g, nil, index([]*Rule{r}), how{})
	require.Equal(t, before, g.String())
}

// TestSameScalar: what two quantisers share is one value, or equal numbers of one type.
func TestSameScalar(t *testing.T) {
	g := ir.NewGraph("")
	number := func(d tensor.DType, x float64) *ir.Value {
		c := tensor.New(d)
		c.SetFloat64(0, x)
		return g.NewConst("", c)
	}
	a := number(tensor.F32, 0.5)
	require.True(t, sameScalar(a, a))
	require.True(t, sameScalar(a, number(tensor.F32, 0.5)))
	require.False(t, sameScalar(a, number(tensor.F32, 0.25)))
	require.False(t, sameScalar(a, number(tensor.F16, 0.5)))
	x := g.AddInput("x", ir.TensorOf(tensor.F32))
	require.True(t, sameScalar(x, x))
	require.False(t, sameScalar(x, a))
	require.False(t, sameScalar(a, nil))
}

// TestPerTensor: quantised values of one scale, and not of one for each row.
func TestPerTensor(t *testing.T) {
	g := parse(t, `graph "" (%0: u8[3,n]) { const %1: f32[] = [0.5] const %2: f32[3] = [0.5,1,2]
		%3 = dequantize(%0, %1) {to=f32} %4 = dequantize(%0, %2) {to=f32} %5 = neg(%4) return %3, %5 }`)
	require.True(t, perTensor[ir.Dequantize](g.Nodes[0].Outputs[0]))
	require.False(t, perTensor[ir.Quantize](g.Nodes[0].Outputs[0]))
	require.False(t, perTensor[ir.Dequantize](g.Nodes[1].Outputs[0]))
	require.False(t, perTensor[ir.Dequantize](g.Nodes[2].Outputs[0]))
	require.False(t, perTensor[ir.Dequantize](g.Inputs[0]))
	require.False(t, perTensor[ir.Dequantize](nil))
}
