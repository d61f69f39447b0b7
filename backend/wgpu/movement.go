package wgpu

import (
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/target"
	"github.com/rlxc/rlxc/tensor"
)

var copyRow = row{
	Row: target.Row{
		Runs:    target.OnKernel,
		Claims:  func(n *ir.Node) bool { return moves(n.Inputs[0].Type.DType) },
		Strided: allStrides,
	},
	bind: func(b *binder, n *ir.Node) ([]launch, error) {
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		return []launch{move(&out[0], &in[0])}, nil
	},
}

// move copies elements of any type between any strides; elements narrower than a word need a contiguous result.
func move(y, x *operand) launch {
	e, _ := raw(y.width)
	return each("move", y, e, []*operand{x}, []element{e}, expression{text: "$1"})
}

var concatRow = row{
	Row: target.Row{
		Runs: target.OnKernel,
		// Pieces of narrower elements would share words.
		Claims:  func(n *ir.Node) bool { return n.Outputs[0].Type.DType.Size() >= 4 && moves(n.Outputs[0].Type.DType) },
		Strided: allStrides,
	},
	bind: func(b *binder, n *ir.Node) ([]launch, error) {
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		axis, at := n.Op.(ir.Concat).Axis, 0
		var launches []launch
		for i := range in {
			piece := out[0] // the part of the result that the operand fills
			piece.shape = in[i].shape
			piece.off += at * piece.strides[axis] * piece.width
			at += in[i].shape[axis]
			if piece.elements() > 0 {
				launches = append(launches, move(&piece, &in[i]))
			}
		}
		return launches, nil
	},
}

var gatherRow = row{
	Row: target.Row{
		Runs: target.OnKernel,
		Claims: func(n *ir.Node) bool {
			d, w := n.Inputs[1].Type.DType, n.Inputs[0].Type.DType
			return (w.Size() == 4 || w.Size() == 8) && (d == tensor.I64 || d == tensor.I32)
		},
	},
	pieces: func(i int) bool { return i == 0 },
	bind: func(b *binder, n *ir.Node) ([]launch, error) {
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		x, axis := &in[0], n.Op.(ir.Gather).Axis
		if x.weight == nil || len(x.weight.pieces) == 1 {
			return []launch{b.gather(&out[0], x, &in[1], axis, 0, x.shape[axis])}, nil
		}
		if axis != 0 || b.layout(n.Inputs[0]).Root != n.Inputs[0] {
			return nil, errOnHost
		}
		// A table above the largest binding: a launch for each of its pieces writes the rows that lie there.
		var launches []launch
		per := x.weight.rows
		for i, piece := range x.weight.pieces {
			part := *x
			part.memory = memory{constant: piece}
			launches = append(launches, b.gather(&out[0], &part, &in[1], axis, i*per, min((i+1)*per, x.shape[0])))
		}
		return launches, nil
	},
}

// gather is the launch that copies slices of x by index, word by word. An index beyond the axis is left in the status
// words. x's memory holds the slices from number lo to hi of the axis.
func (b *binder) gather(y, x, index *operand, axis, lo, hi int) launch {
	s := newShader("gather", "u32", groupSize)
	words := x.width / 4
	size, inner := x.shape[axis], x.shape[axis+1:].Elements()*words
	total := y.elements() * words
	s.put("let t = %s * %du + lid;", linear, groupSize)
	s.put("if (t >= %s) { return; }", s.u(total))
	s.put("let row = t / %s;", s.u(inner))
	s.put("let col = t %% %s;", s.u(inner))
	s.put("let j = row %% %s;", s.u(index.elements()))
	s.put("let outer = row / %s;", s.u(index.elements()))
	ids, first := s.bind(index.memory), s.u(index.first())
	if index.dtype == tensor.I64 {
		s.put("let at = (%s + j) * 2u;\nvar i = bitcast<i32>(%s[at]);\nlet narrow = %s[at + 1u] == bitcast<u32>(i >> 31u);", first, ids, ids)
	} else {
		s.put("var i = bitcast<i32>(%s[%s + j]);\nlet narrow = true;", ids, first)
	}
	s.put("let given = i;\nif (i < 0) { i += i32(%s); }", s.u(size))
	s.put("if (!narrow || i < 0 || i >= i32(%s)) {", s.u(size))
	status := s.bind(memory{status: true})
	s.put("%s[%s] = 1u;\n%s[%s] = bitcast<u32>(given);\nreturn;\n}", status, s.u(b.status), status, s.u(b.status+1))
	s.put("let slice = u32(i);\nif (slice < %s || slice >= %s) { return; }", s.u(lo), s.u(hi))
	s.put("%s[%s + t] = %s[%s + (outer * %s + slice - %s) * %s + col];", s.bind(y.memory), s.u(y.off/4), s.bind(x.memory), s.u(x.off/4),
		s.u(hi-lo), s.u(lo), s.u(inner))
	return launch{s, spread((total + groupSize - 1) / groupSize)}
}
