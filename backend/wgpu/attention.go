package wgpu

import (
	"fmt"
	"math"
	"strings"

	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// The attention kernel's blocks: a workgroup of 8 × 8 invocations computes attentionBlock queries of a head, over as many keys
// at a time; an invocation has 4 queries, and 4 of the keys or every eighth vec4 of a value.
const (
	attentionSide  = 8
	attentionSize  = attentionSide * attentionSide
	attentionBlock = 4 * attentionSide
	attentionFours = attentionBlock / 4 // vec4 of a block's queries or keys
	attentionPitch = attentionFours + 1 // vec4 of a row of a transposed matrix, and one more, so that neighbours write to different banks
)

// attentionBytes is the workgroup memory for heads of size d and values of size e: queries and keys transposed, values where
// the keys were, probabilities, and what a row's invocations report each other.
func attentionBytes(d, e int) int {
	column := 4 * attentionPitch
	return 4 * (pad(d, 4)*column + max(pad(d, 4)*column, pad(e, 4)*attentionBlock) + attentionBlock*column + attentionSide*attentionBlock)
}

func pad(n, to int) int { return ceil(n, to) * to }

func (d *Device) attentionEntry() entry {
	return entry{
		Supports: func(n *ir.Node) bool {
			q, v := n.Inputs[ir.AttentionQ].Type, n.Inputs[ir.AttentionV].Type
			if n.HasOperand(ir.AttentionMask) {
				if t := n.Inputs[ir.AttentionMask].Type.DType; t != tensor.F32 && t != tensor.Bool {
					return false
				}
			}
			size, ok1 := q.Shape[3].Const()
			value, ok2 := v.Shape[3].Const()
			return q.DType == tensor.F32 && ok1 && ok2 && attentionBytes(size, value) <= d.workgroupBytes
		},
		Strided: gpu.StridedAttention,
		Bind:    bindAttention,
	}
}

// bindAttention makes the kernel: one pass over blocks of keys with running maxima and sums (FlashAttention, arXiv
// 2205.14135), so that the matrix of scores is never in memory. The next block of keys and this block's values are on their
// way in registers while what came before is in use.
func bindAttention(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
	q, k := in[ir.AttentionQ], in[ir.AttentionK]
	queries, keys, heads := q.Shape[1], k.Shape[1], q.Shape[0]*q.Shape[2]
	if heads > maxGroups || keys == 0 {
		return nil, errOnHost
	}
	a := newAttention(n.Op.(ir.Attention), q, k, in[ir.AttentionV], ir.Operand(in, ir.AttentionMask), out[0])
	first, end := "0u", a.length
	if n.HasOperand(ir.AttentionSequences) {
		a.restrict(in[ir.AttentionSequences], ir.Operand(in, ir.AttentionPositions))
		a.byQuery = a.relative(b, ir.Operand(in, ir.AttentionQueryScores), ir.Operand(in, ir.AttentionQueryScores+1))
		a.byKey = a.relative(b, ir.Operand(in, ir.AttentionKeyScores), ir.Operand(in, ir.AttentionKeyScores+1))
		first, end = "span.x", "span.y"
	}
	a.loadQueries()
	a.startValues()
	a.startRows()
	a.fetchKeys(first)
	a.put("for (var t0 = %s; t0 < %s; t0 += %du) {", first, end, attentionBlock)
	a.transpose("kv", "fk")
	a.put("workgroupBarrier();")
	a.fetchValues()
	a.scores()
	a.hide()
	a.softmax()
	a.storeValues()
	a.put("workgroupBarrier();\nlet next = t0 + %du;\nif (next < %s) {", attentionBlock, end)
	a.fetchKeys("next")
	a.put("}")
	a.weigh()
	a.put("workgroupBarrier();\n}")
	a.totals()
	a.write()
	return []launch{{a.shader, [3]uint32{uint32(ceil(queries, attentionBlock)), uint32(heads), 1}}}, nil
}

// An attention is the kernel in the making. For row r = 0 … 3 of an invocation's queries, x0 … x3 are scores and then
// exponentials, of 4 keys each; lane r of top and total is the largest score and the sum of exponentials so far; and o<r>_<j>
// is vec4 number j of the result.
type attention struct {
	*shader
	op         ir.Attention
	q, k, v, y headRows
	mask       *operand // or nil
	vector     bool     // rows are read and written by vec4
	offset     int      // index of the key at the position of the first query
	packed     bool     // queries see the keys of their sequence
	positions  *operand // position of each key in its sequence; nil for 0, 1, 2, …

	// byQuery and byKey return expressions of the scores by relative position. They are nil if there are none.
	byQuery, byKey func(token, own, other string) string

	queries, length string // expressions of the number of queries, and of keys

	vectors int // number of vec4 in a row of q and k
	across  int // vec4 of a row of v and y
	values  int // vec4 of a row of y that an invocation computes
	loads   int // vec4 of a block of q or k that an invocation brings
	loadsV  int // vec4 of a block of v that an invocation brings
}

// newAttention starts the kernel: what is where, in the work, in workgroup memory and in the operands.
func newAttention(op ir.Attention, q, k, v, mask, y *operand) *attention {
	S, H, D, T, G, E := q.Shape[1], q.Shape[2], q.Shape[3], k.Shape[1], k.Shape[2], v.Shape[3]
	a := &attention{op: op, mask: mask, vector: D%4 == 0 && E%4 == 0, vectors: ceil(D, 4), across: ceil(E, 4),
		values: ceil(E, 4*attentionSide)}
	a.loads, a.loadsV = attentionBlock*pad(a.vectors, 4)/attentionSize, ceil(attentionBlock*a.across, attentionSize)
	for _, o := range []*operand{q, k, v, y} {
		a.vector = a.vector && o.off%16 == 0 && o.Strides[3] == 1 && o.Strides[0]%4 == 0 && o.Strides[1]%4 == 0 && o.Strides[2]%4 == 0
	}
	if op.Offset {
		a.offset = T - S
	}
	// The mask shares its memory's type with the others: beside vec4 a float is a lane; a bool is a byte of a word.
	word := "f32"
	if a.vector {
		word = "vec4<f32>"
	}
	a.shader = newShader("attention", word, attentionSize)
	a.share("qs", "vec4<f32>", a.vectors*4*attentionPitch)
	a.share("kv", "vec4<f32>", max(a.vectors*4*attentionPitch, attentionBlock*a.across))
	a.share("ps", "vec4<f32>", attentionBlock*attentionPitch)
	a.share("red", "vec4<f32>", attentionSide*attentionFours)
	heads := a.u(H)
	a.queries, a.length = a.u(S), a.u(T)
	d, e := a.u(D), a.u(E)
	a.put("let tx = lid %% %du;\nlet ty = lid / %du;\nlet head = wg.y %% %s;\nlet batch = wg.y / %s;\nlet s0 = wg.x * %du;",
		attentionSide, attentionSide, heads, heads, attentionBlock)
	a.put("let lowest = %s;", a.f(float32(math.Inf(-1))))
	a.put("let group = head / %s;", a.u(H/G))
	a.q, a.k = a.rowsOf(q, "qb", "head", d), a.rowsOf(k, "kb", "group", d)
	a.v, a.y = a.rowsOf(v, "vb", "group", e), a.rowsOf(y, "yb", "head", e)
	return a
}

// startRows declares what is carried from block to block.
func (a *attention) startRows() {
	a.put("var top = vec4<f32>(lowest);\nvar total = vec4<f32>();")
	for r := range 4 {
		for j := range a.values {
			a.put("var o%d_%d = vec4<f32>();", r, j)
		}
	}
}

// scores puts the products of queries and keys, scaled and capped.
func (a *attention) scores() {
	for r := range 4 {
		a.put("var x%d = vec4<f32>();", r)
	}
	a.put("for (var i = 0u; i < %du; i++) {\nlet a = qs[i * %du + ty];\nlet b = kv[i * %du + tx];", a.vectors*4, attentionPitch,
		attentionPitch)
	for r := range 4 {
		a.put("x%d = fma(vec4<f32>(a.%c), b, x%d);", r, "xyzw"[r], r)
	}
	a.put("}")
	scale := a.f(a.op.Scale)
	for r := range 4 {
		a.put("x%d *= %s;", r, scale)
		if a.op.Softcap != 0 {
			c := a.f(a.op.Softcap)
			a.use("tanh_")
			a.put("x%[1]d = %[2]s * vec4<f32>(tanh_(x%[1]d.x / %[2]s), tanh_(x%[1]d.y / %[2]s), tanh_(x%[1]d.z / %[2]s), tanh_(x%[1]d.w "+
				"/ %[2]s));", r, c)
		}
	}
}

// softmax converts scores to exponentials of their difference to the largest score so far. The exponentials of earlier blocks, which
// refer to an earlier largest score, are multiplied by shrink.
func (a *attention) softmax() {
	a.put("var peak = vec4<f32>(%s);", eachRow("max(max(x%[1]d.x, x%[1]d.y), max(x%[1]d.z, x%[1]d.w))"))
	a.put("red[tx * %du + ty] = peak;\nworkgroupBarrier();", attentionFours)
	a.put("for (var i = 0u; i < %du; i++) { peak = max(peak, red[i * %du + ty]); }", attentionSide, attentionFours)
	// A row that nothing was seen of yet has no maximum to subtract: its exponentials stay 0.
	a.put("let old = top;\ntop = max(top, peak);\nlet safe = select(top, vec4<f32>(), top == vec4<f32>(lowest));")
	a.put("let shrink = select(exp(old - safe), vec4<f32>(), old == vec4<f32>(lowest));")
	for r := range 4 {
		a.put("x%d = exp(x%d - safe.%c);", r, r, "xyzw"[r])
	}
	a.put("total = total * shrink + vec4<f32>(%s);", eachRow("x%[1]d.x + x%[1]d.y + x%[1]d.z + x%[1]d.w"))
	// Key 4·tx + c is at 8·c + tx, again for the banks.
	for c, lane := range "xyzw" {
		a.put("ps[(tx + %du) * %du + ty] = vec4<f32>(x0.%c, x1.%c, x2.%c, x3.%c);", c*attentionSide, attentionPitch, lane, lane, lane, lane)
	}
}

// weigh adds the block's values, each by its exponential, to the results.
func (a *attention) weigh() {
	for r := range 4 {
		for j := range a.values {
			a.put("o%d_%d *= shrink.%c;", r, j, "xyzw"[r])
		}
	}
	a.put("for (var i = 0u; i < %du; i++) {\nlet p = ps[i * %du + ty];", attentionBlock, attentionPitch)
	for j := range a.values {
		a.put("let v%d = kv[i * %du + min(tx + %du, %du)];", j, a.across, j*attentionSide, a.across-1)
		for r := range 4 {
			a.put("o%d_%d = fma(vec4<f32>(p.%c), v%d, o%d_%d);", r, j, "xyzw"[r], j, r, j)
		}
	}
	a.put("}")
}

// totals adds up the sums of a row's invocations, which each have their own keys.
func (a *attention) totals() {
	a.put("red[tx * %du + ty] = total;\nworkgroupBarrier();\ntotal = vec4<f32>();", attentionFours)
	a.put("for (var i = 0u; i < %du; i++) { total += red[i * %du + ty]; }", attentionSide, attentionFours)
}

// write writes the results, divided by the sums.
func (a *attention) write() {
	a.put("let s1 = s0 + ty * 4u;")
	for r, lane := range "xyzw" {
		a.put("if (s1 + %du < %s) {", r, a.queries)
		guard := ""
		if a.op.NaNGuard {
			guard = fmt.Sprintf("if (total.%c == 0.0) { z = vec4<f32>(); }", lane)
		}
		for j := range a.values {
			a.put("{ let c = tx + %du;\nvar z = o%d_%d / total.%c;\n%s", j*attentionSide, r, j, lane, guard)
			m := a.bind(a.y.memory)
			if a.vector {
				a.put("if (c < %du) { %s[yb + (s1 + %du) * %s + c] = z; } }", a.across, m, r, a.y.row)
			} else {
				a.put("for (var l = 0u; l < 4u; l++) { if (c * 4u + l < %s) { %s[yb + (s1 + %du) * %s + c * 4u + l] = z[l]; } } }",
					a.y.size, m, r, a.y.row)
			}
		}
		a.put("}")
	}
}

// eachRow is a WGSL expression for each of an invocation's four rows.
func eachRow(format string) string {
	var parts []string
	for r := range 4 {
		parts = append(parts, fmt.Sprintf(format, r))
	}
	return strings.Join(parts, ", ")
}
