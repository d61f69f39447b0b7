package rewrite

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/lower"
	"github.com/rlxc/rlxc/models"
)

// orderWitness names for each precedence a program that shows it: "file/case" of testdata, "model head form" of package models, or a
// program itself.
var orderWitness = map[string]string{
	"fold < fused elementwise": "identity/neutral",
	"cse < quantised":          "quantised/groups of rows",
	"cse < fused elementwise":  "cse/nodes",
	"quantised < qdq pairs": `graph "" (%0: u8[s,8], %1: u8[8,8], %2: u8[8,8]) { const %3: f32[] = [0.05] const %4: u8[] = [100]
		%5 = dequantize(%0, %3, %4) {to=f32} %6 = dequantize(%1, %3, %4) {to=f32} %7 = matmul(%5, %6) %8 = quantize(%7, %3, %4) {to=u8}
		%9 = dequantize(%8, %3, %4) {to=f32} %10 = dequantize(%2, %3, %4) {to=f32} %11 = matmul(%9, %10) return %11 }`,
	"quantised < rows":      "model classifier int8",
	"quantised < epilogues": "quantised/dequantised",
	"qdq pairs < positions": `graph "" (%0: f32[b,s,8]) {
		const %1: i8[8,8] = data const %2: i64[] = [0] const %3: f32[] = [0.05] const %4: u8[] = [100] const %5: i8[] = [0]
		%6 = softmax(%0) {axis=2} %7 = quantize(%6, %3, %4) {to=u8} %8 = dequantize(%7, %3, %4) {to=f32} %9 = gather(%8, %2) {axis=1}
		%10 = dequantize(%1, %3, %5) {to=f32} %11 = matmul(%9, %10) return %8, %11 }`,
	"qdq pairs < primitives": `graph "" (%0: f32[n,8]) {
		const %1: f32[] = [2] const %2: f32[] = [1e-05] const %3: f32[] = [0.05] const %4: i8[] = [0]
		%5 = reduce_mean(%0) {axes=[1], keepdims=true} %6 = sub(%0, %5) %7 = quantize(%6, %3, %4) {to=i8}
		%8 = dequantize(%7, %3, %4) {to=f32}
		%9 = pow(%8, %1) %10 = reduce_mean(%9) {axes=[1], keepdims=true} %11 = add(%10, %2) %12 = sqrt(%11) %13 = div(%8, %12)
		return %13 }`,
	"canonical < primitives":         "norms/layernorm",
	"canonical < late cse":           "canonical/spellings",
	"canonical < fused elementwise":  "canonical/position ids",
	"positions < embeddings":         "embeddings/bert",
	"positions < rows":               "model classifier",
	"positions < fused elementwise":  "positions/legacy mask",
	"primitives < products":          "model encoder",
	"primitives < epilogues":         "model encoder int8",
	"primitives < fused elementwise": "activations/gelu tanh",
	"products < attention":           "attention/scale on the scores, added mask",
	"products < epilogues": `graph "" (%0: f32[n,9,3]) { const %1: f32[3,3,4] = data const %2: f32[4,1] = data
		%3 = conv(%0, %1) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1} %4 = transpose(%3) {perm=[0,2,1]}
		%5 = sub(%4, %2) %6 = relu(%5) return %6 }`,
	"products < fused elementwise":   "products/operands",
	"attention < rows":               "model classifier",
	"attention < qkv":                "model encoder",
	"attention < fused elementwise":  "attention/scale split, guard, heads merged",
	"rows < qkv":                     "model classifier",
	"rows < epilogues":               "rows/the last layer of a classifier",
	"embeddings < epilogues":         "embeddings/bert",
	"embeddings < fused elementwise": "model encoder",
	"epilogues < quantised blocks": `graph "" (%0: f32[s,8], %1: u8[s,8]) {
		const %2: f32[8] = data const %3: f32[] = [0.05] const %4: u8[] = [100]
		%5 = dequantize(%1, %3, %4) {to=f32} %6 = add(%0, %5) %7 = layernorm(%6, %2, %2) {axes=1, eps=1e-05}
		%8 = quantize(%7, %3, %4) {to=u8} return %8 }`,
	"qkv < order": "model encoder",
}

// program reads what orderWitness names.
func program(t *testing.T, name string) func() *ir.Graph {
	t.Helper()
	if strings.HasPrefix(name, "graph") {
		return func() *ir.Graph { return parse(t, name) }
	}
	if kind, ok := strings.CutPrefix(name, "model "); ok {
		head, form, _ := strings.Cut(kind, " ")
		m, err := models.Build(models.Config{Layers: 1, Hidden: 64, Heads: 2, Intermediate: 128, Vocabulary: 32, Positions: 8, Types: 2,
			Labels: 3,
			Head:   models.Head(head), Form: models.Form(form)})
		require.NoError(t, err)
		return func() *ir.Graph {
			g, err := lower.Model(m)
			require.NoError(t, err)
			return g
		}
	}
	file, title, _ := strings.Cut(name, "/")
	data, err := os.ReadFile("testdata/" + file + ".txt")
	require.NoError(t, err)
	for _, f := range txtar.Parse(data).Files {
		if before, _, _ := strings.Cut(f.Name, ": "); before == title {
			return func() *ir.Graph { return parse(t, string(f.Data)) }
		}
	}
	t.Fatalf("no case %q", name)
	return nil
}

// An outcome is what all passes make of a program: steps, the arithmetic of its products where every symbol is 6, and the text.
type outcome struct {
	steps, flops int
	text         string
}

func outcomeOf(t *testing.T, order []pass, g *ir.Graph) outcome {
	t.Helper()
	defer func(old []pass) { passes = old }(passes)
	passes = order
	s, err := Run(t.Context(), g, nil, Options{Level: O2, Verify: true})
	require.NoError(t, err)
	sizes := ir.Binding{}
	for _, name := range g.FreeSymbols() {
		sizes[name] = 6
	}
	o := outcome{steps: s.Steps, text: g.String()}
	for _, n := range g.Nodes {
		flops, err := ir.Flops(n).Eval(sizes)
		require.NoError(t, err)
		o.flops += flops
	}
	return o
}

// TestPassOrder brings the two passes of each precedence side by side, which must not change what its program becomes, and swaps
// them, which must make it worse: more steps, more arithmetic or, where order is the second pass, another text.
func TestPassOrder(t *testing.T) {
	require.Len(t, orderWitness, len(passOrder))
	for _, c := range passOrder {
		t.Run(c.first+" before "+c.then, func(t *testing.T) {
			name, ok := orderWitness[c.first+" < "+c.then]
			require.True(t, ok, "no program shows it")
			g := program(t, name)
			i := slices.IndexFunc(passes, func(p pass) bool { return p.name == c.first })
			j := slices.IndexFunc(passes, func(p pass) bool { return p.name == c.then })
			move := func(from, to int) []pass {
				return slices.Insert(slices.Delete(slices.Clone(passes), from, from+1), to, passes[from])
			}
			want := outcomeOf(t, passes, g())
			for _, orders := range [][2][]pass{{move(i, j-1), move(i, j)}, {move(j, i+1), move(j, i)}} {
				if beside := outcomeOf(t, orders[0], g()); beside.steps != want.steps || beside.flops != want.flops {
					continue // another precedence was broken
				}
				swapped := outcomeOf(t, orders[1], g())
				if swapped.steps > want.steps || swapped.flops > want.flops || c.then == "order" && swapped.text != want.text {
					return
				}
			}
			t.Errorf("swapped, the passes make the same of the program: the precedence is false, or wants another program")
		})
	}
}
