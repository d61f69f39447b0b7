//go:build gpu

package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/internal/driver"
	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TestFloatTilings holds every tiling of products of float32 to sums in float64, at sizes around its edges: no result is further off than
// those of the ordinary cores may be. It prints how far each is at the sizes of BERT-base.
func TestFloatTilings(t *testing.T) {
	d := open(t, backend.Options{})
	leave, err := d.ctx.Enter()
	require.NoError(t, err)
	defer leave()
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range slices.Concat(threefold, shared, simt) {
		for _, size := range [][4]int{{c.rows, c.cols, 64, 1}, {c.rows + 1, c.cols + 4, 100, 1}, {5, 8, 772, 2},
			{3*c.rows - 1, 2*c.cols - 4, 388, 1}, {64, 128, 768, 1}, {64, 128, 3072, 1}} {
			p := product{Product: gpu.Product{M: size[0], N: size[1], K: size[2]}, dtype: tensor.F32, tiling: c}
			p.splits = size[3]
			a, b := make([]float32, p.M*p.K), make([]float32, p.K*p.N)
			for _, x := range [][]float32{a, b} {
				for i := range x {
					x[i] = float32(r.NormFloat64())
				}
			}
			odd := size[2] == 100
			if odd { // row 0 has an infinity, row 1 a NaN of all ones, column 0 a number that no tf32 holds
				for i := range p.M {
					a[i*p.K] = 0.5
				}
				for i := range p.K {
					b[i*p.N] = 0
				}
				a[3], a[p.K], b[0], b[3*p.N] = float32(math.Inf(1)), math.Float32frombits(0x7fffffff), math.MaxFloat32, 1
			}
			y := multiplied(t, d, &p, a, b)
			worst, squares, own := 0.0, 0.0, 0.0
			for i := range p.M {
				for j := range p.N {
					sum, size := 0.0, 0.0
					for k := range p.K {
						v := float64(a[i*p.K+k]) * float64(b[k*p.N+j])
						sum, size = sum+v, size+math.Abs(v)
					}
					got := float64(y[i*p.N+j])
					if math.IsNaN(sum) || math.IsInf(sum, 0) || math.Abs(sum) > math.MaxFloat32 {
						require.True(t, math.IsNaN(sum) == math.IsNaN(got) && (math.IsNaN(sum) || math.IsInf(got, 0)),
							"%s %v: %d, %d is %v, not %v", c.kernel, size, i, j, got, sum)
						continue
					}
					off := math.Abs(got-sum) / size
					require.LessOrEqual(t, off, 1e-6, "%s %v: %d, %d is %v, not %v", c.kernel, size, i, j, got, sum)
					worst, squares, own = max(worst, off), squares+(got-sum)*(got-sum), own+sum*sum
				}
			}
			if p.K >= 768 && p.M == 64 {
				fmt.Printf("%-18s k=%-4d largest error %.2g of the sum of absolute values, root mean square %.2g of the results'\n",
					c.kernel, p.K, worst, math.Sqrt(squares/own))
			}
		}
	}
}

// multiplied runs a product by its tiling.
func multiplied(t *testing.T, d *Device, p *product, a, b []float32) []float32 {
	t.Helper()
	l := tuner{d: d}
	defer l.close()
	x, w, y, parts := l.zeros(4*len(a)), l.zeros(4*len(b)), l.zeros(4*p.M*p.N), l.zeros(4*p.M*p.N*p.splits)
	require.NoError(t, l.err)
	require.NoError(t, d.ctx.Write(driver.Pointer(x), tensor.FromSlice(a, len(a)).Bytes()))
	require.NoError(t, d.ctx.Write(driver.Pointer(w), tensor.FromSlice(b, len(b)).Bytes()))
	q := productParams{a: x, b: w, y: y, parts: parts, arow: int64(p.K), acol: 1, brow: int64(p.N), bcol: 1, m: int32(p.M), n: int32(p.N),
		k: int32(p.K), alpha: 1}
	launches := d.floatLaunches(p, q, true)
	require.NoError(t, d.modules.ready(launches))
	s, err := d.ctx.NewStream()
	require.NoError(t, err)
	defer s.Close()
	for _, x := range launches {
		require.NoError(t, x.record(d.ctx, s, nil, false))
	}
	require.NoError(t, s.Wait())
	out := tensor.New(tensor.F32, p.M, p.N)
	require.NoError(t, d.ctx.Read(out.Bytes(), driver.Pointer(y)))
	return tensor.Of[float32](out)
}

// TestSpeedOfKernels prints what kernels take alone: products of BERT-base, attention, convolutions of a ResNet-50 at batch 32 and
// others by channels, products by weights of 4 bits. It asserts nothing, and runs where RLXC_SPEED is "kernels", or "kernels:" and a part
// of the names of those to run.
func TestSpeedOfKernels(t *testing.T) {
	if what, _, _ := strings.Cut(os.Getenv("RLXC_SPEED"), ":"); what != "kernels" {
		t.Skip("RLXC_SPEED is not kernels")
	}
	for _, precision := range []tensor.DType{tensor.F32, tensor.TF32} {
		d := open(t, backend.Options{Precision: precision})
		for _, m := range []int{1, 4, 8, 32, 128, 4096} {
			for _, s := range [][2]int{{768, 768}, {3072, 768}, {768, 3072}, {4096, 4096}, {4096, 14336}} {
				k, n := s[0], s[1]
				if m > 128 && n > 4096 {
					continue
				}
				flops := 2 * float64(m*k*n)
				text := fmt.Sprintf(`(%%0 "x": f32[%d,%d]) { const %%1: u8[%d,%d,16] = data
					const %%2: f32[%d] = data %%3 = matmul_nbits(%%0, %%1, %%2) {k=%d, n=%d, bits=4, block=32} return %%3 as "y" }`,
					m, k, n, k/32, n*k/32, k, n)
				timed(t, d, fmt.Sprintf("%s product %dx%dx%d, 4 bits", precision, m, n, k), text, flops)
				text = fmt.Sprintf(`(%%0 "x": f32[%d,%d]) { const %%1: f32[%d,%d] = data %%3 = matmul(%%0, %%1) return %%3 as "y" }`, m,
					k, k, n)
				timed(t, d, fmt.Sprintf("%s product %dx%dx%d", precision, m, n, k), text, flops)
			}
		}
		for _, s := range [][2]int{{1, 128}, {1, 512}, {8, 128}, {128, 128}} {
			text := fmt.Sprintf(`(%%0 "q": f32[%[1]d,%[2]d,12,64], %%1 "k": f32[%[1]d,%[2]d,12,64], %%2 "v": f32[%[1]d,%[2]d,12,64],
				%%3 "m": f32[%[1]d,1,1,%[2]d]) {
				%%4 = attention(%%0, %%1, %%2, %%3) {scale=0.125} return %%4 as "y" }`, s[0], s[1])
			timed(t, d, fmt.Sprintf("%s attention %dx%d", precision, s[0], s[1]), text, 4*float64(s[0]*12*64*s[1]*s[1]))
		}
		for _, c := range []struct{ batch, size, in, out, kernel, stride, groups int }{{32, 224, 3, 64, 7, 2, 1},
			{32, 56, 64, 64, 3, 1, 1}, {32, 56, 256, 64, 1, 1, 1}, {32, 28, 128, 128, 3, 1, 1},
			{32, 14, 256, 256, 3, 1, 1}, {32, 7, 512, 512, 3, 1, 1}, {1, 7, 512, 512, 3, 1, 1}, {1, 56, 64, 64, 3, 1, 1},
			{32, 56, 128, 128, 3, 1, 32}, {32, 56, 144, 144, 3, 1, 144}} {
			text := fmt.Sprintf(`(%%0 "x": f32[%d,%d,%d,%d]) { const %%1: f32[%d,%d,%d,%d] = data
				%%2 = conv(%%0, %%1) {kernel=[%[5]d,%[5]d], strides=[%[9]d,%[9]d], dilations=[1,1], pads=[%[10]d,%[10]d,%[10]d,%[10]d],
				auto_pad="NOTSET", group=%[11]d, act=relu} return %%2 as "y" }`,
				c.batch, c.size, c.size, c.in, c.kernel, c.kernel, c.in/c.groups, c.out, c.stride, c.kernel/2, c.groups)
			positions := c.size / c.stride
			timed(t, d, fmt.Sprintf("%s conv %dx%dx%dx%d to %d, %dx%d, stride %d, groups %d", precision, c.batch, c.size, c.size, c.in,
				c.out, c.kernel, c.kernel, c.stride, c.groups), text,
				2*float64(c.batch*positions*positions*c.out)*float64(c.kernel*c.kernel*c.in/c.groups))
		}
	}
}

// timed prints what the launches of a graph take, without copies of inputs and outputs.
func timed(t *testing.T, d *Device, name, text string, flops float64) {
	t.Helper()
	if _, only, _ := strings.Cut(os.Getenv("RLXC_SPEED"), ":"); !strings.Contains(name, only) {
		return
	}
	g, err := ir.Parse(`graph "case" ` + text)
	require.NoError(t, err, name)
	const repeats = 50
	run := backendtest.Launches(t, d, d.Runtime, g, nil, repeats)
	least := math.Inf(1)
	for start := time.Now(); time.Since(start) < 40*time.Millisecond; {
		began := time.Now()
		run()
		least = min(least, float64(time.Since(began).Microseconds())/repeats)
	}
	fmt.Printf("%-60s %8.1f µs %6.1f TFLOP/s\n", name, least, flops/least/1e6)
}
