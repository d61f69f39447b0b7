package kernel

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestProductsShareNoRegisters computes the same products in more goroutines than there are processors, while the garbage
// collector stops them wherever it can: registers that calls left over, or a switch of goroutines lost, would show.
func TestProductsShareNoRegisters(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		const m, n, k = 50, 100, 130
		want := newGemmS8Case(r, m, n, k)
		want.test(t, s)
		pack, plan := s.NewPackS8(k, n), s.NewGemmS8(m, n, k, 2)
		packed := operand[byte](pack.Bytes())
		for p := range pack.Parts() {
			pack.Run(p, packed, want.b, want.bRow, want.bCol, want.unsigned)
		}
		var running sync.WaitGroup
		for range 2 * runtime.GOMAXPROCS(0) {
			running.Go(func() {
				args := want.args
				args.B, args.Sums = packed, make([]int32, m*args.CRow)
				scratch := make([]byte, plan.ScratchBytes())
				for range 20 {
					clear(args.Sums)
					for p := range plan.Parts() {
						plan.Run(p, &args, scratch)
					}
					for i := range m {
						if !assert.Equal(t, want.sums[i*n:][:n], args.Sums[i*args.CRow:][:n]) {
							return
						}
					}
					runtime.Gosched()
				}
			})
		}
		done := make(chan struct{})
		go func() { running.Wait(); close(done) }()
		for collecting := true; collecting; {
			select {
			case <-done:
				collecting = false
			default:
				runtime.GC()
			}
		}
	})
}

// TestProductsOfWorkers: a product is cut into more parts for more workers, and has the same bits.
func TestProductsOfWorkers(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		for _, m := range []int{33, 97, 200} {
			testProductOfWorkers(t, s, m)
		}
	})
}

func testProductOfWorkers(t *testing.T, s *Set, m int) {
	t.Helper()
	const n, k = 480, 512
	r := newRand()
	a, b, bias := random(r, m*k).inner, random(r, k*n).inner, random(r, n).inner
	pack := s.NewPackBF16(k, n)
	packed := make([]uint16, pack.Len())
	for p := range pack.Parts() {
		pack.Run(p, packed, b, n, 1, make([]byte, pack.ScratchBytes()))
	}
	args := GemmBF16Args{A: make([]uint16, m*k), ARow: k, B: packed, GemmArgs: GemmArgs{CRow: n, Alpha: 1, Bias: bias, Act: Gelu}}
	s.ToBF16(args.A, a)
	var one []float32
	parts := 0
	for _, workers := range []int{1, 2, 3, 16} {
		plan := s.NewGemmBF16(m, n, k, workers)
		require.GreaterOrEqual(t, plan.Parts(), parts)
		parts = plan.Parts()
		args.C = make([]float32, m*n)
		for p := range parts {
			plan.Run(p, &args)
		}
		if one == nil {
			one = args.C
		}
		require.Equal(t, one, args.C, "%d rows, %d workers", m, workers)
	}
	require.Greater(t, parts, 1)
}

// TestProductsGrowTheStack runs a product in fresh goroutines, from many depths of a stack that is still small: one of the calls
// finds no room for the sums of its tiles.
func TestProductsGrowTheStack(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		const m, n, k = 32, 48, 64
		pack, plan := s.NewPackBF16(k, n), s.NewGemmBF16(m, n, k, 2)
		args := GemmBF16Args{A: make([]uint16, m*k), ARow: k, B: make([]uint16, pack.Len()), GemmArgs: GemmArgs{CRow: n, Alpha: 1}}
		for _, x := range [][]uint16{args.A, args.B} {
			for i := range x {
				x[i] = 0x3f80 // 1
			}
		}
		var running sync.WaitGroup
		for depth := range 200 {
			running.Go(func() {
				own := args
				own.C = make([]float32, m*n)
				atDepth(depth, func() {
					for p := range plan.Parts() {
						plan.Run(p, &own)
					}
				})
				for _, x := range own.C {
					if !assert.Equal(t, float32(k), x, depth) {
						return
					}
				}
			})
		}
		running.Wait()
	})
}

//go:noinline
func atDepth(depth int, do func()) {
	if depth == 0 {
		do()
		return
	}
	atDepth(depth-1, do)
}
