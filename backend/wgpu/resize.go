package wgpu

import (
	"fmt"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

var resizeEntry = entry{
	Supports: func(n *ir.Node) bool { return n.Inputs[0].Type.DType == tensor.F32 },
	Strided:  target.AllStrides,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
		op, x, y := n.Op.(ops.Resize), in[0], out[0]
		mixed, words := backend.MixTable(op, x.Shape, y.Shape)
		if words == nil {
			return nil, errOnHost
		}
		w, err := b.weight(words, false)
		if err != nil {
			return nil, err
		}
		table := memory{constant: w.pieces[0]}
		return []launch{produce("resize", y, elements[tensor.F32], func(s *shader, i string) (value, to string) {
			m := s.bind(table)
			s.put("var value = 0.0;\nvar inside = true;\nvar rest = %s;\nvar a0 = %s;", i, s.u(x.first()))
			for axis := len(y.Shape) - 1; axis >= 0; axis-- {
				size := s.u(y.Shape[axis])
				s.put("let c%d = rest %% %s;\nrest /= %s;", axis, size, size)
			}
			changed := map[int]bool{}
			for k, a := range mixed {
				changed[a.Axis] = true
				s.put("let t%d = %s + c%d * %du;\ninside = inside && %s[t%d] != %s;", k, s.u(a.At), a.Axis, 2*a.Taps, m, k, outside)
			}
			for axis := range y.Shape {
				if !changed[axis] {
					s.put("a0 += c%d * %s;", axis, s.u(x.Strides[axis]))
				}
			}
			s.put("if (inside) {\nlet w0 = 1.0;")
			for k, a := range mixed {
				s.put("for (var k%[1]d = 0u; k%[1]d < %[2]du; k%[1]d++) {\nlet n%[1]d = %[3]s[t%[1]d + 2u * k%[1]d];\nif (n%[1]d == "+
					"%[4]s) { break; }", k, a.Taps, m, outside)
				s.put("let a%d = a%d + n%d * %s;\nlet w%d = w%d * bitcast<f32>(%s[t%d + 2u * k%d + 1u]);", k+1, k, k,
					s.u(x.Strides[a.Axis]), k+1, k, m, k, k)
			}
			last := len(mixed)
			s.put("value += w%d * %s;", last, elements[tensor.F32].load(s.bind(x.memory), fmt.Sprintf("a%d", last)))
			for range mixed {
				s.put("}")
			}
			s.put("} else { value = %s; }", s.f(float32(op.Extrapolation)))
			return "value", s.u(y.first()) + " + " + i
		})}, nil
	},
}
