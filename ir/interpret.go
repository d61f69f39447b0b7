package ir

import (
	"context"
	"fmt"
	"maps"

	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/tensor"
)

// An Evaluator runs nodes by Eval. The zero value is ready to use.
type Evaluator struct {
	// Context ends a run between two steps of an Eval; nil never does.
	Context context.Context
	// Memory is the account for results and working memory; nil means one of 16 GiB.
	Memory *memory.Account
	// Call runs a subgraph of n instead of the Evaluator. b holds the sizes known around n and must not be changed.
	Call func(n *Node, subgraph int, in []*tensor.Tensor, b Binding) ([]*tensor.Tensor, error)
}

// defaultMemory is the limit of Evaluators without an account.
const defaultMemory = 16 << 30

// Interpret runs a graph by Eval, node by node. It is the definition with which all other ways to run the graph must agree. Inputs are in
// the graph's order.
func Interpret(g *Graph, inputs []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return new(Evaluator).Graph(g, inputs, Binding{})
}

// EvalNode runs one node with a zero Evaluator.
func EvalNode(n *Node, in []*tensor.Tensor, b Binding) ([]*tensor.Tensor, error) {
	return new(Evaluator).Node(n, in, b)
}

// account is Memory.
func (e *Evaluator) account() *memory.Account {
	if e.Memory == nil {
		e.Memory = &memory.Account{Limit: defaultMemory}
	}
	return e.Memory
}

// Graph runs a graph. b holds sizes that are known beforehand, such as those of values around a subgraph, and gets all others. The
// results stay taken from Memory.
func (e *Evaluator) Graph(g *Graph, inputs []*tensor.Tensor, b Binding) ([]*tensor.Tensor, error) {
	if err := g.BindTensors(inputs, b); err != nil {
		return nil, err
	}
	env := make([]*tensor.Tensor, g.nextID)
	for i, v := range g.Inputs {
		env[v.ID] = inputs[i]
	}
	account := e.account()
	used := account.Used
	value := func(v *Value) *tensor.Tensor {
		switch {
		case v == nil:
			return nil
		case v.Const != nil:
			return v.Const.Aligned()
		}
		return env[v.ID]
	}
	for _, n := range g.Nodes {
		in := make([]*tensor.Tensor, len(n.Inputs))
		for i, v := range n.Inputs {
			in[i] = value(v)
		}
		out, err := e.Node(n, in, b)
		if err != nil {
			return nil, err
		}
		for i, v := range n.Outputs {
			if err := account.Take(out[i].Size()); err != nil {
				return nil, n.Fail(err)
			}
			env[v.ID] = out[i]
		}
	}
	out := make([]*tensor.Tensor, len(g.Outputs))
	account.Give(account.Used - used)
	for i, v := range g.Outputs {
		out[i] = value(v)
		if err := account.Take(out[i].Size()); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Node runs one node by Eval with the sizes of b. It adds to b the sizes of results that depend on data.
func (e *Evaluator) Node(n *Node, in []*tensor.Tensor, b Binding) ([]*tensor.Tensor, error) {
	typed := n.Op.Kind().Has(Typed) // it may have sizes that are known only in this run
	op, err := MapDims(n.Op, func(d Dim) (Dim, error) {
		known, err := b.Number(d)
		if err != nil && typed {
			return d, nil
		}
		return known, err
	})
	if err != nil {
		return nil, n.Fail(err)
	}
	account := e.account()
	empty := true
	for i, v := range n.Outputs {
		bytes, known, err := boundBytes(v.Type, b)
		if err == nil {
			err = account.Fits(bytes)
		}
		if err != nil {
			return nil, n.Fail(fmt.Errorf("result %d: %w", i, err))
		}
		empty = empty && known && bytes == 0
	}
	if empty {
		return emptyResults(n, b)
	}
	out, err := EvalOp(&Env{Context: e.Context, Memory: account, Call: func(subgraph int, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		if subgraph >= len(n.Subgraphs) {
			return nil, fmt.Errorf("it has no subgraph %d", subgraph)
		}
		if e.Call != nil {
			return e.Call(n, subgraph, in, b)
		}
		return e.Graph(n.Subgraphs[subgraph], in, maps.Clone(b))
	}}, op, in)
	if err != nil {
		return nil, n.Fail(err)
	}
	if len(out) != len(n.Outputs) {
		return nil, n.Fail(fmt.Errorf("%d results where the graph has %d", len(out), len(n.Outputs)))
	}
	for i, v := range n.Outputs {
		if err := account.Fits(out[i].Size()); err != nil {
			return nil, n.Fail(fmt.Errorf("result %d: %w", i, err))
		}
		if err := b.learn(v.Type, out[i]); err != nil {
			return nil, n.Fail(fmt.Errorf("result %d: %w", i, err))
		}
	}
	return out, nil
}

// emptyResults returns the results of a node without running it where none has an element. Its operands need not be small then: an
// axis of 2^40 elements beside one of none takes no memory, and much time to walk along.
func emptyResults(n *Node, b Binding) ([]*tensor.Tensor, error) {
	out := make([]*tensor.Tensor, len(n.Outputs))
	for i, v := range n.Outputs {
		shape := make([]int, len(v.Type.Shape))
		for k, d := range v.Type.Shape {
			shape[k], _ = d.Eval(b) // boundBytes knows them all
		}
		out[i] = tensor.New(v.Type.DType, shape...)
	}
	return out, nil
}

// boundBytes is the memory of a result, if its size is known before it exists.
func boundBytes(t Type, b Binding) (bytes int64, known bool, err error) {
	if t.Kind != TensorType || t.Unranked {
		return 0, false, nil
	}
	shape := make(tensor.Shape, len(t.Shape))
	for i, d := range t.Shape {
		n, err := d.Eval(b)
		if err != nil {
			return 0, false, nil // a size that is known only in the run
		}
		shape[i] = n
	}
	n, err := shape.CheckElements(t.DType)
	if err != nil {
		return 0, false, err
	}
	return bytesOf(t.DType, n), true, nil
}

// bytesOf is what n elements take, of strings without their text.
func bytesOf(d tensor.DType, n int) int64 {
	if d == tensor.String {
		return int64(n) * tensor.StringSize
	}
	return int64(d.Bytes(n))
}

// learn checks an actual result against its type and binds the symbols that have no number yet.
func (b Binding) learn(t Type, x *tensor.Tensor) error {
	if err := t.accepts(x); err != nil || t.Kind != TensorType || t.Unranked {
		return err
	}
	for i, d := range t.Shape {
		if name, ok := d.Symbol(); ok {
			if _, known := b[name]; !known {
				b[name] = x.Shape()[i]
			}
		}
		if n, err := d.Eval(b); err != nil || n != x.Shape()[i] {
			return fmt.Errorf("is %s where the graph says %s", x, t)
		}
	}
	return nil
}

// accepts checks kind, element type and rank, of a sequence's elements as well.
func (t Type) accepts(x *tensor.Tensor) error {
	if t.Kind != TensorType {
		if !x.IsSequence() {
			return fmt.Errorf("is %s where %s is wanted", x, t)
		}
		if t.Kind == OptionalType && x.Len() > 1 {
			return fmt.Errorf("an optional has at most one element, not %d", x.Len())
		}
		elems := x.Elems()
		if x.Uniform() { // the first speaks for all
			elems = elems[:min(1, len(elems))]
		}
		for i, e := range elems {
			if err := t.Elem.accepts(e); err != nil {
				return fmt.Errorf("element %d: %w", i, err)
			}
		}
		return nil
	}
	if x.IsSequence() || x.DType() != t.DType || !t.Unranked && x.Rank() != len(t.Shape) {
		return fmt.Errorf("is %s where %s is wanted", x, t)
	}
	return nil
}

// BindTensors is BindInputs over actual tensors.
func (g *Graph) BindTensors(inputs []*tensor.Tensor, b Binding) error {
	if len(inputs) != len(g.Inputs) {
		return fmt.Errorf("%d inputs for a model that takes %d", len(inputs), len(g.Inputs))
	}
	dtypes, shapes := make([]tensor.DType, len(inputs)), make([]tensor.Shape, len(inputs))
	for i, x := range inputs {
		dtypes[i], shapes[i] = x.DType(), x.Shape()
		if t := g.Inputs[i].Type; t.Kind != TensorType || x.IsSequence() {
			if err := t.accepts(x); err != nil {
				return &InputError{g.Inputs[i].Name, err}
			}
		}
	}
	return g.BindInputs(dtypes, shapes, b)
}

// A Memo holds values that Fold evaluated, and counts how many elements it may still evaluate.
type Memo struct {
	known map[*Value]*tensor.Tensor
	left  int // elements
	depth int
}

// NewMemo returns a Memo for that many elements in all.
func NewMemo(elements int) *Memo { return &Memo{known: map[*Value]*tensor.Tensor{}, left: elements} }

// maxFoldDepth bounds the nodes one after the other that one Fold goes through, for the sake of the stack.
const maxFoldDepth = 10_000

// Fold evaluates a value that depends only on constants, through the nodes that make it, if no tensor on the way has more than limit
// elements.
func Fold(v *Value, limit int, memo *Memo) (*tensor.Tensor, bool) {
	if v == nil {
		return nil, true
	}
	if t, ok := v.ContentTensor(); ok {
		return t, t.Len() <= limit
	}
	if t, ok := memo.known[v]; ok {
		return t, t != nil
	}
	n := v.Def
	if n == nil || memo.depth == maxFoldDepth {
		return nil, false
	}
	memo.known[v] = nil
	if n.Op.Kind().Has(Typed) || len(n.Subgraphs) > 0 {
		return nil, false
	}
	need := 0
	for _, o := range n.Outputs {
		s, ok := o.Type.Static()
		if !ok || s.Elements() > limit {
			return nil, false
		}
		need += s.Elements()
	}
	if need > memo.left {
		return nil, false
	}
	memo.depth++
	defer func() { memo.depth-- }()
	in := make([]*tensor.Tensor, len(n.Inputs))
	for i, x := range n.Inputs {
		t, ok := Fold(x, limit, memo)
		if !ok {
			return nil, false
		}
		if t != nil {
			t = t.Aligned()
		}
		in[i] = t
	}
	out, err := EvalNode(n, in, Binding{})
	if err != nil {
		return nil, false // the error belongs to the run, where it has its inputs
	}
	memo.left -= need
	for i, o := range n.Outputs {
		memo.known[o] = out[i]
	}
	return memo.known[v], true
}
