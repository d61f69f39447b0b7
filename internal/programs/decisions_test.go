package programs_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/artifact"
	"github.com/rlxc/rlxc/internal/engine"
	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/internal/rewrite"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A text is a program as the IR prints it.
type text string

func (s text) Name() string               { return "text" }
func (s text) Graph() (*ir.Graph, error)  { return ir.Parse(`graph "text" ` + string(s)) }
func (text) Compiled() *artifact.Info     { return nil }
func (text) Evict()                       {}
func (text) EvictPart([]byte) (part bool) { return false }
func (text) Stamps() []files.Stamp        { return nil }
func (text) Retain()                      {}
func (text) Close() error                 { return nil }

// numbers is the content of a constant of that many elements, none of them like its neighbours.
func numbers(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(float32((5*i+3)%17-8) / 8)
	}
	return "[" + strings.Join(list, ",") + "]"
}

// TestDecisionsBySize holds, for each kind of decision of a plan, that a program for which it is made otherwise at two sizes returns the
// same in a session that has run at the other size before, in both orders.
func TestDecisionsBySize(t *testing.T) {
	for _, c := range []struct {
		name, program string // the name is the kind of decision, and what is special about it
		sizes         [2]ir.Binding
	}{
		{"over an operand", `(%0 "x": f32[n,4], %1 "y": f32[m,1,4]) { %2 = exp(%0) %3 = add(%2, %1) %4 = softmax(%3) {axis=2}
			return %4 as "z" }`, [2]ir.Binding{{"n": 5, "m": 1}, {"n": 5, "m": 3}}},
		{"over an operand, which is the whole buffer by chance", `(%0 "x": f32[n,4]) { %1 = cumsum(%0) {axis=0}
			%2 = slice(%1) {starts=[0,0], sizes=[1,4], steps=[1,1]} %3 = tanh(%2) return %3 as "z" }`,
			[2]ir.Binding{{"n": 1}, {"n": 6}}},
		{"over a slice, which has no elements by chance", `(%0 "x": f32[n,m,6,8]) { %1 = cumsum(%0) {axis=1}
			%2 = slice(%1) {starts=[0,0,0,0], sizes=[n,m,2,8], steps=[1,1,1,1]}
			%3 = slice(%1) {starts=[0,0,2,0], sizes=[n,m,2,8], steps=[1,1,1,1]}
			%4 = slice(%1) {starts=[0,0,4,0], sizes=[n,m,2,8], steps=[1,1,1,1]} %5 = attention(%2, %3, %4) {scale=1}
			%6 = tanh(%5) return %6 as "z" }`, [2]ir.Binding{{"n": 2, "m": 3}, {"n": 0, "m": 3}}},
		{"a copy for strides", `(%0 "x": f32[n,m,6]) { %1 = tanh(%0) %2 = transpose(%1) {perm=[1,0,2]} %3 = reshape(%2) {shape=[m,6*n]}
			%4 = softmax(%3) {axis=1} return %4 as "z" }`, [2]ir.Binding{{"n": 1, "m": 4}, {"n": 3, "m": 4}}},
		{"a slice inside", `(%0 "x": f32[n,m,6]) { %1 = tanh(%0) %2 = slice(%1) {starts=[0,m-1,0], sizes=[n,1,6], steps=[1,1,1]}
			%3 = softmax(%2) {axis=2} return %3 as "z" }`, [2]ir.Binding{{"n": 2, "m": 3}, {"n": 2, "m": 8}}},
		{"over a slice", `(%0 "x": f32[n,m,4]) { const %9: f32[4,4] = [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16] %1 = cumsum(%0) {axis=1}
			%2 = slice(%1) {starts=[0,m-1,0], sizes=[n,1,4], steps=[1,1,1]} %3 = tanh(%2) %4 = reshape(%3) {shape=[n,4]}
			%5 = matmul(%4, %9) %6 = reshape(%2) {shape=[n,4]} %7 = add(%5, %6) %8 = tanh(%7) return %8 as "z" }`,
			[2]ir.Binding{{"n": 1, "m": 3}, {"n": 2, "m": 5}}},
		{"a part of a Concat", `(%0 "x": f32[n,4], %1 "y": f32[m,64]) { const %20: f32[4,2] = [1,2,3,4,5,6,7,8]
			const %21: f32[4,32] = ` + numbers(128) + `
			%2 = matmul(%0, %20) %30 = tanh(%2) %3 = reduce_sum(%30) {axes=[0,1]} %4 = add(%1, %3)
			%5 = softmax(%4) {axis=1} %6 = reduce_max(%5) {axes=[0,1]}
			%7 = add(%0, %6) %8 = matmul(%7, %21) %9 = concat(%2, %8) {axis=1} %10 = tanh(%9) return %10 as "z" }`,
			[2]ir.Binding{{"n": 100, "m": 1}, {"n": 100, "m": 300}}},
		{"tiles", `(%0 "x": f32[n,4]) { const %1: f32[4,8] = ` + numbers(32) + ` const %2: f32[8,4] = ` + numbers(32) + `
			%3 = tanh(%0) %4 = matmul(%3, %1) {act=relu} %5 = matmul(%4, %2) return %5 as "z" }`, [2]ir.Binding{{"n": 10}, {"n": 600}}},
		{"the order of steps", `(%0 "x": f32[n,1], %1 "y": f32[m,1], %2 "w": f32[1,64]) { %3 = add(%0, %2) %4 = softmax(%3) {axis=1}
			%5 = reshape(%4) {shape=[n,32,2]} %6 = reduce_sum(%5) {axes=[2]} %7 = add(%1, %2) %8 = softmax(%7) {axis=1}
			%9 = reshape(%8) {shape=[m,32,2]} %10 = reduce_sum(%9) {axes=[2]} %11 = concat(%6, %10) {axis=0} return %11 as "z" }`,
			[2]ir.Binding{{"n": 100, "m": 3}, {"n": 3, "m": 100}}},
		{"constants of sizes", `(%0 "x": f32[n,m]) { %1 = range() {start=0, step=1, len=m, dtype=i64} %2 = cast(%1) {to=f32} %3 = sqrt(%2)
			%4 = add(%0, %3) return %4 as "z" }`, [2]ir.Binding{{"n": 2, "m": 5}, {"n": 2, "m": 20000}}},
		{"scratch", `(%0 "x": f32[n,m,8]) { %1 = sin(%0) %2 = transpose(%1) {perm=[0,2,1]} %3 = matmul(%1, %2) %4 = softmax(%3) {axis=2}
			return %4 as "z" }`, [2]ir.Binding{{"n": 2, "m": 3}, {"n": 2, "m": 40}}},
		{"a view as a step", `(%0 "x": f32[n,m]) { %1 = exp(%0) %2 = slice(%1) {starts=[0,m-1], sizes=[n,m], steps=[1,-1]} %3 = tanh(%2)
			return %3 as "z" }`, [2]ir.Binding{{"n": 2, "m": 3}, {"n": 4, "m": 7}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			kind, _, _ := strings.Cut(c.name, ",")
			src := text(c.program)
			p, err := engine.Compile(context.Background(), src, src.Graph, options.Compile{Level: rewrite.O2, Threads: 1})
			require.NoError(t, err)
			defer p.Close()
			g, err := src.Graph()
			require.NoError(t, err)
			var in, want [2]map[string]*tensor.Tensor
			var how [2]string
			for k, sizes := range c.sizes {
				in[k] = map[string]*tensor.Tensor{}
				for i, v := range g.Inputs {
					bound, err := ir.MapType(v.Type, sizes.Number)
					require.NoError(t, err)
					x := tensor.New(tensor.F32, bound.Sizes()...)
					for j := range x.Len() {
						x.SetFloat64(j, float64((7*j+3*i+k)%23)/16-0.5)
					}
					in[k][v.Name] = x
				}
				var why string
				want[k], why = alone(p, in[k])
				require.NotNil(t, want[k], why)
				b, err := p.Bind(sizes)
				require.NoError(t, err)
				how[k] = decided(b.Planned)[kind]
			}
			if kind != "a view as a step" { // it is one at all sizes, with other fields
				require.NotEqual(t, how[0], how[1])
			}
			for first := range 2 {
				s, err := p.NewSession()
				require.NoError(t, err)
				poison(s)
				for run := range 4 {
					k := (first + run) % 2
					out, err := s.Run(context.Background(), in[k])
					require.Empty(t, differs(out, err, want[k]), fmt.Sprintf("run %d, from size %v on", run, c.sizes[first]))
				}
				require.NoError(t, s.Close())
			}
			require.Zero(t, p.CacheStats().Rejected)
		})
	}
}
