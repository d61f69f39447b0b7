package cuda

import (
	"fmt"

	"github.com/rlxc/rlxc/internal/driver"
	"github.com/rlxc/rlxc/ir"
)

// unitTilings are the tilings of products on matrix units: by mma.sync, and by wgmma on Hopper. Names of kernels lack the type.
var unitTilings = []tiling{
	{kernel: "mma_%s_64x64", rows: 64, cols: 64, threads: 128, shared: 4 * 128 * (64 + 64), splits: 1},
	{kernel: "mma_%s_128x128", rows: 128, cols: 128, threads: 128, shared: 4 * 64 * (128 + 128), splits: 1},
	{kernel: "mma_%s_32x64", rows: 32, cols: 64, threads: 128, shared: 4 * 128 * (32 + 64), splits: 1},
	{kernel: "mma_%s_32x32", rows: 32, cols: 32, threads: 128, shared: 6 * 128 * (32 + 32), splits: 1},
	{kernel: "mma_%s_64x64_by2", rows: 64, cols: 64, threads: 256, shared: 2 * 4 * 128 * (64 + 64), splits: 1},
	{kernel: "mma_%s_32x32_by4", rows: 32, cols: 32, threads: 512, shared: 4 * 6 * 128 * (32 + 32), splits: 1},
	mapped("wgmma_%s_128x64", 64, 6, 64),
	mapped("wgmma_%s_128x128", 128, 5, 64),
	mapped("wgmma_%s_128x192", 192, 4, 64),
	mapped("wgmma_%s_128x128_persistent", 128, 5, 128),
}

// mapped is a tiling of _gen/wgmma.cu: 128 rows, that many stages of 64 of the inner axis, and results of that many rows in the stage of
// each of two groups of warps.
func mapped(kernel string, cols, stages, staged int) tiling {
	return tiling{kernel: kernel, rows: 128, cols: cols, threads: 384, shared: 128*stages*(128+cols) + 1024 + 2*2*staged*cols,
		mapped: true, splits: 1}
}

// notTF32 are the tilings for which tf32 needs more registers than a thread has.
var notTF32 = map[string]bool{"wgmma_%s_128x192": true, "wgmma_%s_128x128_persistent": true}

// unitTilingsOf returns the tilings that the device supports and that suit a product: at least half of each tile is used.
func (d *Device) unitTilingsOf(p *product) (list []tiling) {
	for _, c := range unitTilings {
		if c.mapped && d.ctx.Major != 9 || c.shared > d.ctx.SharedPerBlock || p.unit == unitTF32 && notTF32[c.kernel] ||
			c.rows > 2*p.M && c.rows > 32 || c.mapped && c.rows > p.M && p.M < 96 {
			continue
		}
		c.kernel = fmt.Sprintf(c.kernel, p.unit)
		switch {
		case p.act == ir.Gelu:
			c.kernel += "_gelu"
		case p.act != ir.NoUnary && c.mapped:
			continue
		case p.act != ir.NoUnary:
			c.kernel += "_act"
		}
		list = append(list, c)
	}
	return list
}

// The parameters of _gen/mma.cu and _gen/wgmma.cu.
type (
	unitParams struct {
		a, b, bias, residual, y address
		arow                    int64
		m, n, k, act            int32
		alpha                   float32
		fixed                   int32
	}
	mappedParams struct {
		_                 [4]driver.TensorMap // maps of a, b, y and the residual; the launch writes them
		bias, residual, y address
		m, n, k, act      int32
		alpha             float32
		fixed             int32
		_                 [4]int32
	}
)

// mapKinds are the kinds of the copy engine's maps.
var mapKinds = map[string]int{"f16": driver.TensorHalf, "bf16": driver.TensorBFloat16, unitTF32: driver.TensorTF32}

// unitLaunch is the launch of a product on matrix units.
func (d *Device) unitLaunch(p *product, q productParams, fixed bool) *launch {
	c := p.tiling
	if !c.mapped {
		r := unitParams{a: q.a, b: q.b, bias: q.bias, residual: q.residual, y: q.y, arow: q.arow, m: q.m, n: q.n, k: q.k, act: q.act,
			alpha: q.alpha, fixed: boolean(fixed)}
		return newLaunch(c.kernel, r, [3]int{ceil(p.N, c.cols), ceil(p.M, c.rows), 1}, c.threads, c.shared)
	}
	r := mappedParams{bias: q.bias, residual: q.residual, y: q.y, m: q.m, n: q.n, k: q.k, act: q.act, alpha: q.alpha, fixed: boolean(fixed)}
	l := newLaunch(c.kernel, r, line(min(d.ctx.Processors, p.blocks(c))), c.threads, c.shared)
	kind := mapKinds[p.unit]
	l.maps = []matrixMap{
		{field: 0, at: q.a, kind: kind, rows: p.M, cols: p.K, pitch: int(q.arow), boxRows: 128, boxCols: 128 / p.width()},
		{field: 128, at: q.b, kind: kind, rows: p.K, cols: p.N, pitch: p.N, boxRows: 64, boxCols: 64},
		{field: 256, at: q.y, kind: kind, rows: p.M, cols: p.N, pitch: p.N, boxRows: 64, boxCols: 64},
	}
	if q.residual != 0 {
		l.maps = append(l.maps, matrixMap{field: 384, at: q.residual, kind: kind, rows: p.M, cols: p.N, pitch: p.N, boxRows: 64,
			boxCols: 64})
	}
	if p.unit == unitTF32 {
		l.maps[1] = matrixMap{field: 128, at: q.b, kind: kind, rows: p.N, cols: p.K, pitch: p.K, boxRows: c.cols, boxCols: 32}
		l.maps = l.maps[:2]
	}
	return l
}
