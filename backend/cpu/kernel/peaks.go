package kernel

import (
	"cmp"
	"math"
	"runtime"
	"slices"
	"time"
)

// Peak names something that a core can do no faster.
type Peak uint8

const (
	PeakNone Peak = iota // nothing to compare with
	PeakFMA              // float32 multiply-adds, GFLOP/s
	PeakInt8             // 8-bit multiply-adds, GOP/s
	PeakBF16             // bfloat16 multiply-adds, GFLOP/s
	PeakRead             // reading memory that is in no cache but the last, GB/s
	numPeaks
)

// peakLoop does work operations (or bytes) for each of n rounds, and nothing else.
type peakLoop struct {
	run  func(n int)
	work float64
}

// readPeakBytes is the memory that the read loop goes through: more than the L2 caches of today hold.
const readPeakBytes = 16 << 20

// readLoop reads memory in blocks of the given size.
func readLoop(read func(p *byte, blocks int), block int) peakLoop {
	var memory []byte
	return peakLoop{func(n int) {
		if memory == nil {
			memory = make([]byte, readPeakBytes)
			for i := range memory { // so that the pages are not all the same one
				memory[i] = byte(i)
			}
		}
		for ; n > 0; n-- {
			read(pointer(memory), len(memory)/block)
		}
	}, readPeakBytes}
}

// peaksGeneric are loops of scalar Go. A level without an instruction for a kind of product has no peak for it.
var peaksGeneric = func() [numPeaks]peakLoop {
	none := peakLoop{func(n int) {}, 0}
	return [numPeaks]peakLoop{
		PeakNone: none,
		PeakFMA: {func(n int) {
			var sum [8]float32
			x := float32(n)
			for range n {
				for i := range sum {
					sum[i] += x * x
				}
			}
			runtime.KeepAlive(sum)
		}, 2 * 8},
		PeakInt8: none,
		PeakBF16: none,
		PeakRead: readLoop(func(p *byte, blocks int) {
			var sum byte
			for i := range blocks {
				sum += *offset(p, 64*i)
			}
			runtime.KeepAlive(sum)
		}, 64),
	}
}()

// Rate is what a kernel does, and what the machine could do in the same moment.
type Rate struct {
	Name string
	Unit string  // of Rate: GFLOP/s, GOP/s, GB/s, or ns/element
	Rate float64 // the median
	Peak float64 // likewise, in the same unit; 0 if there is nothing to compare with
}

// rounds is the number of times that a kernel and its peak are measured in turn.
const rounds = 9

// measure runs do and a loop at its peak in turn, each for about a tenth of a millisecond at least, and gives the
// medians: the clock of a processor changes with what it does, and others may use it too.
func (s *Set) measure(peak Peak, work float64, do func()) (rate, best float64) {
	loop := s.peaks[peak]
	doRate := rateOf(work, do)
	peakRate := func() float64 { return 0 }
	if loop.work > 0 {
		peakRate = rateOf(loop.work, func() { loop.run(1) })
		if peak != PeakRead {
			const n = 2000
			peakRate = rateOf(n*loop.work, func() { loop.run(n) })
		}
	}
	var rates, peaks []float64
	for range rounds {
		peaks = append(peaks, peakRate())
		rates = append(rates, doRate())
	}
	return median(rates), median(peaks)
}

// rateOf gives a function that measures work per nanosecond.
func rateOf(work float64, do func()) func() float64 {
	do() // bring operands to the caches, and pages to the process
	start := time.Now()
	do()
	repeat := 1 + int(100*time.Microsecond/max(1, time.Since(start)))
	return func() float64 {
		start := time.Now()
		for range repeat {
			do()
		}
		return work * float64(repeat) / float64(max(1, time.Since(start).Nanoseconds()))
	}
}

func median(x []float64) float64 {
	slices.SortFunc(x, cmp.Compare)
	return x[len(x)/2]
}

// Benchmark measures every kernel on one core against the peak that bounds it, and gives each rate to report as it comes.
// All of it takes a few seconds.
func (s *Set) Benchmark(report func(Rate)) {
	for _, b := range benchmarks {
		do, work := b.prepare(s)
		rate, peak := s.measure(b.peak, work, do)
		if b.unit == unitElement {
			rate, peak = 1/rate, 0
		}
		report(Rate{b.name, b.unit, rate, finite(peak)})
	}
}

func finite(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return x
}
