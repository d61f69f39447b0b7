package engine

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/ir"
)

// ports are the inputs of a stage and then its outputs; nil if none is in a device tensor.
type ports []port

// A port is an input or output of a stage.
type port struct {
	outside bool // its memory is that of a device tensor
	axis    int  // on which it grows, −1 if it does not
	alone   bool // nothing else reads it
}

func (p ports) at(i int) port {
	if len(p) == 0 {
		return port{axis: -1}
	}
	return p[i]
}

// key distinguishes ports in a cacheKey.
func (p ports) key() string {
	if len(p) == 0 {
		return ""
	}
	return fmt.Sprint([]port(p))
}

// of returns the values of the ports that are outside of the arena.
func (p ports) of(g *ir.Graph) (values []*ir.Value) {
	for i, v := range slices.Concat(g.Inputs, g.Outputs) {
		if p.at(i).outside {
			values = append(values, v)
		}
	}
	return values
}

// inputs returns the symbolic types of a graph's inputs, with the axis in front on which an input grows.
func (p ports) inputs(g *ir.Graph) []ir.Type {
	types := make([]ir.Type, len(g.Inputs))
	for i, v := range g.Inputs {
		types[i] = v.Type
		if axis := p.at(i).axis; axis >= 0 {
			types[i].Shape = permuted(v.Type.Shape, front(axis, len(v.Type.Shape)))
		}
	}
	return types
}

// growing returns how many ports grow.
func (p ports) growing() (n int) {
	for i := range p {
		if p.at(i).axis >= 0 {
			n++
		}
	}
	return n
}

// only returns the ports with those outside of the arena limited to the values for which among is true.
func (p ports) only(g *ir.Graph, among func(*ir.Value) bool) ports {
	left := slices.Clone(p)
	for i, v := range slices.Concat(g.Inputs, g.Outputs) {
		if p.at(i).outside && !among(v) {
			left[i] = port{axis: -1}
		}
	}
	return left
}
