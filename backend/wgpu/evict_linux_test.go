package wgpu_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/modeltest"
	"github.com/rlxc/rlxc/models"
)

// TestUploadedWeightsLeaveMemory: once weights are on the device, the pages of the model's file are not in the process. A step on the host
// would bring back what it reads.
func TestUploadedWeightsLeaveMemory(t *testing.T) {
	needLibrary(t)
	files, err := models.FS("bert-mini")
	require.NoError(t, err)
	folder := t.TempDir()
	require.NoError(t, os.CopyFS(folder, files))
	path := filepath.Join(folder, "model.onnx")
	m, err := rlxc.Open(path)
	require.NoError(t, err)
	defer m.Close()
	s := modeltest.Session(t, m, rlxc.CompileOptions{Backend: "wgpu"})
	_, err = s.Run(t.Context(), modeltest.BERT(1, 8, rand.New(rand.NewPCG(1, 2))))
	require.NoError(t, err)
	file, err := os.Stat(path)
	require.NoError(t, err)
	mapped, resident := mappingOf(t, path)
	require.Positive(t, mapped)
	require.Less(t, resident, file.Size()/4)
}

// mappingOf returns the bytes of address space that a file is mapped to, and how many of them are in memory.
func mappingOf(t *testing.T, path string) (mapped, resident int64) {
	t.Helper()
	all, err := os.ReadFile("/proc/self/smaps")
	require.NoError(t, err)
	number := func(line string) int64 {
		n, err := strconv.ParseInt(regexp.MustCompile(`\d+`).FindString(line), 10, 64)
		require.NoError(t, err)
		return n << 10
	}
	inside := false
	for line := range strings.Lines(string(all)) {
		switch {
		case regexp.MustCompile(`^[0-9a-f]+-[0-9a-f]+ `).MatchString(line):
			inside = strings.Contains(line, path)
		case inside && strings.HasPrefix(line, "Size:"):
			mapped += number(line)
		case inside && strings.HasPrefix(line, "Rss:"):
			resident += number(line)
		}
	}
	return mapped, resident
}
