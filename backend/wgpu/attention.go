package wgpu

import (
	"fmt"
	"math"
	"strings"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/target"
	"github.com/rlxc/rlxc/tensor"
)

// The attention kernel's blocks: a workgroup of 8 × 8 invocations computes attentionRows queries of a head, over blocks of
// attentionKeys keys; an invocation has 4 queries, and 4 of the keys or every eighth vec4 of a value.
const (
	attentionRows = 32
	attentionKeys = 32
	attentionSide = 8
)

// attentionBytes is the workgroup memory for heads of size d and values of size e: queries and keys turned, values where
// the keys were, probabilities, and what a row's invocations tell each other.
func attentionBytes(d, e int) int {
	return 4 * (pad(d, 4)*(attentionRows+4) + max(pad(d, 4)*(attentionKeys+4), pad(e, 4)*attentionKeys) + attentionRows*attentionKeys + attentionSide*attentionRows)
}

func pad(n, to int) int { return ceil(n, to) * to }

func (d *Device) attentionRow() row {
	return row{
		Row: target.Row{
			Runs: target.OnKernel,
			Claims: func(n *ir.Node) bool {
				q, v := n.Inputs[ir.AttentionQ].Type, n.Inputs[ir.AttentionV].Type
				if given(n, ir.AttentionMask) {
					if t := n.Inputs[ir.AttentionMask].Type.DType; t != tensor.F32 && t != tensor.Bool {
						return false
					}
				}
				size, ok1 := q.Shape[3].Const()
				value, ok2 := v.Shape[3].Const()
				return q.DType == tensor.F32 && ok1 && ok2 && attentionBytes(size, value) <= d.workgroupBytes
			},
			Strided: allStrides,
		},
		bind: bindAttention,
	}
}

// bindAttention makes the kernel: one pass over blocks of keys with running maxima and sums (FlashAttention, arXiv
// 2205.14135), so that the matrix of scores is never in memory.
func bindAttention(b *binder, n *ir.Node) ([]launch, error) {
	op := n.Op.(ir.Attention)
	in, out, err := b.operands(n)
	if err != nil {
		return nil, err
	}
	q, k, v, y := &in[ir.AttentionQ], &in[ir.AttentionK], &in[ir.AttentionV], &out[0]
	B, S, H, D, T, G, E := q.shape[0], q.shape[1], q.shape[2], q.shape[3], k.shape[1], k.shape[2], v.shape[3]
	if B*H > maxGroups || T == 0 {
		return nil, errOnHost
	}
	vector := D%4 == 0 && E%4 == 0
	for _, o := range []*operand{q, k, v, y} {
		vector = vector && o.off%16 == 0 && o.strides[3] == 1 && o.strides[0]%4 == 0 && o.strides[1]%4 == 0 && o.strides[2]%4 == 0
	}
	var mask *operand
	if given(n, ir.AttentionMask) {
		mask = &in[ir.AttentionMask]
	}
	// The mask shares its memory's type with the others: beside vec4 a float is a lane; a bool is a byte of a word.
	word, lanes := "f32", 1
	if vector {
		word, lanes = "vec4<f32>", 4
	}
	const rows, keys, side = attentionRows, attentionKeys, attentionSide
	s := newShader("attention", word, side*side)
	vectors, values := ceil(D, 4), ceil(E, 4*side) // vec4 of a head, and of a value by invocation
	s.share("qs", "vec4<f32>", vectors*4*(rows/4+1))
	s.share("kv", "vec4<f32>", max(vectors*4*(keys/4+1), keys*ceil(E, 4)))
	s.share("ps", "vec4<f32>", keys*rows/4)
	s.share("red", "vec4<f32>", side*rows/4)
	size, queries, length := s.u(H), s.u(S), s.u(T)
	d, e := s.u(D), s.u(E)
	s.put("let tx = lid %% %du;\nlet ty = lid / %du;\nlet head = wg.y %% %s;\nlet batch = wg.y / %s;\nlet s0 = wg.x * %du;", side, side, size, size, rows)
	s.put("let lowest = %s;", s.f(float32(math.Inf(-1))))
	s.put("let group = head / %s;", s.u(H/G))
	base := func(name string, o *operand, head string) string {
		s.put("let %s = %s + batch * %s + %s * %s;", name, s.u(o.first()/lanes), s.u(o.strides[0]/lanes), head, s.u(o.strides[2]/lanes))
		return s.u(o.strides[1] / lanes)
	}
	rowQ, rowK, rowV, rowY := base("qb", q, "head"), base("kb", k, "group"), base("vb", v, "group"), base("yb", y, "head")
	// read is the text of vec4 number c of a row, zero behind its end.
	read := func(o *operand, start, row, stride, c, size string) string {
		m := s.bind(o.memory)
		if vector {
			return fmt.Sprintf("%s[%s + %s * %s + %s]", m, start, row, stride, c)
		}
		step := s.u(o.strides[3])
		var parts []string
		for i := range 4 {
			parts = append(parts, fmt.Sprintf("select(0.0, %s[%s + %s * %s + min(%s * 4u + %du, %s - 1u) * %s], %s * 4u + %du < %s)", m, start, row, stride, c, i, size, step, c, i, size))
		}
		return "vec4<f32>(" + strings.Join(parts, ", ") + ")"
	}
	// turned brings rows into workgroup memory by columns: element i of row r is lane r%4 of vec4 i·pitch + r/4. Neighbours read
	// 64 bytes of a row, and the pitch keeps what they write in different banks.
	pitch := func(count int) int { return count/4 + 1 }
	turned := func(to string, count int, text string) {
		s.put("for (var i = lid; i < %du; i += %du) {\nlet r = i / 4u %% %du;\nlet c = i %% 4u + i / %du * 4u;", count*pad(vectors, 4), side*side, count, 4*count)
		s.put("if (c < %du) {\nlet x = %s;", vectors, text)
		for i, lane := range "xyzw" {
			s.put("%s[(c * 4u + %du) * %du + r / 4u][r %% 4u] = x.%c;", to, i, pitch(count), lane)
		}
		s.put("} }")
	}
	// Blocks of keys and values are on their way in registers, fk0, fk1, … and fv0, fv1, …, while what came before is in use.
	across := ceil(E, 4)
	loadsK, loadsV := keys*pad(vectors, 4)/(side*side), ceil(keys*across, side*side)
	for l := range loadsK {
		s.put("let kr%[1]d = (lid + %[2]du) / 4u %% %[3]du;\nlet kc%[1]d = (lid + %[2]du) %% 4u + (lid + %[2]du) / %[4]du * 4u;", l, l*side*side, keys, 4*keys)
		s.put("var fk%d = vec4<f32>();", l)
	}
	for l := range loadsV {
		s.put("let vr%[1]d = (lid + %[2]du) / %[3]du;\nlet vc%[1]d = (lid + %[2]du) %% %[3]du;\nvar fv%[1]d = vec4<f32>();", l, l*side*side, across)
	}
	fetchK := func(at string) {
		for l := range loadsK {
			s.put("fk%d = %s;", l, read(k, "kb", fmt.Sprintf("min(%s + kr%d, %s - 1u)", at, l, length), rowK, fmt.Sprintf("min(kc%d, %du)", l, vectors-1), d))
		}
	}
	turned("qs", rows, read(q, "qb", fmt.Sprintf("min(s0 + r, %s - 1u)", queries), rowQ, "c", d))
	s.put("var top = vec4<f32>(lowest);\nvar total = vec4<f32>();")
	for r := range 4 {
		for j := range values {
			s.put("var o%d_%d = vec4<f32>();", r, j)
		}
	}
	fetchK("0u")
	s.put("for (var t0 = 0u; t0 < %s; t0 += %du) {", length, keys)
	for l := range loadsK {
		s.put("if (kc%d < %du) {", l, vectors)
		for i, lane := range "xyzw" {
			s.put("kv[(kc%d * 4u + %du) * %du + kr%d / 4u][kr%d %% 4u] = fk%d.%c;", l, i, pitch(keys), l, l, l, lane)
		}
		s.put("}")
	}
	s.put("workgroupBarrier();")
	for l := range loadsV {
		s.put("fv%d = %s;", l, read(v, "vb", fmt.Sprintf("min(t0 + min(vr%d, %du), %s - 1u)", l, keys-1, length), rowV, fmt.Sprintf("vc%d", l), e))
	}
	for r := range 4 {
		s.put("var x%d = vec4<f32>();", r)
	}
	s.put("for (var i = 0u; i < %du; i++) {\nlet a = qs[i * %du + ty];\nlet b = kv[i * %du + tx];", vectors*4, pitch(rows), pitch(keys))
	for r := range 4 {
		s.put("x%d = fma(vec4<f32>(a.%c), b, x%d);", r, "xyzw"[r], r)
	}
	s.put("}")
	scale := s.f(op.Scale)
	for r := range 4 {
		s.put("x%d *= %s;", r, scale)
		if op.Softcap != 0 {
			c := s.f(op.Softcap)
			s.use("tanh_")
			s.put("x%[1]d = %[2]s * vec4<f32>(tanh_(x%[1]d.x / %[2]s), tanh_(x%[1]d.y / %[2]s), tanh_(x%[1]d.z / %[2]s), tanh_(x%[1]d.w / %[2]s));", r, c)
		}
	}
	score(s, op, mask, lanes, S, T, queries, length)
	s.put("var peak = vec4<f32>(%s);", eachRow("max(max(x%[1]d.x, x%[1]d.y), max(x%[1]d.z, x%[1]d.w))"))
	s.put("red[tx * %du + ty] = peak;\nworkgroupBarrier();", rows/4)
	s.put("for (var i = 0u; i < %du; i++) { peak = max(peak, red[i * %du + ty]); }", side, rows/4)
	// A row that nothing was seen of yet has no maximum to subtract: its exponentials stay 0.
	s.put("let old = top;\ntop = max(top, peak);\nlet safe = select(top, vec4<f32>(), top == vec4<f32>(lowest));")
	s.put("let shrink = select(exp(old - safe), vec4<f32>(), old == vec4<f32>(lowest));")
	for r := range 4 {
		s.put("x%d = exp(x%d - safe.%c);", r, r, "xyzw"[r])
	}
	s.put("total = total * shrink + vec4<f32>(%s);", eachRow("x%[1]d.x + x%[1]d.y + x%[1]d.z + x%[1]d.w"))
	for c, lane := range "xyzw" {
		s.put("ps[(tx * 4u + %du) * %du + ty] = vec4<f32>(x0.%c, x1.%c, x2.%c, x3.%c);", c, rows/4, lane, lane, lane, lane)
	}
	for l := range loadsV {
		s.put("if (vr%d < %du) { kv[lid + %du] = fv%d; }", l, keys, l*side*side, l)
	}
	s.put("workgroupBarrier();\nlet next = t0 + %du;\nif (next < %s) {", keys, length)
	fetchK("next")
	s.put("}")
	for r := range 4 {
		for j := range values {
			s.put("o%d_%d *= shrink.%c;", r, j, "xyzw"[r])
		}
	}
	s.put("for (var i = 0u; i < %du; i++) {\nlet p = ps[i * %du + ty];", keys, rows/4)
	for j := range values {
		s.put("let v%d = kv[i * %du + min(tx + %du, %du)];", j, across, j*side, across-1)
		for r := range 4 {
			s.put("o%d_%d = fma(vec4<f32>(p.%c), v%d, o%d_%d);", r, j, "xyzw"[r], j, r, j)
		}
	}
	s.put("}\nworkgroupBarrier();\n}")
	s.put("red[tx * %du + ty] = total;\nworkgroupBarrier();\ntotal = vec4<f32>();", rows/4)
	s.put("for (var i = 0u; i < %du; i++) { total += red[i * %du + ty]; }", side, rows/4)
	guard := ""
	if op.NaNGuard {
		guard = "if (total.%c == 0.0) { z = vec4<f32>(); }"
	}
	s.put("let s1 = s0 + ty * 4u;")
	for r, lane := range "xyzw" {
		s.put("if (s1 + %du < %s) {", r, queries)
		zero := guard
		if zero != "" {
			zero = fmt.Sprintf(guard, lane)
		}
		for j := range values {
			s.put("{ let c = tx + %du;\nvar z = o%d_%d / total.%c;\n%s", j*side, r, j, lane, zero)
			if vector {
				s.put("if (c < %du) { %s[yb + (s1 + %du) * %s + c] = z; } }", across, s.bind(y.memory), r, rowY)
			} else {
				s.put("for (var l = 0u; l < 4u; l++) { if (c * 4u + l < %s) { %s[yb + (s1 + %du) * %s + c * 4u + l] = z[l]; } } }", e, s.bind(y.memory), r, rowY)
			}
		}
		s.put("}")
	}
	return []launch{{s, [3]uint32{uint32(ceil(S, rows)), uint32(B * H), 1}}}, nil
}

// eachRow is a text for each of an invocation's four rows.
func eachRow(format string) string {
	var parts []string
	for r := range 4 {
		parts = append(parts, fmt.Sprintf(format, r))
	}
	return strings.Join(parts, ", ")
}

// score puts the lines that add the mask to the scores x0 to x3 and take out the keys that a query does not see.
func score(s *shader, op ir.Attention, mask *operand, lanes, S, T int, queries, length string) {
	var maskAt func(r, c int) string
	if mask != nil {
		var st [4]int
		for i, d := range mask.shape {
			if d != 1 {
				st[4-len(mask.shape)+i] = mask.strides[i]
			}
		}
		s.put("let mb = %s + batch * %s + head * %s;", s.u(mask.first()), s.u(st[0]), s.u(st[1]))
		byQuery, byKey := s.u(st[2]), s.u(st[3])
		for i := range 4 {
			s.put("let mk%d = mb + min(t0 + tx * 4u + %du, %s - 1u) * %s;", i, i, length, byKey)
			if st[2] != 0 {
				s.put("let mq%d = min(s0 + ty * 4u + %du, %s - 1u) * %s;", i, i, queries, byQuery)
			}
		}
		m := s.bind(mask.memory)
		text := func(at string) string {
			i := at
			if mask.dtype == tensor.Bool {
				i = at + " / 4u"
			}
			float := fmt.Sprintf("%s[%s]", m, i)
			if lanes == 4 {
				float = fmt.Sprintf("%s[(%s) / 4u][(%s) %% 4u]", m, i, i)
			}
			if mask.dtype == tensor.Bool {
				return fmt.Sprintf("(extractBits(bitcast<u32>(%s), (%s %% 4u) * 8u, 8u) != 0u)", float, at)
			}
			return float
		}
		maskAt = func(r, c int) string { return text(fmt.Sprintf("(mq%d + mk%d)", r, c)) }
		if st[2] == 0 { // one mask for all queries
			for c := range 4 {
				s.put("let masked%d = %s;", c, text(fmt.Sprintf("mk%d", c)))
			}
			maskAt = func(_, c int) string { return fmt.Sprintf("masked%d", c) }
		}
	}
	offset := 0
	if op.Offset {
		offset = T - S
	}
	shift, window := "", ""
	if op.Causal || op.Window > 0 {
		shift, window = s.u(offset), s.u(op.Window)
	}
	for r := range 4 {
		for c, lane := range "xyzw" {
			s.put("{ let t = t0 + tx * 4u + %du;\nvar seen = t < %s;", c, length)
			if shift != "" {
				s.put("let here = i32(s0 + ty * 4u + %du) + bitcast<i32>(%s);", r, shift)
			}
			if op.Causal {
				s.put("seen = seen && i32(t) <= here;")
			}
			if op.Window > 0 {
				s.put("seen = seen && abs(i32(t) - here) < i32(%s);", window)
			}
			value := fmt.Sprintf("x%d.%c", r, lane)
			switch {
			case mask == nil:
			case mask.dtype == tensor.Bool:
				s.put("seen = seen && %s;", maskAt(r, c))
			default:
				value += " + " + maskAt(r, c)
			}
			s.put("x%d.%c = select(lowest, %s, seen); }", r, lane, value)
		}
	}
}
