//go:build emulated

package cuda_test

import (
	"flag"
	"testing"

	"github.com/rlxc/rlxc/internal/drivertest"
)

// device makes one whose kernels the processor runs.
func device(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	d := drivertest.New(t)
	d.Capability, d.Run = 80, drivertest.NewEmulator(t, "_gen", flag.Lookup("cuda-headers").Value.String()).Launch
}
