package wgpu

import (
	"encoding/binary"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/internal/native"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// tried are tiles that the benchmark compares with those of the tables.
var (
	tried = []tile{{128, 128, 16, 8, 8}, {64, 128, 16, 4, 8}, {64, 64, 16, 8, 8}, {64, 64, 32, 4, 4}, {64, 32, 32, 4, 4},
		{16, 64, 32, 4, 4}}
	triedHalf = []tile{{128, 128, 32, 8, 8}, {64, 128, 32, 8, 8}, {128, 64, 32, 8, 4}, {64, 64, 32, 8, 4}, {64, 32, 32, 4, 4},
		{32, 128, 32, 4, 4}}
)

// BenchmarkMatMul times the kernel alone: many dispatches in one pass, over operands that stay on the device.
func BenchmarkMatMul(b *testing.B) {
	if os.Getenv(native.EnvLibrary) == "" {
		b.Skip(native.EnvLibrary + " is not set")
	}
	d, err := Open(backend.Options{Precision: tensor.F16})
	require.NoError(b, err)
	defer d.Close()
	for _, s := range [][3]int{{4096, 4096, 4096}, {1024, 1024, 1024}, {4096, 768, 3072}, {4096, 3072, 768}, {4096, 2304, 768},
		{4096, 768, 768},
		{1024, 768, 768}, {1024, 768, 3072}, {128, 2304, 768}, {128, 768, 768}, {128, 3072, 768}, {128, 768, 3072}} {
		for name, p := range map[string]product{"f32": {}, "f16": {half: true, narrow: true},
			"cooperative": {half: true, narrow: true, coop: true}} {
			if p.coop && !d.coop {
				continue
			}
			p.M, p.N, p.K = s[0], s[1], s[2]
			all := map[string][]tile{"f32": tried, "f16": triedHalf}[name]
			for _, r := range p.rules() {
				all = append(all, r.tile)
			}
			for _, t := range all {
				for _, splits := range []int{1, 2, 4, 8} {
					groups := p.groups(t)
					if splits > 1 && (groups*splits > 4*wantedGroups || s[2]/splits < gpu.SplitDepth/2) || groups < 16 && splits == 1 {
						continue
					}
					c := tiling{t, p.split(splits)}
					b.Run(fmt.Sprintf("%s/%dx%dx%d/%s", name, s[0], s[1], s[2], c), func(b *testing.B) { benchmarkMatMul(b, d, p, c) })
				}
			}
		}
	}
}

func benchmarkMatMul(b *testing.B, d *Device, p product, x tiling) {
	l := &tuner{d: d}
	defer l.release()
	c := p.candidates([]tiling{x}, trialFloats)
	calls, err := l.ready([][]launch{c.prepare(l)(x)})
	require.NoError(b, err)
	fill := func(to *native.Buffer, bits func(noise uint32) uint32) {
		data := make([]byte, to.Size)
		for i := 0; i < len(data); i += 4 {
			binary.LittleEndian.PutUint32(data[i:], bits(uint32(i*2654435761)>>9))
		}
		require.NoError(b, to.Write(0, data))
	}
	floats := func(noise uint32) uint32 { return 0x3f000000 | noise }            // 0.5 to 1
	halves := func(noise uint32) uint32 { return 0x38003800 | noise&0x00ff00ff } // 0.5 to 0.625
	fill(l.arena, floats)
	for _, w := range l.real {
		if p.narrow {
			fill(w, halves)
		} else {
			fill(w, floats)
		}
	}
	w := &stopwatch{d: d, e: d.gpu.Encoder(), runs: calls, repeat: 50}
	_, err = w.time(0)
	require.NoError(b, err)
	b.ResetTimer()
	for left := b.N; left > 0; left -= 50 {
		w.repeat = min(left, 50)
		_, err = w.time(0)
		require.NoError(b, err)
	}
	b.ReportMetric(2*float64(p.M)*float64(p.N)*float64(p.K)*float64(b.N)/b.Elapsed().Seconds()/1e12, "TFLOP/s")
}

// BenchmarkConv times the kernel alone, on layers of a ResNet-50 at batch 32 and one of its like by channels.
func BenchmarkConv(b *testing.B) {
	if os.Getenv(native.EnvLibrary) == "" {
		b.Skip(native.EnvLibrary + " is not set")
	}
	for _, precision := range []tensor.DType{tensor.F32, tensor.F16} {
		d, err := Open(backend.Options{Precision: precision})
		require.NoError(b, err)
		for _, c := range []struct{ size, in, out, kernel, stride, groups int }{{224, 3, 64, 7, 2, 1}, {56, 64, 64, 3, 1, 1},
			{28, 128, 128, 3, 1, 1}, {14, 256, 256, 3, 1, 1},
			{7, 512, 512, 3, 1, 1}, {56, 128, 128, 3, 1, 32}, {56, 144, 144, 3, 1, 144}} {
			b.Run(fmt.Sprintf("%s/%d_%d_%d_%dx%d_%d_%d", precision, c.size, c.in, c.out, c.kernel, c.kernel, c.stride, c.groups),
				func(b *testing.B) {
					benchmarkKernel(b, d, fmt.Sprintf(`(%%0 "x": f32[32,s,s,%d]) { const %%1: f32[%d,%d,%d,%d] = data
					%%2 = conv(%%0, %%1) {kernel=[%d,%d], strides=[%d,%d], dilations=[1,1], pads=[%d,%d,%d,%d], auto_pad="NOTSET", group=%d,
					act=relu} return %%2 as "y" }`,
						c.in, c.kernel, c.kernel, c.in/c.groups, c.out, c.kernel, c.kernel, c.stride, c.stride, c.kernel/2, c.kernel/2,
						c.kernel/2, c.kernel/2, c.groups), ir.Binding{"s": c.size})
					positions := c.size / c.stride
					flops := 64 * float64(positions*positions*c.out) * float64(c.kernel*c.kernel*c.in/c.groups) * float64(b.N)
					b.ReportMetric(flops/b.Elapsed().Seconds()/1e12, "TFLOP/s")
				})
		}
		require.NoError(b, d.Close())
	}
}

// BenchmarkAttention times the kernel alone.
func BenchmarkAttention(b *testing.B) {
	if os.Getenv(native.EnvLibrary) == "" {
		b.Skip(native.EnvLibrary + " is not set")
	}
	for _, precision := range []tensor.DType{tensor.F32, tensor.F16} {
		d, err := Open(backend.Options{Precision: precision})
		require.NoError(b, err)
		for _, shape := range [][2]int{{1, 128}, {1, 512}, {8, 128}, {32, 128}} {
			b.Run(fmt.Sprintf("%s/%dx%d", precision, shape[0], shape[1]),
				func(b *testing.B) { benchmarkAttention(b, d, shape[0], shape[1]) })
		}
		require.NoError(b, d.Close())
	}
}

func benchmarkAttention(b *testing.B, d *Device, batch, seq int) {
	benchmarkKernel(b, d, `(%0 "q": f32[b,s,12,64], %1 "k": f32[b,s,12,64], %2 "v": f32[b,s,12,64], %3 "m": f32[b,1,1,s]) {
		%4 = attention(%0, %1, %2, %3) {scale=0.125} return %4 as "y" }`, ir.Binding{"b": batch, "s": seq})
	b.ReportMetric(4*float64(batch*12*64)*float64(seq*seq)*float64(b.N)/b.Elapsed().Seconds()/1e12, "TFLOP/s")
}

// BenchmarkLayerNorm times the kernel alone, with a residual as BERT has it.
func BenchmarkLayerNorm(b *testing.B) {
	if os.Getenv(native.EnvLibrary) == "" {
		b.Skip(native.EnvLibrary + " is not set")
	}
	d, err := Open(backend.Options{})
	require.NoError(b, err)
	defer d.Close()
	for _, rows := range []int{128, 512, 1024, 4096} {
		b.Run(fmt.Sprint(rows), func(b *testing.B) {
			benchmarkKernel(b, d, `(%0 "x": f32[s,768], %1 "r": f32[s,768]) { const %2: f32[768] = data const %3: f32[768] = data
				%4 = layernorm(%0, %2, %3, %1) {axes=1, eps=1e-05} return %4 as "y" }`, ir.Binding{"s": rows})
			b.ReportMetric(3*4*768*float64(rows)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
		})
	}
}

// benchmarkKernel times the dispatches of a program, on inputs of zeros.
func benchmarkKernel(b *testing.B, d *Device, text string, at ir.Binding) {
	g, err := ir.Parse(`graph "kernel" ` + text)
	require.NoError(b, err)
	const repeats = 50
	launches := backendtest.Launches(b, d, d.Runtime, g, at, repeats)
	b.ResetTimer()
	for left := b.N; left > 0; left -= repeats {
		launches()
		require.NoError(b, d.gpu.Poll())
	}
}

// BenchmarkRecord times what the host does for a run of a hundred dispatches: recording and submitting it.
func BenchmarkRecord(b *testing.B) {
	if os.Getenv(native.EnvLibrary) == "" {
		b.Skip(native.EnvLibrary + " is not set")
	}
	d, err := Open(backend.Options{})
	require.NoError(b, err)
	defer d.Close()
	x := &operand{Operand: gpu.RowMajor(tensor.F32, 64)}
	l := each("neg", x, []*operand{x}, expression{wgsl: "-($1)"})
	pipelines, err := d.compile([]*shader{l.shader})
	require.NoError(b, err)
	p := pipelines[0]
	params, err := d.gpu.Buffer("params", paramBytes, native.ForUniforms)
	require.NoError(b, err)
	memory, err := d.gpu.Buffer("memory", 256, native.ForStorage)
	require.NoError(b, err)
	g, err := d.gpu.Bind(p, []native.Range{{Buffer: params, Size: paramBytes}, {Buffer: memory, Size: 256}})
	require.NoError(b, err)
	e := d.gpu.Encoder()
	for range b.N {
		require.NoError(b, e.Begin())
		for range 100 {
			e.Dispatch(p, g, l.groups)
		}
		require.NoError(b, e.Submit())
		b.StopTimer()
		require.NoError(b, d.gpu.Poll())
		b.StartTimer()
	}
}
