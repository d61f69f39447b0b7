package main

import (
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// operandsBF16 writes the rounding of operands of products of bfloat16, by an instruction that takes subnormal numbers for 0
// as the products do.
func operandsBF16(v *simd) {
	v.fn("roundBF16", "func(dst *uint16, src *float32, n int)", "roundBF16 rounds n floats, a multiple of 32.")
	dst, src, n := v.param("dst"), v.param("src"), v.param("n")
	v.Label("loop")
	low, high := v.vec(), v.vec()
	v.VMOVUPS(operand.Mem{Base: src}, low)
	v.VMOVUPS(operand.Mem{Base: src, Disp: 64}, high)
	v.narrowBF16(low, high, low)
	v.VMOVUPS(low, operand.Mem{Base: dst})
	v.ADDQ(operand.U32(128), src)
	v.ADDQ(operand.U8(64), dst)
	v.SUBQ(operand.U8(32), n)
	v.JNZ(operand.LabelRef("loop"))
	v.VZEROUPPER()
	v.RET()

	v.fn("pairBF16", "func(dst *float32, dstRow int, a *float32, aRow int, b *float32, bRow int, rows, cols int)",
		"pairBF16 is a binaryFunc that rounds to pairs of bfloat16.")
	order := v.vec()
	v.VMOVUPS(v.table("interleaveWords", func() {
		for i := range uint32(16) {
			v.AppendDatum(operand.U32(i | (i+16)<<16))
		}
	}), order)
	v.eachVector([]matrix{v.matrix("dst"), v.matrix("a"), v.matrix("b")}, nil, func(at []operand.Mem, m *mask) {
		x, y := v.vec(), v.vec()
		v.load(at[1], x, m)
		v.load(at[2], y, m)
		v.narrowBF16(x, y, x)
		v.VPERMW(x, order, x)
		v.store(x, at[0], m)
	})
	v.VZEROUPPER()
	v.RET()
}

// narrowBF16 rounds low and high to the halves of one vector of bfloat16.
func (v *simd) narrowBF16(low, high, to reg.Register) {
	ops := []operand.Op{low, high, to}
	v.Instruction(&ir.Instruction{Opcode: "VCVTNE2PS2BF16", Operands: ops, Inputs: ops[:2], Outputs: ops[2:]})
}
