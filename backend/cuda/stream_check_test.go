//go:build gpu || emulated

package cuda_test

import (
	"testing"

	"github.com/rlxc/rlxc/internal/modeltest"
)

// TestStreamsWeights: weights that do not fit are copied in each run, with results of the same bits.
func TestStreamsWeights(t *testing.T) {
	device(t)
	for _, model := range []string{"bert-tiny", "bert-tiny-int4"} {
		t.Run(model, func(t *testing.T) { modeltest.StreamsWeights(t, "cuda", model, []int64{80}) })
	}
}
