package wgpu_test

import (
	"context"
	"fmt"
	"log"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/modeltest"
	"github.com/rlxc/rlxc/tensor"
)

// clipCount is the operator of modeltest with a kernel in WGSL.
var clipCount = modeltest.ClipCount(rlxc.Op{
	WGSL: `
fn compute(i: u32) {
	let limit = attr_limit * f32(x1(0u));
	y0(i, min(x0(i), limit));
	let columns = x0_size(1u);
	if (i % columns == 0u) { // one invocation a row counts
		var cut = 0;
		for (var k = 0u; k < columns; k++) { cut -= select(0, 1, x0(i + k) > limit); }
		y1(i / columns, cut);
	}
}`,
})

// An operator of one's own as a kernel of the GPU: package target's OpDef says what its WGSL sees.
func Example_customOp() {
	m, err := rlxc.FromProto(modeltest.ClipModel(tensor.F32), "clip", rlxc.WithOp(clipCount))
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	p, err := m.Compile(context.Background(), rlxc.CompileOptions{Backend: "wgpu"})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	s, err := p.NewSession()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	out, err := s.Run(context.Background(), rlxc.Tensors{"x": tensor.FromSlice([]float32{-1, 0.5, 2, 3}, 2, 2),
		"offset": tensor.Scalar(int64(2))})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out["y"], out["counts"])
}

func TestCustomOp(t *testing.T) {
	needLibrary(t)
	m, err := rlxc.FromProto(modeltest.ClipModel(tensor.F32), "clip", rlxc.WithOp(clipCount))
	require.NoError(t, err)
	defer m.Close()
	p, err := m.Compile(context.Background(), rlxc.CompileOptions{Backend: "wgpu"})
	require.NoError(t, err)
	defer p.Close()
	path := filepath.Join(t.TempDir(), "clip.rlxc")
	require.NoError(t, p.Save(path))
	saved, err := rlxc.Open(path, rlxc.WithOp(clipCount))
	require.NoError(t, err)
	defer saved.Close()
	for _, m := range []*rlxc.Model{m, saved} {
		s := modeltest.Session(t, m, rlxc.CompileOptions{Backend: "wgpu"})
		for _, columns := range []int{2, 3, 300} {
			x := tensor.New(tensor.F32, 2, columns)
			for i := range x.Len() {
				x.SetFloat64(i, float64(i%5)-1)
			}
			out, err := s.Run(context.Background(), rlxc.Tensors{"x": x, "offset": tensor.Scalar(int64(3))})
			require.NoError(t, err)
			for row := range 2 {
				cut := 0
				for i := range columns {
					at := row*columns + i
					v := max(0, x.Float64(at))
					if v > 1.5 {
						v = 1.5
						cut--
					}
					require.Equal(t, 2*v, out["y"].Float64(at))
				}
				require.EqualValues(t, cut, out["counts"].Int64(row), "negative numbers keep their sign in 64 bits")
			}
		}
	}
}

// TestCustomOpErrors: WGSL that does not compile, and operands that WGSL does not see.
func TestCustomOpErrors(t *testing.T) {
	needLibrary(t)
	in := rlxc.Tensors{"x": tensor.New(tensor.F32, 2, 2), "offset": tensor.Scalar(int64(3))}
	broken := clipCount
	broken.WGSL = "fn compute(i: u32) { y0(i, x7(i)); }"
	m, err := rlxc.FromProto(modeltest.ClipModel(tensor.F32), "clip", rlxc.WithOp(broken))
	require.NoError(t, err)
	defer m.Close()
	s := modeltest.Session(t, m, rlxc.CompileOptions{Backend: "wgpu"})
	_, err = s.Run(context.Background(), in)
	require.ErrorContains(t, err, `"clip"`)
	require.ErrorContains(t, err, "shader com.example.ClipCount")
	require.ErrorContains(t, err, "x7")

	m, err = rlxc.FromProto(modeltest.ClipModel(tensor.F64), "clip", rlxc.WithOp(clipCount))
	require.NoError(t, err)
	defer m.Close()
	s = modeltest.Session(t, m, rlxc.CompileOptions{Backend: "wgpu"})
	in["x"] = tensor.New(tensor.F64, 2, 2)
	_, err = s.Run(context.Background(), in)
	require.ErrorContains(t, err, "not on the host")
}
