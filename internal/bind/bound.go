package bind

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/planner"
)

// A Bound is a planned graph at some sizes. It is immutable: a Bound of other sizes has copies of all nodes and of all values that may
// differ, with the same IDs and in the same order.
type Bound struct {
	Sizes   ir.Binding       // the numbers of the symbols
	Planned *backend.Planned // what the device runs
	// Made are the steps that differ from those of the Bound before it, in the graph's order; all steps if there was none.
	Made []int
	// Held are values that are read after the last step, besides the graph's outputs.
	Held []*ir.Value
	// Flops is the number of operations of the products of a run; it saturates.
	Flops int64
	// Host is the number of bytes that the hungriest step on the host allocates for its results beside the arena.
	Host int64
	// Replanned reports whether no stack fitted, so that the planner made the offsets.
	Replanned bool

	values []*ir.Value // all values, indexed by ID
	folded []*ir.Node  // the nodes of Plan.folded, whose results are constants of these sizes
	flops  []int64     // operations of each node that is a product, indexed as Graph.Nodes
}

// Value returns the value with an ID of the planned graph.
func (b *Bound) Value(id int) *ir.Value { return b.values[id] }

// Memory returns the bytes of the arena and of buffers outside of it. A run needs Host besides.
func (b *Bound) Memory() int64 { return b.memoryOf(b.Planned.Plan) }

func (b *Bound) memoryOf(plan *planner.Plan) int64 {
	bytes := plan.Committed
	for _, u := range plan.Unplanned {
		bytes += b.Planned.Problem.Buffers[u.Buffer].Size
	}
	return bytes
}

// Moves reports whether the content of a constant depends on the sizes.
func (b *Bound) Moves(constant *ir.Value) bool {
	return slices.ContainsFunc(b.folded, func(n *ir.Node) bool { return slices.Contains(n.Outputs, constant) })
}

// ConstantBytes is the number of bytes of the constants that depend on the sizes.
func (b *Bound) ConstantBytes() (sum int64) {
	for _, n := range b.folded {
		for _, v := range n.Outputs {
			sum += int64(len(v.Const.Bytes()))
		}
	}
	return sum
}

// An Unfit is a decision of a plan that does not hold at some sizes.
type Unfit struct {
	Node     *ir.Node // node whose decision does not hold; nil for a decision of the whole graph
	Decision string   // what does not hold
}

// Error names the decision and the node.
func (u *Unfit) Error() string {
	if u.Node == nil {
		return "another plan is needed: " + u.Decision
	}
	return fmt.Sprintf("another plan is needed: %s at node %s", u.Decision, u.Node.Label())
}

// A stack gives offsets at any sizes. Where it was made, the ratio of its arena to the lower bound was ratio.
type stack struct {
	*planner.Stack
	ratio float64
}

// mostStacks bounds the stacks of a plan.
const mostStacks = 8
