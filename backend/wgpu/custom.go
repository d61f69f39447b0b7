package wgpu

import (
	"fmt"
	"strings"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// customEntry runs the WGSL of a user's operator (ir.OpDef says what it sees), an invocation for each element of the
// first result. Operators without stay on the host, as do those with results narrower than a word, which invocations
// would share.
var customEntry = entry{
	Supports: func(n *ir.Node) bool {
		ok := n.Op.(ir.Custom).Def != nil && n.Op.(ir.Custom).Def.WGSL != ""
		for _, v := range n.Inputs {
			ok = ok && (v == nil || v.Type.Kind == ir.TensorType && seen(v.Type.DType).wgsl != "")
		}
		for _, v := range n.Outputs {
			ok = ok && v.Type.Kind == ir.TensorType && seen(v.Type.DType).width >= 4
		}
		return ok
	},
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
		op := n.Op.(ir.Custom)
		s := newShader(op.Name, "u32", groupSize)
		s.checked = true
		s.declare("%s", attributeConstants(op.Attrs))
		for i := range in {
			if x := in[i]; n.HasOperand(i) {
				e := seen(x.DType)
				s.sizes(fmt.Sprintf("x%d", i), x)
				s.declare("fn x%d(i: u32) -> %s { let at = %s + min(i, %s - 1u); return %s; }\n", i, e.wgsl, s.u(x.first()),
					s.u(x.Elements()), e.load(s.bind(x.memory), "at"))
			}
		}
		for i := range out {
			y := out[i]
			e, m, first := seen(y.DType), s.bind(y.memory), s.u(y.first())
			s.sizes(fmt.Sprintf("y%d", i), y)
			write := fmt.Sprintf("%s[%s + i] = %s;", m, first, e.bits("v"))
			if y.DType == tensor.I64 {
				write = fmt.Sprintf("let at = (%s + i) * 2u; %s[at] = u32(v); %s[at + 1u] = u32(v >> 31u);", first, m, m)
			}
			s.declare("fn y%d(i: u32, v: %s) { if (i < %s) { %s } }\n", i, e.wgsl, s.u(y.Elements()), write)
		}
		s.declare("%s\n", op.Def.WGSL)
		total := out[0].Elements()
		s.put("let t = %s * %du + lid;\nif (t < %s) { compute(t); }", linear, groupSize, s.u(total))
		return []launch{{s, spread(ceil(total, groupSize))}}, nil
	},
}

// seen is how a user's WGSL sees elements: 64-bit integers by their low 32 bits.
func seen(d tensor.DType) element {
	e := elements[d]
	if d == tensor.I64 {
		wide := e.load
		e.wgsl, e.load = "i32", func(m, at string) string { return "bitcast<i32>(" + wide(m, at) + ".x)" }
		e.bits = func(v string) string { return v }
	}
	return e
}

// sizes declares the sizes of an operand.
func (s *shader) sizes(name string, o *operand) {
	var cases strings.Builder
	for axis, n := range o.Shape {
		fmt.Fprintf(&cases, "case %du: { return %s; } ", axis, s.u(n))
	}
	s.declare("fn %s_size(axis: u32) -> u32 { switch (axis) { %sdefault: { return 1u; } } }\n", name, cases.String())
}

// attributeConstants declares the attributes that are numbers.
func attributeConstants(attrs ir.Attrs) string {
	var source strings.Builder
	for _, a := range attrs {
		switch v := a.Value.(type) {
		case int64:
			fmt.Fprintf(&source, "const attr_%s: i32 = %d;\n", a.Name, int32(v))
		case float32:
			fmt.Fprintf(&source, "const attr_%s: f32 = %s;\n", a.Name, literal(v))
		}
	}
	return source.String()
}
