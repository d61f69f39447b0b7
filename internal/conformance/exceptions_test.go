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

const exceptionsFile = "exceptions.txt"

const exceptionsHeader = "# The backend node tests of onnx 1.23.2 that do not pass, each with the reason. All others pass.\n" +
	"# Written by: go test ./internal/conformance -update\n"

// leftOut begins the reasons of tests that are not meant to pass; -update keeps them.
const leftOut = "left out: "

// exceptions are the tests that do not pass, on any backend, and why. Lines of their file that begin with # are comments.
type exceptions map[string]string

func readExceptions() (exceptions, error) {
	f, err := os.Open(exceptionsFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	e := exceptions{}
	for s := bufio.NewScanner(f); s.Scan(); {
		line := strings.TrimSpace(s.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		name, reason, ok := strings.Cut(line, " ")
		if _, twice := e[name]; twice || !ok {
			return nil, fmt.Errorf("%s: %q is listed twice or without a reason", exceptionsFile, name)
		}
		e[name] = reason
	}
	return e, nil
}

// check compares the outcome of a run with what is listed.
func (e exceptions) check(t *testing.T, name string, err error) {
	reason, listed := e[name]
	switch {
	case errors.As(err, new(crash)):
		t.Error(err)
	case !listed && err != nil:
		t.Errorf("is no exception: %v", err)
	case listed && err == nil:
		t.Errorf("passes, but is listed with: %s", reason)
	}
}

// write writes the list of tests that failed; what is left out for good keeps its reason of before.
func (e exceptions) write(before exceptions) error {
	var b strings.Builder
	b.WriteString(exceptionsHeader)
	for _, name := range slices.Sorted(maps.Keys(e)) {
		reason := e[name]
		if strings.HasPrefix(before[name], leftOut) {
			reason = before[name]
		}
		fmt.Fprintf(&b, "%s %s\n", name, reason)
	}
	return os.WriteFile(exceptionsFile, []byte(b.String()), 0o644)
}

// reason puts an error into one line of bounded length, without the name of the test and without advice.
func (c *testCase) reason(err error) string {
	text := strings.TrimPrefix(err.Error(), c.name+": ")
	text, _, _ = strings.Cut(text, "\nregister a custom op")
	text = strings.Join(strings.Fields(text), " ")
	const most = 160
	if r := []rune(text); len(r) > most {
		text = string(r[:most]) + "…"
	}
	return text
}
