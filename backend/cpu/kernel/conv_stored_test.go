package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// stored sets quantised weights of a case, and writes the numbers that they represent to w.
func (g *convCase) stored(r *rand.Rand, s *Set) (what string, b Stored) {
	k, n := g.KernelHeight*g.KernelWidth*g.Channels, g.Outputs
	if bits := []int{0, 4, 8}[r.IntN(3)]; bits > 0 {
		block := roundUp(k, 8)
		if g.Channels%16 == 0 && r.IntN(2) == 0 {
			block = 16
		}
		blocks := ceilDiv(k, block)
		src, scales, zeros := operand[byte](n*blocks*block*bits/8), random(r, n*blocks).inner, operand[float32](n*blocks)
		for i := range src {
			src[i] = byte(r.Uint32())
		}
		for i := range zeros {
			scales[i] /= float32(int(1) << bits)
			zeros[i] = float32(r.IntN(1 << bits))
		}
		for m := range n {
			for i := range k {
				at, per := m*blocks*block+i, 8/bits
				q := int(src[at/per]) >> (at % per * bits) & (1<<bits - 1)
				g.w.inner[i*n+m] = (float32(q) - zeros[m*blocks+i/block]) * scales[m*blocks+i/block]
			}
		}
		pack := s.NewPackBlocks(k, n, block, bits)
		packed := newGuarded(pack.Bytes()/4, 0)
		for p := range pack.Parts() {
			pack.Run(p, bytesOfFloats(packed.inner), src, scales, zeros)
		}
		return fmt.Sprintf("%d bits in blocks of %d, ", bits, block), pack.StoredBlocks(bytesOfFloats(packed.inner))
	}
	bf16 := r.IntN(2) == 0
	narrow, widen := s.ToF16, s.FromF16
	if bf16 {
		narrow, widen = s.ToBF16, s.FromBF16
	}
	pack := s.NewPackB(k, n)
	wide := operand[float32](pack.Len())
	for p := range pack.Parts() {
		pack.Run(p, wide, g.w.inner, n, 1)
	}
	packed, bits := operand[uint16](len(wide)), operand[uint16](k*n)
	narrow(packed, wide)
	narrow(bits, g.w.inner)
	widen(g.w.inner, bits)
	return fmt.Sprintf("bfloat16 %v, ", bf16), pack.StoredHalf(packed, bf16)
}

// runStored runs a plan.
func (g *convCase) runStored(t *testing.T, parts, scratchBytes int, run func(part int, args *ConvArgs, scratch []byte), what string,
	b Stored) {
	t.Helper()
	g.args.Stored = &b
	scratch := newGuarded(scratchBytes/4, 0)
	for part := range parts {
		run(part, &g.args, bytesOfFloats(scratch.inner))
	}
	scratch.check(t, "scratch of "+what+g.String())
	g.check(t)
}

func TestConvOfStoredWeights(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		for _, outputs := range edges(s.gemm.vec, s.gemm.cols()) {
			for _, channels := range []int{1, 2, 3, 4, 17, 64} {
				g := newConvCase(r, channels, outputs, false)
				what, b := g.stored(r, s)
				plan := s.NewConv(g.ConvShape, 1+r.IntN(4), true)
				g.runStored(t, plan.Parts(), plan.ScratchBytes(), plan.Run, what, b)
			}
		}
	})
}

func TestWinogradOfStoredWeights(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		one := func(channels, outputs, high, wide int) {
			g := newWinogradCase(r, channels, outputs, high, wide)
			what, b := g.stored(r, s)
			if r.IntN(2) == 0 && g.Height*g.Width > 0 { // the direct way, which huge pixels take
				g.args.X[0] = 1 << 24
			}
			plan := s.NewWinograd(g.ConvShape, 1+r.IntN(4), true)
			g.runStored(t, plan.Parts(), plan.ScratchBytes(), plan.Run, what, b)
		}
		for _, outputs := range edges(s.gemm.vec, s.gemm.cols()) {
			for _, channels := range []int{1, 7, s.gemm.vec + 1, 40} {
				one(channels, outputs, 1+r.IntN(13), 1+r.IntN(29))
			}
		}
		one(256, 70, 14, 57) // several parts and blocks of channels, and a pitch that is wider than the channels
	})
}
