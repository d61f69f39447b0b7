package conformance

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const mlArchive = "testdata/ml-onnxruntime-1.32.0.tar.zst"

// TestMachineLearning: models of ai.onnx.ml's operators with random parameters compute what onnxruntime 1.32.0 computed for them,
// as testdata/ml.py recorded it.
func TestMachineLearning(t *testing.T) {
	cases, err := readCases(mlArchive)
	require.NoError(t, err)
	require.Greater(t, len(cases), 340)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { require.NoError(t, c.run("cpu")) })
	}
}
