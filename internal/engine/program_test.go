package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/artifact"
)

func TestSavedForAnotherBackend(t *testing.T) {
	f := &artifact.Info{Target: "wgpu/some GPU", Level: 2}
	require.NoError(t, serves(f, "wgpu", 2, false))
	require.ErrorContains(t, serves(f, "wgpu", 2, true), "does not say whether exactly")
	require.EqualError(t, serves(f, "cpu", 2, false), "the file was compiled for wgpu/some GPU: run it on backend wgpu, or compile the model again for backend cpu")
}
