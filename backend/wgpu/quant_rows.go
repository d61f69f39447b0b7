package wgpu

import (
	"fmt"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Without padding every text has a separate range, and with it a scale and a zero point.

// noText is the result of the function text_of for a token outside of all sequences.
const noText = "0xffffffffu"

// textOf declares the function text_of, which finds the text of a token among rows as ir.Pack lists them: the last one that begins at it or
// before. It returns the text of field i of a row.
func (s *shader) textOf(rows *operand) (field func(row string, i int) string) {
	s.function("text_of(token: u32) -> u32", func() {
		first, count := s.u(rows.first()), s.u(rows.Shape[0])
		field = func(row string, i int) string {
			return s.wordAt(rows.memory, fmt.Sprintf("%s + %s * %du + %du", first, row, ir.SequenceFields, i))
		}
		s.put("var row = 0u;\nvar after = %s;\nif (after == 0u) { return %s; }", count, noText)
		s.put("while (after - row > 1u) {\nlet middle = (row + after) / 2u;\nif (%s <= token) { row = middle; } else { after = middle; "+
			"}\n}", field("middle", 0))
		s.put("return select(%s, row, %s <= token && token < %s);", noText, field("row", 0), field("row", 1))
	})
	return field
}

// A textQuantising is DynamicQuantizeLinear of each text in the making: ranges has a scale and a zero point for each.
type textQuantising struct{ x, rows, quantized, ranges *operand }

// launches are two kernels: the first finds scale and zero point, a workgroup for each sequence, and the second quantises. Tokens outside
// of all sequences are 0.
func (q *textQuantising) launches(d *Device) []launch {
	width := q.x.Shape[len(q.x.Shape)-1]
	s := d.newJoiner("text_ranges", "u32", groupSize)
	text := linear
	s.put("if (%s >= %s) { return; }", text, s.u(q.rows.Shape[0]))
	field := s.textOf(q.rows)
	s.rangeOf(func() {
		x, first, k := s.bind(q.x.memory), s.u(q.x.first()), s.u(width)
		s.put("let end = %s * %s;", field(text, 3), k)
		s.put("for (var i = %s * %s + lid; i < end; i += %du) {\nlet v = bitcast<f32>(%s[%s + i]);\n"+widen,
			field(text, 2), k, groupSize, x, first)
	})
	s.scaleOf(fmt.Sprintf("%s[%s + %s * 2u]", s.bind(q.ranges.memory), s.u(q.ranges.first()), text),
		fmt.Sprintf("%s[%s + %s * 2u + 1u]", s.bind(q.ranges.memory), s.u(q.ranges.first()), text))

	e := quantizeText(tensor.U8, true)
	quantized := produce("quantised_texts", q.quantized, elements[tensor.U8], func(s *shader, i string) (value, to string) {
		s.use(e.needs...)
		s.textOf(q.rows)
		m, ranges := s.bind(q.x.memory), fmt.Sprintf("%s[%s + min(text, %s - 1u) * 2u", s.bind(q.ranges.memory), s.u(q.ranges.first()),
			s.u(q.rows.Shape[0]))
		s.put("let text = text_of(%s / %s);\nlet scale = bitcast<f32>(%s]);\nlet zero = %s + 1u];", i, s.u(width), ranges, ranges)
		code := e.of(fmt.Sprintf("bitcast<f32>(%s[%s + %s])", m, s.u(q.x.first()), i), "scale", "zero")
		return fmt.Sprintf("select(0u, %s, text != %s)", code, noText), ""
	})
	return []launch{{s, spread(q.rows.Shape[0])}, quantized}
}
