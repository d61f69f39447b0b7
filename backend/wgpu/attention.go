package wgpu

import (
	"fmt"
	"math"
	"strings"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/target"
	"github.com/rlxc/rlxc/tensor"
)

// The attention kernel's blocks: a workgroup of 8 × 8 invocations computes attentionBlock queries of a head, over as many keys
// at a time; an invocation has 4 queries, and 4 of the keys or every eighth vec4 of a value.
const (
	attentionSide  = 8
	attentionBlock = 4 * attentionSide
)

// attentionBytes is the workgroup memory for heads of size d and values of size e: queries and keys turned, values where
// the keys were, probabilities, and what a row's invocations tell each other.
func attentionBytes(d, e int) int {
	turned := attentionBlock + 4
	return 4 * (pad(d, 4)*turned + max(pad(d, 4)*turned, pad(e, 4)*attentionBlock) + attentionBlock*turned + attentionSide*attentionBlock)
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
	const block, side, size = attentionBlock, attentionSide, attentionSide * attentionSide
	const fours = block / 4
	const pitch = fours + 1 // of what lies by columns: neighbours write it into different banks
	s := newShader("attention", word, size)
	vectors, values := ceil(D, 4), ceil(E, 4*side) // vec4 of a head, and of a value by invocation
	s.share("qs", "vec4<f32>", vectors*4*pitch)
	s.share("kv", "vec4<f32>", max(vectors*4*pitch, block*ceil(E, 4)))
	s.share("ps", "vec4<f32>", block*pitch)
	s.share("red", "vec4<f32>", side*fours)
	heads, queries, length := s.u(H), s.u(S), s.u(T)
	d, e := s.u(D), s.u(E)
	s.put("let tx = lid %% %du;\nlet ty = lid / %du;\nlet head = wg.y %% %s;\nlet batch = wg.y / %s;\nlet s0 = wg.x * %du;", side, side, heads, heads, block)
	s.put("let lowest = %s;", s.f(float32(math.Inf(-1))))
	s.put("let group = head / %s;", s.u(H/G))
	steps := map[*operand]string{} // between elements
	base := func(name string, o *operand, head string) string {
		if !vector {
			steps[o] = s.u(o.strides[3])
		}
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
		step := steps[o]
		var parts []string
		for i := range 4 {
			parts = append(parts, fmt.Sprintf("select(0.0, %s[%s + %s * %s + min(%s * 4u + %du, %s - 1u) * %s], %s * 4u + %du < %s)", m, start, row, stride, c, i, size, step, c, i, size))
		}
		return "vec4<f32>(" + strings.Join(parts, ", ") + ")"
	}
	// Rows come vec4 by vec4, every 64th one to an invocation: load l is vec4 number c of row r. The texts of all l differ by numbers
	// alone, so that drivers compute them once: with (lid + 64·l) / 4 % 32 the kernel took a fifth longer on an H200.
	loads := block * pad(vectors, 4) / size
	place := func(l int) (r, c string) {
		return fmt.Sprintf("(lid / 4u + %du)", l*size/4%block), fmt.Sprintf("(lid %% 4u + %du)", l*size/(4*block)*4)
	}
	fetch := func(name string, l int, o *operand, start, first, end, stride string) {
		r, c := place(l)
		if vectors%4 != 0 {
			c = fmt.Sprintf("min(%s, %du)", c, vectors-1)
		}
		s.put("%s%d = %s;", name, l, read(o, start, fmt.Sprintf("min(%s + %s, %s - 1u)", first, r, end), stride, c, d))
	}
	// turn brings them into workgroup memory by columns: element i of row r is lane r%4 of vec4 i·pitch + r/4. Neighbours read 64
	// bytes of a row.
	turn := func(to, name string) {
		for l := range loads {
			r, c := place(l)
			s.put("{ let r = %s;\nlet c = %s;", r, c)
			if vectors%4 != 0 {
				s.put("if (c < %du)", vectors)
			}
			s.put("{")
			for i, lane := range "xyzw" {
				s.put("%s[(c * 4u + %du) * %du + r / 4u][r %% 4u] = %s%d.%c;", to, i, pitch, name, l, lane)
			}
			s.put("} }")
		}
	}
	for l := range loads {
		s.put("var fq%[1]d = vec4<f32>();\nvar fk%[1]d = vec4<f32>();", l)
		fetch("fq", l, q, "qb", "s0", queries, rowQ)
	}
	turn("qs", "fq")
	// Blocks of keys and values are on their way in registers, fk0, fk1, … and fv0, fv1, …, while what came before is in use.
	across := ceil(E, 4)
	loadsV, exact := ceil(block*across, size), block*across%size == 0
	for l := range loadsV {
		row, c := fmt.Sprintf("(lid + %du) / %du", l*size, across), fmt.Sprintf("(lid + %du) %% %du", l*size, across)
		if size%across == 0 {
			row, c = fmt.Sprintf("lid / %du + %du", across, l*size/across), fmt.Sprintf("lid %% %du", across)
		}
		s.put("let vr%[1]d = %[2]s;\nlet vc%[1]d = %[3]s;\nvar fv%[1]d = vec4<f32>();", l, row, c)
	}
	fetchK := func(at string) {
		for l := range loads {
			fetch("fk", l, k, "kb", at, length, rowK)
		}
	}
	s.put("var top = vec4<f32>(lowest);\nvar total = vec4<f32>();")
	for r := range 4 {
		for j := range values {
			s.put("var o%d_%d = vec4<f32>();", r, j)
		}
	}
	fetchK("0u")
	s.put("for (var t0 = 0u; t0 < %s; t0 += %du) {", length, block)
	turn("kv", "fk")
	s.put("workgroupBarrier();")
	for l := range loadsV {
		row := fmt.Sprintf("vr%d", l)
		if !exact {
			row = fmt.Sprintf("min(vr%d, %du)", l, block-1)
		}
		s.put("fv%d = %s;", l, read(v, "vb", fmt.Sprintf("min(t0 + %s, %s - 1u)", row, length), rowV, fmt.Sprintf("vc%d", l), e))
	}
	for r := range 4 {
		s.put("var x%d = vec4<f32>();", r)
	}
	s.put("for (var i = 0u; i < %du; i++) {\nlet a = qs[i * %du + ty];\nlet b = kv[i * %du + tx];", vectors*4, pitch, pitch)
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
	s.put("red[tx * %du + ty] = peak;\nworkgroupBarrier();", fours)
	s.put("for (var i = 0u; i < %du; i++) { peak = max(peak, red[i * %du + ty]); }", side, fours)
	// A row that nothing was seen of yet has no maximum to subtract: its exponentials stay 0.
	s.put("let old = top;\ntop = max(top, peak);\nlet safe = select(top, vec4<f32>(), top == vec4<f32>(lowest));")
	s.put("let shrink = select(exp(old - safe), vec4<f32>(), old == vec4<f32>(lowest));")
	for r := range 4 {
		s.put("x%d = exp(x%d - safe.%c);", r, r, "xyzw"[r])
	}
	s.put("total = total * shrink + vec4<f32>(%s);", eachRow("x%[1]d.x + x%[1]d.y + x%[1]d.z + x%[1]d.w"))
	// Key 4·tx + c has place 8·c + tx, again for the banks.
	for c, lane := range "xyzw" {
		s.put("ps[(tx + %du) * %du + ty] = vec4<f32>(x0.%c, x1.%c, x2.%c, x3.%c);", c*side, pitch, lane, lane, lane, lane)
	}
	for l := range loadsV {
		store := fmt.Sprintf("kv[(vr%[1]d %% 4u * %[2]du + vr%[1]d / 4u) * %[3]du + vc%[1]d] = fv%[1]d;", l, side, across)
		if !exact {
			store = fmt.Sprintf("if (vr%d < %du) { %s }", l, block, store)
		}
		s.put("%s", store)
	}
	s.put("workgroupBarrier();\nlet next = t0 + %du;\nif (next < %s) {", block, length)
	fetchK("next")
	s.put("}")
	for r := range 4 {
		for j := range values {
			s.put("o%d_%d *= shrink.%c;", r, j, "xyzw"[r])
		}
	}
	s.put("for (var i = 0u; i < %du; i++) {\nlet p = ps[i * %du + ty];", block, pitch)
	for j := range values {
		s.put("let v%d = kv[i * %du + min(tx + %du, %du)];", j, across, j*side, across-1)
		for r := range 4 {
			s.put("o%d_%d = fma(vec4<f32>(p.%c), v%d, o%d_%d);", r, j, "xyzw"[r], j, r, j)
		}
	}
	s.put("}\nworkgroupBarrier();\n}")
	s.put("red[tx * %du + ty] = total;\nworkgroupBarrier();\ntotal = vec4<f32>();", fours)
	s.put("for (var i = 0u; i < %du; i++) { total += red[i * %du + ty]; }", side, fours)
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
	return []launch{{s, [3]uint32{uint32(ceil(S, block)), uint32(B * H), 1}}}, nil
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
