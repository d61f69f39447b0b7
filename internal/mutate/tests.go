package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A stage is tests of a package: those that match run and not skip.
type stage struct{ pkg, run, skip string }

// A test is one test of a package under mutation.
type test struct {
	pkg, name, binary string
	flags             []string
	stage             int
	took              time.Duration
	reaches           map[int]bool // the conditions, by their first mutant
	kills             int
}

// slow tests run alone, after all others of their stage.
const slow = 2 * time.Second

// try runs mutants until the end, and reports which test killed each, empty where it survived.
func (p *mutable) try(sample []int, end time.Time, report func(m Mutant, by string) error) error {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	tests, err := p.build(dir)
	if err != nil {
		return err
	}
	for _, t := range tests {
		if err := t.trace(dir); err != nil {
			return err
		}
	}
	for _, k := range sample {
		if !time.Now().Before(end) {
			return nil
		}
		start, m := time.Now(), p.mutants[k]
		by := m.killer(tests, k+1)
		if by == "" {
			fmt.Fprintf(os.Stderr, "%5.1fs SURVIVED %s\n", time.Since(start).Seconds(), m)
		} else {
			fmt.Fprintf(os.Stderr, "%5.1fs killed   %s (%s)\n", time.Since(start).Seconds(), m, by)
		}
		if err := report(m, by); err != nil {
			return err
		}
	}
	return nil
}

// killer is the first test that fails with a mutant.
func (m Mutant) killer(tests []*test, number int) string {
	var near []*test
	for _, t := range tests {
		if t.reaches[m.condition] {
			near = append(near, t)
		}
	}
	slices.SortStableFunc(near, func(a, b *test) int {
		quick := func(t *test) int { return map[bool]int{true: 1}[t.took > slow] }
		return cmp.Or(a.stage-b.stage, quick(a)-quick(b), b.kills-a.kills, cmp.Compare(a.took, b.took))
	})
	for len(near) > 0 {
		n := 1
		for n < len(near) && near[n].took <= slow && near[n].stage == near[0].stage {
			n++
		}
		if name, ok := fails(near[:n], number); ok {
			for _, t := range near[:n] {
				if t.name == name {
					t.kills++
				}
			}
			return "./" + near[0].pkg + " " + name
		}
		near = near[n:]
	}
	return ""
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

// rapidFlags make tests of properties repeat themselves and leave nothing behind.
var rapidFlags = []string{"-rapid.seed=1", "-rapid.nofailfile"}

// build compiles the test binaries of all stages and lists their tests.
func (p *mutable) build(dir string) ([]*test, error) {
	overlay, err := p.overlay(dir)
	if err != nil {
		return nil, err
	}
	stages, ok := nearest[filepath.ToSlash(p.dir)]
	if !ok {
		stages = []stage{{p.dir, "", ""}}
	}
	var tests []*test
	for i, s := range stages {
		binary := filepath.Join(dir, "test"+strconv.Itoa(i))
		out, err := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, "./"+s.pkg).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("%s with its mutants does not compile: %w\n%s", s.pkg, err, out)
		}
		list := func(flags ...string) ([]byte, error) {
			cmd := exec.Command(binary, append(flags, "-test.list=^(Test|Fuzz|Example)")...)
			cmd.Dir = s.pkg
			return cmd.Output()
		}
		flags := rapidFlags
		names, err := list(flags...)
		if err != nil { // a package without such tests
			flags = nil
			names, err = list()
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.pkg, err)
		}
		run, skip := regexp.MustCompile(s.run), regexp.MustCompile(cmp.Or(s.skip, "^$"))
		var own []string
		for _, name := range strings.Fields(string(names)) {
			if run.MatchString(name) && !skip.MatchString(name) && !slices.Contains(own, name) {
				own = append(own, name)
				tests = append(tests, &test{pkg: s.pkg, name: name, binary: binary, flags: flags, stage: i})
			}
		}
	}
	return tests, nil
}

// trace runs a test alone, which must pass, and takes down the conditions that it comes to and how long it takes.
func (t *test) trace(dir string) error {
	file := filepath.Join(dir, "trace")
	if err := os.RemoveAll(file); err != nil {
		return err
	}
	start := time.Now()
	out, err := command([]*test{t}, traced, 10*time.Minute, EnvTrace+"="+file)
	if err != nil {
		return fmt.Errorf("%s of %s fails before anything is changed: %w\n%s", t.name, t.pkg, err, out)
	}
	t.took, t.reaches = time.Since(start), map[int]bool{}
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for _, line := range strings.Fields(string(text)) {
		k, err := strconv.Atoi(line)
		if err != nil {
			return err
		}
		t.reaches[k] = true
	}
	return nil
}

var failed = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// fails runs tests of one binary with a mutant and names the first that fails, or that does not end.
func fails(tests []*test, number int) (string, bool) {
	limit := 10 * time.Second
	for _, t := range tests {
		limit += 10 * t.took
	}
	out, err := command(tests, number, limit)
	if err == nil {
		return "", false
	}
	if m := failed.FindStringSubmatch(out); m != nil {
		return m[1], true
	}
	return tests[0].name + " or one after it, which does not end or panics", true
}

func command(tests []*test, number int, limit time.Duration, env ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var names []string
	for _, t := range tests {
		names = append(names, t.name)
	}
	cmd := exec.CommandContext(ctx, tests[0].binary,
		append(tests[0].flags, "-test.failfast", "-test.run=^("+strings.Join(names, "|")+")$")...)
	cmd.Dir = tests[0].pkg
	cmd.Env = append(os.Environ(), EnvMutant+"="+strconv.Itoa(number), "RLXC_VERIFY=1")
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
