package engine

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	_ "github.com/rlxc/rlxc/backend/wgpu"
	"github.com/rlxc/rlxc/internal/native"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// packs is a program without padding: its main part negates ids.
const packs = `(%0 "mask": i64[b,s], %1 "ids": i64[b,s]) { %2: i32[b,4], %3: i32[b], %4: i32[b,4], %5: i32[b,4], %6: i32[t], %7: i64[1,t],
%8: i64[1,t] = rlxc.Pack(%0, %1)
	%9 = neg(%8) %10: i64[b,s] = rlxc.Unpack(%9, %6, %1) return %10 as "y" }`

// TestPackedBatchIsCharged: what is laid out for a run counts against the memory limit while the run lasts.
func TestPackedBatchIsHeld(t *testing.T) {
	p, err := Compile(context.Background(), text(packs), text(packs).Graph, options.Compile{Backend: "cpu"})
	require.NoError(t, err)
	defer p.Close()
	require.True(t, p.Unpadded())
	s, err := p.NewSession()
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.begin(context.Background()))
	defer s.end()
	account := &s.use.memory
	before := account.Used
	first, made, err := s.mainFrame().feedPacked(&ir.Env{Context: context.Background(), Memory: account}, sequenceStarts{0, 2, 5},
		map[string]*tensor.Tensor{"ids": tensor.New(tensor.I64, 5)})
	require.NoError(t, err)
	require.Equal(t, p.packing.main, first, "nothing but packing comes before")
	require.NotEmpty(t, made)
	held := int64(0)
	for _, x := range made {
		held += x.Size()
	}
	require.Equal(t, held, account.Used-before)
}

// TestPackedBatchBindsSizesOfTexts: inputs with a row for each text bind sizes that no input of tokens has. Other sizes than the program's
// are an error. The nodes that read these inputs follow Pack, so that the batch is not padded.
func TestPackedBatchBindsSizesOfTexts(t *testing.T) {
	program := strings.NewReplacer(`"ids": i64[b,s]`, `"ids": i64[b,s], %11 "x": i32[b,k], %12 "bias": i32[b,k], %13 "pair": i32[b,2]`,
		`return %10 as "y"`, `%14 = reshape(%3) {shape=[b,1]} %15 = add(%11, %14) %16 = add(%12, %15) %17 = add(%13, %14)
			return %10 as "y", %16 as "z", %17 as "pairs"`).Replace(packs)
	p, err := Compile(context.Background(), text(program), text(program).Graph, options.Compile{Backend: "cpu", Verify: true})
	require.NoError(t, err)
	defer p.Close()
	s, err := p.NewSession()
	require.NoError(t, err)
	defer s.Close()
	run := func(x, bias, pair int) (map[string]*tensor.Tensor, error) {
		return s.RunPacked(context.Background(), []int{0, 2, 3}, map[string]*tensor.Tensor{"ids": tensor.FromSlice([]int64{1, 2, 3}),
			"x": tensor.New(tensor.I32, 2, x), "bias": tensor.New(tensor.I32, 2, bias), "pair": tensor.New(tensor.I32, 2, pair)})
	}
	for _, k := range []int{3, 1, 4} {
		out, err := run(k, k, 2)
		require.NoError(t, err)
		require.Equal(t, tensor.Shape{2, k}, out["z"].Shape())
	}
	for sizes, message := range map[[3]int]string{{3, 4, 2}: `k is 4 here and 3 in input "x"`,
		{3, 3, 1}: "axis 1 has size 1, the model takes 2"} {
		_, err := run(sizes[0], sizes[1], sizes[2])
		require.ErrorIs(t, err, ErrInput)
		require.ErrorContains(t, err, message)
	}
}

// TestUnpackOnDevices: padding is restored wherever the packed values are, in separate memory or beside another output.
func TestUnpackOnDevices(t *testing.T) {
	beside := strings.Replace(packs, "return", "%11 = reshape(%9) {shape=[t]} return %11 as \"z\",", 1)
	for _, o := range []options.Compile{{Backend: "cpu"}, {Backend: "wgpu"}} {
		t.Run(o.Backend, func(t *testing.T) {
			if o.Backend == "wgpu" && os.Getenv(native.EnvLibrary) == "" {
				t.Skipf("%s is not set", native.EnvLibrary)
			}
			o.Verify, o.Level = true, options.O0
			for _, program := range []string{packs, beside} {
				p, err := Compile(context.Background(), text(program), text(program).Graph, o)
				require.NoError(t, err)
				s, err := p.NewSession()
				require.NoError(t, err)
				for range 2 {
					for _, x := range []struct{ mask, want []int64 }{{[]int64{0, 1, 1, 1, 0, 0}, []int64{0, -2, -3, -4, 0, 0}},
						{[]int64{1, 1, 1, 1, 1, 1}, []int64{-1, -2, -3, -4, -5, -6}}} {
						ids := []int64{1, 2, 3, 4, 5, 6}
						out, err := s.Run(context.Background(), map[string]*tensor.Tensor{"mask": tensor.FromSlice(x.mask, 2, 3),
							"ids": tensor.FromSlice(ids, 2, 3)})
						require.NoError(t, err)
						require.Equal(t, x.want, tensor.Of[int64](out["y"]))
						out, err = s.RunPacked(context.Background(), []int{0, 2, 6},
							map[string]*tensor.Tensor{"ids": tensor.FromSlice(ids)})
						require.NoError(t, err)
						require.Equal(t, []int64{-1, -2, -3, -4, -5, -6}, tensor.Of[int64](out["y"]))
					}
				}
				require.NoError(t, s.Close())
				require.NoError(t, p.Close())
			}
		})
	}
}

// TestOutputsOfOneTensor: two outputs cannot go to one device tensor, which is free again after the error.
func TestOutputsOfOneTensor(t *testing.T) {
	g := text(`(%0 "x": f32[n]) { %1 = neg(%0) %2 = abs(%0) return %1 as "a", %2 as "b" }`)
	p, err := Compile(context.Background(), g, g.Graph, options.Compile{Backend: "cpu"})
	require.NoError(t, err)
	defer p.Close()
	s, err := p.NewSession()
	require.NoError(t, err)
	defer s.Close()
	k, err := p.NewDeviceTensor(tensor.New(tensor.F32, 1))
	require.NoError(t, err)
	require.NoError(t, s.BindOutput("a", k))
	require.NoError(t, s.BindOutput("b", k))
	in := map[string]*tensor.Tensor{"x": tensor.FromSlice([]float32{-3})}
	_, err = s.Run(context.Background(), in)
	require.ErrorIs(t, err, ErrInput)
	require.EqualError(t, err, "two outputs are bound to one device tensor")
	require.NoError(t, s.BindOutput("a", nil))
	_, err = s.Run(context.Background(), in)
	require.NoError(t, err)
	x, err := k.Tensor()
	require.NoError(t, err)
	require.Equal(t, []float32{3}, tensor.Of[float32](x))
	require.NoError(t, k.Close())
}

// TestRowsKept: rows and padded texts of a program without padding go to a device tensor; rows are not taken from one.
func TestPackedToDeviceTensor(t *testing.T) {
	p, err := Compile(context.Background(), text(packs), text(packs).Graph, options.Compile{Backend: "cpu", Verify: true})
	require.NoError(t, err)
	defer p.Close()
	s, err := p.NewSession()
	require.NoError(t, err)
	defer s.Close()
	k, err := p.NewDeviceTensor(tensor.New(tensor.I64, 1))
	require.NoError(t, err)
	defer k.Close()
	require.NoError(t, s.BindOutput("y", k))
	holds := func(out map[string]*tensor.Tensor, err error, want []int64, shape ...int) {
		require.NoError(t, err)
		require.Empty(t, out)
		x, err := k.Tensor()
		require.NoError(t, err)
		require.Equal(t, tensor.Shape(shape), x.Shape())
		require.Equal(t, want, tensor.Of[int64](x))
	}
	out, err := s.RunPacked(context.Background(), []int{0, 2, 5},
		map[string]*tensor.Tensor{"ids": tensor.FromSlice([]int64{1, 2, 3, 4, 5})})
	holds(out, err, []int64{-1, -2, -3, -4, -5}, 5)
	out, err = s.Run(context.Background(), map[string]*tensor.Tensor{"mask": tensor.FromSlice([]int64{1, 0, 1, 1}, 2, 2),
		"ids": tensor.FromSlice([]int64{1, 2, 3, 4}, 2, 2)})
	holds(out, err, []int64{-1, 0, -3, -4}, 2, 2)
	require.NoError(t, s.BindInput("ids", k))
	_, err = s.RunPacked(context.Background(), []int{0, 2}, map[string]*tensor.Tensor{})
	require.ErrorIs(t, err, ErrInput)
	require.ErrorContains(t, err, `input "ids" is bound to a device tensor`)
	out, err = s.Run(context.Background(), map[string]*tensor.Tensor{"mask": tensor.FromSlice([]int64{1, 1, 1, 0}, 2, 2)})
	holds(out, err, []int64{1, 0, 3, 0}, 2, 2)
}
