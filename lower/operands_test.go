package lower

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
)

// fewerOperands are the operators some of whose operands become parameters of their op, or that have bodies, whose captures are operands.
var fewerOperands = map[string][2]int{"Col2Im": {1, 1}, "Resize": {1, 1}, "DFT": {1, 1}, "STFT": {1, 2}, "CumProd": {1, 1}, "TopK": {1, 1},
	"RandomUniform": {0, 1}, "RandomNormal": {0, 1}, "OptionalHasElement": {1, 1}, "SequenceConstruct": {0, -1}, "If": {1, -1},
	"Loop": {2, -1}, "Scan": {1, -1}, "SequenceMap": {1, -1}}

// TestOperandsOfOpaqueOps: an op that is called as an operator has the operands of its signatures, as many at least and at most.
func TestOperandsOfOpaqueOps(t *testing.T) {
	compared := 0
	for _, row := range ir.Defs() {
		domain, name, ok := "", row.Name, false
		for prefix, of := range map[string]string{"onnx.": "", "ai.onnx.ml.": "ai.onnx.ml"} {
			if rest, found := strings.CutPrefix(row.Name, prefix); found {
				domain, name, ok = of, rest, true
			}
		}
		least, most := -1, -1
		for version := range MaxOpset + 1 {
			if s, found := SignatureOf(domain, name, version); found && ok {
				if most = max(most, len(s.Operands)); least < 0 || s.Least < least {
					least = s.Least
				}
			}
		}
		if least < 0 {
			continue
		}
		compared++
		want, ok := fewerOperands[name]
		if !ok {
			want = [2]int{least, most}
		}
		require.Equal(t, want, [2]int{row.MinIn, row.MaxIn}, row.Name)
	}
	require.Greater(t, compared, 50)
}
