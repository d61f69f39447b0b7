package wgpu

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/internal/native"
	"github.com/rlxc/rlxc/tensor"
)

// TestTryProduct: the product that cooperative matrices are tried with is right by the tiles that every device has.
func TestTryProduct(t *testing.T) {
	d := openBy(t, backend.Options{Precision: tensor.F16})
	for _, r := range halfTiles {
		require.NoError(t, d.tryProduct(product{half: true, narrow: true}, r.tile), "%v", r.tile)
	}
}

// TestCooperative runs products by every tile of cooperative matrices where a device has them. Elsewhere the library refuses the kernels
// for that reason.
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
		for _, text := range append(halfCases, backendtest.ConvCases["vectors"], backendtest.ConvCases["groups"]) {
			for _, s := range []int{1, x.rows - 1, x.rows, x.rows + 1} {
				checkWith(t, d, fmt.Sprintf("tile %v, s=%d: %s", x, s, text), text, s, true, quarters)
			}
		}
	}
}

// TestNoCooperative: where an adapter gives cooperative matrices and the library refuses their kernels, products go without them, and the
// reason is kept.
func TestNoCooperative(t *testing.T) {
	d := openBy(t, backend.Options{Precision: tensor.F16})
	if d.coop {
		return
	}
	require.NoError(t, d.noCoop)
	features := d.gpu.Adapter.Features
	d.gpu.Adapter.Features = append(slices.Clone(features), native.CooperativeMatrix)
	defer func() { d.gpu.Adapter.Features = features }()
	d.findCooperative()
	require.False(t, d.coop)
	require.ErrorContains(t, d.noCoop, "cooperative-matrix is given and does not work: ")
	require.NotContains(t, d.noCoop.Error(), "\n")
}
