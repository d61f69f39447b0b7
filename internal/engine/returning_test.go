package engine

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/options"
)

// TestReturningKeepsWhatOutputsNeed: of a graph, the nodes and inputs stay that some outputs depend on, also by the sizes that they define.
// An input that no node reads stays as well.
func TestReturningKeepsWhatOutputsNeed(t *testing.T) {
	src := text(`(%0 "a": f32[n,3], %1 "b": f32[n,3], %2 "c": f32[k,3], %3 "unread": f32[2], %4 "size": f32[m]) {
		const %5: f32[3,2] = data %6 = matmul(%0, %5) %7 = add(%0, %1) %8 = neg(%2) %9: i64[2,u] = onnx.NonZero(%7)
		%10 = range() {step=1, len=u, dtype=i64} %11 = exp(%4) %12 = range() {step=1, len=m, dtype=i64}
		return %6 as "y", %8 as "z", %10 as "count", %12 as "sizes", %11 as "exp" }`)
	p, err := Compile(context.Background(), src, src.Graph, options.Compile{Level: options.O0, Threads: 1})
	require.NoError(t, err)
	defer p.Close()
	for _, c := range []struct {
		name            string
		outputs, inputs []string
		nodes           int
	}{
		{"an operand", []string{"y"}, []string{"a", "unread"}, 1},
		{"two", []string{"z", "y"}, []string{"a", "c", "unread"}, 2},
		{"a size of an input", []string{"sizes"}, []string{"unread", "size"}, 1},
		{"a size that depends on data", []string{"count"}, []string{"a", "b", "unread"}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := p.Returning(c.outputs)
			require.NoError(t, err)
			defer r.Close()
			var names []string
			for _, v := range r.Graph().Inputs {
				names = append(names, v.Name)
			}
			require.Equal(t, c.inputs, names)
			require.Len(t, r.Graph().Nodes, c.nodes)
		})
	}
}
