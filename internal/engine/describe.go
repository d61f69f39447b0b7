package engine

import "github.com/rlxc/rlxc/ir"

// Sizes is a tensor's shape in text: a number or an expression in symbols for each axis, or "*" where the rank is not known.
func Sizes(t ir.Type) []string {
	if t.Unranked {
		return []string{"*"}
	}
	sizes := make([]string, len(t.Shape))
	for i, d := range t.Shape {
		sizes[i] = d.String()
	}
	return sizes
}
