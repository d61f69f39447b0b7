package main

import (
	"fmt"

	"github.com/rlxc/rlxc/backend/cpu/_gen/a64"
)

// A vector of the tiles for arm64 is a pair of registers, so that packed matrices are those of AVX2 and of plain Go: panels of
// two vectors of eight columns.
const (
	neonPair     = 2
	neonTileVec  = neonPair * neonLanes
	neonTileRows = 6 // with two vectors: 24 sums, 6 registers for A, 2 for B
	neonTileVecs = 2
)

// neonKind is what tells one kind of product from another.
type neonKind struct {
	name     string                // after gemmTile and gemm
	multiply func(lane int) a64.Op // words of B by a word of A, added to sums
	integers bool                  // no epilogue
	signed   bool                  // the instruction takes the unsigned bytes of A for signed ones
}

func neonGemm(u *neonUnit) {
	neonTiles(u, neonKind{name: "NEON", multiply: a64.FMLAE})
}

// neonGemmS8 has four unsigned bytes of A against four signed ones of B, in two ways.
func neonGemmS8(u *neonUnit) {
	neonTiles(u, neonKind{name: "DotProd", multiply: a64.SDOTE, integers: true, signed: true})
	neonTiles(u, neonKind{name: "I8MM", multiply: a64.SUDOTE, integers: true})
}

// neonGemmBF16 has pairs of bfloat16.
func neonGemmBF16(u *neonUnit) {
	neonTiles(u, neonKind{name: "BF16", multiply: a64.BFDOTE})
}

// neonTiles writes the kernels of all tiles up to the largest, and the table that holds them.
func neonTiles(u *neonUnit, kind neonKind) {
	fmt.Fprintf(&u.extra, "\n// gemmTile%s is the tile of %d rows × %d columns.\n", kind.name, neonTileRows, neonTileVecs*neonTileVec)
	fmt.Fprintf(&u.extra, "var gemmTile%s = gemmTile{rows: %d, vecs: %d, vec: %d, kernels: [][]gemmFunc{\n", kind.name, neonTileRows, neonTileVecs, neonTileVec)
	for rows := 1; rows <= neonTileRows; rows++ {
		fmt.Fprintf(&u.extra, "%d: {", rows)
		for vecs := 1; vecs <= neonTileVecs; vecs++ {
			name := fmt.Sprintf("gemm%s_%dx%d", kind.name, rows, vecs*neonTileVec)
			v := u.fn(name, gemmSignature, "%s is the gemmFunc of %d rows and %d vectors.", name, rows, vecs)
			if kind.integers {
				neonIntegerKernel(v, kind, rows, vecs)
			} else {
				neonGemmKernel(v, kind, rows, vecs)
			}
			fmt.Fprintf(&u.extra, "%d: %s, ", vecs, name)
		}
		fmt.Fprintf(&u.extra, "},\n")
	}
	fmt.Fprintf(&u.extra, "}}\n")
}

// neonIntegerKernel writes a tile that stores its sums. If the bytes of A are taken for signed ones, they are made 128 less, and the
// sums start at 128 times those of the columns of B, which are found before the first tile.
func neonIntegerKernel(v *neon, kind neonKind, rows, vecs int) {
	width := neonTileVec * vecs
	buffer := v.Buffer(4 * width * (rows + 1))
	if kind.signed {
		sums := make([]vreg, neonPair*vecs)
		for i := range sums {
			sums[i] = v.zero()
		}
		k, b, bRow, by64 := v.Param("k"), v.Param("b"), v.elements("bRow"), v.bits(0x40404040)
		v.Branch("CBZ", "summed", k)
		v.Label("sum")
		for i := range sums {
			v.Do(kind.multiply(0), sums[i], v.load(mem{b, 16 * i}, nil), by64)
		}
		v.Go("ADD %s, %s", bRow, b)
		v.Go("SUB $1, %s", k)
		v.Branch("CBNZ", "sum", k)
		v.Label("summed")
		for i, sum := range sums {
			v.store(v.of(a64.SHL(1), sum), mem{buffer, 4*width*rows + 16*i}, nil)
		}
	}
	v.Label("tile")
	t := v.products(kind, rows, vecs, rows > 4 && vecs == neonTileVecs, mem{buffer, 4 * width * rows})
	t.ifPartial("partial")
	t.store()
	v.Branch("B", "next")
	v.Label("partial")
	t.partial(v.copyInt(buffer), nil, func() []vreg { return nil }, func(_, _ vreg, _, _ []vreg) {})
	v.Label("next")
	v.nextTile(rows, []string{"a", "c"}, nil)
}

func neonGemmKernel(v *neon, kind neonKind, rows, vecs int) {
	v.Label("tile")
	t := v.products(kind, rows, vecs, rows > 4 && vecs == neonTileVecs, mem{})
	flags, bias, res := v.Param("flags"), v.Param("bias"), v.Param("res")
	t.ifPartial("partial")
	addRows := func(pointer, stride string) {
		t.eachRow(pointer, stride, func(acc []vreg, row vreg) {
			for i, x := range acc {
				v.Do(a64.FADD, x, x, v.load(mem{row, 16 * i}, nil))
			}
		})
	}
	v.Branch(bit(gemmAccumulate), "scale", flags)
	addRows("c", "cRow")
	v.Label("scale")
	v.Branch(bit(gemmScale), "bias", flags)
	alpha := v.Param("alpha")
	t.each(func(x vreg, _ int) { v.Do(a64.FMULE(0), x, x, alpha) })
	v.Label("bias")
	v.Branch("CBZ", "relu", bias)
	for i := range neonPair * vecs {
		x := v.load(mem{bias, 16 * i}, nil)
		for _, acc := range t.acc {
			v.Do(a64.FADD, acc[i], acc[i], x)
		}
	}
	v.Label("relu")
	v.Branch(bit(gemmRelu), "residual", flags)
	zero := v.zero()
	t.each(func(x vreg, _ int) { v.Do(a64.FMAX, x, x, zero) })
	v.Label("residual")
	v.Branch("CBZ", "store", res)
	addRows("res", "resRow")
	v.Label("store")
	t.store()
	v.Branch("B", "next")

	v.Label("partial")
	factor := v.Param("alpha")
	t.partial(v.Buffer(t.bytes()), []string{"res"}, func() []vreg { return []vreg{v.copyInt(bias)} }, func(x, c vreg, rows, columns []vreg) {
		other := v.Vec()
		v.Branch(bit(gemmAccumulate), "scaleOne", flags)
		v.Go("FMOVS (%s), %s", c, other)
		v.Go("FADDS %s, %s, %s", other, x, x)
		v.Label("scaleOne")
		v.Branch(bit(gemmScale), "biasOne", flags)
		v.Go("FMULS %s, %s, %s", factor, x, x)
		v.Label("biasOne")
		v.Branch("CBZ", "reluOne", bias)
		v.Go("FMOVS (%s), %s", columns[0], other)
		v.Go("FADDS %s, %s, %s", other, x, x)
		v.Label("reluOne")
		v.Branch(bit(gemmRelu), "residualOne", flags)
		v.Do(a64.FMAX, x, x, v.zero())
		v.Label("residualOne")
		v.Branch("CBZ", "storeOne", res)
		v.Go("FMOVS (%s), %s", rows[0], other)
		v.Go("FADDS %s, %s, %s", other, x, x)
		v.Label("storeOne")
	})
	v.Label("next")
	v.nextTile(rows, []string{"a", "c", "res"}, nil)
}

// bit is the branch that is taken where a flag is not set.
func bit(flag int) string {
	n := 0
	for 1<<n < flag {
		n++
	}
	return fmt.Sprintf("TBZ $%d,", n)
}

func (v *neon) copyInt(x vreg) vreg {
	to := v.Int()
	v.set(to, x)
	return to
}

// neonTile is a register tile: acc[row][register].
type neonTile struct {
	*neon
	acc  [][]vreg
	vecs int
}

// products writes the loops that sum up a tile over the parameter k. Where neighbours along K lie side by side in A, four of them
// are loaded at once, and multiplied lane by lane; else each element of A is loaded by itself. The sums are the same: one chain
// of multiply-adds in the order of k for each element. ahead asks for the next panel. With a signed kind, each row of sums starts
// from the one at start.
func (v *neon) products(kind neonKind, rows, vecs int, ahead bool, start mem) *neonTile {
	t := &neonTile{v, make([][]vreg, rows), vecs}
	for r := range t.acc {
		for i := range neonPair * vecs {
			switch {
			case !kind.signed:
				t.acc[r] = append(t.acc[r], v.zero())
			case r == 0:
				t.acc[r] = append(t.acc[r], v.load(mem{start.base, start.offset + 16*i}, nil))
			default:
				t.acc[r] = append(t.acc[r], v.copy(t.acc[0][i]))
			}
		}
	}
	k, aRow, aCol, b, bRow, i := v.Param("k"), v.elements("aRow"), v.elements("aCol"), v.Param("b"), v.elements("bRow"), v.Int()
	a := []vreg{v.Param("a")}
	for r := 1; r < rows; r++ {
		a = append(a, v.plus(a[r-1], aRow))
	}
	var next, nextStep vreg
	if ahead {
		next, nextStep = v.Param("next"), v.Param("nextStep")
	}
	step := func(words []vreg, lane int) {
		for p := range vecs {
			left, right := v.Vec(), v.Vec()
			v.Do(a64.LDPQ(4*neonTileVec*p), left, right, b)
			for j, x := range []vreg{left, right} {
				for r := range rows {
					v.Do(kind.multiply(lane), t.acc[r][neonPair*p+j], x, words[r])
				}
			}
		}
		v.Go("ADD %s, %s", bRow, b)
	}
	load := func(op a64.Op) []vreg {
		var words []vreg
		for r := range rows {
			words = append(words, v.of(op, a[r], i))
		}
		if kind.signed {
			flip := v.FreshConstant([4]uint32{0x80808080, 0x80808080, 0x80808080, 0x80808080})
			for _, x := range words {
				v.Do(a64.EOR, x, x, flip)
			}
		}
		return words
	}
	v.Go("MOVD ZR, %s", i)
	v.Go("CMP $4, %s", aCol)
	v.Branch("BNE", "apart")
	v.Go("SUBS $4, %s", k)
	v.Branch("BLT", "rest")
	v.Label("four")
	words := load(a64.LDRQX)
	v.Go("ADD $16, %s", i)
	for lane := range 4 {
		if ahead && lane%2 == 0 { // a step is half a line at most
			v.Do(a64.PRFM(2, 0), next)
			v.Go("ADD %s<<1, %s", nextStep, next)
		}
		step(words, lane)
	}
	v.Go("SUBS $4, %s", k)
	v.Branch("BGE", "four")
	v.Label("rest")
	v.Go("ADD $4, %s", k)
	v.Label("apart")
	v.Branch("CBZ", "done", k)
	v.Label("one")
	words = load(a64.LDRSX)
	v.Go("ADD %s, %s", aCol, i)
	step(words, 0)
	v.Go("SUB $1, %s", k)
	v.Branch("CBNZ", "one", k)
	v.Label("done")
	return t
}

// each calls do for every accumulator.
func (t *neonTile) each(do func(x vreg, r int)) {
	for r, acc := range t.acc {
		for _, x := range acc {
			do(x, r)
		}
	}
}

// eachRow calls do with the accumulators and the address of each row of an operand.
func (t *neonTile) eachRow(pointer, stride string, do func(acc []vreg, row vreg)) {
	row, by := t.Param(pointer), t.elements(stride)
	for r, acc := range t.acc {
		if r > 0 {
			t.Go("ADD %s, %s", by, row)
		}
		do(acc, row)
	}
}

// ifPartial jumps where the last vector has columns that are not real.
func (t *neonTile) ifPartial(label string) {
	t.Go(fmt.Sprintf("CMP $%d, %%s", neonTileVec), t.Param("cols"))
	t.Branch("BNE", label)
}

// store writes the tile to C.
func (t *neonTile) store() {
	t.eachRow("c", "cRow", func(acc []vreg, row vreg) {
		for i := 0; i < len(acc); i += neonPair {
			t.Do(a64.STPQ(16*i), acc[i], acc[i+1], row)
		}
	})
}

// bytes is the size of a tile.
func (t *neonTile) bytes() int { return 16 * neonPair * t.vecs * len(t.acc) }

// partial writes the real columns of a tile to C one by one, by way of a buffer: few tiles have others. finish completes the element x of C, given the
// addresses of it, of the like element of other matrices, and of what moves on with the columns alone, from its start.
func (t *neonTile) partial(buffer vreg, matrices []string, columns func() []vreg, finish func(x, c vreg, at, columns []vreg)) {
	width := neonTileVec * t.vecs
	for r, acc := range t.acc {
		for i, x := range acc {
			t.Do(a64.STRQ(4*width*r+16*i), x, buffer)
		}
	}
	cols, left, rows := t.Param("cols"), t.Int(), t.Int()
	t.Go(fmt.Sprintf("ADD $%d, %%s", width-neonTileVec), cols)
	t.Go(fmt.Sprintf("MOVD $%d, %%s", len(t.acc)), rows)
	starts, strides := []vreg{t.Param("c")}, []vreg{t.elements("cRow")}
	for _, name := range matrices {
		starts, strides = append(starts, t.Param(name)), append(strides, t.elements(name+"Row"))
	}
	t.Label("partialRow")
	var at []vreg
	for _, start := range starts {
		at = append(at, t.copyInt(start))
	}
	along, from := columns(), t.copyInt(buffer)
	t.set(left, cols)
	t.Label("partialColumn")
	x := t.Vec()
	t.Go("FMOVS (%s), %s", from, x)
	finish(x, at[0], at[1:], along)
	t.Go("FMOVS %s, (%s)", x, at[0])
	for _, p := range append(append([]vreg{from}, at...), along...) {
		t.Go("ADD $4, %s", p)
	}
	t.Go("SUB $1, %s", left)
	t.Branch("CBNZ", "partialColumn", left)
	for i, start := range starts {
		t.Go("ADD %s, %s", strides[i], start)
	}
	t.Go(fmt.Sprintf("ADD $%d, %%s", 4*width), buffer)
	t.Go("SUB $1, %s", rows)
	t.Branch("CBNZ", "partialRow", rows)
}

// nextTile goes on with the next tile, if there is one, or returns: matrices lie so many rows further on, vectors so many elements.
// An operand that is nil stays so.
func (v *neon) nextTile(rows int, matrices, vectors []string) {
	advance := func(name string, by vreg) {
		at := v.Param(name)
		moved := v.plus(at, by)
		v.Go("CMP $0, %s", at)
		v.Go("CSEL EQ, %s, %s, %s", at, moved, at)
		v.SetParam(name, at)
	}
	height := v.Int()
	v.Go(fmt.Sprintf("MOVD $%d, %%s", 4*rows), height)
	for _, name := range matrices {
		by := v.Param(name + "Row")
		v.Go("MUL %s, %s", height, by)
		advance(name, by)
	}
	for _, name := range vectors {
		advance(name, height)
	}
	tiles := v.Param("tiles")
	v.Go("SUB $1, %s", tiles)
	v.SetParam("tiles", tiles)
	v.Branch("CBNZ", "tile", tiles)
	v.Ret()
}
