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
func build(tree []pkg) (tests []*test, err error) {
	var mutex sync.Mutex
	if err := known("tests.json", &tests); err != nil {
		return nil, err
	}
	traced := map[string]*test{}
	for _, t := range tests {
		traced[t.Dir+" "+t.Name] = t
	}
	tests = nil
	tree = slices.DeleteFunc(tree, func(p pkg) bool { return len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 })
	err = atOnce(tree, func(p pkg) error {
		binary := filepath.Join(*work, strings.ReplaceAll(p.ImportPath, "/", "_")+".test")
		if _, err := os.Stat(binary); err != nil || *again {
			out, err := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay(), "-o", binary, p.ImportPath).CombinedOutput()
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
		var own []string
		for _, name := range strings.Fields(string(names)) {
			if !slices.Contains(own, name) {
				own = append(own, name)
				tests = append(tests, cmp.Or(traced[p.Dir+" "+name], &test{Dir: p.Dir, Name: name, Binary: binary, Flags: flags}))
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	n := 0
	return tests, cmp.Or(atOnce(tests, func(t *test) error {
		if t.Reaches != nil {
			return nil
		}
		if err := t.trace(); err != nil {
			return err
		}
		mutex.Lock()
		defer mutex.Unlock()
		if n++; n%20 == 0 {
			return keep("tests.json", tests)
		}
		return nil
	}), keep("tests.json", tests))
}

// trace runs a test alone, which must pass, and takes down what it reaches and how long it takes.
func (t *test) trace() error {
	dir, err := os.MkdirTemp(*work, "trace")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	start := time.Now()
	out, err := command([]*test{t}, -1, 45*time.Second, "MUTATE_TRACE="+dir+"/trace")
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

// try runs the tests of every mutant, and prints what survives.
func try(drawn []*Mutant, tests []*test) error {
	var mutex sync.Mutex
	outcomes := map[int]outcome{}
	if err := known("outcomes.json", &outcomes); err != nil {
		return err
	}
	err := atOnce(drawn, func(m *Mutant) error {
		mutex.Lock()
		o, ok := outcomes[m.Number]
		mutex.Unlock()
		if ok && (o.By != "" || !*again) {
			return nil
		}
		start := time.Now()
		o = m.killer(tests)
		o.Mutant, o.Took = m.String(), time.Since(start)
		fmt.Fprintf(os.Stderr, "%5.1fs %3d %s (%s)\n", o.Took.Seconds(), m.Number, m, cmp.Or(o.By, "SURVIVED"))
		mutex.Lock()
		defer mutex.Unlock()
		outcomes[m.Number] = o
		return keep("outcomes.json", outcomes)
	})
	if err != nil {
		return err
	}
	alive := 0
	for _, m := range drawn {
		if o := outcomes[m.Number]; o.By == "" {
			alive++
			fmt.Printf("%d %s", m.Number, o.Mutant)
			if o.Left > 0 {
				fmt.Printf(" (%d tests did not run)", o.Left)
			}
			fmt.Println()
		}
	}
	fmt.Printf("%d of %d survive\n", alive, len(drawn))
	return nil
}

// slow tests run alone.
const slow = 2 * time.Second

// killer runs the tests that reach a mutant until one fails.
func (m *Mutant) killer(tests []*test) (o outcome) {
	var near []*test
	for _, t := range tests {
		if t.Reaches[m.Number] && !t.Fails {
			near = append(near, t)
		}
	}
	rank := func(t *test) int {
		r := 0
		if t.Dir != m.Dir {
			r = 1
		}
		if t.Took > slow {
			r += 2
		}
		return r
	}
	slices.SortStableFunc(near, func(a, b *test) int {
		return cmp.Or(rank(a)-rank(b), cmp.Compare(a.Dir, b.Dir)*map[bool]int{true: 1}[rank(a) < 2], cmp.Compare(a.Took, b.Took))
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
	out, err := cmd.CombinedOutput()
	return string(out), err
}
