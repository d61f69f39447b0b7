package kernel

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRunsAllocateNothing runs what a model runs. The table of benchmarks has all plans; a part of each is enough.
func TestRunsAllocateNothing(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		for name, prepare := range map[string]func(s *Set) (func(), float64){
			"product":                    benchGemm(9, 50, 40),
			"product of 8-bit integers":  benchGemmS8(9, 50, 40),
			"product of bfloat16":        benchGemmBF16(9, 50, 40),
			"product of 4-bit weights":   benchGemmBlocks(9, 50, 64),
			"attention":                  benchAttention(20, 8, (*Set).NewAttention),
			"attention of bfloat16":      benchAttention(20, 7, (*Set).NewAttentionBF16),
			"product of two activations": allocBatchGemm,
			"the rest":                   allocRest,
		} {
			do, _ := prepare(s)
			require.Zero(t, testing.AllocsPerRun(3, do), name)
		}
	})
}

func allocBatchGemm(s *Set) (func(), float64) {
	plan := s.NewBatchGemm(2, 20, 30, 10, 1)
	args := &BatchGemmArgs{GemmArgs: GemmArgs{A: ramp(400), ARow: 10, ACol: 1, B: ramp(600), C: make([]float32, 1200), CRow: 30, Alpha: 1,
		Act: Gelu},
		BRow: 30, BCol: 1, AOffset: []int{0, 200}, BOffset: []int{0, 300}, COffset: []int{0, 600}}
	scratch := make([]byte, plan.ScratchBytes())
	return eachPart(plan.Parts(), func(part int) { plan.Run(part, args, scratch) }), 0
}

func allocRest(s *Set) (func(), float64) {
	const n = 40
	x, y, bytes := ramp(4*n), make([]float32, 4*n), make([]byte, 4*n)
	return func() {
		s.Unary(Unary{Op: Gelu}, y, x)
		s.Binary(Mul, y, x, x)
		s.BinaryRows(Sub, y, n, Rows{x, n, 1}, Rows{x, 1, 0}, 4, n)
		s.Softmax(y, n, x, n, 4, n)
		s.LayerNorm(&NormArgs{Dst: y, DstRow: n, X: x, XRow: n, Residual: x, ResRow: n, Scale: x, Bias: x}, 0, 4, n)
		s.RMSNorm(&NormArgs{Dst: y, DstRow: n, X: x, XRow: n, Scale: x}, 0, 4, n)
		s.ReduceRows(ReduceMax, y, x, n, 4, n)
		s.ReduceColumns(ReduceSum, y[:n], x, n, 4, n)
		s.QuantizeU8(bytes, x, 0.1, 3)
		s.DequantizeU8(y, bytes, 0.1, 3)
		y[0], y[1] = s.MinMax(x)
	}, 0
}
