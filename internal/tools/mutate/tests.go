//go:build unix

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A test is one test of a package.
type test struct {
	Dir, Name, Binary string
	Flags             []string
	Took              time.Duration
	Reaches           map[int]bool
	Fails             bool // without a mutant: it proves nothing here
}

// atOnce calls f for all, as many at once as -jobs says.
func atOnce[T any](all []T, f func(T) error) error {
	var wait sync.WaitGroup
	errs, slots := make([]error, len(all)), make(chan struct{}, *jobs)
	for i, x := range all {
		slots <- struct{}{}
		wait.Go(func() {
			errs[i] = f(x)
			<-slots
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// known reads and writes what a file of the work folder keeps.
func known[T any](name string, x *T) error {
	text, err := os.ReadFile(filepath.Join(*work, name))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return cmp.Or(err, json.Unmarshal(text, x))
}

func keep(name string, x any) error {
	text, err := json.MarshalIndent(x, "", "\t")
	if err != nil {
		return err
	}
	file := filepath.Join(*work, name)
	return cmp.Or(os.WriteFile(file+".new", text, 0o666), os.Rename(file+".new", file))
}

// build compiles the tests of all packages, and runs each alone to see what it reaches.
func build(packages []pkg) (tests []*test, err error) {
	var mutex sync.Mutex
	traced := map[string]*test{}
	if err := known("tests.json", &traced); err != nil {
		return nil, err
	}
	err = atOnce(packages, func(p pkg) error {
		binary := filepath.Join(*work, strings.ReplaceAll(p.ImportPath, "/", "_"))
		if _, err := os.Stat(binary); err != nil || *again {
			out, err := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay(), "-o", binary,
				strings.TrimSuffix(p.ImportPath, testSuffix)).CombinedOutput()
			if err != nil {
				return fmt.Errorf("%s with its mutants does not compile: %w\n%s", p.ImportPath, err, out)
			}
		}
		names, flags, err := []byte(nil), []string{"-rapid.nofailfile"}, error(nil) // tests of properties leave nothing after
		for range 2 {
			cmd := exec.Command(binary, append(flags, "-test.list=^(Test|Fuzz|Example)")...)
			cmd.Dir = p.Dir
			if names, err = cmd.Output(); err == nil {
				break
			}
			flags = nil // a package without such tests
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.ImportPath, err)
		}
		mutex.Lock()
		defer mutex.Unlock()
		for _, name := range slices.Compact(slices.Sorted(strings.FieldsSeq(string(names)))) {
			t := cmp.Or(traced[p.Dir+" "+name], &test{Dir: p.Dir, Name: name, Binary: binary, Flags: flags})
			traced[p.Dir+" "+name], tests = t, append(tests, t)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return tests, cmp.Or(atOnce(tests, func(t *test) error {
		if t.Reaches != nil {
			return nil
		}
		return t.trace()
	}), keep("tests.json", traced))
}

// trace runs a test alone, which must pass, and takes down what it reaches and how long it takes.
func (t *test) trace() error {
	dir, err := os.MkdirTemp(*work, "trace")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	start := time.Now()
	out, err := command([]*test{t}, -1, *limit, "MUTATE_TRACE="+dir+"/trace")
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s of %s fails before anything is changed: %v\n%s\n", t.Name, t.Dir, err, out[max(0, len(out)-2000):])
	}
	t.Fails = err != nil
	t.Took, t.Reaches = time.Since(start), map[int]bool{}
	text, err := os.ReadFile(dir + "/trace")
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for _, line := range strings.Fields(string(text)) {
		k, err := strconv.Atoi(line)
		if err != nil {
			return err
		}
		t.Reaches[k] = true
	}
	return nil
}

// An outcome is what became of a mutant.
type outcome struct {
	Mutant, By string
	Took       time.Duration
	Left       int // tests that reach it and did not run for lack of time
}

// try runs the tests of every mutant, those of its package first, and prints what survives.
func try(drawn []*Mutant, binaries []pkg) error {
	var mutex sync.Mutex
	outcomes := map[int]outcome{}
	if err := known("outcomes.json", &outcomes); err != nil {
		return err
	}
	left := slices.DeleteFunc(slices.Clone(drawn), func(m *Mutant) bool {
		o, ok := outcomes[m.Number]
		return ok && (o.By != "" || !*again)
	})
	for _, own := range []bool{true, false} {
		tests, err := build(slices.DeleteFunc(slices.Clone(binaries), func(p pkg) bool {
			return !slices.ContainsFunc(left, func(m *Mutant) bool {
				return own == (p.Dir == m.Dir) && slices.ContainsFunc(p.Deps, func(d string) bool {
					path, _, _ := strings.Cut(d, " ") // a variant for a test is named after it
					return path == m.Package
				})
			})
		}))
		if err != nil {
			return err
		}
		err = atOnce(left, func(m *Mutant) error {
			start := time.Now()
			o := m.killer(tests, own)
			o.Mutant, o.Took = m.String(), time.Since(start)
			if o.By == "" && own {
				return nil
			}
			fmt.Fprintf(os.Stderr, "%5.1fs %3d %s (%s)\n", o.Took.Seconds(), m.Number, m, cmp.Or(o.By, "SURVIVED"))
			mutex.Lock()
			defer mutex.Unlock()
			outcomes[m.Number] = o
			return keep("outcomes.json", outcomes)
		})
		if err != nil {
			return err
		}
		left = slices.DeleteFunc(left, func(m *Mutant) bool { return outcomes[m.Number].By != "" })
	}
	alive := 0
	for _, m := range drawn {
		o := outcomes[m.Number]
		if o.By != "" {
			continue
		}
		alive++
		fmt.Printf("%d %s", m.Number, m)
		if o.Left > 0 {
			fmt.Printf(" (%d tests did not run)", o.Left)
		}
		fmt.Println()
	}
	fmt.Printf("%d of %d survive\n", alive, len(drawn))
	return nil
}

// slow tests run alone.
const slow = 2 * time.Second

// killer runs the tests that reach a mutant, those of its package or the others, until one fails.
func (m *Mutant) killer(tests []*test, own bool) (o outcome) {
	var near []*test
	for _, t := range tests {
		if t.Reaches[m.Number] && !t.Fails && own == (t.Dir == m.Dir) {
			near = append(near, t)
		}
	}
	slices.SortStableFunc(near, func(a, b *test) int {
		if a.Took <= slow && b.Took <= slow {
			return cmp.Or(cmp.Compare(a.Dir, b.Dir), cmp.Compare(a.Took, b.Took))
		}
		return cmp.Compare(a.Took, b.Took)
	})
	var took time.Duration
	for len(near) > 0 {
		n := 1
		for n < len(near) && near[n].Took <= slow && near[n].Binary == near[0].Binary && n < 40 {
			n++
		}
		sum := time.Duration(0)
		for _, t := range near[:n] {
			sum += t.Took
		}
		if took+sum > *limit {
			o.Left += n
		} else {
			took += sum
			if name, ok := fails(near[:n], m.Number, 10*sum+20*time.Second); ok {
				o.By = filepath.Base(near[0].Dir) + " " + name
				return o
			}
		}
		near = near[n:]
	}
	return o
}

var failed = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// fails runs tests of one binary with a mutant and names the first that fails, or that does not end.
func fails(tests []*test, number int, limit time.Duration) (string, bool) {
	out, err := command(tests, number, limit)
	if err == nil {
		return "", false
	}
	if m := failed.FindStringSubmatch(out); m != nil {
		return m[1], true
	}
	return tests[0].Name + " or one after it, which does not end or panics", true
}

func command(tests []*test, number int, limit time.Duration, env ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var names []string
	for _, t := range tests {
		names = append(names, t.Name)
	}
	flags := append(slices.Clone(tests[0].Flags), "-test.failfast", "-test.run=^("+strings.Join(names, "|")+")$")
	cmd := exec.CommandContext(ctx, tests[0].Binary, flags...)
	cmd.Dir = tests[0].Dir
	cmd.Env = append(append(os.Environ(), "MUTATE_SELECTED="+strconv.Itoa(number), "RLXC_VERIFY=1"), env...)
	cmd.WaitDelay = 5 * time.Second
	// What a test that ends early has started ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.CombinedOutput()
	if cmd.Process != nil {
		cmd.Cancel()
	}
	return string(out), err
}
