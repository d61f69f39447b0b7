package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

func TestOperatorClipsAndCounts(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out, clipCount))
	require.Equal(t, "[0 0.5 1 1] [0 2]\n", out.String())
}

// TestOperatorWithAMistake: a panic in the kernel is an error that names its line, and other errors keep their identity.
func TestOperatorWithAMistake(t *testing.T) {
	op := clipCount
	op.Eval = func(in []*tensor.Tensor, _ ir.Attrs) ([]*tensor.Tensor, error) {
		return []*tensor.Tensor{in[len(in)]}, nil
	}
	err := run(t.Context(), new(strings.Builder), op)
	require.ErrorContains(t, err, "kernel of custom operator com.example.ClipCount panicked")
	require.ErrorContains(t, err, "main_test.go:")
	require.NotErrorIs(t, err, rlxc.ErrInternal)
}
