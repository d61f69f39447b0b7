package onnx

import (
	"iter"

	"github.com/rlxc/rlxc/onnx/onnxpb"
)

// tensors yields every tensor of a model: weights, attributes, the parts of sparse tensors, in the graph, its bodies, its
// functions and the training graphs.
func tensors(m *onnxpb.ModelProto) iter.Seq[*onnxpb.TensorProto] {
	return func(yield func(*onnxpb.TensorProto) bool) {
		w := tensorWalk{yield}
		ok := w.graph(m.Graph)
		for _, f := range m.Functions {
			ok = ok && w.nodes(f.Node) && w.attributes(f.AttributeProto)
		}
		for _, t := range m.TrainingInfo {
			ok = ok && w.graph(t.Initialization) && w.graph(t.Algorithm)
		}
	}
}

// A tensorWalk visits tensors until yield returns false; each method reports whether to continue.
type tensorWalk struct {
	yield func(*onnxpb.TensorProto) bool
}

func (w tensorWalk) graph(g *onnxpb.GraphProto) bool {
	return each(g.GetInitializer(), w.tensor) && each(g.GetSparseInitializer(), w.sparse) && w.nodes(g.GetNode())
}

func (w tensorWalk) nodes(nodes []*onnxpb.NodeProto) bool {
	return each(nodes, func(n *onnxpb.NodeProto) bool { return w.attributes(n.Attribute) })
}

func (w tensorWalk) attributes(attributes []*onnxpb.AttributeProto) bool {
	return each(attributes, func(a *onnxpb.AttributeProto) bool {
		return w.tensor(a.T) && each(a.Tensors, w.tensor) &&
			w.sparse(a.SparseTensor) && each(a.SparseTensors, w.sparse) &&
			w.graph(a.G) && each(a.Graphs, w.graph)
	})
}

func (w tensorWalk) sparse(s *onnxpb.SparseTensorProto) bool {
	return w.tensor(s.GetValues()) && w.tensor(s.GetIndices())
}

func (w tensorWalk) tensor(t *onnxpb.TensorProto) bool { return t == nil || w.yield(t) }

// each visits a list until visit returns false.
func each[T any](list []T, visit func(T) bool) bool {
	for _, x := range list {
		if !visit(x) {
			return false
		}
	}
	return true
}
