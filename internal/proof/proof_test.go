package proof_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/proof"
	"github.com/rlxc/rlxc/ir"
)

// graph has a view, a step with two results, one of them unread, and steps that could run in place.
const graph = `graph "" (%0 "x": f32[16]) {
	const %9: f32[16] = data
	%1 "a" = cumsum(%0) {axis=0}
	%2 "v" = reshape(%1) {shape=[1,16]}
	%3 "n", %4 "sum" = layernorm(%2) {axes=1,sum=true}
	%5 "r" = relu(%3)
	%6 "y" = add(%5, %9)
	return %6
}`

// plan says where the values of graph are; each has 64 bytes.
type plan struct {
	at       map[string]int64
	scratch  map[int][]proof.Region
	inPlace  bool
	late     int // of step n
	arena    int // of value n
	held     []string
	arenas   []int64
	unsorted bool // the steps, the last two swapped
}

// layout is the layout that views have by the rules of strides.
func layout(v *ir.Value) ir.Layout {
	if v.Def != nil && v.Def.Op.Kind().Has(ir.View) {
		if l, ok := ir.ViewLayout(v.Def, layout(v.Def.Inputs[0])); ok {
			return l
		}
	}
	return ir.OwnLayout(v)
}

func (p plan) claim(t *testing.T) proof.Claim {
	g, err := ir.Parse(graph)
	require.NoError(t, err)
	c := proof.Claim{
		Graph: g, Arenas: []int64{256}, Align: 64, Layout: layout,
		Region: func(v *ir.Value) (proof.Region, bool) {
			at, ok := p.at[v.Name]
			return proof.Region{Arena: map[string]int{"n": p.arena}[v.Name], Offset: at, Size: 64}, ok
		},
		Scratch:   func(step int) []proof.Region { return p.scratch[step] },
		InPlace:   func(n *ir.Node, i int) bool { return p.inPlace },
		LateReads: func(n *ir.Node) int { return map[bool]int{true: p.late}[n.Outputs[0].Name == "n"] },
	}
	if p.arenas != nil {
		c.Arenas = p.arenas
	}
	for _, n := range g.Nodes {
		if !n.Op.Kind().Has(ir.View) {
			c.Steps = append(c.Steps, n)
		}
		for _, v := range n.Outputs {
			for _, name := range p.held {
				if v.Name == name {
					c.Held = append(c.Held, v)
				}
			}
		}
	}
	if last := len(c.Steps) - 1; p.unsorted {
		c.Steps[last], c.Steps[last-1] = c.Steps[last-1], c.Steps[last]
	}
	return c
}

func TestVerify(t *testing.T) {
	const whole = "the run agrees"
	apart := map[string]int64{"x": 0, "a": 64, "n": 0, "sum": 128, "r": 64, "y": 0}
	shared := map[string]int64{"x": 0, "a": 64, "n": 64, "sum": 0, "r": 64, "y": 64}
	with := func(base map[string]int64, name string, at int64) map[string]int64 {
		m := map[string]int64{name: at}
		for k, v := range base {
			if k != name {
				m[k] = v
			}
		}
		return m
	}
	without := func(name string) map[string]int64 {
		m := with(apart, name, 0)
		delete(m, name)
		return m
	}
	for _, c := range []struct {
		name string
		plan plan
		want string // of Verify; empty: none
		run  string // of Replay: whole where it passes though Verify does not, empty: some error
	}{
		{"apart", plan{at: apart}, "", ""},
		{"in place", plan{at: shared, inPlace: true}, "", ""},
		{"in place without leave", plan{at: shared}, `writes "n" over its operand "v", which it still reads`, ""},
		{"the second result in place", plan{at: map[string]int64{"x": 0, "a": 64, "n": 128, "sum": 64, "r": 0, "y": 64}, inPlace: true},
			`writes "sum" over its operand "v"`, ""},
		{"no such arena", plan{at: apart, arena: 1}, `"n" is at byte 0 of arena 1`, ""},
		{"an arena before all", plan{at: apart, arena: -1}, `"n" is at byte 0 of arena -1`, ""},
		{"a live value's bytes", plan{at: with(apart, "sum", 0), inPlace: true}, `writes "sum" over its own scratch or another result`, ""},
		{"halfway over an operand", plan{at: with(shared, "r", 96), inPlace: true, arenas: []int64{512}}, "is not a multiple of 64", ""},
		{"scratch over an operand", plan{at: apart, scratch: map[int][]proof.Region{1: {{Offset: 64, Size: 8}}}},
			`overlaps its operand "v"`, ""},
		{"scratch over a result", plan{at: apart, scratch: map[int][]proof.Region{1: {{Offset: 0, Size: 8}}}},
			`writes "n" over its own scratch`, whole},
		{"scratch over scratch", plan{at: apart, scratch: map[int][]proof.Region{1: {{Offset: 192, Size: 8}, {Offset: 192, Size: 1}}}},
			"two scratch buffers", whole},
		{"scratch outside", plan{at: apart, scratch: map[int][]proof.Region{1: {{Offset: 256, Size: 8}}}}, "scratch 0 of step", ""},
		{"scratch over what lives across", plan{at: apart, scratch: map[int][]proof.Region{2: {{Offset: 0, Size: 8}}}},
			`overlaps its operand "n"`, ""},
		{"free scratch", plan{at: apart, scratch: map[int][]proof.Region{0: {{Offset: 128, Size: 8}}, 1: {{Offset: 192, Size: 64}}}}, "",
			""},
		{"late reads", plan{at: apart, late: 1}, `(late) reads "v", whose memory was not written or has been reused`, ""},
		{"late reads in place", plan{at: shared, late: 1, inPlace: true}, `(late) reads "v"`, ""},
		{"late reads of what is left alone", plan{at: with(apart, "r", 192), late: 1}, "", ""},
		{"held", plan{at: apart, held: []string{"sum"}}, "", ""},
		{"held, and lost", plan{at: apart, held: []string{"a"}}, `the caller at the end reads "a"`, ""},
		{"no place", plan{at: without("sum")}, `writes "sum", which has no buffer in the plan`, ""},
		{"no place for an input", plan{at: without("x")}, `the caller writes "x", which has no buffer`, ""},
		{"too early", plan{at: apart, unsorted: true}, `reads "r", whose memory was not written`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			err, run := proof.Verify(c.plan.claim(t)), proof.Replay(c.plan.claim(t), 0xA5)
			if c.want == "" {
				require.NoError(t, err)
				require.NoError(t, run)
				return
			}
			require.ErrorContains(t, err, c.want)
			if c.run == whole {
				require.NoError(t, run)
			} else {
				require.Error(t, run)
			}
		})
	}
}

// TestViewsOfPartsOfBytes are refused: their elements have no byte offset.
func TestViewsOfPartsOfBytes(t *testing.T) {
	g, err := ir.Parse(`graph "" (%0 "x": i4[16]) {
		%1 "v" = reshape(%0) {shape=[4,4]}
		%2 "y": i4[4,4] = copy(%1)
		return %2
	}`)
	require.NoError(t, err)
	c := proof.Claim{
		Graph: g, Steps: g.Nodes[1:], Arenas: []int64{128}, Layout: layout,
		Region:  func(v *ir.Value) (proof.Region, bool) { return proof.Region{Offset: 64 * int64(v.ID), Size: 8}, true },
		Scratch: func(int) []proof.Region { return nil }, InPlace: func(*ir.Node, int) bool { return false },
		LateReads: func(*ir.Node) int { return 0 },
	}
	require.ErrorContains(t, proof.Verify(c), "elements of i4 do not start at bytes")
}

// TestWrongLayouts: whatever is wrong with what kernels learn of where a value's elements are is found.
func TestWrongLayouts(t *testing.T) {
	g, err := ir.Parse(`graph "" (%0 "x": f32[4,6], %1 "other": f32[4,6]) {
		%2 "turned" = transpose(%0) {perm=[1,0]}
		%3 "part" = slice(%2) {starts=[1,0], sizes=[5,2], steps=[1,2]}
		%4 "shaped" = reshape(%0) {shape=[2,2,6,1]}
		%5 "wide" = expand(%4) {shape=[3,2,2,6,50]}
		%6 "a" = relu(%3)
		%7 "b" = relu(%5)
		%8 "c" = add(%0, %1)
		return %6, %7, %8
	}`)
	require.NoError(t, err)
	values := map[string]*ir.Value{}
	for _, n := range g.Nodes {
		values[n.Outputs[0].Name] = n.Outputs[0]
	}
	claim := func(at string, change func(l *ir.Layout)) proof.Claim {
		return proof.Claim{
			Graph: g, Steps: g.Nodes[4:], Arenas: []int64{1 << 20},
			Layout: func(v *ir.Value) ir.Layout {
				l := layout(v)
				l.Strides = append([]int{}, l.Strides...)
				if v.Name == at {
					change(&l)
				}
				return l
			},
			Region: func(v *ir.Value) (proof.Region, bool) {
				return proof.Region{Offset: 1 << 15 * int64(v.ID), Size: 1 << 15}, !v.IsConst()
			},
			Scratch: func(int) []proof.Region { return nil }, InPlace: func(*ir.Node, int) bool { return false },
			LateReads: func(*ir.Node) int { return 0 },
		}
	}
	require.NoError(t, proof.Verify(claim("", nil)))
	require.NoError(t, proof.Replay(claim("", nil), 0))
	for name, v := range values {
		for _, by := range []int{-1, 1, 6} {
			require.Error(t, proof.Verify(claim(name, func(l *ir.Layout) { l.Offset += by })), "%s: offset %d", name, by)
		}
		for i, size := range v.Type.Sizes() {
			if size > 1 {
				require.Error(t, proof.Verify(claim(name, func(l *ir.Layout) { l.Strides[i]++ })), "%s: stride %d", name, i)
			}
		}
	}
	for _, name := range []string{"turned", "part", "shaped", "wide"} {
		require.ErrorContains(t, proof.Verify(claim(name, func(l *ir.Layout) { l.Root = g.Inputs[1] })), "not of its operand's root")
	}
}

// TestInPlaceOverViews: a result may be over an operand only where that is the same bytes in the same order.
func TestInPlaceOverViews(t *testing.T) {
	for _, c := range []struct {
		view string
		at   int64 // of the result; x is at 0
		want string
	}{
		{"reshape(%0) {shape=[6,4]}", 0, ""},
		{"transpose(%0) {perm=[1,0]}", 0, "which it still reads"},
		{"reshape(%0) {shape=[6,4]}", 32, "which it still reads"},
		{"reshape(%0) {shape=[6,4]}", 96, ""},
	} {
		g, err := ir.Parse(`graph "" (%0 "x": f32[4,6]) { %1 "v" = ` + c.view + ` %2 "r" = relu(%1) return %2 }`)
		require.NoError(t, err)
		err = proof.Verify(proof.Claim{
			Graph: g, Steps: g.Nodes[1:], Arenas: []int64{1024}, Align: 32, Layout: layout,
			Region: func(v *ir.Value) (proof.Region, bool) {
				return proof.Region{Offset: map[string]int64{"r": c.at}[v.Name], Size: 96}, true
			},
			Scratch: func(int) []proof.Region { return nil }, InPlace: func(*ir.Node, int) bool { return true },
			LateReads: func(*ir.Node) int { return 0 },
		})
		if c.want == "" {
			require.NoError(t, err, c.view)
		} else {
			require.ErrorContains(t, err, c.want, c.view)
		}
	}
}

// TestStepsMadeForOtherLayouts are refused: a step that is kept from an earlier binding finds its operands where they were.
func TestStepsMadeForOtherLayouts(t *testing.T) {
	const program = `graph "" (%0 "x": f32[4,6]) {
		%1 "n" = exp(%0)
		%2 "last" = slice(%1) {starts=[3,0], sizes=[1,6], steps=[1,1]}
		%3 "y" = relu(%2)
		return %3 }`
	for _, c := range []struct {
		name, value string
		change      func(l *ir.Layout)
		want        string
	}{
		{"as they are", "last", func(*ir.Layout) {}, ""},
		{"another offset", "last", func(l *ir.Layout) { l.Offset = 6 }, `was made for "last" at element 6 of "n" with shape [1,6]`},
		{"another size", "y", func(l *ir.Layout) { l.Shape = []int{1, 5} }, `was made for "y" at element 0 of "y" with shape [1,5]`},
		{"other strides", "last", func(l *ir.Layout) { l.Strides = []int{7, 1} }, "and strides [7 1]"},
		{"another root", "last", func(l *ir.Layout) { l.Root = l.Root.Def.Inputs[0] }, `was made for "last" at element 18 of "x"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := ir.Parse(program)
			require.NoError(t, err)
			claim := proof.Claim{
				Graph: g, Steps: []*ir.Node{g.Nodes[0], g.Nodes[2]}, Arenas: []int64{512}, Align: 32, Layout: layout,
				Region:  func(v *ir.Value) (proof.Region, bool) { return proof.Region{Offset: 128 * int64(v.ID), Size: 96}, true },
				Scratch: func(int) []proof.Region { return nil }, InPlace: func(*ir.Node, int) bool { return false },
				LateReads: func(*ir.Node) int { return 0 },
				Made: func(step int, v *ir.Value) ir.Layout {
					l := layout(v)
					if step == 1 && v.Name == c.value {
						c.change(&l)
					}
					return l
				},
			}
			err, run := proof.Verify(claim), proof.Replay(claim, 0xA5)
			if c.want == "" {
				require.NoError(t, err)
				require.NoError(t, run)
				return
			}
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, run, c.want)
		})
	}
}
