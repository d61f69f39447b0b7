package wgpu

import (
	"fmt"
	"math"
)

// A tile is how a workgroup computes a part of a product: rows × cols results, depth elements of the inner axis at a time,
// each invocation high × wide of the results in registers. All are multiples of 4.
type tile struct{ rows, cols, depth, high, wide int }

// size is the number of invocations; of tiles that subgroups compute, that of those.
func (t tile) size() int {
	n := t.rows / t.high * (t.cols / t.wide)
	if t.cooperative() {
		n *= coopSubgroup
	}
	return n
}

// A tiling is how a product is split up: into tiles, and along the inner axis into splits, which are added up by a second launch.
type tiling struct {
	tile
	splits int
}

// String is the tiling as the file of the tuning cache has it.
func (c tiling) String() string {
	return fmt.Sprintf("%dx%dx%d_%dx%d/%d", c.rows, c.cols, c.depth, c.high, c.wide, c.splits)
}

// A rule is a tile with a condition on products.
type rule struct {
	tile
	groups int  // least number of workgroups that a product must have with this tile
	splits bool // the workgroups of splits along K count
}

// wantedGroups is the number of workgroups that keep a large device busy. never is larger than the number of workgroups of any product.
const (
	wantedGroups = 264
	never        = math.MaxInt
)

// tiles are the tiles for products in float32, halfTiles those in float16, where small ones are nearly as fast as large ones and
// better than splits. The rules, of which the first that holds counts, are what an H200 likes; they are for devices that are not
// tuned and products that are not worth it. The others choose among all tiles (see tune.go).
//
// In what order a product is summed up must not depend on the tile: in float16, where each depth has a separate sum, all
// depths are halfDepth. A tile of 8 × 8 in float16 would be 1 % faster on large products, but takes drivers half a second.
var (
	tiles = []rule{{tile{128, 64, 16, 8, 8}, wantedGroups, true}, {tile{128, 64, 16, 8, 4}, never, true},
		{tile{64, 64, 16, 4, 4}, wantedGroups, true},
		{tile{32, 64, 32, 4, 4}, never, true}, {tile{32, 32, 32, 4, 4}, 0, true}}

	halfTiles = []rule{{tile{64, 128, halfDepth, 4, 8}, 4 * wantedGroups, false}, {tile{32, 64, halfDepth, 4, 4}, wantedGroups, false},
		{tile{64, 64, halfDepth, 4, 4}, wantedGroups, true}, {tile{32, 32, halfDepth, 4, 4}, 0, true}}
)

// halfDepth is the number of products that are added up in float16. The parts of splits are multiples of it.
const halfDepth = 32
