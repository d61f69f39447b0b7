package models

import (
	"fmt"
	"math"

	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// Build makes the model of a configuration: opset 17, IR version 8, dynamic "batch" and "seq". Weights are spread so that
// attention is far from uniform and no bias is zero, unlike those of a freshly initialised model: a wrong kernel shows.
func Build(c Config) (*onnxpb.ModelProto, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	m := &bert{Config: c, builder: builder{graph: &onnxpb.GraphProto{Name: "main_graph"}, float: tensor.F32, seed: c.Seed,
		count: map[string]int{}}}
	if c.Form == FP16 {
		m.float = tensor.F16
	}
	for _, name := range []string{"input_ids", "attention_mask", "token_type_ids"} {
		m.graph.Input = append(m.graph.Input, value(name, tensor.I64, "batch", "seq"))
	}
	m.head()
	p := &onnxpb.ModelProto{
		IrVersion:    8,
		ProducerName: "rlxc",
		OpsetImport:  []*onnxpb.OperatorSetIdProto{{Version: 17}},
		Graph:        m.graph,
	}
	if c.Form == Fused {
		p.OpsetImport = append(p.OpsetImport, &onnxpb.OperatorSetIdProto{Domain: microsoft, Version: 1})
	}
	if form, ok := quantised[c.Form]; ok {
		return quantise(p, c, form)
	}
	return p, nil
}

// A bert builds the modules of Hugging Face's BertModel and its relatives (Devlin et al. 2018), under their names.
type bert struct {
	Config
	builder
}

func (m *bert) head() {
	if m.Head == Encoder {
		hidden := m.encoder()
		m.output(hidden, "last_hidden_state", "batch", "seq", m.Hidden)
		m.output(m.pooler("last_hidden_state"), "pooler_output", "batch", m.Hidden)
		return
	}
	var hidden string
	m.in("bert", func() { hidden = m.encoder() })
	switch m.Head {
	case Tagger:
		m.output(m.linear("classifier", hidden, m.Hidden, m.Labels), "logits", "batch", "seq", m.Labels)
	case Answerer:
		m.answers(hidden)
	case Masked:
		m.output(m.words(hidden), "logits", "batch", "seq", m.Vocabulary)
	case Classifier:
		var pooled string
		m.in("bert", func() { pooled = m.pooler(hidden) })
		m.output(m.gemm("classifier", pooled, m.Hidden, m.Labels), "logits", "batch", m.Labels)
	}
}

// linear is a product with a weight and its bias, as the exporter writes those of rank 3. Its parameters are named after the
// module.
func (m *bert) linear(module, x string, in, out int) (y string) {
	name := m.parameter(module)
	m.in(module, func() {
		w := m.weight(name+".weight", 0, unit(in), in, out)
		y = m.op("Add", []string{m.weight(name+".bias", 0, 0.1, out), m.op("MatMul", []string{x, w})})
	})
	return y
}

// gemm is linear as the exporter writes those of rank 2.
func (m *bert) gemm(module, x string, in, out int) (y string) {
	name := m.parameter(module)
	m.in(module, func() {
		w := m.weight(name+".weight", 0, unit(in), out, in)
		y = m.op("Gemm", []string{x, w, m.weight(name+".bias", 0, 0.1, out)}, float("alpha", 1), float("beta", 1), integer("transB", 1))
	})
	return y
}

func (m *bert) layerNorm(module, x string) (y string) {
	name := m.parameter(module)
	m.in(module, func() {
		y = m.op("LayerNormalization", []string{x, m.weight(name+".weight", 1, 0.2, m.Hidden), m.weight(name+".bias", 0, 0.1, m.Hidden)},
			integer("axis", -1), float("epsilon", 1e-12))
	})
	return y
}

// parameter is the name of a parameter's module: the scope with dots.
func (m *bert) parameter(module string) string {
	scope := []byte(m.scope + "/" + module)[1:]
	for i, c := range scope {
		if c == '/' {
			scope[i] = '.'
		}
	}
	return string(scope)
}

func (m *bert) encoder() (hidden string) {
	if m.Form == Fused {
		return m.fusedEncoder()
	}
	m.in("embeddings", func() { hidden = m.embeddings() })
	mask := m.mask()
	m.in("encoder", func() {
		for i := range m.Layers {
			m.in(fmt.Sprintf("layer.%d", i), func() { hidden = m.layer(hidden, mask) })
		}
	})
	return hidden
}

func (m *bert) embeddings() string {
	ids := m.op("Shape", []string{"input_ids"})
	length := m.op("Gather", []string{ids, m.index(1)}, integer("axis", 0))
	positions := tensor.New(tensor.I64, 1, m.Positions)
	for i := range m.Positions {
		tensor.Of[int64](positions)[i] = int64(i)
	}
	table := m.constant(positions)
	first, step, axis := m.axes(0), m.axes(1), m.axes(1)
	end := m.op("Unsqueeze", []string{length, m.axes(0)})
	slice := m.op("Slice", []string{table, first, end, axis, step})

	words := m.lookup("word_embeddings", m.Vocabulary, "input_ids")
	types := m.lookup("token_type_embeddings", m.Types, "token_type_ids")
	sum := m.op("Add", []string{words, types})
	embeddings := m.lookup("position_embeddings", m.Positions, slice)
	return m.layerNorm("LayerNorm", m.op("Add", []string{sum, embeddings}))
}

// lookup reads rows of a table, whose spread suits the language model head, which multiplies by the table of words.
func (m *bert) lookup(module string, rows int, ids string) (y string) {
	name := m.parameter(module)
	m.in(module, func() { y = m.op("Gather", []string{m.weight(name+".weight", 0, unit(m.Hidden), rows, m.Hidden), ids}) })
	return y
}

// mask turns 1 (attend) and 0 (padding) into what is added to the scores: 0 and the lowest float32, [B,1,1,S].
func (m *bert) mask() string {
	rows := m.op("Unsqueeze", []string{"attention_mask", m.axes(1)})
	keys := m.op("Unsqueeze", []string{rows, m.axes(2)})
	attend := m.op("Cast", []string{keys}, integer("to", int64(m.float)))
	padding := m.op("Sub", []string{m.scalar(1), attend})
	return m.op("Mul", []string{padding, m.scalar(-math.MaxFloat32)})
}

func (m *bert) layer(x, mask string) string {
	m.in("attention", func() {
		var context string
		m.in("self", func() { context = m.attention(x, mask) })
		m.in("output", func() {
			x = m.layerNorm("LayerNorm", m.op("Add", []string{m.linear("dense", context, m.Hidden, m.Hidden), x}))
		})
	})
	var inner string
	m.in("intermediate", func() {
		inner = m.linear("dense", x, m.Hidden, m.Intermediate)
		m.in("intermediate_act_fn", func() { inner = m.gelu(inner) })
	})
	m.in("output", func() {
		x = m.layerNorm("LayerNorm", m.op("Add", []string{m.linear("dense", inner, m.Intermediate, m.Hidden), x}))
	})
	return x
}

// attention is scaled dot-product attention over heads, before the output projection.
func (m *bert) attention(x, mask string) string {
	batch := m.op("Gather", []string{m.op("Shape", []string{x}), m.index(0)}, integer("axis", 0))
	seq := m.op("Gather", []string{m.op("Shape", []string{x}), m.index(1)}, integer("axis", 0))
	size := int64(m.Hidden / m.Heads)
	// shape is [batch, seq, tail...], put together from what is known at run time.
	shape := func(tail ...int64) string {
		parts := []string{m.op("Unsqueeze", []string{batch, m.axes(0)}), m.op("Unsqueeze", []string{seq, m.axes(0)})}
		for _, n := range tail {
			parts = append(parts, m.axes(n))
		}
		return m.op("Concat", parts, integer("axis", 0))
	}
	split := func(module string) string {
		y := m.linear(module, x, m.Hidden, m.Hidden)
		return m.op("Reshape", []string{y, shape(int64(m.Heads), size)}, integer("allowzero", 0))
	}
	query := m.op("Transpose", []string{split("query")}, ints("perm", 0, 2, 1, 3))
	keys := split("key")
	values := m.op("Transpose", []string{split("value")}, ints("perm", 0, 2, 1, 3))
	keys = m.op("Transpose", []string{keys}, ints("perm", 0, 2, 3, 1))
	scores := m.op("MatMul", []string{query, keys})
	scores = m.op("Div", []string{scores, m.scalar(float32(math.Sqrt(float64(size))))})
	weights := m.op("Softmax", []string{m.op("Add", []string{scores, mask})}, integer("axis", -1))
	context := m.op("Transpose", []string{m.op("MatMul", []string{weights, values})}, ints("perm", 0, 2, 1, 3))
	return m.op("Reshape", []string{context, shape(int64(m.Hidden))}, integer("allowzero", 0))
}

// gelu is x·½·(1 + erf(x/√2)) in the exporter's order.
func (m *bert) gelu(x string) string {
	scaled := m.op("Div", []string{x, m.scalar(math.Sqrt2)})
	sum := m.op("Add", []string{m.op("Erf", []string{scaled}), m.scalar(1)})
	return m.op("Mul", []string{m.op("Mul", []string{x, sum}), m.scalar(0.5)})
}

// pooler is a dense layer and tanh over the first position.
func (m *bert) pooler(hidden string) (y string) {
	m.in("pooler", func() {
		first := m.op("Gather", []string{hidden, m.index(0)}, integer("axis", 1))
		y = m.gemm("dense", first, m.Hidden, m.Hidden)
		m.in("activation", func() { y = m.op("Tanh", []string{y}) })
	})
	return y
}

func (m *bert) answers(hidden string) {
	both := m.linear("qa_outputs", hidden, m.Hidden, 2)
	split := m.ops(2, "Split", []string{both, m.axes(1, 1)}, integer("axis", -1))
	for i, name := range []string{"start_logits", "end_logits"} {
		m.output(m.op("Squeeze", []string{split[i], m.axes(-1)}), name, "batch", "seq")
	}
}

// words is BERT's language model head: a dense layer, and a product with the table of words itself.
func (m *bert) words(hidden string) (y string) {
	m.in("cls", func() {
		m.in("predictions", func() {
			m.in("transform", func() {
				y = m.linear("dense", hidden, m.Hidden, m.Hidden)
				m.in("transform_act_fn", func() { y = m.gelu(y) })
				y = m.layerNorm("LayerNorm", y)
			})
			name := m.parameter("decoder")
			m.in("decoder", func() {
				table := m.op("Transpose", []string{"bert.embeddings.word_embeddings.weight"}, ints("perm", 1, 0))
				y = m.op("Add", []string{m.weight(name+".bias", 0, 0.1, m.Vocabulary), m.op("MatMul", []string{y, table})})
			})
		})
	})
	return y
}
