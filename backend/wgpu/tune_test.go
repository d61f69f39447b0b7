package wgpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/internal/native"
	"github.com/rlxc/rlxc/tensor"
)

// TestSplits runs products by every tile, whole and in splits, at sizes around its edges: results are right, nothing is written
// beside them, and they are equal to the bit whatever the tile.
func TestSplits(t *testing.T) {
	d := openBy(t, backend.Options{Precision: tensor.F16})
	for _, half := range []bool{false, true} {
		for _, c := range []struct{ n, k, splits int }{{132, 96, 1}, {132, 96, 3}, {132, 100, 3}, {70, 37, 1}} { // the last is not of vec4
			if half {
				c.n = pad(c.n, 4)
			}
			for _, m := range []int{1, 33, 65, 128} {
				p := product{Product: gpu.Product{M: m, N: c.n, K: c.k}, half: half, narrow: half}
				var first []float32
				for _, r := range p.rules() {
					x := tiling{r.tile, c.splits}
					name := fmt.Sprintf("%dx%dx%d, half %t, by %s", m, c.n, c.k, half, x)
					got := runTiling(t, d, p, x, name)
					if first == nil {
						first = got
					}
					for i := range got {
						if math.Float32bits(first[i]) != math.Float32bits(got[i]) {
							t.Fatalf("%s: element %d is %v, and %v by the first tile", name, i, got[i], first[i])
						}
					}
				}
			}
		}
	}
}

// runTiling runs a product of random floats in a tuner, checks it, and checks that all but its results and parts stays as it was.
func runTiling(t *testing.T, d *Device, p product, x tiling, name string) []float32 {
	l := &tuner{d: d}
	defer l.release()
	const guard = 1024
	l.operand(tensor.U8, guard)
	calls, err := l.ready([][]launch{p.candidates([]tiling{x}, trialFloats).prepare(l)(x)})
	require.NoError(t, err, name)
	from := guard + pad(4*p.M*p.K, alignment) // the results
	to := from + 4*p.M*p.N
	parts := pad(to, alignment)
	end := parts + 4*x.splits*p.M*p.N

	r := rand.New(rand.NewPCG(1, 2))
	before := make([]byte, l.arena.Size)
	for i := range before {
		before[i] = 0xA5
	}
	a, b := make([]float64, p.M*p.K), make([]float64, p.K*p.N)
	for i := range a {
		a[i] = float64(float32(r.Float64() - 0.5))
		putFloat(before[guard+4*i:], a[i])
	}
	for _, w := range l.real {
		data := make([]byte, w.Size)
		for i := range b {
			if b[i] = float64(float32(r.Float64() - 0.5)); p.narrow {
				bits := tensor.F16Bits(b[i])
				data[2*i], data[2*i+1] = byte(bits), byte(bits>>8)
			} else {
				putFloat(data[4*i:], b[i])
			}
		}
		require.NoError(t, w.Write(0, data))
	}
	require.NoError(t, l.arena.Write(0, before))
	staging, err := d.gpu.Buffer("results", l.arena.Size, native.MapRead|native.CopyTarget)
	require.NoError(t, err)
	defer staging.Release()
	e := d.gpu.Encoder()
	require.NoError(t, e.Begin())
	for _, c := range calls[0] {
		e.Dispatch(c.pipeline, c.group, c.groups)
	}
	e.Copy(staging, 0, l.arena, 0, l.arena.Size)
	require.NoError(t, e.Submit())
	after, err := staging.Map(l.arena.Size)
	require.NoError(t, err)
	for i := range after {
		if after[i] != before[i] && (i < from || i >= to) && (x.splits == 1 || i < parts || i >= end) {
			t.Fatalf("%s: byte %d is written, results are %d to %d", name, i, from, to)
		}
	}
	limit := 1e-5
	if p.half {
		limit = 0.02
	}
	out := make([]float32, p.M*p.N)
	for i := range p.M {
		for j := range p.N {
			want := 0.0
			for k := range p.K {
				want += a[i*p.K+k] * b[k*p.N+j]
			}
			got := getFloat(after[from+4*(i*p.N+j):])
			if !(math.Abs(want-float64(got)) <= limit) {
				t.Fatalf("%s: row %d, column %d is %v, want %v", name, i, j, got, want)
			}
			out[i*p.N+j] = got
		}
	}
	return out
}

func putFloat(b []byte, x float64) {
	bits := math.Float32bits(float32(x))
	b[0], b[1], b[2], b[3] = byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24)
}

func getFloat(b []byte) float32 {
	return math.Float32frombits(uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24)
}

// tuned opens a device that tunes all products, as a process would that has just started.
func tuned(t *testing.T, o backend.Options) *Device {
	d := openBy(t, o)
	d.tuneFrom = 0
	gpu.ForgetTilings()
	return d
}

// cacheIn makes dir the user's cache, on whatever system.
func cacheIn(t *testing.T, dir string) {
	for _, name := range []string{"XDG_CACHE_HOME", "HOME", "LocalAppData"} {
		t.Setenv(name, dir)
	}
}

// fewTiles leaves the two smallest tiles of each table, which compile soonest.
func fewTiles(t *testing.T) {
	f, h := tiles, halfTiles
	t.Cleanup(func() { tiles, halfTiles = f, h })
	tiles, halfTiles = f[len(f)-2:], h[len(h)-2:]
}

// heldBy is the number of searches that a device's kind has held in this process.
func heldBy(d *Device) int { return d.tuningCache().Searches() }

// tunedCases are a product of each kind.
var tunedCases = []string{
	`(%0 "x": f32[s,36]) { const %1: f32[36,132] = data const %2: f32[132] = data %3 = matmul(%0, %1, %2) {act=gelu} return %3 as "y" }`,
	`(%0 "x": f32[s,601]) { const %2: f32[601,5] = data const %3: f32[5] = data %4 = matmul(%0, %2, %3) return %4 as "y" }`,
	`(%0 "x": f32[s,800], %1 "r": f32[s,36]) { const %2: f32[800,36] = data const %3: f32[36] = data %4 = matmul(%0, %2, %3, %1)
		return %4 as "y" }`,
	`(%0 "x": f32[3,s,40], %1 "z": f32[3,40,8]) { %2 = matmul(%0, %1) return %2 as "y" }`,
	`(%0 "x": f32[s,3,8]) { const %1: f32[8,8] = data %2 = transpose(%0) {perm=[1,0,2]} %4 = matmul(%2, %1) return %4 as "y" }`,
	`(%0 "x": i8[s,36]) { const %1: i8[36,132] = data %3 = onnx.QMatMul(%0, %1) return %3 as "y" }`,
	`(%0 "x": f32[s,32]) { const %1: u8[20,2,8] = data const %2: f32[40] = data %5 = matmul_nbits(%0, %1, %2) {k=32, n=20, bits=4, block=16}
		return %5 as "y" }`,
}

// TestTuning tunes every kind of product: it is right, each class is timed once, and neither another device of the process nor
// another process times it again.
func TestTuning(t *testing.T) {
	fewTiles(t)
	// f16 for products with constant floats
	for precision, cases := range map[tensor.DType][]string{tensor.F32: tunedCases, tensor.F16: tunedCases[:2]} {
		o := backend.Options{Precision: precision}
		cacheIn(t, t.TempDir())
		d := tuned(t, o)
		for i, text := range cases {
			was := heldBy(d)
			checkWith(t, d, text, text, 20, true, quarters)
			require.Equal(t, was+1, heldBy(d), text)
			checkWith(t, d, text, text, 21, true, quarters) // rounded up they are alike
			require.Equal(t, was+1, heldBy(d), text)
			if i == 0 {
				checkWith(t, d, text, text, 33, true, quarters)
				require.Equal(t, was+2, heldBy(d), text)
			}
		}
		was := heldBy(d)
		other := openBy(t, o)
		other.tuneFrom = 0
		for _, text := range cases[:2] {
			checkWith(t, other, text, text, 20, true, quarters)
		}
		require.Equal(t, was, heldBy(other))
		later := tuned(t, o)
		for _, text := range cases[:2] {
			checkWith(t, later, text, text, 20, true, quarters)
		}
		require.Zero(t, heldBy(later))
	}
}

// TestManySessionsTune plans products of three classes on two devices of a kind, all at once: each class is timed once, and tiled
// up one way.
func TestManySessionsTune(t *testing.T) {
	fewTiles(t)
	cacheIn(t, t.TempDir())
	devices := []*Device{tuned(t, backend.Options{}), tuned(t, backend.Options{})}
	var got [12]product
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			got[i] = product{Product: gpu.Product{M: 20 << (i % 3), N: 36, K: 400}}
			devices[i%2].chooseTiling(&got[i], "f32", trialFloats)
		})
	}
	wg.Wait()
	require.Equal(t, 3, heldBy(devices[0]))
	for i := range got {
		require.Equal(t, got[i%3], got[i])
	}
}

// TestNotTuned holds that devices that are the CPU, and small products, keep to the rules.
func TestNotTuned(t *testing.T) {
	fewTiles(t)
	cacheIn(t, t.TempDir())
	d := tuned(t, backend.Options{})
	for _, from := range []int{math.MaxInt, 2*20*36*132 + 1} {
		d.tuneFrom = from
		check(t, d, "not tuned", tunedCases[0], 20, true)
		require.Zero(t, heldBy(d))
	}
	d.tuneFrom = 2 * 20 * 36 * 132
	check(t, d, "tuned", tunedCases[0], 20, true)
	require.Equal(t, 1, heldBy(d))
	require.Equal(t, d.gpu.Adapter.Kind == native.CPU, open(t, 0).tuneFrom == math.MaxInt)
}

// TestTrialFails times candidates on a device that is lost: the usual tiling, and no error.
func TestTrialFails(t *testing.T) {
	cache := t.TempDir()
	cacheIn(t, cache)
	d := tuned(t, backend.Options{})
	d.gpu.Lose()
	p := product{Product: gpu.Product{M: 20, N: 132, K: 36}}
	d.chooseTiling(&p, "f32", trialFloats)
	q := product{Product: p.Class()}
	require.Equal(t, q.usual(), p.tiling)
	require.Equal(t, 1, heldBy(d))
	files, err := os.ReadDir(cache)
	require.NoError(t, err)
	require.Empty(t, files)
}

// TestClasses holds that what stands for a class is small enough to be tried out, and split up as the products of the class are.
func TestClasses(t *testing.T) {
	for _, p := range []gpu.Product{{M: 100, N: 768, K: 768}, {M: 5000, N: 30522, K: 768}, {M: 1 << 20, N: 64, K: 1 << 16},
		{Lead: tensor.Shape{3, 5}, M: 2000, N: 2000, K: 64}, {Lead: tensor.Shape{2}, M: 20, N: 8, K: 2000}} {
		p := product{Product: p}
		c := product{Product: p.Class()}
		q := c.Sample()
		require.GreaterOrEqual(t, c.Flops(), p.Flops())
		require.Less(t, c.Flops(), 4*p.Flops())
		require.LessOrEqual(t, q.Lead.Elements()*q.M*max(q.N, q.K), 1<<24)
		tilings := c.tilings()
		require.Equal(t, c.usual(), tilings[0])
		require.Greater(t, len(tilings), 1)
		for i, x := range tilings {
			require.NotContains(t, tilings[:i], x, "twice")
		}
		for _, x := range tilings {
			if x.splits > 1 {
				require.Empty(t, p.Lead)
				require.LessOrEqual(t, p.groups(x.tile)*x.splits, 2*wantedGroups)
			}
		}
	}
}

// TestHostClock times by the host's clock, for devices whose own cannot be read.
func TestHostClock(t *testing.T) {
	d := open(t, 0)
	p := product{Product: gpu.Product{M: 33, N: 8, K: 8}}
	c := p.candidates(p.tilings(), trialFloats)
	l := &tuner{d: d}
	defer l.release()
	launches := c.prepare(l)
	w, err := l.stopwatch([][]launch{launches(c.tilings[0]), launches(c.tilings[1])}, 2)
	require.NoError(t, err)
	if w.stamps != nil {
		w.release()
	}
	w.stamps = nil
	for i := range 2 {
		took, err := w.time(i)
		require.NoError(t, err)
		require.Positive(t, took)
	}
}
