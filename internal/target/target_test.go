package target

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

func nodes(t *testing.T, text string) []*ir.Node {
	g, err := ir.Parse(`graph "" ` + text + ` return }`)
	require.NoError(t, err)
	return g.Nodes
}

// kernel is a row that says yes, and to f32 alone.
func kernel() Kernel {
	f32 := func(n *ir.Node) bool { return n.Inputs[0].Type.DType == tensor.F32 }
	return Kernel{Runs: OnKernel, Supports: f32, Strided: func(n *ir.Node, i int, _ []int) bool { return f32(n) && i == 0 },
		InPlace: func(_ *ir.Node, i int) bool { return i == 0 }, StridedResult: func(*ir.Node, []int) bool { return true },
		Scratch: func(*ir.Node) []int64 { return []int64{100} }, LateReads: func(*ir.Node) int { return 2 },
		TakesStored: func(_ *ir.Node, i int) bool { return i == 1 }, ReadsPacked: func(*ir.Node) bool { return true }}
}

// answers are all that a target says of a node.
type answers struct {
	where                                 Runs
	strided, inPlace, result, stored, all bool
	scratch                               []int64
	late                                  int
}

func ask(t *Target, n *ir.Node) answers {
	return answers{t.Where(n), t.Strided(n, 0, nil), t.InPlace(n, 0), t.StridedResult(n, nil), t.TakesStored(n, 1), t.ReadsPacked(n),
		t.Scratch(n), t.LateReads(n)}
}

// TestTarget: a node that the kernel takes, those that it does not take, a view, and rows that say nothing.
func TestTarget(t *testing.T) {
	var device Target
	device.Align, device.Kernels[ir.KindBinary], device.Kernels[ir.KindSoftmax].Runs = 64, kernel(), OnKernel
	to, err := New(device)
	require.NoError(t, err)
	n := nodes(t, `(%0: f32[n], %1: i64[n], %2: f32[n]) { %3 = add(%0, %2) %4 = add(%1, %1) %5 = div(%1, %1) %6 = transpose(%0) {perm=[0]}
		%7 = softmax(%0) {axis=0} %8, %9 = layernorm(%0) {axes=1, sum=true} %10: f32[n] = x.y(%0)`)
	for i, want := range []answers{
		{OnKernel, true, true, true, true, true, []int64{100}, 2},
		{where: OnHost, inPlace: true, late: 2},
		{where: OnHost, inPlace: true, late: 2},
		{where: AsView},
		{where: OnKernel},
		{where: OnHost},
		{where: OnHost, inPlace: true},
	} {
		require.Equal(t, want, ask(to, n[i]), "node %d", i)
	}
	require.False(t, to.InPlace(n[0], 1) || to.Strided(n[0], 1, nil) || to.TakesStored(n[0], 0))
	for least, want := range map[int][3]int{1: {2, 1, 0}, 5: {5, 5, 0}} {
		late := to.Late(least)
		require.Equal(t, want, [3]int{late.LateReads(n[0]), late.LateReads(n[4]), late.LateReads(n[3])})
		require.Equal(t, 2, to.LateReads(n[0]))
	}
	n[6].Op = ir.Custom{Def: &ir.OpDef{LateReads: 3}}
	require.Equal(t, []int{3, 3, 4}, []int{to.LateReads(n[6]), to.Late(1).LateReads(n[6]), to.Late(4).LateReads(n[6])})
	device.Kernels[ir.KindBinary].Supports = nil
	require.Equal(t, []Runs{OnKernel, OnHost}, []Runs{device.Where(n[1]), device.Where(n[2])}, "integers may be divided by zero")
}

// TestKernelsThatDisagree with the traits of their op, or with themselves.
func TestKernelsThatDisagree(t *testing.T) {
	for says, spoil := range map[string]func(t *Target){
		"has no alignment":            func(t *Target) { t.Align = 0 },
		"disagrees with its trait":    func(t *Target) { t.Kernels[ir.KindBinary].Runs = AsView },
		"describes a kernel and runs": func(t *Target) { t.Kernels[ir.KindBinary].Supports = func(*ir.Node) bool { return true } },
		"of Binary describes":         func(t *Target) { t.Kernels[ir.KindBinary].Strided = AllStrides },
		"on the host":                 func(t *Target) { t.Kernels[ir.KindBinary].InPlace = func(*ir.Node, int) bool { return true } },
		"a kernel and": func(t *Target) {
			t.Kernels[ir.KindBinary].StridedResult = func(*ir.Node, []int) bool { return true }
		},
		"describes a kernel and runs on the": func(t *Target) { t.Kernels[ir.KindBinary].Scratch = func(*ir.Node) []int64 { return nil } },
	} {
		device := Target{Align: 1}
		_, err := New(device)
		require.NoError(t, err)
		spoil(&device)
		_, err = New(device)
		require.ErrorContains(t, err, says)
	}
}

// TestHalf: kernels of float32 take 16-bit floats through scratch memory, in which each value is once.
func TestHalf(t *testing.T) {
	kernel := kernel().WithHalf()
	n := nodes(t, `(%0: f16[3,4], %1: bf16[5], %2: f32[3,4]) { %3 = add(%0, %0) %4 = add(%2, %2)
		%5: f16[3,4] = cast(%2) {to=f16} %6 = concat(%1, %1)`)
	half, full, cast, joined := n[0], n[1], n[2], n[3]
	require.True(t, kernel.Supports(half) && kernel.Supports(full) && kernel.Supports(cast) && kernel.Supports(joined))
	require.True(t, kernel.Strided(half, 1, nil) && kernel.Strided(full, 0, nil) && kernel.Strided(cast, 0, nil))
	require.False(t, kernel.Strided(full, 1, nil))
	require.True(t, kernel.InPlace(half, 1) && kernel.InPlace(cast, 1) && kernel.InPlace(full, 0))
	require.False(t, kernel.InPlace(full, 1))
	require.True(t, kernel.StridedResult(full, nil))
	require.False(t, kernel.StridedResult(half, nil))
	for i, want := range [][]int64{{100, 48, 48}, {100}, {100, 48}, {100, 20, 40}} {
		require.Equal(t, want, kernel.Scratch(n[i]))
	}
	wide := Widened(cast)
	require.Equal(t, ir.Cast{To: tensor.F32}, wide.Op)
	require.Equal(t, tensor.F32, wide.Outputs[0].Type.DType)
	require.Equal(t, tensor.F16, cast.Outputs[0].Type.DType)
	require.Same(t, full, Widened(full))
	bare := Kernel{Runs: OnKernel}.WithHalf()
	require.True(t, bare.Supports(half) && bare.InPlace(half, 0) && bare.Strided == nil && bare.StridedResult == nil)
	require.False(t, bare.InPlace(full, 0))
	require.Equal(t, []int64{48, 48}, bare.Scratch(half))
	for d, want := range map[tensor.DType]tensor.DType{tensor.F16: tensor.F32, tensor.BF16: tensor.F32, tensor.F64: tensor.F64,
		tensor.I16: tensor.I16} {
		require.Equal(t, want, Wide(d))
	}
	require.True(t, IsIndex(tensor.I32) && IsIndex(tensor.I64) && !IsIndex(tensor.I16))
}
