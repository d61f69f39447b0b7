package cuda

import "github.com/rlxc/rlxc/ir"

// addMap appends the instructions of a map.
func (e *expression) addMap(m ir.Map, args []term) (term, bool) {
	var values []*ir.Value
	for _, a := range args {
		values = append(values, &ir.Value{Type: ir.TensorOf(a.dtype)})
	}
	types, err := m.Expr.Types(values)
	if err != nil {
		return term{}, false
	}
	var results []term
	for i, x := range m.Expr {
		list := make([]term, len(x.Args))
		for k, a := range x.Args {
			if a >= 0 {
				list[k] = args[a]
			} else {
				list[k] = results[-1-a]
			}
		}
		y, ok := e.add(x.Op, list, types[i].DType)
		if !ok {
			return term{}, false
		}
		results = append(results, y)
	}
	return results[len(results)-1], true
}
