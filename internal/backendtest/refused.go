package backendtest

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Refused holds that a device refuses what Eval refuses: programs with one number of an input far out of range, or with a scale of 0 or
// none at all. It returns how many runs were refused.
func Refused(t *testing.T, d backend.Device, cases map[string]string) (refused int) {
	for name, text := range cases {
		g := parsed(t, text, 5)
		inputs := Inputs(t, g, ir.Binding{"s": 5})
		var in backend.Instance
		for i, x := range inputs {
			var bad []float64
			switch {
			case x.DType() == tensor.I64 || x.DType() == tensor.I32:
				bad = []float64{1 << 30, -1 << 30}
			case x.DType() == tensor.F32 && x.Len() == 1:
				bad = []float64{0, math.NaN()}
			}
			for _, number := range bad {
				for _, at := range []int{0, x.Len() - 1} {
					what := fmt.Sprintf("%s: %v as element %d of input %d", name, number, at, i)
					inputs[i] = x.Clone()
					inputs[i].SetFloat64(at, number)
					if _, err := ir.Interpret(g, inputs); err == nil {
						continue
					}
					if in == nil {
						own := parsed(t, text, 5)
						_, err := d.Prepare(own)
						require.NoError(t, err, what)
						p, err := d.Load(Plan(t, own, d.Target()))
						require.NoError(t, err, what)
						m := d.NewMemory()
						defer m.Close()
						in, err = p.Attach(m, nil)
						require.NoError(t, err, what)
					}
					_, err := in.Run(context.Background(), inputs)
					require.Error(t, err, what)
					refused++
				}
			}
			inputs[i] = x
		}
	}
	return refused
}
