package rewrite

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// entry reports whether packed values begin at a node: it takes a row of a table for each token.
func (u *unpadding) entry(n *ir.Node) bool {
	y := n.Outputs[0].Type
	switch op := n.Op.(type) {
	case ir.Embedding, ir.QEmbedding:
		return u.lead(y.Shape) == 2
	case ir.Gather:
		return op.Axis == 0 && (y.DType.IsFloat() || y.DType.Size() == 1 && y.DType.IsInt()) && u.lead(y.Shape) == 2 &&
			len(y.Shape) > 2 && u.free(n.Inputs[0].Type.Shape)
	}
	return false
}

// A need is what a rule asks of an operand.
type need uint8

const (
	freely  need = iota // the operand is the same for all tokens
	tokens              // the operand has a part for each token
	aligned             // the operand broadcasts to the result
)

// An obstacle is the panic of a rule that refuses a node. at is the value in the way, and why the reason.
type obstacle struct {
	at  *ir.Value
	why string
}

func (u *unpadding) plan(n *ir.Node) (at *ir.Value, why string) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case obstacle:
			at, why = r.at, r.why
		default:
			panic(r)
		}
	}()
	u.rule(n)
	return nil, ""
}

func refuse(at *ir.Value, format string, args ...any) {
	panic(obstacle{at, fmt.Sprintf(format, args...)})
}

// byToken lists the ops that compute every token on its own whatever their parameters are, with what they need of their operands.
// Operands that are not listed may be anything.
var byToken = [ir.NumKinds]map[int]need{
	ir.KindClip:        {0: tokens},
	ir.KindActCopy:     {0: tokens},
	ir.KindQuantize:    {0: tokens},
	ir.KindDequantize:  {0: tokens},
	ir.KindMatMul:      {ir.MatMulA: tokens, ir.MatMulResidual: aligned},
	ir.KindQMatMul:     {ir.QMatMulA: tokens, ir.QMatMulResidual: aligned},
	ir.KindMatMulNBits: {ir.NBitsA: tokens, ir.NBitsResidual: aligned},
	ir.KindLayerNorm:   {ir.LayerNormX: tokens, ir.LayerNormResidual: aligned},
	ir.KindQLayerNorm:  {ir.LayerNormX: tokens, ir.LayerNormResidual: aligned},
	ir.KindRotary:      {0: tokens, 1: aligned, 2: aligned},
	ir.KindSoftmax:     {0: tokens},
	ir.KindArgReduce:   {0: tokens},
	ir.KindReduce:      {0: tokens},
	ir.KindTranspose:   {0: tokens},
	ir.KindReshape:     {0: tokens},
	ir.KindExpand:      {0: tokens},
	ir.KindSlice:       {0: tokens},
	ir.KindPad:         {0: tokens},
	ir.KindTile:        {0: tokens},
}

// rule plans a node that packed values reach, or panics with an obstacle.
func (u *unpadding) rule(n *ir.Node) {
	x := n.Inputs[0]
	switch op := n.Op.(type) {
	case ir.QMatMul:
		if op.Dynamic(n.Inputs) && !u.isPacked(x) {
			u.lateProduct(n)
			return
		}
	case ir.Attention, ir.QAttention:
		u.attention(n)
		return
	case ir.Embedding, ir.QEmbedding:
		u.embedding(n)
		return
	case ir.Gather:
		u.gather(n, op)
		return
	case ir.Slice:
		if u.takesFirst(x.Type.Shape, op) {
			u.firstTokens(n)
			return
		}
	case ir.Reduce:
		if u.lead(x.Type.Shape) == 2 && slices.Contains(op.Axes, 1) {
			u.sum(n, op)
			return
		}
	}
	u.alone(n)
	needs := byToken[n.Op.Kind()]
	switch {
	case n.Op.Kind().Has(ir.Elementwise) && needs == nil:
		needs = map[int]need{}
		for i := range n.Inputs {
			needs[i] = aligned
		}
	case n.Op.Kind() == ir.KindConcat:
		needs = map[int]need{}
		for i := range n.Inputs {
			needs[i] = tokens
		}
	case needs == nil:
		refuse(x, "%s is not known to compute each token independently", ir.OpName(n.Op))
	}
	u.tokenwise(n, needs)
}

// alone requires parameters with which an op computes every token on its own.
func (u *unpadding) alone(n *ir.Node) {
	s := n.Inputs[0].Type.Shape
	lead := u.lead(s)
	mixes := func(axes ...int) {
		for _, k := range axes {
			if k < lead {
				refuse(n.Inputs[0], "%s reduces axis %d, which is an axis of tokens or sequences", ir.OpName(n.Op), k)
			}
		}
	}
	switch op := n.Op.(type) {
	case ir.DynamicQuantize:
		refuse(n.Inputs[0], "its scale follows from the range of all tokens of the batch")
	case ir.MatMul:
		u.product(n, lead, len(n.Inputs[ir.MatMulB].Type.Shape))
	case ir.QMatMul:
		u.product(n, lead, len(n.Inputs[ir.QMatMulB].Type.Shape))
	case ir.MatMulNBits:
		u.product(n, lead, 2)
	case ir.LayerNorm:
		mixes(len(s) - op.Axes)
	case ir.QLayerNorm:
		mixes(len(s) - op.Axes)
	case ir.Softmax:
		mixes(op.Axis)
	case ir.ArgReduce:
		mixes(op.Axis)
	case ir.Reduce:
		if len(op.Axes) == 0 {
			return
		}
		mixes(op.Axes...)
	case ir.Quantize:
		u.scales(n, op.Axis, lead)
	case ir.Dequantize:
		u.scales(n, op.Axis, lead)
	case ir.Concat:
		lead = u.lead(n.Outputs[0].Type.Shape)
		mixes(op.Axis)
	case ir.Transpose:
		for k := range lead {
			if op.Perm[k] != k {
				refuse(n.Inputs[0], "it moves the axis of tokens")
			}
		}
	case ir.Slice:
		for k := range lead {
			if !takesAll(op, k, s[k]) {
				refuse(n.Inputs[0], "it selects tokens by their position in the padded sequence")
			}
		}
	case ir.Pad:
		for k := range lead {
			if !op.Before[k].Is(0) || !op.After[k].Is(0) {
				refuse(n.Inputs[0], "it puts padding between the sequences")
			}
		}
	case ir.Tile:
		refuse(n.Inputs[0], "it repeats tokens")
	}
}

// product requires one matrix for all tokens.
func (u *unpadding) product(n *ir.Node, lead, rank int) {
	if rank != 2 || len(n.Inputs[0].Type.Shape) <= lead {
		refuse(n.Inputs[1], "it is multiplied by several matrices, which may mix tokens")
	}
}

// scales requires one scale for all tokens.
func (u *unpadding) scales(n *ir.Node, axis, lead int) {
	if rank := len(n.Inputs[1].Type.Shape); rank > 1 || rank == 1 && axis < lead {
		refuse(n.Inputs[1], "it has separate scales along the tokens")
	}
}

// tokenwise plans a node whose result for a token follows from that token of its operands.
func (u *unpadding) tokenwise(n *ir.Node, needs map[int]need) *packedNode {
	y := n.Outputs[0].Type.Shape
	lead := u.lead(y)
	if lead == 0 {
		refuse(n.Inputs[0], "its result %v has no token axis in front", n.Outputs[0].Type)
	}
	p := &packedNode{n: n, readings: make([]reading, len(n.Inputs))}
	in := make([]*ir.Value, len(n.Inputs))
	if op, ok := n.Op.(ir.QMatMul); ok && op.Dynamic(n.Inputs) { // each sequence by a separate range, as if it ran alone
		p.packs = map[int]int{ir.QMatMulSequences: ir.PackSequences}
		in = append(in, make([]*ir.Value, ir.QMatMulSequences+1-len(in))...)
		in[ir.QMatMulSequences] = u.rows()
	}
	zero := false
	for i, v := range n.Inputs {
		if v == nil {
			continue
		}
		t := v.Type
		switch needs[i] {
		case tokens:
			p.readings[i], t = u.token(v)
		case aligned:
			rank := len(y)
			if n.Op.Kind() == ir.KindRotary { // angles are those of all heads
				rank--
			}
			p.readings[i], t = u.align(v, rank, lead)
		default:
			if u.isPacked(v) || !u.free(v.Type.Shape) {
				refuse(v, "operand %d is %v: it must be the same for all tokens", i, v.Type)
			}
		}
		zero = zero || u.zero[v] && p.readings[i] == asTokens && keepsZero(n.Op)
		in[i] = typed(v, t)
	}
	u.finish(p, in)
	for i, v := range n.Outputs {
		if got, want := u.lead(v.Type.Shape), u.types[v]; got == 0 || !u.fits(want, v.Type, got) {
			refuse(v, "its result %v would be %v", v.Type, want)
		}
		u.zero[v] = zero && i == 0
	}
	return p
}

// keepsZero reports whether an op, of those that compute each token separately, is 0 where any operand that has tokens is.
func keepsZero(op ir.Op) bool {
	switch o := op.(type) {
	case ir.Reshape, ir.Transpose, ir.Slice, ir.Expand:
		return true
	case ir.Binary:
		return o.Fn == ir.Mul
	case ir.Cast:
		return o.To.IsFloat() || o.To.IsInt()
	}
	return false
}

// typed returns a placeholder for a value with another type, for shape rules.
func typed(v *ir.Value, t ir.Type) *ir.Value {
	c := *v
	c.Type = t
	return &c
}

// fits reports whether a packed type is that of the padded one, with the tokens instead of the lead axes.
func (u *unpadding) fits(packed, padded ir.Type, lead int) bool {
	want := u.packedType(padded, lead)
	return packed.Equal(want)
}

func (u *unpadding) packedType(t ir.Type, lead int) ir.Type {
	front := ir.Shape{ir.N(1), u.tokens}
	return ir.TensorOf(t.DType, append(front[2-lead:], t.Shape[lead:]...)...)
}

// finish infers the types of a planned node's results and keeps it.
func (u *unpadding) finish(p *packedNode, in []*ir.Value) {
	if p.op == nil {
		var err error
		if p.op, err = ir.MapDims(p.n.Op, u.put); err != nil {
			refuse(p.n.Inputs[0], "%v", err)
		}
	}
	types, err := ir.Infer(&ir.Node{Op: p.op, Inputs: in, Outputs: p.n.Outputs, Origins: p.n.Origins})
	if err != nil {
		refuse(p.n.Inputs[0], "it is invalid for a packed batch: %v", err)
	}
	for i, v := range p.n.Outputs {
		u.types[v] = types[i]
	}
	u.plans[p.n] = p
}

// pull makes the packed form of a value [batch,seq,…] that is not packed yet. If the value is computed token by token, pull packs its
// operands instead, so that only inputs are packed.
func (u *unpadding) pull(v *ir.Value) {
	if _, ok := u.types[v]; ok {
		return
	}
	u.zero[v] = u.isZero(v)
	if n := v.Def; n != nil && (n.Op.Kind().Has(ir.Elementwise) || n.Op.Kind() == ir.KindExpand || n.Op.Kind() == ir.KindReshape) {
		if _, why := u.plan(n); why == "" {
			u.plans[n].pulled, u.zero[v] = true, u.isZero(v)
			return
		}
		delete(u.types, v)
	}
	if v.Type.DType == tensor.String || v.Type.DType.Size() == 0 {
		refuse(v, "%s cannot be packed", v.Type.DType)
	}
	u.types[v] = u.packedType(v.Type, 2)
	u.packed = append(u.packed, v)
}

// takesFirst reports whether a slice takes the first token of each text.
func (u *unpadding) takesFirst(s ir.Shape, o ir.Slice) bool {
	return u.lead(s) == 2 && len(s) > 2 && takesAll(o, 0, u.batch) && o.Starts[1].Is(0) && o.Sizes[1].Is(1)
}

// firstTokens plans a node that reads only the first tokens: it gets these, [batch,1,…], and does not change.
func (u *unpadding) firstTokens(n *ir.Node) {
	u.readsFirst = true
	if !u.isPacked(n.Inputs[0]) {
		refuse(n.Inputs[0], "it is not packed")
	}
	x := n.Inputs[0].Type
	p := &packedNode{n: n, op: n.Op, readings: make([]reading, len(n.Inputs)), restores: true}
	p.readings[0] = asFirst
	in := slices.Clone(n.Inputs)
	in[0] = typed(in[0], ir.TensorOf(x.DType, append(ir.Shape{u.batch, ir.N(1)}, x.Shape[2:]...)...))
	u.finish(p, in)
	u.restore(n)
}

// restore records that the result of a planned node is not packed.
func (u *unpadding) restore(n *ir.Node) {
	for _, v := range n.Outputs {
		if !u.types[v].Shape.Elements().Equal(v.Type.Shape.Elements()) {
			refuse(v, "its result %v would be %v", v.Type, u.types[v])
		}
		u.late[v] = true
	}
}

// gather plans rows of a table by indices of the tokens, parts of each token, and the first token of each text.
func (u *unpadding) gather(n *ir.Node, op ir.Gather) {
	x, index := n.Inputs[0], n.Inputs[1]
	if !u.isPacked(x) {
		if op.Axis != 0 || !u.free(x.Type.Shape) {
			refuse(x, "rows of %v by token", x.Type)
		}
		u.tokenwise(n, map[int]need{1: tokens})
		return
	}
	lead := u.lead(x.Type.Shape)
	if lead == 2 && op.Axis == 1 {
		if i, ok := numberOf(index); ok && i == 0 && len(x.Type.Shape) > 2 {
			u.firstTokens(n)
			return
		}
	}
	if op.Axis < lead {
		refuse(index, "it selects tokens by their position in the padded sequence")
	}
	u.tokenwise(n, map[int]need{0: tokens})
}

// embedding plans an embedding by the indices of the tokens, and by their positions if a table has a row for each position.
func (u *unpadding) embedding(n *ir.Node) {
	step := 2
	if n.Op.Kind() == ir.KindQEmbedding {
		step = 4
	}
	p := &packedNode{n: n, readings: make([]reading, len(n.Inputs))}
	in := slices.Clone(n.Inputs)
	first := n.Inputs[ir.EmbeddingIndex]
	for i := ir.EmbeddingTable; i < len(in); i += step {
		table := in[i].Type.Shape
		switch {
		case in[i+1] != nil:
			var t ir.Type
			p.readings[i+1], t = u.token(in[i+1])
			in[i+1] = typed(in[i+1], t)
		case !table[0].Is(1):
			rows, ok := table[0].Const()
			if p.packs != nil || !ok || first.Type.DType != tensor.I64 {
				refuse(in[i], "its rows are selected by position, but the indices are %s", first.Type.DType)
			}
			p.packs = map[int]int{i + 1: ir.PackPositions}
			in[i+1] = &ir.Value{Type: ir.TensorOf(tensor.I64, ir.N(1), u.tokens)}
			if u.positions == 0 || rows < u.positions {
				u.positions = rows
			}
		}
	}
	for i, v := range n.Inputs {
		if v != nil && p.readings[i] == asItIs && (u.isPacked(v) || !u.free(v.Type.Shape)) {
			refuse(v, "operand %d is %v: it must be the same for all tokens", i, v.Type)
		}
	}
	u.finish(p, in)
	if y := n.Outputs[0]; !u.fits(u.types[y], y.Type, 2) {
		refuse(y, "its result would be %v", u.types[y])
	}
}

// sum plans a sum over the tokens of each text. Its operand must be 0 at padding.
func (u *unpadding) sum(n *ir.Node, op ir.Reduce) {
	x := n.Inputs[0]
	_, t := u.token(x)
	switch {
	case op.Fn != ir.Sum || len(op.Axes) != 1:
		refuse(x, "%s over all positions of the padded sequence", ir.OpName(op))
	case !u.zero[x]:
		refuse(x, "the sum includes padding, which is not 0")
	}
	p := &packedNode{n: n, op: ir.SumSequences{}, readings: []reading{asTokens}, packs: map[int]int{1: ir.PackSequences}, restores: true}
	u.finish(p, []*ir.Value{typed(x, t), u.rows()})
	u.restore(n)
}

// lateProduct plans a product of values of which each text has one, and whose scale follows from the range of the whole batch: the
// scale then follows from the text's own range, as those of the tokens do.
func (u *unpadding) lateProduct(n *ir.Node) {
	a := n.Inputs[ir.QMatMulA].Type.Shape
	if lead := a[:len(a)-1]; len(lead) == 0 || !lead[0].Equal(u.batch) || !lead.Elements().Equal(u.batch) ||
		len(n.Inputs[ir.QMatMulB].Type.Shape) != 2 {
		refuse(n.Inputs[ir.QMatMulA], "its scale follows from the range of all sequences of the batch")
	}
	p := &packedNode{n: n, op: n.Op, readings: make([]reading, len(n.Inputs)), packs: map[int]int{ir.QMatMulSequences: ir.PackPooled},
		restores: true}
	in := append(slices.Clone(n.Inputs), make([]*ir.Value, ir.QMatMulSequences+1-len(n.Inputs))...)
	in[ir.QMatMulSequences] = u.rows()
	u.finish(p, in)
	u.restore(n)
}

// rows is the result of Pack that describes the sequences.
func (u *unpadding) rows() *ir.Value {
	return &ir.Value{Type: ir.TensorOf(tensor.I32, u.batch, ir.N(ir.SequenceFields))}
}
