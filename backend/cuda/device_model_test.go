//go:build gpu

package cuda_test

import "testing"

// device makes sure that there is one.
func device(*testing.T) {}
