package engine

import (
	"context"
	"errors"
	"fmt"
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
			})
		}
	}
}

// TestFits: a plan has sizes as far as every buffer and every scratch of a step that moves has the bytes, and what shares a buffer with an
// operand has as many as it.
func TestFits(t *testing.T) {
	p, err := Compile(context.Background(), text(""), text(`(%0 "past": f32[2,p,3], %1 "new": f32[2,1,3]) {
		%2: f32[2,p+1,3] = concat(%0, %1) {axis=1} %3: f32[2,p+1,3] = exp(%2) %4: f32[2,p+1,3] = relu(%3)
		%5, %6, %7 = onnx.DynamicQuantizeLinear(%4) %8: u8[3,p+1,2] = transpose(%5) {perm=[2,1,0]}
		return %5 as "y", %8 as "z", %6 as "scale" }`).Graph, options.Compile{Level: options.O0})
	require.NoError(t, err)
	defer p.Close()
	b, err := p.plan(p.main.segments[0].graph, ir.Binding{"p": 9}, nil, map[string]bool{"p": true})
	require.NoError(t, err)
	pl, fits := b.Planned, func() bool { return b.moving.fits(b.Planned, p.device.Target()) }
	require.True(t, fits())
	shares, scratch := 0, 0
	with := func(v *ir.Value, d tensor.DType) bool {
		defer func(was tensor.DType) { v.Type.DType = was }(v.Type.DType)
		v.Type.DType = d
		return fits()
	}
	require.False(t, with(pl.Graph.Inputs[0], tensor.F64), "an input")
	for _, i := range b.moving.steps {
		for _, v := range pl.Steps[i].Outputs {
			require.False(t, with(v, tensor.F64), "a result of %s", pl.Steps[i])
			if pl.Layout(v).Root != v {
				shares++
				require.False(t, with(v, tensor.Bool), "a part of the buffer of %s", pl.Steps[i])
			}
		}
		for _, s := range pl.Scratch[i] {
			scratch++
			pl.Plan.Slots[s].Size--
			require.False(t, fits(), "scratch of %s", pl.Steps[i])
			pl.Plan.Slots[s].Size++
		}
	}
	require.Positive(t, shares)
	require.Positive(t, scratch)
	for _, v := range pl.Graph.Outputs[:2] {
		was := pl.Layouts[v.ID]
		pl.Layouts[v.ID].Strides = []int{1, 1, 1}
		require.False(t, fits(), "an output that is not contiguous")
		pl.Layouts[v.ID] = was
	}
	require.True(t, fits())
}
