package lower

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TestStoredWeights: codes of weights stay in sight of the node that reads them, with scales for the axis that theirs has become; where
// scales are for no axis of the view, the weights are constants of floats.
func TestStoredWeights(t *testing.T) {
	codes := func(s *sketch, shape ...int) string {
		w := tensor.New(tensor.I8, shape...)
		for i := range w.Len() {
			w.SetInt64(i, int64(i%7-3))
		}
		return s.constant(w)
	}
	scales := func(s *sketch, shape ...int) string {
		w := tensor.New(tensor.F32, shape...)
		for i := range w.Len() {
			w.SetFloat64(i, float64(i+1))
		}
		return s.constant(w)
	}
	for _, c := range []struct {
		name        string
		build       func(s *sketch) string
		kind        ir.Kind
		axis, block int // −1: no codes are left
	}{
		{"by outputs", func(s *sketch) string {
			w := s.node("DequantizeLinear", codes(s, 6, 4, 3), scales(s, 6), intAttr("axis", 0))
			return s.node("Conv", s.input("x", tensor.F32, 1, 4, 9), w)
		}, ir.KindConv, 2, 0},
		{"in blocks of inputs", func(s *sketch) string {
			w := s.node("DequantizeLinear", codes(s, 6, 4, 3), scales(s, 6, 2, 3), intAttr("axis", 1), intAttr("block_size", 2))
			return s.node("Conv", s.input("x", tensor.F32, 1, 4, 9), w)
		}, ir.KindConv, 1, 2},
		{"of a product", func(s *sketch) string {
			w := s.node("DequantizeLinear", codes(s, 6, 4, 1), scales(s, 6, 2, 1), intAttr("axis", 1), intAttr("block_size", 2))
			return s.node("Conv", s.input("x", tensor.F32, 1, 4, 9), w)
		}, ir.KindMatMul, 1, 2},
		{"of a product whose columns are more than channels", func(s *sketch) string {
			w := s.node("DequantizeLinear", codes(s, 6, 4, 3), scales(s, 4), intAttr("axis", 1))
			return s.node("Conv", s.input("x", tensor.F32, 1, 4, 9), w, intsAttr("strides", 3))
		}, ir.KindMatMul, -1, 0},
		{"transposed", func(s *sketch) string {
			w := s.node("DequantizeLinear", codes(s, 4, 6, 3), scales(s, 6), intAttr("axis", 1))
			return s.node("ConvTranspose", s.input("x", tensor.F32, 1, 8, 9), w, intAttr("group", 2), intsAttr("strides", 2))
		}, ir.KindConv, -2, 0}, // there are four input channels for eight: refused
		{"transposed in groups", func(s *sketch) string {
			w := s.node("DequantizeLinear", codes(s, 8, 6, 3), scales(s, 6), intAttr("axis", 1))
			return s.node("ConvTranspose", s.input("x", tensor.F32, 1, 8, 9), w, intAttr("group", 2), intsAttr("strides", 2))
		}, ir.KindConv, 2, 0},
		{"transposed by inputs", func(s *sketch) string {
			w := s.node("DequantizeLinear", codes(s, 8, 6, 3), scales(s, 8), intAttr("axis", 0))
			return s.node("ConvTranspose", s.input("x", tensor.F32, 1, 8, 9), w, intsAttr("strides", 2))
		}, ir.KindConv, -1, 0},
		{"transposed side by side", func(s *sketch) string {
			w := s.node("DequantizeLinear", codes(s, 8, 6, 2), scales(s, 6), intAttr("axis", 1))
			return s.node("ConvTranspose", s.input("x", tensor.F32, 1, 8, 9), w, intsAttr("strides", 2))
		}, ir.KindMatMul, 1, 0},
		{"recurrent", func(s *sketch) string {
			w := s.node("DequantizeLinear", codes(s, 1, 16, 3), scales(s, 16), intAttr("axis", 1))
			r := s.node("DequantizeLinear", codes(s, 1, 16, 4), scales(s, 16), intAttr("axis", 1))
			return s.node("LSTM", s.input("x", tensor.F32, 5, 2, 3), w, r, intAttr("hidden_size", 4))
		}, ops.LSTM{}.Kind(), 1, 0},
	} {
		s := &sketch{}
		g, err := s.lower(21, c.build(s))
		if c.axis == -2 {
			require.Error(t, err, c.name)
			continue
		}
		require.NoError(t, err, c.name)
		found := false
		for _, n := range g.Nodes {
			if n.Op.Kind() != c.kind {
				continue
			}
			found = true
			w := n.Inputs[1]
			if c.axis < 0 {
				require.Nil(t, dequantizes(w), c.name)
				continue
			}
			o := dequantizes(w)
			require.NotNil(t, o, c.name)
			require.Equal(t, ir.Dequantize{To: tensor.F32, Axis: c.axis, Block: c.block}, *o, c.name)
		}
		require.True(t, found, c.name)
	}
}

// dequantizes is the op that makes a value of codes, or nil.
func dequantizes(v *ir.Value) *ir.Dequantize {
	if v.Def == nil {
		return nil
	}
	if o, ok := v.Def.Op.(ir.Dequantize); ok {
		return &o
	}
	return nil
}

// TestRecurrentRefuses: directions, sizes and layouts that contradict the weights; and what is read of those that do not.
func TestRecurrentRefuses(t *testing.T) {
	lower := func(opset int, shape []int, attrs ...any) (*ir.Graph, error) {
		s := &sketch{}
		w, r := s.constant(tensor.New(tensor.F32, shape...)), s.constant(tensor.New(tensor.F32, shape...))
		return s.lower(opset, s.node("RNN", append([]any{s.input("x", tensor.F32, 5, 2, 4), w, r}, attrs...)...))
	}
	for text, build := range map[string]func() (*ir.Graph, error){
		`direction "sideways"`:        func() (*ir.Graph, error) { return lower(17, []int{1, 4, 4}, stringAttr("direction", "sideways")) },
		"recurrent weights f32[4,4]":  func() (*ir.Graph, error) { return lower(17, []int{4, 4}) },
		"for hidden_size 5":           func() (*ir.Graph, error) { return lower(17, []int{1, 4, 4}, intAttr("hidden_size", 5)) },
		"layout":                      func() (*ir.Graph, error) { return lower(17, []int{1, 4, 4}, intAttr("layout", 2)) },
		"attribute layout is unknown": func() (*ir.Graph, error) { return lower(13, []int{1, 4, 4}, intAttr("layout", 1)) },
		"is not above 0":              func() (*ir.Graph, error) { return lower(17, []int{1, 4, 4}, floatAttr("clip", -1)) },
	} {
		_, err := build()
		require.ErrorContains(t, err, text)
	}
	for _, direction := range []string{"forward", "reverse", "bidirectional"} {
		directions := 1
		if direction == "bidirectional" {
			directions = 2
		}
		g, err := lower(17, []int{directions, 4, 4}, stringAttr("direction", direction), intAttr("layout", 1))
		require.NoError(t, err, direction)
		r := g.Nodes[len(g.Nodes)-1].Op.(ops.RNN).Recurrent
		require.Equal(t, []any{direction == "reverse", direction == "bidirectional", true, 4},
			[]any{r.Reverse, r.Bidirectional, r.BatchFirst, r.Hidden}, direction)
	}
}
