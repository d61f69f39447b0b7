//go:build !race

package native

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAllocations holds that a run from recording to reading allocates nothing but what purego does when the library calls back.
func TestAllocations(t *testing.T) {
	d := device(t)
	p, err := compile(d, "double", double, false)
	require.NoError(t, err)
	x, err := d.Buffer("x", 256, ForStorage|CopySource|CopyTarget)
	require.NoError(t, err)
	out, err := d.Buffer("out", 256, MapRead|CopyTarget)
	require.NoError(t, err)
	g, err := d.Bind(p, []Range{{x, 0, x.Size}})
	require.NoError(t, err)
	e, data := d.Encoder(), make([]byte, 256)
	allocs := testing.AllocsPerRun(200, func() {
		_ = x.Write(0, data)
		_ = e.Begin()
		for range 100 {
			e.Dispatch(p, g, [3]uint32{4, 1, 1})
		}
		e.Copy(out, 0, x, 0, 256)
		_ = e.Submit()
		_, _ = out.Map(256)
		out.Unmap()
	})
	require.Less(t, allocs, 4.0)
}
