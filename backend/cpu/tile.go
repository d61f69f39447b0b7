package cpu

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A node whose kernel needs scratch memory for its rows, to quantise them or to widen 16-bit floats, runs tile after tile: each tile is
// some rows, as a node that is in no graph. The scratch memory is that of one tile. Rows have the same bits in a tile as in the whole node.

// A cut returns the part that a tile has of operand i of a node, or of its result if i is −1. The part is o itself if all tiles share it.
// Only shape and strides of o count for the shape of the part.
type cut func(i int, o operand) operand

// A tile is a part of a node, and its operands and result.
type tile struct {
	node    *ir.Node // the values that the cut changed have IDs below 0
	in, out []operand
	changed int // number of those values
}

// tileOf cuts a node.
func tileOf(n *ir.Node, in, out []operand, part cut) tile {
	t := tile{node: &ir.Node{Op: n.Op, Origins: n.Origins}, in: slices.Clone(in), out: slices.Clone(out)}
	value := func(v *ir.Value, o *operand, i, id int) *ir.Value {
		if v == nil {
			return nil
		}
		all := o.shape
		if *o = part(i, *o); o.shape.Equal(all) {
			return v
		}
		t.changed++
		return &ir.Value{ID: id, Name: v.Name, Type: ir.TensorOf(v.Type.DType, ir.Dims(o.shape...)...), Const: v.Const, Packed: v.Packed}
	}
	for i, v := range n.Inputs {
		w := value(v, &t.in[i], i, -1-i)
		if first := slices.Index(n.Inputs[:i], v); v != nil && first >= 0 && w.Type.Equal(t.node.Inputs[first].Type) &&
			t.in[i].off == t.in[first].off {
			w = t.node.Inputs[first] // one operand, which is widened once
		}
		t.node.Inputs = append(t.node.Inputs, w)
	}
	for i, v := range n.Outputs {
		t.node.Outputs = append(t.node.Outputs, value(v, &t.out[i], -1, -1-len(n.Inputs)-i))
	}
	return t
}

// shapesOf returns row-major operands and results of a node that have no location.
func shapesOf(n *ir.Node) (in, out []operand) {
	list := func(values []*ir.Value) []operand {
		all := make([]operand, len(values))
		for i, v := range values {
			if v != nil {
				all[i].shape = v.Type.Sizes()
				all[i].strides = all[i].shape.Strides()
			}
		}
		return all
	}
	return list(n.Inputs), list(n.Outputs)
}

// bindTile returns the phases of a tile, which uses the first of some scratch buffers.
func (b *binder) bindTile(e *entry, t tile, scratch []int) (phases []step, err error) {
	own := *b
	own.scratch, own.instead = scratch[:len(e.Scratch(t.node))], make([]substitute, 0, t.changed)
	for i, v := range t.node.Inputs {
		if v != nil && v.ID < 0 {
			own.instead = append(own.instead, substitute{v.ID, t.in[i]})
		}
	}
	for i, v := range t.node.Outputs {
		if v.ID < 0 {
			own.instead = append(own.instead, substitute{v.ID, t.out[i]})
		}
	}
	st, err := e.Bind(&own, t.node, t.in, t.out)
	if err != nil || st.run == nil {
		return nil, err
	}
	return phasesOf(st), nil
}

// byTiles returns the entry of kernels that run by the tiles that cuts lists, the largest first. They run at once if it lists none.
func byTiles(inner entry, cuts func(n *ir.Node) []cut) entry {
	e := inner
	if e.Scratch == nil {
		return e
	}
	e.Scratch = func(n *ir.Node) []int64 {
		list := cuts(n)
		if len(list) == 0 {
			return inner.Scratch(n)
		}
		in, out := shapesOf(n)
		sizes := inner.Scratch(tileOf(n, in, out, list[0]).node)
		return largest(sizes, inner.Scratch(tileOf(n, in, out, list[len(list)-1]).node))
	}
	e.Bind = func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		list := cuts(n)
		if len(list) == 0 {
			return inner.Bind(b, n, in, out)
		}
		own := b.widensOnce()
		var all []step
		for _, part := range list {
			phases, err := own.bindTile(&inner, tileOf(n, in, out, part), b.scratch)
			if err != nil {
				return step{}, err
			}
			all = append(all, phases...)
		}
		return inPhases(all...), nil
	}
	return e
}

// widensOnce returns a binder for tiles that share widened constants.
func (b *binder) widensOnce() *binder {
	own := *b
	if own.widened == nil {
		own.widened = map[*tensor.Tensor]*tensor.Tensor{}
	}
	return &own
}

// largest returns sizes of scratch buffers that are enough for both of two lists.
func largest(a, b []int64) []int64 {
	all := slices.Clone(a)
	for i, size := range b {
		if i == len(all) {
			all = append(all, 0)
		}
		all[i] = max(all[i], size)
	}
	return all
}

// tileRows is the fewest rows of a tile for each thread of a pair: as many as a product's part has, so that weights are read as often
// as without tiles.
const tileRows = 128

// tilesOf returns the number of tiles of a number of rows. It is below 2 if the rows are too few for tiles.
func (d *processor) tilesOf(rows, most int) int {
	return min(most, rows/(tileRows*max(1, d.Threads()/2)))
}

// mostScratchTiles bounds the phases of a node that runs by tiles to save scratch memory. With more tiles, what attention needs would be
// the peak.
const mostScratchTiles = 8

// rowsOf is the number of rows of a tensor, seen as one matrix.
func rowsOf(s tensor.Shape) int { return s[:len(s)-1].Elements() }

// rowCuts returns the tiles of a product with a constant weight. Operand 0, the residual and the result have its rows.
// There are at most most tiles.
func (d *processor) rowCuts(n *ir.Node, residual, most int) (list []cut) {
	rows := rowsOf(n.Outputs[0].Type.Sizes())
	tiles := d.tilesOf(rows, most)
	if tiles < 2 {
		return nil
	}
	each := ceilDiv(rows, tiles)
	for first := 0; first < rows; first += each {
		list = append(list, rowCut(first, min(each, rows-first), residual))
	}
	return list
}

// rowCut returns the cut of some rows of a product.
func rowCut(first, rows, residual int) cut {
	return func(i int, o operand) operand {
		if i > 0 && i != residual {
			return o
		}
		return o.rows(first, rows)
	}
}

// axisCuts returns the tiles of a node whose result has leading axes along which nothing depends on its neighbours. An operand has an axis
// of the result if it has its size, and repeats otherwise. The tiles are ranges of one leading axis, or of the second one in each index of
// the first, so that each tile is without gaps.
func (d *processor) axisCuts(n *ir.Node, leading int) (list []cut) {
	y := n.Outputs[0].Type.Sizes()
	first := 0
	for first < leading && y[first] == 1 {
		first++
	}
	if first >= leading {
		return nil
	}
	tiles := min(mostScratchTiles, y.Elements()/(partElements*d.Threads())) // each of which has a part for every thread
	if tiles < 2 {
		return nil
	}
	along := func(axis, lo, size int, o operand) operand {
		if own := axis + len(o.shape) - len(y); o.shape != nil && own >= 0 && o.shape[own] == y[axis] {
			return o.cut(own, lo, size)
		}
		return o
	}
	if y[first] >= tiles || first+1 == leading {
		each := ceilDiv(y[first], min(tiles, y[first]))
		for lo := 0; lo < y[first]; lo += each {
			list = append(list, func(_ int, o operand) operand { return along(first, lo, min(each, y[first]-lo), o) })
		}
		return list
	}
	second := first + 1
	each := max(1, ceilDiv(y[second], ceilDiv(tiles, y[first])))
	for index := range y[first] {
		for lo := 0; lo < y[second]; lo += each {
			list = append(list, func(_ int, o operand) operand {
				return along(second, lo, min(each, y[second]-lo), along(first, index, 1, o))
			})
		}
	}
	return list
}
