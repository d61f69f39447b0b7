package liveness

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
)

func TestSumsOfEveryOp(t *testing.T) {
	for k := range ir.NumKinds {
		require.Equal(t, sums[k] != nil, k.Has(ir.HoldsSum), "%s", k)
	}
}

// TestSumsOfProducts: where a product adds, its operands are terms, and its result is the sum if nothing follows that.
func TestSumsOfProducts(t *testing.T) {
	const inputs = `graph "" (%0: f32[4,64], %1: f32[96], %2: f32[4,96], %3: u8[4,64], %4: f32[], %5: u8[], %20: f32[1,8,64],
		%21: f32[1,8,96], %22: u8[1,8,64], %23: f32[32], %24: f32[4,32]) { const %6: f32[64,96] = data const %7: u8[96,4,8] = data
		const %8: f32[384] = data const %9: i8[64,96] = data const %10: f32[1,64,96] = data const %11: i8[1,64,96] = data
		const %12: f32[96,32] = data %13`
	const window = `kernel=[1], strides=[1], dilations=[1], pads=[0,0], auto_pad="NOTSET", group=1`
	const products, acted = `ops=[matmul {act=gelu},matmul {}]`, `ops=[matmul {},matmul {act=relu}]`
	const bits = `k=64, n=96, bits=4, block=16`
	for node, want := range map[string][2]bool{ // operands, results
		`matmul(%0, %6)`:                                                {false, false},
		`matmul(%0, %6, %1)`:                                            {true, true},
		`matmul(%0, %6, %1) {act=gelu}`:                                 {true, false},
		`matmul(%0, %6, %1, %2) {act=gelu}`:                             {true, true},
		`matmul_nbits(%0, %7, %8) {` + bits + `}`:                       {false, false},
		`matmul_nbits(%0, %7, %8, _, _, %1) {` + bits + `}`:             {true, true},
		`onnx.QMatMul(%3, %9, _, _, %4, %4)`:                            {false, false},
		`onnx.QMatMul(%3, %9, _, _, %4, %4, %1)`:                        {true, true},
		`onnx.QMatMul(%3, %9, _, _, %4, %4, %1, _, %4, %5)`:             {true, false},
		`conv(%20, %10, %1) {` + window + `}`:                           {true, true},
		`conv(%20, %10, %1) {act=relu, ` + window + `}`:                 {true, false},
		`qconv(%22, %11, _, _, %4, %4, %1) {` + window + `}`:            {true, true},
		`chain(%0, %6, %1, %12, %23, %24) {` + products + `}`:           {true, true},
		`chain(%0, %6, %1, %12) {` + products + `}`:                     {false, false},
		`chain(%0, %6, %1, %12, %23) {` + acted + `}`:                   {true, false},
		`qconv(%22, %11, _, _, %4, %4, %1, _, %4, %5) {` + window + `}`: {true, false},
	} {
		g, err := ir.Parse(inputs + " = " + node + " return %13 }")
		require.NoError(t, err, node)
		n := g.Nodes[len(g.Nodes)-1]
		operands, results := sums[n.Op.Kind()](n)
		require.Equal(t, want, [2]bool{len(operands) > 0, len(results) > 0}, node)
	}
}
