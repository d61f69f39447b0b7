package wgpu

import (
	"fmt"
	"strconv"

	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// heldRow is the largest size of a row that a norm holds in registers: 8 words an invocation.
const heldRow = 8 * groupSize

// A norm is a kernel that normalises rows: a workgroup has a row, and goes over it three times.
type norm struct {
	*shader
	cols  int
	count string // words of a row
	held  int    // words of the row that an invocation keeps from the first pass on; 0 where each pass reads them again
}

// newNorm makes the kernel. It reads and writes whole vec4 if operands are aligned to them and rows consist of them.
func (d *Device) newNorm(name string, rows, cols int, operands ...*operand) *norm {
	word, lanes := "vec4<f32>", 4
	for _, o := range operands {
		if cols%4 != 0 || o != nil && o.off%16 != 0 {
			word, lanes = "f32", 1
		}
	}
	n := &norm{shader: d.newRowShader(name, word, rows, cols/lanes), cols: cols}
	if cols <= heldRow {
		n.held = ceil(cols/lanes, n.size)
	}
	n.count = n.u(cols / lanes)
	return n
}

// A stage puts lines for a word of a row; i is the suffix of its variables.
type stage func(i string)

// words are the suffixes of the variables for the words of a row that an invocation has at once.
func (n *norm) words() []string {
	if n.held == 0 {
		return []string{""}
	}
	var names []string
	for k := range n.held {
		names = append(names, strconv.Itoa(k))
	}
	return names
}

// pass writes the lines of the stages for each word c of an invocation. A stage gets the suffix of a word's variables. If words are held in
// variables, all words pass one stage before any passes the next, so that the reads of a stage overlap.
func (n *norm) pass(stages ...stage) {
	if n.held == 0 {
		n.along(n.count)
		for _, stage := range stages {
			stage("")
		}
		n.put("}")
		return
	}
	for _, stage := range stages {
		for k, i := range n.words() {
			n.put("{ let c = lid + %du;", k*n.size)
			if k == n.held-1 { // the others are within the row
				n.put("if (c < %s) {", n.count)
			}
			stage(i)
			if k == n.held-1 {
				n.put("}")
			}
			n.put("}")
		}
	}
}

// at is the WGSL expression of word c of the workgroup's row of an operand, or of the only row.
func (n *norm) at(o *operand, only bool) string {
	row := fmt.Sprintf("row * %s + ", n.count)
	if only {
		row = ""
	}
	return fmt.Sprintf("%s[%s + %sc]", n.bind(o.memory), n.u(o.off/(4*n.lanes())), row)
}

// sums puts the line that adds up the lanes of acc over the workgroup.
func (n *norm) sums(to string) {
	sum := "acc"
	if n.lanes() == 4 {
		sum = "dot(acc, vec4<f32>(1.0))"
	}
	n.put("var %s = %s;", to, sum)
	n.allReduce(to, sumOf)
	n.put("%s /= f32(%s);", to, n.u(n.cols))
}

// rows puts the three passes. value puts the line that sets a variable to the row's word c; sum, where it is there, takes
// the words.
func (n *norm) rows(value func(to string), op ir.LayerNorm, y, scale, bias, sum *operand) {
	to, total := n.at(y, false), ""
	load := func(i string) { value("v" + i) }
	again := load
	if sum != nil { // result 0 may be where an operand did
		total = n.at(sum, false)
		again = func(i string) { n.put("v%s = %s;", i, total) }
	}
	gain, shift := n.only("gain", scale), n.only("shift", bias)
	affine := func(i string) { gain(i); shift(i) }
	first, second, third := []stage{load, affine}, []stage{}, []stage{}
	if n.held == 0 {
		first, second, third = []stage{load}, []stage{again}, []stage{again, affine}
	}
	n.put("var acc = %s();", n.word)
	for _, i := range n.words() {
		n.put("var v%[2]s = %[1]s();\nvar gain%[2]s = %[1]s(1.0);\nvar shift%[2]s = %[1]s();", n.word, i)
	}
	n.pass(append(first, func(i string) {
		n.put("acc += v%s;", i)
		if sum != nil {
			n.put("%s = v%s;", total, i)
		}
	})...)
	if op.RMS {
		n.put("let mean = 0.0;")
	} else {
		n.sums("mean")
	}
	n.put("acc = %s();", n.word)
	n.pass(append(second, func(i string) { n.put("let d = v%s - mean;\nacc += d * d;", i) })...)
	n.sums("variance")
	n.put("let scale = inverseSqrt(variance + %s);", n.f(op.Eps))
	n.pass(append(third, func(i string) { n.put("%s = (v%[2]s - mean) * scale * gain%[2]s + shift%[2]s;", to, i) })...)
}

// only is the stage that reads word c of an operand that has one row; it leaves the variable unchanged where there is none.
func (n *norm) only(name string, o *operand) stage {
	if o == nil {
		return func(string) {}
	}
	value := n.at(o, true)
	return func(i string) { n.put("%s%s = %s;", name, i, value) }
}

var layerNormEntry = entry{
	Supports: func(n *ir.Node) bool { return n.Inputs[ir.LayerNormX].Type.DType == tensor.F32 && gpu.Normalizes(n) },
	InPlace:  gpu.Writes(ir.LayerNormX, ir.LayerNormResidual),
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
		op := n.Op.(ir.LayerNorm)
		x, scale, bias, residual := in[ir.LayerNormX], ir.Operand(in, ir.LayerNormScale), ir.Operand(in, ir.LayerNormBias),
			ir.Operand(in, ir.LayerNormResidual)
		var sum *operand
		if op.Sum {
			sum = out[1]
		}
		cols := x.Shape[len(x.Shape)-op.Axes:].Elements()
		rows := x.Elements() / cols
		s := b.d.newNorm("layernorm", rows, cols, x, scale, bias, residual, sum, out[0])
		value := s.at(x, false)
		if residual != nil {
			value += " + " + s.at(residual, false)
		}
		s.rows(func(to string) { s.put("%s = %s;", to, value) }, op, out[0], scale, bias, sum)
		return []launch{{s.shader, spread(rows)}}, nil
	},
}
