// Package conformance runs the backend node tests of ONNX against its manifest: manifest.txt says of every test that it
// passes, or why not. A test that passes without being listed as such fails the suite, and so does one that is listed and
// fails; what a backend cannot do stands in a list of its own beside it. go test ./conformance -update rewrites the lists.
package conformance

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
)

var update = flag.Bool("update", false, "rewrite the manifests to what passes now")

const manifestFile = "manifest.txt"

const manifestHeader = "# The backend node tests of onnx 1.23.2: test_name pass, or test_name and the reason why not.\n" +
	"# Written by: go test ./conformance -update\n"

// A runner is one way to run a model.
type runner struct {
	name    string
	options rlxc.CompileOptions
}

var runners = []runner{
	{"O0", rlxc.CompileOptions{Level: rlxc.O0, Threads: 1, Verify: true}},
	{"O2", rlxc.CompileOptions{Level: rlxc.O2, Threads: 1, Verify: true}},
}

// A crash is a panic in a run; no manifest excuses it.
type crash struct{ cause any }

func (c crash) Error() string { return fmt.Sprintf("panic: %v", c.cause) }

func (c *testCase) run(r runner) (err error) {
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
	graph := m.Proto().GetGraph()
	in, err := c.values("input", graph.GetInput())
	if err != nil {
		return err
	}
	want, err := c.values("output", graph.GetOutput())
	if err != nil {
		return err
	}
	p, err := m.Compile(r.options)
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
	listed := manifest{}
	if !*update {
		listed, err = readManifest(manifestFile)
		require.NoError(t, err)
		require.Len(t, listed, len(cases), "the manifest has a line for every test")
	}
	var mu sync.Mutex
	found := manifest{}
	t.Run("all", func(t *testing.T) {
		for _, r := range runners {
			for _, c := range cases {
				t.Run(r.name+"/"+c.name, func(t *testing.T) {
					t.Parallel()
					err := c.run(r)
					if p, ok := err.(crash); ok {
						t.Fatal(p)
					}
					verdict := passes
					if err != nil {
						verdict = c.reason(err)
					}
					mu.Lock()
					defer mu.Unlock()
					if old, ok := found[c.name]; !ok || old == passes {
						found[c.name] = verdict
					}
					switch {
					case *update:
					case listed[c.name] == "":
						t.Errorf("%s has no line for it", manifestFile)
					case listed[c.name] == passes && err != nil:
						t.Errorf("is listed as passing: %v", err)
					case listed[c.name] != passes && err == nil:
						t.Errorf("passes, but is listed with: %s", listed[c.name])
					}
				})
			}
		}
	})
	if !*update {
		return
	}
	if old, err := readManifest(manifestFile); err == nil {
		for name, verdict := range old {
			if strings.HasPrefix(verdict, leftOut) && found[name] != passes {
				found[name] = verdict
			}
		}
	}
	require.NoError(t, found.write(manifestFile, manifestHeader))
}
