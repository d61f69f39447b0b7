package programs

import (
	"maps"
	"slices"

	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// Shrink returns a smaller program that fails as p does: with one set of inputs, fewer outputs, and inputs in place of nodes.
func Shrink(p *Program, fails func(*Program) bool) *Program {
	try := func(q *Program) bool {
		if q == nil || !fails(q) {
			return false
		}
		p = q
		return true
	}
	for k := range p.Inputs {
		if len(p.Inputs) > 1 && try(&Program{p.Model, p.Inputs[k : k+1]}) {
			break
		}
	}
	for smaller := true; smaller; {
		smaller = false
		for i := len(p.Model.Graph.Output) - 1; i >= 0 && len(p.Model.Graph.Output) > 1; i-- {
			smaller = try(p.withoutOutput(i)) || smaller
		}
		for i := len(p.Model.Graph.Node) - 1; i >= 0; i-- {
			if i < len(p.Model.Graph.Node) {
				smaller = try(p.withoutNode(i)) || smaller
			}
		}
	}
	return p
}

// changed is a copy of the program with a graph that change may change, without what nothing reads.
func (p *Program) changed(change func(*onnxpb.GraphProto)) *Program {
	m, g := onnx.Shallow(p.Model), onnx.Shallow(p.Model.Graph)
	m.Graph = g
	g.Node, g.Input, g.Output = slices.Clone(g.Node), slices.Clone(g.Input), slices.Clone(g.Output)
	change(g)
	read := map[string]bool{}
	for _, o := range g.Output {
		read[o.Name] = true
	}
	var nodes []*onnxpb.NodeProto
	for _, n := range slices.Backward(g.Node) {
		if slices.ContainsFunc(n.Output, func(y string) bool { return read[y] }) {
			nodes = append(nodes, n)
			for _, x := range reads(n) {
				read[x] = true
			}
		}
	}
	slices.Reverse(nodes)
	g.Node = nodes
	g.Input = slices.DeleteFunc(g.Input, func(v *onnxpb.ValueInfoProto) bool { return !read[v.Name] })
	g.Initializer = slices.DeleteFunc(slices.Clone(g.Initializer), func(t *onnxpb.TensorProto) bool { return !read[t.Name] })
	q := &Program{Model: m}
	for _, in := range p.Inputs {
		in = maps.Clone(in)
		maps.DeleteFunc(in, func(name string, _ *tensor.Tensor) bool { return !read[name] })
		q.Inputs = append(q.Inputs, in)
	}
	return q
}

func (p *Program) withoutOutput(i int) *Program {
	return p.changed(func(g *onnxpb.GraphProto) { g.Output = slices.Delete(g.Output, i, i+1) })
}

// withoutNode makes inputs of a node's results, of the numbers that it returns; where the node cannot run, it goes with what it feeds.
func (p *Program) withoutNode(i int) *Program {
	node := p.Model.Graph.Node[i]
	all := make([]map[string]*tensor.Tensor, len(p.Inputs))
	for k := range p.Inputs {
		values, err := p.Evaluate(k)
		if err != nil {
			return nil
		}
		all[k] = values
	}
	if len(reads(node)) == 0 || len(p.Model.Graph.Node) == 1 {
		return nil
	}
	q := p.changed(func(g *onnxpb.GraphProto) {
		g.Node = slices.Delete(g.Node, i, i+1)
		for _, y := range node.Output {
			g.Output = slices.DeleteFunc(g.Output, func(o *onnxpb.ValueInfoProto) bool { return o.Name == y })
			if v := all[0][y]; v != nil {
				dims := &onnxpb.TensorShapeProto{}
				for _, d := range v.Shape() {
					dims.Dim = append(dims.Dim,
						&onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: int64(d)}})
				}
				g.Input = append(g.Input, &onnxpb.ValueInfoProto{Name: y, Type: tensorType(v.DType(), dims)})
			}
		}
	})
	if len(q.Model.Graph.Output) == 0 {
		return nil
	}
	for k := range q.Inputs {
		for _, v := range q.Model.Graph.Input {
			q.Inputs[k][v.Name] = all[k][v.Name]
		}
	}
	return q
}
