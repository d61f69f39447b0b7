package cuda_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/drivertest"
	"github.com/rlxc/rlxc/internal/modeltest"
)

// TestWeightsLimit counts the memory of the device: weights and a session are within the limit and the plan. Without a limit of the caller,
// the limit follows from the memory that the device has free.
func TestWeightsLimit(t *testing.T) {
	peak := func(t *testing.T, limit int64, free int) (bytes, session int64) {
		t.Setenv("XDG_CACHE_HOME", t.TempDir())
		d := drivertest.New(t)
		d.Free = free
		p, err := modeltest.BuiltIn(t, "bert-tiny").Compile(t.Context(), rlxc.CompileOptions{Backend: "cuda", DeviceWeights: limit})
		require.NoError(t, err)
		defer p.Close()
		s, err := p.NewSession()
		require.NoError(t, err)
		defer s.Close()
		r := rand.New(rand.NewPCG(1, 2))
		for range 2 {
			_, err = s.Run(t.Context(), modeltest.BERT(1, 8, r))
			require.NoError(t, err)
		}
		return int64(d.Peak), s.MemoryBytes()
	}
	all, arena := peak(t, 0, 1<<33)
	for _, percent := range []int64{95, 80, 60, 50} {
		t.Run(fmt.Sprint(percent), func(t *testing.T) {
			limit := all * percent / 100
			got, session := peak(t, limit, 1<<33)
			require.LessOrEqual(t, got, limit+arena)
			require.Greater(t, session, arena, "no stream")
		})
	}
	t.Run("free memory", func(t *testing.T) {
		got, session := peak(t, 0, int(all*9/10))
		require.Less(t, got, all*9/10)
		require.Greater(t, session, arena, "no stream")
	})
}
