package rewrite

import (
	"context"
	"flag"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

var (
	nearMisses = flag.Int("near", 600, "programs that TestNearMisses makes")
	// FirstSeed is exported to TestDevices.
	FirstSeed = flag.Int("seed", 1, "the first seed of TestNearMisses and TestDevices")
)

// TestNearMisses makes programs that nearly are what a rule fuses: the graphs of testdata, which hold every rule's pattern, each with
// a few things changed that a condition of the rule is about. Whatever the passes make of them must compute the same.
func TestNearMisses(t *testing.T) {
	texts, err := Patterns("testdata")
	require.NoError(t, err)
	tried, failed := 0, 0
	for seed := *FirstSeed; tried < *nearMisses && failed < 10; seed++ {
		n := New(uint64(seed))
		g := n.Change(texts[seed%len(texts)])
		if g == nil {
			continue
		}
		tried++
		if why := differs(n, g.String()); why != "" {
			failed++
			t.Errorf("seed %d: %s", seed, shrink(g.String(), why))
		}
	}
}

// changeOf is what each rule changes.
var changeOf = map[string]Change{}

func init() {
	for _, p := range passes {
		for _, r := range p.rules {
			changeOf[r.Name] = r.changes
		}
	}
}

// differs says what the passes change in the results of a program, nothing if nothing.
func differs(n *Generator, text string) (why string) {
	defer func() {
		if p := recover(); p != nil {
			why = fmt.Sprintf("panic: %v", p)
		}
	}()
	g, every := Parse(text), Parse(text)
	for _, node := range every.Nodes {
		every.Outputs = append(every.Outputs, node.Outputs...)
	}
	every.OutputNames = nil
	// Where an operator has a step in it, no rounding may be seen at all.
	steppy := slices.ContainsFunc(g.Nodes, func(node *ir.Node) bool {
		return slices.ContainsFunc(node.Inputs,
			func(v *ir.Value) bool { return v != nil && flowOf(node, slices.Index(node.Inputs, v)) == ir.Decides })
	})
	for _, o := range []Options{{Level: O1, Verify: true}, {Level: O2, Verify: true, Exact: true}, {Level: O2, Verify: true}} {
		h := Parse(text)
		s, err := Run(context.Background(), h, nil, o)
		if err != nil {
			return fmt.Sprintf("at -O %s: %v", o.Level, err)
		}
		if slices.ContainsFunc(s.Rules, func(c RuleCount) bool { return changeOf[c.Rule] > Rounding }) {
			continue
		}
		for style := range Styles {
			in := n.Inputs(g, style)
			if Contradicts(g, in) {
				continue
			}
			want, wantErr := Interpret(every, in)
			got, gotErr := Interpret(h, in)
			switch {
			case (wantErr == nil) != (gotErr == nil):
				return fmt.Sprintf("at -O %s exactly %t, inputs %v: it ends with %v, was %v\n%s", o.Level, o.Exact, in, gotErr, wantErr, h)
			case wantErr == nil:
				shaken, err := Shake(every, in)
				if err != nil || steppy {
					shaken = want
				}
				if why := Departs(eitherSide(g, want, got), got, shaken, o.Level == O1); why != "" {
					return fmt.Sprintf("at -O %s exactly %t, inputs of style %d: %s\n%s\n%v", o.Level, o.Exact, style, why, h, ruleNames(s))
				}
			}
		}
	}
	return ""
}

// eitherSide returns want with what got has in place of quantised sums that are one off: a sum may be halfway between two values, and
// its last place depends on an order (see steps).
func eitherSide(g *ir.Graph, want, got []*tensor.Tensor) []*tensor.Tensor {
	loose := findSteps(g, false).loose
	either := slices.Clone(want)
	for k, v := range g.Outputs {
		if d := v.Type.DType; !loose[v] || d != tensor.U8 && d != tensor.I8 {
			continue
		}
		neighbours := true
		for i := range want[k].Len() {
			neighbours = neighbours && math.Abs(want[k].Float64(i)-got[k].Float64(i)) <= 1
		}
		if neighbours {
			either[k] = got[k]
		}
	}
	return either
}

// shrink takes outputs away as long as the program fails.
func shrink(text, why string) string {
	for k := 0; ; {
		g := Parse(text)
		if len(g.Outputs) <= 1 || k >= len(g.Outputs) {
			return text + why
		}
		g.Outputs = slices.Delete(g.Outputs, k, k+1)
		g.OutputNames = nil
		Prune(g)
		g.Renumber()
		again := ""
		for seed := range uint64(20) {
			if again = differs(New(seed), g.String()); again != "" {
				break
			}
		}
		if again == "" {
			k++
			continue
		}
		text, why = g.String(), again
	}
}
