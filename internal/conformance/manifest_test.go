package conformance

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

const (
	manifestFile = "manifest.txt"
	passes       = "pass"
)

// leftOut begins the reasons of tests that are not meant to pass; -update keeps them.
const leftOut = "left out: "

// A manifest is a text file of one line a test: its name, and "pass" or why it does not. Lines that begin with # are
// comments.
type manifest map[string]string

func readManifest(file string) (manifest, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m := manifest{}
	for s := bufio.NewScanner(f); s.Scan(); {
		line := strings.TrimSpace(s.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		name, verdict, ok := strings.Cut(line, " ")
		if _, twice := m[name]; twice || !ok {
			return nil, fmt.Errorf("%s: %q stands there twice or without a verdict", file, name)
		}
		m[name] = verdict
	}
	return m, nil
}

// check compares the outcome of a run with the test's line.
func (m manifest) check(t *testing.T, name string, err error) {
	verdict, ok := m[name]
	switch {
	case errors.As(err, new(crash)):
		t.Error(err)
	case !ok:
		t.Errorf("no list has a line for it; the outcome of its run is: %v", err)
	case verdict == passes && err != nil:
		t.Errorf("is listed as passing: %v", err)
	case verdict != passes && err == nil:
		t.Errorf("passes, but is listed with: %s", verdict)
	}
}

// update writes the outcomes of a backend: as the manifest, which was listed, or as a list of exceptions from it.
func (m manifest) update(listed manifest, backend string) error {
	if backend != backends[0] {
		maps.DeleteFunc(m, func(name, verdict string) bool { return listed[name] != passes || verdict == passes })
		return m.write(backend+".txt", exceptionsHeader)
	}
	for name, verdict := range listed {
		if strings.HasPrefix(verdict, leftOut) && m[name] != passes {
			m[name] = verdict
		}
	}
	return m.write(manifestFile, manifestHeader)
}

func (m manifest) write(file, header string) error {
	var b strings.Builder
	b.WriteString(header)
	for _, name := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&b, "%s %s\n", name, m[name])
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}

// verdict puts the result of a run into the words of a manifest: an error becomes one line of bounded length, without the
// name of the test and without advice.
func (c *testCase) verdict(err error) string {
	if err == nil {
		return passes
	}
	text := strings.TrimPrefix(err.Error(), c.name+": ")
	text, _, _ = strings.Cut(text, "\nregister a custom op")
	text = strings.Join(strings.Fields(text), " ")
	const most = 160
	if r := []rune(text); len(r) > most {
		text = string(r[:most]) + "…"
	}
	return text
}
