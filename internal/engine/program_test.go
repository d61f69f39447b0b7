package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/artifact"
	"github.com/rlxc/rlxc/internal/options"
)

func TestSavedForAnotherBackend(t *testing.T) {
	f := &artifact.Info{Target: "wgpu/some GPU", Level: 2}
	require.NoError(t, serves(f, options.Compile{Backend: "wgpu", Level: "2"}))
	require.ErrorContains(t, serves(f, options.Compile{Backend: "wgpu", Level: "2", Exact: true}),
		"does not record whether --exact was set")
	require.EqualError(t, serves(f, options.Compile{Backend: "cpu", Level: "2", Exact: false}),
		"the file was compiled for wgpu/some GPU: run it on backend wgpu, or compile the model again for backend cpu")
}
