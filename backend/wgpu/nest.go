package wgpu

import (
	"fmt"
	"strings"

	"github.com/rlxc/rlxc/tensor"
)

// A nest is a walk over operands of one, broadcast, shape: axes that lie evenly in all operands are merged, so that most
// walks have one or two.
type nest struct {
	shape   []int
	strides [][]int // by operand, along shape; 0 where the operand is broadcast
}

// newNest makes the walk over shape. Operands of a lower rank or with axes of size 1 are broadcast.
func newNest(shape tensor.Shape, operands ...*operand) *nest {
	n := &nest{strides: make([][]int, len(operands))}
	for axis, size := range shape {
		if size == 1 {
			continue
		}
		st := make([]int, len(operands))
		for i, o := range operands {
			if k := axis - (len(shape) - len(o.shape)); k >= 0 && o.shape[k] != 1 {
				st[i] = o.strides[k]
			}
		}
		n.push(size, st)
	}
	return n
}

// push adds an inner axis, merged with the one before where every operand goes on evenly.
func (n *nest) push(size int, st []int) {
	if last := len(n.shape) - 1; last >= 0 {
		even := true
		for i, s := range st {
			even = even && n.strides[i][last] == s*size
		}
		if even {
			n.shape[last] *= size
			for i, s := range st {
				n.strides[i][last] = s
			}
			return
		}
	}
	n.shape = append(n.shape, size)
	for i, s := range st {
		n.strides[i] = append(n.strides[i], s)
	}
}

// walk puts the lines that add the distance of flat index i to the variable of each operand. Names of variables may be
// empty: the operand is not looked at.
func (n *nest) walk(s *shader, i string, variables ...string) {
	if len(n.shape) == 0 {
		return
	}
	s.put("var rest = %s;", i)
	for k := len(n.shape) - 1; k >= 0; k-- {
		var lines strings.Builder
		for j, v := range variables {
			switch st := n.strides[j][k]; {
			case v == "" || st == 0:
			case st == 1:
				fmt.Fprintf(&lines, " %s += c;", v)
			default:
				fmt.Fprintf(&lines, " %s += c * %s;", v, s.u(st))
			}
		}
		if k > 0 {
			size := s.u(n.shape[k])
			s.put("{ let c = rest %% %s; rest /= %s;%s }", size, size, lines.String())
		} else {
			s.put("{ let c = rest;%s }", lines.String())
		}
	}
}
