package cpu

import (
	"unsafe"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// The scratch buffers of a forest.
const (
	forestTallies = iota // [blocks of trees, rows, targets]
	forestScores         // [rows, targets], in float64
)

// rowsPerTree is how many rows a tree meets while its nodes are in the nearest cache.
const rowsPerTree = 32

// forestEntry runs trees in two phases: blocks of trees vote for rows, then each row's votes are put together.
var forestEntry = entry{
	Supports: func(n *ir.Node) bool {
		m := n.Op.(forest)
		d, scores := n.Inputs[0].Type.DType, n.Outputs[len(n.Outputs)-1].Type.DType
		if m.Trees() == nil || d != tensor.F32 && d != tensor.F64 && d != tensor.I32 && d != tensor.I64 {
			return false
		}
		if labels := m.Labels(); labels != nil {
			return labels.DType() == tensor.I64 && len(n.Outputs) == 2
		}
		return scores == tensor.F32 || scores == tensor.F64
	},
	Scratch: func(n *ir.Node) []int64 {
		f, rows := n.Op.(forest).Trees(), forestRows(n)
		each := int64(rows) * int64(f.Targets())
		return []int64{forestTallies: int64(f.Blocks()) * each * int64(unsafe.Sizeof(ops.Tally{})), forestScores: 8 * each}
	},
	Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		switch n.Inputs[0].Type.DType {
		case tensor.F32:
			return forestStep[float32](b, n, in, out), nil
		case tensor.F64:
			return forestStep[float64](b, n, in, out), nil
		case tensor.I32:
			return forestStep[int32](b, n, in, out), nil
		}
		return forestStep[int64](b, n, in, out), nil
	},
}

// A forest is an operator of trees.
type forest interface {
	Trees() *ops.Forest
	Labels() *tensor.Tensor
}

// forestRows is the number of rows: a vector is one.
func forestRows(n *ir.Node) int {
	shape := n.Inputs[0].Type.Sizes()
	return shape[:len(shape)-1].Elements()
}

func forestStep[T ops.Feature](b *binder, n *ir.Node, in, out []operand) step {
	m := n.Op.(forest)
	f, labels, rows := m.Trees(), m.Labels(), forestRows(n)
	if rows == 0 {
		return step{}
	}
	x, scores, width, targets := in[0], out[len(out)-1], in[0].len()/rows, f.Targets()
	tallies, sums := b.scratchBytes(forestTallies), b.scratchBytes(forestScores)
	tallied := func(m *machine) []ops.Tally {
		return unsafe.Slice((*ops.Tally)(unsafe.Pointer(&tallies.bytes(m)[0])), f.Blocks()*rows*targets)
	}
	tiles := ceilDiv(rows, rowsPerTree)
	vote := step{parts: tiles * f.Blocks(), run: func(m *machine, part, _ int) {
		block, first := part%f.Blocks(), part/f.Blocks()*rowsPerTree
		count := min(rowsPerTree, rows-first)
		var features []T // leaves alone need none
		if width > 0 {
			features = elements[T](m, &x)[first*width:][:count*width]
		}
		ops.Vote(f, block, features, count, tallied(m)[(block*rows+first)*targets:][:count*targets])
	}}
	finish := step{parts: tiles, run: func(m *machine, part, _ int) {
		all := tallied(m)
		s := unsafe.Slice((*float64)(unsafe.Pointer(&sums.bytes(m)[0])), rows*targets)
		for r := part * rowsPerTree; r < min((part+1)*rowsPerTree, rows); r++ {
			row := s[r*targets:][:targets]
			label := f.Finish(all[r*targets:], rows*targets, row)
			if labels != nil {
				elements[int64](m, &out[0])[r] = labels.Int64(label)
			}
			if scores.dtype == tensor.F64 {
				copy(elements[float64](m, &scores)[r*targets:], row)
				continue
			}
			for i, d := 0, scores.f32(m)[r*targets:]; i < targets; i++ {
				d[i] = float32(row[i])
			}
		}
	}}
	return inPhases(vote, finish)
}
