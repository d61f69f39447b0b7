package models

import (
	"fmt"

	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// microsoft is the domain of onnxruntime's own operators.
const microsoft = "com.microsoft"

// contrib adds a node of onnxruntime's own and returns its first output.
func (m *bert) contrib(outputs int, op string, inputs []string, attributes ...*onnxpb.AttributeProto) string {
	y := m.ops(outputs, op, inputs, attributes...)
	m.graph.Node[len(m.graph.Node)-1].Domain = microsoft
	return y[0]
}

// fusedEncoder is the encoder of the same weights in onnxruntime's own operators.
func (m *bert) fusedEncoder() (hidden string) {
	narrow := func(input string) string { return m.op("Cast", []string{input}, integer("to", int64(tensor.I32))) }
	mask := narrow("attention_mask")
	m.in("embeddings", func() {
		inputs := []string{narrow("input_ids"), narrow("token_type_ids")}
		for _, table := range []struct {
			name string
			rows int
		}{{"word_embeddings", m.Vocabulary}, {"position_embeddings", m.Positions}, {"token_type_embeddings", m.Types}} {
			inputs = append(inputs, m.weight(m.parameter(table.name)+".weight", 0, unit(m.Hidden), table.rows, m.Hidden))
		}
		inputs = append(inputs, m.norm("LayerNorm")...)
		hidden = m.contrib(2, "EmbedLayerNormalization", inputs, float("epsilon", 1e-12))
	})
	m.in("encoder", func() {
		for i := range m.Layers {
			m.in(fmt.Sprintf("layer.%d", i), func() { hidden = m.fusedLayer(hidden, mask) })
		}
	})
	return hidden
}

// norm makes the weight and bias of a normalisation.
func (m *bert) norm(module string) []string {
	name := m.parameter(module)
	return []string{m.weight(name+".weight", 1, 0.2, m.Hidden), m.weight(name+".bias", 0, 0.1, m.Hidden)}
}

// dense makes the weight of a product and its bias.
func (m *bert) dense(module string, in, out int) (weight, bias string) {
	name := m.parameter(module)
	return m.weight(name+".weight", 0, unit(in), in, out), m.weight(name+".bias", 0, 0.1, out)
}

func (m *bert) fusedLayer(x, mask string) string {
	// residual ends a block: a product, whose bias goes into the sum that is normalised.
	residual := func(inner, x string, size int) (y string) {
		m.in("output", func() {
			w, bias := m.dense("dense", size, m.Hidden)
			y = m.op("MatMul", []string{inner, w})
			y = m.contrib(1, "SkipLayerNormalization", append(append([]string{y, x}, m.norm("LayerNorm")...), bias),
				float("epsilon", 1e-12))
		})
		return y
	}
	m.in("attention", func() {
		var context string
		m.in("self", func() {
			w, bias := m.packed("query", "key", "value")
			context = m.contrib(1, "Attention", []string{x, w, bias, mask}, integer("num_heads", int64(m.Heads)))
		})
		x = residual(context, x, m.Hidden)
	})
	var inner string
	m.in("intermediate", func() {
		w, bias := m.dense("dense", m.Hidden, m.Intermediate)
		inner = m.contrib(1, "BiasGelu", []string{m.op("MatMul", []string{x, w}), bias})
	})
	return residual(inner, x, m.Intermediate)
}

// packed makes the weights of several products of one value side by side, [Hidden,parts·Hidden].
func (m *bert) packed(modules ...string) (weight, bias string) {
	h, parts := m.Hidden, len(modules)
	w, b := tensor.New(tensor.F32, h, parts*h), tensor.New(tensor.F32, parts*h)
	for i, module := range modules {
		name := m.parameter(module)
		from := tensor.Of[float32](m.numbers(name+".weight", 0, unit(h), h, h))
		for row := range h {
			copy(tensor.Of[float32](w)[(row*parts+i)*h:], from[row*h:(row+1)*h])
		}
		copy(tensor.Of[float32](b)[i*h:], tensor.Of[float32](m.numbers(name+".bias", 0, 0.1, h)))
	}
	scope := m.parameter("qkv")
	return m.initializer(scope+".weight", w), m.initializer(scope+".bias", b)
}
