package main

import (
	"fmt"
	"slices"

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

// neonKind is what distinguishes one kind of product from another. A word is four bytes of K.
type neonKind struct {
	name     string // after gemmTile and gemm
	rows     int    // of the largest tile
	integers bool   // no epilogue
	signed   bool   // the unsigned bytes of A are taken for signed ones
	deep     bool   // words of B are stored in pairs of neighbours along K

	// load, if not nil, makes of registers of words of A what multiply takes; lane does so for one word of each.
	load func(v *neon, words []vreg) [][]vreg
	lane func(v *neon, a []vreg, lane int) []vreg
	// wordsOfB, if not nil, makes of a register of words of B what multiply takes.
	wordsOfB func(v *neon, words vreg) []vreg
	// multiply adds to a sum, which is that many registers, the products of words of B with the word of A in a lane.
	multiply func(v *neon, sum, b, a []vreg, lane int)
	sums     int
	join     func(v *neon, sum []vreg) vreg
}

// dots is a kind whose products are one instruction, by a lane of A.
func dots(name string, op func(lane int) a64.Op) neonKind {
	return neonKind{name: name, rows: neonTileRows,
		multiply: func(v *neon, sum, b, a []vreg, lane int) { v.Do(op(lane), sum[0], b[0], a[0]) }}
}

// matrices is a kind whose instruction multiplies two rows with two columns, of two words each.
func matrices(name string, op a64.Op) neonKind {
	return neonKind{name: name, rows: neonTileRows, deep: true,
		multiply: func(v *neon, sum, b, a []vreg, _ int) { v.Do(op, sum[0], a[0], b[0]) }}
}

// flipped is a kind that takes bytes of A less 128.
func flipped(kind neonKind) neonKind {
	kind.signed = true
	kind.load = func(v *neon, words []vreg) (a [][]vreg) {
		flip := v.FreshConstant([4]uint32{0x80808080, 0x80808080, 0x80808080, 0x80808080})
		for _, x := range words {
			v.Do(a64.EOR, x, x, flip)
			a = append(a, []vreg{x})
		}
		return a
	}
	return kind
}

func neonGemm(u *neonUnit) {
	neonTiles(u, dots("NEON", a64.FMLAE))
}

var (
	// dotProd takes unsigned bytes for signed ones, as does bytePairs.
	dotProd = flipped(dots("DotProd", a64.SDOTE))
	// bytePairs multiplies bytes to half words, which are added up by pairs: those of two columns in one register, of two in another.
	bytePairs = func() neonKind {
		kind := flipped(neonKind{name: "S8NEON", rows: 2, sums: 2})
		kind.lane = func(v *neon, a []vreg, lane int) []vreg { return []vreg{v.of(a64.DUP(lane), a[0])} }
		kind.multiply = func(v *neon, sum, b, a []vreg, _ int) {
			v.Do(a64.SADALP, sum[0], v.of(a64.SMULL, b[0], a[0]))
			v.Do(a64.SADALP, sum[1], v.of(a64.SMULL2, b[0], a[0]))
		}
		kind.join = func(v *neon, sum []vreg) vreg { return v.of(a64.ADDP, sum[0], sum[1]) }
		return kind
	}()
)

// neonGemmS8 has four unsigned bytes of A against four signed ones of B.
func neonGemmS8(u *neonUnit) {
	for _, kind := range []neonKind{bytePairs, dotProd, matrices("I8MM", a64.USMMLA)} {
		kind.integers = true
		neonTiles(u, kind)
	}
}

// neonGemmBF16 has pairs of bfloat16: where no instruction takes them, each half of a word becomes a float32. Those of matrices are
// for operands that are packed, the others for any.
func neonGemmBF16(u *neonUnit) {
	halves := func(v *neon, words vreg) []vreg {
		return []vreg{v.of(a64.SHL(16), words), v.of(a64.AND, words, v.bits(0xffff0000))}
	}
	neonTiles(u, neonKind{
		name: "BF16NEON",
		rows: 4,
		load: func(v *neon, words []vreg) (a [][]vreg) {
			for _, x := range words {
				a = append(a, halves(v, x))
			}
			return a
		},
		wordsOfB: halves,
		multiply: func(v *neon, sum, b, a []vreg, lane int) {
			for i := range a {
				v.Do(a64.FMLAE(lane), sum[0], b[i], a[i])
			}
		},
	})
	neonTiles(u, dots("BF16", a64.BFDOTE))
	neonTiles(u, matrices("BF16Deep", a64.BFMMLA))
}

// neonTiles writes the kernels of all tiles up to the largest, and the table that holds them.
func neonTiles(u *neonUnit, kind neonKind) {
	fmt.Fprintf(&u.extra, "\n// gemmTile%s is the tile of %d rows × %d columns.\n", kind.name, kind.rows, neonTileVecs*neonTileVec)
	fmt.Fprintf(&u.extra, "var gemmTile%s = gemmTile{rows: %d, vecs: %d, vec: %d, deep: %t, kernels: [][]gemmFunc{\n", kind.name,
		kind.rows, neonTileVecs, neonTileVec, kind.deep)
	for rows := 1; rows <= kind.rows; rows++ {
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

// neonIntegerKernel writes a tile that stores its sums. If the bytes of A are taken for signed ones, they are made 128 less, and 128
// times the sums of the columns of B, which are found before the first tile, are added to the results.
func neonIntegerKernel(v *neon, kind neonKind, rows, vecs int) {
	width := neonTileVec * vecs
	buffer := v.Buffer(4 * width * (rows + 1))
	if kind.signed {
		sums := v.newSums(kind, 1, neonPair*vecs)
		k, b, bRow, by64 := v.Param("k"), v.Param("b"), v.elements("bRow"), []vreg{v.bits(0x40404040)}
		v.Branch("CBZ", "summed", k)
		v.Label("sum")
		for i, sum := range sums[0] {
			kind.multiply(v, sum, []vreg{v.load(mem{b, 16 * i}, nil)}, by64, 0)
		}
		v.Go("ADD %s, %s", bRow, b)
		v.Go("SUB $1, %s", k)
		v.Branch("CBNZ", "sum", k)
		v.Label("summed")
		for i, sum := range kind.joined(v, sums)[0] {
			v.store(v.of(a64.SHL(1), sum), mem{buffer, 4*width*rows + 16*i}, nil)
		}
	}
	v.Label("tile")
	t := v.products(kind, rows, vecs, rows > 4 && vecs == neonTileVecs)
	if kind.signed {
		for i := range neonPair * vecs {
			x := v.load(mem{buffer, 4*width*rows + 16*i}, nil)
			for _, acc := range t.acc {
				v.Do(a64.ADD, acc[i], acc[i], x)
			}
		}
	}
	flags := v.Param("flags")
	t.ifPartial("partial")
	v.Branch(bit(gemmAccumulate), "store", flags)
	t.eachRow("c", "cRow", func(acc []vreg, row vreg) {
		for i, x := range acc {
			v.Do(a64.ADD, x, x, v.load(mem{row, 16 * i}, nil))
		}
	})
	v.Label("store")
	t.store()
	v.Branch("B", "next")
	v.Label("partial")
	t.partial(v.copyInt(buffer), nil, func() []vreg { return nil }, func(x, c vreg, _, _ []vreg) {
		v.Branch(bit(gemmAccumulate), "storeOne", flags)
		other := v.Vec()
		v.Go("FMOVS (%s), %s", c, other)
		v.Do(a64.ADD, x, x, other)
		v.Label("storeOne")
	})
	v.Label("next")
	v.nextTile(rows, []string{"a", "c"}, nil)
}

// newSums returns sums that are 0, of that many rows and registers of results.
func (v *neon) newSums(kind neonKind, rows, width int) [][][]vreg {
	sums := make([][][]vreg, rows)
	for r := range sums {
		sums[r] = make([][]vreg, width)
		for i := range sums[r] {
			for range max(1, kind.sums) {
				sums[r][i] = append(sums[r][i], v.zero())
			}
		}
	}
	return sums
}

// joined is the results of sums.
func (kind neonKind) joined(v *neon, sums [][][]vreg) [][]vreg {
	acc := make([][]vreg, len(sums))
	for r := range sums {
		for _, sum := range sums[r] {
			x := sum[0]
			if kind.join != nil {
				x = kind.join(v, sum)
			}
			acc[r] = append(acc[r], x)
		}
	}
	return acc
}

func neonGemmKernel(v *neon, kind neonKind, rows, vecs int) {
	v.Label("tile")
	t := v.products(kind, rows, vecs, rows > 4 && vecs == neonTileVecs)
	t.finish("a", "c", "res")
}

// finish does what follows from the sums of a tile of floats, and continues with the next: the matrices begin its rows further on.
func (t *neonTile) finish(matrices ...string) {
	v, vecs := t.neon, t.vecs
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
	v.Branch(bit(gemmAtMost), "residual", flags)
	most := v.spread("alpha")
	t.each(func(x vreg, _ int) { v.Do(a64.FMIN, x, x, most) })
	v.Label("residual")
	v.Branch("CBZ", "store", res)
	addRows("res", "resRow")
	v.Label("store")
	t.store()
	v.Branch("B", "next")

	v.Label("partial")
	factor := v.Param("alpha")
	t.partial(v.Buffer(t.bytes()), []string{"res"}, func() []vreg { return []vreg{v.copyInt(bias)} },
		func(x, c vreg, rows, columns []vreg) {
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
			v.Branch(bit(gemmAtMost), "residualOne", flags)
			v.Do(a64.FMIN, x, x, factor)
			v.Label("residualOne")
			v.Branch("CBZ", "storeOne", res)
			v.Go("FMOVS (%s), %s", rows[0], other)
			v.Go("FADDS %s, %s, %s", other, x, x)
			v.Label("storeOne")
		})
	v.Label("next")
	v.nextTile(len(t.acc), matrices, nil)
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

// products writes the loops that sum up a tile over the parameter k. Where neighbours along K are adjacent in A, four of them
// are loaded at once, and multiplied lane by lane; else each element of A is loaded alone. The sums are the same: one chain
// of multiply-adds in the order of k for each element. ahead asks for the next panel.
func (v *neon) products(kind neonKind, rows, vecs int, ahead bool) *neonTile {
	if kind.deep {
		return v.deepProducts(kind, rows, vecs, ahead)
	}
	sums := v.newSums(kind, rows, neonPair*vecs)
	l := v.newProductLoop(rows, ahead)
	v.Go("CMP $4, %s", l.aCol)
	v.Branch("BNE", "apart")
	l.fours(func() { l.fourSteps(kind, sums) })
	v.Label("apart")
	v.Branch("CBZ", "done", l.k)
	v.Label("one")
	a := l.loadWords(kind, a64.LDRSX)
	v.Go("ADD %s, %s", l.aCol, l.i)
	l.step(kind, sums, a, 0)
	v.Go("SUB $1, %s", l.k)
	v.Branch("CBNZ", "one", l.k)
	v.Label("done")
	return &neonTile{v, kind.joined(v, sums), vecs}
}

// fourSteps takes four words of each row of A.
func (l *productLoop) fourSteps(kind neonKind, sums [][][]vreg) {
	a := l.loadWords(kind, a64.LDRQX)
	l.Go("ADD $16, %s", l.i)
	for lane := range 4 {
		if lane%2 == 0 { // a step is half a line at most
			l.prefetch()
		}
		l.step(kind, sums, a, lane)
	}
}

// loadWords reads from every row of A what multiply takes.
func (l *productLoop) loadWords(kind neonKind, op a64.Op) [][]vreg {
	words := l.load(op, l.i)
	if kind.load != nil {
		return kind.load(l.neon, words)
	}
	a := make([][]vreg, len(words))
	for r, x := range words {
		a[r] = []vreg{x}
	}
	return a
}

// step adds the products of a row of words of B with one word of each row of A.
func (l *productLoop) step(kind neonKind, sums [][][]vreg, a [][]vreg, lane int) {
	if kind.lane != nil {
		a = slices.Clone(a)
		for r := range a {
			a[r] = kind.lane(l.neon, a[r], lane)
		}
	}
	for i := 0; i < len(sums[0]); i += neonPair {
		left, right := l.Vec(), l.Vec()
		l.Do(a64.LDPQ(16*i), left, right, l.b)
		for j, x := range []vreg{left, right} {
			b := []vreg{x}
			if kind.wordsOfB != nil {
				b = kind.wordsOfB(l.neon, x)
			}
			for r := range a {
				kind.multiply(l.neon, sums[r][i+j], b, a[r], lane)
			}
		}
	}
	l.Go("ADD %s, %s", l.bRow, l.b)
}

// deepProducts is products of words of B that are stored in pairs: a register has two of two columns, and meets those of two rows. Where K
// is odd, the last words of all columns are stored as others are.
func (v *neon) deepProducts(kind neonKind, rows, vecs int, ahead bool) *neonTile {
	pairs, width := (rows+1)/2, 2*neonPair*vecs
	sums := v.newSums(kind, pairs, width)
	l := v.newProductLoop(rows, ahead)
	// rowPairs joins halves of registers of neighbouring rows.
	rowPairs := func(op a64.Op, x []vreg) (a [][]vreg) {
		for r := 0; r < rows; r += 2 {
			a = append(a, []vreg{v.of(op, x[r], x[min(r+1, rows-1)])})
		}
		return a
	}
	multiply := func(b vreg, column int, a [][]vreg) {
		for p := range pairs {
			kind.multiply(v, sums[p][column], []vreg{b}, a[p], 0)
		}
	}
	step := func(a [][]vreg) {
		for column := 0; column < width; column += 2 {
			left, right := v.Vec(), v.Vec()
			v.Do(a64.LDPQ(16*column), left, right, l.b)
			multiply(left, column, a)
			multiply(right, column+1, a)
		}
		v.Go("ADD %s<<1, %s", l.bRow, l.b)
	}
	v.Go("CMP $4, %s", l.aCol)
	v.Branch("BNE", "apart")
	l.fours(func() {
		x := l.load(a64.LDRQX, l.i)
		v.Go("ADD $16, %s", l.i)
		first, second := make([][]vreg, pairs), make([][]vreg, pairs)
		for p := range pairs { // one after the other: registers are short
			both := x[2*p : min(2*p+2, rows)]
			first[p] = []vreg{v.of(a64.ZIP1D, both[0], both[len(both)-1])}
			second[p] = []vreg{v.of(a64.ZIP2D, both[0], both[len(both)-1])}
		}
		l.prefetch()
		step(first)
		l.prefetch()
		step(second)
	})
	v.Label("apart")
	v.Go("SUBS $2, %s", l.k)
	v.Branch("BLT", "last")
	v.Label("two")
	x := l.load(a64.LDRSX, l.i)
	v.Go("ADD %s, %s", l.aCol, l.i)
	for r, a := range l.a {
		v.Do(a64.ZIP1, x[r], x[r], v.of(a64.LDRSX, a, l.i))
	}
	v.Go("ADD %s, %s", l.aCol, l.i)
	step(rowPairs(a64.ZIP1D, x))
	v.Go("SUBS $2, %s", l.k)
	v.Branch("BGE", "two")
	v.Label("last")
	v.Go("ADDS $2, %s", l.k)
	v.Branch("BEQ", "done")
	a, zero := rowPairs(a64.ZIP1D, l.load(a64.LDRSX, l.i)), v.zero()
	for column := 0; column < width; column += 2 {
		words := v.load(mem{l.b, 8 * column}, nil)
		multiply(v.of(a64.ZIP1, words, zero), column, a)
		multiply(v.of(a64.ZIP2, words, zero), column+1, a)
	}
	v.Label("done")
	acc := make([][]vreg, rows)
	for r := range rows {
		op := []a64.Op{a64.ZIP1D, a64.ZIP2D}[r%2]
		for column := 0; column < width; column += 2 {
			acc[r] = append(acc[r], v.of(op, sums[r/2][column][0], sums[r/2][column+1][0]))
		}
	}
	return &neonTile{v, acc, vecs}
}

// A productLoop is the operands of a tile's products while they are gone through.
type productLoop struct {
	*neon
	a              []vreg // each row of A
	i              vreg   // bytes from there
	aCol           vreg
	b, bRow        vreg
	k              vreg // words that are left
	next, nextStep *vreg
}

func (v *neon) newProductLoop(rows int, ahead bool) *productLoop {
	aRow := v.elements("aRow")
	l := &productLoop{neon: v, k: v.Param("k"), aCol: v.elements("aCol"), b: v.Param("b"), bRow: v.elements("bRow"), i: v.Int(),
		a: []vreg{v.Param("a")}}
	for r := 1; r < rows; r++ {
		l.a = append(l.a, v.plus(l.a[r-1], aRow))
	}
	if ahead {
		next, step := v.Param("next"), v.Param("nextStep")
		l.next, l.nextStep = &next, &step
	}
	v.Go("MOVD ZR, %s", l.i)
	return l
}

// load reads from every row of A.
func (l *productLoop) load(op a64.Op, i vreg) (words []vreg) {
	for _, a := range l.a {
		words = append(words, l.of(op, a, i))
	}
	return words
}

// prefetch asks for a line of the next panel.
func (l *productLoop) prefetch() {
	if l.next != nil {
		l.Do(a64.PRFM(2, 0), *l.next)
		l.Go("ADD %s<<1, %s", *l.nextStep, *l.next)
	}
}

// fours runs body for every four words, and leaves the rest of k.
func (l *productLoop) fours(body func()) {
	l.Go("SUBS $4, %s", l.k)
	l.Branch("BLT", "rest")
	l.Label("four")
	body()
	l.Go("SUBS $4, %s", l.k)
	l.Branch("BGE", "four")
	l.Label("rest")
	l.Go("ADD $4, %s", l.k)
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

// partial writes the real columns of a tile to C one by one, by way of a buffer: few tiles have others. finish completes the element x of
// C, given the addresses of it, of the like element of other matrices, and of what moves on with the columns alone, from its start.
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

// nextTile continues with the next tile, if there is one, or returns: matrices begin a number of rows further on, vectors a number of
// elements. An operand that is nil stays so.
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
