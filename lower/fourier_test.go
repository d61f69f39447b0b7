package lower

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TestTransformsAsProducts holds transforms of moderate, known lengths, which become products, against those of package ops.
func TestTransformsAsProducts(t *testing.T) {
	numbers := func(shape ...int) *tensor.Tensor {
		x := tensor.New(tensor.F32, shape...)
		for i := range x.Len() {
			x.SetFloat64(i, float64(i*i%17)/8-1)
		}
		return x
	}
	check := func(name string, op ir.Op, product ir.Kind, build func(s *sketch, x string) string, x *tensor.Tensor,
		more ...*tensor.Tensor) {
		t.Run(name, func(t *testing.T) {
			s := &sketch{}
			sizes := []any{"batch"}
			for _, n := range x.Shape()[1:] {
				sizes = append(sizes, n)
			}
			g, err := s.lower(17, build(s, s.input("x", tensor.F32, sizes...)))
			require.NoError(t, err)
			found := false
			for _, n := range g.Nodes {
				require.NotEqual(t, ir.OpName(op), ir.OpName(n.Op))
				found = found || n.Op.Kind() == product
			}
			require.True(t, found, g)
			got, err := ir.Interpret(g, []*tensor.Tensor{x})
			require.NoError(t, err)
			want, err := ir.EvalOp(nil, op, append([]*tensor.Tensor{x}, more...))
			require.NoError(t, err)
			requireNear(t, want[0], got[0])
		})
	}
	for _, n := range []int{1, 2, 5, 8, 15, 16} {
		for _, from := range []int{n, n/2 + 1} {
			for form := range 6 {
				inverse, onesided, parts := form&1 != 0, form >= 4, 1+form>>1&1
				if onesided {
					parts = 1 + form&1
				}
				op := ops.DFT{Axis: 2, Length: ir.N(n), Inverse: inverse, OneSided: onesided}
				check(fmt.Sprintf("%d of %d numbers of %d, inverse %v, onesided %v", from, n, parts, inverse, onesided), op,
					ir.KindMatMul, func(s *sketch, x string) string {
						flags := []any{x, s.constant(tensor.Scalar(int64(n))), intAttr("axis", 2)}
						for name, on := range map[string]bool{"inverse": inverse, "onesided": onesided} {
							if on {
								flags = append(flags, intAttr(name, 1))
							}
						}
						return s.node("DFT", flags...)
					}, numbers(2, 3, from, parts))
			}
		}
		for _, onesided := range []bool{false, true} {
			window := numbers(n)
			op := ops.STFT{Step: 3, Length: n, OneSided: onesided}
			build := func(s *sketch, x string, window ...any) string {
				flag := int64(0)
				if onesided {
					flag = 1
				}
				return s.node("STFT", append(append([]any{x, s.constant(tensor.Scalar(int64(3)))}, window...),
					intAttr("onesided", flag))...)
			}
			check(fmt.Sprintf("frames of %d, onesided %v", n, onesided), op, ir.KindConv, func(s *sketch, x string) string {
				return build(s, x, "", s.constant(tensor.Scalar(int64(n))))
			}, numbers(2, 40, 1))
			check(fmt.Sprintf("windows of %d, onesided %v", n, onesided), op, ir.KindConv, func(s *sketch, x string) string {
				return build(s, x, s.constant(window))
			}, numbers(2, 40, 1), window)
		}
	}
}
