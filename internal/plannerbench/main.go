// Command bench prints what the planner reaches on public instances and on synthetic graphs, beside
// the figures of other planners. Every plan is checked. One thread does the planning.
//
//	go run ./internal/plannerbench [-instances DIR] [-only capacity,anytime,large,scale,training,repeat]
package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rlxc/rlxc/planner"
)

// sections are the tables, in the order in which they are printed.
var sections = []struct {
	name  string
	print func(b *bench) error
}{
	{"capacity", capacity},
	{"anytime", anytime},
	{"large", large},
	{"scale", scale},
	{"training", training},
	{"repeat", repeat},
}

func main() {
	var names []string
	for _, s := range sections {
		names = append(names, s.name)
	}
	folder := flag.String("instances", cmp.Or(os.Getenv("RLXC_PLANNER_INSTANCES"), filepath.Join("..", "shared", "planner")),
		"folder of the CSV instances (default from RLXC_PLANNER_INSTANCES)")
	only := flag.String("only", strings.Join(names, ","), "tables to print")
	flag.Parse()
	for _, s := range sections {
		if !slices.Contains(strings.Split(*only, ","), s.name) {
			continue
		}
		b := &bench{folder: *folder, table: tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)}
		if err := s.print(b); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		b.table.Flush()
		fmt.Println()
	}
}

// bench prints one table.
type bench struct {
	folder string
	table  *tabwriter.Writer
}

// row prints cells of a table, tab separated.
func (b *bench) row(cells ...any) {
	for _, c := range cells {
		fmt.Fprint(b.table, c, "\t")
	}
	fmt.Fprintln(b.table)
}

// read returns an instance of the folder.
func (b *bench) read(name string) (*planner.Problem, error) {
	f, err := os.Open(filepath.Join(b.folder, name+".csv"))
	if err != nil {
		return nil, fmt.Errorf("%w: name the folder of the instances with -instances or RLXC_PLANNER_INSTANCES", err)
	}
	defer f.Close()
	p, err := planner.ReadCSV(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return p, nil
}

// solve plans and checks. A capacity that is not met is no error here: the plan says so.
func solve(p *planner.Problem, o planner.Options) (*planner.Plan, time.Duration, error) {
	begin := time.Now()
	plan, err := planner.Solve(p, o)
	took := time.Since(begin)
	if plan == nil {
		return nil, took, err
	}
	return plan, took, planner.Check(p, plan)
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

// capacity prints how long it takes to fit the instances into their capacity and into more.
func capacity(b *bench) error {
	factors := []float64{1, 1.01, 1.02, 1.05, 1.2}
	fmt.Println("Time to fit the minimalloc instances into so many times the capacity of 1048576 bytes")
	b.row("instance", "buffers", "1.00", "1.01", "1.02", "1.05", "1.20", "lower bound reached in", "minimalloc at 1.00")
	for _, m := range minimalloc {
		p, err := b.read(m.name + ".1048576")
		if err != nil {
			return err
		}
		cells := []any{m.name, len(p.Buffers)}
		for _, f := range factors {
			limit := int64(minimallocCapacity * f)
			plan, took, err := solve(p, planner.Options{Mode: planner.Optimal, Capacity: limit})
			if err != nil {
				return err
			}
			if plan.Committed > limit {
				cells = append(cells, fmt.Sprintf("not in %s", milliseconds(took)))
			} else {
				cells = append(cells, milliseconds(took))
			}
		}
		plan, took, err := solve(p, planner.Options{Mode: planner.Optimal})
		if err != nil {
			return err
		}
		if plan.Ratio() > 1 {
			cells = append(cells, fmt.Sprintf("%.4f after %s", plan.Ratio(), milliseconds(took)))
		} else {
			cells = append(cells, milliseconds(took))
		}
		b.row(append(cells, m.seconds+" s")...)
	}
	return nil
}

// anytime prints the ratio to the lower bound that is reached within a time: the best of the
// budgets that end before.
func anytime(b *bench) error {
	limits := []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, time.Second}
	fmt.Println("Arena/lower bound reached within a time")
	b.row("instance", "10 ms", "100 ms", "1 s", "greedy by size")
	for _, m := range minimalloc {
		p, err := b.read(m.name + ".1048576")
		if err != nil {
			return err
		}
		best := make([]string, len(limits))
		for budget := int64(10_000); ; budget = budget * 5 / 4 {
			plan, took, err := solve(p, planner.Options{Mode: planner.Optimal, Budget: budget})
			if err != nil {
				return err
			}
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
	return nil
}

// large prints the instances of idealloc.
func large(b *bench) error {
	fmt.Println("Instances of idealloc")
	b.row("instance", "buffers", "arena", "ratio", "time", "others")
	for _, i := range []struct{ name, others string }{
		{"resnet50", "minimalloc 1.0000 in 240 ms, greedy 1.0064 in 13 ms"},
		{"G_1", "minimalloc 1.0000 in 1.0 s, greedy 1.0028 in 7 ms"},
		{"Y_1", "greedy 1.0036 in 10.9 s"},
	} {
		p, err := b.read(i.name)
		if err != nil {
			return err
		}
		plan, took, err := solve(p, planner.Options{Mode: planner.Optimal})
		if err != nil {
			return err
		}
		b.row(i.name, len(p.Buffers), plan.Committed, fmt.Sprintf("%.4f", plan.Ratio()), milliseconds(took), i.others)
	}
	return nil
}
