package arena

import (
	"sync"
	"testing"

	"github.com/rlxc/rlxc/planner"
	"github.com/stretchr/testify/require"
)

// TestPoolGivesEachSessionItsOwn runs many sessions at once, for the race detector too.
func TestPoolGivesEachSessionItsOwn(t *testing.T) {
	_, small := program(t, planner.Activations())
	_, large := program(t, planner.Inference())
	pool := NewPool(3)
	var sessions sync.WaitGroup
	for n := range 8 {
		sessions.Go(func() {
			for run := range 50 {
				l := small
				if (n+run)%3 == 0 {
					l = large
				}
				a := pool.Get(l)
				a.Poison(byte(n))
				for _, b := range a.Memory() {
					if b != byte(n) {
						t.Errorf("session %d sees the bytes of session %d", n, b)
						return
					}
				}
				pool.Put(a)
			}
		})
	}
	sessions.Wait()
	require.LessOrEqual(t, pool.Bytes(), 3*large.Size())
}
