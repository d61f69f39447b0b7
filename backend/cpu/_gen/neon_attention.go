package main

import (
	"fmt"
	"math"

	"github.com/rlxc/rlxc/backend/cpu/_gen/a64"
)

// neonAttention writes what attention runs between its transposes: the products and the softmax.
func neonAttention(u *neonUnit) {
	fmt.Fprintf(&u.extra, "\nvar attentionTileNEON = attentionTile{vec: %d, kernels: [][]attentionTileFunc{\n", neonTileVec)
	for vecs, tallest := range []int{1: 8, 2: neonTileRows} { // with one vector: 16 sums, 8 registers for A, 2 for B
		if vecs == 0 {
			continue
		}
		fmt.Fprintf(&u.extra, "%d: {", vecs)
		for rows := 1; rows <= tallest; rows++ {
			name := fmt.Sprintf("attentionNEON_%dx%d", rows, vecs*neonTileVec)
			v := u.fn(name, "func(tiles, k int, a *float32, aRow, aCol int, b *float32, bRow int, c *float32, cRow, cols int, scale, "+
				"factor *float32)",
				"%s is the attentionTileFunc of %d rows and %d vectors.", name, rows, vecs)
			neonAttentionTile(v, rows, vecs)
			fmt.Fprintf(&u.extra, "%d: %s, ", rows, name)
		}
		fmt.Fprintf(&u.extra, "},\n")
	}
	fmt.Fprintf(&u.extra, "}}\n")
	neonSoftmaxStep(u)
}

func neonAttentionTile(v *neon, rows, vecs int) {
	v.Label("tile")
	t := v.products(dots("", a64.FMLAE), rows, vecs, false)
	scale, factor := v.Param("scale"), v.Param("factor")
	t.ifPartial("partial")
	v.Branch("CBZ", "factor", scale)
	r := 0
	t.eachRow("c", "cRow", func(acc []vreg, row vreg) {
		by := v.of(a64.LDRS(4*r), scale)
		for i, x := range acc {
			v.Do(a64.FMLAE(0), x, v.load(mem{row, 16 * i}, nil), by)
		}
		r++
	})
	v.Label("factor")
	v.Branch("CBZ", "store", factor)
	for r, acc := range t.acc {
		by := v.of(a64.LDRS(4*r), factor)
		for _, x := range acc {
			v.Do(a64.FMULE(0), x, x, by)
		}
	}
	v.Label("store")
	t.store()
	v.Branch("B", "next")

	v.Label("partial")
	scaleRow, factorRow := v.copyInt(scale), v.copyInt(factor)
	by, times := v.Vec(), v.Vec()
	t.partial(v.Buffer(t.bytes()), nil, func() []vreg { // at the start of each row
		v.Branch("CBZ", "unscaled", scale)
		v.Go("FMOVS (%s), %s", scaleRow, by)
		v.Go("ADD $4, %s", scaleRow)
		v.Label("unscaled")
		v.Branch("CBZ", "unfactored", factor)
		v.Go("FMOVS (%s), %s", factorRow, times)
		v.Go("ADD $4, %s", factorRow)
		v.Label("unfactored")
		return nil
	}, func(x, c vreg, _, _ []vreg) {
		v.Branch("CBZ", "factorOne", scale)
		old := v.Vec()
		v.Go("FMOVS (%s), %s", c, old)
		v.Go("FMADDS %s, %s, %s, %s", by, x, old, x)
		v.Label("factorOne")
		v.Branch("CBZ", "storeOne", factor)
		v.Go("FMULS %s, %s, %s", times, x, x)
		v.Label("storeOne")
	})
	v.Label("next")
	v.nextTile(rows, []string{"a", "c"}, []string{"scale", "factor"})
}

// neonSoftmaxStep works on a vector of columns at a time, down all rows.
func neonSoftmaxStep(u *neonUnit) {
	v := u.fn("softmaxStepNEON", "func(x *float32, rows, cols int, by float32, highest, sum, scale, inverse *float32)",
		"softmaxStepNEON is a softmaxStepFunc.")
	x, cols, rowBytes := v.Param("x"), v.Param("cols"), v.elements("cols")
	highest, sum, scale, inverse := v.Param("highest"), v.Param("sum"), v.Param("scale"), v.Param("inverse")
	by := v.mul(v.spread("by"), v.num(math.Log2E))
	weight := func(x vreg) vreg { return v.exp2Falling(v.mul(x, by)) }

	// eachRow walks down the rows, in groups of chains while there are as many.
	eachRow := func(name string, body func(chain int, at mem)) {
		row, rows := v.copyInt(x), v.Param("rows")
		step := func(n int) {
			at := row
			v.Interleave(n, func(chain int, first func(emit func())) {
				here := at
				body(chain, mem{here, 0})
				first(func() { at = v.plus(here, rowBytes) })
			})
			v.set(row, at)
		}
		v.Go(fmt.Sprintf("SUBS $%d, %%s", neonChains), rows)
		v.Branch("BLT", name+"Rest")
		v.Label(name + "Group")
		step(neonChains)
		v.Go(fmt.Sprintf("SUBS $%d, %%s", neonChains), rows)
		v.Branch("BGE", name+"Group")
		v.Label(name + "Rest")
		v.Go(fmt.Sprintf("ADD $%d, %%s", neonChains), rows)
		v.Branch("CBZ", name+"End", rows)
		v.Label(name + "Single")
		step(1)
		v.Go("SUB $1, %s", rows)
		v.Branch("CBNZ", name+"Single", rows)
		v.Label(name + "End")
	}
	v.Label("columns")
	old := v.load(mem{highest, 0}, nil)
	most := v.chains(old)
	eachRow("max", func(chain int, at mem) { v.Do(a64.FMAX, most[chain], most[chain], v.load(at, nil)) })
	top := v.max(v.max(most[0], most[1]), v.max(most[2], most[3]))
	v.store(top, mem{highest, 0}, nil)
	change := weight(v.sub(old, top))
	v.store(change, mem{scale, 0}, nil)
	total := v.mul(v.load(mem{sum, 0}, nil), change)
	eachRow("exp", func(_ int, at mem) {
		s := weight(v.sub(v.load(at, nil), top))
		v.Do(a64.FADD, total, total, s)
		v.store(s, at, nil)
	})
	v.store(total, mem{sum, 0}, nil)
	v.store(v.div(v.num(1), total), mem{inverse, 0}, nil)
	for _, p := range []vreg{x, highest, sum, scale, inverse} {
		v.Go("ADD $16, %s", p)
	}
	v.Go(fmt.Sprintf("SUB $%d, %%s", neonLanes), cols)
	v.Branch("CBNZ", "columns", cols)
	v.Ret()
}
