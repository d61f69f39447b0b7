//go:build !race

package wgpu_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/modeltest"
)

// TestAllocations holds that runs after the first take nothing from the heap but what purego does when the library calls
// back, once a run.
func TestAllocations(t *testing.T) {
	needLibrary(t)
	s := modeltest.Session(t, modeltest.BuiltIn(t, "bert-tiny"), rlxc.CompileOptions{Backend: "wgpu"})
	in := modeltest.BERT(1, 8, rand.New(rand.NewPCG(1, 1)))
	var err error
	allocs := testing.AllocsPerRun(50, func() { _, err = s.Run(context.Background(), in) })
	require.NoError(t, err)
	require.Less(t, allocs, 3.0)
}
