package wgpu

import (
	"fmt"

	"github.com/rlxc/rlxc/ir"
)

// An epilogue is what happens to the sums of a product before they are stored: act(Alpha·sum + bias) + residual.
type epilogue struct {
	op             ir.MatMul
	y              *operand // row-major
	bias, residual *operand // or nil
	cols           int

	// Set by begin: the texts of what the lines below are made of.
	act, scale, width       string
	out, biasAt, residualAt string // up to the index
}

// vector reports whether whole vec4 can be stored.
func (e *epilogue) vector() bool {
	return e.y.off%16 == 0 && (e.bias == nil || e.bias.off%16 == 0) && (e.residual == nil || e.residual.off%16 == 0)
}

// activations are the functions of the fused activations.
var activations = [ir.NumActivations]string{ir.ActRelu: "relu_", ir.ActGelu: "gelu_", ir.ActGeluTanh: "geluTanh_", ir.ActTanh: "tanh_"}

// begin prepares for stores to memories whose words hold so many floats.
func (e *epilogue) begin(s *shader, lanes int) {
	if e.act = activations[e.op.Act]; e.act != "" {
		s.use(e.act)
	}
	if e.op.Scale() != 1 {
		e.scale = " * " + s.f(e.op.Scale())
	}
	at := func(o *operand) string {
		if o == nil {
			return ""
		}
		return fmt.Sprintf("%s[%s + ", s.bind(o.memory), s.u(o.first()/lanes))
	}
	e.width, e.out, e.biasAt, e.residualAt = s.u(e.cols/lanes), at(e.y), at(e.bias), at(e.residual)
}

// write puts the lines that store word v as word col of row r; base is what the rows start behind.
func (e *epilogue) write(s *shader, v, base, r, col string) {
	s.put("let at = %s + %s * %s + %s;\nvar z = %s%s;", base, r, e.width, col, v, e.scale)
	if e.bias != nil {
		s.put("z += %s%s];", e.biasAt, col)
	}
	switch {
	case e.act != "" && s.word == "f32":
		s.put("z = %s(z);", e.act)
	case e.act != "":
		s.put("z = vec4<f32>(%[1]s(z.x), %[1]s(z.y), %[1]s(z.z), %[1]s(z.w));", e.act)
	}
	if e.residual != nil {
		s.put("z += %sat];", e.residualAt)
	}
	s.put("%sat] = z;", e.out)
}

// sum is the launch that adds the splits of a product up and finishes.
func (e *epilogue) sum(parts *operand, rows, splits int, vector bool) launch {
	word, lanes := "f32", 1
	if vector {
		word, lanes = "vec4<f32>", 4
	}
	s := newShader("matmul_sum", word, groupSize)
	total := rows * e.cols / lanes
	size := s.u(total)
	s.put("let t = %s * %du + lid;", linear, groupSize)
	s.put("if (t >= %s) { return; }", size)
	s.put("var v = %s();\nfor (var i = 0u; i < %s; i++) { v += %s[%s + i * %s + t]; }", word, s.u(splits), s.bind(parts.memory), s.u(parts.first()/lanes), size)
	e.begin(s, lanes)
	s.put("let r = t / %s;\nlet q = t %% %s;", e.width, e.width)
	e.write(s, "v", "0u", "r", "q")
	return launch{s, spread(ceil(total, groupSize))}
}
