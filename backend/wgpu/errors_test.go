package wgpu

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/internal/native"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

const plain = `graph "plain" (%0 "x": f32[s,36]) { const %1: f32[36,132] = data %2 = matmul(%0, %1) {act=gelu} return %2 as "y" }`

// instanceOf loads a graph on a device.
func instanceOf(t *testing.T, d *Device, text string, s int) (backend.Instance, []*tensor.Tensor) {
	g, err := ir.Parse(text)
	require.NoError(t, err)
	m := d.NewMemory()
	t.Cleanup(m.Close)
	return attach(t, d, m, g, s)
}

// attach loads a graph whose one symbol is s, and attaches it to a memory.
func attach(t *testing.T, d *Device, m backend.Memory, g *ir.Graph, s int) (backend.Instance, []*tensor.Tensor) {
	b := ir.Binding{"s": s}
	in, err := load(t, d, g, b, "s").Attach(m, nil)
	require.NoError(t, err)
	return in, backendtest.Inputs(t, g, b)
}

// TestLost loses the device before a run, and between two: errors from then on, and the process lives.
func TestLost(t *testing.T) {
	for _, before := range []bool{true, false} {
		d := open(t, 0)
		in, inputs := instanceOf(t, d, plain, 3)
		if !before {
			_, err := in.Run(context.Background(), inputs)
			require.NoError(t, err)
		}
		d.gpu.Lose()
		for range 2 {
			_, err := in.Run(context.Background(), inputs)
			require.ErrorIs(t, err, native.ErrLost)
		}
		_, err := d.gpu.Buffer("late", 64, native.ForStorage)
		require.ErrorIs(t, err, native.ErrLost)
		other := open(t, 0) // another device works on
		in, inputs = instanceOf(t, other, plain, 3)
		_, err = in.Run(context.Background(), inputs)
		require.NoError(t, err)
	}
}

// TestFaults lets each call of the device fail separately: an error then, never a wrong result. A program that is not loaded and a trial
// leave nothing after. The device works on.
func TestFaults(t *testing.T) {
	g, err := ir.Parse(plain)
	require.NoError(t, err)
	b := ir.Binding{"s": 3}
	bound, err := g.Bind(b, false)
	require.NoError(t, err)
	d, inputs := openBy(t, backend.Options{Precision: tensor.F16}), backendtest.Inputs(t, g, b)
	planned := backendtest.Plan(t, bound, d.Target())
	program, err := d.Load(planned)
	require.NoError(t, err)
	held := []any{program} // or a collection would release buffers meanwhile
	defer runtime.KeepAlive(&held)
	for name, f := range map[string]func() error{
		"load": func() error {
			p, err := d.Load(planned)
			held = append(held, p)
			return err
		},
		"run": func() error {
			m := d.NewMemory()
			defer m.Close()
			in, err := program.Attach(m, nil)
			if err == nil {
				_, err = in.Run(context.Background(), inputs)
			}
			held = append(held, in)
			return err
		},
		"trial": func() error { return d.tryProduct(product{half: true, narrow: true}, halfTiles[0].tile) },
	} {
		for n, ended := 1, false; !ended; n++ {
			before := d.gpu.Live
			d.gpu.FailAt = n
			err = f()
			if ended = d.gpu.FailAt > 0; ended {
				require.NoError(t, err, name)
				require.Greater(t, n, 4, name)
			} else {
				require.ErrorIs(t, err, native.ErrMemory, "%s, call %d", name, n)
			}
			if name == "load" && err != nil || name == "trial" {
				require.Equal(t, before, d.gpu.Live, "%s, call %d", name, n)
			}
			d.gpu.FailAt = 0
		}
	}
}

// TestBufferLimit plans an arena for a device that takes no buffer of that size.
func TestBufferLimit(t *testing.T) {
	d := open(t, 0)
	in, inputs := instanceOf(t, d, plain, 300)
	d.gpu.Adapter.Limits.MaxBufferSize = 1000
	_, err := in.Run(context.Background(), inputs)
	require.ErrorContains(t, err, "segment 0 of the arena needs a buffer of")
	require.ErrorContains(t, err, "the device's limit is 1000")
	d.gpu.Adapter.Limits.MaxBufferSize = 1 << 30
	_, err = in.Run(context.Background(), inputs)
	require.NoError(t, err, "the instance works on")
}

// TestBrokenShader compiles WGSL that is none; a device that made such an error works on.
func TestBrokenShader(t *testing.T) {
	d := open(t, 0)
	s := newShader("broken", "u32", 64)
	s.put("let x = nothing(1u);")
	for range 2 {
		_, err := d.compile([]*shader{s})
		require.ErrorContains(t, err, "shader broken")
		require.ErrorContains(t, err, "nothing")
	}
	in, inputs := instanceOf(t, d, plain, 3)
	_, err := in.Run(context.Background(), inputs)
	require.NoError(t, err)
}

// TestCancelled stops a run; the next one is whole.
func TestCancelled(t *testing.T) {
	d := open(t, 0)
	in, inputs := instanceOf(t, d, plain, 3)
	want, err := in.Run(context.Background(), inputs)
	require.NoError(t, err)
	first := want[0].Clone()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = in.Run(ctx, inputs)
	require.ErrorIs(t, err, context.Canceled)
	got, err := in.Run(context.Background(), inputs)
	require.NoError(t, err)
	require.Equal(t, first.Bytes(), got[0].Bytes())
}

// TestNoHalf asks a device for float16 arithmetic that it has not.
func TestNoHalf(t *testing.T) {
	open(t, 0)
	_, err := openAlone(backend.Options{Precision: tensor.F16}, func(a *native.Adapter) { a.Features = nil })
	require.ErrorContains(t, err, "has no float16 arithmetic (shader-f16): leave out precision f16")
}

// TestManySegments runs a whole encoder layer with bindings so small that its arena has several segments and its table
// several bindings.
func TestManySegments(t *testing.T) {
	const layer = `(%0 "i": i64[2,s], %1 "m": f32[2,1,1,s]) {
		const %2: f32[600,16] = data const %3: f32[16,16] = data const %4: f32[16,16] = data const %5: f32[16] = data
		const %6: f32[16,32] = data const %7: f32[32,16] = data
		%8 = embedding(%5, %5, %2, %0) {eps=1e-05}
		%9 = matmul(%8, %3, %5) %10 = matmul(%8, %4) %11 = matmul(%8, %3)
		%12 = reshape(%9) {shape=[2,s,2,8]} %13 = reshape(%10) {shape=[2,s,2,8]} %14 = reshape(%11) {shape=[2,s,2,8]}
		%15 = attention(%12, %13, %14, %1) {scale=0.35} %16 = reshape(%15) {shape=[2,s,16]}
		%17 = matmul(%16, %4, %5, %8) %18 = layernorm(%17, %5, %5) {axes=1, eps=1e-05}
		%19 = matmul(%18, %6) {act=gelu} %20 = matmul(%19, %7, _, %18) %21 = layernorm(%20, %5, %5) {axes=1, eps=1e-05} return %21 as "y" }`
	d := open(t, 16384)
	for _, s := range []int{5, 33, 60} {
		check(t, d, "layer", layer, s, true)
	}
	g, err := ir.Parse(`graph "layer" ` + layer)
	require.NoError(t, err)
	bound, err := g.Bind(ir.Binding{"s": 60}, false)
	require.NoError(t, err)
	require.Greater(t, len(backendtest.Plan(t, bound, d.Target()).Plan.Arenas), 1)
}

func TestPoison(t *testing.T) { backendtest.Poison(t, open(t, 0)) }
