package main

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// unknownToGo holds how the instructions that Go's assembler does not know are encoded. They pass through avo's register
// allocation under their own names, and then become bytes. Operands are in Go's order: the last is the result.
var unknownToGo = map[string]interface{ encode(ops []operand.Op) []byte }{
	"VDPBF16PS":      evex{prefix: 2, opcode: 0x52},
	"VCVTNE2PS2BF16": evex{prefix: 3, opcode: 0x72},

	"LDTILECFG":   vex{prefix: 0, opcode: 0x49},
	"TILERELEASE": vex{prefix: 0, opcode: 0x49},
	"TILEZERO":    vex{prefix: 3, opcode: 0x49},
	"TILELOADD":   vex{prefix: 3, opcode: 0x4b},
	"TILELOADDT1": vex{prefix: 1, opcode: 0x4b},
	"TILESTORED":  vex{prefix: 2, opcode: 0x4b},
	"TDPBF16PS":   vex{prefix: 2, opcode: 0x5c},
	"TDPBUSD":     vex{prefix: 1, opcode: 0x5e},
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

// unknown emits an instruction whose registers, but for those of addresses, avo's allocator does not see.
func (g *gen) unknown(opcode string, ops ...operand.Op) {
	inst := &ir.Instruction{Opcode: opcode, Operands: ops}
	for _, op := range ops {
		if mem, ok := op.(operand.Mem); ok {
			inst.Inputs = append(inst.Inputs, mem)
		}
	}
	g.Instruction(inst)
}

// encodeUnknown replaces the instructions that Go's assembler does not know by their bytes.
func encodeUnknown(f *ir.Function) error {
	var nodes []ir.Node
	for _, node := range f.Nodes {
		inst, ok := node.(*ir.Instruction)
		if !ok || unknownToGo[inst.Opcode] == nil {
			nodes = append(nodes, node)
			continue
		}
		var names []string
		for _, op := range inst.Operands {
			name := op.Asm()
			if t, ok := op.(tile); ok {
				name = fmt.Sprintf("TMM%d", t)
			}
			names = append(names, name)
		}
		nodes = append(nodes, ir.NewComment(strings.TrimSpace(inst.Opcode+" "+strings.Join(names, ", "))))
		nodes = append(nodes, data(unknownToGo[inst.Opcode].encode(inst.Operands))...)
	}
	f.Nodes = nodes
	return nil
}

// data writes bytes into the code, in the largest pieces.
func data(code []byte) (nodes []ir.Node) {
	put := func(opcode string, size int, constant func(bits uint64) operand.Op) {
		for ; len(code) >= size; code = code[size:] {
			var bits uint64
			for i, b := range code[:size] {
				bits |= uint64(b) << (8 * i)
			}
			nodes = append(nodes, &ir.Instruction{Opcode: opcode, Operands: []operand.Op{constant(bits)}})
		}
	}
	put("QUAD", 8, func(bits uint64) operand.Op { return operand.U64(bits) })
	put("LONG", 4, func(bits uint64) operand.Op { return operand.U32(bits) })
	put("WORD", 2, func(bits uint64) operand.Op { return operand.U16(bits) })
	put("BYTE", 1, func(bits uint64) operand.Op { return operand.U8(bits) })
	return nodes
}

// inverted returns the complement of a bit of a byte.
func inverted(bit uint32, at int) byte { return byte(^bit&1) << at }

// evex is an instruction with three 512-bit registers.
type evex struct {
	prefix byte // pp: 1 for 66, 2 for F3, 3 for F2
	opcode byte // in the map 0F38, W0
}

func (e evex) encode(ops []operand.Op) []byte {
	index := func(i int) uint32 { return uint32(ops[i].(reg.Physical).PhysicalIndex()) }
	rm, vvvv, dst := index(0), index(1), index(2)
	return []byte{
		0x62,
		inverted(dst>>3, 7) | inverted(rm>>4, 6) | inverted(rm>>3, 5) | inverted(dst>>4, 4) | 2,
		byte(^vvvv&15)<<3 | 4 | e.prefix,
		2<<5 | inverted(vvvv>>4, 3),
		e.opcode,
		0xc0 | byte(dst&7)<<3 | byte(rm&7),
	}
}

// tile is the number of a tile register, in the guise of a constant: avo has no type for it.
type tile = operand.U8

// vex is an instruction of tiles: none, one, one and memory, or three.
type vex struct {
	prefix byte // as of evex
	opcode byte // in the map 0F38, W0
}

func (e vex) encode(ops []operand.Op) []byte {
	var tiles []tile
	var mem *operand.Mem
	for _, op := range ops {
		switch op := op.(type) {
		case tile:
			tiles = append(tiles, op)
		case operand.Mem:
			mem = &op
		}
	}
	var base, index, vvvv uint32
	var modrm []byte
	switch {
	case mem != nil: // with an index register, or none, and 32 bits of displacement
		const none = 4
		dst := byte(0)
		if len(tiles) > 0 {
			dst = byte(tiles[0])
		}
		base, index = uint32(mem.Base.(reg.Physical).PhysicalIndex()), none
		if mem.Index != nil {
			index = uint32(mem.Index.(reg.Physical).PhysicalIndex())
		}
		modrm = binary.LittleEndian.AppendUint32([]byte{0x84 | dst<<3, byte(index&7)<<3 | byte(base&7)}, uint32(mem.Disp))
	case len(tiles) == 3: // dst += middle·first
		vvvv = uint32(tiles[0])
		modrm = []byte{0xc0 | byte(tiles[2])<<3 | byte(tiles[1])}
	case len(tiles) == 1:
		modrm = []byte{0xc0 | byte(tiles[0])<<3}
	default:
		modrm = []byte{0xc0}
	}
	return append([]byte{0xc4, 0x80 | inverted(index>>3, 6) | inverted(base>>3, 5) | 2, byte(^vvvv&15)<<3 | e.prefix, e.opcode}, modrm...)
}
