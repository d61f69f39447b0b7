// Package conformance runs the backend node tests of ONNX. All of them must pass but those that exceptions.txt lists, and those must not.
// go test ./internal/conformance -update rewrites the list.
package conformance

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/inside"
	"github.com/rlxc/rlxc/onnx/onnxpb"
)

var update = flag.Bool("update", false, "rewrite the list of what does not pass")

// backends are run in this order; of what the first one fails, -update writes the list.
var backends = []string{"cpu"}

// levels are those that enclose every other level.
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

func (c *testCase) runAt(options rlxc.CompileOptions) error {
	got, outputs, err := c.results(options)
	if err != nil {
		return err
	}
	want, err := c.values("output", outputs)
	if err != nil {
		return err
	}
	for i, w := range want {
		name := outputs[i].GetName()
		if err := compare(got[name], w); err != nil {
			return fmt.Errorf("output %s %w", name, err)
		}
	}
	return nil
}

// results runs the test's model, and returns its outputs and their declarations.
func (c *testCase) results(options rlxc.CompileOptions) (got rlxc.Tensors, outputs []*onnxpb.ValueInfoProto, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = crash{fmt.Sprintf("%v\n%s", p, debug.Stack())}
		}
	}()
	m, err := rlxc.Read(bytes.NewReader(c.model), int64(len(c.model)), c.name)
	if err != nil {
		return nil, nil, err
	}
	defer m.Close()
	graph := inside.Proto(m).GetGraph()
	in, err := c.values("input", graph.GetInput())
	if err != nil {
		return nil, nil, err
	}
	p, err := m.Compile(context.Background(), options)
	if err != nil {
		return nil, nil, err
	}
	defer p.Close()
	s, err := p.NewSession()
	if err != nil {
		return nil, nil, err
	}
	defer s.Close()
	inputs := rlxc.Tensors{}
	for i, t := range in {
		inputs[graph.GetInput()[i].GetName()] = t
	}
	results, err := s.Run(context.Background(), inputs)
	got = rlxc.Tensors{}
	for name, t := range results {
		got[name] = t.Clone() // the session releases t
	}
	if err != nil && strings.Contains(err.Error(), "internal error") {
		err = crash{err}
	}
	return got, graph.GetOutput(), err
}

func TestNodes(t *testing.T) {
	cases, err := loadCases()
	require.NoError(t, err)
	require.Len(t, cases, 1884)
	listed, err := readExceptions()
	require.NoError(t, err)
	for name := range listed {
		require.True(t, slices.ContainsFunc(cases, func(c *testCase) bool { return c.name == name }), "%s lists %s, which is not a test",
			exceptionsFile, name)
	}
	for _, backend := range backends {
		device, err := openDevice(backend) // what the cases share is kept from one to the next
		require.NoError(t, err)
		found, ran := exceptions{}, 0
		var mu sync.Mutex
		t.Run(backend, func(t *testing.T) {
			for _, c := range cases {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					err := c.run(backend)
					mu.Lock()
					defer mu.Unlock()
					if ran++; err != nil {
						found[c.name] = c.reason(err)
					}
					if !*update || errors.As(err, new(crash)) {
						listed.check(t, c.name, err)
					}
				})
			}
		})
		require.NoError(t, device.Close())
		if *update && backend == backends[0] && ran == len(cases) {
			require.NoError(t, found.write(listed))
		}
	}
}
