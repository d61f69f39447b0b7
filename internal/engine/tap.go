package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rlxc/rlxc/internal/spelling"
	"github.com/rlxc/rlxc/ir"
)

// AllValues is the tap of every value that has a name in the model and that rewriting leaves.
const AllValues = "*"

// TapAll makes every named result of a node of g an output of g, after those of the model and in the order of the
// nodes. Names that the model uses twice, inside functions, are marked once.
func TapAll(g *ir.Graph) {
	given := map[string]bool{}
	for _, name := range g.OutputNames {
		given[name] = true
	}
	for _, n := range g.Nodes {
		for _, v := range n.Outputs {
			if v.Name == "" || given[v.Name] || v.Type.Kind != ir.TensorType {
				continue
			}
			given[v.Name] = true
			g.Outputs = append(g.Outputs, v)
			g.OutputNames = append(g.OutputNames, v.Name)
		}
	}
}

// tap makes the named values outputs of g, after those of the model, each through a separate copy. No rewrite removes a
// copy or looks through it, so that the value is computed whatever the level; fusions that would have swallowed it do not
// happen. Names of outputs stand for these outputs.
func tap(g *ir.Graph, names []string) error {
	for _, name := range names {
		if name == AllValues || slices.Contains(g.OutputNames, name) {
			continue
		}
		v := FindValue(g, name)
		if v == nil {
			return WithKind(ErrInput, fmt.Errorf("the model computes no value %q to tap; the nearest names are %s", name,
				strings.Join(nearest(g, name), ", ")))
		}
		copied, err := g.NewNode(ir.ActCopy{}, []*ir.Value{v}, "tap "+name)
		if err != nil {
			return err
		}
		at := slices.Index(g.Nodes, v.Def) + 1 // an input has no node
		g.Nodes = slices.Insert(g.Nodes, at, copied)
		g.Outputs = append(g.Outputs, copied.Outputs[0])
		g.OutputNames = append(g.OutputNames, name)
	}
	return nil
}

// Tappable calls visit with every tensor of g that has a name and is not a constant until visit says that it is done.
func Tappable(g *ir.Graph, visit func(*ir.Value) (done bool)) {
	for _, v := range g.Inputs {
		if visit(v) {
			return
		}
	}
	for _, n := range g.Nodes {
		for _, v := range n.Outputs {
			if v.Name != "" && v.Type.Kind == ir.TensorType && visit(v) {
				return
			}
		}
	}
}

// FindValue returns the tensor of that name that is not a constant; nil if there is none.
func FindValue(g *ir.Graph, name string) (found *ir.Value) {
	Tappable(g, func(v *ir.Value) bool {
		if v.Name == name {
			found = v
		}
		return found != nil
	})
	return found
}

// nearest lists the few names that take the fewest edits to become the given one, quoted.
func nearest(g *ir.Graph, name string) []string {
	const few = 3
	type near struct {
		name  string
		edits int
	}
	var all []near
	Tappable(g, func(v *ir.Value) bool {
		all = append(all, near{strconv.Quote(v.Name), spelling.Distance(v.Name, name)})
		return false
	})
	slices.SortStableFunc(all, func(a, b near) int { return cmp.Compare(a.edits, b.edits) })
	var names []string
	for _, n := range all[:min(few, len(all))] {
		names = append(names, n.name)
	}
	return names
}
