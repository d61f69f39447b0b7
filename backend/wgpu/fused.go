package wgpu

import (
	"fmt"
	"strings"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// mapText makes a line of each instruction.
func mapText(m ir.Map, in []tensor.DType) (expression, bool) {
	var values []*ir.Value
	for _, d := range in {
		values = append(values, &ir.Value{Type: ir.TensorOf(d)})
	}
	types, err := m.Expr.Types(values)
	if err != nil {
		return expression{}, false
	}
	var needs, lines []string
	for _, x := range m.Expr {
		var args []string
		var dtypes []tensor.DType
		for _, a := range x.Args {
			if a >= 0 {
				args, dtypes = append(args, fmt.Sprintf("$%d", a+1)), append(dtypes, in[a])
			} else {
				args, dtypes = append(args, fmt.Sprintf("v%d", -1-a)), append(dtypes, types[-1-a].DType)
			}
		}
		e, ok := elementTexts[x.Op.Kind()](x.Op, dtypes)
		if !ok {
			return expression{}, false
		}
		needs, lines = append(needs, e.needs...), append(lines, e.of(args...))
	}
	return expression{strings.Join(lines, "\n"), needs}, true
}
