package main

import (
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// evex describes an instruction with three 512-bit registers that Go's assembler does not know: it passes through
// avo's register allocation under its own name, and then becomes the bytes of its EVEX form.
type evex struct {
	prefix byte // pp: 1 for 66, 2 for F3, 3 for F2
	opcode byte // in the map 0F38, W0
}

var unknownToGo = map[string]evex{
	"VDPBF16PS": {prefix: 2, opcode: 0x52},
}

// dotBF16 adds the products of pairs of bfloat16 in x and y to the floats of acc.
func (v *simd) dotBF16(x, y, acc reg.Register) {
	v.Instruction(&ir.Instruction{
		Opcode:   "VDPBF16PS",
		Operands: []operand.Op{x, y, acc},
		Inputs:   []operand.Op{x, y, acc},
		Outputs:  []operand.Op{acc},
	})
}

// encodeUnknown replaces the instructions that Go's assembler does not know by their bytes.
func encodeUnknown(f *ir.Function) error {
	var nodes []ir.Node
	for _, node := range f.Nodes {
		inst, ok := node.(*ir.Instruction)
		if !ok {
			nodes = append(nodes, node)
			continue
		}
		form, unknown := unknownToGo[inst.Opcode]
		if !unknown {
			nodes = append(nodes, node)
			continue
		}
		var n [3]uint32
		for i, op := range inst.Operands {
			n[i] = uint32(op.(reg.Physical).PhysicalIndex())
		}
		code := form.encode(n[0], n[1], n[2])
		nodes = append(nodes,
			ir.NewComment(inst.Opcode+" "+inst.Operands[0].Asm()+", "+inst.Operands[1].Asm()+", "+inst.Operands[2].Asm()),
			&ir.Instruction{Opcode: "LONG", Operands: []operand.Op{operand.U32(code)}},
			&ir.Instruction{Opcode: "WORD", Operands: []operand.Op{operand.U16(code >> 32)}})
	}
	f.Nodes = nodes
	return nil
}

// encode gives the six bytes of the instruction, lowest first: operands in Go's order, the last is the result.
func (e evex) encode(rm, vvvv, dst uint32) uint64 {
	inverted := func(bit uint32, at int) byte { return byte(^bit&1) << at }
	bytes := [6]byte{
		0x62,
		inverted(dst>>3, 7) | inverted(rm>>4, 6) | inverted(rm>>3, 5) | inverted(dst>>4, 4) | 2,
		byte(^vvvv&15)<<3 | 4 | e.prefix,
		2<<5 | inverted(vvvv>>4, 3),
		e.opcode,
		0xc0 | byte(dst&7)<<3 | byte(rm&7),
	}
	var code uint64
	for i, b := range bytes {
		code |= uint64(b) << (8 * i)
	}
	return code
}
