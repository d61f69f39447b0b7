package wgpu

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

func TestPicks(t *testing.T) {
	d := open(t, 0)
	for name, text := range backendtest.PickCases {
		for _, s := range []int{1, 2, 7, 16, 33, 65} {
			check(t, d, fmt.Sprintf("%s, s=%d", name, s), text, s, true)
		}
	}
}

// TestIndexErrors leads every op that goes by indices out of range: an error that says where, and the instance works on.
func TestIndexErrors(t *testing.T) {
	d := open(t, 0)
	for name, text := range backendtest.IndexCases {
		g, err := ir.Parse(`graph "case" ` + text)
		require.NoError(t, err, name)
		m := d.NewMemory()
		in, err := load(t, d, g, ir.Binding{"s": 1}, name).Attach(m, nil)
		require.NoError(t, err, name)
		for _, bad := range []int64{5, -6, 1 << 40, -1 << 33} {
			index := tensor.New(tensor.I64, 2, 2)
			index.SetInt64(3, bad)
			_, err = in.Run(context.Background(), []*tensor.Tensor{index})
			require.ErrorContains(t, err, fmt.Sprintf("index %d is out of range: axis ", bad), name)
			require.ErrorContains(t, err, "has size 5", "%s, %d", name, bad)
			for _, good := range []int64{4, -5} {
				index.SetInt64(3, good)
				want, err := ir.Interpret(g, []*tensor.Tensor{index})
				require.NoError(t, err, name)
				got, err := in.Run(context.Background(), []*tensor.Tensor{index})
				require.NoError(t, err, name)
				backendtest.Agree(t, name, got[0], want[0], 0, 0)
			}
		}
		m.Close()
	}
}
