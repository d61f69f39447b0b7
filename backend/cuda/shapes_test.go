package cuda_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/drivertest"
	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/internal/modeltest"
)

// TestManyShapes serves small shapes after a large one: memory and graphs are given back.
func TestManyShapes(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	d := drivertest.New(t)
	d.Run = func(drivertest.Launch) {} // graphs copy
	manyShapes(t, 150)
	require.Less(t, d.Calls["cuStreamCreate"]-d.Calls["cuStreamDestroy_v2"], 100, "instances that nobody uses are gone")
}

// manyShapes runs a model at as many shapes.
func manyShapes(t *testing.T, n int) {
	p, err := modeltest.BuiltIn(t, "bert-tiny").Compile(context.Background(), rlxc.CompileOptions{Backend: "cuda"})
	require.NoError(t, err)
	defer p.Close()
	s, err := p.NewSession()
	require.NoError(t, err)
	defer s.Close()
	r := rand.New(rand.NewPCG(1, 2))
	run := func(batch, length int) {
		_, err := s.Run(context.Background(), modeltest.BERT(batch, length, r))
		require.NoError(t, err)
	}
	run(1, 1)
	before := s.MemoryBytes()
	run(64, 256)
	require.Greater(t, s.MemoryBytes(), before+gpu.Slack)
	for i := range n {
		run(1+i/200, 1+i%200)
		if i%50 == 0 {
			runtime.GC()
		}
	}
	for range gpu.IdleRuns {
		run(1, 1)
	}
	runtime.GC()
	require.Less(t, s.MemoryBytes(), before+2*gpu.Slack)
}
