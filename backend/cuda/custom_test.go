package cuda_test

import (
	"context"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/drivertest"
	"github.com/rlxc/rlxc/internal/modeltest"
	"github.com/rlxc/rlxc/tensor"
)

const clipCUDA = `
void compute(long long i) {
	float limit = attr_limit * x1(0);
	y0(i, fminf(x0(i), limit));
	long long columns = x0_size(1);
	if (i % columns == 0) y1(i / columns, cut(i, columns, limit)); // one thread a row counts
}
int cut(long long from, long long columns, float limit) {
	int n = 0;
	for (long long k = 0; k < columns; k++) n += x0(from + k) > limit;
	return n;
}`

// clipPTX does the same for float32.
const clipPTX = `.version 8.0
.target sm_75
.address_size 64
.visible .entry compute(.param .align 8 .b8 op[1024])
{
.reg .pred %p<8>;
.reg .f32 %f<8>;
.reg .f64 %d<3>;
.reg .b32 %r<6>;
.reg .b64 %l<20>;
mov.u32 %r1, %ctaid.x;
mov.u32 %r2, %ntid.x;
mov.u32 %r3, %tid.x;
mul.wide.u32 %l1, %r1, %r2;
cvt.u64.u32 %l2, %r3;
add.s64 %l1, %l1, %l2;
ld.param.u64 %l3, [op+160];
setp.ge.s64 %p1, %l1, %l3;
@%p1 bra DONE;
ld.param.u64 %l4, [op];
ld.param.u64 %l5, [op+8];
ld.param.u64 %l6, [op+64];
ld.param.u64 %l7, [op+72];
ld.param.u64 %l8, [op+200];
ld.param.f64 %d1, [op+960];
cvt.rn.f32.f64 %f1, %d1;
ld.global.u64 %l9, [%l5];
cvt.rn.f32.s64 %f2, %l9;
mul.f32 %f1, %f1, %f2;
shl.b64 %l10, %l1, 2;
add.s64 %l11, %l4, %l10;
ld.global.f32 %f3, [%l11];
min.f32 %f4, %f3, %f1;
add.s64 %l12, %l6, %l10;
st.global.f32 [%l12], %f4;
rem.s64 %l13, %l1, %l8;
setp.ne.s64 %p2, %l13, 0;
@%p2 bra DONE;
mov.u64 %l14, 0;
mov.u64 %l15, 0;
LOOP:
setp.ge.s64 %p3, %l15, %l8;
@%p3 bra OUT;
ld.global.f32 %f5, [%l11];
setp.gt.f32 %p4, %f5, %f1;
selp.u64 %l16, 1, 0, %p4;
add.s64 %l14, %l14, %l16;
add.s64 %l11, %l11, 4;
add.s64 %l15, %l15, 1;
bra LOOP;
OUT:
div.s64 %l17, %l1, %l8;
shl.b64 %l17, %l17, 3;
add.s64 %l18, %l7, %l17;
st.global.u64 [%l18], %l14;
DONE:
ret;
}
`

// runClip runs modeltest.ClipModel on 3 × 400 numbers from 0 to 1.197, with an offset of 2; cut are those above 1.
func runClip(t *testing.T, d tensor.DType, op rlxc.Op) (rlxc.Tensors, error) {
	t.Helper()
	m, err := rlxc.FromProto(modeltest.ClipModel(d), "clip", rlxc.WithOp(modeltest.ClipCount(op)))
	require.NoError(t, err)
	defer m.Close()
	p, err := m.Compile(context.Background(), rlxc.CompileOptions{Backend: "cuda"})
	require.NoError(t, err)
	defer p.Close()
	s, err := p.NewSession()
	require.NoError(t, err)
	defer s.Close()
	x, offset := tensor.New(d, 3, 400), tensor.New(tensor.I64)
	for i := range x.Len() {
		x.SetFloat64(i, float64(i%400)*0.003)
	}
	offset.SetInt64(0, 2)
	out, err := s.Run(context.Background(), rlxc.Tensors{"x": x, "offset": offset})
	for name, y := range out {
		out[name] = y.Clone() // the session goes
	}
	return out, err
}

// TestCustomOnTheHostSide: PTX goes to the driver, CUDA C++ to NVRTC, and each launch waits for the kernels ahead of it.
func TestCustomOnTheHostSide(t *testing.T) {
	for name, op := range map[string]rlxc.Op{"cuda": {CUDA: clipCUDA}, "ptx": {PTX: clipPTX}, "both": {CUDA: clipCUDA, PTX: clipPTX}} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_CACHE_HOME", t.TempDir())
			d := drivertest.New(t)
			var words []int64
			d.Run = func(l drivertest.Launch) {
				for b := l.Params; l.Kernel == "compute" && len(b) > 0; b = b[8:] {
					words = append(words, int64(binary.NativeEndian.Uint64(b)))
				}
			}
			_, err := runClip(t, tensor.F32, op)
			require.NoError(t, err)
			require.Equal(t, 1, d.Kernels["compute"])
			at := slices.Index(words, 400)
			require.Positive(t, at)
			require.Equal(t, []int64{3, 400, 1, 1}, words[at-1:][:4], "sizes, and 1 beyond them")
			require.Equal(t, 1, d.Early, "the addition after it")
			if name != "cuda" {
				require.Empty(t, d.Sources)
				return
			}
			require.Len(t, d.Sources, 1)
			require.Contains(t, d.Sources[0], "static constexpr float attr_limit = (float)5.000000000e-01;")
			_, err = runClip(t, tensor.F32, op)
			require.NoError(t, err)
			require.Len(t, d.Sources, 1, "its machine code is kept")
		})
	}
}

// TestCustomLateReads plans the device's arena: what an operator with a separate kernel declares to read late stays for as long.
func TestCustomLateReads(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	drivertest.New(t)
	buffers := func(late int) int {
		op := modeltest.ClipCount(rlxc.Op{PTX: clipPTX})
		op.LateReads = late
		m, err := rlxc.FromProto(modeltest.ClipModel(tensor.F32), "clip", rlxc.WithOp(op))
		require.NoError(t, err)
		defer m.Close()
		p, err := m.Compile(t.Context(), rlxc.CompileOptions{Backend: "cuda", Verify: true})
		require.NoError(t, err)
		defer p.Close()
		r, err := p.Plan(map[string]int{"rows": 3, "columns": 400})
		require.NoError(t, err)
		require.Equal(t, "custom-op inputs", r.Problem.Extensions[0].Name)
		return len(r.Problem.Extensions[0].Buffers)
	}
	require.Zero(t, buffers(0))
	require.Positive(t, buffers(1))
}

// TestCustomErrors are one sentence each.
func TestCustomErrors(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	drivertest.New(t)
	_, err := runClip(t, tensor.F32, rlxc.Op{CUDA: "refuse me"})
	require.ErrorContains(t, err, "kernel com.example.ClipCount: NVRTC cannot compile it: com.example.Bad(1): error: refused")
	require.NotContains(t, err.Error(), "and more")
	t.Setenv("RLXC_NVRTC", "/nowhere/libnvrtc.so")
	_, err = runClip(t, tensor.F32, rlxc.Op{CUDA: clipCUDA})
	require.ErrorContains(t, err, "kernel com.example.ClipCount: CUDA text needs NVIDIA's run-time compiler, and libnvrtc.so is not "+
		"installed")
}
