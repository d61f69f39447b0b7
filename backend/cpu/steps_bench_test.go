package cpu_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/backend/cpu"
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/ir"
)

// smallSteps are steps that have next to nothing to do, from %[1]d to %[2]d.
var smallSteps = map[string]string{
	"unary":       `%%%[2]d: f32[2,4] = tanh(%%%[1]d)`,
	"unary loop":  `%%%[2]d: f32[2,4] = sin(%%%[1]d)`,
	"binary":      `%%%[2]d: f32[2,4] = add(%%%[1]d, %%0)`,
	"binary loop": `%%%[2]d: f32[2,4] = pow(%%%[1]d, %%0)`,
	"map":         `%%%[2]d: f32[2,4] = map(%%%[1]d, %%0) {expr=[mul(in0, in1), add(x0, in1)]}`,
	"concat":      `%%%[2]d: f32[2,4] = concat(%%1, %%1)`,
	"pad":         `%%%[2]d: f32[2,4] = pad(%%%[1]d) {before=[1,1], after=[-1,-1]}`,
	"gather":      `%%%[2]d: f32[2,4] = gather(%%%[1]d, %%2)`,
	"softmax":     `%%%[2]d: f32[2,4] = softmax(%%%[1]d) {axis=1}`,
	"cumsum":      `%%%[2]d: f32[2,4] = cumsum(%%%[1]d) {axis=1}`,
	"matmul":      `%%%[2]d: f32[2,4] = matmul(%%%[1]d, %%3)`,
}

// BenchmarkSmallSteps is the cost of a step beside its work.
func BenchmarkSmallSteps(b *testing.B) {
	const steps = 64
	d, err := cpu.Open(backend.Options{Threads: 1})
	require.NoError(b, err)
	defer d.Close()
	for _, name := range slices.Sorted(maps.Keys(smallSteps)) {
		b.Run(name, func(b *testing.B) {
			text := `graph "steps" (%0 "x": f32[2,4], %1 "row": f32[1,4], %2 "i": i64[2]) { const %3: f32[4,4] = data `
			for i := range steps {
				text += fmt.Sprintf(smallSteps[name]+" ", i+3*min(i, 1), 4+i)
			}
			text += fmt.Sprintf(`return %%%d as "y" }`, 3+steps)
			g, err := ir.Parse(text)
			require.NoError(b, err)
			_, err = d.Prepare(g)
			require.NoError(b, err)
			bound, err := g.Bind(ir.Binding{"s": 2}, false)
			require.NoError(b, err)
			program, err := d.Load(backendtest.Plan(b, bound, d.Target()))
			require.NoError(b, err)
			instance, err := program.Attach(d.NewMemory(), nil)
			require.NoError(b, err)
			in := backendtest.Inputs(b, bound, ir.Binding{"s": 2})
			for b.Loop() {
				if _, err := instance.Run(b.Context(), in); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*steps), "ns/step")
		})
	}
}
