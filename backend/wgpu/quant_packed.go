package wgpu

import (
	"fmt"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// In a packed batch every sequence has a separate range, and with it a scale and a zero point.

// noSequence is the result of the function sequence_of for a token outside of all sequences.
const noSequence = "0xffffffffu"

// sequenceOf declares the function sequence_of, which finds the sequence of a token among those that ir.Pack lists: the last one that
// begins at it or before. It returns the expression of field i of a sequence.
func (s *shader) sequenceOf(list *operand) (field func(sequence string, i int) string) {
	s.function("sequence_of(token: u32) -> u32", func() {
		first, count := s.u(list.first()), s.u(list.Shape[0])
		field = func(sequence string, i int) string {
			return s.wordAt(list.memory, fmt.Sprintf("%s + %s * %du + %du", first, sequence, ir.SequenceFields, i))
		}
		s.put("var sequence = 0u;\nvar after = %s;\nif (after == 0u) { return %s; }", count, noSequence)
		s.put("while (after - sequence > 1u) {\nlet middle = (sequence + after) / 2u;\nif (%s <= token) { sequence = middle; } "+
			"else { after = middle; }\n}", field("middle", 0))
		s.put("return select(%s, sequence, %s <= token && token < %s);", noSequence, field("sequence", 0), field("sequence", 1))
	})
	return field
}

// A sequenceQuantization is DynamicQuantizeLinear of each sequence: ranges has a scale and a zero point for each.
type sequenceQuantization struct{ x, sequences, quantized, ranges *operand }

// launches are two kernels: the first finds scale and zero point, a workgroup for each sequence, and the second quantises. Tokens outside
// of all sequences are 0.
func (q *sequenceQuantization) launches(d *Device) []launch {
	width := q.x.Shape[len(q.x.Shape)-1]
	s := d.newJoiner("sequence_ranges", "u32", groupSize)
	sequence := linear
	s.put("if (%s >= %s) { return; }", sequence, s.u(q.sequences.Shape[0]))
	field := s.sequenceOf(q.sequences)
	s.rangeOf(func() {
		x, first, k := s.bind(q.x.memory), s.u(q.x.first()), s.u(width)
		s.put("let end = %s * %s;", field(sequence, 3), k)
		s.put("for (var i = %s * %s + lid; i < end; i += %du) {\nlet v = bitcast<f32>(%s[%s + i]);\n"+widen,
			field(sequence, 2), k, groupSize, x, first)
	})
	s.scaleOf(fmt.Sprintf("%s[%s + %s * 2u]", s.bind(q.ranges.memory), s.u(q.ranges.first()), sequence),
		fmt.Sprintf("%s[%s + %s * 2u + 1u]", s.bind(q.ranges.memory), s.u(q.ranges.first()), sequence))

	e := quantizeExpression(tensor.U8, true)
	quantized := produce("quantised_sequences", q.quantized, elements[tensor.U8], func(s *shader, i string) (value, to string) {
		s.use(e.needs...)
		s.sequenceOf(q.sequences)
		m, ranges := s.bind(q.x.memory), fmt.Sprintf("%s[%s + min(sequence, %s - 1u) * 2u", s.bind(q.ranges.memory), s.u(q.ranges.first()),
			s.u(q.sequences.Shape[0]))
		s.put("let sequence = sequence_of(%s / %s);\nlet scale = bitcast<f32>(%s]);\nlet zero = %s + 1u];", i, s.u(width), ranges, ranges)
		code := e.of(fmt.Sprintf("bitcast<f32>(%s[%s + %s])", m, s.u(q.x.first()), i), "scale", "zero")
		return fmt.Sprintf("select(0u, %s, sequence != %s)", code, noSequence), ""
	})
	return []launch{{s, spread(q.sequences.Shape[0])}, quantized}
}
