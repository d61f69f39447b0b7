package wgpu

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TestOpaqueOperators holds the kernels of operators of package ops to Eval, with the arena poisoned.
func TestOpaqueOperators(t *testing.T) {
	d := open(t, 0)
	for _, s := range []int{1, 7} {
		check(t, d, fmt.Sprint("16 bits, s=", s), halfOpaque, s, true)
	}
	for name, text := range backendtest.OpaqueCases {
		for _, s := range []int{1, 2, 7, 33} {
			check(t, d, fmt.Sprintf("%s, s=%d", name, s), text, s, !strings.HasSuffix(name, "of nothing"))
		}
	}
}

// TestRecurrent does so for recurrences.
func TestRecurrent(t *testing.T) {
	d := open(t, 0)
	check(t, d, "many units", manyUnits, 1, true)
	for name, text := range backendtest.RecurrentCases {
		for _, s := range []int{1, 2, 7, 33} {
			check(t, d, fmt.Sprintf("%s, s=%d", name, s), text, s, true)
		}
	}
}

// TestRecurrentScratch: the gates of all steps, and two states of each sequence, of both layouts.
func TestRecurrentScratch(t *testing.T) {
	for text, want := range map[string][]int64{
		`(%0: f32[5,7,3], %1: f32[1,16,3], %2: f32[1,16,4]) {
			%3, %4, %5 = onnx.LSTM(%0, %1, %2) {hidden=4}`: {4 * 5 * 7 * 16, 4 * 7 * 4, 4 * 7 * 4},
		`(%0: f32[7,5,3], %1: f32[2,12,3], %2: f32[2,12,4]) {
			%3, %4 = onnx.GRU(%0, %1, %2) {hidden=4, layout=true, bidirectional=true}`: {4 * 5 * 7 * 24, 4 * 7 * 8, 4 * 7 * 8},
	} {
		g, err := ir.Parse(`graph "" ` + text + ` return }`)
		require.NoError(t, err)
		require.True(t, recurrentEntry.Supports(g.Nodes[0]))
		require.Equal(t, want, recurrentEntry.Scratch(g.Nodes[0]), text)
	}
}

// TestRecurrentLaunches: what takes several launches hands its state on.
func TestRecurrentLaunches(t *testing.T) {
	d := open(t, 0)
	checkWith(t, d, "many steps", `(%0 "x": f32[s,1,3]) { const %1: f32[1,1200,3] = data const %2: f32[1,1200,300] = data
	%4: f32[s,1,1,300], %5: f32[1,1,300], %6: f32[1,1,300] = onnx.LSTM(%0, %1, %2) {hidden=300, reverse=true}
		const %7: f32[1,900,3] = data const %8: f32[1,900,300] = data %9: f32[s,1,1,300],
		%10: f32[1,1,300] = onnx.GRU(%0, %7, %8) {hidden=300}
		return %4 as "y", %5 as "h", %6 as "c", %9 as "z", %10 as "g" }`, 56, true, func(x *tensor.Tensor) {
		for i := range x.Len() {
			x.SetFloat64(i, x.Float64(i)/16) // differences do not grow from step to step
		}
	})
}

// manyUnits has more units than a workgroup has invocations.
const manyUnits = `(%20 "n": f32[s], %0 "x": f32[3,2,5], %1 "p": f32[1,900]) { const %2: f32[1,1200,5] = data
const %3: f32[1,1200,300] = data const %4: f32[1,2400] = data const %5: i64[2] = [3, 1]
		%8 = neg(%20) %6: i32[2] = cast(%5) {to=i32} %7: f32[3,1,2,300], %9: f32[1,2,300],
		%10: f32[1,2,300] = onnx.LSTM(%0, %2, %3, %4, %6, _, _, %1) {hidden=300, reverse=true}
		return %7 as "a", %9 as "b", %10 as "c", %8 as "d" }`

// halfOpaque has operands and results of 16 bits.
const halfOpaque = `(%20 "n": f32[s], %0 "x": f16[2,s+2,5,3], %1 "g": f16[2,3,4,2]) {
%2 = onnx.AveragePool(%0) {kernel=[3,2], strides=[2,1], dilations=[1,1], pads=[1,1,1,1], auto_pad="NOTSET"}
		%3 = onnx.Resize(%0) {shape=[2,s,9,3], scales=[1,0,0,1], mode="linear", coordinates="half_pixel", nearest="floor"} %4,
		%5 = onnx.TopK(%0) {axis=1, k=s} return %2 as "a", %3 as "b", %4 as "c", %5 as "d" }`

// TestSequenceLengths: a length that no sequence of that many steps has is an error, and the instance works on.
func TestSequenceLengths(t *testing.T) {
	d := open(t, 0)
	g, err := ir.Parse(`graph "case" (%0 "x": f32[3,2,5], %1 "n": i32[2]) { const %2: f32[1,4,5] = data const %3: f32[1,4,4] = data
		%4: f32[3,1,2,4], %5: f32[1,2,4] = onnx.RNN(%0, %2, %3, _, %1) {hidden=4} return %4 as "y", %5 as "h" }`)
	require.NoError(t, err)
	inputs := backendtest.Inputs(t, g, ir.Binding{})
	m := d.NewMemory()
	defer m.Close()
	in, err := load(t, d, g, ir.Binding{}, "lengths").Attach(m, nil)
	require.NoError(t, err)
	for _, bad := range []int64{4, -1} {
		inputs[1].SetInt64(0, 3)
		inputs[1].SetInt64(1, bad)
		_, err = in.Run(context.Background(), inputs)
		require.ErrorContains(t, err, fmt.Sprintf("sequence_lens: %d of 3 steps", bad))
		inputs[1].SetInt64(1, 0)
		want, err := ir.Interpret(g, inputs)
		require.NoError(t, err)
		got, err := in.Run(context.Background(), inputs)
		require.NoError(t, err)
		for i := range want {
			backendtest.Agree(t, "lengths", got[i], want[i], 2e-5, 5e-5)
		}
	}
}
