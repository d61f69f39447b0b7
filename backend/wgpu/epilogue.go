package wgpu

import (
	"fmt"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// An epilogue is what happens to the sums of a product before they are stored: act(scale·sum + bias) + residual.
type epilogue struct {
	scale          float32
	act            ir.Unary
	y              *operand // row-major
	bias, residual *operand // or nil
	cols           int

	// begin sets these expressions.
	activated               expression
	scaled, width           string
	out, biasAt, residualAt string // expressions up to the index
}

// vector reports whether whole vec4 can be stored.
func (e *epilogue) vector() bool {
	return e.y.off%16 == 0 && (e.bias == nil || e.bias.off%16 == 0) && (e.residual == nil || e.residual.off%16 == 0)
}

// activation is the expression of a function that a product applies to its sums; empty for none.
func activation(u ir.Unary) expression {
	e := unaryExpressions[tensor.F32][u.Fn]
	return expression{e.of("$1", literal(u.Alpha), literal(u.Beta)), e.needs}
}

// begin prepares for stores to memories whose words hold that many floats.
func (e *epilogue) begin(s *shader, lanes int) {
	e.activated = activation(e.act)
	s.use(e.activated.needs...)
	if e.scale != 1 {
		e.scaled = " * " + s.f(e.scale)
	}
	at := func(o *operand) string {
		if o == nil {
			return ""
		}
		return fmt.Sprintf("%s[%s + ", s.bind(o.memory), s.u(o.first()/lanes))
	}
	e.width, e.out, e.biasAt, e.residualAt = s.u(e.cols/lanes), at(e.y), at(e.bias), at(e.residual)
}

// write puts the lines that store word v as word col of row r; base is what the rows start after.
func (e *epilogue) write(s *shader, v, base, r, col string) {
	s.put("let at = %s + %s * %s + %s;\nvar z = %s%s;", base, r, e.width, col, v, e.scaled)
	if e.bias != nil {
		s.put("z += %s%s];", e.biasAt, col)
	}
	switch {
	case e.activated.wgsl != "" && s.word == "f32":
		s.put("z = %s;", e.activated.of("z"))
	case e.activated.wgsl != "":
		s.put("z = vec4<f32>(%s, %s, %s, %s);", e.activated.of("z.x"), e.activated.of("z.y"), e.activated.of("z.z"), e.activated.of("z.w"))
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
	s.put("var v = %s();\nfor (var i = 0u; i < %s; i++) { v += %s[%s + i * %s + t]; }", word, s.u(splits), s.bind(parts.memory),
		s.u(parts.first()/lanes), size)
	e.begin(s, lanes)
	s.put("let r = t / %s;\nlet q = t %% %s;", e.width, e.width)
	e.write(s, "v", "0u", "r", "q")
	return launch{s, spread(ceil(total, groupSize))}
}
