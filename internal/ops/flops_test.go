package ops_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	_ "github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
)

// Products count their multiplications and additions in whatever type they multiply.
func TestFlops(t *testing.T) {
	for text, want := range map[string]string{
		`(%0: f32[s,8], %1: f32[8,5]) { %2 = matmul(%0, %1)
			return %2 }`: "80*s",
		`(%0: u8[s,8], %1: u8[5,8]) { %2 = onnx.QMatMul(%0, %1) {transb=true}
			return %2 }`: "80*s",
		`(%0: f32[s,32], %1: u8[5,1,16], %3: f32[5]) { %2 = matmul_nbits(%0, %1, %3) {k=32, n=5, bits=4, block=32}
			return %2 }`: "320*s",
		`(%0: f32[1,s,2,4], %1: f32[1,9,2,4]) { %2 = attention(%0, %1, %1)
			return %2 }`: "288*s",
		`(%0: u8[1,s,2,4], %1: u8[1,9,2,4], %3: f32[]) { %2 = qattention(%0, %1, %1, _, %3, _, %3, _, %3, _, _, _, %3)
			return %2 }`: "288*s",
		`(%0: f32[1,s,4], %1: f32[3,2,6]) {
			%2 = conv(%0, %1) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=2} return %2 }`: "72*s",
		`(%0: f32[s,1,7], %1: f32[1,16,7], %3: f32[1,16,4]) { %2 = onnx.LSTM(%0, %1, %3) {hidden=4, results=1}
			return %2 }`: "352*s",
		`(%0: f32[s,8]) { %2 = softmax(%0) {axis=1}
			return %2 }`: "0",
	} {
		g, err := ir.Parse(`graph "" ` + text)
		require.NoError(t, err, text)
		require.Equal(t, want, ir.Flops(g.Nodes[0]).String(), text)
	}
}
