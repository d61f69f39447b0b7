package conformance

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

const passes = "pass"

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

func (m manifest) write(file, header string) error {
	var b strings.Builder
	b.WriteString(header)
	for _, name := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&b, "%s %s\n", name, m[name])
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}

// reason puts an error into the words of a manifest: one line of bounded length, without the name of the test and without
// advice.
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
