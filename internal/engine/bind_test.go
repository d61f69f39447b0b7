package engine

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TestWeightsOfBinding: weights that no pass made constants, and binding does, are packed when they are bound.
func TestWeightsOfBinding(t *testing.T) {
	for name, program := range map[string]text{
		"convolution": `(%0 "x": f32[n,5,4]) {
			const %1: i8[3,4,6] = [1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,` +
			`6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9]
			const %2: f32[] = [0.125] %3 = dequantize(%1, %2) {to=f32}
			%4 = conv(%0, %3) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1} return %4 as "y" }`,
		"recurrence": `(%0 "x": f32[5,n,2]) { const %1: i8[1,3,2] = [1,-2,3,-4,5,-6] const %2: f32[] = [0.125]
			%3 = dequantize(%1, %2) {to=f32}
			const %4: i8[1,3,3] = [1,2,3,-4,5,6,7,-8,9] %5 = dequantize(%4, %2) {to=f32} %6: f32[5,1,n,3],
			%7: f32[1,n,3] = onnx.RNN(%0, %3, %5) {hidden=3} return %6 as "y" }`,
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Compile(context.Background(), program, program.Graph, options.Compile{Level: options.O1, Verify: true})
			require.NoError(t, err)
			defer p.Close()
			s, err := p.NewSession()
			require.NoError(t, err)
			defer s.Close()
			g, err := program.Graph()
			require.NoError(t, err)
			x := numbers(0, sized(g.Inputs[0], 2)...)
			want, err := ir.Interpret(g, []*tensor.Tensor{x})
			require.NoError(t, err)
			got, err := s.Run(context.Background(), map[string]*tensor.Tensor{"x": x})
			require.NoError(t, err)
			for i := range want[0].Len() {
				require.InDelta(t, want[0].Float64(i), got["y"].Float64(i), 1e-5, "element %d", i)
			}
		})
	}
}
