package ir_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/packed"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// everything is a text that uses every part of the form, as String prints it.
const everything = `graph "bert \"x\"" (%0 "input_ids": i64[batch,seq], %1: f32[*], %2: seq<opt<u8["a b",3]>>) {
  const %3 "emb.weight": f32[1000,64] = data
  const %6: f32[3] = [1.5, nan, -inf]
  const %7: str[2] = ["a\nb", ""]
  const %8: bool[] = [true]
  const %9: u64[1] = [18446744073709551615]
  const %10: f16[1] = [0.33325195]
  const %11: i4[3] = [-8, 7, 0]
  const %5: i64[2] = [-1, 2]
  const %4 "w": f32[64,64] = packed "f32/48/16"
  %12 "x": f32[batch,seq,64] = gather(%3, %0) from "/embeddings/Gather", "b"
  %13: f32[batch,seq,64], %14: f32[batch,seq,64] = layernorm(%12, _, _, %12) {axes=1, eps=1e-12, sum=true}
  %15: f32[64,batch,seq] = transpose(%13) {perm=[2,0,1]}
  %16: f32[32,batch,2*seq] = reshape(%15) {shape=[32,batch,2*seq]}
  %17: i64[seq] = range() {start=-batch+1, step=1, len=seq, dtype=i64}
  %18: f32[64] = reduce_mean(%14) {axes=[0,1]}
  %19: f32[batch,seq,64] = leaky_relu(%14) {alpha=0.01}
  %20: bool[u20.0,2], %21: f32[*] = onnx.Weird(%1, _, %1, %6, %7, %8, %9, %10, %11, %5) {attrs={axis=int -1, f=float 2, s=string "x", ` +
	`"a b"=ints [], fs=floats [1.5, nan], ss=strings ["", "q"], t=tensor i64[2] [1, 2]}}
  %25: f32[64,batch,seq] = materialize(%13) {view=transpose {perm=[2,0,1]}}
  %26: f32[batch,seq,64] = map(%12, %14, %8) {expr=[leaky_relu(in0) {alpha=0.5}, mul(x0, in1), where(in2, x1, in0)]}
  %27: f32[batch,seq,64] = matmul(%12, %4)
  %22: seq<f32[]> = "my op"(%2)
  %23: f32[batch,seq,64] = my.If(%8) from "/if" do {
    graph "then" () {
      %24: f32[batch,seq,64] = relu(%13)
      return %24 as "y"
    }
    graph "else" () {
      return %12
    }
  }
  return %16 as "a", %16 as "b", %3 as "", %23 as "c"
}
`

func TestTextRoundTrip(t *testing.T) {
	text := strings.Replace(everything, ` as ""`, "", 1)
	g, err := ir.Parse(text)
	require.NoError(t, err)
	require.NoError(t, ir.Verify(g))
	require.Equal(t, text, g.String())
	require.Equal(t, []string{"a", "b", "", "c"}, g.OutputNames)
}

// TestTextOfDefaults: inputs keep their defaults in the text, with all elements of those that may carry sizes.
func TestTextOfDefaults(t *testing.T) {
	const text = `graph "values" (%0 "x": f32[n], %1 "c": f32[k] = f32[2] [1, 2], %2: i64[1] = i64[1] [-1], %3: f32[n,9] = f32[3,9] data) {
  %4: f32[n] = relu(%0)
  return %4
}
`
	g, err := ir.Parse(text)
	require.NoError(t, err)
	require.NoError(t, ir.Verify(g))
	require.Equal(t, text, g.String())
	require.Nil(t, g.Inputs[0].Default)
	require.Equal(t, []float32{1, 2}, tensor.Of[float32](g.Inputs[1].Default))
	g, err = ir.Parse(strings.Replace(text, "f32[2] [1, 2]", "i64[2] [1, 2]", 1))
	require.NoError(t, err)
	require.ErrorContains(t, ir.Verify(g), `the default of input %1 "c" is i64[2] where f32[k] is wanted`)
}

func TestParseWithoutTypes(t *testing.T) {
	g, err := ir.Parse(`graph "" (%0: f32[n,4]) { # types of results may be left out
		const %1: f32[4,8] = data
		%2 = matmul(%0, %1) {act=gelu}
		return %2
	}`)
	require.NoError(t, err)
	require.Equal(t, "f32[n,8]", g.Outputs[0].Type.String())
	require.Equal(t, ir.Gelu, g.Nodes[0].Op.(ir.MatMul).Act)
	require.Nil(t, g.OutputNames)
}

func TestDataIsRepeatable(t *testing.T) {
	const text = `graph "" () { const %0: f32[100] = data const %1: f32[100] = data const %2: i64[100] = data return %0, %1, %2 }`
	a, err := ir.Parse(text)
	require.NoError(t, err)
	b, err := ir.Parse(text)
	require.NoError(t, err)
	require.Equal(t, a.Outputs[0].Const.Bytes(), b.Outputs[0].Const.Bytes())
	require.NotEqual(t, a.Outputs[0].Const.Bytes(), a.Outputs[1].Const.Bytes())
	for _, x := range tensor.Of[float32](a.Outputs[0].Const) {
		require.True(t, x >= -1 && x < 1)
	}
	for _, x := range tensor.Of[int64](a.Outputs[2].Const) {
		require.True(t, x == 0 || x == 1)
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{``, `1:1: "graph" expected, not the end of the text`},
		{`graph "a" () { return %1 }`, `1:23: %1 is not defined here`},
		{"graph \"ä\" (%0: f32[2]) {\n  %0 = relu(%0)\n return }", `2:3: %0 is defined twice`},
		{"graph \"\" (%0: f32[2]) {\n  %1 = rely(%0)\n return }", `2:8: there is no op "rely"`},
		{`graph "" (%0: f32[2]) { %1: f32[3] = relu(%0) return %1 }`, `1:25: %1 is f32[2], not f32[3]`},
		{`graph "" (%0: f32[2]) { %1, %2 = relu(%0) return %1 }`, `1:34: relu has 1 results, not 2`},
		{`graph "" (%0: f32[2]) { %1 = add(%0) return %1 }`, `1:30: add has 1 operands`},
		{`graph "" (%0: f32[*]) { %1 = relu(%0) return %1 }`, `operand 0 is f32[*], a tensor of known rank is needed`},
		{`graph "" (%0: f32[2]) { %1 = relu(%0) {axis=1} return %1 }`, `relu has no parameter axis`},
		{`graph "" (%0: f32[2]) { %1 = softmax(%0) {axis=x} return %1 }`, `a number expected, not "x"`},
		{`graph "" (%0: f32[2]) { %1 = x.y(%0) return %1 }`, `%1 needs a type: the sizes of what x.y returns depend on data`},
		{`graph "" () { const %0: f32[2] = [1] return }`, `1 elements for f32[2]`},
		{`graph "" () { const %0: i8[1] = [128] return }`, `128 does not fit i8`},
		{`graph "" () { const %0: f32[n] = data return }`, `a constant of f32[n]`},
		{`graph "" () { const %0: f32[999999,999999] = data return }`, `the constants have more than`},
		{`graph "" (%99999999: f32[]) { return }`, `a value's number is below`},
		{`graph "" (%0: f32[div(a)]) { return }`, `div of 1 sizes`},
		{`graph "" (%0: f32[bcast(2,3)]) { return }`, `sizes 2 and 3 do not broadcast`},
		{`graph "" (%0: f32[` + strings.Repeat("min(", 200) + `]) { return }`, `nest more than`},
		{`graph "a`, `a string without an end`},
	} {
		_, err := ir.Parse(c.text)
		require.ErrorContains(t, err, c.want, c.text)
	}
}

// TestContents: a constant's elements are as many as its type says, and contents beside a text are asked for by number.
func TestContents(t *testing.T) {
	beside := func(number int, t ir.Type, _ packed.Layout) (*tensor.Tensor, error) {
		if number != 0 {
			return nil, errors.New("nothing is there")
		}
		return tensor.New(t.DType, t.Sizes()...), nil
	}
	for _, c := range []struct {
		content  string
		sections bool
		want     string
	}{
		{"f32[2] = [1, 2]", false, ""}, {"f32[2] = section 0", true, ""}, {`f32[2,2] = packed "f32/48/16" section 0`, true, ""},
		{"f32[2] = [1, 2, 3]", false, "more than 2 elements"}, {"f32[2] = [1]", false, "1 elements for f32[2]"},
		{"f32[999] = [1]", false, "has more elements than the text"}, {"f32[n] = [1]", false, "a constant of f32[n]"},
		{"f32[2] = section 0", false, "there are no sections beside this text"},
		{"f32[2] = section 1", true, "section 1: nothing is there"},
		{`f32[2,2] = packed "f32/48/16" section 0`, false, "there are no sections beside this text"},
		{`f32[2,2] = packed "f32/48/16" 0`, true, `"section" expected, not "0"`},
		{`f32[2,2] = packed "f32/48/16" section 1`, true, "section 1: nothing is there"}, {`f32[2,2] = packed "x" section 0`, true, `"x"`},
		{"f32[2] = section x", true, "a number expected"}, {"f32[2] = data", true, `"[" expected`},
		{"bool[1] = [0]", false, `"false" expected`},
		{"u64[1] = [-1]", false, "a number expected"}, {"u64[1] = [1.5]", false, "a whole number expected"},
		{"c64[1] = [1]", false, "complex constants must be in sections"}, {`str[1] = [1]`, false, "a string expected"},
		{"i4[1] = [8]", false, "8 does not fit i4"}, {"i4[1] = [-8]", false, ""}, {"u8[1] = [-1]", false, "-1 does not fit u8"},
	} {
		sections := beside
		if !c.sections {
			sections = nil
		}
		_, err := ir.Decode(`graph "" () { const %0: `+c.content+` return %0 }`, sections)
		if c.want == "" {
			require.NoError(t, err, c.content)
		} else {
			require.ErrorContains(t, err, c.want, c.content)
		}
	}
}

func TestParseDim(t *testing.T) {
	for _, s := range []string{
		"0", "-7", "batch", "2*batch*seq+1", "-a+b", "-3*a-4", "div(a,2)", "2*min(8,seq)+1", "max(a,b)", `"x y"*z`, "a.1", `"1"`,
		"bcast(a,b)", "a*div(b+1,3)-1", "a*a",
	} {
		d, err := ir.ParseDim(s)
		require.NoError(t, err, s)
		require.Equal(t, s, d.String())
	}
	for _, s := range []string{"", "+a", "a b", "a+", "f(a)", "min()", "9999999999999999999", "1.5"} {
		_, err := ir.ParseDim(s)
		require.Error(t, err, s)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(everything)
	f.Add(`graph "" (%0: f32[n,4]) { const %1: f32[4,2] = [1,2,3,4,5,6,7,8] %2 = matmul(%0, %1) {act=gelu} return %2 as "y" }`)
	f.Add(`graph "" (%0: f32[n,4], %1: i64[n]) { %2: i64[2] = dims() {dims=[n,2*n], dtype=i64}
		%3 = slice(%0) {starts=[0,1],sizes=[n,2],steps=[1,-1]} %4 = pad(%3) {before=[1,0],after=[0,div(n,2)]} return %4, %2 }`)
	f.Fuzz(func(t *testing.T, text string) {
		g, err := ir.Parse(text)
		if err != nil || ir.Verify(g) != nil {
			return
		}
		once := g.String()
		again, err := ir.Parse(once)
		if err != nil {
			t.Fatalf("what was printed does not parse: %v\n%s", err, once)
		}
		if twice := again.String(); once != twice {
			t.Fatalf("printed twice:\n%s\n%s", once, twice)
		}
	})
}
