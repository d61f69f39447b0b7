package wgpu

import (
	"fmt"
	"strings"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/tensor"
)

// A nest is a loop nest. An invocation computes its position in the nest from its number.
type nest backend.Nest

func newNest(shape tensor.Shape, operands ...*operand) nest {
	return nest(backend.NewNest(shape, operands...))
}

// walk writes lines that add the offset of flat index i to the variable of each operand.
func (n nest) walk(s *shader, i string, variables ...string) {
	if len(n.Shape) == 0 {
		return
	}
	s.put("var rest = %s;", i)
	for k := len(n.Shape) - 1; k >= 0; k-- {
		var lines strings.Builder
		for j, v := range variables {
			switch st := n.Strides[j][k]; {
			case st == 0:
			case st == 1:
				fmt.Fprintf(&lines, " %s += c;", v)
			default:
				fmt.Fprintf(&lines, " %s += c * %s;", v, s.u(st))
			}
		}
		if k > 0 {
			size := s.u(n.Shape[k])
			s.put("{ let c = rest %% %s; rest /= %s;%s }", size, size, lines.String())
		} else {
			s.put("{ let c = rest;%s }", lines.String())
		}
	}
}
