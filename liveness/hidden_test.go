package liveness

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
)

func TestSumsOfEveryOp(t *testing.T) {
	for k := range ir.NumKinds {
		require.Equal(t, sums[k] != nil, k.Has(ir.HoldsSum), "%s", k)
	}
}
