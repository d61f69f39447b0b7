package native

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/dynlib"
)

func libraryPath(t *testing.T) string {
	path := os.Getenv(EnvLibrary)
	if path == "" {
		t.Skip(EnvLibrary + " is not set")
	}
	return path
}

func device(t *testing.T) *Device {
	l, err := Open(libraryPath(t))
	require.NoError(t, err)
	adapters := l.Adapters()
	a, err := Choose(adapters, "")
	require.NoError(t, err)
	d, err := a.Open()
	require.NoError(t, err)
	t.Cleanup(func() {
		d.Close()
		for _, a := range adapters {
			a.Release()
		}
	})
	return d
}

const double = `
@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
	if (id.x < arrayLength(&x)) { x[id.x] = x[id.x] * 2u; }
}`

// compile compiles one shader.
func compile(d *Device, name, code string, checked bool) (*Pipeline, error) {
	p, err := d.Compile([]Shader{{name, code, []Binding{Storage}, checked}})
	if err != nil {
		return nil, err
	}
	return p[0], nil
}

func numbers(from, n uint32) []byte {
	var b []byte
	for i := range n {
		b = binary.LittleEndian.AppendUint32(b, from+i)
	}
	return b
}

// run doubles numbers on the device several times through one encoder.
func run(t *testing.T, d *Device, p *Pipeline, from uint32) {
	const n = 1000
	x, err := d.Buffer("x", 4*n, ForStorage|CopySource|CopyTarget)
	require.NoError(t, err)
	defer x.Release()
	out, err := d.Buffer("out", 4*n, MapRead|CopyTarget)
	require.NoError(t, err)
	defer out.Release()
	g, err := d.Bind(p, []Range{{x, 0, x.Size}})
	require.NoError(t, err)
	defer g.Release()
	e := d.Encoder()
	for range 3 {
		require.NoError(t, x.Write(0, numbers(from, n)))
		require.NoError(t, e.Begin())
		e.Dispatch(p, g, [3]uint32{(n + 63) / 64, 1, 1})
		e.Dispatch(p, g, [3]uint32{(n + 63) / 64, 1, 1})
		e.Copy(out, 0, x, 0, 4*n)
		require.NoError(t, e.Submit())
		got, err := out.Map(4 * n)
		require.NoError(t, err)
		for i := range uint32(n) {
			require.Equal(t, 4*(from+i), binary.LittleEndian.Uint32(got[4*i:]))
		}
		out.Unmap()
	}
}

func TestCompute(t *testing.T) {
	d := device(t)
	p, err := compile(d, "double", double, true)
	require.NoError(t, err)
	defer p.Release()
	run(t, d, p, 7)
}

func TestManyAtOnce(t *testing.T) {
	d := device(t)
	p, err := compile(d, "double", double, true)
	require.NoError(t, err)
	defer p.Release()
	var wg sync.WaitGroup
	for i := range uint32(4) {
		wg.Go(func() { run(t, d, p, i*100) })
	}
	wg.Wait()
}

// objects are what the library counts, in the order of WGPUGlobalReport.
var objects = strings.Fields("surfaces adapters devices queues pipelineLayouts shaderModules bindGroupLayouts bindGroups commandBuffers " +
	"renderBundles renderPipelines computePipelines pipelineCaches querySets buffers textures textureViews samplers")

// held returns how many objects of each kind the library holds.
func held(t *testing.T, l *Library) map[string]uintptr {
	handle, err := dynlib.Open(l.Path)
	require.NoError(t, err)
	generate, err := dynlib.Symbol(handle, "wgpuGenerateReport")
	require.NoError(t, err)
	report := make([][4]uintptr, len(objects)) // allocated, kept, released, bytes of one
	dynlib.Call(generate, l.instance, uintptr(unsafe.Pointer(unsafe.SliceData(report))))
	runtime.KeepAlive(report)
	counts := map[string]uintptr{}
	for i, name := range objects {
		counts[name] = report[i][0]
	}
	return counts
}

// TestReleased: of all that is made of the library, nothing is left once it is released, after mistakes either.
func TestReleased(t *testing.T) {
	l, err := Open(libraryPath(t))
	require.NoError(t, err)
	begin := held(t, l)
	adapters := l.Adapters()
	a, err := Choose(adapters, "")
	require.NoError(t, err)
	before := held(t, l)
	d, err := a.Open()
	require.NoError(t, err)
	opened := held(t, l)
	require.Equal(t, before["devices"]+1, opened["devices"])
	p, err := compile(d, "double", double, true)
	require.NoError(t, err)
	_, err = compile(d, "broken", "fn main( {", true)
	require.Error(t, err)
	_, err = d.Bind(p, nil)
	require.Error(t, err)
	run(t, d, p, 7)
	if d.CanTime() {
		q, err := d.Queries(2)
		require.NoError(t, err)
		require.Equal(t, opened["querySets"]+1, held(t, l)["querySets"])
		q.Release()
	}
	require.Equal(t, opened["computePipelines"]+1, held(t, l)["computePipelines"])
	p.Release()
	require.Equal(t, opened, held(t, l))
	d.Close()
	require.Equal(t, before, held(t, l))
	for _, a := range adapters {
		a.Release()
	}
	require.Equal(t, begin, held(t, l))
}

// TestMistakes makes the mistakes that a program can make; the process must live and the device work on.
func TestMistakes(t *testing.T) {
	d := device(t)
	_, err := compile(d, "broken", "fn main( {", true)
	require.ErrorContains(t, err, "shader broken")
	_, err = d.Compile([]Shader{{"good", double, []Binding{Storage}, true}, {"bad", "fn main( {", []Binding{Storage}, true}})
	require.ErrorContains(t, err, "shader bad")
	_, err = compile(d, "other", strings.Replace(double, "binding(0)", "binding(3)", 1), true)
	require.ErrorContains(t, err, "shader other")
	_, err = d.Buffer("the arena", 1<<50, ForStorage)
	require.ErrorContains(t, err, "the arena needs a buffer of 1125899906842624 bytes, the device's limit is")
	x, err := d.Buffer("x", 64, ForStorage|CopyTarget)
	require.NoError(t, err)
	require.ErrorContains(t, x.Write(60, make([]byte, 8)), "writing a buffer")
	require.ErrorContains(t, x.Write(2, make([]byte, 4)), "writing a buffer")
	p, err := compile(d, "double", double, true)
	require.NoError(t, err)
	_, err = d.Bind(p, []Range{{x, 0, 1 << 20}})
	require.ErrorContains(t, err, "binding buffers")
	_, err = d.Bind(p, nil)
	require.ErrorContains(t, err, "binding buffers")
	out, err := d.Buffer("out", 64, MapRead|CopyTarget)
	require.NoError(t, err)
	e := d.Encoder()
	require.NoError(t, e.Begin())
	e.Copy(out, 0, x, 0, 64) // x is not a source of copies
	require.ErrorContains(t, e.Submit(), "recording a run")
	_, err = out.Map(1 << 20)
	require.ErrorContains(t, err, "mapping a buffer")
	run(t, d, p, 3)

	d.Close()
	_, err = d.Buffer("late", 4, ForStorage)
	require.ErrorIs(t, err, ErrLost)
	require.ErrorIs(t, e.Begin(), ErrLost)
	require.ErrorIs(t, x.Write(0, make([]byte, 4)), ErrLost)
	d.Close()
}

// TestReported holds that what the library reports can be distinguished.
func TestReported(t *testing.T) {
	d := &Device{lost: newReply()}
	require.NoError(t, d.reported("a buffer", 1, ""))
	require.EqualError(t, d.reported("a buffer", 2, "the size is odd"), "a buffer: the size is odd")
	require.ErrorIs(t, d.reported("a buffer", 3, ""), ErrMemory)
	require.False(t, d.lost.done.Load())
	require.ErrorIs(t, d.reported("a buffer", 2, "Parent device is lost"), ErrLost)
	require.True(t, d.lost.done.Load(), "nothing is submitted to it any more")
}

func TestNoLibrary(t *testing.T) {
	_, err := Open(filepath.Join(t.TempDir(), "libnone.so"))
	require.ErrorContains(t, err, "the wgpu-native library cannot be opened")
	t.Setenv(EnvLibrary, filepath.Join(t.TempDir(), "libnone.so"))
	_, err = Open("")
	require.ErrorContains(t, err, "cannot be opened")
}

func TestWrongLibrary(t *testing.T) {
	libraryPath(t)
	found, _ := filepath.Glob("/lib/*/libm.so.6")
	if len(found) == 0 {
		found, _ = filepath.Glob("/usr/lib/*/libm.so.6")
	}
	require.NotEmpty(t, found)
	_, err := Open(found[0])
	require.ErrorContains(t, err, "it is not wgpu-native 29: wgpuGetVersion is missing")
}

func TestChoose(t *testing.T) {
	cards := []*Adapter{{Name: "llvmpipe", Kind: CPU}, {Name: "Big Card", Kind: Discrete}, {Name: "small", Kind: Integrated}}
	for which, want := range map[string]string{"": "Big Card", "0": "llvmpipe", "SMALL": "small", "big": "Big Card"} {
		a, err := Choose(cards, which)
		require.NoError(t, err)
		require.Equal(t, want, a.Name, which)
	}
	for _, which := range []string{"3", "-1"} {
		_, err := Choose(cards, which)
		require.EqualError(t, err, "there is no device "+which+": the devices are 0 to 2")
	}
	_, err := Choose(cards, "none")
	require.ErrorContains(t, err, `there is no device "none": this machine has "llvmpipe"`)
	_, err = Choose(nil, "")
	require.ErrorContains(t, err, "finds no adapter")
}

// TestRefusedFeature: what a library lists and does not give is left out, and its reason kept.
func TestRefusedFeature(t *testing.T) {
	l, err := Open(libraryPath(t))
	require.NoError(t, err)
	adapters := l.Adapters()
	a, err := Choose(adapters, "")
	require.NoError(t, err)
	if a.Has(CooperativeMatrix) {
		t.Skip("the adapter has it")
	}
	had := a.Features
	a.Features = append([]Feature{CooperativeMatrix}, had...)
	d, err := a.Open()
	require.NoError(t, err)
	defer d.Close()
	require.Equal(t, had, a.Features)
	require.ErrorContains(t, a.Refused, "cooperative-matrix is listed but not granted: no device could be made of "+a.Name+": Validation "+
		"Error: ")
	require.ErrorContains(t, a.Refused, "EXPERIMENTAL_COOPERATIVE_MATRIX")
	require.NotContains(t, a.Refused.Error(), "\n")

	a.Features = had
	b, err := a.Open()
	require.NoError(t, err)
	defer b.Close()

	a.Features, a.Limits.MaxBindGroups = had, 1<<20
	_, err = a.Open()
	require.ErrorContains(t, err, "Validation Error: ")
}
