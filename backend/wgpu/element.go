package wgpu

import (
	"fmt"

	"github.com/rlxc/rlxc/tensor"
)

// An element says how kernels that go element by element read, compute and write a type. The arena holds the same bytes as
// the host's memory: elements of 8 bytes are two words, those of 1 byte four to a word.
type element struct {
	wgsl  string                    // the type in computations
	width int                       // bytes in memory
	load  func(m, at string) string // the value of element number at of an array of words m
	bits  func(value string) string // the value's low bits as u32, for elements of up to 4 bytes
}

func word(m, at string) string { return fmt.Sprintf("%s[%s]", m, at) }

// part reads an element narrower than a word.
func part(width int) func(m, at string) string {
	if width == 1 {
		return func(m, at string) string {
			return fmt.Sprintf("extractBits(%s[(%s) >> 2u], ((%s) & 3u) * 8u, 8u)", m, at, at)
		}
	}
	return func(m, at string) string {
		return fmt.Sprintf("extractBits(%s[(%s) >> 1u], ((%s) & 1u) * 16u, 16u)", m, at, at)
	}
}

var elements = map[tensor.DType]element{
	tensor.F32: {"f32", 4, func(m, at string) string { return "bitcast<f32>(" + word(m, at) + ")" },
		func(v string) string { return "bitcast<u32>(" + v + ")" }},
	// 16-bit floats are computed with in float32 and rounded to nearest, ties to even.
	tensor.F16: {"f32", 2, func(m, at string) string {
		return fmt.Sprintf("unpack2x16float(%s[(%s) >> 1u])[(%s) & 1u]", m, at, at)
	}, func(v string) string { return "pack2x16float(vec2<f32>(" + v + ", 0.0))" }},
	tensor.BF16: {"f32", 2, func(m, at string) string { return "bitcast<f32>(" + part(2)(m, at) + " << 16u)" },
		func(v string) string { return "bf16_(" + v + ")" }},
	tensor.I32: {"i32", 4, func(m, at string) string { return "bitcast<i32>(" + word(m, at) + ")" },
		func(v string) string { return "bitcast<u32>(" + v + ")" }},
	tensor.U32: {"u32", 4, word, func(v string) string { return v }},
	tensor.U8:  {"u32", 1, part(1), func(v string) string { return v }},
	tensor.I8: {"i32", 1, func(m, at string) string {
		return fmt.Sprintf("extractBits(bitcast<i32>(%s[(%s) >> 2u]), ((%s) & 3u) * 8u, 8u)", m, at, at)
	}, func(v string) string { return "(bitcast<u32>(" + v + ") & 255u)" }},
	tensor.I64: {"vec2<u32>", 8, func(m, at string) string {
		return fmt.Sprintf("vec2<u32>(%s[(%s) * 2u], %s[(%s) * 2u + 1u])", m, at, m, at)
	}, nil},
	tensor.Bool: {"bool", 1, func(m, at string) string { return "(" + part(1)(m, at) + " != 0u)" },
		func(v string) string { return "select(0u, 1u, " + v + ")" }},
}

// raw returns the element type by which kernels copy elements of a width in bytes as bits. ok is false if there is none.
func raw(width int) (element, bool) {
	switch width {
	case 1, 2:
		return element{"u32", width, part(width), func(v string) string { return v }}, true
	case 4:
		return elements[tensor.U32], true
	case 8:
		return elements[tensor.I64], true
	}
	return element{}, false
}
