package kernel

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPoolRunsEveryPartOnce(t *testing.T) {
	for _, threads := range []int{0, 1, 2, 3, 8} {
		p := NewPool(threads)
		require.Equal(t, max(1, threads), p.Threads())
		for _, parts := range []int{0, 1, 2, 3, 7, 100} {
			for range 50 {
				counts := make([]int32, parts) // atomic only as far as the pool is right
				inUse := make([]atomic.Bool, p.Threads())
				p.Run(parts, func(part, worker int) {
					if inUse[worker].Swap(true) {
						t.Error("two parts at once on worker", worker)
					}
					counts[part]++
					inUse[worker].Store(false)
				})
				for part, n := range counts {
					require.Equal(t, int32(1), n, "part %d of %d on %d threads", part, parts, threads)
				}
			}
		}
		p.Close()
	}
}

func TestPoolUsesItsWorkers(t *testing.T) {
	p := NewPool(3)
	defer p.Close()
	// Each part waits for all others: it ends only if three workers have come, from sleep too.
	for _, gap := range []time.Duration{0, 20 * time.Millisecond} {
		time.Sleep(gap)
		var met sync.WaitGroup
		met.Add(3)
		p.Run(3, func(part, worker int) {
			met.Done()
			met.Wait()
		})
	}
}

func TestPoolSharedByCallers(t *testing.T) {
	p := NewPool(2)
	var callers sync.WaitGroup
	var total atomic.Int64
	for range 4 {
		callers.Go(func() {
			for range 500 {
				p.Run(5, func(part, worker int) { total.Add(int64(part)) })
			}
		})
	}
	callers.Wait()
	require.EqualValues(t, 4*500*10, total.Load())
	p.Close()
	p.Close()
	p.Run(5, func(part, worker int) { total.Add(int64(part)) })
	require.EqualValues(t, 4*500*10+10, total.Load())
}

func TestPoolPassesPanicsOn(t *testing.T) {
	p := NewPool(2)
	defer p.Close()
	for bad := range 8 {
		var ran atomic.Int64
		require.PanicsWithValue(t, bad, func() {
			p.Run(8, func(part, worker int) {
				ran.Add(1)
				if part == bad {
					panic(bad)
				}
			})
		})
		require.EqualValues(t, 8, ran.Load())
	}
	p.Run(8, func(part, worker int) {}) // and goes on
}

func TestPoolCloseEndsWorkers(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 10 {
		NewPool(4).Close()
	}
	for range 1000 { // a worker that has said that it ends still has to return
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before)
}

func TestPoolAllocatesNothing(t *testing.T) {
	p := NewPool(2)
	defer p.Close()
	var sum atomic.Int64
	fn := func(part, worker int) { sum.Add(1) }
	require.Zero(t, testing.AllocsPerRun(100, func() { p.Run(10, fn) }))
}

func BenchmarkPoolRun(b *testing.B) {
	p := NewPool(min(2, runtime.GOMAXPROCS(0)))
	defer p.Close()
	fn := func(part, worker int) {}
	for b.Loop() {
		p.Run(4, fn)
	}
}
