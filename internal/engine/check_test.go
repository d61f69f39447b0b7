package engine

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// calledByCheck reports whether package check is among the callers.
func calledByCheck() bool {
	var callers [16]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	for {
		frame, more := frames.Next()
		if strings.Contains(frame.Function, "/internal/check.") {
			return true
		}
		if !more {
			return false
		}
	}
}

// TestRejectedPlans holds that a plan which the check rejects is counted and made again from scratch, and that a run fails with ErrInternal
// and the node's name if that is rejected too. The softmax asks for more scratch when the check asks than when planning did.
func TestRejectedPlans(t *testing.T) {
	src := text(`(%0 "x": f32[n,4]) { %1 = softmax(%0) {axis=1} return %1 as "y" }`)
	p, err := Compile(context.Background(), src, src.Graph, options.Compile{Level: options.O2})
	require.NoError(t, err)
	defer p.Close()
	device, lies := *p.target(), 0
	device.Kernels[ir.KindSoftmax].Scratch = func(*ir.Node) []int64 {
		if lies > 0 && calledByCheck() {
			lies--
			return []int64{128}
		}
		return []int64{64}
	}
	p.late, p.opts.LateReads = &device, 1
	s, err := p.NewSession()
	require.NoError(t, err)
	defer s.Close()
	run := func(n int) error {
		out, err := s.Run(context.Background(), map[string]*tensor.Tensor{"x": tensor.New(tensor.F32, n, 4)})
		if err == nil {
			require.Equal(t, float32(0.25), float32(out["y"].Float64(n)))
		}
		return err
	}
	require.NoError(t, run(2))
	require.Zero(t, p.CacheStats().Rejected)
	lies = 1
	require.NoError(t, run(3))
	require.Equal(t, 1, p.CacheStats().Rejected)
	require.Equal(t, 2, p.CacheStats().Planned)
	lies = 1 << 20
	err = run(4)
	require.ErrorIs(t, err, ErrInternal)
	require.ErrorContains(t, err, "(softmax): the scratch of")
	lies = 0
	require.NoError(t, run(5))
}
