package wgpu_test

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/tensor"
)

// packages are models as public packages have them (models/scripts/packages.py), with sizes at which none of their steps runs on the host.
// The others of that script agree as well, and take long without a GPU.
var packages = map[string]map[string]int{
	"magika":              {"unk__214": 1},
	"nudenet":             {"batch": 1, "height": 160, "width": 160},
	"ppocr-cls":           {"x.0": 1, "x.2": 48, "x.3": 64},
	"ppocr-rec":           {"DynamicDimension.0": 1, "DynamicDimension.1": 64},
	"silero-vad-sequence": {"sequence_length": 5},
}

// TestPackages runs them at the recorded sizes: no result departs from onnxruntime's by more than 1e-4 of the largest.
func TestPackages(t *testing.T) {
	needLibrary(t)
	folder := os.Getenv("RLXC_PACKAGES")
	if folder == "" {
		t.Skip("RLXC_PACKAGES is not set")
	}
	for name, dims := range packages {
		t.Run(name, func(t *testing.T) {
			m, err := rlxc.Open(filepath.Join(folder, name, "model.onnx"))
			require.NoError(t, err)
			defer m.Close()
			require.Empty(t, runRecorded(t, m, os.DirFS(filepath.Join(folder, name)), rlxc.O2, dims,
				func(set, output string, got, want *tensor.Tensor) {
					largest, departure := 0.0, 0.0
					for i := range want.Len() {
						largest = max(largest, math.Abs(want.Float64(i)))
						departure = max(departure, math.Abs(got.Float64(i)-want.Float64(i)))
					}
					require.LessOrEqual(t, departure, 1e-4*largest, "%s %s", set, output)
				}))
		})
	}
}
