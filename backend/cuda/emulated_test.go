//go:build emulated

// Kernels on the processor, where there is no device: RLXC_CUDA_HEADERS=DIR go test -tags emulated ./backend/cuda. The headers are those
// of the generator's compiler (_gen/main.go).

package cuda

import (
	"fmt"
	"os"
	"testing"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/drivertest"
	"github.com/rlxc/rlxc/tensor"
)

// headersEnv names the folder with CUDA's headers.
const headersEnv = "RLXC_CUDA_HEADERS"

// The sizes of cases: few, as this takes time.
var caseSizes, rowSizes, attentionSizes = []int{1, 33}, []int{40}, []int{1, 129}

// unitSizes are those of products on matrix units, and runsMapped whether kernels run whose operands come by the copy engine.
var unitSizes = [][3]int{{33, 8, 8}, {66, 72, 128}, {40, 136, 776}}

const runsMapped = false

// onDevices calls a test for a device without tensor cores, and for two with them whose threads take their turns the other way around.
func onDevices(t *testing.T, o backend.Options, f func(t *testing.T, d *Device)) {
	emulator := drivertest.NewEmulator(t, "_gen", os.Getenv(headersEnv))
	for _, capability := range []int{75, 80, 90} {
		if capability == 75 && o.Precision != tensor.Invalid {
			continue
		}
		t.Run(fmt.Sprint(capability), func(t *testing.T) {
			t.Setenv("XDG_CACHE_HOME", t.TempDir())
			driver := drivertest.New(t)
			driver.Capability, driver.Run, emulator.Backwards = capability, emulator.Launch, capability != 75
			f(t, open(t, o))
		})
	}
}
