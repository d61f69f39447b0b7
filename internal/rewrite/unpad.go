package rewrite

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// unpad removes the padding of sequences from a graph: what was computed for every position of [batch,seq,…] is computed for the tokens
// [1,tokens,…] that the attention mask keeps. It is right where tokens meet nowhere but in attention that the mask keeps from
// seeing padding, in sums over tokens that the mask has made 0 there, and not at all where a head reads the first token.
//
// The proof goes through the graph once and notes what becomes of every node that a packed value reaches (plan). Only when all of them
// have a rule, and every output can be computed, does the graph change. Otherwise it stays as it was, and why names the
// node in the way.
func unpad(g *ir.Graph, t *target.Target, exact bool) (count int, why string) {
	u := &unpadding{g: g, t: t, gone: weakFills, plans: map[*ir.Node]*packedNode{}, dropped: map[*ir.Node]bool{},
		types: map[*ir.Value]ir.Type{}, late: map[*ir.Value]bool{},
		zero: map[*ir.Value]bool{}, masks: map[*ir.Value]*maskValue{}, unmasked: map[*ir.Value]*ir.Value{}, made: map[*ir.Value]*ir.Value{}}
	if exact {
		u.gone = lowestFills
	}
	if why := u.prove(); why != "" {
		for _, n := range slices.Backward(u.drafts) {
			n.Detach()
		}
		return 0, why
	}
	u.commit()
	return len(u.plans), ""
}

// unpadding is the state of the pass.
type unpadding struct {
	g    *ir.Graph
	t    *target.Target
	gone fills

	mask               *ir.Value // the input
	hidesQueries       bool      // an attention's mask also reports what padding sees
	readsFirst         bool      // a head reads the first token
	batch, seq, tokens ir.Dim
	positions          int // number of positions for which the model has vectors; 0 for any number

	plans    map[*ir.Node]*packedNode
	dropped  map[*ir.Node]bool     // nodes that disappear, because attention computes their results itself
	types    map[*ir.Value]ir.Type // packed type of each packed value
	late     map[*ir.Value]bool    // values that depend on packed values and keep their form: one element or vector for each text
	zero     map[*ir.Value]bool    // packed values that are 0 where the mask is
	masks    map[*ir.Value]*maskValue
	unmasked map[*ir.Value]*ir.Value // value of each mask if all tokens are unmasked
	drafts   []*ir.Node              // nodes that compute the values of unmasked
	packed   []*ir.Value             // operands of Pack after the mask

	pack *ir.Node
	list []*ir.Node
	made map[*ir.Value]*ir.Value // the packed form of values
}

// A reading is what becomes of an operand.
type reading uint8

const (
	asItIs       reading = iota // it is the same for all tokens, or one for each text
	asTokens                    // packed
	asPositions                 // a row for each position: the tokens' are gathered
	asFirst                     // the first token of each text, [batch,1,…]
	asFirstBatch                // one for each text, [batch,1,…], as [1,batch,…]
)

// A packedNode is a node as it will be: how it reads its operands, and its sizes.
type packedNode struct {
	n        *ir.Node
	op       ir.Op
	readings []reading
	packs    map[int]int       // the result of Pack that becomes operand i, for some i
	swaps    map[int]*ir.Value // the value that replaces operand i, for some i; nil removes the operand
	relative []relativeScores  // scores by relative position that attention adds
	// pulled keeps the original node beside the packed one, for readers that are not packed.
	pulled bool
	// restores reports that the result is not packed: after a reshape it has its original form, one element or vector for each text.
	restores bool
}

// prove plans everything, or returns why padding stays.
func (u *unpadding) prove() string {
	at := slices.IndexFunc(u.g.Nodes, isAttention)
	if at < 0 {
		return "the model has no attention"
	}
	if why := u.findMask(); why != "" {
		return fmt.Sprintf("node %s: its mask: %s", u.g.Nodes[at].Label(), why)
	}
	inner := u.maskNodes()
	for _, n := range u.g.Nodes {
		reached := slices.ContainsFunc(n.Inputs,
			func(v *ir.Value) bool { return v != nil && (u.isPacked(v) || u.late[v] || u.dropped[v.Def]) })
		if reached && inner[n] {
			u.dropped[n] = true
			continue
		}
		packs := slices.ContainsFunc(n.Inputs, func(v *ir.Value) bool { return v != nil && u.isPacked(v) })
		if reached && !packs && !ranges(n) {
			for _, v := range n.Outputs {
				u.late[v] = true
			}
		}
		if !packs && !(reached && ranges(n)) && !u.entry(n) {
			continue
		}
		if bad, why := u.plan(n); why != "" {
			return fmt.Sprintf("node %s: %s: %s", n.Label(), describe(bad), why)
		}
	}
	for i, v := range u.g.Outputs {
		if t := u.types[v]; u.isPacked(v) && (u.isFlat(t) || v.Type.DType == tensor.String) {
			return fmt.Sprintf("output %q: it is %v, which has no tokens", u.g.OutputNames[i], v.Type)
		}
	}
	for n, p := range u.plans {
		if isAttention(n) && p.packs != nil {
			return ""
		}
	}
	return "no attention has tokens that a mask keeps from padding"
}

// ranges reports whether the result of a node follows from the range of a whole operand.
func ranges(n *ir.Node) bool {
	op, ok := n.Op.(ir.QMatMul)
	return ok && op.Dynamic(n.Inputs) || n.Op.Kind() == ir.KindDynamicQuantize
}

// isPacked reports whether a value will be packed and nothing else.
func (u *unpadding) isPacked(v *ir.Value) bool {
	return v.Def != nil && u.planned(v.Def) && !u.plans[v.Def].restores
}

// planned reports whether a node will be another.
func (u *unpadding) planned(n *ir.Node) bool { return u.plans[n] != nil && !u.plans[n].pulled }

// isFlat reports whether packed values have one axis of tokens, [tokens,…], instead of [1,tokens,…].
func (u *unpadding) isFlat(t ir.Type) bool { return t.Shape[0].Equal(u.tokens) }

// lead is the number of leading axes for sequences and tokens: 2 for [batch,seq,…], 1 for [batch·seq,…], 0 for neither.
func (u *unpadding) lead(s ir.Shape) int {
	switch {
	case len(s) > 1 && s[0].Equal(u.batch) && s[1].Equal(u.seq) && u.free(s[2:]):
		return 2
	case len(s) > 0 && s[0].Equal(u.batch.Mul(u.seq)) && u.free(s[1:]):
		return 1
	}
	return 0
}

// free reports whether sizes are independent of sequences and tokens.
func (u *unpadding) free(s ir.Shape) bool {
	set := map[string]bool{}
	for _, d := range s {
		d.Symbols(set)
	}
	b, _ := u.batch.Symbol()
	q, _ := u.seq.Symbol()
	return !set[b] && !set[q]
}

// put is a size of the packed graph.
func (u *unpadding) put(d ir.Dim) (ir.Dim, error) {
	b, _ := u.batch.Symbol()
	q, _ := u.seq.Symbol()
	return d.Subst(map[string]ir.Dim{b: ir.N(1), q: u.tokens}), nil
}

// findMask finds the input that masks all attention, and the symbols of its sizes.
func (u *unpadding) findMask() (why string) {
	for _, n := range u.g.Nodes {
		if !isAttention(n) {
			continue
		}
		v := ir.Operand(n.Inputs, ir.AttentionMask)
		if v == nil {
			return "there is none"
		}
		m := u.maskOf(v)
		if m == nil || m.input == nil {
			why := describe(v) + " does not follow from an input [batch,seq] alone"
			if sum := counted(v); sum != nil {
				why += ", token by token: " + describe(sum) + " counts tokens, and which of a text they are is lost"
			}
			return why
		}
		if u.mask != nil && u.mask != m.input {
			return fmt.Sprintf("inputs %q and %q are both masks", u.mask.Name, m.input.Name)
		}
		u.mask = m.input
	}
	s := u.mask.Type.Shape
	b, ok1 := s[0].Symbol()
	q, ok2 := s[1].Symbol()
	if !ok1 || !ok2 || b == q {
		return fmt.Sprintf("input %q is of fixed size, %v", u.mask.Name, u.mask.Type)
	}
	u.batch, u.seq, u.tokens = s[0], s[1], ir.Sym(u.freshSymbol())
	for _, n := range u.g.Nodes {
		if isAttention(n) && !u.hidesPadding(n.Inputs[ir.AttentionMask]) {
			return describe(n.Inputs[ir.AttentionMask]) + " is not known to hide padding and nothing else"
		}
	}
	return ""
}

// counted finds a sum among the values that one follows from; nil where there is none.
func counted(v *ir.Value) *ir.Value {
	seen := map[*ir.Value]bool{}
	for work := []*ir.Value{v}; len(work) > 0; {
		v, work = work[len(work)-1], work[:len(work)-1]
		if v == nil || seen[v] || v.Def == nil {
			continue
		}
		if seen[v] = true; v.Def.Op.Kind() == ir.KindReduce {
			return v
		}
		work = append(work, v.Def.Inputs...)
	}
	return nil
}

// freshSymbol is a name for the number of tokens that no size of the graph has.
func (u *unpadding) freshSymbol() string {
	used := map[string]bool{}
	note := func(d ir.Dim) (ir.Dim, error) {
		d.Symbols(used)
		return d, nil
	}
	for _, v := range u.g.Inputs {
		ir.MapType(v.Type, note)
	}
	for _, n := range u.g.Nodes {
		for _, v := range n.Outputs {
			ir.MapType(v.Type, note)
		}
	}
	name := "tokens"
	for used[name] {
		name += "_"
	}
	return name
}

// commit puts the planned nodes in place of the graph's.
func (u *unpadding) commit() {
	old := u.g.Nodes
	var early, rest []*ir.Node
	for _, n := range old {
		if u.planned(n) || u.dropped[n] || slices.ContainsFunc(n.Outputs, func(v *ir.Value) bool { return u.late[v] }) {
			rest = append(rest, n)
		} else {
			early = append(early, n)
		}
	}
	u.list = append(early, u.drafts...)
	pack := ir.NewPack(u.mask, u.packed, u.tokens, u.positions)
	pack.First = u.hidesQueries && u.readsFirst // where the mask hides it, what it sees depends on the padding
	u.pack = u.emit(pack, append([]*ir.Value{u.mask}, u.packed...))
	for i, v := range u.packed {
		u.made[v] = u.pack.Outputs[ir.PackValues+i]
	}
	for _, n := range rest {
		if u.planned(n) {
			u.node(u.plans[n])
		} else if !u.dropped[n] {
			u.list = append(u.list, n)
		}
	}
	for i, v := range u.g.Outputs {
		if u.isPacked(v) {
			u.g.Outputs[i] = u.unpacked(v, u.made[v])
		}
	}
	// What was packed or dropped has no readers left but itself.
	u.g.Nodes = append(u.list, slices.DeleteFunc(rest, func(n *ir.Node) bool { return !u.planned(n) && !u.dropped[n] })...)
	dce(u.g)
}

// unpacked puts an output back where its tokens were; one that is given under several names, once.
func (u *unpadding) unpacked(v, packed *ir.Value) *ir.Value {
	for _, use := range packed.Uses {
		if _, ok := use.Node.Op.(ir.Unpack); ok {
			return use.Node.Outputs[0]
		}
	}
	y := u.emit(ir.Unpack{}, []*ir.Value{packed, u.pack.Outputs[ir.PackFlatIndices], u.mask}, v.Def.Origins...).Outputs[0]
	y.Name = v.Name
	return y
}

// emit makes a node. All types were inferred beforehand: one that cannot be made is a mistake of the pass.
func (u *unpadding) emit(op ir.Op, in []*ir.Value, origins ...string) *ir.Node {
	n, err := u.g.NewNode(op, in, origins...)
	if err != nil {
		panic(fmt.Sprintf("unpad: %s: %v", ir.OpName(op), err))
	}
	u.list = append(u.list, n)
	return n
}

// node makes a planned node, and first what it reads.
func (u *unpadding) node(p *packedNode) {
	in := make([]*ir.Value, len(p.n.Inputs))
	for i, v := range p.n.Inputs {
		if other, ok := p.swaps[i]; ok {
			in[i] = other
		} else if v != nil {
			in[i] = u.read(v, p.readings[i])
		}
	}
	for at, result := range p.packs {
		in = append(in, make([]*ir.Value, max(0, at+1-len(in)))...)
		in[at] = u.pack.Outputs[result]
	}
	for _, r := range p.relative {
		in = r.emit(u, in, p.n.Origins)
	}
	n := u.emit(p.op, in, p.n.Origins...)
	for i, v := range p.n.Outputs {
		y := n.Outputs[i]
		y.Name = v.Name
		if p.restores {
			if !y.Type.Equal(v.Type) {
				y = u.emit(ir.Reshape{Shape: v.Type.Shape}, []*ir.Value{y}, p.n.Origins...).Outputs[0]
			}
			u.g.ReplaceAll(v, y)
			continue
		}
		u.made[v] = y
	}
}

// read returns an operand as it is read.
func (u *unpadding) read(v *ir.Value, r reading) *ir.Value {
	one := func(op ir.Op, in ...*ir.Value) *ir.Value { return u.emit(op, in).Outputs[0] }
	s := v.Type.Shape
	switch r {
	case asTokens:
		if u.made[v] == nil {
			u.node(u.plans[v.Def])
		}
		return u.made[v]
	case asPositions:
		for axis := range min(2, len(s)) {
			if t := u.tableOf(v, axis); t != nil {
				o := ir.Slice{}
				for _, d := range t.table.Type.Shape {
					o.Starts, o.Sizes, o.Steps = append(o.Starts, ir.N(0)), append(o.Sizes, d), append(o.Steps, 1)
				}
				o.Starts[t.axis], o.Sizes[t.axis] = ir.N(t.start), ir.N(t.rows)
				rows := one(ir.Reshape{Shape: o.Sizes[t.axis:]}, one(o, t.table))
				y := one(ir.Gather{}, rows, u.pack.Outputs[ir.PackPositions])
				if n := t.dequantize; n != nil {
					y = one(t.rowsOf(len(y.Type.Shape)), append([]*ir.Value{y}, n.Inputs[1:]...)...)
				}
				return y
			}
		}
		if len(s) > 0 && s[0].Is(1) {
			s = s[1:]
			v = one(ir.Reshape{Shape: s}, v)
		}
		return one(ir.Gather{}, v, u.pack.Outputs[ir.PackPositions])
	case asFirst:
		x := u.read(v, asTokens)
		y := one(ir.Gather{Axis: 1}, x, u.pack.Outputs[ir.PackFirst])
		return one(ir.Reshape{Shape: append(ir.Shape{u.batch, ir.N(1)}, s[2:]...)}, y)
	case asFirstBatch:
		return one(ir.Reshape{Shape: append(ir.Shape{ir.N(1), u.batch}, s[2:]...)}, v)
	}
	return v
}
