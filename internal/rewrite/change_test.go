package rewrite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
)

// TestFollow: what is made in place of several values is where any of them was.
func TestFollow(t *testing.T) {
	plain, other, made := &ir.Value{}, &ir.Value{}, &ir.Value{}
	for _, replaced := range [][]replacement{{{plain, &ir.Value{}}, {other, &ir.Value{}}}, {{other, &ir.Value{}}, {plain, &ir.Value{}}}} {
		s := findSteps(ir.NewGraph(""), false)
		follow := func() []bool {
			s.follow([]*ir.Node{{Op: ir.Unary{}, Inputs: []*ir.Value{plain}, Outputs: []*ir.Value{made}}}, replaced)
			return []bool{s.sharp[made], s.quantized[made]}
		}
		require.Equal(t, []bool{false, false}, follow())
		s.quantized[other] = true
		require.Equal(t, []bool{false, true}, follow())
		s.sharp[other] = true
		require.Equal(t, []bool{true, true}, follow())
	}
}
