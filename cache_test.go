package rlxc

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/models"
	"github.com/rlxc/rlxc/quantize"
	"github.com/rlxc/rlxc/tensor"
)

// TestShapesShareAPlan: two sessions that alternate among 30 shapes each have a plan each, and make no other after the first round.
func TestShapesShareAPlan(t *testing.T) {
	p, err := builtin(t).Compile(context.Background(), CompileOptions{Threads: 1})
	require.NoError(t, err)
	defer p.Close()
	var sessions [2]*Session
	for i := range sessions {
		sessions[i], err = p.NewSession()
		require.NoError(t, err)
		defer sessions[i].Close()
	}
	var first CacheStats
	for range 3 {
		for seq := 1; seq <= 30; seq++ {
			for i, s := range sessions {
				_, err := s.Run(context.Background(), encoderInputs(1+i, seq))
				require.NoError(t, err)
			}
		}
		stats := p.CacheStats()
		if first.Plans == 0 {
			first = stats
		}
		require.Equal(t, first, stats)
		require.Equal(t, 2, stats.Plans)
		require.LessOrEqual(t, stats.Planned, 4)
	}
}

// TestCacheLimit is a server's pattern: 8 sessions run 200 shapes, each in a separate order. The plans stay below their
// limit, and the heap below what that explains.
func TestCacheLimit(t *testing.T) {
	const limit, shapes, runs = 2 << 20, 200, 100
	p, err := builtin(t).Compile(context.Background(), CompileOptions{Threads: 1, CacheLimit: limit})
	require.NoError(t, err)
	defer p.Close()
	before := heapBytes()
	var all sync.WaitGroup
	for worker := range 8 {
		s, err := p.NewSession()
		require.NoError(t, err)
		defer s.Close()
		all.Go(func() {
			for i := range runs {
				k := (i + worker*runs) * 37 % shapes
				_, err := s.Run(context.Background(), encoderInputs(1+k%8, 1+k/8))
				if stats := p.CacheStats(); err != nil || stats.Bytes > limit {
					t.Errorf("%+v: %v", stats, err)
					return
				}
			}
		})
	}
	all.Wait()
	stats := p.CacheStats()
	t.Logf("%+v", stats)
	require.LessOrEqual(t, stats.Planned, 16)
	require.Zero(t, stats.Evicted)
	require.Less(t, heapBytes()-before, int64(2*limit+8<<20), "with the sessions' arenas")
}

// TestCacheCountsBytes compares what the cache counts with the growth of the heap.
func TestCacheCountsBytes(t *testing.T) {
	m := builtin(t)
	small, _, err := m.Quantize(context.Background(), QuantizeOptions{Form: quantize.Dynamic})
	require.NoError(t, err)
	quantized, err := FromProto(small, "quantized")
	require.NoError(t, err)
	defer quantized.Close()
	for name, m := range map[string]*Model{"float32": m, "int8": quantized} {
		for _, level := range []Level{O0, O2} {
			p, err := m.Compile(context.Background(), CompileOptions{Threads: 1, Level: level})
			require.NoError(t, err)
			s, err := p.NewSession()
			require.NoError(t, err)
			_, err = s.Run(context.Background(), encoderInputs(1, 20)) // the arena's size
			require.NoError(t, err)
			heap, counted := heapBytes(), p.CacheStats().Bytes
			for seq := range 19 {
				_, err := s.Run(context.Background(), encoderInputs(1, 1+seq))
				require.NoError(t, err)
			}
			heap, counted = heapBytes()-heap, p.CacheStats().Bytes-counted
			t.Logf("%s at -O %s: %d bytes are counted, the heap grew by %d", name, level, counted, heap)
			require.InEpsilon(t, heap, counted, 0.25, "%s at -O %s", name, level)
			require.NoError(t, s.Close())
			require.NoError(t, p.Close())
		}
	}
}

// heapBytes is the size of what is reachable.
func heapBytes() int64 {
	runtime.GC()
	runtime.GC() // what pools held before the first one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestMemoryLimitAfterShrinking: an arena that was given back counts no more.
func TestMemoryLimitAfterShrinking(t *testing.T) {
	largest := func(p *Program) int64 {
		r, err := p.Plan(map[string]int{"batch": 18, "seq": 256})
		require.NoError(t, err)
		return r.Plan.Committed
	}
	p, err := builtin(t).Compile(context.Background(), CompileOptions{})
	require.NoError(t, err)
	defer p.Close()
	p, err = builtin(t).Compile(context.Background(), CompileOptions{MemoryLimit: largest(p)})
	require.NoError(t, err)
	defer p.Close()
	s, err := p.NewSession()
	require.NoError(t, err)
	defer s.Close()
	for _, size := range [][2]int{{17, 256}, {1, 8}, {18, 256}} {
		_, err := s.Run(context.Background(), encoderInputs(size[0], size[1]))
		require.NoError(t, err)
	}
}

// BenchmarkAlternatingShapes runs two sessions by turns at 30 shapes each, all of which have run before.
func BenchmarkAlternatingShapes(b *testing.B) {
	p, err := builtin(b).Compile(context.Background(), CompileOptions{Threads: 1})
	require.NoError(b, err)
	defer p.Close()
	var sessions [2]*Session
	for i := range sessions {
		sessions[i], err = p.NewSession()
		require.NoError(b, err)
		defer sessions[i].Close()
	}
	round := func() {
		for seq := 1; seq <= 30; seq++ {
			for i, s := range sessions {
				if _, err := s.Run(context.Background(), encoderInputs(1+i, seq)); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	round()
	for b.Loop() {
		round()
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*60), "µs/run")
}

// BenchmarkNewLength runs an encoder of the steps of MiniLM at 32 lengths in turn: by a cache that has room for all of them, and by
// one that has room for few, so that each is new.
func BenchmarkNewLength(b *testing.B) {
	c, ok := models.Lookup("minilm-like")
	require.True(b, ok)
	c.Vocabulary, c.Hidden, c.Intermediate = 1000, 24, 96 // the same steps, and little work in them
	proto, err := models.Build(c)
	require.NoError(b, err)
	m, err := FromProto(proto, "minilm-like")
	require.NoError(b, err)
	defer m.Close()
	var inputs []Tensors
	for seq := range 32 {
		inputs = append(inputs, encoderInputs(1, 1+seq))
	}
	for _, x := range []struct {
		name  string
		cache int64
	}{{"old", 0}, {"new", 2 << 20}} {
		b.Run(x.name, func(b *testing.B) {
			p, err := m.Compile(context.Background(), CompileOptions{Threads: 1, CacheLimit: x.cache})
			require.NoError(b, err)
			defer p.Close()
			s, err := p.NewSession()
			require.NoError(b, err)
			defer s.Close()
			all := func() {
				for _, in := range inputs {
					if _, err := s.Run(context.Background(), in); err != nil {
						b.Fatal(err)
					}
				}
			}
			all()
			for b.Loop() {
				all()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(inputs))/1000, "µs/run")
			b.ReportMetric(float64(p.CacheStats().Planned), "plans")
		})
	}
}

// TestBoxesWriteOverQueries: attention writes over its queries where a size needs less by that, whatever a session's size before needed.
func TestBoxesWriteOverQueries(t *testing.T) {
	m, err := Open("pipeline/testdata/minilm/onnx/model.onnx")
	require.NoError(t, err)
	defer m.Close()
	p, err := m.Compile(t.Context(), CompileOptions{Threads: 1})
	require.NoError(t, err)
	defer p.Close()
	sizes := [][2]int{{6, 3}, {2, 38}, {1, 6}, {5, 33}, {31, 4}, {2, 15}}
	for i, first := range sizes {
		for _, second := range sizes[i+1:] {
			s, err := p.NewSession()
			require.NoError(t, err)
			least := int64(0)
			for _, n := range [][2]int{first, second} {
				in := Tensors{}
				for _, x := range p.Inputs() {
					in[x.Name] = tensor.New(tensor.I64, n[0], n[1])
				}
				_, err = s.Run(t.Context(), in)
				require.NoError(t, err)
				r, err := p.Plan(map[string]int{"batch_size": n[0], "sequence_length": n[1]})
				require.NoError(t, err)
				least = max(least, r.Plan.Committed)
			}
			require.LessOrEqual(t, s.MemoryBytes(), least+max(least/100, 2048), "%v, %v", first, second)
			require.NoError(t, s.Close())
		}
	}
}
