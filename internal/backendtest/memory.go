package backendtest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/ir"
)

// HostMemory holds a device to the account of a run: what its memory has on the host, copies that steps there read and make, and
// what the copies move through. The last output is on the host.
func HostMemory(t *testing.T, d backend.Device) {
	const one = 3 * 1000 * 4 // bytes of a value
	g, err := ir.Parse(`graph "case" (%0 "x": f32[3,s]) {
		%2 = exp(%0) %3 = onnx.CumProd(%2) {axis=1} %5 = add(%3, %2) %6 = onnx.CumProd(%5) {axis=1}
		return %5 as "y", %6 as "z" }`)
	require.NoError(t, err)
	b := ir.Binding{"s": 1000}
	inputs := Inputs(t, g, b)
	bound, err := g.Bind(b, false)
	require.NoError(t, err)
	p, err := d.Load(Plan(t, bound, d.Target()))
	require.NoError(t, err)
	require.Len(t, p.HostSteps(), 2)
	m := d.NewMemory()
	defer m.Close()
	account := memory.Account{Limit: 1 << 40}
	env := &ir.Env{Memory: &account}
	instance, err := p.Attach(m, env)
	require.NoError(t, err)
	grows := p.Growth(m)
	require.NoError(t, account.Take(grows))
	for range 2 {
		_, err = instance.Run(context.Background(), inputs)
		require.NoError(t, err)
		require.Equal(t, m.Size(), account.Used)
		require.EqualValues(t, grows+2*one, account.Used) // the outputs: y was brought to the host
		require.Zero(t, p.Growth(m))
	}
	// At the second step the host has exp and add, the first step's result, its operand, and its result.
	const most = 3*one + one + one
	for _, c := range []struct {
		limit int64
		fits  bool
	}{{grows + 2*one, false}, {grows + most - 1, false}, {grows + most + one, true}} {
		account.Limit = c.limit
		_, err = instance.Run(context.Background(), inputs)
		var over *memory.Error
		if c.fits {
			require.NoError(t, err)
		} else {
			require.ErrorAs(t, err, &over)
		}
		require.Equal(t, m.Size(), account.Used)
	}
}
