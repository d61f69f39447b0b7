//go:build emulated

package cuda_test

import (
	"os"
	"testing"

	"github.com/rlxc/rlxc/internal/drivertest"
)

// device makes one whose kernels the processor runs.
func device(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	d := drivertest.New(t)
	d.Capability, d.Run = 80, drivertest.NewEmulator(t, "_gen", os.Getenv("RLXC_CUDA_HEADERS")).Launch
}
