package rewrite

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

var update = flag.Bool("update", false, "write the after sections of testdata/*.txt anew")

// lacks is in the names of sections of testdata that are for TestConditions.
const lacks = " lacks "

// TestRules runs the cases of testdata. Each file has sections "-- name: pass --" with a graph and "-- after --" with what
// the pass makes of it; the nodes' sum of counts is not part of it. Both graphs are also run on random data. Every rule
// must apply in some case.
func TestRules(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	used := map[string]bool{}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		require.NoError(t, err)
		changed := false
		for i := 0; i < len(a.Files); i++ {
			if strings.Contains(a.Files[i].Name, lacks) { // see TestConditions
				continue
			}
			name, passName, ok := strings.Cut(a.Files[i].Name, ": ")
			require.True(t, ok, "%s: section %q wants a pass", file, a.Files[i].Name)
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt")+"/"+name, func(t *testing.T) {
				before := parse(t, string(a.Files[i].Data))
				after := parse(t, string(a.Files[i].Data))
				for _, r := range runPass(t, passName, after) {
					used[r] = true
				}
				requireEqualResults(t, before, after)
				if *update {
					next := txtar.File{Name: "after", Data: []byte(after.String())}
					if i+1 == len(a.Files) || a.Files[i+1].Name != "after" {
						a.Files = slices.Insert(a.Files, i+1, next)
					}
					a.Files[i+1] = next
					changed = true
					return
				}
				require.Equal(t, string(a.Files[i+1].Data), after.String())
			})
			i++ // the section after it
		}
		if changed {
			require.NoError(t, os.WriteFile(file, txtar.Format(a), 0o666))
		}
	}
	for _, p := range passes {
		for _, r := range p.rules {
			if !used[r.Name] {
				t.Errorf("rule %s of pass %s applies in no case of testdata", r.Name, p.name)
			}
		}
	}
}

func parse(t *testing.T, text string) *ir.Graph {
	t.Helper()
	g, err := ir.Parse(text)
	require.NoError(t, err)
	require.NoError(t, ir.Verify(g))
	return g
}

// runPass runs one pass, or several joined by "+", and dead code elimination, and returns the rules that applied. Constants are at
// odd addresses meanwhile, as they may in files.
func runPass(t *testing.T, names string, g *ir.Graph) (rules []string) {
	t.Helper()
	for _, v := range g.Consts() {
		if v.Const.Strings() == nil {
			data := append(tensor.AlignedBytes(1), v.Const.Bytes()...)[1:]
			moved, err := tensor.FromBytes(v.Const.DType(), v.Const.Shape(), data)
			require.NoError(t, err)
			v.Const = moved
		}
	}
	for _, name := range strings.Split(names, "+") {
		i := slices.IndexFunc(passes, func(p pass) bool { return p.name == name })
		require.GreaterOrEqual(t, i, 0, "no pass %q", name)
		counts, endless := passes[i].apply(g, nil, how{merge: passes[i].merge}, map[*ir.Node][]NearMiss{})
		require.Empty(t, endless)
		for _, c := range counts {
			rules = append(rules, c.Rule)
		}
	}
	for _, v := range g.Consts() {
		v.Const = v.Const.Aligned()
	}
	dce(g)
	g.Renumber()
	require.NoError(t, ir.Verify(g), g.String())
	return rules
}

// requireEqualResults runs two graphs on the same random inputs at several sizes.
func requireEqualResults(t *testing.T, a, b *ir.Graph) {
	t.Helper()
	for seed := range uint64(3) {
		in := RandomInputs(a, rand.New(rand.NewPCG(seed, 7)))
		want, err := ir.Interpret(a, in)
		require.NoError(t, err)
		got, err := ir.Interpret(b, in)
		require.NoError(t, err, b.String())
		require.Len(t, got, len(want))
		for i := range want {
			requireClose(t, want[i], got[i], fmt.Sprintf("output %d of\n%s", i, b))
		}
	}
}

// requireClose compares with the tolerance of whole models: rewriting may only change rounding.
func requireClose(t *testing.T, want, got *tensor.Tensor, what string) {
	t.Helper()
	require.Equal(t, want.String(), got.String(), what)
	if !want.DType().IsFloat() {
		require.Equal(t, want.Bytes(), got.Bytes(), what)
		return
	}
	atol, rtol := 1e-5, 1e-4
	if want.DType() == tensor.F16 {
		atol, rtol = 1e-2, 1e-2
	}
	for i := range want.Len() {
		w, g := want.Float64(i), got.Float64(i)
		if math.IsNaN(w) != math.IsNaN(g) || math.Abs(w-g) > atol+rtol*math.Abs(w) || math.IsInf(w, 0) && w != g {
			require.Failf(t, "results differ", "element %d: %v, was %v\n%s", i, g, w, what)
		}
	}
}
