package tensor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestJSONDepth: lists are as deep as the limit, and no deeper.
func TestJSONDepth(t *testing.T) {
	for depth := maxJSONRank - 1; depth <= maxJSONRank+1; depth++ {
		x, err := ParseJSON([]byte(strings.Repeat("[", depth)+"1"+strings.Repeat("]", depth)), I64)
		if depth > maxJSONRank {
			require.ErrorContains(t, err, fmt.Sprintf("nested more than %d deep", maxJSONRank))
		} else if err == nil { // there may be fewer axes than lists
			require.Equal(t, depth, x.Rank())
		} else {
			require.NotContains(t, err.Error(), "nested more than")
		}
	}
}

// TestBitcastWidths: only types of one width have the same bytes.
func TestBitcastWidths(t *testing.T) {
	x := FromSlice([]float32{1})
	require.Equal(t, int64(0x3f800000), x.Bitcast(I32).Int64(0))
	require.Panics(t, func() { x.Bitcast(F16) })
}
