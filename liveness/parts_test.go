package liveness_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/proof"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/liveness"
	"github.com/rlxc/rlxc/planner"
)

// joined is a Concat of columns, of two results and an operand that is an output.
const joined = `(%0 "x": f32[4,64]) {
	%1 "a" = cumsum(%0) {axis=0}
	%2 "b" = cumsum(%0) {axis=1}
	%3 "r" = relu(%2)
	%4 "s" = relu(%1)
	%5 "y" = concat(%1, %3, %2) {axis=1}
	%6 "z" = cumsum(%5) {axis=1}
	return %6, %3, %4 }`

// joiningDevice has sums that write by strides.
func joiningDevice(t testing.TB, edit ...func(kernels *[ir.NumKinds]target.Kernel)) *target.Target {
	return device(t, append([]func(kernels *[ir.NumKinds]target.Kernel){func(kernels *[ir.NumKinds]target.Kernel) {
		kernels[ir.KindCumSum].StridedResult = func(n *ir.Node, strides []int) bool { return strides[1] == 1 }
		kernels[ir.KindConcat].Strided = target.AllStrides
		kernels[ir.KindUnary].Strided = target.AllStrides
	}}, edit...)...)
}

// TestPartsOfAConcat: where each condition holds, a result has no buffer, and that of the Concat is there before it.
func TestPartsOfAConcat(t *testing.T) {
	const all = "x [0,2) 1024 input\ny [0,6) 3072\nr [2,7) 1024 output\ns [3,7) 1024 output\nz [5,7) 3072 output"
	const more = "\n%10 \"m\" = concat(%4, %4, %4, %4, %4, %4, %4) {axis=1}"
	later := []string{"%4 \"s\" = relu(%1)\n", "", "cumsum(%5) {axis=1}", "relu(%5)\n%4 \"s\" = relu(%1)" + more, "return", "return %10,"}
	for _, c := range []struct {
		name    string
		edit    []string // of the graph: old, new, …
		target  func(kernels *[ir.NumKinds]target.Kernel)
		options liveness.Options
		outside string   // a device tensor
		want    []string // among the buffers
	}{
		{name: "columns", want: []string{all}},
		{name: "read after the Concat, over which nothing is written", edit: later,
			want: []string{"x [0,2) 1024 input\ny [0,6) 3072\n", "z [4,8) 3072 output\ns [5,8) 1024 output"}},
		{name: "read late", edit: []string{"cumsum(%5) {axis=1}", "relu(%5)" + more, "return", "return %10,"},
			target: func(kernels *[ir.NumKinds]target.Kernel) {
				kernels[ir.KindUnary].LateReads = func(n *ir.Node) int { return map[string]int{"s": 2}[n.Outputs[0].Name] }
			}, want: []string{"x [0,2) 1024 input\ny [0,6) 3072\n", "z [5,8) 3072 output"}},
		{name: "the kernel writes row-major",
			target: func(kernels *[ir.NumKinds]target.Kernel) { kernels[ir.KindCumSum].StridedResult = nil },
			want:   []string{"a [", "b ["}},
		{name: "readers take no strides", target: func(kernels *[ir.NumKinds]target.Kernel) { kernels[ir.KindUnary].Strided = nil },
			want: []string{"a [", "b ["}},
		{name: "the Concat takes no strides", target: func(kernels *[ir.NumKinds]target.Kernel) { kernels[ir.KindConcat].Strided = nil },
			want: []string{"a [", "b ["}},
		{name: "on the host", target: func(kernels *[ir.NumKinds]target.Kernel) { kernels[ir.KindConcat] = target.Kernel{} },
			want: []string{"a [", "b ["}},
		{name: "joined twice", edit: []string{"%3, %2)", "%3, %2, %1)"}, want: []string{"a [", "y [1,"}},
		{name: "joined by two", edit: []string{"%6 \"z\"", "%8 \"w\" = concat(%1, %5) {axis=1}\n%9 \"v\" = cumsum(%8) {axis=1}\n%6 \"z\"",
			"return", "return %9,"}, want: []string{"y [0,", "w [5,"}},
		{name: "an output", edit: []string{"return", "return %1,"}, want: []string{"a [", "y [1,"}},
		{name: "an input", edit: []string{"concat(%1", "concat(%0"}, want: []string{"x [0,5)", "y [1,"}},
		{name: "row-major", options: liveness.Options{RowMajor: true}, want: []string{"a [", "b ["}},
		{name: "outside of the arena", edit: []string{"return", "return %5,"}, outside: "y", want: []string{"a [", "b ["}},
		{name: "more with the first", target: func(kernels *[ir.NumKinds]target.Kernel) {
			kernels[ir.KindCumSum].Scratch = func(n *ir.Node) []int64 { return []int64{8192 * int64(1-n.Op.(ir.CumSum).Axis)} }
		}, want: []string{"a [", "y [1,"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			graph := edited(t, joined, c.edit...)
			d := joiningDevice(t)
			if c.target != nil {
				d = joiningDevice(t, c.target)
			}
			g := parse(t, graph)
			for _, v := range g.Outputs {
				if v.Name == c.outside {
					c.options.DeviceTensors = []*ir.Value{v}
				}
			}
			r := analyze(t, g, d, c.options, false)
			for _, want := range c.want {
				require.Contains(t, "\n"+describe(r), want)
			}
			if c.outside == "" {
				prove(t, g, d, r, planner.Modes()...)
			}
			options := c.options
			options.RowMajor = true
			require.LessOrEqual(t, bound(t, d, r), bound(t, d, analyze(t, parse(t, graph), d, options, false)))
		})
	}
}

// TestOtherPartsOfAConcat breaks claims of plans that hold.
func TestOtherPartsOfAConcat(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(c *proof.Claim, of map[string]*ir.Value)
	}{
		{"the kernel writes row-major", "is not a view", func(c *proof.Claim, _ map[string]*ir.Value) { c.StridedResult = nil }},
		{"in other columns", "is not a view", func(c *proof.Claim, of map[string]*ir.Value) {
			layout := c.Layout
			c.Layout = func(v *ir.Value) ir.Layout {
				l := layout(v)
				if v == of["a"] {
					l.Offset = 64
				}
				return l
			}
		}},
		{"before it is whole", `reads "y", whose memory was not written`, func(c *proof.Claim, _ map[string]*ir.Value) {
			c.Steps = slices.Clone(c.Steps)
			c.Steps[4], c.Steps[5] = c.Steps[5], c.Steps[4]
		}},
		{"before it is there", `reads "b", whose memory was not written`, func(c *proof.Claim, _ map[string]*ir.Value) {
			c.Steps = slices.Clone(c.Steps)
			c.Steps[1], c.Steps[2] = c.Steps[2], c.Steps[1]
		}},
		{"another result over the parts", `reads "a", whose memory was not written or has been reused`,
			func(c *proof.Claim, of map[string]*ir.Value) {
				region := c.Region
				c.Region = func(v *ir.Value) (proof.Region, bool) {
					if v == of["r"] {
						v = of["y"]
					}
					return region(v)
				}
				of["r"].Def.SetInput(0, c.Graph.Inputs[0])
			}},
		{"scratch over the parts", `overlaps its operand "a"`, func(c *proof.Claim, of map[string]*ir.Value) {
			c.Scratch = func(step int) []proof.Region {
				p, _ := c.Region(of["y"])
				return map[int][]proof.Region{3: {p}}[step]
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, g := joiningDevice(t), parse(t, joined)
			r := analyze(t, g, d, liveness.Options{}, false)
			plan, err := planner.Solve(&r.Problem, plannerOptions(d, planner.BestFit))
			require.NoError(t, err)
			of := map[string]*ir.Value{}
			for _, n := range g.Nodes {
				of[n.Outputs[0].Name] = n.Outputs[0]
			}
			broken := claim(g, d, r, plan)
			c.change(&broken, of)
			require.ErrorContains(t, proof.Verify(broken), c.want)
		})
	}
}
