package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTensorsOfTwoShapesRun(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out, "../../pipeline/testdata/minilm/onnx/model.onnx"))
	require.Contains(t, out.String(), "input input_ids: i64 [batch_size sequence_length]\n")
	require.Contains(t, out.String(), "output last_hidden_state: [1,4,32], 128 numbers\n")
	require.Contains(t, out.String(), "output last_hidden_state: [3,16,32], 1536 numbers\n")
}
