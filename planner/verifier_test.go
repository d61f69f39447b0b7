package planner

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// forgeries are changes of a right file after which it proves nothing. Each returns false where the file has nothing to change. The
// metrics of a forged plan are computed again, so that only the proof is wrong.
var forgeries = map[string]func(f *File, i int) bool{
	"two bounds for one device": func(f *File, _ int) bool {
		f.Bounds = append(f.Bounds, f.Bounds[0])
		return true
	},
	"an arena of activations marked as weights": func(f *File, _ int) bool {
		f.Plan.Arenas[0].Weights = true
		f.Bounds = nil
		return true
	},
	"a buffer left out for a reason": func(f *File, i int) bool {
		f.Plan.Slots[i] = Slot{Arena: NoArena}
		f.Plan.Unplanned = append(f.Plan.Unplanned, Unplanned{i, "it is not needed"})
		return true
	},
	"a buffer in the arena of another device": func(f *File, i int) bool {
		f.Problem.Buffers[i].Lane.Device++
		return true
	},
	"a buffer that moved into another": func(f *File, i int) bool {
		j := (i + 1) % len(f.Problem.Buffers)
		a, b := &f.Problem.Buffers[i], &f.Problem.Buffers[j]
		a.First, a.Last = b.First, b.Last
		f.Plan.Slots[i].Offset = f.Plan.Slots[j].Offset
		return f.Plan.Slots[i].Arena == f.Plan.Slots[j].Arena && len(a.Gaps)+len(b.Gaps) == 0 &&
			a.Group != b.Group && a.Size > 0 && b.Size > 0 && !a.Fixed && !b.Fixed
	},
	"a slot of another size": func(f *File, i int) bool {
		f.Plan.Slots[i].Size--
		return true
	},
	"an offset below alignment": func(f *File, i int) bool {
		b := &f.Problem.Buffers[i]
		b.Align = 1 << 20
		f.Plan.Slots[i].Offset++
		return b.Size > 0
	},
	"a bound with a buffer that does not live then": func(f *File, _ int) bool {
		f.Bounds[0].Step = 1 << 20
		return !f.Bounds[0].End
	},
	"a bound that counts a buffer twice": func(f *File, _ int) bool {
		b := &f.Bounds[0]
		b.Buffers = append(b.Buffers, b.Buffers[0])
		return len(b.Buffers) > 0
	},
	"a smaller bound": func(f *File, _ int) bool {
		f.Bounds[0].Bytes--
		return true
	},
	"a view beyond its buffer": func(f *File, i int) bool {
		f.Problem.Views[i].Size = 1_000_000_000
		return true
	},
	"a view in another buffer": func(f *File, i int) bool {
		b := &f.Problem.Buffers[i]
		for j := range f.Problem.Buffers {
			other := &f.Problem.Buffers[j]
			if outlives := other.First <= b.First && b.Last <= other.Last; !outlives && b.Group == 0 && other.Group == 0 {
				f.Problem.Views[i] = View{Name: "moved", Buffer: j, First: b.First, Last: b.Last}
				return b.Last != 0
			}
		}
		return false
	},
	"a view whose pieces leave its buffer": func(f *File, i int) bool {
		f.Problem.Views[i].Strides = []Stride{{Count: 2, Step: f.Problem.Buffers[i].Size}}
		f.Problem.Views[i].Size = 2
		return f.Problem.Buffers[i].Size > 0
	},
	"a view whose pieces begin before its buffer": func(f *File, i int) bool {
		f.Problem.Views[i].Strides = []Stride{{Count: 2, Step: -f.Problem.Views[i].Offset - 1}}
		f.Problem.Views[i].Size = 2
		return f.Problem.Buffers[i].Size > 0
	},
	"a view that is no whole number of pieces": func(f *File, i int) bool {
		f.Problem.Views[i].Strides = []Stride{{Count: 2}}
		f.Problem.Views[i].Size = 1
		return f.Problem.Buffers[i].Size > 0
	},
	"an arena that begins elsewhere": func(f *File, _ int) bool {
		f.Plan.Arenas[0].Start++
		return true
	},
	"an arena with bytes to spare": func(f *File, _ int) bool {
		f.Plan.Arenas[0].Size += 1 << 20
		return true
	},
	"an arena that ends early": func(f *File, _ int) bool {
		f.Plan.Arenas[0].Size -= f.Plan.Options.align()
		return true
	},
}

var certificates = flag.Int("certificates", 400, "problems whose proofs TestVerifiersAgree checks")

// mostForged is the number of plans of which TestVerifiersAgree forges the proof in each way.
const mostForged = 400

// TestVerifiersAgree: File.Check and verify_plan.py accept the same right files and refuse the same forged ones.
func TestVerifiersAgree(t *testing.T) {
	python := os.Getenv("RLXC_PYTHON")
	if python == "" {
		t.Skip("RLXC_PYTHON is not set")
	}
	folder := t.TempDir()
	var paths []string
	var right []bool
	var what []string
	forged := map[string]int{} // plans for two memories, by what is wrong
	write := func(f *File, accepted bool, name string) {
		path := filepath.Join(folder, fmt.Sprintf("%d.json", len(paths)))
		out, err := os.Create(path)
		require.NoError(t, err)
		require.NoError(t, f.WriteJSON(out))
		require.NoError(t, out.Close())
		paths, right, what = append(paths, path), append(right, accepted), append(what, name)
	}
	for seed := range uint64(*certificates) {
		rnd := rand.New(rand.NewPCG(seed, 17))
		draw := func() *File {
			rnd = rand.New(rand.NewPCG(seed, 17))
			p, o := drawMixed(rnd)
			for i := range p.Buffers {
				p.Buffers[i].Boundary = []Boundary{None, Input, Output, Param}[rnd.IntN(4)]
				if rnd.IntN(8) == 0 && !p.Buffers[i].Fixed && len(p.Buffers[i].Gaps) == 0 {
					p.Buffers[i].Size = 0
				}
			}
			for i := range p.Buffers { // a quarter of each buffer, interleaved with three others
				b := &p.Buffers[i]
				v := View{Name: fmt.Sprint("v", i), Buffer: i, Offset: b.Size / 4, First: b.First, Last: b.Last}
				if rows := b.Size / 4; rows > 0 {
					v.Offset, v.Size, v.Strides = 1, rows, []Stride{{Count: rows, Step: 4}}
				}
				p.Views = append(p.Views, v)
			}
			o.Mode, o.AllocateParams = []Mode{Auto, BestFit, Remap}[rnd.IntN(3)], rnd.IntN(2) == 0
			if rnd.IntN(4) == 0 {
				o.Segment = 32
			}
			plan, err := Solve(p, o)
			if err != nil {
				return nil // fixed where a guard reaches
			}
			bounds, err := Bounds(p, plan.Options)
			require.NoError(t, err)
			return &File{Problem: p, Plan: plan, Bounds: bounds}
		}
		f := draw()
		if f == nil || len(f.Plan.Arenas) == 0 || len(f.Bounds[0].Buffers) == 0 {
			continue
		}
		require.NoError(t, f.Check(), "seed %d", seed)
		write(f, true, fmt.Sprintf("seed %d", seed))
		if seed >= mostForged {
			continue
		}
		i := rnd.IntN(len(f.Problem.Buffers))
		for name, forge := range forgeries {
			g := draw()
			if g.Plan.Slots[i].Arena == NoArena || !forge(g, i) {
				continue
			}
			if tenants, err := checkMemory(g.Problem, g.Plan); err == nil && name != "an arena with bytes to spare" {
				g.Plan.Metrics = metricsOf(g.Plan, tenants)
			}
			require.Error(t, g.Check(), "seed %d: %s", seed, name)
			write(g, false, fmt.Sprintf("seed %d: %s", seed, name))
		}
	}
	for seed := range uint64(80) {
		draw := func() (*File, *rand.Rand) {
			rnd := rand.New(rand.NewPCG(seed, 3))
			p, fast := drawUses(rnd, 8, 24)
			o := Options{AllocateInputs: true, Alignment: 1 << rnd.IntN(4), TailGuard: rnd.IntN(4) == 0, Budget: 1 << rnd.IntN(20)}
			if seed%4 == 0 {
				p, fast = spilled()
				return solved(t, p, fast, Options{AllocateInputs: true}), rnd
			}
			for i := range p.Buffers {
				p.Buffers[i].Boundary = []Boundary{None, None, Input, Output, Param}[rnd.IntN(5)]
			}
			return solved(t, p, fast, o), rnd
		}
		f, _ := draw()
		require.NoError(t, f.Check(), "seed %d", seed)
		write(f, true, fmt.Sprintf("two memories, seed %d", seed))
		for name, forge := range movesForged {
			if g, rnd := draw(); forge(g, rnd) {
				require.Error(t, g.Check(), "two memories, seed %d: %s", seed, name)
				write(g, false, fmt.Sprintf("two memories, seed %d: %s", seed, name))
				forged[name]++
			}
		}
	}
	for name := range movesForged {
		require.NotZero(t, forged[name], name)
	}
	require.Greater(t, len(paths), 2000)
	var said bytes.Buffer
	c := exec.CommandContext(t.Context(), python, append([]string{"verify_plan.py"}, paths...)...)
	c.Stdout, c.Stderr = &said, os.Stderr
	_ = c.Run() // it exits with 1, for some files are wrong
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	require.Len(t, lines, len(paths))
	accepted := 0
	for n, line := range lines {
		if right[n] {
			accepted++
		}
		require.Equal(t, right[n], strings.HasPrefix(line, "ok: "), "%s: %s", what[n], line)
	}
	t.Logf("%d right and %d forged certificates", accepted, len(paths)-accepted)
}

func solved(t *testing.T, p *Problem, fast int64, o Options) *File {
	f, err := SolveTwoMemories(t.Context(), p, fast, o)
	require.NoError(t, err)
	return f
}
