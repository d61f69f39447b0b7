package cuda_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/backend/cuda"
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/internal/drivertest"
	"github.com/rlxc/rlxc/internal/modeltest"
	"github.com/rlxc/rlxc/tensor"
)

// TestHostSide runs a model at several shapes in every precision: one graph a run, all given back at the end.
func TestHostSide(t *testing.T) {
	for _, c := range []struct {
		capability int
		precision  tensor.DType
		has        []string // kernels that must have been used
		hasNot     string
	}{
		{90, tensor.F32, []string{"simt_f32_32x64", "flash_f32_64", "norm_f32", "embed_f32", "each"}, "mma_f16_32x32"},
		{75, tensor.F32, []string{"product_f32_32x64", "norm_f32", "embed_f32", "each"}, "simt_f32_32x64"},
		{90, tensor.TF32, []string{"mma_tf32_32x32", "wgmma_tf32_128x64", "flash_tf32_64", "norm_f32"}, "mma_f16_32x32"},
		{90, tensor.F16, []string{"flash_f16_64", "flash_wgmma_f16_64", "norm_f16", "embed_f16", "widen_f16", "wgmma_f16_128x64"},
			"attention_f16"},
		{80, tensor.BF16, []string{"flash_bf16_64", "norm_bf16", "mma_bf16_32x32_gelu"}, "wgmma_bf16_128x64"},
		{75, tensor.F16, []string{"product_f16_any", "attention_f16"}, "flash_f16_64"},
	} {
		t.Run(fmt.Sprint(c.precision, c.capability), func(t *testing.T) {
			t.Setenv("XDG_CACHE_HOME", t.TempDir())
			d := drivertest.New(t)
			d.Capability = c.capability
			p, err := modeltest.BuiltIn(t, "bert-tiny").Compile(context.Background(),
				rlxc.CompileOptions{Backend: "cuda", Precision: c.precision, Verify: true})
			require.NoError(t, err)
			s, err := p.NewSession()
			require.NoError(t, err)
			r, ctx := rand.New(rand.NewPCG(1, 2)), context.Background()
			for _, shape := range [][2]int{{1, 8}, {4, 128}, {1, 8}} {
				in := modeltest.BERT(shape[0], shape[1], r)
				_, err := s.Run(ctx, in)
				require.NoError(t, err)
				d.Log = nil
				out, err := s.Run(ctx, in)
				require.NoError(t, err)
				require.Equal(t, []string{"run", "wait"}, d.Log)
				require.Equal(t, tensor.F32, out["last_hidden_state"].DType())
			}
			for _, k := range c.has {
				require.NotZero(t, d.Kernels[k], "%s of %v", k, d.Kernels)
			}
			require.Zero(t, d.Kernels[c.hasNot])
			require.Equal(t, c.capability >= 90, d.Early > 0)
			require.NoError(t, s.Close())
			require.NoError(t, p.Close())
		})
	}
}

// TestQuantizedModels runs quantised models as their files have them and fused, in float32 and in float16: no step is left to the host.
func TestQuantizedModels(t *testing.T) {
	for _, name := range []string{"bert-tiny-int8", "bert-tiny-qdq", "bert-tiny-int4"} {
		for _, o := range []rlxc.CompileOptions{{Level: rlxc.O0}, {Level: rlxc.O2}, {Level: rlxc.O2, Precision: tensor.F16}} {
			t.Run(fmt.Sprint(name, o.Level, o.Precision), func(t *testing.T) {
				t.Setenv("XDG_CACHE_HOME", t.TempDir())
				drivertest.New(t)
				o.Backend, o.Verify = "cuda", true
				p, err := modeltest.BuiltIn(t, name).Compile(context.Background(), o)
				require.NoError(t, err)
				report, err := p.Plan(map[string]int{"batch": 2, "seq": 8})
				require.NoError(t, err)
				require.Empty(t, report.Host)
				s, err := p.NewSession()
				require.NoError(t, err)
				_, err = s.Run(context.Background(), modeltest.BERT(2, 8, rand.New(rand.NewPCG(1, 2))))
				require.NoError(t, err)
				require.NoError(t, s.Close())
				require.NoError(t, p.Close())
			})
		}
	}
}

// TestCache compiles kernels once a machine: a second process finds their machine code.
func TestCache(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	d := drivertest.New(t)
	compiled := func() int {
		before := d.Calls["cuLinkComplete"]
		p, err := modeltest.BuiltIn(t, "bert-tiny").Compile(context.Background(), rlxc.CompileOptions{Backend: "cuda"})
		require.NoError(t, err)
		s, err := p.NewSession()
		require.NoError(t, err)
		_, err = s.Run(context.Background(), modeltest.BERT(1, 8, rand.New(rand.NewPCG(1, 2))))
		require.NoError(t, err)
		require.NoError(t, s.Close())
		require.NoError(t, p.Close())
		return d.Calls["cuLinkComplete"] - before
	}
	require.NotZero(t, compiled())
	require.Zero(t, compiled())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	d.Version = 13000
	require.Zero(t, compiled(), "the archive has machine code for this device")
	d.NoCode = true
	require.NotZero(t, compiled(), "the driver takes none but its own")
	require.NotZero(t, d.Early)
	d.Version, d.Early = 12020, 0
	require.NotZero(t, compiled(), "an older driver has a folder of its own")
	require.Zero(t, d.Early, "it starts no kernel early")
}

// runOnce compiles a model, runs it, and calls ran before it closes what it has.
func runOnce(t *testing.T, m *rlxc.Model, o rlxc.CompileOptions, ran func()) error {
	o.Backend = "cuda"
	p, err := m.Compile(context.Background(), o)
	if err != nil {
		require.ErrorIs(t, err, rlxc.ErrNoDevice)
		return err
	}
	defer p.Close()
	s, err := p.NewSession()
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = s.Run(context.Background(), modeltest.BERT(1, 8, rand.New(rand.NewPCG(1, 2))))
	ran()
	return err
}

// TestErrors are one sentence each, and the process lives on.
func TestErrors(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	m := modeltest.BuiltIn(t, "bert-tiny")
	run := func(o rlxc.CompileOptions) error { return runOnce(t, m, o, func() {}) }
	t.Run("no library", func(t *testing.T) {
		t.Setenv("RLXC_CUDA", "/nowhere/libcuda.so")
		require.ErrorContains(t, run(rlxc.CompileOptions{}), "the NVIDIA driver's library cannot be opened")
	})
	d := drivertest.New(t)
	for name, c := range map[string]struct {
		call string
		code int
		want string
	}{
		"exclusive": {"cuDevicePrimaryCtxRetain", 46, "exclusive mode"},
		"memory":    {"cuMemAlloc_v2", 2, "the device is out of memory"},
		"pinned":    {"cuMemHostAlloc", 2, "pinned memory"},
		"kernel":    {"cuLinkAddData_v2", 218, "the driver cannot compile a kernel's PTX"},
		"lost":      {"cuGraphLaunch", 719, "a kernel failed"},
		"other":     {"cuStreamCreate", 5, `the NVIDIA driver reports "a fake error"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_CACHE_HOME", t.TempDir()) // nothing is compiled yet
			d.Fail[c.call] = c.code
			err := run(rlxc.CompileOptions{})
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "\n")
			delete(d.Fail, c.call)
			require.NoError(t, run(rlxc.CompileOptions{}))
		})
	}
	d.Devices = 0
	require.ErrorContains(t, run(rlxc.CompileOptions{}), "no NVIDIA device")
	d.Devices = 1
	require.ErrorContains(t, run(rlxc.CompileOptions{Device: "3"}), "no NVIDIA device 3: there are 1")
	require.ErrorContains(t, run(rlxc.CompileOptions{Device: "Voodoo"}), `no NVIDIA device is named "Voodoo": there are Fake`)
	require.ErrorContains(t, run(rlxc.CompileOptions{CPU: "avx2"}), "no CPU level")
	d.Capability = 61
	require.ErrorContains(t, run(rlxc.CompileOptions{}), "compute capability 6.1: 7.5 is needed")
}

// TestFaults lets each call of the driver fail separately: an error then, and everything is given back.
func TestFaults(t *testing.T) {
	m := modeltest.BuiltIn(t, "bert-tiny")
	for n, ended := 1, false; !ended; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Setenv("XDG_CACHE_HOME", t.TempDir())
			d := drivertest.New(t)
			d.FailAt = n
			err := runOnce(t, m, rlxc.CompileOptions{}, func() { ended, d.FailAt = d.FailAt > 0, 0 })
			if ended {
				require.NoError(t, err)
				require.Greater(t, n, 100)
			} else {
				require.ErrorContains(t, err, "the device is out of memory")
			}
		})
	}
}

// TestFaultsInBodies is TestFaults for bodies of control flow, in the first run and in the second, at another size.
func TestFaultsInBodies(t *testing.T) {
	m, err := rlxc.FromProto(modeltest.ControlModel(), "control")
	require.NoError(t, err)
	defer m.Close()
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // kernels are compiled once
	for n, ended := 1, false; !ended; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			d := drivertest.New(t)
			s := modeltest.Session(t, m, rlxc.CompileOptions{Backend: "cuda", Verify: true})
			d.FailAt = n
			for _, rows := range []int{2, 5} {
				if _, err = s.Run(context.Background(), rlxc.Tensors{"x": tensor.New(tensor.F32, rows, 4)}); err != nil {
					break
				}
			}
			if ended, d.FailAt = d.FailAt > 0, 0; ended {
				require.NoError(t, err)
				require.Greater(t, n, 50)
			} else {
				require.ErrorContains(t, err, "the device is out of memory")
				_, err = s.Run(context.Background(), rlxc.Tensors{"x": tensor.New(tensor.F32, 3, 4)})
				require.NoError(t, err, "the session works on")
			}
		})
	}
}

// TestProfile: every step that the device ran has a time.
func TestProfile(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	drivertest.New(t)
	p, err := modeltest.BuiltIn(t, "bert-tiny").Compile(context.Background(), rlxc.CompileOptions{Backend: "cuda", Profile: true})
	require.NoError(t, err)
	defer p.Close()
	s, err := p.NewSession()
	require.NoError(t, err)
	defer s.Close()
	_, err = s.Run(context.Background(), modeltest.BERT(1, 8, rand.New(rand.NewPCG(1, 2))))
	require.NoError(t, err)
	require.Greater(t, len(s.Profile()), 10)
}

func TestUnknownKernel(t *testing.T) { require.ErrorContains(t, cuda.Compiled("none"), "none") }

func TestHostMemory(t *testing.T) {
	_, d := fake(t)
	backendtest.HostMemory(t, d)
}

func TestGivesBack(t *testing.T) {
	_, d := fake(t)
	backendtest.GivesBack(t, d)
}

// TestEmpty holds that attention without keys is no kernel's, which would divide by the sum of no weights.
func TestEmpty(t *testing.T) {
	driver, d := fake(t)
	backendtest.Empty(t, d, false)
	for name := range driver.Kernels {
		require.NotContains(t, name, "flash")
		require.NotContains(t, name, "attention")
	}
}

// TestKeptStaysOnDevice holds that a run on device tensors moves nothing but the other inputs and outputs, and that what grows in place
// is not copied on the device.
func TestKeptStaysOnDevice(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	d := drivertest.New(t)
	m, err := rlxc.FromProto(modeltest.StreamModel(false), "stream")
	require.NoError(t, err)
	defer m.Close()
	p, err := m.Compile(context.Background(), rlxc.CompileOptions{Backend: "cuda", Verify: true})
	require.NoError(t, err)
	var launches []int
	for _, room := range []int{0, 40} {
		s, err := p.NewSession()
		require.NoError(t, err)
		start := rlxc.Tensors{"past": tensor.New(tensor.F32, 4, 3), "sum": tensor.New(tensor.F32, 2, 3), "old": tensor.New(tensor.U8, 3)}
		var all []*rlxc.DeviceTensor
		for in, out := range map[string]string{"past": "present", "sum": "total", "old": "new"} {
			k, err := p.NewDeviceTensor(start[in])
			if room > 0 && in != "sum" {
				require.NoError(t, k.Close())
				k, err = p.NewGrowingTensor(start[in], 0, room)
			}
			require.NoError(t, err)
			require.NoError(t, s.BindInput(in, k))
			require.NoError(t, s.BindOutput(out, k))
			all = append(all, k)
		}
		in := rlxc.Tensors{"x": tensor.New(tensor.F32, 2, 3), "byte": tensor.New(tensor.U8, 1), "through": tensor.New(tensor.I64, 2)}
		for range 3 {
			up, down := d.Calls["cuMemcpyHtoD_v2"], d.Calls["cuMemcpyDtoH_v2"]
			d.Log, d.Kernels = nil, map[string]int{}
			_, err := s.Run(context.Background(), in)
			require.NoError(t, err)
			require.Equal(t, []string{"up", "up", "up", "down", "down", "run", "wait"}, d.Log, "x, byte, through; passed, y")
			require.Equal(t, up, d.Calls["cuMemcpyHtoD_v2"])
			require.Equal(t, down, d.Calls["cuMemcpyDtoH_v2"])
		}
		n := 0
		for _, k := range d.Kernels {
			n += k
		}
		launches = append(launches, n)
		require.NoError(t, s.Close())
		for _, k := range all {
			require.NoError(t, k.Close())
		}
	}
	require.Equal(t, launches[0]-2, launches[1])
	require.NoError(t, p.Close())
}

// fake opens the device of a driver in Go.
func fake(t *testing.T) (*drivertest.Driver, *cuda.Device) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	driver := drivertest.New(t)
	d, err := cuda.Open(backend.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return driver, d
}
