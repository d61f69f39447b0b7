package liveness_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/fixtures"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/internal/rewrite"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/lower"
	"github.com/rlxc/rlxc/models"
	"github.com/rlxc/rlxc/onnx"
)

// encoder is the seeded tiny encoder, rewritten, with sizes.
func encoder(t testing.TB, level options.Level, edit func(g *ir.Graph)) *ir.Graph {
	c, ok := models.Lookup("bert-tiny")
	require.True(t, ok)
	m, err := models.Build(c)
	require.NoError(t, err)
	file, err := onnx.New(m, "bert-tiny")
	require.NoError(t, err)
	g, err := lower.Model(file.Proto)
	require.NoError(t, err)
	return finish(t, g, level, edit)
}

// fixture is one of the large models.
func fixture(t testing.TB, name string, level options.Level) *ir.Graph {
	file, err := onnx.Open(fixtures.Model(t, name))
	require.NoError(t, err)
	t.Cleanup(func() { file.Close() })
	g, err := lower.Model(file.Proto)
	require.NoError(t, err)
	return finish(t, g, level, nil)
}

func finish(t testing.TB, g *ir.Graph, level options.Level, edit func(g *ir.Graph)) *ir.Graph {
	_, err := rewrite.Run(t.Context(), g, nil, rewrite.Options{Level: level})
	require.NoError(t, err)
	if edit != nil {
		edit(g)
	}
	b, err := g.Bind(ir.Binding{"batch": 2, "seq": 16}, true)
	require.NoError(t, err)
	return b
}

// tap keeps the result of every LayerNorm by a copy that is an output.
func tap(g *ir.Graph) {
	for _, n := range slices.Clone(g.Nodes) {
		if n.Op.Kind() == ir.KindLayerNorm {
			c, err := g.NewNode(ir.ActCopy{}, n.Outputs[:1])
			if err != nil {
				panic(err)
			}
			g.Nodes = slices.Insert(g.Nodes, slices.Index(g.Nodes, n)+1, c)
			g.Outputs = append(g.Outputs, c.Outputs[0])
		}
	}
	g.OutputNames = nil
}

// packed is an attention over one packed parent, in a layout of axes.
func packed(layout string) string {
	slices := map[string]string{
		"[B,S,3·H·D]": `
			%2 = slice(%1) {starts=[0,0,0],sizes=[2,8,32],steps=[1,1,1]}
			%3 = slice(%1) {starts=[0,0,32],sizes=[2,8,32],steps=[1,1,1]}
			%4 = slice(%1) {starts=[0,0,64],sizes=[2,8,32],steps=[1,1,1]}`,
		"[B,S,3,H,D]": `
			%20 = reshape(%1) {shape=[2,8,3,4,8]}
			%2 = slice(%20) {starts=[0,0,0,0,0],sizes=[2,8,1,4,8],steps=[1,1,1,1,1]}
			%3 = slice(%20) {starts=[0,0,1,0,0],sizes=[2,8,1,4,8],steps=[1,1,1,1,1]}
			%4 = slice(%20) {starts=[0,0,2,0,0],sizes=[2,8,1,4,8],steps=[1,1,1,1,1]}`,
		"[3,B,S,H,D]": `
			%20 = reshape(%1) {shape=[2,8,3,4,8]}
			%21 = transpose(%20) {perm=[2,0,1,3,4]}
			%2 = slice(%21) {starts=[0,0,0,0,0],sizes=[1,2,8,4,8],steps=[1,1,1,1,1]}
			%3 = slice(%21) {starts=[1,0,0,0,0],sizes=[1,2,8,4,8],steps=[1,1,1,1,1]}
			%4 = slice(%21) {starts=[2,0,0,0,0],sizes=[1,2,8,4,8],steps=[1,1,1,1,1]}`,
	}
	if layout == "[B,S,3,D,H]" {
		return `(%0 "x": f32[2,8,96]) {
			%1 "qkv" = cumsum(%0) {axis=1}
			%20 = reshape(%1) {shape=[2,8,3,8,4]}
			%21 = transpose(%20) {perm=[2,0,1,4,3]}
			%2 = slice(%21) {starts=[0,0,0,0,0],sizes=[1,2,8,4,8],steps=[1,1,1,1,1]}
			%3 = slice(%21) {starts=[1,0,0,0,0],sizes=[1,2,8,4,8],steps=[1,1,1,1,1]}
			%4 = slice(%21) {starts=[2,0,0,0,0],sizes=[1,2,8,4,8],steps=[1,1,1,1,1]}
			%5 = reshape(%2) {shape=[2,8,4,8]}
			%6 = reshape(%3) {shape=[2,8,4,8]}
			%7 = reshape(%4) {shape=[2,8,4,8]}`
	}
	return `(%0 "x": f32[2,8,96]) {
		%1 "qkv" = cumsum(%0) {axis=1}` + slices[layout] + `
		%5 = reshape(%2) {shape=[2,8,4,8]}
		%6 = reshape(%3) {shape=[2,8,4,8]}
		%7 = reshape(%4) {shape=[2,8,4,8]}`
}

// direct attends to the parts as they are, cast to copies of them.
const (
	direct = `
		%8 "y" = attention(%5, %6, %7) {scale=0.5}
		%9 "z" = cumsum(%8) {axis=1}
		return %9 }`
	throughCasts = `
		%8 "q" = cast(%5) {to=f64}
		%9 "k" = cast(%6) {to=f64}
		%10 "v" = cast(%7) {to=f64}
		%11 "y" = attention(%8, %9, %10) {scale=0.5}
		%12 "z" = cumsum(%11) {axis=1}
		return %12 }`
)

func graphs(t *testing.T, f func(t *testing.T, g *ir.Graph)) {
	for name, make := range map[string]func(t *testing.T) *ir.Graph{
		"encoder":             func(t *testing.T) *ir.Graph { return encoder(t, rewrite.O2, nil) },
		"tapped encoder":      func(t *testing.T) *ir.Graph { return encoder(t, rewrite.O2, tap) },
		"tapped, not fused":   func(t *testing.T) *ir.Graph { return encoder(t, rewrite.O1, tap) },
		"dynamic int8":        func(t *testing.T) *ir.Graph { return fixture(t, "bert-tiny-int8-dynamic", rewrite.O2) },
		"dynamic int8, as is": func(t *testing.T) *ir.Graph { return fixture(t, "bert-tiny-int8-dynamic", rewrite.O0) },
		"int8 QDQ":            func(t *testing.T) *ir.Graph { return fixture(t, "bert-tiny-int8-qdq", rewrite.O2) },
		"saved by ort":        func(t *testing.T) *ir.Graph { return fixture(t, "bert-tiny-ortfused", rewrite.O2) },
		"packed":              func(t *testing.T) *ir.Graph { return parse(t, packed("[B,S,3·H·D]")+direct) },
		"packed, cast":        func(t *testing.T) *ir.Graph { return parse(t, packed("[B,S,3,H,D]")+throughCasts) },
	} {
		t.Run(name, func(t *testing.T) { f(t, make(t)) })
	}
}
