package cpu_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/backend/cpu"
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

func init() {
	kernelCases["activations"] = `(%0 "x": f32[9,s]) { %1 = silu(%0) {alpha=1.702} %2 = softplus(%1) %3 = softsign(%0) %16 = mish(%0)
	%4 = leaky_relu(%0) {alpha=0.01} %5 = elu(%0) {alpha=0.5} %6 = selu(%0) {alpha=1.67, beta=1.05}
		%7 = celu(%0) {alpha=2} %8 = hard_sigmoid(%0) {alpha=0.2, beta=0.5} %9 = hard_swish(%0) %10 = thresholded_relu(%0) {alpha=0.1}
		%11 = sign(%0) %12 = round(%0) %13 = floor(%0) %14 = ceil(%0)
		%15 = concat(%2, %3, %16, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14) return %15 as "y" }`
	kernelCases["activations strided"] = `(%0 "x": f32[s,9]) { %1 = transpose(%0) {perm=[1,0]} %2 = silu(%1) {alpha=1} return %2 as "y" }`
	kernelCases["activations fused"] = `(%0 "x": f32[s,9], %1 "z": f32[9]) {
	%2 = map(%0, %1) {expr=[silu(in0) {alpha=1.702}, mul(x0, in1), elu(x1) {alpha=0.5}]} return %2 as "y" }`
	kernelCases["activations of 16 bits"] = `(%0 "x": f16[s,9]) { %2 = silu(%0) {alpha=1} return %2 as "y" }`
}

// Every function of real numbers runs without Eval.
func TestUnaryOnKernel(t *testing.T) {
	d, err := cpu.Open(backend.Options{Threads: 1})
	require.NoError(t, err)
	defer d.Close()
	for fn := ir.NoUnary + 1; fn < ir.NumUnary; fn++ {
		if (ir.Unary{Fn: fn}).Real() == nil {
			continue
		}
		g, err := ir.Parse(fmt.Sprintf(`graph "" (%%0 "x": f32[3,5]) { %%1 = %s(%%0) {alpha=1, beta=0.5} return %%1 as "y" }`, fn))
		require.NoError(t, err)
		require.Equal(t, target.OnKernel, d.Target().Where(g.Nodes[0]), "%s", fn)
	}
}
