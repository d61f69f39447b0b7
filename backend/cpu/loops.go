package cpu

import (
	"math"
	"unsafe"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Functions and types that no kernel is written for run as Go loops, by the tables of this file.

type float interface{ ~float32 | ~float64 }

type integer interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// A number is an element type of the Go loops.
type number interface{ float | integer }

// A loop is a Go loop over the elements of one operand, as a separate step and as an instruction of a fused elementwise step.
type loop struct {
	step  func(y, x *operand) step
	block blockFunc
}

func loopOf[X, Y tensor.Element](f func(X) Y) *loop {
	return &loop{func(y, x *operand) step { return mapStep(y, x, f) }, block1(f)}
}

// A loop2 is one over the elements of two operands.
type loop2 struct {
	step  func(y, a, b *operand) step
	block blockFunc
}

func loop2Of[X, Y tensor.Element](f func(p, q X) Y) *loop2 {
	return &loop2{func(y, a, b *operand) step { return zipStep(y, a, b, f) }, block2(f)}
}

// unaryLoop is the Go loop of a function, nil where there is none.
func unaryLoop(o ir.Unary, d tensor.DType) *loop {
	switch whole := o.Whole(); {
	case d == tensor.F32:
		return realLoop[float32](o)
	case d == tensor.F64:
		return realLoop[float64](o)
	case d == tensor.Bool && o.Fn == ir.Not:
		return loopOf(func(v bool) bool { return !v })
	case d == tensor.U64 && o.Fn != ir.BitwiseNot: // the others would take the highest bit for a sign
	case whole != nil && wholeLoops[d] != nil:
		return wholeLoops[d](whole)
	}
	return nil
}

func realLoop[T float](o ir.Unary) *loop {
	switch f := o.Real(); {
	case o.Fn == ir.IsNaN:
		return loopOf(func(v T) bool { return v != v })
	case o.Fn == ir.IsInf:
		above, below := o.Alpha != 0, o.Beta != 0
		return loopOf(func(v T) bool { return above && math.IsInf(float64(v), 1) || below && math.IsInf(float64(v), -1) })
	case f != nil:
		return loopOf(func(v T) T { return T(f(float64(v))) })
	}
	return nil
}

// wholeLoops are the Go loops of functions of integers, by type.
var wholeLoops = map[tensor.DType]func(f func(int64) int64) *loop{
	tensor.I8: wholeLoop[int8], tensor.I16: wholeLoop[int16], tensor.I32: wholeLoop[int32], tensor.I64: wholeLoop[int64],
	tensor.U8: wholeLoop[uint8], tensor.U16: wholeLoop[uint16], tensor.U32: wholeLoop[uint32], tensor.U64: wholeLoop[uint64],
}

func wholeLoop[T integer](f func(int64) int64) *loop {
	return loopOf(func(v T) T { return T(f(int64(v))) })
}

// binaryLoop is the Go loop of a function of two operands; nil where there is none.
func binaryLoop(fn ir.BinaryFn, a, b tensor.DType) *loop2 {
	if a != b {
		return nil
	}
	return binaryLoops[a][fn]
}

var binaryLoops = map[tensor.DType]map[ir.BinaryFn]*loop2{
	tensor.F32: realLoops[float32](), tensor.F64: realLoops[float64](),
	tensor.I8: integerLoops[int8](), tensor.I16: integerLoops[int16](), tensor.I32: integerLoops[int32](),
	tensor.I64: integerLoops[int64](),
	tensor.U8:  integerLoops[uint8](), tensor.U16: integerLoops[uint16](), tensor.U32: integerLoops[uint32](), tensor.U64: wideLoops(),
	tensor.Bool: {
		ir.And:   loop2Of(func(p, q bool) bool { return p && q }),
		ir.Or:    loop2Of(func(p, q bool) bool { return p || q }),
		ir.Xor:   loop2Of(func(p, q bool) bool { return p != q }),
		ir.Equal: loop2Of(func(p, q bool) bool { return p == q }),
	},
}

// numberLoops are the functions that Go has for every number.
func numberLoops[T number]() map[ir.BinaryFn]*loop2 {
	return map[ir.BinaryFn]*loop2{
		ir.Add:            loop2Of(func(p, q T) T { return p + q }),
		ir.Sub:            loop2Of(func(p, q T) T { return p - q }),
		ir.Mul:            loop2Of(func(p, q T) T { return p * q }),
		ir.MinFn:          loop2Of(func(p, q T) T { return min(p, q) }),
		ir.MaxFn:          loop2Of(func(p, q T) T { return max(p, q) }),
		ir.Equal:          loop2Of(func(p, q T) bool { return p == q }),
		ir.Less:           loop2Of(func(p, q T) bool { return p < q }),
		ir.LessOrEqual:    loop2Of(func(p, q T) bool { return p <= q }),
		ir.Greater:        loop2Of(func(p, q T) bool { return p > q }),
		ir.GreaterOrEqual: loop2Of(func(p, q T) bool { return p >= q }),
	}
}

// others adds loops for the functions that Go has no operator for. They call the function that the IR defines.
func others(loops map[ir.BinaryFn]*loop2, of func(fn ir.BinaryFn) *loop2) map[ir.BinaryFn]*loop2 {
	for fn := ir.NoBinary + 1; fn < ir.NumBinary; fn++ {
		if l := of(fn); l != nil && loops[fn] == nil {
			loops[fn] = l
		}
	}
	return loops
}

func realLoops[T float]() map[ir.BinaryFn]*loop2 {
	return others(numberLoops[T](), func(fn ir.BinaryFn) *loop2 {
		f := fn.Real()
		if f == nil {
			return nil
		}
		return loop2Of(func(p, q T) T { return T(f(float64(p), float64(q))) })
	})
}

func integerLoops[T integer]() map[ir.BinaryFn]*loop2 {
	return others(numberLoops[T](), func(fn ir.BinaryFn) *loop2 {
		f := fn.Whole()
		if f == nil {
			return nil
		}
		return loop2Of(func(p, q T) T { return T(f(int64(p), int64(q))) })
	})
}

// wideLoops are integerLoops where an int64 does not hold all.
func wideLoops() map[ir.BinaryFn]*loop2 {
	return others(numberLoops[uint64](), func(fn ir.BinaryFn) *loop2 {
		f := fn.Wide()
		if f == nil {
			return nil
		}
		return loop2Of(f)
	})
}

// casts are the conversions that have a Go loop, by the types from and to; all others run by Eval.
var casts = func() map[[2]tensor.DType]*loop {
	m := map[[2]tensor.DType]*loop{}
	wholeCasts[int8](m, tensor.I8)
	wholeCasts[int16](m, tensor.I16)
	wholeCasts[int32](m, tensor.I32)
	wholeCasts[int64](m, tensor.I64)
	wholeCasts[uint8](m, tensor.U8)
	wholeCasts[uint16](m, tensor.U16)
	wholeCasts[uint32](m, tensor.U32)
	wholeCasts[uint64](m, tensor.U64)
	realCasts[float32](m, tensor.F32)
	realCasts[float64](m, tensor.F64)
	cast := func(to tensor.DType, l *loop) { m[[2]tensor.DType{tensor.Bool, to}] = l }
	cast(tensor.I8, loopOf(fromBool[int8]))
	cast(tensor.I16, loopOf(fromBool[int16]))
	cast(tensor.I32, loopOf(fromBool[int32]))
	cast(tensor.I64, loopOf(fromBool[int64]))
	cast(tensor.U8, loopOf(fromBool[uint8]))
	cast(tensor.U16, loopOf(fromBool[uint16]))
	cast(tensor.U32, loopOf(fromBool[uint32]))
	cast(tensor.U64, loopOf(fromBool[uint64]))
	cast(tensor.F32, loopOf(fromBool[float32]))
	cast(tensor.F64, loopOf(fromBool[float64]))
	return m
}()

// wholeCasts are those of an integer type: other integers wrap.
func wholeCasts[X integer](m map[[2]tensor.DType]*loop, from tensor.DType) {
	cast := func(to tensor.DType, l *loop) { m[[2]tensor.DType{from, to}] = l }
	cast(tensor.I8, loopOf(func(v X) int8 { return int8(v) }))
	cast(tensor.I16, loopOf(func(v X) int16 { return int16(v) }))
	cast(tensor.I32, loopOf(func(v X) int32 { return int32(v) }))
	cast(tensor.I64, loopOf(func(v X) int64 { return int64(v) }))
	cast(tensor.U8, loopOf(func(v X) uint8 { return uint8(v) }))
	cast(tensor.U16, loopOf(func(v X) uint16 { return uint16(v) }))
	cast(tensor.U32, loopOf(func(v X) uint32 { return uint32(v) }))
	cast(tensor.U64, loopOf(func(v X) uint64 { return uint64(v) }))
	cast(tensor.F32, loopOf(func(v X) float32 { return float32(v) }))
	cast(tensor.F64, loopOf(func(v X) float64 { return float64(v) }))
	cast(tensor.Bool, loopOf(func(v X) bool { return v != 0 }))
}

// realCasts are those of a float type: integers saturate as ir.Cast has it, at the bounds of int32 or of int64, and wrap.
func realCasts[X float](m map[[2]tensor.DType]*loop, from tensor.DType) {
	cast := func(to tensor.DType, l *loop) { m[[2]tensor.DType{from, to}] = l }
	narrow := func(v X) int64 { return ir.Saturate(float64(v), math.MinInt32, math.MaxInt32) }
	wide := func(v X) int64 { return ir.Saturate(float64(v), math.MinInt64, math.MaxInt64) }
	cast(tensor.I8, loopOf(func(v X) int8 { return int8(narrow(v)) }))
	cast(tensor.I16, loopOf(func(v X) int16 { return int16(narrow(v)) }))
	cast(tensor.I32, loopOf(func(v X) int32 { return int32(narrow(v)) }))
	cast(tensor.I64, loopOf(wide))
	cast(tensor.U8, loopOf(func(v X) uint8 { return uint8(narrow(v)) }))
	cast(tensor.U16, loopOf(func(v X) uint16 { return uint16(narrow(v)) }))
	cast(tensor.U32, loopOf(func(v X) uint32 { return uint32(wide(v)) }))
	cast(tensor.U64, loopOf(func(v X) uint64 {
		switch f := float64(v); {
		case f >= 0x1p64:
			return math.MaxUint64
		case f >= 0x1p63:
			return uint64(f)
		}
		return uint64(wide(v))
	}))
	cast(tensor.F32, loopOf(func(v X) float32 { return float32(v) })) // from float32 between 16-bit floats
	cast(tensor.F64, loopOf(func(v X) float64 { return float64(v) }))
	cast(tensor.Bool, loopOf(func(v X) bool { return v != 0 }))
}

func fromBool[T number](v bool) T {
	if v {
		return 1
	}
	return 0
}

func lanes[T tensor.Element](r register, n int) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(r))), n)
}

// A register is the memory of a block.
type register = []byte

// A blockFunc runs an instruction on n elements. Arguments that an op does not have are nil.
type blockFunc func(dst, a, b, c register, n int)

// A Map runs in blocks that stay in the first-level cache: each instruction reads and writes registers, which have as many elements
// as there is room for of the widest. Operands that are in the arena as a run are registers themselves; broadcast and strided ones are
// brought into one first. Rows shorter than a block share one.
const (
	mapRegisters = 24
	registerSize = 2048 // bytes
)

// mapStep applies a Go function to every element.
func mapStep[X, Y tensor.Element](y, x *operand, f func(X) Y) step {
	dst, src, loops := *y, *x, newNest(y.shape, y, x)
	return step{parts: loops.parts(), run: func(m *machine, part, _ int) {
		d, s := elements[Y](m, &dst), elements[X](m, &src)
		loops.blocks(part, func(rows, cols int, at [maxOperands]int) {
			for r := range rows {
				p, q := at[0]+r*loops.row(0), at[1]+r*loops.row(1)
				for c := range cols {
					d[p+c*loops.col(0)] = f(s[q+c*loops.col(1)])
				}
			}
		})
	}}
}

// zipStep applies a Go function to the elements of two operands.
func zipStep[X, Y tensor.Element](y, a, b *operand, f func(X, X) Y) step {
	dst, left, right, loops := *y, *a, *b, newNest(y.shape, y, a, b)
	return step{parts: loops.parts(), run: func(m *machine, part, _ int) {
		d, s, t := elements[Y](m, &dst), elements[X](m, &left), elements[X](m, &right)
		loops.blocks(part, func(rows, cols int, at [maxOperands]int) {
			for r := range rows {
				o, p, q := at[0]+r*loops.row(0), at[1]+r*loops.row(1), at[2]+r*loops.row(2)
				for c := range cols {
					d[o+c*loops.col(0)] = f(s[p+c*loops.col(1)], t[q+c*loops.col(2)])
				}
			}
		})
	}}
}

func block1[X, Y tensor.Element](f func(X) Y) blockFunc {
	return func(dst, a, _, _ register, n int) {
		d, s := lanes[Y](dst, n), lanes[X](a, n)
		for i, v := range s {
			d[i] = f(v)
		}
	}
}

func block2[X, Y tensor.Element](f func(X, X) Y) blockFunc {
	return func(dst, a, b, _ register, n int) {
		d, s, t := lanes[Y](dst, n), lanes[X](a, n), lanes[X](b, n)
		for i, v := range s {
			d[i] = f(v, t[i])
		}
	}
}

// repeat writes an element count times.
func repeat(r register, element []byte, count int) {
	n := count * len(element)
	copy(r[:n], element)
	for done := len(element); done < n; done *= 2 {
		copy(r[done:n], r[:done])
	}
}
