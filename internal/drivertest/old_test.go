package drivertest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/driver"
)

// TestOldDriver refuses drivers that lack a function or are for an older CUDA, and says what to install.
func TestOldDriver(t *testing.T) {
	d := New(t)
	d.Version = 12000
	_, err := driver.Register("the oldest", find)
	require.NoError(t, err)
	d.Version = 11080
	_, err = driver.Register("one before it", find)
	require.EqualError(t, err, "the NVIDIA driver is for CUDA 11.8: install one for CUDA 12 or newer")
	_, err = driver.Register("without graphs", func(name string) (uintptr, error) {
		if name == "cuGraphLaunch" {
			return 0, fmt.Errorf("no function %s", name)
		}
		return find(name)
	})
	require.EqualError(t, err, "this NVIDIA driver is too old, cuGraphLaunch is missing: install one for CUDA 12 or newer")
}
