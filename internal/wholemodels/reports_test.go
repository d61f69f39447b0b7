package wholemodels

import (
	"archive/zip"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/tensor"
)

// TestReports runs small models that public reports of faults led to, at both ends of the levels. Each archive has the layout of a
// fixture, with the outputs of onnxruntime without optimisations. Those whose name begins with exact- need --exact.
func TestReports(t *testing.T) {
	t.Chdir(root)
	files, err := filepath.Glob("testdata/reports/*.zip")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".zip")
		z, err := zip.OpenReader(file)
		require.NoError(t, err)
		defer z.Close()
		for _, level := range levels {
			t.Run(fmt.Sprintf("%s/%s", name, level), func(t *testing.T) {
				m, err := rlxc.OpenFS(z, "model.onnx")
				require.NoError(t, err)
				defer m.Close()
				o := rlxc.CompileOptions{Level: level, Exact: strings.HasPrefix(name, "exact-")}
				recordedWith(t, m, z, o, requireEqual(t))
			})
		}
	}
}

// requireEqual holds an output to what onnxruntime computes: floats to a tolerance, with the same NaN and infinities, everything else
// exactly.
func requireEqual(t *testing.T) func(set, output string, got, want *tensor.Tensor) {
	return func(set, output string, got, want *tensor.Tensor) {
		require.Equal(t, want.String(), got.String(), output)
		if want.DType() == tensor.String {
			require.Equal(t, want.Strings(), got.Strings(), output)
			return
		}
		atol, rtol := 0.0, 0.0
		if want.DType().IsFloat() {
			atol, rtol = 1e-5, 1e-4
		}
		for i := range want.Len() {
			g, w := got.Float64(i), want.Float64(i)
			same := g == w || math.IsNaN(g) && math.IsNaN(w)
			require.True(t, same || math.Abs(g-w) <= atol+rtol*math.Abs(w) && !math.IsInf(w, 0),
				"%s: %s[%d] = %v, onnxruntime computes %v", set, output, i, g, w)
		}
	}
}
