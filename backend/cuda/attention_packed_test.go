package cuda

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/internal/drivertest"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// packedBodies are packed attention, with bounds, masks by position and by sequence, and scores by relative position.
var packedBodies = map[string]string{
	"plain":  `%1 = attention(%0, %0, %0, _, %9) {scale=0.3}`,
	"first":  `%1 = attention(%20, %0, %0, _, %19) {scale=0.3}`,
	"causal": `%1 = attention(%0, %0, %0, _, %9, %6) {scale=0.3, causal=true}`,
	"window": `%1 = attention(%0, %0, %0, _, %9, %6) {scale=0.3, window=3, softcap=4}`,
	"bias":   `%1 = attention(%0, %0, %0, %8, %9, %6) {scale=0.3}`,
	"keys":   `%2 = slice(%8) {starts=[0,0,0], sizes=[3,1,150], steps=[1,1,1]} %1 = attention(%0, %0, %0, %2, %9, %6) {scale=0.3}`,
	"mask":   `%2: bool[3,150,150] = cast(%8) {to=bool} %1 = attention(%0, %0, %0, %2, %9, %6) {scale=0.3, window=9}`,
	"sequences": `%4 = reshape(%8) {shape=[3,1,150,150]} %2 = concat(%4, %4) {axis=0}
		%1 = attention(%0, %0, %0, %2, %9, %6) {scale=0.3}`,
	"mask of sequences": `%4 = slice(%8) {starts=[0,0,0], sizes=[3,1,150], steps=[1,1,1]} %3 = reshape(%4) {shape=[3,1,1,150]} %16 = neg(%3)
		%2 = concat(%3, %16) {axis=0} %1 = attention(%0, %0, %0, %2, %9, %6) {scale=0.3}`,
	"relative": `%10 = transpose(%11) {perm=[0,2,1,3]} %13 = neg(%12)
		%1 = attention(%0, %0, %0, _, %9, %6, %10, %14, %13, %15) {scale=0.3}`,
	"by key": `%1 = attention(%0, %0, %0, _, %9, %6, _, _, %12, %15) {scale=0.3}`,
}

// sequencesOf are sequences in the middle of a block of queries and over several, without tokens, with a first query that is no key, whose
// tokens end at 150; and their first tokens alone.
const sequencesOf = `const %9: i32[6,4] = [0, 4, 1, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 9, 5, 9, 9, 149, 9, 149, 149, 150, 149, 150]
	const %19: i32[6,4] = [0, 1, 1, 4, 1, 2, 4, 4, 2, 3, 5, 5, 3, 4, 5, 9, 4, 5, 9, 149, 5, 6, 149, 150]`

// packedCase is a program around one of the bodies, for heads of a size.
func packedCase(body string, dtype tensor.DType, size int) string {
	text := fmt.Sprintf(`(%%7 "n": T[s], %%0 "x": T[1,150+s,3,%[1]d], %%20 "q": T[1,6,3,%[1]d], %%8 "b": T[3,150,150],
		%%11 "c": T[1,150+s,3,s+5], %%12 "d": T[1,3,150+s,s+3],
		%%6 "p": i64[1,150+s], %%14 "i": i64[150,150], %%15 "i": i64[150,150]) { %[2]s %[3]s
		return %%1 as "y" }`, size, sequencesOf, packedBodies[body])
	return strings.ReplaceAll(text, ": T[", ": "+dtype.String()+"[")
}

// TestPackedAttentionOnTheHostSide: which kernels packed attention has.
func TestPackedAttentionOnTheHostSide(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	fake := drivertest.New(t)
	d := open(t, backend.Options{})
	for body, kernels := range map[string]map[int]string{
		"plain":    {7: "attention_%s_rows", 32: "flash_%s_32_rows", 64: "flash_%s_64_rows", 128: "flash_%s_128_rows"},
		"first":    {64: "flash_%s_64_rows"},
		"window":   {64: "flash_%s_64_rows_general"},
		"bias":     {7: "attention_%s_rows", 128: "flash_%s_128_rows_general"},
		"relative": {64: "attention_%s_rows"},
	} {
		for size, kernel := range kernels {
			for dtype, unit := range floats {
				clear(fake.Kernels)
				if dtype != tensor.F32 && strings.HasPrefix(kernel, "flash") { // on Hopper
					unit = "wgmma_" + unit
				}
				g, err := ir.Parse(`graph "case" ` + packedCase(body, dtype, size))
				require.NoError(t, err, body)
				b := ir.Binding{"s": 3}
				m := d.NewMemory()
				in, err := load(t, d, g, b, body, true).Attach(m, nil)
				require.NoError(t, err, body)
				_, err = in.Run(context.Background(), backendtest.Inputs(t, g, b))
				require.NoError(t, err, body)
				require.Equal(t, 1, fake.Kernels[fmt.Sprintf(kernel, unit)], "%s: %v", body, fake.Kernels)
				m.Close()
			}
		}
	}
}
