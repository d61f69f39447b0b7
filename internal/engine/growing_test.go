package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/arena"
	_ "github.com/rlxc/rlxc/backend/cpu"
	"github.com/rlxc/rlxc/internal/artifact"
	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A text is a Source of a graph's text.
type text string

func (s text) Name() string               { return "text" }
func (s text) Graph() (*ir.Graph, error)  { return ir.Parse(`graph "text" ` + string(s)) }
func (text) Compiled() *artifact.Info     { return nil }
func (text) Evict()                       {}
func (text) EvictPart([]byte) (part bool) { return false }
func (text) Stamps() []files.Stamp        { return nil }
func (text) Retain()                      {}
func (text) Close() error                 { return nil }

// numbers counts from a number.
func numbers(from int, shape ...int) *tensor.Tensor {
	x := tensor.New(tensor.F32, shape...)
	for i := range x.Len() {
		x.SetFloat64(i, float64(from+i)/64)
	}
	return x
}

// TestBindCache: a cache grows along whatever axis the program makes longer, the first one too.
func TestBindCache(t *testing.T) {
	for axis, program := range []string{
		`(%0 "past": f32[p,3], %1 "new": f32[1,3]) { %2: f32[p+1,3] = concat(%0, %1) {axis=0} %3: f32[3] = reduce_sum(%2) {axes=[0]}`,
		`(%0 "past": f32[3,p], %1 "new": f32[3,1]) { %2: f32[3,p+1] = concat(%0, %1) {axis=1} %3: f32[3] = reduce_sum(%2) {axes=[1]}`,
	} {
		source := text(program + ` return %2 as "present", %3 as "y" }`)
		p, err := Compile(context.Background(), source, source.Graph, options.Compile{Verify: true})
		require.NoError(t, err)
		defer p.Close()
		s, err := p.NewSession()
		require.NoError(t, err)
		defer s.Close()
		cache, err := s.BindCache(1, 4)
		require.NoError(t, err)
		defer cache.Close()
		one := numbers(64, []int{1, 3, 1}[axis:][:2]...)
		for _, position := range []int{1, 2, 3, 4, 2, 3} {
			if position == 2 {
				require.NoError(t, cache.Truncate(1))
			}
			out, err := s.Run(context.Background(), map[string]*tensor.Tensor{"new": one})
			require.NoError(t, err, "axis %d, position %d", axis, position)
			for i := range 3 {
				require.InDelta(t, float64(position)*one.Float64(i), out["y"].Float64(i), 1e-5, "axis %d, position %d", axis, position)
			}
		}
	}
}

// TestGrow: what a cache holds after each run, poisoned and proved, is what the run returns without a cache; and it is where it lay
// if the output is the input with more after it, and the only output that goes there.
func TestGrow(t *testing.T) {
	type carried map[string]string // device tensors by input or output
	usual := carried{"past": "a", "present": "a"}
	for _, c := range []struct {
		name, program string
		axis          int
		carried       carried
		inPlace       bool
	}{
		{"axis 0", `(%0 "past": f32[p,2,3], %1 "new": f32[n,2,3]) { %2: f32[p+n,2,3] = concat(%0, %1) {axis=0} %3: f32[p+n,2,3] = exp(%2)
			return %2 as "present", %3 as "y" }`, 0, usual, true},
		{"axis 1", `(%0 "past": f32[2,p,3], %1 "new": f32[2,n,3]) { %2: f32[2,p+n,3] = concat(%0, %1) {axis=1} %3: f32[2,p+n,3] = exp(%2)
			return %2 as "present", %3 as "y" }`, 1, usual, true},
		{"axis 2", `(%0 "past": f32[2,3,p], %1 "new": f32[2,3,n]) { %2: f32[2,3,p+n] = concat(%0, %1) {axis=2} %3: f32[2,3,p+n] = exp(%2)
			return %2 as "present", %3 as "y" }`, 2, usual, true},
		{"one head", `(%0 "past": f32[1,1,p,3], %1 "new": f32[1,1,n,3]) { %2: f32[1,1,p+n,3] = concat(%0, %1) {axis=2}
			return %2 as "present", %2 as "y" }`, 2, usual, false},
		{"append", `(%0 "past": f32[1,2,p,3], %1 "new": f32[1,2,n,3]) { %9: i64[1] = dims() {dims=[p+n], dtype=i64}
			%2: f32[1,2,p+n,3] = append(%1, %9, %0) {axis=2, size=p+n} %3: f32[1,2,p+n,3] = exp(%2)
			return %2 as "present", %3 as "y" }`, 2, usual, true},
		{"append to a full one", `(%0 "past": f32[1,2,p,3], %1 "new": f32[1,2,n,3]) { const %9: i64[1] = [2]
			%2: f32[1,2,p+n,3] = append(%1, %9, %0) {axis=2, size=p+n, keep=true} %3: f32[1,2,p+n,3] = exp(%2)
			return %2 as "present", %3 as "y" }`, 2, usual, true},
		{"append several", `(%0 "past": f32[2,p,3], %1 "new": f32[2,n,3]) { const %9: i64[2] = [1, 3]
			%2: f32[2,p+n,3] = append(%1, %9, %0) {axis=1, size=p+n} %3: f32[2,p+n,3] = exp(%2)
			return %2 as "present", %3 as "y" }`, 1, usual, true},
		{"append, and the past", `(%0 "past": f32[2,p,3], %1 "new": f32[2,n,3]) { const %9: i64[2] = [1, 3]
			%2: f32[2,p+n,3] = append(%1, %9, %0) {axis=1, size=p+n} %3: f32[2,p,3] = exp(%0)
			return %2 as "present", %3 as "y" }`, 1, usual, false},
		{"append, and the past returned", `(%0 "past": f32[2,p,3], %1 "new": f32[2,n,3]) { const %9: i64[2] = [1, 3]
			%2: f32[2,p+n,3] = append(%1, %9, %0) {axis=1, size=p+n} return %2 as "present", %0 as "y" }`, 1, usual, false},
		{"append to nothing", `(%1 "new": f32[2,n,3]) { const %9: i64[2] = [1, 1] %2: f32[2,n+1,3] = append(%1, %9) {axis=1, size=n+1}
			return %2 as "present" }`, 1, carried{"present": "a"}, false},
		{"the past twice", `(%0 "past": f32[2,p,3], %1 "new": f32[2,n,3]) { %2: f32[2,2*p+n,3] = concat(%0, %1, %0) {axis=1}
			%3: f32[2,p,3] = exp(%0) return %2 as "present", %3 as "y" }`, 1, usual, true},
		{"in front", `(%0 "past": f32[2,p,3], %1 "new": f32[2,n,3]) { %2: f32[2,p+n,3] = concat(%1, %0) {axis=1}
			return %2 as "present" }`, 1, usual, false},
		{"another axis", `(%0 "past": f32[2,p,3], %1 "new": f32[2,n,3]) { %2: f32[2,p+n,3] = concat(%0, %1) {axis=1}
			return %2 as "present" }`, 0, usual, false},
		{"two outputs", `(%0 "past": f32[2,p,3], %1 "new": f32[2,n,3]) { %2: f32[2,p+n,3] = concat(%0, %1) {axis=1}
			return %2 as "present", %2 as "again" }`, 1, carried{"past": "a", "present": "a", "again": "b"}, true},
		{"no sum", `(%0 "past": f32[2,p,3], %1 "new": f32[2,n,3]) { %2: f32[2,p,3] = exp(%0) %3: f32[2,n,3] = exp(%1)
			return %2 as "present", %3 as "y" }`, 1, usual, false},
		{"the input", `(%0 "past": f32[2,p,3], %1 "new": f32[2,n,3]) { %3: f32[2,n,3] = exp(%1) return %0 as "present", %3 as "y" }`, 1,
			usual, false},
		{"in stages", `(%0 "past": f32[2,p,3], %1 "new": f32[2,n,3]) { %2: f32[2,p+n,3] = concat(%0, %1) {axis=1}
			%3: i64[3,u] = onnx.NonZero(%2) return %2 as "present", %3 as "y" }`, 1, usual, true},
		{"in the second stage", `(%0 "past": f32[2,p,3], %1 "new": f32[2,n,3]) { %4: i64[3,u] = onnx.NonZero(%1)
			%5: f32[3,u] = cast(%4) {to=f32} %6: f32[] = reduce_min(%5) {axes=[0,1]} %7: f32[2,n,3] = add(%1, %6)
			%2: f32[2,p+n,3] = concat(%0, %7) {axis=1} %3: f32[2,p+n,3] = exp(%2) return %2 as "present", %3 as "y" }`, 1, usual, true},
		{"append in the second stage", `(%0 "past": f32[2,p,3], %1 "new": f32[2,n,3]) { const %9: i64[2] = [1, 3]
			%4: i64[3,u] = onnx.NonZero(%1) %5: f32[3,u] = cast(%4) {to=f32} %6: f32[] = reduce_min(%5) {axes=[0,1]}
			%7: f32[2,n,3] = add(%1, %6)
			%2: f32[2,p+n,3] = append(%7, %9, %0) {axis=1, size=p+n} %3: f32[2,p+n,3] = exp(%2)
			return %2 as "present", %3 as "y" }`, 1, usual, true},
		{"append, and the past in another stage", `(%0 "past": f32[2,p,3], %1 "new": f32[2,n,3]) { const %9: i64[2] = [1, 3]
			%2: f32[2,p+n,3] = append(%1, %9, %0) {axis=1, size=p+n} %4: i64[3,u] = onnx.NonZero(%1) %5: f32[3,u] = cast(%4) {to=f32}
			%6: f32[] = reduce_min(%5) {axes=[0,1]} %3: f32[2,p,3] = add(%0, %6) return %2 as "present", %3 as "y" }`, 1, usual, false},
		{"no past", `(%1 "new": f32[2,n,3]) { %2: f32[2,n,3] = exp(%1) return %2 as "present" }`, 1, carried{"present": "a"}, false},
		{"to another", `(%0 "past": f32[2,p,3], %1 "new": f32[2,n,3]) { %2: f32[2,p+n,3] = concat(%0, %1) {axis=1}
			return %2 as "present" }`, 1, carried{"past": "a", "present": "b"}, false},
		{"crossed", `(%0 "past": f32[2,p,3], %1 "past 2": f32[2,p,3], %2 "new": f32[2,n,3]) { %3: f32[2,p+n,3] = concat(%0, %2) {axis=1}
			%4: f32[2,p+n,3] = concat(%1, %2) {axis=1} return %3 as "present", %4 as "present 2" }`, 1,
			carried{"past": "a", "present": "b", "past 2": "b", "present 2": "a"}, false},
		{"axis 205", many(205), 205, usual, true},
		{"axis 260", many(260), 260, usual, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := Compile(context.Background(), text(c.program), text(c.program).Graph, options.Compile{Verify: true})
			require.NoError(t, err)
			defer p.Close()
			var sessions [2]*Session // the second one with caches
			for i := range sessions {
				sessions[i], err = p.NewSession()
				require.NoError(t, err)
				defer sessions[i].Close()
				sessions[i].Memories()[0].(interface{ Poison(byte) }).Poison(arena.NaNFill)
			}
			ordinary := map[string]*tensor.Tensor{} // what the first session takes, run by run
			bound := map[string]*DeviceTensor{}
			for _, v := range p.graph.Inputs {
				if v.Name != "new" {
					ordinary[v.Name] = numbers(7*len(ordinary), sized(v, 2)...)
				}
			}
			for input, name := range c.carried {
				if first := ordinary[input]; first != nil {
					bound[name], err = p.NewGrowingTensor(first, c.axis, 100)
					require.NoError(t, err)
					defer bound[name].Close()
					require.NoError(t, sessions[1].BindInput(input, bound[name]))
				}
			}
			for input, name := range c.carried {
				if bound[name] == nil {
					bound[name], err = p.NewGrowingTensor(tensor.New(tensor.F32, 1, 1, 1), c.axis, 100)
					require.NoError(t, err)
					defer bound[name].Close()
				}
				if ordinary[input] == nil {
					require.NoError(t, sessions[1].BindOutput(input, bound[name]))
				}
			}
			for run := range 3 {
				for _, v := range p.graph.Inputs {
					if v.Name == "new" {
						ordinary["new"] = numbers(100*run, sized(v, 1+run)...)
					}
				}
				want, err := sessions[0].Run(context.Background(), ordinary)
				require.NoError(t, err)
				before := map[string]any{}
				for name, k := range bound {
					before[name] = k.now
				}
				got, err := sessions[1].Run(context.Background(), map[string]*tensor.Tensor{"new": ordinary["new"]})
				require.NoError(t, err)
				for out, w := range want {
					if name := c.carried[out]; name == "" {
						require.Equal(t, w.Bytes(), got[out].Bytes(), out)
						continue
					}
					k := bound[c.carried[out]]
					x, err := k.Tensor()
					require.NoError(t, err)
					require.Equal(t, w.Shape(), x.Shape())
					require.Equal(t, w.Bytes(), x.Bytes(), out)
					if out == "present" {
						require.Equal(t, c.inPlace, k.now == before[c.carried[out]], "in place")
						require.Equal(t, c.inPlace, k.next == nil)
					}
				}
				for input, name := range c.carried { // what the next run reads
					if ordinary[input] != nil {
						ordinary[input], err = bound[name].Tensor()
						require.NoError(t, err)
					}
				}
			}
		})
	}
}

// many is a program whose cache grows after that many axes.
func many(axes int) string {
	ones := "2," + strings.Repeat("1,", axes-1)
	return fmt.Sprintf(`(%%0 "past": f32[%[1]sp,2], %%1 "new": f32[%[1]sn,2]) { %%2: f32[%[1]sp+n,2] = concat(%%0,
	%%1) {axis=%[2]d} %%3: f32[%[1]sp+n,2] = exp(%%2) return %%2 as "present", %%3 as "y" }`, ones, axes)
}

// sized is the shape of an input of n positions.
func sized(v *ir.Value, n int) (shape tensor.Shape) {
	for _, d := range v.Type.Shape {
		size, ok := d.Const()
		if !ok {
			size = n
		}
		shape = append(shape, size)
	}
	return shape
}

// TestGrowErrors: what a cache cannot take, and what is left of it then.
func TestGrowErrors(t *testing.T) {
	const program = text(`(%0 "past": f32[2,p,3], %1 "new": f32[2,n,3]) { %2: f32[2,p+n,3] = concat(%0, %1) {axis=1}
	return %2 as "present" }`)
	p, err := Compile(context.Background(), program, program.Graph, options.Compile{MemoryLimit: 1 << 30})
	require.NoError(t, err)
	defer p.Close()
	s, err := p.NewSession()
	require.NoError(t, err)
	defer s.Close()
	for _, c := range []struct {
		x          *tensor.Tensor
		axis, room int
		err        string
	}{
		{nil, 0, 1, "only a tensor of numbers can be a device tensor"},
		{numbers(0, 2, 3), 2, 5, "a tensor of shape [2,3] cannot grow on axis 2"},
		{numbers(0, 2, 3), -1, 5, "a tensor of shape [2,3] cannot grow on axis -1"},
		{numbers(0, 2, 3), 1, 2, "a growing tensor has a capacity of 2 on axis 1, and 3 are needed: make one with more"},
		{numbers(0, 2, 3), 1, 0, "a growing tensor needs elements of whole bytes and a capacity of 1 or more"},
		{tensor.New(tensor.I4, 2, 3), 1, 9, "a growing tensor needs elements of whole bytes and a capacity of 1 or more"},
	} {
		_, err := p.NewGrowingTensor(c.x, c.axis, c.room)
		require.EqualError(t, err, c.err)
		require.ErrorIs(t, err, ErrInput)
	}
	// whose bytes are more than there are, or than an int64 holds
	for _, room := range []int{1 << 40, 1 << 58, 1 << 59, 1 << 60, 1 << 61, 1 << 62, 1<<63 - 1} {
		_, err := p.NewGrowingTensor(numbers(0, 2, 2, 4), 1, room)
		require.ErrorIs(t, err, ErrMemory, "room for %d", room)
		require.ErrorContains(t, err, "a device tensor")
	}
	first := numbers(0, 2, 2, 3)
	k, err := p.NewGrowingTensor(first, 1, 4)
	require.NoError(t, err)
	defer k.Close()
	require.NoError(t, s.BindInput("past", k))
	require.NoError(t, s.BindOutput("present", k))
	_, err = s.Run(context.Background(), map[string]*tensor.Tensor{"new": numbers(0, 2, 3, 3)})
	require.EqualError(t, err, `output "present": a growing tensor has a capacity of 4 on axis 1, and 5 are needed: make one with more`)
	require.ErrorIs(t, err, ErrInput)
	x, err := k.Tensor()
	require.NoError(t, err)
	require.Equal(t, first.Bytes(), x.Bytes())

	require.EqualError(t, k.Truncate(3), "the device tensor has size 2 on axis 1 and cannot be truncated to 3")
	require.EqualError(t, k.Truncate(-1), "the device tensor has size 2 on axis 1 and cannot be truncated to -1")
	require.NoError(t, k.Truncate(1))
	x, err = k.Tensor()
	require.NoError(t, err)
	require.Equal(t, []float32{0, 1. / 64, 2. / 64, 6. / 64, 7. / 64, 8. / 64}, tensor.Of[float32](x))
	part := make([]byte, 8)
	n, err := k.ReadAt(part, 16)
	require.NoError(t, err)
	require.Equal(t, 8, n)
	require.Equal(t, x.Bytes()[16:], part)

	plain, err := p.NewDeviceTensor(first)
	require.NoError(t, err)
	defer plain.Close()
	require.EqualError(t, plain.Truncate(0), "the device tensor does not grow: Program.NewGrowingTensor makes one that does")

	gone, err := p.NewGrowingTensor(first, 1, 4)
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	for name, f := range map[string]func() error{
		"Tensor":   func() error { _, err := gone.Tensor(); return err },
		"Type":     func() error { _, _, err := gone.Type(); return err },
		"ReadAt":   func() error { _, err := gone.ReadAt(part, 0); return err },
		"WriteAt":  func() error { _, err := gone.WriteAt(part, 0); return err },
		"Truncate": func() error { return gone.Truncate(1) },
		"Close":    gone.Close,
	} {
		require.ErrorIs(t, f(), ErrClosed, name)
	}
}
