package rewrite

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
)

// token reads an operand of the tokens, which is packed or can be.
func (u *unpadding) token(v *ir.Value) (reading, ir.Type) {
	if u.isPacked(v) {
		return asTokens, u.types[v]
	}
	if u.late[v] || u.lead(v.Type.Shape) != 2 {
		refuse(v, "it is %v, which has no token axis in front", v.Type)
	}
	u.pull(v)
	return asTokens, u.types[v]
}

// align reads an operand that broadcasts to a result of that many axes, of which lead are tokens.
func (u *unpadding) align(v *ir.Value, rank, lead int) (reading, ir.Type) {
	s := v.Type.Shape
	off := rank - len(s) // of its first axis in the result
	if u.isPacked(v) {
		if off != 0 || u.lead(s) != lead {
			refuse(v, "its tokens %v are not aligned with those of the result", v.Type)
		}
		return asTokens, u.types[v]
	}
	alone := true // along the axes of tokens
	for k := range max(lead-off, 0) {
		alone = alone && s[k].Is(1)
	}
	rest := s[max(0, min(2-off, len(s))):]
	switch {
	case alone && u.free(s):
		return asItIs, v.Type
	case lead == 2 && off < 2 && u.tableOf(v, 1-off) != nil:
		if rows := u.tableOf(v, 1-off).rows; u.positions == 0 || rows < u.positions {
			u.positions = rows
		}
		return asPositions, ir.TensorOf(v.Type.DType, append(ir.Shape{ir.N(1), u.tokens}, rest...)...)
	case lead != 2 || u.late[v]:
	case off == 0 && u.lead(s) == 2:
		return u.token(v)
	case off == 0 && s[0].Is(1) && s[1].Equal(u.seq) && u.free(s[2:]), off == 1 && s[0].Equal(u.seq) && u.free(s[1:]):
		return asPositions, ir.TensorOf(v.Type.DType, append(ir.Shape{ir.N(1), u.tokens}, rest...)...)
	}
	refuse(v, "it is %v, which cannot be separated by token", v.Type)
	return 0, ir.Type{}
}

// A positionTable is a constant that contains the elements of a value: rows rows along axis, beginning with row start. The rows are the
// elements for the positions 0, 1, 2, …
type positionTable struct {
	table             *ir.Value
	axis, start, rows int
	dequantize        *ir.Node // dequantises the rows, by one scale or one for each column; nil for float tables
}

// rowsOf returns the operation that dequantizes rows of a table, of that many axes.
func (t *positionTable) rowsOf(rank int) ir.Op {
	op := t.dequantize.Op.(ir.Dequantize)
	if len(t.dequantize.Inputs[1].Type.Shape) == 1 {
		op.Axis = rank - 1
	}
	return op
}

// tableOf returns the table of a value that takes as many positions of a constant as sequences have, along an axis before which all axes
// have size 1.
func (u *unpadding) tableOf(v *ir.Value, axis int) *positionTable {
	seen, after := v.Type.Shape, v.Type.Shape[axis+1:]
	var dequantize *ir.Node
	if n := v.Def; n != nil && n.Op.Kind() == ir.KindDequantize {
		scale := n.Inputs[1].Type.Shape
		if len(scale) > 1 || len(scale) == 1 && (len(after) == 0 || n.Op.(ir.Dequantize).Axis != len(seen)-1) {
			return nil
		}
		dequantize, v = n, n.Inputs[0]
	}
	if v.Def != nil && v.Def.Op.Kind() == ir.KindReshape {
		v = v.Def.Inputs[0]
		axes := squeezed(v.Type.Shape, seen)
		if axis = slices.Index(axes, axis); axis < 0 {
			return nil
		}
	}
	if v.Def == nil {
		return nil
	}
	o, ok := v.Def.Op.(ir.Slice)
	table := v.Def.Inputs[0]
	if !ok || table.Const == nil || !table.Type.Shape[axis+1:].Equal(after) {
		return nil
	}
	for k, d := range table.Type.Shape {
		if k != axis && !takesAll(o, k, d) || k < axis && !d.Is(1) {
			return nil
		}
	}
	start, ok := o.Starts[axis].Const()
	rows := table.Type.Shape[axis].Int() - start
	size := o.Sizes[axis]
	if !ok || o.Steps[axis] != 1 || !size.Equal(u.seq) && !size.Equal(ir.Min(ir.N(rows), u.seq)) {
		return nil
	}
	return &positionTable{table, axis, start, rows, dequantize}
}
