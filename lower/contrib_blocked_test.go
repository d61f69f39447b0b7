package lower

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/onnx/onnxpb"
)

// TestChannelBlock has the shapes of weights that onnxruntime saves in blocks of 16 channels, as 1.31.1 does with AVX-512, and of 8.
func TestChannelBlock(t *testing.T) {
	for name, c := range map[string]struct {
		reorder  bool // the convolution reads blocks
		weights  []int64
		channels int64 // of the result
		want     int   // 0 if no size says it
	}{
		"3 to 16":                      {false, []int64{16, 3, 3, 3}, 16, 0},
		"3 to 24 in eights":            {false, []int64{24, 3, 3, 3}, 24, 8},
		"3 to 24 in sixteens":          {false, []int64{32, 3, 3, 3}, 24, 16},
		"8 to 16 in eights":            {true, []int64{16, 8, 3, 3}, 16, 8},
		"8 to 16 in sixteens":          {false, []int64{16, 8, 3, 3}, 16, 16},
		"12 to 16 in eights":           {true, []int64{16, 16, 3, 3}, 16, 0},
		"12 to 16 in sixteens":         {false, []int64{16, 12, 3, 3}, 16, 16},
		"20 to 16 in eights":           {true, []int64{16, 24, 3, 3}, 16, 8},
		"32 to 64":                     {true, []int64{64, 32, 3, 3}, 64, 0},
		"each channel, 24 in eights":   {true, []int64{24, 1, 3, 3}, 24, 8},
		"each channel, 24 in sixteens": {true, []int64{32, 1, 3, 3}, 24, 16},
	} {
		t.Run(name, func(t *testing.T) {
			from := "x"
			g := &onnxpb.GraphProto{Input: []*onnxpb.ValueInfoProto{{Name: "x"}},
				Initializer: []*onnxpb.TensorProto{{Name: "w", Dims: c.weights}}}
			if c.reorder {
				from = "blocks"
				g.Node = append(g.Node, &onnxpb.NodeProto{Domain: blockedDomain, OpType: "ReorderInput", Input: []string{"x"},
					Output: []string{from}})
			}
			g.Node = append(g.Node,
				&onnxpb.NodeProto{Domain: blockedDomain, OpType: "Conv", Input: []string{from, "w"}, Output: []string{"y"}},
				&onnxpb.NodeProto{Domain: blockedDomain, OpType: "ReorderOutput", Input: []string{"y"}, Output: []string{"z"},
					Attribute: []*onnxpb.AttributeProto{{Name: "channels", I: c.channels}}})
			b := &builder{}
			block := b.channelBlock(g)
			if c.want == 0 {
				require.Len(t, b.warnings, 1)
				require.Contains(t, b.warnings[0], "no size determines whether the weights of com.microsoft.nchwc")
				return
			}
			require.Empty(t, b.warnings)
			require.Equal(t, c.want, block)
		})
	}
}
