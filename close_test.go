package rlxc

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/quantize"
	"github.com/rlxc/rlxc/tensor"
)

// TestErrorsReachCallers: what is wrong with an argument is an error of the call, with nothing beside it.
func TestErrorsReachCallers(t *testing.T) {
	m, err := stepModel(&watcher{at: map[string]unsafe.Pointer{}})
	require.NoError(t, err)
	defer m.Close()
	p, err := m.Compile(context.Background(), CompileOptions{})
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	texts, numbers := tensor.FromStrings([]string{"a"}), tensor.New(tensor.F32, 2, 2)
	calls := map[string]func() (any, error){
		"NewDeviceTensor":  func() (any, error) { return p.NewDeviceTensor(texts) },
		"NewGrowingTensor": func() (any, error) { return p.NewGrowingTensor(numbers, 5, 9) },
		"BindCache":        func() (any, error) { return s.BindCache(1, 9) },
		"Plan":             func() (any, error) { return p.Plan(map[string]int{"n": -1}) },
		"Run":              func() (any, error) { return s.Run(context.Background(), nil) },
		"RunPacked":        func() (any, error) { return s.RunPacked(context.Background(), PackedBatch{}) },
	}
	for name, call := range calls {
		out, err := call()
		require.ErrorIs(t, err, ErrInput, name)
		require.Zero(t, out, name)
	}
	require.NoError(t, s.Close())
	require.NoError(t, p.Close())
	calls["NewDeviceTensor"] = func() (any, error) { return p.NewDeviceTensor(numbers) }
	calls["NewGrowingTensor"] = func() (any, error) { return p.NewGrowingTensor(numbers, 1, 9) }
	calls["NewSession"] = func() (any, error) { return p.NewSession() }
	delete(calls, "BindCache") // which the model has none for
	for name, call := range calls {
		out, err := call()
		require.ErrorIs(t, err, ErrClosed, name)
		require.Zero(t, out, name)
	}
}

// TestClosed: what is closed says so, and what others still use continues.
func TestClosed(t *testing.T) {
	before := runtime.NumGoroutine()
	m, err := Open(saved(t, CompileOptions{}))
	require.NoError(t, err)
	p, err := m.Compile(context.Background(), CompileOptions{Threads: runtime.NumCPU()})
	require.NoError(t, err)
	a, err := p.NewSession()
	require.NoError(t, err)
	b, err := p.NewSession()
	require.NoError(t, err)

	require.NoError(t, m.Close())
	require.ErrorIs(t, m.Close(), ErrClosed)
	require.ErrorIs(t, m.Close(), os.ErrClosed)
	_, err = m.inspect()
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, m.VerifyFile(), ErrClosed)
	_, _, err = m.Quantize(context.Background(), QuantizeOptions{Form: quantize.Dynamic})
	require.ErrorIs(t, err, ErrClosed)
	_, err = m.Compile(context.Background(), CompileOptions{})
	require.ErrorIs(t, err, ErrClosed)
	require.NoError(t, p.Close())
	require.ErrorIs(t, p.Close(), ErrClosed)
	_, err = p.NewSession()
	require.ErrorIs(t, err, ErrClosed)
	_, err = p.Plan(map[string]int{"batch": 1, "seq": 8})
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, p.Save(filepath.Join(t.TempDir(), "x.rlxc")), ErrClosed)

	in := encoderInputs(1, 8)
	_, err = a.Run(context.Background(), in)
	require.NoError(t, err)
	require.NoError(t, a.Close())
	require.ErrorIs(t, a.Close(), ErrClosed)
	_, err = a.Run(context.Background(), in)
	require.ErrorIs(t, err, ErrClosed)
	_, err = b.Run(context.Background(), in)
	require.NoError(t, err, "the file stays mapped for b")
	require.NoError(t, b.Close())
	// Goroutines of the tests before this one may end meanwhile, and one that has ended counts for a moment more.
	for range 10_000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("%d goroutines, %d before: the workers have not ended", runtime.NumGoroutine(), before)
}
