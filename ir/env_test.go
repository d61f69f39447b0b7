package ir

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/tensor"
)

// TestEvalsEnd with their context. Each op has few operands beside its inner loop, the work of which it must count.
func TestEvalsEnd(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for _, text := range []string{
		`(%0: f32[32,32]) { %1 = matmul(%0, %0)`,
		`(%0: i64[32,32]) { %1 = matmul(%0, %0)`,
		`(%0: f32[1,17000], %1: i64[1]) { %2 = gather(%0, %1)`,
		`(%0: f32[1,17000], %1: i64[1]) { %2 = embedding(_, _, %0, %1)`,
		`(%0: f32[1,4,64], %1: f32[1,64,65]) {
			%2 = conv(%0, %1) {kernel=[1], pads=[0,0], strides=[1], dilations=[1], auto_pad="NOTSET", group=1}`,
		`(%0: f32[9000]) { %1, %2, %3 = onnx.DynamicQuantizeLinear(%0)`,
		`(%0: f32[17000]) { %1 = transpose(%0) {perm=[0]}`,
		`(%0: f32[2,1,17000]) { %1 = transpose(%0) {perm=[1,0,2]}`,
		`(%0: f32[130,130]) { %1 = transpose(%0) {perm=[1,0]}`,
		`(%0: f32[17000]) { %1 = concat(%0)`,
		`(%0: f32[17000]) { %1 = reduce_sum(%0) {axes=[0]}`,
		`(%0: f32[17000]) { %1 = cumsum(%0)`,
		`(%0: f32[4100]) { %1 = layernorm(%0) {axes=1}`,
		`(%0: f32[1,64,4,1]) { %1 = attention(%0, %0, %0)`,
		`(%0: f32[1,1,1,34000], %1: f32[1,1,17000]) { %2 = rotary(%0, %1, %1)`,
		`(%0: f32[17000]) { %1 = neg(%0)`,
		`(%0: f32[17000]) { %1 = add(%0, %0)`,
		`(%0: f32[17000]) { %1: f16[17000] = cast(%0) {to=f16}`,
		`(%0: f32[1]) { %1 = tile(%0) {repeats=[17000]}`,
	} {
		g, err := Parse(`graph "" ` + text + ` return }`)
		require.NoError(t, err)
		n, in := g.Nodes[0], []*tensor.Tensor(nil)
		for _, v := range n.Inputs {
			if in = append(in, nil); v != nil {
				in[len(in)-1] = tensor.New(v.Type.DType, v.Type.Sizes()...)
			}
		}
		_, err = EvalOp(&Env{Context: t.Context()}, n.Op, in)
		require.NoError(t, err, text)
		_, err = EvalOp(&Env{Context: ended}, n.Op, in)
		require.ErrorIs(t, err, context.Canceled, strings.TrimSpace(text))
	}
}
