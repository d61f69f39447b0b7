package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// simd writes vector code for one register width.
type simd struct {
	*gen
	name  string // suffix of the functions
	lanes int    // floats in a vector
	wide  bool   // AVX-512, with its mask registers

	preloaded map[string]reg.VecVirtual         // constants in registers
	collect   func(name string, lanes []uint32) // not nil while preload learns what is used
}

func avx2(g *gen) *simd   { return &simd{gen: g, name: "AVX2", lanes: 8} }
func avx512(g *gen) *simd { return &simd{gen: g, name: "AVX512", lanes: 16, wide: true} }

// fn starts a function, with nothing preloaded.
func (v *simd) fn(name, signature, doc string, args ...any) {
	v.preloaded = nil
	v.gen.fn(name, signature, doc, args...)
}

// vec returns a fresh vector register.
func (v *simd) vec() reg.VecVirtual {
	if v.wide {
		return v.ZMM()
	}
	return v.YMM()
}

func (v *simd) vecs(n int) []reg.VecVirtual {
	regs := make([]reg.VecVirtual, n)
	for i := range regs {
		regs[i] = v.vec()
	}
	return regs
}

// zero clears a register.
func (v *simd) zero(r reg.Register) {
	if v.wide {
		v.VPXORD(r, r, r)
	} else {
		v.VPXOR(r, r, r)
	}
}

// mask chooses the first lanes of a vector: a mask register, or a vector whose chosen lanes are all ones.
type mask struct{ reg.Register }

// tail returns the mask of the first n lanes, 0 ≤ n ≤ lanes. n is clobbered.
func (v *simd) tail(n reg.Register) mask {
	if v.wide {
		ones := v.GP32()
		v.MOVL(operand.I32(-1), ones)
		v.BZHIL(n.(reg.GPVirtual).As32(), ones, ones)
		k := v.K()
		v.KMOVW(ones, k)
		return mask{k}
	}
	table := v.GP64()
	v.LEAQ(v.tailTable(), table)
	v.NEGQ(n)
	m := v.YMM()
	v.VMOVDQU(operand.Mem{Base: table, Index: n, Scale: 4, Disp: 32}, m)
	return mask{m}
}

// columns ends a function that walks along left columns: do makes the code of a vector of them, or of a tail. column is an offset that
// grows by a number of bytes with each vector.
func (v *simd) columns(left, column reg.Register, bytes int, do func(label string, m *mask)) {
	v.Label("columns")
	v.CMPQ(left, operand.U8(v.lanes))
	v.JL(operand.LabelRef("tail"))
	do("row", nil)
	v.ADDQ(operand.U8(bytes), column)
	v.SUBQ(operand.U8(v.lanes), left)
	v.JMP(operand.LabelRef("columns"))
	v.Label("tail")
	v.TESTQ(left, left)
	v.JZ(operand.LabelRef("end"))
	m := v.tail(left)
	do("tailRow", &m)
	v.Label("end")
	v.VZEROUPPER()
	v.RET()
}

// tailTable is eight lanes of ones and eight of zeros.
func (v *simd) tailTable() operand.Mem {
	return v.table("tailMask", func() {
		for range 4 {
			v.AppendDatum(operand.U64(math.MaxUint64))
		}
		for range 4 {
			v.AppendDatum(operand.U64(0))
		}
	})
}

// table returns a read-only table of this unit, made at its first use.
func (v *gen) table(name string, fill func()) operand.Mem {
	if mem, ok := v.constants[name]; ok {
		return mem
	}
	mem := v.StaticGlobal(name)
	v.DataAttributes(attr.RODATA | attr.NOPTR)
	fill()
	v.constants[name] = mem
	return mem
}

// f32 returns an operand that holds x in every lane. avo's own F32 constants are written as integers, so the bits are
// given.
func (v *simd) f32(x float64) operand.Op { return v.bits(math.Float32bits(float32(x))) }

// bits returns an operand that holds the word in every lane.
func (v *simd) bits(word uint32) operand.Op {
	return v.held(fmt.Sprintf("lanes%08x", word), slices.Repeat([]uint32{word}, v.lanes))
}

// held returns an operand that holds a word in each lane: memory, or a register that preload has filled.
func (v *simd) held(name string, lanes []uint32) operand.Op {
	if v.collect != nil {
		v.collect(name, lanes)
		return operand.Mem{Base: reg.RAX}
	}
	if r, ok := v.preloaded[name]; ok {
		return r
	}
	return v.words(name, lanes)
}

// words returns memory that holds words.
func (v *simd) words(name string, words []uint32) operand.Mem {
	return v.table(name, func() {
		for _, word := range words {
			v.AppendDatum(operand.U32(word))
		}
	})
}

// constant loads a number into a fresh register.
func (v *simd) constant(x float64) reg.VecVirtual {
	r := v.vec()
	v.VMOVUPS(v.f32(x), r)
	return r
}

// preload reads the constants of the code that emit writes into registers, for a loop to find there. They are learned
// by writing the code once into the void. AVX2 has no registers to spare.
func (v *simd) preload(emit func()) { v.preloadAtMost(24, emit) }

// preloadAtMost is preload of at most that many constants.
func (v *simd) preloadAtMost(most int, emit func()) {
	if !v.wide {
		return
	}
	type constant struct {
		name  string
		lanes []uint32
	}
	var used []constant
	v.collect = func(name string, lanes []uint32) {
		if len(used) < most && !slices.ContainsFunc(used, func(c constant) bool { return c.name == name }) {
			used = append(used, constant{name, lanes})
		}
	}
	context := v.Context
	v.Context = build.NewContext()
	v.Function("void")
	emit()
	v.Context, v.collect = context, nil
	loaded := map[string]reg.VecVirtual{}
	for _, c := range used {
		loaded[c.name] = v.vec()
		v.VMOVUPS(v.words(c.name, c.lanes), loaded[c.name])
	}
	v.preloaded = loaded
}

// load reads a vector, or its masked lanes with zeros elsewhere.
func (v *simd) load(from operand.Mem, to reg.Register, m *mask) {
	switch {
	case m == nil:
		v.VMOVUPS(from, to)
	case v.wide:
		v.VMOVUPS_Z(from, m.Register, to)
	default:
		v.VMASKMOVPS(from, m.Register, to)
	}
}

// store writes a vector, or its masked lanes.
func (v *simd) store(from reg.Register, to operand.Mem, m *mask) {
	switch {
	case m == nil:
		v.VMOVUPS(from, to)
	case v.wide:
		v.VMOVUPS(from, m.Register, to)
	default:
		v.VMASKMOVPS(from, m.Register, to)
	}
}

// param loads a parameter of eight bytes into a register.
func (g *gen) param(name string) reg.GPVirtual {
	r := g.GP64()
	g.Load(g.Param(name), r)
	return r
}

// slot is the memory of a parameter.
func (g *gen) slot(name string) operand.Mem {
	basic, err := g.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return basic.Addr
}

// elements loads a count of 4-byte elements as a number of bytes.
func (g *gen) elements(name string) reg.GPVirtual {
	r := g.param(name)
	g.SHLQ(operand.U8(2), r)
	return r
}
