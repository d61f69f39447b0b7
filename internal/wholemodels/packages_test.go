package wholemodels

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/tensor"
)

// envPackages names the folder of the models that public packages carry, which models/scripts/packages.py makes.
const envPackages = "RLXC_PACKAGES"

// packages is how many models that script takes.
const packages = 20

// roundsActivations are the models that round activations to 8 bits in every run: a value in the middle between two steps may fall to
// either side, and moves what follows by far more than a rounding does.
var roundsActivations = map[string]bool{"ddddocr-old": true}

// TestPackages runs models as public packages have them at the recorded sizes: no result departs from onnxruntime's by more
// than 1e-4 of the largest.
func TestPackages(t *testing.T) {
	t.Chdir(root)
	folder := os.Getenv(envPackages)
	if folder == "" {
		t.Skip(envPackages + " is not set")
	}
	files, err := filepath.Glob(filepath.Join(folder, "*", "model.onnx"))
	require.NoError(t, err)
	require.Len(t, files, packages)
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		t.Run(name, func(t *testing.T) {
			tolerance := 1e-4
			if roundsActivations[name] {
				tolerance = 1e-2
			}
			m, err := rlxc.Open(file)
			require.NoError(t, err)
			defer m.Close()
			recorded(t, m, os.DirFS(filepath.Dir(file)), rlxc.O2, func(set, output string, got, want *tensor.Tensor) {
				largest, departure := 0.0, 0.0
				for i := range want.Len() {
					largest = max(largest, math.Abs(want.Float64(i)))
					departure = max(departure, math.Abs(got.Float64(i)-want.Float64(i)))
				}
				require.LessOrEqual(t, departure, tolerance*largest, "%s %s", set, output)
			})
		})
	}
}
