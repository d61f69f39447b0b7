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
	modeltest.DeviceTensorsBetween(t, "cuda", "cpu")
	modeltest.ResultsAsInputs(t, "cuda")
}

// TestCut runs programs of one segment and such as are cut: growing caches, profiles, and batches without padding.
func TestCut(t *testing.T) {
	device(t)
	modeltest.DecoderCache(t, "cuda")
	modeltest.UnpadCut(t, "cuda")
}
