package hub

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A disk that is full ends in an error that says so and names the file; what comes after works once there is room.
func TestFullDisk(t *testing.T) {
	const child = "HUB_TEST_FULL_DISK"
	if os.Getenv(child) == "" { // in a separate process: the limit is for all files, also for those of go test
		cmd := exec.Command(os.Args[0], "-test.run=^TestFullDisk$")
		cmd.Env = append(os.Environ(), child+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	h := newFakeHub(t)
	c := h.client()
	blob := filepath.Join(c.Cache, "models--acme--tiny", "blobs", shaHash(h.files["onnx/model.onnx"]))
	signal.Ignore(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
	full := limit
	full.Cur = 100_000 // what is beyond it fails as on a full disk
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full))
	_, err := c.Snapshot(t.Context(), testID, "", onlyModel)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	require.ErrorIs(t, err, syscall.EFBIG)
	require.ErrorContains(t, err, "onnx/model.onnx")
	require.NoFileExists(t, blob)
	s, err := c.Snapshot(t.Context(), testID, "", onlyModel)
	require.NoError(t, err)
	data, err := os.ReadFile(filepath.Join(s.Dir, "onnx", "model.onnx"))
	require.NoError(t, err)
	require.Equal(t, h.files["onnx/model.onnx"], data)
}

// A small file that cannot be put in place leaves nothing after.
func TestWriteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "refs", "main")
	require.NoError(t, os.MkdirAll(filepath.Join(path, "taken"), 0o777))
	require.Error(t, writeFile(path, []byte("x")))
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.NoError(t, writeFile(filepath.Join(path, "taken", "new"), []byte("x")))
}

// A cache that cannot be written serves what it has, whatever the hub says a revision is by now; what it lacks is an error.
func TestCacheThatCannotBeWritten(t *testing.T) {
	h := newFakeHub(t)
	c := h.client()
	_, err := c.Snapshot(t.Context(), testID, "", onlyModel)
	require.NoError(t, err)
	// The user may be root, who may write anywhere: files are where folders would be.
	dir := filepath.Join(c.Cache, "models--acme--tiny")
	for _, name := range []string{"refs", "blobs"} {
		require.NoError(t, os.Rename(filepath.Join(dir, name), filepath.Join(dir, name+".old")))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o444))
	}
	snapshot := filepath.Join(dir, "snapshots", testCommit, "onnx")
	require.NoError(t, os.Remove(filepath.Join(snapshot, "model.onnx")))
	require.NoError(t, os.WriteFile(filepath.Join(snapshot, "model.onnx"), h.files["onnx/model.onnx"], 0o444))
	path, err := c.File(t.Context(), testID, "main", "onnx/model.onnx")
	require.NoError(t, err)
	require.Equal(t, filepath.Join(snapshot, "model.onnx"), path)

	_, err = c.File(t.Context(), testID, "main", "config.json")
	require.ErrorIs(t, err, syscall.ENOTDIR)
	require.ErrorContains(t, err, c.Cache)

	c.Cache = filepath.Join(dir, "refs", "cache") // below a file
	_, err = c.Snapshot(t.Context(), testID, "", onlyModel)
	require.ErrorIs(t, err, syscall.ENOTDIR)
	require.ErrorContains(t, err, filepath.Join(dir, "refs"))
}
