//go:build gpu || emulated

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

// TestUnitTilings compares every tiling of products on matrix units with sums in float64, at sizes around its edges, with biases, residuals
// and GELU. Operands are exact in the units. Beside the rounding of the result, a sum may be off by 1e-6 of the sum of absolute values.
func TestUnitTilings(t *testing.T) {
	for precision, rounding := range map[tensor.DType]float64{tensor.F16: 0x1p-11, tensor.BF16: 0x1p-8, tensor.TF32: 0x1p-16} {
		onDevices(t, backend.Options{Precision: precision}, func(t *testing.T, d *Device) { unitTilingsOf(t, d, rounding) })
	}
}

func unitTilingsOf(t *testing.T, d *Device, rounding float64) {
	leave, err := d.ctx.Enter()
	require.NoError(t, err)
	defer leave()
	dtype, unit := d.precision, floats[d.precision]
	if d.precision == tensor.TF32 {
		dtype, unit = tensor.F32, unitTF32
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range unitSizes {
		for _, act := range []ir.UnaryFn{ir.NoUnary, ir.Gelu} {
			p := product{Product: gpu.Product{M: size[0], N: size[1], K: size[2]}, dtype: dtype, unit: unit, act: act}
			random := func(shape ...int) *tensor.Tensor {
				x, exact := tensor.New(dtype, shape...), tensor.New(tensor.F16, 1)
				for i := range x.Len() {
					exact.SetFloat64(0, r.NormFloat64())
					x.SetFloat64(i, exact.Float64(0))
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
			if unit == unitTF32 { // by columns
				c := tensor.New(dtype, p.N, p.K)
				for i := range b.Len() {
					c.SetFloat64(i%p.N*p.K+i/p.N, b.Float64(i))
				}
				b = c
			}
			for _, c := range d.unitTilingsOf(&p) {
				if c.mapped && !runsMapped {
					continue
				}
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
	require.NoError(t, l.capture([][]*launch{{x}}))
	_, err := l.time(0)
	require.NoError(t, err)
	require.NoError(t, d.ctx.Read(out.Bytes(), driver.Pointer(y)))
	return out
}
