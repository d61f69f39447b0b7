package policy

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestProtobufIsFresh generates the Go code of every .proto file again and compares it with the committed file.
func TestProtobufIsFresh(t *testing.T) {
	t.Chdir(root)
	for _, f := range []struct{ source, committed string }{
		{"onnx/onnx.proto", "onnx/onnxpb/onnx.pb.go"},
		{"internal/artifact/artifact.proto", "internal/artifact/artifact.pb.go"},
		{"internal/oippb/open_inference.proto", "internal/oippb/open_inference.pb.go"},
	} {
		for _, read := range []string{f.source, "onnx/_gen/main.go", "onnx/_gen/go.mod"} {
			_, err := os.ReadFile(read) // go test runs again when a file that the test has read changes
			require.NoError(t, err)
		}
		fresh := filepath.Join(t.TempDir(), "fresh.pb.go")
		out, err := exec.Command("go", "run", "-C", "onnx/_gen", ".", "../../"+f.source, fresh).CombinedOutput()
		require.NoError(t, err, "%s", out)
		want, err := os.ReadFile(fresh)
		require.NoError(t, err)
		committed, err := os.ReadFile(f.committed)
		require.NoError(t, err)
		require.Equal(t, string(want), string(committed), "run go generate for %s", f.source)
	}
}
