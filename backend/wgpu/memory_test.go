package wgpu

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/ir"
)

// TestMemoryGivesBack: a memory that a large shape has grown stays so for the shapes of a mixed load, and shrinks when only small
// ones come.
func TestMemoryGivesBack(t *testing.T) {
	d := open(t, 0)
	g, err := ir.Parse(`graph "g" (%0 "x": f32[s,1024]) { %1 = exp(%0) %2 = softmax(%1) {axis=1} return %2 as "y" }`)
	require.NoError(t, err)
	m := d.NewMemory().(*arena)
	defer m.Close()
	large, big := attach(t, d, m, g, 4000)
	small, little := attach(t, d, m, g, 3)
	run := func(in *instance) {
		t.Helper()
		x := big
		if in == small {
			x = little
		}
		_, err := in.Run(context.Background(), x)
		require.NoError(t, err)
	}
	run(small)
	before := m.Size()
	run(large)
	most := m.Size()
	require.Greater(t, most, before+memorySlack)
	for range 3 {
		for range idleRuns - 1 {
			run(small)
		}
		require.Equal(t, most, m.Size())
		run(large)
	}
	want, err := small.Run(context.Background(), little)
	require.NoError(t, err)
	first := want[0].Clone()
	for range idleRuns {
		run(small)
	}
	require.Equal(t, before, m.Size())
	require.LessOrEqual(t, m.staging.Size, small.stagingBytes())
	got, err := small.Run(context.Background(), little)
	require.NoError(t, err)
	require.Equal(t, first.Bytes(), got[0].Bytes())
	run(large)
	require.Equal(t, most, m.Size())
}

func TestHostMemory(t *testing.T) { backendtest.HostMemory(t, open(t, 0)) }
