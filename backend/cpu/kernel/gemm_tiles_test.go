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
			testProductOfWorkers(t, s, m, 480)
		}
		testProductOfWorkers(t, s, 200, 40)
	})
}

func testProductOfWorkers(t *testing.T, s *Set, m, n int) {
	t.Helper()
	const k, block, bits = 512, 32, 4
	r := newRand()
	a, b, bias := random(r, m*k).inner, random(r, k*n).inner, random(r, n).inner
	args := GemmArgs{A: a, ARow: k, ACol: 1, CRow: n, Alpha: 1, Bias: bias, Act: Gelu}
	pack := s.NewPackBF16(k, n)
	packed := make([]uint16, pack.Len())
	for p := range pack.Parts() {
		pack.Run(p, packed, b, n, 1, make([]byte, pack.ScratchBytes()))
	}
	narrow := make([]uint16, m*k)
	s.ToBF16(narrow, a)
	blocks := s.NewPackBlocks(k, n, block, bits)
	stored, scales := newGuarded(blocks.Bytes()/4, 0).inner, random(r, n*k/block).inner
	for p := range blocks.Parts() {
		blocks.Run(p, bytesOfFloats(stored), bytesOfFloats(b)[:n*k/2], scales, nil)
	}
	operand := blocks.StoredBlocks(bytesOfFloats(stored))
	products := map[string]func(workers int, args GemmArgs) (parts int){
		"bfloat16": func(workers int, args GemmArgs) (parts int) {
			plan := s.NewGemmBF16(m, n, k, workers)
			for p := range plan.Parts() {
				plan.Run(p, &GemmBF16Args{A: narrow, ARow: k, B: packed, GemmArgs: args})
			}
			return plan.Parts()
		},
		"stored": func(workers int, args GemmArgs) (parts int) {
			plan := s.NewGemmStored(m, n, k, workers)
			for p := range plan.Parts() {
				plan.Run(p, &args, &operand, bytesOfFloats(newGuarded(plan.ScratchBytes()/4, 0).inner))
			}
			return plan.Parts()
		},
		"bytes in blocks": func(workers int, args GemmArgs) (parts int) {
			plan := s.NewGemmBlocksS8(m, n, k, block, bits, false, workers)
			rows := GemmBlocksS8Args{Quantized: make([]byte, m*plan.RowBytes()), Scales: make([]float32, m*plan.RowScales()),
				GemmArgs: args}
			plan.QuantizeBlocks(rows.Quantized, rows.Scales, a, k, 0, m)
			for p := range plan.Parts() {
				plan.Run(p, &rows, bytesOfFloats(stored), bytesOfFloats(newGuarded(plan.ScratchBytes()/4, 0).inner))
			}
			return plan.Parts()
		},
		"batch": func(workers int, args GemmArgs) (parts int) {
			plan := s.NewBatchGemm(1, m, n, k, workers)
			args.B = b
			batch := BatchGemmArgs{GemmArgs: args, BRow: n, BCol: 1, AOffset: []int{0}, BOffset: []int{0}, COffset: []int{0}}
			for p := range plan.Parts() {
				plan.Run(p, &batch, bytesOfFloats(newGuarded(plan.ScratchBytes()/4, 0).inner))
			}
			return plan.Parts()
		},
	}
	for name, run := range products {
		var one []float32
		first, parts := 0, 0
		for _, workers := range []int{1, 2, 3, 16, 64} {
			args.C = make([]float32, m*n)
			parts = run(workers, args)
			if one == nil {
				one, first = args.C, parts
			}
			require.Equal(t, one, args.C, "%s: %d rows, %d columns, %d workers", name, m, n, workers)
		}
		require.Greater(t, parts, 1, name)
		if n == 40 && (name != "bfloat16" || s.gemmBF16.joined[NoUnary] != nil) { // there are too few panels for the workers
			require.Greater(t, parts, first, "%s: all are cut alike", name)
		}
	}
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
