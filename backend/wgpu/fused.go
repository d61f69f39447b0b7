package wgpu

import (
	"fmt"
	"strings"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// mapExpression makes a line of each instruction. Values in between have the precision of their type, as if they were stored.
func mapExpression(n *ir.Node) (expression, bool) {
	m, in := n.Op.(ir.Map), dtypesOf(n)
	types, err := m.Expr.Types(n.Inputs)
	if err != nil {
		return expression{}, false
	}
	var needs, lines []string
	for i, x := range m.Expr {
		var args []string
		var dtypes []tensor.DType
		for _, a := range x.Args {
			if a >= 0 {
				args, dtypes = append(args, fmt.Sprintf("$%d", a+1)), append(dtypes, in[a])
			} else {
				args, dtypes = append(args, fmt.Sprintf("v%d", -1-a)), append(dtypes, target.Wide(types[-1-a].DType))
			}
		}
		expressionOf := elementExpressions[x.Op.Kind()]
		if expressionOf == nil { // of bytes
			return expression{}, false
		}
		e, ok := expressionOf(x.Op, dtypes)
		if !ok {
			return expression{}, false
		}
		line := e.of(args...)
		if i < len(m.Expr)-1 {
			switch types[i].DType {
			case tensor.F16:
				line, needs = "f16_("+line+")", append(needs, "f16_")
			case tensor.BF16:
				line, needs = "bitcast<f32>(bf16_("+line+") << 16u)", append(needs, "bf16_")
			}
		}
		needs, lines = append(needs, e.needs...), append(lines, line)
	}
	return expression{strings.Join(lines, "\n"), needs}, true
}
