package kernel

import (
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPoolRunsEveryPartOnce(t *testing.T) {
	for _, threads := range []int{0, 1, 2, 3, 8} {
		p := NewPool(threads)
		for _, parts := range []int{0, 1, 2, 3, 7, 100} {
			for range 50 {
				counts := make([]int32, parts) // atomic only as far as the pool is right
				inUse := make([]atomic.Bool, max(1, threads))
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

// TestPoolOfVeryManyParts: they are several jobs where their numbers do not fit into the word of claims.
func TestPoolOfVeryManyParts(t *testing.T) {
	p := NewPool(3)
	defer p.Close()
	for _, parts := range []int{maxParts, maxParts + 1, 5*maxParts + 7} {
		counts := make([]int32, parts)
		p.Run(parts, func(part, worker int) { counts[part]++ })
		for part, n := range counts {
			require.Equal(t, int32(1), n, "part %d of %d", part, parts)
		}
	}
}

// TestPoolTakesFromTheSlow: the parts of a member that is busy are done by others.
func TestPoolTakesFromTheSlow(t *testing.T) {
	p := NewPool(2)
	defer p.Close()
	var others sync.WaitGroup
	others.Add(7)
	p.Run(8, func(part, worker int) { // ends only if the other member does the rest of this one's share
		if part == 0 {
			others.Wait()
		} else {
			others.Done()
		}
	})
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

// members are the threads that a team has.
func members(t *Team) int { return int(t.members.Load()) }

// TestTeamsShareTheWorkers: one team has all that it may, several share them out, and as many as there are processors have none.
func TestTeamsShareTheWorkers(t *testing.T) {
	small, large := NewPool(2), NewPool(8)
	defer small.Close()
	defer large.Close()
	size := scheduler.size
	require.GreaterOrEqual(t, size, 8)
	a, b, c := large.NewTeam(), large.NewTeam(), small.NewTeam()
	a.Enter(1)
	require.Equal(t, 8, members(a))
	b.Enter(1)
	require.Equal(t, [2]int{(size-2)/2 + 1, min(8, (size-2)-(size-2)/2+1)}, [2]int{members(a), members(b)})
	c.Enter(1)
	require.Equal(t, 2, members(c), "its pool has no more")
	require.LessOrEqual(t, members(a)+members(b)+members(c), size)
	// Each part waits for all others: what was dealt out comes, from other teams and from sleep.
	for _, team := range []*Team{a, b, c, a} {
		var met sync.WaitGroup
		met.Add(members(team))
		team.Run(members(team), func(int, int) {
			met.Done()
			met.Wait()
		})
	}
	b.Leave()
	c.Leave()
	a.Leave()
	a.Enter(1)
	b.Enter(3)
	require.Equal(t, [2]int{(size-2)/4 + 1, min(8, size-2-(size-2)/4+1)}, [2]int{members(a), members(b)}, "by their work")
	b.Leave()
	a.Leave()
	var alone []*Team
	for range size {
		alone = append(alone, large.NewTeam())
		alone[len(alone)-1].Enter(1)
	}
	for _, team := range alone {
		require.Equal(t, 1, members(team))
	}
	for _, w := range workers() {
		require.Nil(t, w.team.Load(), "nobody watches for jobs beside them")
	}
	for _, team := range alone {
		team.Leave()
	}
}

// TestTeamsComeAndGo: every part of every team runs once, by one member at a time, while workers move between teams.
func TestTeamsComeAndGo(t *testing.T) {
	p := NewPool(4)
	defer p.Close()
	var callers sync.WaitGroup
	for range 6 {
		callers.Go(func() {
			team := p.NewTeam()
			var inUse [4]atomic.Bool
			for round := range 200 {
				team.Enter(1)
				for range round % 4 {
					var counts [13]atomic.Int32
					team.Run(len(counts), func(part, worker int) {
						if inUse[worker].Swap(true) {
							t.Error("two parts at once on worker", worker)
						}
						counts[part].Add(1)
						inUse[worker].Store(false)
					})
					for i := range counts {
						if n := counts[i].Load(); n != 1 {
							t.Errorf("part %d ran %d times", i, n)
						}
					}
				}
				team.Leave()
			}
		})
	}
	callers.Wait()
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
	p.Run(8, func(part, worker int) {}) // and continues
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
	team := p.NewTeam()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		team.Enter(1)
		team.Run(10, fn)
		team.Leave()
	}))
}

// BenchmarkPoolRun is the time of a job of which each member does a part of nothing: for them all to begin, and to be done.
func BenchmarkPoolRun(b *testing.B) {
	for threads := 2; threads <= runtime.GOMAXPROCS(0); threads *= 2 {
		b.Run(strconv.Itoa(threads), func(b *testing.B) {
			p := NewPool(threads)
			defer p.Close()
			fn := func(part, worker int) {}
			team := p.NewTeam()
			team.Enter(1)
			defer team.Leave()
			for b.Loop() {
				team.Run(threads, fn)
			}
		})
	}
}

// TestFinishTimeSamples holds that an estimate looks at no more costs for millions of parts than for thousands.
func TestFinishTimeSamples(t *testing.T) {
	for _, parts := range []int{1 << 12, 1 << 20, 1 << 30} {
		calls := 0
		time := finishTime(parts, 4, func(int) int { calls++; return 1 })
		require.InEpsilon(t, parts/4, time, 0.01)
		require.LessOrEqual(t, calls, 1<<14)
	}
}
