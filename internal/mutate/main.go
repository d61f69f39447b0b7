// Command mutate changes one condition of the code at a time and runs the tests nearest to it: a change that no test notices is a
// condition that nothing proves. It prints what survives, and a table by package.
//
//	go run ./internal/mutate -n 400 -seed 1 rewrite proof planner
//
// All mutants of a package are compiled into its test binaries at once, by go test -overlay: nothing is written into the tree. Each
// is then a run of these binaries with EnvMutant set.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// A stage is a run of tests: those of a package that match run and not skip.
type stage struct{ pkg, run, skip string }

// String is the stage as go test would be called.
func (s stage) String() string {
	t := "./" + s.pkg
	if s.run != "" {
		t += " -run " + s.run
	}
	if s.skip != "" {
		t += " -skip " + s.skip
	}
	return t
}

// rules are the quick tests of rewriting.
var rules = stage{"rewrite", "", "Fixtures|Exporters|Linear|Dump"}

// nearest are the stages for a package, nearest first. A package that is not here has its own tests and the last stages.
var nearest = map[string][]stage{
	"rewrite": {rules, {"rewrite", "Fixtures", ""}},
	"ir":      {{"ir", "", ""}, rules, {"lower", "", ""}},
	"lower":   {{"lower", "", ""}, {"conformance", "", ""}},
}

// last are the tests of whole models.
var last = []stage{{".", "Exports|Contrib|Ops|Session|Policy|Artifact|Quant", ""}}

// A result is what became of a mutant.
type result struct {
	Mutant
	by string // the tests that killed it; empty where it survived
}

func main() {
	n := flag.Int("n", 400, "mutants to try, over all packages")
	seed := flag.Uint64("seed", 1, "of the choice of mutants")
	limit := flag.Duration("timeout", 2*time.Minute, "of one run of tests")
	near := flag.Bool("near", false, "run only the stage that is nearest")
	build := flag.String("build", "", "a folder for the packages' own test binaries and the lists of their mutants, to be run elsewhere; nothing is run")
	flag.Parse()
	if *build != "" {
		if err := buildAll(flag.Args(), *build); err != nil {
			fmt.Fprintln(os.Stderr, "mutate:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(flag.Args(), *n, *seed, *limit, *near); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(dirs []string, n int, seed uint64, limit time.Duration, near bool) error {
	if len(dirs) == 0 {
		return errors.New("name packages, such as rewrite or backend/cpu")
	}
	total := 0
	var all []*mutable
	for _, dir := range dirs {
		p, err := mutablePackage(filepath.Clean(dir))
		if err != nil {
			return err
		}
		all, total = append(all, p), total+len(p.mutants)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PACKAGE\tCONDITIONS\tMUTANTS\tKILLED\tSURVIVED")
	var survivors []Mutant
	tried := 0
	for _, p := range all {
		share := min(len(p.mutants), (n*len(p.mutants)+total-1)/total)
		results, err := p.try(share, seed, limit, near)
		if err != nil {
			return err
		}
		killed := 0
		for _, r := range results {
			if r.by != "" {
				killed++
			} else {
				survivors = append(survivors, r.Mutant)
			}
		}
		tried += len(results)
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\n", p.dir, len(p.mutants), len(results), killed, len(results)-killed)
	}
	fmt.Fprintf(w, "all\t%d\t%d\t%d\t%d\n", total, tried, tried-len(survivors), len(survivors))
	w.Flush()
	for _, m := range survivors {
		fmt.Println(m)
	}
	return nil
}

// buildAll compiles each package's tests with its mutants, as PACKAGE.test, and lists these in PACKAGE.txt by number, from 1.
func buildAll(dirs []string, to string) error {
	for _, dir := range dirs {
		p, err := mutablePackage(filepath.Clean(dir))
		if err != nil {
			return err
		}
		texts, err := os.MkdirTemp("", "mutate")
		if err != nil {
			return err
		}
		defer os.RemoveAll(texts)
		overlay, err := p.overlay(texts)
		if err != nil {
			return err
		}
		name := filepath.Join(to, strings.ReplaceAll(filepath.ToSlash(p.dir), "/", "-"))
		if out, err := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", name+".test", "./"+p.dir).CombinedOutput(); err != nil {
			return fmt.Errorf("%s with its mutants does not compile: %w\n%s", p.dir, err, out)
		}
		var list strings.Builder
		for i, m := range p.mutants {
			fmt.Fprintf(&list, "%d %s\n", i+1, m)
		}
		if err := os.WriteFile(name+".txt", []byte(list.String()), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// try runs a sample of a package's mutants.
func (p *mutable) try(n int, seed uint64, limit time.Duration, near bool) ([]result, error) {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	overlay, err := p.overlay(dir)
	if err != nil {
		return nil, err
	}
	stages, ok := nearest[filepath.ToSlash(p.dir)]
	if !ok {
		stages = []stage{{p.dir, "", ""}}
	}
	if near {
		stages = stages[:1]
	} else {
		stages = append(stages[:len(stages):len(stages)], last...)
	}
	binaries := map[string]string{}
	for _, s := range stages {
		if binaries[s.pkg] == "" {
			binaries[s.pkg] = filepath.Join(dir, "test"+strconv.Itoa(len(binaries)))
			out, err := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binaries[s.pkg], "./"+s.pkg).CombinedOutput()
			if err != nil {
				return nil, fmt.Errorf("%s with its mutants does not compile: %w\n%s", s.pkg, err, out)
			}
		}
		if out, ok := s.pass(binaries[s.pkg], 0, limit); !ok {
			return nil, fmt.Errorf("go test %s fails before anything is changed:\n%s", s, out)
		}
	}
	var results []result
	for _, k := range rand.New(rand.NewPCG(seed, 0)).Perm(len(p.mutants))[:n] {
		r := result{Mutant: p.mutants[k]}
		start := time.Now()
		for _, s := range stages {
			if _, ok := s.pass(binaries[s.pkg], k+1, limit); !ok {
				r.by = s.String()
				break
			}
		}
		results = append(results, r)
		outcome := "survived"
		if r.by != "" {
			outcome = "killed"
		}
		fmt.Fprintf(os.Stderr, "%-8s %5.1fs %s (%s)\n", outcome, time.Since(start).Seconds(), r.Mutant, r.by)
	}
	return results, nil
}

// overlay writes the package's text with all its mutants and what go test needs to read it in place of the files.
func (p *mutable) overlay(dir string) (string, error) {
	replace := map[string]string{}
	for file, text := range p.files {
		original, err := filepath.Abs(file)
		if err != nil {
			return "", err
		}
		changed := filepath.Join(dir, strconv.Itoa(len(replace))+".go")
		replace[original] = changed
		if err := os.WriteFile(changed, []byte(text), 0o666); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, text, 0o666)
}

// pass runs the stage with a mutant selected and reports whether all tests passed, with what they said.
func (s stage) pass(binary string, selected int, limit time.Duration) (string, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.failfast", "-test.run="+s.run, "-test.skip="+s.skip)
	cmd.Dir = s.pkg
	cmd.Env = append(os.Environ(), EnvMutant+"="+strconv.Itoa(selected), "RLXC_VERIFY=1")
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err == nil
}
