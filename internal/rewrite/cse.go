package rewrite

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// cse merges nodes that compute the same, and constants that are the same, and returns the number of nodes that went away.
// Custom operators stay: a user's kernel may do more than compute.
func cse(g *ir.Graph) int {
	mergeConstants(g)
	seen := map[string][]*ir.Node{}
	dead := map[*ir.Node]bool{}
	for _, n := range g.Nodes {
		if n.Op.Kind().Has(ir.Typed) || len(n.Subgraphs) > 0 {
			continue
		}
		key := nodeKey(n)
		at := slices.IndexFunc(seen[key], func(m *ir.Node) bool { return ir.SameTensors(m.Op, n.Op) })
		if at < 0 {
			seen[key] = append(seen[key], n)
			continue
		}
		first := seen[key][at]
		for i, v := range n.Outputs {
			if first.Outputs[i].Name == "" {
				first.Outputs[i].Name = v.Name
			}
			g.ReplaceAll(v, first.Outputs[i])
		}
		first.Origins = ir.JoinOrigins(first.Origins, n.Origins)
		n.Detach()
		dead[n] = true
	}
	g.Nodes = slices.DeleteFunc(g.Nodes, func(n *ir.Node) bool { return dead[n] })
	return len(dead)
}

// nodeKey is equal for nodes that compute the same: the same op and parameters on the same operands, in any order where
// that does not matter. Of large tensors among the parameters it has the types alone.
func nodeKey(n *ir.Node) string {
	ids := make([]int, len(n.Inputs))
	for i, v := range n.Inputs {
		if ids[i] = -1; v != nil {
			ids[i] = v.ID
		}
	}
	if b, ok := n.Op.(ir.Binary); ok && commutative[b.Fn] {
		slices.Sort(ids)
	}
	var s strings.Builder
	s.WriteString(ir.OpName(n.Op))
	for _, id := range ids {
		s.WriteByte(' ')
		s.WriteString(strconv.Itoa(id))
	}
	s.WriteByte('{')
	s.WriteString(ir.Params(n.Op))
	return s.String()
}

// mergeConstants makes one of small constants with the same content. Exporters write the number 2 once a layer.
func mergeConstants(g *ir.Graph) {
	seen := map[string]*ir.Value{}
	for _, v := range g.Consts() {
		if v.Const == nil || v.Const.DType() == tensor.String || len(v.Const.Bytes()) > tiny {
			continue
		}
		key := fmt.Sprintf("%v %x", v.Type, v.Const.Bytes())
		if first := seen[key]; first != nil {
			g.ReplaceAll(v, first)
			continue
		}
		seen[key] = v
	}
}
