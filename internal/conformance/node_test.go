// Package conformance runs the backend node tests of ONNX against its manifest: manifest.txt says of every test that it
// passes, or why not. A test that passes without being listed as such fails the suite, and so does one that is listed and
// fails; what a backend cannot do stands in a list of its own beside it. go test ./conformance -update rewrites the lists.
package conformance

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/inside"
)

var update = flag.Bool("update", false, "rewrite the lists to what passes now")

const manifestHeader = "# The backend node tests of onnx 1.23.2: test_name pass, or test_name and the reason why not.\n" +
	"# Written by: go test ./conformance -update\n"

const exceptionsHeader = "# What manifest.txt has as passing and this backend cannot do: test_name and the reason.\n" +
	"# Written by: go test ./conformance -update\n"

// backends are run in this order; the manifest is what the first one passes, the others have lists of exceptions.
var backends = []string{"cpu"}

// levels are those between which every other level lies.
var levels = []rlxc.Level{rlxc.O0, rlxc.O2}

// A crash is a panic in a run, which the backend may have turned into an error; no list excuses it.
type crash struct{ cause any }

func (c crash) Error() string { return fmt.Sprintf("panic: %v", c.cause) }

// run compiles and runs the test's model at every level and returns the first thing that is wrong.
func (c *testCase) run(backend string) error {
	for _, level := range levels {
		if err := c.runAt(rlxc.CompileOptions{Backend: backend, Level: level, Threads: 1, Verify: true}); err != nil {
			return err
		}
	}
	return nil
}

func (c *testCase) runAt(options rlxc.CompileOptions) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = crash{fmt.Sprintf("%v\n%s", p, debug.Stack())}
		}
	}()
	m, err := rlxc.Read(bytes.NewReader(c.model), int64(len(c.model)), c.name)
	if err != nil {
		return err
	}
	defer m.Close()
	graph := inside.Proto(m).GetGraph()
	in, err := c.values("input", graph.GetInput())
	if err != nil {
		return err
	}
	want, err := c.values("output", graph.GetOutput())
	if err != nil {
		return err
	}
	p, err := m.Compile(context.Background(), options)
	if err != nil {
		return err
	}
	defer p.Close()
	s, err := p.NewSession()
	if err != nil {
		return err
	}
	defer s.Close()
	inputs := rlxc.Tensors{}
	for i, t := range in {
		inputs[graph.GetInput()[i].GetName()] = t
	}
	got, err := s.Run(context.Background(), inputs)
	if err != nil && strings.Contains(err.Error(), "internal error") {
		return crash{err}
	}
	if err != nil {
		return err
	}
	for i, w := range want {
		name := graph.GetOutput()[i].GetName()
		if err := compare(got[name], w); err != nil {
			return fmt.Errorf("output %s %w", name, err)
		}
	}
	return nil
}

func TestNodes(t *testing.T) {
	cases, err := loadCases()
	require.NoError(t, err)
	require.Len(t, cases, 1884)
	listed, err := readManifest(manifestFile)
	require.NoError(t, err)
	for name := range listed {
		require.True(t, slices.ContainsFunc(cases, func(c *testCase) bool { return c.name == name }), "%s lists %s, which is no test",
			manifestFile, name)
	}
	for _, backend := range backends {
		want := maps.Clone(listed)
		if backend != backends[0] {
			exceptions, err := readManifest(backend + ".txt")
			require.NoError(t, err)
			maps.Copy(want, exceptions)
		}
		device, err := openDevice(backend) // what the cases share is kept from one to the next
		require.NoError(t, err)
		found := manifest{}
		var mu sync.Mutex
		t.Run(backend, func(t *testing.T) {
			for _, c := range cases {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					err := c.run(backend)
					mu.Lock()
					defer mu.Unlock()
					found[c.name] = c.verdict(err)
					if !*update || errors.As(err, new(crash)) {
						want.check(t, c.name, err)
					}
				})
			}
		})
		require.NoError(t, device.Close())
		if *update && len(found) == len(cases) {
			require.NoError(t, found.update(listed, backend))
		}
	}
}
