// Command mutate changes one condition of the code at a time and runs the tests nearest to it: a change that no test notices is
// a condition that nothing proves. It prints what survives, and a table by package.
//
//	go run ./internal/mutate -n 400 -seed 1 rewrite proof planner
//
// The changed file is put in place by go test -overlay: nothing is written into the tree. A change that does not compile does not
// count. With -log, what was tried is kept in a file, and a later run with the same seed goes on behind it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// nearest are the tests that are run for a package, nearest first, besides those of every package (last). A package that is not
// here has its own.
var nearest = map[string][][]string{
	"rewrite": {{"./rewrite", "-skip", "Fixtures|Exporters|Linear"}, {"./rewrite"}},
	"ir":      {{"./ir"}, {"./rewrite", "-skip", "Fixtures|Exporters|Linear"}, {"./lower"}},
	"lower":   {{"./lower"}, {"./conformance"}},
}

// last are the tests of whole models.
var last = [][]string{{"./internal/fuzzgraph"}, {".", "-run", "Exports|Contrib|Ops|Session|Policy|Example"}}

// A result is what became of a mutant.
type result struct {
	Mutant
	Outcome string // killed, survived or invalid
	By      string // the tests that killed it
	Seconds float64
}

func main() {
	n := flag.Int("n", 400, "mutants to try, over all packages")
	seed := flag.Uint64("seed", 1, "of the choice of mutants")
	log := flag.String("log", "", "a file of what was tried, which a later run goes on with")
	limit := flag.Duration("timeout", 3*time.Minute, "of one run of tests")
	budget := flag.Duration("budget", 0, "time for all of it; 0 for as long as it takes")
	near := flag.Bool("near", false, "run only the tests of the package itself")
	list := flag.Bool("list", false, "print the mutants and run nothing")
	flag.Parse()
	if err := run(flag.Args(), *n, *seed, *log, *limit, *budget, *near, *list); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(packages []string, n int, seed uint64, log string, limit, budget time.Duration, near, list bool) error {
	if len(packages) == 0 {
		return errors.New("name packages, such as rewrite or backend/cpu, or files")
	}
	var all []Mutant
	for _, p := range packages {
		ms, err := mutantsOf(p)
		if err != nil {
			return err
		}
		all = append(all, ms...)
	}
	r := rand.New(rand.NewPCG(seed, 0))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if list {
		for _, m := range all {
			fmt.Println(m)
		}
		return nil
	}
	results, err := readLog(log)
	if err != nil {
		return err
	}
	start := time.Now()
	tried := 0
	for _, m := range all {
		if tried == n {
			break
		}
		k := slices.IndexFunc(results, func(r result) bool { return r.Mutant == m })
		if k < 0 {
			if budget > 0 && time.Since(start) > budget {
				break
			}
			res, err := try(m, limit, near)
			if err != nil {
				return err
			}
			results = append(results, res)
			k = len(results) - 1
			if err := appendLog(log, res); err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "%-8s %5.1fs %s %s\n", res.Outcome, res.Seconds, m, res.By)
		}
		if results[k].Outcome != "invalid" {
			tried++
		}
	}
	report(results)
	return nil
}

// try runs the tests on a mutant until one of them fails.
func try(m Mutant, limit time.Duration, near bool) (result, error) {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(dir)
	file, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	original, err := filepath.Abs(m.File)
	if err != nil {
		return result{}, err
	}
	text, err := m.apply()
	if err != nil {
		return result{}, err
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {original: file}})
	if err != nil {
		return result{}, err
	}
	if err := errors.Join(os.WriteFile(file, text, 0o666), os.WriteFile(overlay, replace, 0o666)); err != nil {
		return result{}, err
	}
	start := time.Now()
	pkg := filepath.ToSlash(filepath.Dir(m.File))
	res := result{Mutant: m, Outcome: "survived"}
	if err := exec.Command("go", "build", "-overlay", overlay, "./"+pkg).Run(); err != nil {
		res.Outcome = "invalid"
		return res, nil
	}
	stages := nearest[pkg]
	if stages == nil {
		stages = [][]string{{"./" + pkg}}
	}
	if near {
		stages = stages[:1]
	} else {
		stages = append(slices.Clone(stages), last...)
	}
	for _, s := range stages {
		if _, err := os.Stat(s[0]); err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-overlay", overlay, "-vet=off", "-failfast", "-count=1", "-timeout", limit.String()}, s...)...)
		cmd.Env = append(os.Environ(), "RLXC_VERIFY=1")
		err := cmd.Run()
		cancel()
		if err != nil {
			res.Outcome, res.By = "killed", strings.Join(s, " ")
			break
		}
	}
	res.Seconds = time.Since(start).Seconds()
	return res, nil
}

func report(results []result) {
	type row struct{ killed, survived int }
	rows := map[string]*row{}
	var names []string
	var survivors []result
	for _, r := range results {
		p := filepath.ToSlash(filepath.Dir(r.File))
		if rows[p] == nil {
			rows[p] = &row{}
			names = append(names, p)
		}
		switch r.Outcome {
		case "killed":
			rows[p].killed++
		case "survived":
			rows[p].survived++
			survivors = append(survivors, r)
		}
	}
	slices.Sort(names)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PACKAGE\tMUTANTS\tKILLED\tSURVIVED")
	var total row
	for _, p := range names {
		r := rows[p]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", p, r.killed+r.survived, r.killed, r.survived)
		total.killed, total.survived = total.killed+r.killed, total.survived+r.survived
	}
	fmt.Fprintf(w, "all\t%d\t%d\t%d\n", total.killed+total.survived, total.killed, total.survived)
	w.Flush()
	for _, r := range survivors {
		fmt.Println(r.Mutant)
	}
}

func readLog(name string) (results []result, err error) {
	if name == "" {
		return nil, nil
	}
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var r result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		results = append(results, r)
	}
	return results, lines.Err()
}

func appendLog(name string, r result) error {
	if name == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	return errors.Join(json.NewEncoder(f).Encode(r), f.Close())
}
