package wgpu

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/backend"
	"github.com/rlxc/rlxc/tensor"
)

// TestTryProduct: the product that cooperative matrices are tried with is right by the tiles that every device has.
func TestTryProduct(t *testing.T) {
	d := openBy(t, backend.Options{Precision: tensor.F16})
	for _, r := range halfTiles {
		require.NoError(t, d.tryProduct(product{half: true, narrow: true}, r.tile), "%v", r.tile)
	}
}

// TestCooperative runs products by every tile of cooperative matrices where a device has them. Elsewhere the library refuses the kernels for that reason.
func TestCooperative(t *testing.T) {
	d := openBy(t, backend.Options{Precision: tensor.F16})
	all := coopTiles
	defer func() { coopTiles = all }()
	for _, x := range all {
		if !d.coop {
			err := d.tryProduct(product{half: true, narrow: true, coop: true}, x.tile)
			require.ErrorContains(t, err, "the `wgpu_cooperative_matrix` extension is not supported", "%v", x.tile)
			require.Equal(t, x.size()%coopSubgroup, 0)
			require.LessOrEqual(t, x.coopBytes(), 48<<10)
			require.Zero(t, x.rows*x.depth%(4*x.size()))
			require.Zero(t, x.depth*x.cols%(4*x.size()))
			continue
		}
		x.splits = true
		coopTiles = []rule{x}
		for _, text := range append(halfCases, convCases["vectors"], convCases["groups"]) {
			for _, s := range []int{1, x.rows - 1, x.rows, x.rows + 1} {
				checkWith(t, d, fmt.Sprintf("tile %v, s=%d: %s", x, s, text), text, s, true, quarters)
			}
		}
	}
}
