//go:build unix

// Command mutate changes the code at one point at a time and runs the tests that reach the change. What no test notices is what no
// test proves. It prints the changes that survive, and counts.
//
//	go -C internal/tools run ./mutate -n 150 -seed 1 -work /tmp/mutate
//	go -C internal/tools run ./mutate -n 100 -work /tmp/mutate-rewrite ./internal/rewrite
//
// Lines are drawn from the packages named, all that the command and the API consist of by default, and one change of each line.
//
// All mutants are compiled into the test binaries at once, by go test -overlay: nothing is written into the tree. A mutant is a
// variant of its function, which the environment of a run selects. Each test is first run alone to see which it reaches; of a
// mutant only those tests run, the quick ones first. Tests of other packages run only for mutants that survive these.
// What is known is in the folder of -work: a call continues where the last one ended. Survivors are tried again with -again, by
// tests that came since.
package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rlxc/rlxc/internal/tools/measure"
)

var (
	count = flag.Int("n", 150, "changes to try")
	seed  = flag.Uint64("seed", 1, "of the choice of changes")
	work  = flag.String("work", "", "a folder for what is built and known, named from the root (required)")
	jobs  = flag.Int("jobs", 2, "tests that run at once")
	limit = flag.Duration("limit", 5*time.Minute, "of the tests of one mutant: slow ones beyond it do not run")
	again = flag.Bool("again", false, "try survivors again, with rebuilt tests")
)

func main() {
	flag.Parse()
	if err := run(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// A pkg is what go list says of a package.
type pkg struct {
	Dir, ImportPath, Name string
	GoFiles, Deps         []string
}

// testSuffix ends the import path of a test binary.
const testSuffix = ".test"

func list(args ...string) (all []pkg, err error) {
	args = append([]string{"list", "-json=Dir,ImportPath,Name,GoFiles,Deps"}, args...)
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		return nil, err
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p pkg
		if err := d.Decode(&p); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

func run(args []string) error {
	if *work == "" {
		return fmt.Errorf("-work names no folder")
	}
	if err := os.Chdir(measure.Root); err != nil {
		return err
	}
	if err := os.MkdirAll(*work, 0o777); err != nil {
		return err
	}
	tree, err := list("-test", "./...")
	if err != nil {
		return err
	}
	own := map[string]bool{}
	for _, p := range tree {
		own[p.ImportPath] = true
	}
	binaries := slices.DeleteFunc(tree, func(p pkg) bool { return !strings.HasSuffix(p.ImportPath, testSuffix) })
	if len(args) == 0 {
		args = []string{"-deps", ".", "./cmd/rlxc"}
	}
	pkgs, err := list(args...)
	if err != nil {
		return err
	}
	pkgs = slices.DeleteFunc(pkgs, func(p pkg) bool { return !own[p.ImportPath] })
	sources := map[string]string{}
	drawn, err := draw(pkgs, sources)
	if err != nil {
		return err
	}
	drawn, err = compile(drawn, pkgs, sources)
	if err != nil {
		return err
	}
	return try(drawn, binaries)
}

// draw chooses lines, and one change of each: some more than are asked for, as some do not compile.
func draw(pkgs []pkg, sources map[string]string) ([]*Mutant, error) {
	var all [][]*Mutant // by line
	for _, p := range pkgs {
		for _, name := range p.GoFiles {
			file := filepath.Join(p.Dir, name)
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			if strings.HasPrefix(string(text), "// Code generated") || strings.HasSuffix(name, ".pb.go") {
				continue
			}
			sources[file] = string(text)
			found, err := mutants(p.ImportPath, p.Dir, file, string(text))
			if err != nil {
				return nil, err
			}
			lines := map[int][]*Mutant{}
			for _, m := range found {
				lines[m.Line] = append(lines[m.Line], m)
			}
			for _, line := range slices.Sorted(maps.Keys(lines)) {
				all = append(all, lines[line])
			}
		}
	}
	r := rand.New(rand.NewPCG(*seed, 0))
	var drawn []*Mutant
	for _, i := range r.Perm(len(all))[:min(*count*3/2, len(all))] {
		m := all[i][r.IntN(len(all[i]))]
		m.Number = len(drawn) + 1
		drawn = append(drawn, m)
	}
	return drawn, nil
}

var (
	mutantError = regexp.MustCompile(`mutant_(\d+)\.go:`)
	overlay     = func() string { return filepath.Join(*work, "overlay.json") }
)

// compile leaves out what does not compile, and writes the overlay of the rest.
func compile(drawn []*Mutant, pkgs []pkg, sources map[string]string) ([]*Mutant, error) {
	for {
		if err := write(drawn[:min(*count, len(drawn))], pkgs, sources); err != nil {
			return nil, err
		}
		out, err := exec.Command("go", "build", "-gcflags=-e", "-overlay", overlay(), "./...").CombinedOutput()
		if err == nil {
			return drawn[:min(*count, len(drawn))], nil
		}
		bad := map[int]bool{}
		for _, m := range mutantError.FindAllSubmatch(out, -1) {
			k, _ := strconv.Atoi(string(m[1]))
			bad[k] = true
		}
		if len(bad) == 0 {
			return nil, fmt.Errorf("the code with its mutants does not compile: %w\n%s", err, out)
		}
		drawn = slices.DeleteFunc(drawn, func(m *Mutant) bool { return bad[m.Number] })
	}
}

// write writes the packages with all mutants, and which file replaces which.
func write(drawn []*Mutant, pkgs []pkg, sources map[string]string) error {
	replace := map[string]string{}
	put := func(file, text string) error {
		replace[file] = filepath.Join(*work, fmt.Sprintf("source%d.go", len(replace)))
		return os.WriteFile(replace[file], []byte(text), 0o666)
	}
	for _, file := range slices.Sorted(maps.Keys(sources)) {
		var of []*Mutant
		for _, m := range drawn {
			if m.File == file {
				of = append(of, m)
			}
		}
		if len(of) > 0 {
			if err := put(file, variants(sources[file], of)); err != nil {
				return err
			}
		}
	}
	for _, p := range pkgs {
		if slices.ContainsFunc(drawn, func(m *Mutant) bool { return m.Dir == p.Dir }) {
			if err := put(filepath.Join(p.Dir, "mutate_selector.go"), fmt.Sprintf(selector, p.Name)); err != nil {
				return err
			}
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(overlay(), text, 0o666)
}

// variants is a file with its mutants.
func variants(text string, of []*Mutant) string {
	scopes := map[[2]int][]*Mutant{}
	for _, m := range of {
		at := [2]int{m.scope.start, m.scope.end}
		scopes[at] = append(scopes[at], m)
	}
	// A scope that is within another is changed first, so that the other takes it in.
	order := slices.SortedFunc(maps.Keys(scopes), func(a, b [2]int) int { return cmp.Or(b[0]-a[0], a[1]-b[1]) })
	original, grown := text, map[[2]int]int{}
	for _, at := range order {
		end := at[1]
		for inner, n := range grown {
			if inner[1] <= at[1] {
				end += n
			}
		}
		var ks, cases []string
		before := strings.Count(original[:at[0]], "\n") + 1
		value := fmt.Sprintf("/*line %s:%d:1*/", filepath.Base(of[0].File), before) + text[at[0]:end]
		for _, m := range scopes[at] {
			k := strconv.Itoa(m.Number)
			ks = append(ks, k)
			changed := "/*line mutant_" + k + ".go:1:1*/" + m.variant(original)
			if m.scope.kind == valueScope {
				value = "mutatePick(" + k + "," + changed + ", " + value + ")"
				continue
			}
			if m.scope.kind == noResultScope {
				changed += "\nreturn"
			}
			cases = append(cases, "case "+k+":\n"+changed+"\n")
		}
		if len(cases) > 0 {
			value = "\nif mutateSelected != 0 {\nswitch mutateSelected {\ncase -1: mutateReach(" + strings.Join(ks, ",") + ")\n" +
				strings.Join(cases, "") + "}\n}\n" + value
		}
		grown[at] = len(value) - (at[1] - at[0])
		for inner := range grown {
			if inner != at && inner[1] <= at[1] {
				delete(grown, inner)
			}
		}
		text = text[:at[0]] + value + text[end:]
	}
	return text
}

var label = regexp.MustCompile(`(?m)^\s*([a-zA-Z]\w*):\s*$`)

// variant is the scope of a mutant with its change, its labels renamed.
func (m *Mutant) variant(text string) string {
	changed := text[m.scope.start:m.start] + m.New + text[m.end:m.scope.end]
	for _, l := range label.FindAllStringSubmatch(changed, -1) {
		if l[1] != "default" {
			changed = regexp.MustCompile(`\b`+l[1]+`(:\s*\n|\s*\n)`).ReplaceAllString(changed, l[1]+strconv.Itoa(m.Number)+"$1")
		}
	}
	return changed
}
