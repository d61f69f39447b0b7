package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/arena"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TestFollow: runs of growing lengths, poisoned and proved, return what the graph means, with as few plans as there are capacities.
func TestFollow(t *testing.T) {
	for _, c := range []struct {
		name, program string
		plans         int // of 99 lengths from 1 on: the first, and those up to 64 and 128
	}{
		{"concat", `(%0 "past": f32[2,p,3], %1 "new": f32[2,1,3]) { %2: f32[2,p+1,3] = concat(%0, %1) {axis=1} %3: f32[2,p+1,3] = exp(%2)
			%4: f32[2,3] = reduce_sum(%3) {axes=[1]} return %2 as "present", %4 as "y" }`, 3},
		{"two lengths", `(%0 "past": f32[2,p,3], %1 "new": f32[2,1,3], %2 "mask": f32[2,t]) { %3: f32[2,p+1,3] = concat(%0, %1) {axis=1}
			%4: f32[2,t,1] = reshape(%2) {shape=[2,t,1]}
			%5: f32[2,bcast(p+1,t),3] = mul(%3, %4) return %3 as "present", %5 as "y" }`, 3},
		{"positions", `(%0 "past": f32[2,p,3], %1 "new": f32[2,1,3]) { %2: f32[2,p+1,3] = concat(%0, %1) {axis=1}
			%5: i64[p+1] = range() {start=0, step=1, len=p+1, dtype=i64} %6: f32[p+1] = cast(%5) {to=f32}
			%7: f32[p+1,1] = reshape(%6) {shape=[p+1,1]} %8: f32[2,p+1,3] = add(%2, %7) %9: f32[2,p+1,3] = relu(%8)
			%10: f32[2,1,3] = slice(%9) {starts=[0,p,0], sizes=[2,1,3], steps=[1,1,1]} %11: f32[2,1,3] = exp(%10)
			return %2 as "present", %11 as "y" }`, 3},
		{"turned", `(%0 "past": f32[2,p,3], %1 "new": f32[2,1,3]) { %2: f32[2,p+1,3] = concat(%0, %1) {axis=1}
			%3: f32[3,p+1,2] = transpose(%2) {perm=[2,1,0]} %4: f32[3,2*p+2] = reshape(%3) {shape=[3,2*p+2]} %5: f32[3,2*p+2] = exp(%4)
			return %2 as "present", %5 as "y" }`, 3},
		// A table of 101 positions bounds the capacity: beyond 64 the room is halved until it fits.
		{"a table", `(%0 "past": f32[2,p,3], %1 "new": f32[2,1,3], %7 "table": f32[101]) { %2: f32[2,p+1,3] = concat(%0, %1) {axis=1}
			%5: f32[p+1] = slice(%7) {starts=[0], sizes=[p+1], steps=[1]} %6: f32[p+1,1] = reshape(%5) {shape=[p+1,1]}
			%8: f32[2,p+1,3] = add(%2, %6) return %2 as "present", %8 as "y" }`, 9},
		{"backwards", `(%0 "past": f32[2,p,3], %1 "new": f32[2,1,3]) { %2: f32[2,p+1,3] = concat(%0, %1) {axis=1}
			%3: f32[2,p+1,3] = slice(%2) {starts=[0,p,0], sizes=[2,p+1,3], steps=[1,-1,1]}
			%5: i64[p+1] = range() {start=0, step=1, len=p+1, dtype=i64} %6: i64[p+1,1] = reshape(%5) {shape=[p+1,1]}
			%7: f32[p+1,1] = cast(%6) {to=f32} %8: f32[2,p+1,3] = mul(%3, %7) return %2 as "present", %8 as "y" }`, 3},
		{"no cache", `(%1 "new": f32[2,n,3]) { %2: f32[2,n,3] = exp(%1) return %2 as "y" }`, 99},
	} {
		for i := range 4 {
			level, keeps := []options.Level{options.O0, options.O2}[i%2], i > 1
			if keeps && c.name == "no cache" {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s/%v", c.name, level, keeps), func(t *testing.T) {
				p, err := Compile(context.Background(), text(c.program), text(c.program).Graph, options.Compile{Level: level, Verify: true})
				require.NoError(t, err)
				defer p.Close()
				s, err := p.NewSession()
				require.NoError(t, err)
				defer s.Close()
				s.Memories()[0].(interface{ Poison(byte) }).Poison(arena.NaNFill)
				g, err := text(c.program).Graph()
				require.NoError(t, err)
				var cache *DeviceTensor
				if keeps {
					cache, err = p.NewGrowingTensor(numbers(5, 2, 1, 3), 1, 150)
					require.NoError(t, err)
					defer cache.Close()
					require.NoError(t, errors.Join(s.BindInput("past", cache), s.BindOutput("present", cache)))
				}
				past := 0
				for run := 1; run <= 140; run++ {
					if past++; run == 100 {
						past = 7 // the text begins again
						if keeps {
							require.NoError(t, cache.Truncate(past))
						}
					}
					in := map[string]*tensor.Tensor{}
					var all []*tensor.Tensor
					for i, v := range g.Inputs {
						size := map[string]int{"past": past, "mask": past + 1, "new": past}[v.Name]
						in[v.Name] = numbers(3*run+i, sized(v, size)...)
						if keeps && v.Name == "past" {
							in["past"], err = cache.Tensor()
							require.NoError(t, err)
							in["past"] = in["past"].Clone()
						}
						all = append(all, in[v.Name])
					}
					if keeps {
						delete(in, "past")
					}
					want, err := ir.Interpret(g, all)
					require.NoError(t, err)
					got, err := s.Run(context.Background(), in)
					require.NoError(t, err)
					if keeps {
						got["present"], err = cache.Tensor()
						require.NoError(t, err)
					}
					for i, name := range g.OutputNames {
						require.Equal(t, want[i].Shape(), got[name].Shape(), "run %d, %s", run, name)
						for k := range want[i].Len() {
							require.InDelta(t, want[i].Float64(k), got[name].Float64(k), 1e-5*(1+want[i].Float64(k)),
								"run %d, element %d of %s", run, k, name)
						}
					}
				}
				require.LessOrEqual(t, p.CacheStats().Planned, c.plans)
				require.Zero(t, p.CacheStats().Rejected)
			})
		}
	}
}

// TestBoxes: runs at random sizes, poisoned, return what the graph means, from few plans. It also runs without the proof, since a plan
// that the proof rejects is made again.
func TestBoxes(t *testing.T) {
	for _, c := range []struct {
		name, program string
		plans         int // at most
	}{
		{"in place, if sizes are equal", `(%0 "x": f32[n,4], %1 "y": f32[m,1,4]) { %2: f32[n,4] = exp(%0) %3: f32[m,n,4] = add(%2, %1)
			%4: f32[m,n,4] = relu(%3) %5: f32[m,4] = reduce_sum(%4) {axes=[1]} return %5 as "a", %4 as "b" }`, 4},
		{"views that need copies", `(%0 "x": f32[n,m,6]) { %1: f32[n,m,6] = tanh(%0) %2: f32[m,n,6] = transpose(%1) {perm=[1,0,2]}
			%3: f32[m,6*n] = reshape(%2) {shape=[m,6*n]} %4: f32[m,6*n] = softmax(%3) {axis=1} return %4 as "a", %1 as "b" }`, 4},
		{"folded", `(%0 "x": f32[n,m]) { %1: i64[m] = range() {start=0, step=1, len=m, dtype=i64} %2: f32[m] = cast(%1) {to=f32}
			%3: f32[m] = sqrt(%2) %4: f32[n,m] = add(%0, %3) %5: f32[n*m] = reshape(%4) {shape=[n*m]} %6: f32[n*m] = exp(%5)
			return %5 as "a", %6 as "b" }`, 4},
		{"products of sizes", `(%0 "x": f32[n,m,8]) { %1: f32[n,m,8] = sin(%0) %2: f32[n,8,m] = transpose(%1) {perm=[0,2,1]}
			%3: f32[n,m,m] = matmul(%1, %2) %4: f32[n,m,m] = softmax(%3) {axis=2} %5: f32[n,m,8] = matmul(%4, %1)
			%6: f32[n,m,8] = add(%5, %1) %7: f32[n,m,8] = relu(%6) return %7 as "a" }`, 8},
		{"on the host", `(%0 "x": f32[n,3,3], %4 "y": f32[n,m]) { %1: f32[n,3,3] = tanh(%0) %2: f32[n] = onnx.Det(%1) %3: f32[n] = exp(%2)
			%5: f32[n,m] = relu(%4) return %3 as "a", %5 as "b" }`, 4},
		{"layers", `(%0 "x": f32[n,m,3]) { const %1: f32[3,3] = [1,2,3,4,5,6,7,8,9] const %2: f32[3] = [0.5,1,2] const %3: f32[3] = [1,2,3]
			const %11: f32[3,3] = [-1,2,-3,4,-5,6,-7,8,-9] const %12: f32[3] = [2,1,0.5] const %13: f32[3] = [3,2,1]
			%4 = matmul(%0, %1) %5 = layernorm(%4, %2, %3) {axes=1} %6 = matmul(%5, %11) %7 = layernorm(%6, %12, %13) {axes=1}
			%8 = matmul(%7, %1) %9 = layernorm(%8, %12, %3) {axes=1} %10 = reshape(%9) {shape=[n*m,3]} return %10 as "a" }`, 2},
		{"parts of a concat", `(%0 "x": f32[n,m,3]) { const %1: f32[3,2] = [1,2,3,4,5,6] const %2: f32[3,5] = data
			const %3: f32[10,4] = data %4 = matmul(%0, %1) {act=relu} %5 = matmul(%0, %2)
			%6 = tanh(%4) %7 = concat(%4, %0, %5) {axis=2} %8 = matmul(%7, %3)
			%9 = matmul(%0, %1) {act=tanh} %10 = concat(%4, %9) {axis=1} return %8 as "a", %6 as "b", %10 as "c" }`, 5},
		{"a result over a slice whose position moves", `(%0 "x": f32[1,m,8]) { const %1: f32[8,8] = data %2 = cumsum(%0) {axis=1}
			%3 = slice(%2) {starts=[0,m-1,0], sizes=[1,1,8], steps=[1,1,1]} %4 = reshape(%3) {shape=[1,8]}
			%5 = sin(%4) %6 = matmul(%5, %1, _, %4) %7 = sin(%6) return %7 as "a" }`, 5},
		{"queries whose position moves", `(%0 "x": f32[n,m,4,8]) { %1 = tanh(%0)
			%2 = slice(%1) {starts=[0,m-1,0,0], sizes=[n,1,4,8], steps=[1,1,1,1]} %3 = attention(%2, %0, %0) {scale=1}
			%4 = sin(%3) return %4 as "a" }`, 8},
		{"alike by chance", `(%0 "x": f32[n,m], %1 "y": f32[m,4], %2 "z": f32[n,n], %3 "u": f32[n,4]) {
			%4 = matmul(%0, %1) %5 = matmul(%2, %3) %6 = tanh(%4) %7 = tanh(%5) return %6 as "a", %7 as "b" }`, 3},
	} {
		for i := range 4 {
			level, verify := []options.Level{options.O0, options.O2}[i%2], i > 1
			t.Run(fmt.Sprintf("%s/%s/verify=%v", c.name, level, verify), func(t *testing.T) {
				p, err := Compile(context.Background(), text(c.program), text(c.program).Graph,
					options.Compile{Level: level, Verify: verify})
				require.NoError(t, err)
				defer p.Close()
				s, err := p.NewSession()
				require.NoError(t, err)
				defer s.Close()
				s.Memories()[0].(interface{ Poison(byte) }).Poison(arena.NaNFill)
				g, err := text(c.program).Graph()
				require.NoError(t, err)
				rnd, followed := rand.New(rand.NewPCG(1, 39)), 0
				for run := range 200 {
					sizes := ir.Binding{"n": []int{0, 1, 2, 5, 9}[rnd.IntN(5)], "m": []int{1, 2, 3, 5, 40}[rnd.IntN(5)]}
					if run == 0 {
						sizes = ir.Binding{"n": 5, "m": 5}
					}
					in, all := map[string]*tensor.Tensor{}, []*tensor.Tensor{}
					for i, v := range g.Inputs {
						bound, err := ir.MapType(v.Type, sizes.Number)
						require.NoError(t, err)
						in[v.Name] = numbers(3*run+i, bound.Sizes()...)
						all = append(all, in[v.Name])
					}
					want, err := ir.Interpret(g, all)
					require.NoError(t, err)
					got, err := s.Run(context.Background(), in)
					require.NoError(t, err)
					for i, name := range g.OutputNames {
						require.Equal(t, want[i].Shape(), got[name].Shape(), "%v", sizes)
						for k := range want[i].Len() {
							require.InDelta(t, want[i].Float64(k), got[name].Float64(k), 1e-4*(1+math.Abs(want[i].Float64(k))), "%v", sizes)
						}
					}
					part := &s.frames[p.main].parts[0]
					if len(part.bound.box.bindings) > 1 {
						followed++
					}
					if run%10 == 0 { // a binding that was resized states what one of these sizes alone does
						alone, err := p.plan(p.main.stages[0].graph, sizes, nil, nil)
						require.NoError(t, err)
						b := part.bound
						require.Equal(t, alone.results, b.results, "%v", sizes)
						require.Equal(t, [4]int64{alone.flops, alone.host, alone.Resident.File, alone.Resident.Inputs},
							[4]int64{b.flops, b.host, b.Resident.File, b.Resident.Inputs}, "%v", sizes)
						require.Equal(t, b.arena, b.Resident.Arena)
					}
				}
				require.LessOrEqual(t, p.CacheStats().Planned, c.plans)
				require.Zero(t, p.CacheStats().Rejected)
				require.Greater(t, followed, 100)
			})
		}
	}
}

// TestBoxesHaveTheirOrders: where another order of steps needs less at other sizes, these get a separate box.
func TestBoxesHaveTheirOrders(t *testing.T) {
	src := text(`(%0 "x": f32[n,1], %1 "y": f32[m,1], %2 "w": f32[1,64]) {
		%3: f32[n,64] = add(%0, %2) %4: f32[n,64] = softmax(%3) {axis=1} %5: f32[n,32,2] = reshape(%4) {shape=[n,32,2]}
		%6: f32[n,32] = reduce_sum(%5) {axes=[2]}
		%7: f32[m,64] = add(%1, %2) %8: f32[m,64] = softmax(%7) {axis=1} %9: f32[m,32,2] = reshape(%8) {shape=[m,32,2]}
		%10: f32[m,32] = reduce_sum(%9) {axes=[2]}
		%11: f32[n+m,32] = concat(%6, %10) {axis=0} return %11 as "z" }`)
	p, err := Compile(context.Background(), src, src.Graph, options.Compile{Level: options.O2, Verify: true})
	require.NoError(t, err)
	defer p.Close()
	s, err := p.NewSession()
	require.NoError(t, err)
	defer s.Close()
	for run := range 40 {
		n, m := 100+run*7%90, 100+run*11%90
		in := map[string]*tensor.Tensor{"x": numbers(1, n, 1), "y": numbers(2, m, 1), "w": numbers(3, 1, 64)}
		_, err := s.Run(context.Background(), in)
		require.NoError(t, err)
		alone, err := p.Bind(map[string]int{"n": n, "m": m})
		require.NoError(t, err)
		own := float64(alone.Planned.Plan.Committed)
		require.LessOrEqual(t, float64(s.ArenaBytes()), max(1.01*own, own+4096), "n=%d m=%d", n, m)
	}
	require.LessOrEqual(t, p.CacheStats().Planned, 4+40, "and 40 by Bind")
}

// TestSmallerViewOfADeviceTensor: an output that is a whole buffer at the sizes of the plan, and a part of it at others, does not make its
// device tensor the buffer: the tensor has room for the output alone.
func TestSmallerViewOfADeviceTensor(t *testing.T) {
	src := text(`(%0 "x": f32[n], %1 "z": f32[k]) { %2: f32[n] = exp(%0)
		%3: f32[k] = slice(%2) {starts=[0], sizes=[k], steps=[1]} %4: f32[k] = mul(%3, %1) return %3 as "a", %4 as "b" }`)
	p, err := Compile(context.Background(), src, src.Graph, options.Compile{Level: options.O2})
	require.NoError(t, err)
	defer p.Close()
	s, err := p.NewSession()
	require.NoError(t, err)
	defer s.Close()
	kept, err := p.NewDeviceTensor(numbers(1, 4))
	require.NoError(t, err)
	defer kept.Close()
	require.NoError(t, s.BindOutput("a", kept))
	for _, n := range []int{4, 4000, 4} {
		_, err := s.Run(context.Background(), map[string]*tensor.Tensor{"x": numbers(1, n), "z": numbers(2, 4)})
		require.NoError(t, err)
		require.Equal(t, n != 4, s.frames[p.main].parts[0].to[0] == nil, "%d of %d elements are in the arena", 4, n)
	}
}
