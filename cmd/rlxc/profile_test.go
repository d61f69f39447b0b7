package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/ir"
)

func TestReferenceText(t *testing.T) {
	g, err := ir.Parse(`graph "" (%0: f32[3]) { %1 = neg(%0) %2 = cumsum(%1) {axis=0} %3 = neg(%2) return %3 }`)
	require.NoError(t, err)
	p := &profile{[]rlxc.StepTime{{Start: 0, End: 1 * time.Millisecond},
		{Start: 1 * time.Millisecond, End: 4 * time.Millisecond, Reference: true}}}
	require.Empty(t, referenceText(nil, p))
	require.Equal(t, "reference code, without kernels: cumsum, neg 2×", referenceText(g.Nodes, nil))
	require.Equal(t, "reference code, without kernels: cumsum, neg 2×; 75.0% of the time", referenceText(g.Nodes, p))
}

// TestFlopRate: in thousands of millions a second; empty where nothing was counted or measured.
func TestFlopRate(t *testing.T) {
	require.Equal(t, "1.5", flopRate(3e9, 2*time.Second))
	require.Empty(t, flopRate(0, time.Second))
	require.Empty(t, flopRate(1, 0))
}
