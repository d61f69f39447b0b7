package wgpu

import (
	"encoding/binary"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/backend"
	"github.com/rlxc/rlxc/backend/wgpu/native"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// candidates are the tiles that the benchmark compares.
var candidates = append([]tile{
	{128, 128, 16, 8, 8}, {128, 64, 16, 8, 8}, {64, 128, 16, 4, 8}, {64, 64, 16, 8, 8},
	{64, 64, 32, 4, 4}, {64, 32, 32, 4, 4}, {32, 64, 32, 4, 4}, {16, 64, 32, 4, 4},
}, shapes(tiles)...)

var halfCandidates = append([]tile{
	{128, 128, 32, 8, 8}, {128, 64, 32, 8, 4}, {64, 64, 32, 8, 4}, {64, 32, 32, 4, 4},
}, shapes(halfTiles)...)

func shapes(choices []choice) (out []tile) {
	for _, c := range choices {
		out = append(out, c.tile)
	}
	return out
}

// BenchmarkMatMul times the kernel alone: many dispatches in one pass, over operands that stay on the device.
func BenchmarkMatMul(b *testing.B) {
	if os.Getenv(native.EnvLibrary) == "" {
		b.Skip(native.EnvLibrary + " is not set")
	}
	d, err := Open(backend.Options{Precision: tensor.F16})
	require.NoError(b, err)
	defer d.Close()
	for _, s := range [][3]int{{4096, 4096, 4096}, {1024, 1024, 1024}, {4096, 768, 3072}, {4096, 3072, 768}, {4096, 2304, 768}, {4096, 768, 768},
		{1024, 768, 768}, {1024, 768, 3072}, {128, 2304, 768}, {128, 768, 768}, {128, 3072, 768}, {128, 768, 3072}} {
		for _, half := range []bool{false, true} {
			tiles, name := candidates, "f32"
			if half {
				tiles, name = halfCandidates, "f16"
			}
			for _, t := range tiles {
				for _, splits := range []int{1, 2, 4, 8} {
					groups := ceil(s[0], t.rows) * ceil(s[1], t.cols)
					if splits > 1 && (groups*splits > 4*wantedGroups || s[2]/splits < splitDepth/2) || groups < 16 && splits == 1 {
						continue
					}
					b.Run(fmt.Sprintf("%s/%dx%dx%d/%dx%dx%d_%dx%d/%d", name, s[0], s[1], s[2], t.rows, t.cols, t.depth, t.high, t.wide, splits), func(b *testing.B) {
						benchmarkMatMul(b, d, product{m: s[0], n: s[1], k: s[2], half: half, narrow: half, tile: t, splits: splits})
					})
				}
			}
		}
	}
}

func benchmarkMatMul(b *testing.B, d *Device, p product) {
	m, n, k := p.m, p.n, p.k
	matrix := func(rows, cols, arena int) *operand {
		return &operand{dtype: tensor.F32, width: 4, shape: tensor.Shape{rows, cols}, strides: []int{cols, 1}, memory: memory{arena: arena}}
	}
	x, w, y, parts := matrix(m, k, 0), matrix(k, n, 1), matrix(m, n, 2), matrix(p.splits*m, n, 3)
	if p.half {
		w.memory.word, w.width = "vec4<f16>", 2
	}
	fx, fw := factor{operand: x, row: k, col: 1}, factor{operand: w, row: n, col: 1}
	e := epilogue{op: ir.MatMul{}, y: y, cols: n}
	launches := []launch{p.launch(&fx, p.floats(&fw, true), &e, true)}
	if p.splits > 1 {
		launches = []launch{p.launch(&fx, p.floats(&fw, true), &epilogue{y: parts, cols: n}, true), e.sum(parts, m, p.splits, true)}
	}
	var buffers [4]*native.Buffer
	for i, o := range []*operand{x, w, y, parts} {
		var err error
		buffers[i], err = d.gpu.Buffer("matrix", int64(o.width*o.elements()), native.ForStorage|native.CopySource|native.CopyTarget)
		require.NoError(b, err)
		defer buffers[i].Release()
		if i < 2 {
			data := make([]byte, o.width*o.elements())
			for k := 0; k < len(data); k += 4 { // floats from 0.5 to 1, and halves from 0.5 to 0.625 two by two
				bits := 0x3f000000 | uint32(k*2654435761)>>9
				if o.width == 2 {
					bits = bits&0x00ff00ff | 0x38003800
				}
				binary.LittleEndian.PutUint32(data[k:], bits)
			}
			require.NoError(b, buffers[i].Write(0, data))
		}
	}
	type call struct {
		p *native.Pipeline
		g *native.BindGroup
	}
	var calls []call
	for _, l := range launches {
		pipelines, err := d.compile([]*shader{l.shader})
		require.NoError(b, err)
		pipe := pipelines[0]
		params, err := d.gpu.Buffer("params", paramBytes, native.ForUniforms|native.CopyTarget)
		require.NoError(b, err)
		defer params.Release()
		block := make([]byte, paramBytes)
		for i, v := range l.shader.params {
			binary.LittleEndian.PutUint32(block[4*i:], v)
		}
		require.NoError(b, params.Write(0, block))
		ranges := []native.Range{{Buffer: params, Size: paramBytes}}
		for _, mem := range l.shader.memories {
			ranges = append(ranges, native.Range{Buffer: buffers[mem.arena], Size: buffers[mem.arena].Size})
		}
		g, err := d.gpu.Bind(pipe, ranges)
		require.NoError(b, err)
		defer g.Release()
		calls = append(calls, call{pipe, g})
	}
	enc := d.gpu.Encoder()
	round := func(n int) {
		require.NoError(b, enc.Begin())
		for range n {
			for i, c := range calls {
				enc.Dispatch(c.p, c.g, launches[i].groups)
			}
		}
		require.NoError(b, enc.Submit())
		require.NoError(b, d.gpu.Poll())
	}
	round(3)
	b.ResetTimer()
	for left := b.N; left > 0; left -= 50 {
		round(min(left, 50))
	}
	b.ReportMetric(2*float64(m)*float64(n)*float64(k)*float64(b.N)/b.Elapsed().Seconds()/1e12, "TFLOP/s")
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
			b.Run(fmt.Sprintf("%s/%dx%d", precision, shape[0], shape[1]), func(b *testing.B) { benchmarkAttention(b, d, shape[0], shape[1]) })
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

// benchmarkKernel times the last dispatch of a program, on inputs of zeros.
func benchmarkKernel(b *testing.B, d *Device, text string, at ir.Binding) {
	g, err := ir.Parse(`graph "kernel" ` + text)
	require.NoError(b, err)
	m := d.NewMemory()
	defer m.Close()
	attached, err := load(b, d, g, at, "kernel").Attach(m)
	require.NoError(b, err)
	in := attached.(*instance)
	var inputs []*tensor.Tensor
	for _, v := range in.planned.Graph.Inputs {
		inputs = append(inputs, tensor.New(v.Type.DType, v.Type.Sizes()...))
	}
	_, err = in.Run(b.Context(), inputs)
	require.NoError(b, err)
	var kernel *dispatch
	for _, a := range in.actions {
		if x, ok := a.(*dispatch); ok {
			kernel = x
		}
	}
	b.ResetTimer()
	for left := b.N; left > 0; left -= 50 {
		require.NoError(b, in.encoder.Begin())
		for range min(left, 50) {
			in.encoder.Dispatch(kernel.pipeline, in.groups[kernel.number], kernel.groups)
		}
		require.NoError(b, in.encoder.Submit())
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
	x := &operand{dtype: tensor.F32, width: 4, shape: tensor.Shape{64}, strides: []int{1}}
	l := each("neg", x, elements[tensor.F32], []*operand{x}, []element{elements[tensor.F32]}, expression{text: "-($1)"})
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
