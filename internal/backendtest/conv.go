package backendtest

// ConvCases are convolutions of s positions or more: the window as the text has it, what comes before, and operands after the image. In all
// but the last few a group has enough channels for tiles.
var ConvCases = map[string]string{
	"vectors": `(%0 "x": f32[1,s,8], %9 "r": f32[1,s,12]) { const %1: f32[3,8,12] = data const %2: f32[12] = data
		%3 = conv(%0, %1, %2, %9) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1, act=gelu}
		return %3 as "y" }`,
	"over residual": `(%0 "x": f32[1,s,8], %9 "r": f32[1,s,12]) { const %1: f32[3,8,12] = data %4 = neg(%9)
		%3 = conv(%0, %1, _, %4) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1, act=relu}
		return %3 as "y" }`,
	"plane": `(%0 "x": f32[2,s,5,8]) { const %1: f32[3,2,8,12] = data const %2: f32[12] = data
		%3 = conv(%0, %1, %2) {kernel=[3,2], strides=[1,2], dilations=[1,1], pads=[1,0,1,1], auto_pad="NOTSET", group=1, act=leaky_relu,
		alpha=0.25} return %3 as "y" }`,
	"few channels": `(%0 "x": f32[1,3,s,9]) { const %1: f32[7,3,3,10] = data %2 = transpose(%0) {perm=[0,2,3,1]}
		%3 = conv(%2, %1) {kernel=[7,3], strides=[2,2], dilations=[1,1], pads=[3,1,3,1], auto_pad="NOTSET", group=1} return %3 as "y" }`,
	"dilated": `(%0 "x": f32[1,s,9,4]) { const %1: f32[2,3,4,8] = data
		%3 = conv(%0, %1) {kernel=[2,3], strides=[1,1], dilations=[3,4], pads=[2,1,2,3], auto_pad="NOTSET", group=1} return %3 as "y" }`,
	"space": `(%0 "x": f32[1,s,3,4,4]) { const %1: f32[2,3,2,4,5] = data
		%3 = conv(%0, %1) {kernel=[2,3,2], strides=[1,1,3], dilations=[1,1,1], pads=[0,0,0,0,0,0], auto_pad="SAME_UPPER", group=1}
		return %3 as "y" }`,
	"points": `(%0 "x": f32[3,s,2,8]) { const %1: f32[1,1,8,16] = data
		%3 = conv(%0, %1) {kernel=[1,1], strides=[1,1], dilations=[1,1], pads=[0,0,0,0], auto_pad="NOTSET", group=1} return %3 as "y" }`,
	"parts": `(%0 "x": f32[1,s,128]) { const %1: f32[3,128,4] = data const %2: f32[4] = data
		%3 = conv(%0, %1, %2) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1, act=tanh}
		return %3 as "y" }`,
	"groups": `(%0 "x": f32[2,s,8], %9 "r": f32[2,s,40]) { const %1: f32[3,4,40] = data const %2: f32[40] = data
		%3 = conv(%0, %1, %2, %9) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=2, act=relu}
		return %3 as "y" }`,
	"ragged groups": `(%0 "x": f32[1,s,6]) { const %1: f32[2,2,51] = data const %2: f32[51] = data
		%3 = conv(%0, %1, %2) {kernel=[2], strides=[1], dilations=[1], pads=[1,0], auto_pad="NOTSET", group=3} return %3 as "y" }`,
	"weights of a run": `(%0 "x": f32[1,s,8], %1 "w": f32[3,8,12]) {
		%3 = conv(%0, %1) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1} return %3 as "y" }`,
	"half": `(%0 "x": f16[1,s,8], %2 "b": f16[12]) { const %1: f16[3,8,12] = data
		%3 = conv(%0, %1, %2) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1} return %3 as "y" }`,

	"each, by vectors": `(%0 "x": f32[2,s,5,8], %9 "r": f32[2,s,5,8]) { const %1: f32[3,3,1,8] = data const %2: f32[8] = data
		%3 = conv(%0, %1, %2, %9) {kernel=[3,3], strides=[1,1], dilations=[1,2], pads=[1,2,1,2], auto_pad="NOTSET", group=8, act=hard_swish}
		return %3 as "y" }`,
	"each": `(%0 "x": f32[1,5,s]) { const %1: f32[3,1,5] = data %2 = transpose(%0) {perm=[0,2,1]}
		%3 = conv(%2, %1) {kernel=[3], strides=[2], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=5} return %3 as "y" }`,
	"each, several": `(%0 "x": f32[1,s,4]) { const %1: f32[3,1,12] = data
		%3 = conv(%0, %1) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=4} return %3 as "y" }`,
	"each, four of a group": `(%0 "x": f32[1,6,s], %9 "r": f32[1,s,24]) { const %1: f32[3,2,24] = data %2 = transpose(%0) {perm=[0,2,1]}
		%3 = conv(%2, %1, _, %9) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=3, act=relu}
		return %3 as "y" }`,
	"each, small groups": `(%0 "x": f32[1,s,12]) { const %1: f32[3,4,9] = data
		%3 = conv(%0, %1) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=3} return %3 as "y" }`,
	"tiles": `(%0 "x": f32[2,s,6,16], %9 "r": f32[2,s,5,72]) { const %1: f32[3,2,16,72] = data const %2: f32[72] = data
		%3 = conv(%0, %1, %2, %9) {kernel=[3,2], strides=[1,1], dilations=[1,1], pads=[1,0,1,0], auto_pad="NOTSET", group=1, act=silu,
		alpha=1} return %3 as "y" }`,
	"tiles of groups": `(%0 "x": f32[1,s,24], %9 "r": f32[1,s,40]) { const %1: f32[5,12,40] = data const %2: f32[40] = data
		%3 = conv(%0, %1, %2, %9) {kernel=[5], strides=[1], dilations=[2], pads=[4,4], auto_pad="NOTSET", group=2, act=hard_swish}
		return %3 as "y" }`,
	"tiles of parts": `(%0 "x": f32[1,s,7,64]) { const %1: f32[3,3,64,20] = data const %2: f32[20] = data
		%3 = conv(%0, %1, %2) {kernel=[3,3], strides=[2,2], dilations=[1,1], pads=[1,1,1,1], auto_pad="NOTSET", group=1, act=relu}
		return %3 as "y" }`,
	"hard": `(%0 "x": f32[1,s,8]) { const %1: f32[1,8,16] = data
		%3 = conv(%0, %1) {kernel=[1], strides=[1], dilations=[1], pads=[0,0], auto_pad="NOTSET", group=1, act=hard_sigmoid, alpha=0.3,
		beta=0.4} return %3 as "y" }`,
}
