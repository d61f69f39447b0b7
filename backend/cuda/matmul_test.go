package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
)

// TestEpilogues: the kernels know every function that a product may apply to its sums.
func TestEpilogues(t *testing.T) {
	for fn := ir.NoUnary; fn < ir.NumUnary; fn++ {
		_, known := epilogues[fn]
		require.Equal(t, fn.IsEpilogue(), known, fn)
	}
}
