package planner

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkTables prints what the planner reaches on public instances and on synthetic graphs beside the results of other planners, once
// with -benchtime 1x. Every plan is checked. One thread does the planning.
func BenchmarkTables(b *testing.B) {
	for _, s := range []struct {
		name  string
		print func(b *table)
	}{
		{"capacity", capacityTable}, {"anytime", anytimeTable}, {"large", largeTable}, {"scale", scaleTable}, {"training", trainingTable},
		{"repeat", repeatTable},
	} {
		b.Run(s.name, func(b *testing.B) {
			for b.Loop() {
				out := &table{b, tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)}
				s.print(out)
				out.cells.Flush()
				fmt.Println()
			}
		})
	}
}

type table struct {
	*testing.B
	cells *tabwriter.Writer
}

// row prints cells, tab separated.
func (b *table) row(cells ...any) {
	for _, c := range cells {
		fmt.Fprint(b.cells, c, "\t")
	}
	fmt.Fprintln(b.cells)
}

// read returns a public instance.
func (b *table) read(name string) *Problem {
	f, err := os.Open(filepath.Join(os.Getenv("RLXC_PLANNER_INSTANCES"), name+".csv"))
	require.NoError(b, err, "RLXC_PLANNER_INSTANCES names the folder of the instances")
	defer f.Close()
	p, err := ReadCSV(f)
	require.NoError(b, err)
	return p
}

// solve plans and checks. A capacity that is not met is no error here: the plan says so.
func (b *table) solve(p *Problem, o Options) (*Plan, time.Duration) {
	begin := time.Now()
	plan, err := Solve(p, o)
	took := time.Since(begin)
	if plan == nil {
		require.NoError(b, err)
	}
	require.NoError(b, Check(p, plan))
	return plan, took
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1e3) }

// minimalloc are the benchmark instances of google/minimalloc with the CPU seconds in which that
// solver meets the capacity, and what greedy by size with the best fit needs.
var minimalloc = []struct {
	name    string
	seconds string
	greedy  string
}{
	{"A", "4.46", "1.311"}, {"C", "0.60", "1.364"}, {"D", "2.37", "1.334"}, {"E", "3.36", "1.401"},
	{"F", "4.66", "1.375"}, {"G", "0.94", "1.332"}, {"K", "0.52", "1.327"},
}

const minimallocCapacity = 1 << 20

// capacityTable prints how long it takes to fit the instances into their capacity and into more.
func capacityTable(b *table) {
	factors := []float64{1, 1.02, 1.2}
	fmt.Println("Time to fit the minimalloc instances into so many times the capacity of 1048576 bytes")
	b.row("instance", "buffers", "1.00", "1.01", "1.02", "1.05", "1.20", "lower bound reached in", "minimalloc at 1.00")
	for _, m := range minimalloc {
		p := b.read(m.name + ".1048576")
		cells := []any{m.name, len(p.Buffers)}
		for _, f := range factors {
			limit := int64(minimallocCapacity * f)
			plan, took := b.solve(p, Options{Mode: Optimal, Capacity: limit})
			if plan.Committed > limit {
				cells = append(cells, fmt.Sprintf("not in %s", milliseconds(took)))
			} else {
				cells = append(cells, milliseconds(took))
			}
		}
		plan, took := b.solve(p, Options{Mode: Optimal})
		if plan.Ratio() > 1 {
			cells = append(cells, fmt.Sprintf("%.4f after %s", plan.Ratio(), milliseconds(took)))
		} else {
			cells = append(cells, milliseconds(took))
		}
		b.row(append(cells, m.seconds+" s")...)
	}
}

// anytimeTable prints the ratio to the lower bound that is reached within a time: the best of the
// budgets that end before.
func anytimeTable(b *table) {
	limits := []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, time.Second}
	fmt.Println("Arena/lower bound reached within a time")
	b.row("instance", "10 ms", "100 ms", "1 s", "greedy by size")
	for _, m := range minimalloc {
		p := b.read(m.name + ".1048576")
		best := make([]string, len(limits))
		for budget := int64(10_000); ; budget = budget * 5 / 4 {
			plan, took := b.solve(p, Options{Mode: Optimal, Budget: budget})
			for i, limit := range limits {
				if took <= limit {
					best[i] = fmt.Sprintf("%.4f", plan.Ratio())
				}
			}
			if took > limits[len(limits)-1] || plan.Ratio() == 1 {
				break
			}
		}
		b.row(m.name, best[0], best[1], best[2], m.greedy)
	}
}

// largeTable prints the instances of idealloc.
func largeTable(b *table) {
	fmt.Println("Instances of idealloc")
	b.row("instance", "buffers", "arena", "ratio", "time", "others")
	for _, i := range []struct{ name, others string }{
		{"resnet50", "minimalloc 1.0000 in 240 ms, greedy 1.0064 in 13 ms"},
		{"G_1", "minimalloc 1.0000 in 1.0 s, greedy 1.0028 in 7 ms"},
		{"Y_1", "greedy 1.0036 in 10.9 s"},
	} {
		p := b.read(i.name)
		plan, took := b.solve(p, Options{Mode: Optimal})
		b.row(i.name, len(p.Buffers), plan.Committed, fmt.Sprintf("%.4f", plan.Ratio()), milliseconds(took), i.others)
	}
}

// scaleTable prints how time and memory grow with the number of buffers.
func scaleTable(b *table) {
	fmt.Println("Synthetic graphs, mode auto")
	b.row("graph", "buffers", "ratio", "time", "planner bytes/buffer", "greedy by size, lowest gap")
	for _, s := range []struct {
		name   string
		make   func(int, uint64) *Problem
		n      int
		others string
	}{
		{"layered", layeredGraph, 10_000, "1.0001 in 19 ms"},
		{"layered", layeredGraph, 100_000, "1.0042 in 270 ms"},
		{"layered", layeredGraph, 1_000_000, "1.0010 in 4.5 s"},
		{"cut rectangle", pieces, 10_000, "1.33"},
		{"cut rectangle", pieces, 100_000, "1.29"},
	} {
		p := s.make(s.n, 1)
		o := Options{Mode: Auto}
		plan, took := b.solve(p, o)
		b.row(s.name, s.n, fmt.Sprintf("%.4f", plan.Ratio()), milliseconds(took), peakBytes(p, o)/int64(s.n), s.others)
	}
}

// peakBytes plans once more and returns the most bytes of heap above those of the problem itself,
// as a watcher beside it sees them.
func peakBytes(p *Problem, o Options) int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	base, peak := m.HeapAlloc, m.HeapAlloc
	done := make(chan struct{})
	go func() {
		defer close(done)
		Solve(p, o) // solved and checked before
	}()
	for {
		select {
		case <-done:
			return int64(peak - base)
		case <-time.After(2 * time.Millisecond):
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapAlloc)
		}
	}
}

// repeatTable prints whether plans repeat to the byte.
func repeatTable(b *table) {
	fmt.Println("Plans of 20 runs, shuffled, GOMAXPROCS 1 to 8")
	b.row("instance", "different plans")
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, m := range minimalloc {
		p := b.read(m.name + ".1048576")
		seen := map[uint64]bool{}
		for run := range 20 {
			runtime.GOMAXPROCS(1 + run%8)
			rnd := rand.New(rand.NewPCG(uint64(run), 0))
			rnd.Shuffle(len(p.Buffers), func(i, j int) { p.Buffers[i], p.Buffers[j] = p.Buffers[j], p.Buffers[i] })
			plan, _ := b.solve(p, Options{Mode: Optimal, Budget: 2_000_000})
			seen[fingerprint(p, plan)] = true
		}
		b.row(m.name, len(seen))
	}
}

// fingerprint hashes the offsets in the order of the ids.
func fingerprint(p *Problem, plan *Plan) uint64 {
	offsets := make([]int64, len(p.Buffers))
	for i, slot := range plan.Slots {
		offsets[p.Buffers[i].ID] = slot.Offset
	}
	h := fnv.New64a()
	fmt.Fprint(h, offsets)
	return h.Sum64()
}

// trainingTable prints what the two searching modes reach on steps of training, and what the plain ones do.
func trainingTable(b *table) {
	fmt.Println("Steps of training: ratio to the lower bound")
	b.row("graph", "buffers", "arena", "best-fit", "auto", "in", "optimal", "in")
	for _, c := range trainings {
		p := c.Problem()
		cells := []any{c.Name, len(p.Buffers)}
		for _, mode := range []Mode{TLSF, BestFit, Auto, Optimal} {
			plan, took := b.solve(p, Options{Mode: mode})
			cells = append(cells, fmt.Sprintf("%.4f", plan.Ratio()))
			if mode == Auto || mode == Optimal {
				cells = append(cells, milliseconds(took))
			}
		}
		b.row(cells...)
	}
}
