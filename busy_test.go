package rlxc_test

import (
	"context"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/modeltest"
	"github.com/rlxc/rlxc/tensor"
)

// gate is a context that is asked, once a step, whether to continue: it lets the test in meanwhile.
type gate struct {
	context.Context
	meanwhile func()
}

func (g gate) Err() error {
	g.meanwhile()
	return nil
}

// step is the input of a step of the decoder.
func step() rlxc.Tensors { return rlxc.Tensors{"x": tensor.New(tensor.F32, 1, 1, 8)} }

// decoderCalls returns a decoder, a session with a cache, and a call of each method that fails while another goroutine uses the session.
func decoderCalls(t *testing.T) (*rlxc.Program, *rlxc.Session, map[string]func() error) {
	m, err := rlxc.FromProto(modeltest.Decoder(2, 2, 4), "decoder")
	require.NoError(t, err)
	p, err := m.Compile(t.Context(), rlxc.CompileOptions{Threads: 1, Profile: true})
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	c, err := s.BindCache(1, 1<<12)
	require.NoError(t, err)
	k, err := p.NewGrowingTensor(tensor.New(tensor.F32, 1, 2, 0, 4), 2, 8)
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, close := range []func() error{s.Close, c.Close, k.Close, p.Close, m.Close} {
			require.NoError(t, close())
		}
	})
	run := func() error { _, err := s.Run(t.Context(), step()); return err }
	return p, s, map[string]func() error{
		"Run": run,
		"RunPacked": func() error {
			_, err := s.RunPacked(t.Context(), rlxc.PackedBatch{Starts: []int{0, 1}, Inputs: step()})
			return err
		},
		"BindInput":      func() error { return s.BindInput("past.0.key", k) },
		"BindOutput":     func() error { return s.BindOutput("present.0.key", k) },
		"BindCache":      func() error { _, err := s.BindCache(1, 8); return err },
		"Close":          s.Close,
		"Cache.Truncate": func() error { return c.Truncate(0) },
		"Cache.Close":    c.Close,
	}
}

// TestBusySession: during a run, every method of the session and of its cache fails with ErrBusy, but for those that report, and the run
// continues.
func TestBusySession(t *testing.T) {
	_, s, calls := decoderCalls(t)
	for method := range reflect.TypeOf(s).Methods() {
		if method.Name != "MemoryBytes" && method.Name != "Profile" {
			require.Contains(t, calls, method.Name)
		}
	}
	_, err := s.Run(t.Context(), step())
	require.NoError(t, err)
	require.NotNil(t, s.Profile())
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			asked, held := 0, s.MemoryBytes()
			require.Positive(t, held)
			_, err := s.Run(gate{t.Context(), func() {
				asked++
				err := call()
				require.ErrorIs(t, err, rlxc.ErrBusy)
				require.Equal(t, "another goroutine uses the session: make one for each", strings.Split(err.Error(), "\n")[0])
				require.Equal(t, held, s.MemoryBytes())
				require.Nil(t, s.Profile())
			}}, step())
			require.NoError(t, err)
			require.Positive(t, asked)
		})
	}
}

// TestBusyDeviceTensor: during a run of a session that a device tensor is bound to, every method of the tensor fails with ErrBusy, as
// does a run of another session that it is bound to, and the run continues.
func TestBusyDeviceTensor(t *testing.T) {
	p, s, _ := decoderCalls(t)
	k, err := p.NewGrowingTensor(tensor.New(tensor.F32, 1, 2, 0, 4), 2, 8)
	require.NoError(t, err)
	other, err := p.NewSession()
	require.NoError(t, err)
	defer other.Close()
	for _, s := range []*rlxc.Session{s, other} {
		require.NoError(t, s.BindInput("past.0.key", k))
		require.NoError(t, s.BindOutput("present.0.key", k))
	}
	calls := map[string]func() error{
		"Tensor":   func() error { _, err := k.Tensor(); return err },
		"Type":     func() error { _, _, err := k.Type(); return err },
		"ReadAt":   func() error { _, err := k.ReadAt(make([]byte, 1), 0); return err },
		"WriteAt":  func() error { _, err := k.WriteAt(make([]byte, 1), 0); return err },
		"Truncate": func() error { return k.Truncate(0) },
		"Close":    k.Close,
	}
	for method := range reflect.TypeOf(k).Methods() {
		require.Contains(t, calls, method.Name)
	}
	calls["Run of another session"] = func() error { _, err := other.Run(t.Context(), step()); return err }
	positions := 0
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			asked := 0
			_, err := s.Run(gate{t.Context(), func() {
				asked++
				require.ErrorIs(t, call(), rlxc.ErrBusy)
			}}, step())
			require.NoError(t, err)
			require.Positive(t, asked)
			_, shape, err := k.Type()
			require.NoError(t, err)
			positions++
			require.Equal(t, []int{1, 2, positions, 4}, shape)
		})
	}
	require.NoError(t, k.Close())
}

// TestSharedSession calls every method while another goroutine runs the session, for the race detector: each call succeeds, or it fails
// with ErrBusy and changes nothing, so that the runs go on.
func TestSharedSession(t *testing.T) {
	_, s, calls := decoderCalls(t)
	for _, name := range []string{"Close", "Cache.Close", "BindInput", "BindOutput", "BindCache"} { // runs after one that succeeds fail
		delete(calls, name)
	}
	calls["MemoryBytes"] = func() error { s.MemoryBytes(); return nil }
	calls["Profile"] = func() error { s.Profile(); return nil }
	var all sync.WaitGroup
	for name, call := range calls {
		all.Go(func() {
			for range 200 {
				if err := call(); err != nil && name != "RunPacked" { // which needs a program without padding
					require.ErrorIs(t, err, rlxc.ErrBusy, name)
				}
			}
		})
	}
	all.Wait()
}

// TestBindCacheBindsAllOrNothing: a cache that cannot be bound leaves the session as it was.
func TestBindCacheBindsAllOrNothing(t *testing.T) {
	_, s, _ := decoderCalls(t)
	_, err := s.Run(gate{t.Context(), func() {
		_, err := s.BindCache(1, 8)
		require.ErrorIs(t, err, rlxc.ErrBusy)
	}}, step())
	require.NoError(t, err)
	_, err = s.Run(t.Context(), step()) // by the cache that was bound before
	require.NoError(t, err)
}
