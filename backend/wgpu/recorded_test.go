package wgpu

import (
	"flag"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/internal/native"
	"github.com/rlxc/rlxc/internal/recorded"
	"github.com/rlxc/rlxc/ir"
)

var update = flag.Bool("update", false, "write testdata/launches.txt anew")

// describe lists launches: shaders with workgroups and invocations, and sums of the source, and of parameters and segments.
func describe(b gpu.Binder) (list []string) {
	for _, l := range b.(*binder).launches {
		s := l.shader
		params := fmt.Sprint(s.params, s.checked, s.grown)
		for _, m := range s.memories {
			params += fmt.Sprint(m.segment, m.constant != nil, m.word)
		}
		list = append(list, fmt.Sprintf("%s %v/%d %08x %08x", s.name, l.groups, s.size, crc32.ChecksumIEEE([]byte(s.source())),
			crc32.ChecksumIEEE([]byte(params))))
	}
	return list
}

func allCases() map[string]string {
	return backendtest.Union(backendtest.KernelCases, backendtest.QuantizedCases, backendtest.BitCases, backendtest.PickCases,
		backendtest.ConvCases, backendtest.OpaqueCases, backendtest.RecurrentCases)
}

// TestRecordedLaunches: what is launched for every case on a CPU is as recorded. After a change: go test ./backend/wgpu -run
// RecordedLaunches -update
func TestRecordedLaunches(t *testing.T) {
	d := openBy(t, backend.Options{}, func(a *native.Adapter) {
		a.Limits.MaxStorageBufferBindingSize, a.Limits.MaxComputeWorkgroupStorageSize = 1<<27, 1<<15
	})
	if d.gpu.Adapter.Kind != native.CPU {
		return // others are tuned
	}
	found := map[string]string{}
	for name, text := range allCases() {
		for _, s := range []int{1, 33} {
			g, err := ir.Parse(`graph "case" ` + text)
			require.NoError(t, err, name)
			found[fmt.Sprintf("%s, s=%d", name, s)] = backendtest.Commands(t, d, d.Runtime, g, ir.Binding{"s": s}, describe)
		}
	}
	recorded.Keys(t, "testdata/launches.txt", *update, found)
}

// TestRefused: numbers that Eval refuses are errors of the kernels.
func TestRefused(t *testing.T) {
	require.Greater(t, backendtest.Refused(t, open(t, 0), allCases()), 30)
}
