package wgpu_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/backend/wgpu"
	"github.com/rlxc/rlxc/internal/modeltest"
)

// TestStreamsWeights: weights that do not fit are copied in each run, with results of the same bits.
func TestStreamsWeights(t *testing.T) {
	needLibrary(t)
	for _, model := range []string{"bert-tiny", "bert-tiny-int4", "bert-tiny-qdq", "bert-tiny-fp16"} {
		t.Run(model, func(t *testing.T) { modeltest.StreamsWeights(t, "wgpu", model, []int64{95, 80, 70}) })
	}
}

// TestWeightsLimit counts the weights on the device. With a session's stream they are within the limit.
func TestWeightsLimit(t *testing.T) {
	needLibrary(t)
	run := func(t *testing.T, limit int64) (weights, session int64) {
		s := modeltest.Session(t, modeltest.BuiltIn(t, "bert-tiny"), rlxc.CompileOptions{Backend: "wgpu", DeviceWeights: limit})
		before := wgpu.WeightBytes()
		_, err := s.Run(t.Context(), modeltest.BERT(1, 8, rand.New(rand.NewPCG(1, 2))))
		require.NoError(t, err)
		return wgpu.WeightBytes() - before, s.MemoryBytes()
	}
	var all, arena int64
	t.Run("no limit", func(t *testing.T) { all, arena = run(t, 0) })
	for _, percent := range []int64{95, 80, 60, 50} {
		t.Run(fmt.Sprint(percent), func(t *testing.T) {
			limit := all * percent / 100
			weights, session := run(t, limit)
			require.Positive(t, weights)
			require.LessOrEqual(t, weights+session, limit+arena)
			require.Greater(t, session, arena, "no stream")
		})
	}
}
