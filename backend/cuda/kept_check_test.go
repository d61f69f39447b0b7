//go:build gpu || emulated

package cuda_test

import (
	"testing"

	"github.com/rlxc/rlxc/internal/modeltest"
)

// TestKept holds tensors that stay on the device to ones that do not.
func TestKept(t *testing.T) {
	device(t)
	modeltest.Kept(t, "cuda")
	modeltest.KeptDecoder(t, "cuda")
	modeltest.KeptBetween(t, "cuda", "cpu")
	modeltest.ResultsAsInputs(t, "cuda")
}
