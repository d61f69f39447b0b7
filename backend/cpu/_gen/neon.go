package main

import (
	"bytes"
	"fmt"
	"go/format"
	"math"
	"os"
	"path/filepath"

	"github.com/rlxc/rlxc/backend/cpu/_gen/a64"
)

// neonLanes is the floats in a vector register of arm64.
const neonLanes = 4

// neonUnits are the files for arm64 that the generator writes: NAME_arm64.s and NAME_arm64.go.
var neonUnits = []struct {
	name string
	emit func(*neonUnit)
}{
	{"pause", neonPause},
	{"gemm_neon", neonGemm},
	{"gemm_s8_neon", neonGemmS8},
	{"gemm_bf16_neon", neonGemmBF16},
	{"gemm_q4_neon", neonBlocks},
	{"elementwise_neon", neonElementwise},
	{"rows_neon", neonRows},
	{"attention_neon", neonAttention},
	{"transpose_neon", neonTranspose},
	{"depthwise_neon", neonDepthwise},
	{"winograd_neon", neonWinograd},
	{"convert_neon", neonConvert},
	{"quantize_neon", neonQuantize},
	{"peaks_neon", neonPeaks},
}

// neonUnit is the functions of a file.
type neonUnit struct {
	pool  *a64.Pool
	funcs []*a64.Func
	extra bytes.Buffer // Go text for after the stubs
}

// fn starts a leaf function.
func (u *neonUnit) fn(name, signature, doc string, args ...any) *neon {
	f := a64.NewFunc(name, signature, fmt.Sprintf(doc, args...), u.pool)
	u.funcs = append(u.funcs, f)
	return &neon{f}
}

func generateNEON(folder string) error {
	for _, unit := range neonUnits {
		u := &neonUnit{pool: &a64.Pool{Name: unit.name}}
		unit.emit(u)
		text, stubs, err := a64.Print(u.funcs, u.pool, "backend/cpu/_gen")
		if err != nil {
			return fmt.Errorf("%s: %w", unit.name, err)
		}
		if stubs, err = format.Source(append(stubs, u.extra.Bytes()...)); err != nil {
			return fmt.Errorf("%s: %w", unit.name, err)
		}
		path := filepath.Join(folder, unit.name+"_arm64")
		if err := os.WriteFile(path+".s", text, 0o644); err != nil {
			return err
		}
		if err := os.WriteFile(path+".go", stubs, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// neonPause waits for the pipeline to drain, some ten cycles: the instruction meant for it does nothing on most processors.
func neonPause(u *neonUnit) {
	v := u.fn("pause", "func()", "pause hints to the processor that a loop waits.")
	v.Go("ISB $15")
	v.Ret()
}

// neon writes a function. Its arithmetic takes registers and returns fresh ones, but for the accumulator of fma and fms.
type neon struct{ *a64.Func }

type vreg = a64.Reg

// of is the result of an instruction in a fresh register.
func (v *neon) of(op a64.Op, operands ...vreg) vreg {
	to := v.Vec()
	v.Do(op, append([]vreg{to}, operands...)...)
	return to
}

func (v *neon) add(x, y vreg) vreg { return v.of(a64.FADD, x, y) }
func (v *neon) sub(x, y vreg) vreg { return v.of(a64.FSUB, x, y) }
func (v *neon) mul(x, y vreg) vreg { return v.of(a64.FMUL, x, y) }
func (v *neon) div(x, y vreg) vreg { return v.of(a64.FDIV, x, y) }
func (v *neon) max(x, y vreg) vreg { return v.of(a64.FMAX, x, y) } // NaN if either is
func (v *neon) min(x, y vreg) vreg { return v.of(a64.FMIN, x, y) } // NaN if either is
func (v *neon) copy(x vreg) vreg   { return v.of(a64.MOV, x) }
func (v *neon) zero() vreg         { return v.of(a64.ZERO) }

// fma returns acc + x·y, in the register of acc; fms acc − x·y.
func (v *neon) fma(acc, x, y vreg) vreg {
	v.Do(a64.FMLA, acc, x, y)
	return acc
}

func (v *neon) fms(acc, x, y vreg) vreg {
	v.Do(a64.FMLS, acc, x, y)
	return acc
}

// choose is yes where the lanes of the mask are set, no elsewhere, in the register of the mask.
func (v *neon) choose(mask, yes, no vreg) vreg {
	v.Do(a64.BSL, mask, yes, no)
	return mask
}

// bits is a constant register with the word in every lane, num with a number. own is num in a separate register, which may be
// changed.
func (v *neon) bits(word uint32) vreg { return v.Constant([4]uint32{word, word, word, word}) }
func (v *neon) num(x float64) vreg    { return v.bits(math.Float32bits(float32(x))) }
func (v *neon) own(x float64) vreg {
	word := math.Float32bits(float32(x))
	return v.FreshConstant([4]uint32{word, word, word, word})
}

// spread loads a parameter into all lanes.
func (v *neon) spread(name string) vreg { return v.of(a64.DUP(0), v.Param(name)) }

// elements loads a count of 4-byte elements as a number of bytes.
func (v *neon) elements(name string) vreg {
	r := v.Param(name)
	v.Go("LSL $2, %s, %s", r, r)
	return r
}

// set and plus compute with general registers: to = x, and the fresh x + y.
func (v *neon) set(to, x vreg) { v.Go("MOVD %s, %s", x, to) }

func (v *neon) plus(x, y vreg) vreg {
	to := v.Int()
	v.Go("ADD %s, %s, %s", x, y, to)
	return to
}

// mem is an address: a register and a constant number of bytes.
type mem struct {
	base   vreg
	offset int
}

// A tail is the last 1 to 3 elements of a row.
type tail struct {
	count vreg // general
	mask  vreg // all ones in the lanes that count
}

// load reads a vector, or the elements of a tail with zeros in the other lanes.
func (v *neon) load(from mem, t *tail) vreg {
	if t == nil {
		return v.of(a64.LDRQ(from.offset), from.base)
	}
	x := v.Vec()
	one, done, third := v.Unique("loadOne"), v.Unique("loaded"), v.Int()
	v.Branch("TBZ $1,", one, t.count)
	v.Do(a64.LDRD(from.offset), x, from.base)
	v.Branch("TBZ $0,", done, t.count)
	v.Go(fmt.Sprintf("ADD $%d, %%s, %%s", from.offset+8), from.base, third)
	v.Do(a64.LD1S(2), x, third)
	v.Branch("B", done)
	v.Label(one)
	v.Do(a64.LDRS(from.offset), x, from.base)
	v.Label(done)
	return x
}

// loadOr reads a vector, or the elements of a tail with those of other in the other lanes.
func (v *neon) loadOr(from mem, other vreg, t *tail) vreg {
	x := v.load(from, t)
	if t == nil {
		return x
	}
	return v.choose(v.copy(t.mask), x, other)
}

// keep clears the lanes outside a tail.
func (v *neon) keep(x vreg, t *tail) vreg {
	if t == nil {
		return x
	}
	return v.of(a64.AND, x, t.mask)
}

// store writes a vector, or the elements of a tail.
func (v *neon) store(x vreg, to mem, t *tail) {
	if t == nil {
		v.Do(a64.STRQ(to.offset), x, to.base)
		return
	}
	one, done, third := v.Unique("storeOne"), v.Unique("stored"), v.Int()
	v.Branch("TBZ $1,", one, t.count)
	v.Do(a64.STRD(to.offset), x, to.base)
	v.Branch("TBZ $0,", done, t.count)
	v.Go(fmt.Sprintf("ADD $%d, %%s, %%s", to.offset+8), to.base, third)
	v.Do(a64.ST1S(2), x, third)
	v.Branch("B", done)
	v.Label(one)
	v.Do(a64.STRS(to.offset), x, to.base)
	v.Label(done)
}

// neonChains is the vectors that a loop takes at a time, and so the independent sums of a row.
const neonChains = 4

// A neonWalk passes over the columns of a row: groups of vectors, single vectors, then a tail.
type neonWalk struct {
	*neon
	whole, groups vreg // bytes in whole vectors, and in groups of them
	i             vreg // byte offset of the current group
	tail          tail
}

// newWalk prepares passes over rows of cols columns.
func (v *neon) newWalk(cols vreg) *neonWalk {
	w := &neonWalk{neon: v, whole: v.Int(), groups: v.Int(), i: v.Int(), tail: tail{count: v.Int()}}
	v.Go(fmt.Sprintf("AND $%d, %%s, %%s", neonLanes-1), cols, w.tail.count)
	v.Go("LSL $2, %s, %s", cols, w.whole)
	v.Go(fmt.Sprintf("AND $%d, %%s, %%s", -4*neonLanes*neonChains), w.whole, w.groups)
	v.Go(fmt.Sprintf("AND $%d, %%s, %%s", -4*neonLanes), w.whole, w.whole)
	numbers := v.Constant([4]uint32{0, 1, 2, 3})
	count := v.of(a64.DUPW, w.tail.count)
	w.tail.mask = v.of(a64.CMGT, count, numbers)
	return w
}

// pass calls body for every vector of a row, with the means to reach it from the start of a row. chain distinguishes the vectors of a
// group apart; it is 0 outside of groups.
func (w *neonWalk) pass(body func(at func(row vreg) mem, chain int, t *tail)) {
	step := func(n int, t *tail) {
		here := map[vreg]vreg{}
		w.Interleave(n, func(chain int, first func(emit func())) {
			body(func(row vreg) mem {
				if _, ok := here[row]; !ok {
					first(func() { here[row] = w.plus(row, w.i) })
				}
				return mem{here[row], 4 * neonLanes * chain}
			}, chain, t)
		})
		w.Go(fmt.Sprintf("ADD $%d, %%s", 4*neonLanes*n), w.i)
	}
	group, singles, single, rest, end := w.Unique("group"), w.Unique("singles"), w.Unique("single"), w.Unique("rest"), w.Unique("end")
	w.Go("MOVD ZR, %s", w.i)
	w.Branch("CBZ", singles, w.groups)
	w.Label(group)
	step(neonChains, nil)
	w.Go("CMP %s, %s", w.groups, w.i)
	w.Branch("BLO", group)
	w.Label(singles)
	w.Go("CMP %s, %s", w.whole, w.i)
	w.Branch("BHS", rest)
	w.Label(single)
	step(1, nil)
	w.Go("CMP %s, %s", w.whole, w.i)
	w.Branch("BLO", single)
	w.Label(rest)
	w.Branch("CBZ", end, w.tail.count)
	step(1, &w.tail)
	w.Label(end)
}

// neonMatrix is an operand of a kernel over rows: the pointer to the current row, and the bytes to the next.
type neonMatrix struct{ pointer, row vreg }

// matrix takes an operand from the parameters NAME and NAMERow.
func (v *neon) matrix(name string) neonMatrix {
	return neonMatrix{v.Param(name), v.elements(name + "Row")}
}

// eachRow writes the rest of a kernel: body for each of the parameter rows, the operands moving along.
func (v *neon) eachRow(body func(w *neonWalk), operands ...neonMatrix) {
	rows := v.Param("rows")
	w := v.newWalk(v.Param("cols"))
	v.Label("row")
	body(w)
	for _, op := range operands {
		v.nextRow(op)
	}
	v.Go("SUB $1, %s", rows)
	v.Branch("CBNZ", "row", rows)
	v.Ret()
}

// nextRow moves an operand on.
func (v *neon) nextRow(m neonMatrix) { v.Go("ADD %s, %s", m.row, m.pointer) }
