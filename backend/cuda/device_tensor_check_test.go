//go:build gpu || emulated

package cuda_test

import (
	"testing"

	"github.com/rlxc/rlxc/internal/modeltest"
)

// TestDeviceTensors holds tensors that stay on the device to ones that do not.
func TestDeviceTensors(t *testing.T) {
	device(t)
	modeltest.DeviceTensors(t, "cuda")
	modeltest.DecoderCache(t, "cuda")
	modeltest.DeviceTensorsBetween(t, "cuda", "cpu")
	modeltest.ResultsAsInputs(t, "cuda")
}
