package lower

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/tensor"
)

// TestSignatureOf: what an operator takes is what the version says that holds.
func TestSignatureOf(t *testing.T) {
	before, ok := SignatureOf("", "ReduceMean", 17)
	require.True(t, ok)
	require.True(t, before.Has("axes"))
	require.Len(t, before.Operands, 1)
	since, ok := SignatureOf("", "ReduceMean", 18)
	require.True(t, ok)
	require.False(t, since.Has("axes"))
	require.Equal(t, 1, since.Least)
	require.True(t, since.Operands[1].Optional)
	require.Equal(t, []tensor.DType{tensor.I64}, since.Operands[1].Types)
	for _, c := range []struct {
		op      string
		version int
	}{{"Gelu", 19}, {"Upsample", 10}, {"ImageDecoder", 20}, {"None", 20}} {
		_, ok := SignatureOf("", c.op, c.version)
		require.False(t, ok, c.op)
	}
	concat, _ := SignatureOf("", "Concat", 13)
	require.True(t, concat.Operands[0].Variadic)
}
