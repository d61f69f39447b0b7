//go:build gpu

package cuda

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/driver"
	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TestUnitTilings compares every tiling of products of 16-bit floats on matrix units with sums in float64, at sizes around its edges, with
// biases, residuals and GELU. Beside the rounding of the result, a sum may be off by 1e-6 of the sum of absolute values.
func TestUnitTilings(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for precision, rounding := range map[tensor.DType]float64{tensor.F16: 0x1p-11, tensor.BF16: 0x1p-8} {
		d := open(t, backend.Options{Precision: precision})
		leave, err := d.ctx.Enter()
		require.NoError(t, err)
		for _, size := range [][3]int{{33, 8, 8}, {64, 64, 64}, {96, 72, 128}, {129, 264, 80}, {255, 192, 776}, {257, 520, 64},
			{2100, 768, 128}} {
			for _, act := range []ir.UnaryFn{ir.NoUnary, ir.Gelu} {
				p := product{Product: gpu.Product{M: size[0], N: size[1], K: size[2]}, dtype: precision, unit: floats[precision], act: act}
				random := func(shape ...int) *tensor.Tensor {
					x := tensor.New(precision, shape...)
					for i := range x.Len() {
						x.SetFloat64(i, r.NormFloat64())
					}
					return x
				}
				a, b, bias, residual := random(p.M, p.K), random(p.K, p.N), random(p.N), random(p.M, p.N)
				want, off := make([]float64, p.M*p.N), make([]float64, p.M*p.N)
				for i := range p.M {
					for k := range p.K {
						x := a.Float64(i*p.K+k) / 2
						for j := range p.N {
							y := x * b.Float64(k*p.N+j)
							want[i*p.N+j] += y
							off[i*p.N+j] += 1e-6 * math.Abs(y)
						}
					}
				}
				for i, sum := range want {
					v := sum + bias.Float64(i%p.N)
					if act == ir.Gelu {
						v *= 0.5 * math.Erfc(-v/math.Sqrt2)
					}
					want[i] = v + residual.Float64(i)
					off[i] += 2e-6 + 1.01*rounding*math.Abs(want[i])
				}
				for _, c := range d.unitTilingsOf(&p) {
					p.tiling = c
					got := d.multipliedOnUnits(t, &p, a, b, bias, residual)
					for i, v := range want {
						if y := got.Float64(i); !(math.Abs(y-v) <= off[i]) {
							t.Errorf("%s %v: %d, %d is %v, not %v", c.kernel, size, i/p.N, i%p.N, y, v)
							break
						}
					}
				}
			}
		}
		leave()
	}
}

// multipliedOnUnits runs act(a·b/2 + bias) + residual by a product's tiling, over a result of NaN.
func (d *Device) multipliedOnUnits(t *testing.T, p *product, a, b, bias, residual *tensor.Tensor) *tensor.Tensor {
	t.Helper()
	out := tensor.New(p.dtype, p.M, p.N)
	for i := range out.Len() {
		out.SetFloat64(i, math.NaN())
	}
	l := tuner{d: d}
	defer l.close()
	upload := func(x *tensor.Tensor) address {
		at := l.zeros(len(x.Bytes()))
		require.NoError(t, l.err)
		require.NoError(t, d.ctx.Write(driver.Pointer(at), x.Bytes()))
		return at
	}
	y := upload(out)
	x := d.unitLaunch(p, productParams{a: upload(a), b: upload(b), bias: upload(bias), residual: upload(residual), y: y, arow: int64(p.K),
		acol: 1, brow: int64(p.N), bcol: 1, m: int32(p.M), n: int32(p.N), k: int32(p.K), act: epilogues[p.act], alpha: 0.5}, true)
	require.NoError(t, d.modules.ready([]*launch{x}))
	s, err := d.ctx.NewStream()
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, x.record(d.ctx, s, nil, false))
	require.NoError(t, s.Wait())
	require.NoError(t, d.ctx.Read(out.Bytes(), driver.Pointer(y)))
	return out
}
