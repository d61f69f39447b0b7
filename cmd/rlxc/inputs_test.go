package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TestEmbeddingIndices looks into the fused op.
func TestEmbeddingIndices(t *testing.T) {
	g := ir.NewGraph("g")
	ids := g.AddInput("ids", ir.TensorOf(tensor.I64, ir.Sym("b"), ir.Sym("s")))
	types := g.AddInput("types", ir.TensorOf(tensor.I64, ir.Sym("b"), ir.Sym("s")))
	words, positions, kinds := g.NewConst("", tensor.New(tensor.F32, 9, 4)), g.NewConst("", tensor.New(tensor.F32, 16, 4)),
		g.NewConst("", tensor.New(tensor.F32, 2, 4))
	out, err := g.Append(ir.Embedding{Eps: 1e-5}, []*ir.Value{nil, nil, words, ids, positions, nil, kinds, types})
	require.NoError(t, err)
	g.Outputs = out
	require.Equal(t, map[string]int{"ids": 9, "types": 2}, indexLimits(g))
}

// TestRandomInputs follows an index through ops that pass it on, takes the smaller of two tables, and makes masks of the rest.
func TestRandomInputs(t *testing.T) {
	g, err := ir.Parse(`graph "g" (%0 "ids": i64[b,s], %1 "types": i32[b,s], %2 "mask": i64[b,s], %3 "x": f32[b,s]) {
  const %4: f32[9,4] = data
  const %5: f32[5,4] = data
  const %6: f32[2,4] = data
  %7 = cast(%0) {to=i32}
  %8 = gather(%4, %7)
  %9 = gather(%5, %0)
  %10 = gather(%6, %1)
  return %8 as "a", %9 as "b", %10 as "c"
}
`)
	require.NoError(t, err)
	limits := indexLimits(g)
	require.Equal(t, map[string]int{"ids": 5, "types": 2}, limits)

	m := &maker{limits: limits, infos: []rlxc.ValueInfo{
		{Name: "ids", DType: tensor.I64, Shape: []string{"b", "s"}},
		{Name: "types", DType: tensor.I32, Shape: []string{"b", "s"}},
		{Name: "mask", DType: tensor.I64, Shape: []string{"b", "s"}},
		{Name: "keep", DType: tensor.Bool, Shape: []string{"2*b"}},
		{Name: "x", DType: tensor.F16, Shape: []string{"b", "3"}},
	}}
	in, err := m.random(map[string]int{"b": 8, "s": 16})
	require.NoError(t, err)
	seen := map[int64]bool{}
	for _, id := range in["ids"].Int64s() {
		seen[id] = true
	}
	require.Len(t, seen, 5)
	require.Subset(t, []int64{0, 1}, in["types"].Int64s())
	require.Equal(t, "bool[16]", in["keep"].String())
	require.Equal(t, "f16[8,3]", in["x"].String())
	padded := 0
	for row := range 8 {
		ones := in["mask"].Int64s()[row*16 : row*16+16]
		require.Equal(t, int64(1), ones[0])
		if ones[15] == 0 {
			padded++
			require.NotZero(t, row, "the first row is whole")
		}
		for i := 1; i < 16; i++ {
			require.LessOrEqual(t, ones[i], ones[i-1], "padding ends a row")
		}
	}
	require.NotZero(t, padded)
	again, err := m.random(map[string]int{"b": 8, "s": 16})
	require.NoError(t, err)
	require.Equal(t, in["ids"].Bytes(), again["ids"].Bytes())

	_, err = m.random(map[string]int{"b": 8})
	require.ErrorAs(t, err, new(usageError))
	_, err = m.zeros(map[string]int{"b": 1 << 20, "s": 1 << 20})
	require.ErrorContains(t, err, "cannot generate input")
	_, err = m.zeros(map[string]int{"b": 1 << 40, "s": 1 << 40})
	require.ErrorContains(t, err, "cannot generate input")
	empty, err := m.random(map[string]int{"b": 0, "s": 4})
	require.NoError(t, err)
	require.Zero(t, empty["ids"].Len())
}

func TestFreeDims(t *testing.T) {
	require.Equal(t, []string{"batch", "seq", "odd name", "8*height"}, freeDims([]rlxc.ValueInfo{
		{Shape: []string{"batch", "seq", "4"}}, {Shape: []string{"seq", "batch+seq", "odd name", `"8*height"`}},
	}))
	v := rlxc.ValueInfo{Name: "x", DType: tensor.F32, Shape: []string{"2", `"8*height"`}}
	s, err := evalShape(v, map[string]int{"8*height": 16})
	require.NoError(t, err)
	require.Equal(t, tensor.Shape{2, 16}, s)
	_, err = evalShape(v, nil)
	require.ErrorContains(t, err, `--dim "8*height"=N`) // as a shell takes it
}
