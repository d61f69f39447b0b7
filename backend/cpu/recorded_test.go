package cpu_test

import (
	"flag"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/backend/cpu"
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/internal/recorded"
	"github.com/rlxc/rlxc/ir"
)

var update = flag.Bool("update", false, "write testdata/steps.txt anew")

func allCases() map[string]string {
	return backendtest.Union(kernelCases, loopCases, backendtest.KernelCases, backendtest.QuantizedCases, backendtest.BitCases,
		backendtest.PickCases, backendtest.ConvCases, backendtest.OpaqueCases, backendtest.RecurrentCases, backendtest.AppendCases)
}

// TestRecordedSteps: into how many parts every case falls, and what memory it takes, is as recorded, at every level of this machine that
// differs from the one below. After a change: go test ./backend/cpu -run RecordedSteps -update, where there is AMX.
func TestRecordedSteps(t *testing.T) {
	all, found, below := allCases(), map[string]string{}, map[string]string{}
	for _, set := range sets() {
		d, err := cpu.Open(backend.Options{CPU: set.Level.String(), Threads: 4})
		require.NoError(t, err)
		defer d.Close()
		for name, text := range all {
			for _, s := range []int{5, 63} {
				g, err := ir.Parse(`graph "case" ` + text)
				require.NoError(t, err, name)
				_, err = d.Prepare(g)
				require.NoError(t, err, name)
				bound, err := g.Bind(ir.Binding{"s": s}, false)
				require.NoError(t, err, name)
				planned := backendtest.Plan(t, bound, d.Target())
				p, err := d.Load(planned)
				require.NoError(t, err, name)
				key := fmt.Sprintf("%s, s=%d", name, s)
				if steps := cpu.Steps(p, planned); steps != below[key] {
					below[key], found[fmt.Sprintf("%s, %v", key, set.Level)] = steps, steps
				}
			}
		}
	}
	if runtime.GOARCH == "amd64" {
		recorded.Keys(t, "testdata/steps.txt", *update, found)
	}
}

// TestRefused: numbers that Eval refuses are errors of the kernels.
func TestRefused(t *testing.T) {
	for _, level := range []string{"generic", ""} {
		d, err := cpu.Open(backend.Options{CPU: level, Threads: 2})
		require.NoError(t, err)
		require.Greater(t, backendtest.Refused(t, d, allCases()), 100)
		require.NoError(t, d.Close())
	}
}
