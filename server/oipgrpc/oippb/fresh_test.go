package oippb

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGeneratedCodeIsFresh(t *testing.T) {
	committed, err := os.ReadFile("open_inference.pb.go")
	require.NoError(t, err)
	for _, source := range []string{"../open_inference.proto", "../../../onnx/_gen/main.go", "../../../onnx/_gen/go.mod"} {
		_, err := os.ReadFile(source) // go test runs again when a file that the test has read changes
		require.NoError(t, err)
	}
	fresh := filepath.Join(t.TempDir(), "open_inference.pb.go")
	out, err := exec.Command("go", "run", "-C", "../../../onnx/_gen", ".", "../../server/oipgrpc/open_inference.proto", fresh).CombinedOutput()
	require.NoError(t, err, "%s", out)
	want, err := os.ReadFile(fresh)
	require.NoError(t, err)
	require.Equal(t, string(want), string(committed), "run go generate ./server/...")
}
