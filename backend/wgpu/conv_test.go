package wgpu

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/tensor"
)

// TestConv holds convolutions to Eval, with the arena poisoned: all of them by the smallest tile, and by every tile those that differ in
// how it is filled, at sizes around its edges.
func TestConv(t *testing.T) {
	d := open(t, 0)
	all := tiles
	defer func() { tiles = all }()
	every := []string{"vectors", "few channels", "groups", "parts"}
	for i, x := range all {
		x.splits = true
		tiles = []rule{x}
		for name, text := range backendtest.ConvCases {
			if i < len(all)-1 && !slices.Contains(every, name) {
				continue
			}
			for _, s := range []int{x.rows, x.rows + 1} {
				checkWith(t, d, fmt.Sprintf("%s, tile %v, s=%d", name, x, s), text, s, true, quarters)
			}
		}
	}
}

// TestConvHalf is TestConv in float16, on numbers that need no rounding.
func TestConvHalf(t *testing.T) {
	d := openBy(t, backend.Options{Precision: tensor.F16})
	for _, name := range []string{"plane", "groups", "few channels", "points"} {
		for _, s := range []int{3, 33} {
			checkWith(t, d, fmt.Sprintf("%s, s=%d", name, s), backendtest.ConvCases[name], s, true, quarters)
		}
	}
}

// TestConvOfManyRows: what has more rows than a grid of tiles is computed separately, too.
func TestConvOfManyRows(t *testing.T) {
	d := open(t, 0)
	all := tiles
	defer func() { tiles = all }()
	tiles = []rule{{tile{32, 32, 32, 4, 4}, 0, false}}
	check(t, d, "many rows", `(%0 "x": f32[1,s,4]) { const %1: f32[1,4,4] = data
	%3 = conv(%0, %1) {kernel=[1], strides=[1], dilations=[1], pads=[0,0], auto_pad="NOTSET", group=1}
	return %3 as "y" }`, 32*maxGroups+1, true)
}
