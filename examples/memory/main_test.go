package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
)

// TestBatchesFit: what is printed is within the limit, longer sequences have smaller batches, and a small device fits none.
func TestBatchesFit(t *testing.T) {
	const model = "../../pipeline/testdata/minilm/onnx/model.onnx"
	const limit = 1 << 20
	o := rlxc.CompileOptions{CPU: "generic", Threads: 1} // every machine can plan this
	var out strings.Builder
	require.NoError(t, plan(t.Context(), &out, model, limit, o))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 3)
	last := 1024
	for _, line := range lines {
		var seq, batch int
		var arena, all int64
		const form = "sequence_length=%d: batch_size up to %d: an arena of %d bytes, %d with the weights"
		_, err := fmt.Sscanf(line, form, &seq, &batch, &arena, &all)
		require.NoError(t, err, line)
		require.Less(t, batch, last)
		require.LessOrEqual(t, all, int64(limit))
		require.Less(t, arena, all)
		last = batch
	}
	out.Reset()
	require.NoError(t, plan(t.Context(), &out, model, 1000, o))
	require.Equal(t, 3, strings.Count(out.String(), "not even a batch of 1 fits"))
}
