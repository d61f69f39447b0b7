package kernel

import "fmt"

// Units of a Rate.
const (
	unitFlops   = "GFLOP/s"
	unitOps     = "GOP/s"
	unitBytes   = "GB/s"
	unitElement = "ns/element"
)

// benchmark is one row of the table of Benchmark. prepare returns what is measured and how much work it does: operations,
// bytes, or elements.
type benchmark struct {
	name    string
	unit    string
	peak    Peak
	prepare func(s *Set) (do func(), work float64)
}

// benchmarks are the shapes of a BERT encoder.
var benchmarks = func() (all []benchmark) {
	add := func(name, unit string, peak Peak, prepare func(s *Set) (func(), float64)) {
		all = append(all, benchmark{name, unit, peak, prepare})
	}
	for _, kn := range [][2]int{{384, 384}, {384, 1536}, {768, 768}, {768, 3072}, {3072, 768}} {
		for _, m := range []int{1, 8, 32, 128, 512} {
			k, n := kn[0], kn[1]
			shape := fmt.Sprintf("%d×%d×%d", m, k, n)
			// A row at a time is bound by reading the weights: it is measured in bytes.
			if m == 1 {
				add("product of float32 "+shape, unitBytes, PeakRead, scaled(benchGemm(m, n, k), 4*float64(k*n)))
				add("product of 8-bit integers "+shape, unitBytes, PeakRead, scaled(benchGemmS8(m, n, k), float64(k*n)))
				add("product of bfloat16 "+shape, unitBytes, PeakRead, scaled(benchGemmBF16(m, n, k), 2*float64(k*n)))
				add("product with 4-bit weights "+shape, unitBytes, PeakRead, scaled(benchGemmBlocks(m, n, k), float64(k*n)/2))
				continue
			}
			add("product of float32 "+shape, unitFlops, PeakFMA, benchGemm(m, n, k))
			add("product of 8-bit integers "+shape, unitOps, PeakInt8, benchGemmS8(m, n, k))
			add("product of bfloat16 "+shape, unitFlops, PeakBF16, benchGemmBF16(m, n, k))
			add("product with 4-bit weights "+shape, unitFlops, PeakFMA, benchGemmBlocks(m, n, k))
		}
	}
	for _, tokens := range []int{32, 128, 512} {
		for _, size := range []int{32, 64, 128} {
			name := fmt.Sprintf("12 heads, %d tokens, size %d", tokens, size)
			add("attention of "+name, unitFlops, PeakFMA, benchAttention(tokens, size, (*Set).NewAttention))
			add("attention in bfloat16 of "+name, unitFlops, PeakBF16, benchAttention(tokens, size, (*Set).NewAttentionBF16))
		}
	}
	for _, heads := range [][2]int{{12, 12}, {14, 2}} {
		name := fmt.Sprintf("attention of a query, %d heads over %d of 1024 keys, size 64", heads[0], heads[1])
		add(name, unitBytes, PeakRead, benchStep(heads[0], heads[1]))
	}
	const rows, cols = 128, 768
	elements := func(name string, n int, do func(s *Set, x, y []float32)) {
		add(name, unitElement, PeakNone, func(s *Set) (func(), float64) {
			x, y := ramp(n), make([]float32, n)
			return func() { do(s, x, y) }, float64(n)
		})
	}
	for op, row := range unaryRows {
		f := Unary{Op: UnaryOp(op)}
		if len(row.cases) > 0 {
			f.Alpha, f.Beta = row.cases[0].alpha, row.cases[0].beta
		}
		elements(f.Op.String(), cols, func(s *Set, x, y []float32) { s.Unary(f, y, x) })
	}
	elements("addition", cols, func(s *Set, x, y []float32) { s.Binary(Add, y, x, x) })
	elements("softmax of 128×128", 128*128, func(s *Set, x, y []float32) { s.Softmax(y, 128, x, 128, 128, 128) })
	elements("layer normalisation of 128×768", rows*cols, func(s *Set, x, y []float32) {
		s.LayerNorm(&NormArgs{Dst: y, DstRow: cols, X: x, XRow: cols, Residual: x, ResRow: cols, Scale: x, Bias: x, Epsilon: 1e-5}, 0,
			rows, cols)
	})
	elements("sum of a row of 768", cols, func(s *Set, x, y []float32) { s.ReduceRows(ReduceSum, y, x, cols, 1, cols) })
	elements("minimum and maximum of 768", cols, func(s *Set, x, y []float32) { y[0], y[1] = s.MinMax(x) })
	elements("transpose of 128×128", 128*128, func(s *Set, x, y []float32) { s.copy2D(y, 128, 1, x, 1, 128, 128, 128) })
	elements("copy of 128×64 from rows of 2304", 128*2304, func(s *Set, x, y []float32) { s.copy2D(y, 64, 1, x, 2304, 1, 128, 64) })
	all[len(all)-1].prepare = scaled(all[len(all)-1].prepare, 128*64)
	elements("float32 to bfloat16", cols, func(s *Set, x, y []float32) { s.ToBF16(elementsOf[uint16](bytesOfFloats(y))[:cols], x) })
	elements("float32 to half", cols, func(s *Set, x, y []float32) { s.ToF16(elementsOf[uint16](bytesOfFloats(y))[:cols], x) })
	elements("quantisation", cols, func(s *Set, x, y []float32) { s.QuantizeU8(bytesOfFloats(y)[:cols], x, 0.1, 3) })
	return all
}()

// scaled replaces the amount of work.
func scaled(prepare func(s *Set) (func(), float64), work float64) func(s *Set) (func(), float64) {
	return func(s *Set) (func(), float64) {
		do, _ := prepare(s)
		return do, work
	}
}

// ramp returns n numbers from −5 to 5.
func ramp(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i%101)/10 - 5
	}
	return x
}

// written returns memory that has been written. Memory that was never written is one page of zeros, which the L1 cache holds.
func written[T byte | uint16](n int, x T) []T {
	s := make([]T, n)
	for i := range s {
		s[i] = x
	}
	return s
}

func benchGemm(m, n, k int) func(s *Set) (func(), float64) {
	return func(s *Set) (func(), float64) {
		pack, plan := s.NewPackB(k, n), s.NewGemmBF16x3(m, n, k, 1)
		args := &GemmArgs{A: ramp(m * k), ARow: k, ACol: 1, B: ramp(pack.Len()), C: make([]float32, m*n), CRow: n, Alpha: 1, Bias: ramp(n)}
		scratch := make([]byte, plan.ScratchBytes())
		return eachPart(plan.Parts(), func(part int) { plan.Run(part, args, scratch) }), 2 * float64(m*n*k)
	}
}

func benchGemmS8(m, n, k int) func(s *Set) (func(), float64) {
	return func(s *Set) (func(), float64) {
		pack, plan := s.NewPackS8(k, n), s.NewGemmS8(m, n, k, 1)
		args := &GemmS8Args{A: written[byte](m*roundUp(k, 4), 0x3f), ARow: roundUp(k, 4), Scale: make([]float32, 1), Zero: make([]int32, 1),
			B: written[byte](pack.Bytes(), 0x3f), BScale: ramp(n), C: make([]float32, m*n), CRow: n}
		scratch := make([]byte, plan.ScratchBytes())
		return eachPart(plan.Parts(), func(part int) { plan.Run(part, args, scratch) }), 2 * float64(m*n*k)
	}
}

func benchGemmBF16(m, n, k int) func(s *Set) (func(), float64) {
	return func(s *Set) (func(), float64) {
		pack, plan := s.NewPackBF16(k, n), s.NewGemmBF16(m, n, k, 1)
		args := &GemmBF16Args{A: written[uint16](m*roundUp(k, 2), 0x3f3f), ARow: roundUp(k, 2), B: written[uint16](pack.Len(), 0x3f3f),
			GemmArgs: GemmArgs{C: make([]float32, m*n), CRow: n, Alpha: 1, Bias: ramp(n)}}
		return eachPart(plan.Parts(), func(part int) { plan.Run(part, args) }), 2 * float64(m*n*k)
	}
}

func benchGemmBlocks(m, n, k int) func(s *Set) (func(), float64) {
	return func(s *Set) (func(), float64) {
		const block, bits = 32, 4
		pack, work := s.NewPackBlocks(k, n, block, bits), 2*float64(m*n*k)
		args := &GemmArgs{A: ramp(m * k), ARow: k, ACol: 1, C: make([]float32, m*n), CRow: n, Alpha: 1, Bias: ramp(n)}
		packed := written[byte](pack.Bytes(), 0x3f)
		if plan := s.NewGemmDigits(m, n, k, block, bits, FloatRows); plan != nil {
			nBytes, nScales := plan.Split()
			bytes, scales, rest := make([]byte, nBytes), make([]float32, nScales), make([]float32, k)
			run := eachPart(plan.Parts(), func(part int) { plan.Run(part, bytes, scales, args, packed) })
			return func() {
				for r := range m {
					plan.Quantize(bytes, scales, rest, args.A[r*k:][:k], r)
				}
				run()
			}, work
		}
		plan := s.NewGemmStored(m, n, k, 1)
		b, scratch := pack.StoredBlocks(packed), make([]byte, plan.ScratchBytes())
		return eachPart(plan.Parts(), func(part int) { plan.Run(part, args, &b, scratch) }), work
	}
}

// benchAttention reads q, k and v from one packed tensor.
func benchAttention(tokens, size int, newAttention func(*Set, AttentionShape) *Attention) func(s *Set) (func(), float64) {
	return func(s *Set) (func(), float64) {
		const heads = 12
		plan := newAttention(s, AttentionShape{Batch: 1, Heads: heads, KVHeads: heads, Queries: tokens, Keys: tokens, Size: size,
			ValueSize: size})
		packed := AttentionStride{Head: size, Seq: 3 * heads * size}
		qkv := ramp(tokens * packed.Seq)
		args := &AttentionArgs{Q: qkv, K: qkv[heads*size:], V: qkv[2*heads*size:], Out: make([]float32, tokens*heads*size),
			QStride: packed, KStride: packed, VStride: packed, OutStride: AttentionStride{Head: size, Seq: heads * size}, Scale: 0.01}
		scratch := make([]byte, plan.ScratchBytes())
		return eachPart(plan.Parts(), func(part int) { plan.Run(part, args, scratch) }), 4 * float64(heads*tokens*tokens*size)
	}
}

// benchStep is the attention of a decoder's step, which reads a cache of 1,024 positions.
func benchStep(heads, kvHeads int) func(s *Set) (func(), float64) {
	return func(s *Set) (func(), float64) {
		const keys, size = 1024, 64
		plan := s.NewAttention(AttentionShape{Batch: 1, Heads: heads, KVHeads: kvHeads, Queries: 1, Keys: keys, Size: size,
			ValueSize: size})
		one, cache := AttentionStride{Head: size, Seq: heads * size}, AttentionStride{Head: size, Seq: kvHeads * size}
		args := &AttentionArgs{Q: ramp(one.Seq), K: ramp(keys * cache.Seq), V: ramp(keys * cache.Seq), Out: make([]float32, one.Seq),
			QStride: one, KStride: cache, VStride: cache, OutStride: one, Scale: 0.01}
		scratch := make([]byte, plan.ScratchBytes())
		return eachPart(plan.Parts(), func(part int) { plan.Run(part, args, scratch) }), 2 * 4 * float64(keys*cache.Seq)
	}
}

func eachPart(parts int, run func(part int)) func() {
	return func() {
		for part := range parts {
			run(part)
		}
	}
}
