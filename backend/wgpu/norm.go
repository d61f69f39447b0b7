package wgpu

import (
	"fmt"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/target"
	"github.com/rlxc/rlxc/tensor"
)

// cachedRow is the longest row that a norm keeps in workgroup memory: 8 of the 16 KiB that every device has.
const cachedRow = 2048

// A norm is a kernel that normalises rows: a workgroup has a row, and goes over it three times.
type norm struct {
	*shader
	cols   int
	count  string // words of a row
	cached bool   // the row stays in workgroup memory between the passes
}

// newNorm makes the kernel; operands that lie at whole vec4, like rows of whole vec4, move so.
func newNorm(name string, rows, cols int, operands ...*operand) *norm {
	word, lanes := "vec4<f32>", 4
	for _, o := range operands {
		if cols%4 != 0 || o != nil && o.off%16 != 0 {
			word, lanes = "f32", 1
		}
	}
	n := &norm{shader: newRowShader(name, word, "f32", rows, cols/lanes), cols: cols, cached: cols <= cachedRow}
	if n.cached {
		n.share("cache", word, cols/lanes)
	}
	n.count = n.u(cols / lanes)
	return n
}

// at is the text of word c of the workgroup's row of an operand, or of the only row.
func (n *norm) at(o *operand, only bool) string {
	row := fmt.Sprintf("row * %s + ", n.count)
	if only {
		row = ""
	}
	return fmt.Sprintf("%s[%s + %sc]", n.bind(o.memory), n.u(o.off/(4*n.lanes())), row)
}

// sums puts the line that adds up the lanes of acc over the workgroup.
func (n *norm) sums(to string) {
	text := "acc"
	if n.lanes() == 4 {
		text = "dot(acc, vec4<f32>(1.0))"
	}
	n.put("var %s = %s;", to, text)
	n.allReduce(to, sumOf)
	n.put("%s /= f32(%s);", to, n.u(n.cols))
}

// rows puts the three passes. first puts lines that compute the row's word c, as v; again is the text that has it in the
// later passes.
func (n *norm) rows(first func(), again string, op ir.LayerNorm, y, scale, bias *operand) {
	if n.cached {
		again = "cache[c]"
	}
	n.put("var acc = %s();", n.word)
	n.along(n.count)
	first()
	n.put("acc += v;")
	if n.cached {
		n.put("cache[c] = v;")
	}
	n.put("}")
	if op.RMS {
		n.put("let mean = 0.0;")
	} else {
		n.sums("mean")
	}
	n.put("acc = %s();", n.word)
	n.along(n.count)
	n.put("let v = %s - mean;\nacc += v * v;\n}", again)
	n.sums("variance")
	n.put("let scale = inverseSqrt(variance + %s);", n.f(op.Eps))
	n.along(n.count)
	n.put("var z = (%s - mean) * scale;", again)
	if scale != nil {
		n.put("z *= %s;", n.at(scale, true))
	}
	if bias != nil {
		n.put("z += %s;", n.at(bias, true))
	}
	n.put("%s = z;\n}", n.at(y, false))
}

// option gives operand i, or nil where it is absent.
func option(n *ir.Node, in []operand, i int) *operand {
	if given(n, i) {
		return &in[i]
	}
	return nil
}

var layerNormRow = row{
	Row: target.Row{
		Runs: target.OnKernel,
		Claims: func(n *ir.Node) bool {
			x := n.Inputs[ir.LayerNormX].Type
			if x.DType != tensor.F32 {
				return false
			}
			inner := x.Shape[len(x.Shape)-n.Op.(ir.LayerNorm).Axes:]
			for _, i := range []int{ir.LayerNormScale, ir.LayerNormBias} {
				if given(n, i) && !n.Inputs[i].Type.Shape.Equal(inner) {
					return false
				}
			}
			return true
		},
		InPlace: func(n *ir.Node, i int) bool { return i == ir.LayerNormX || i == ir.LayerNormResidual },
	},
	bind: func(b *binder, n *ir.Node) ([]launch, error) {
		op := n.Op.(ir.LayerNorm)
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		x, scale, bias, residual := &in[ir.LayerNormX], option(n, in, ir.LayerNormScale), option(n, in, ir.LayerNormBias), option(n, in, ir.LayerNormResidual)
		var sum *operand
		if op.Sum {
			sum = &out[1]
		}
		cols := x.shape[len(x.shape)-op.Axes:].Elements()
		rows := x.elements() / cols
		s := newNorm("layernorm", rows, cols, x, scale, bias, residual, sum, &out[0])
		value := s.at(x, false)
		if residual != nil {
			value += " + " + s.at(residual, false)
		}
		again := value
		if sum != nil { // result 0 may lie where an operand did
			again = s.at(sum, false)
		}
		s.rows(func() {
			s.put("let v = %s;", value)
			if sum != nil {
				s.put("%s = v;", again)
			}
		}, again, op, &out[0], scale, bias)
		return []launch{{s.shader, spread(rows)}}, nil
	},
}

// embeddingRow adds rows of tables and normalises the sum.
var embeddingRow = row{
	Row: target.Row{
		Runs: target.OnKernel,
		Claims: func(n *ir.Node) bool {
			cols, known := n.Inputs[ir.EmbeddingTable].Type.Shape[1].Const()
			return known && cols <= cachedRow && n.Inputs[ir.EmbeddingTable].Type.DType == tensor.F32
		},
	},
	pieces: func(i int) bool { return i >= ir.EmbeddingTable && i%2 == 0 },
	bind: func(b *binder, n *ir.Node) ([]launch, error) {
		op := n.Op.(ir.Embedding)
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		y, index := &out[0], &in[ir.EmbeddingIndex]
		scale, bias := option(n, in, ir.EmbeddingScale), option(n, in, ir.EmbeddingBias)
		aligned := []*operand{scale, bias, y}
		for i := ir.EmbeddingTable; i < len(in); i += 2 {
			aligned = append(aligned, &in[i])
			if !b.whole(n.Inputs[i], &in[i]) {
				return nil, errOnHost
			}
		}
		cols, rows := y.shape[len(y.shape)-1], index.elements()
		s := newNorm("embedding", rows, cols, aligned...)
		for i := ir.EmbeddingTable; i < len(in); i += 2 {
			table, name := &in[i], fmt.Sprintf("i%d", i)
			switch {
			case given(n, i+1):
				narrow := s.index(name, &in[i+1], "row")
				b.inRange(s.shader, name, narrow, 0, table.shape[0], name+" = 0;")
			case table.shape[0] == 1:
				s.put("let %s = 0;", name)
			default:
				s.put("let %s = i32(row %% %s);", name, s.u(index.shape[len(index.shape)-1]))
			}
		}
		s.rows(func() {
			s.put("var v = %s();\nvar part = v;", s.word)
			for i := ir.EmbeddingTable; i < len(in); i += 2 {
				s.row("part", &in[i], fmt.Sprintf("u32(i%d)", i), s.count, "c")
				s.put("v += part;")
			}
		}, "", ir.LayerNorm{Eps: op.Eps, RMS: op.RMS}, y, scale, bias)
		return []launch{{s.shader, spread(rows)}}, nil
	},
}
