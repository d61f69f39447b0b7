package kernel

import (
	"cmp"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Peak names something that a core can do no faster.
type Peak uint8

const (
	PeakNone Peak = iota // the kernel is compared to no peak
	PeakFMA              // float32 multiply-adds, GFLOP/s
	PeakInt8             // 8-bit multiply-adds, GOP/s
	PeakBF16             // bfloat16 multiply-adds, GFLOP/s
	PeakRead             // reading memory that is at most in the last cache, GB/s
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

// A Rate is the speed of a kernel, and the speed that the machine reaches at the same time.
type Rate struct {
	Name string
	Unit string  // unit of Rate and Peak: GFLOP/s, GOP/s, GB/s, or ns/element
	Rate float64 // median speed of the kernel
	Peak float64 // median speed of the machine; 0 for PeakNone
}

// rounds is the number of times that a kernel and its peak are measured in turn.
const rounds = 9

// measure runs do and a loop at the machine's peak in turn, each round for about a tenth of a millisecond at least, and returns the
// median speeds. The clock of a processor depends on the instructions: a loop of multiply-adds alone may run a fifth faster than beside
// the loads of a product. So bursts of the loop are between the calls of do, each too short for the clock to change.
func (s *Set) measure(peak Peak, work float64, do func()) (rate, best float64) {
	const round, short = 100 * time.Microsecond, 10 * time.Microsecond
	loop, n := s.peaks[peak], 1
	if peak == PeakRead { // the loop empties the caches, so it must not run between the calls of do
		do, work = batch(do, work, round)
	} else {
		do, work = batch(do, work, short)
		for burst := func() { loop.run(n) }; loop.work > 0 && min(timeOf(burst), timeOf(burst), timeOf(burst)) < short; {
			n *= 2
		}
	}
	repeat := 1 + int(round/max(1, timeOf(do)))
	var rates, peaks []float64
	for range rounds {
		var doing, bursting time.Duration
		for range repeat {
			doing += timeOf(do)
			bursting += timeOf(func() { loop.run(n) })
		}
		rates = append(rates, work*float64(repeat)/float64(max(1, doing)))
		peaks = append(peaks, loop.work*float64(n*repeat)/float64(max(1, bursting)))
	}
	return median(rates), median(peaks)
}

// roundTime is long enough that starting the threads of a round takes less than a hundredth of it.
const roundTime = 4 * time.Millisecond

// Measure returns the rate of a peak on several threads at once: the best of a few rounds, because other work of the machine makes rounds
// slower, and never faster. It returns 0 if the level has no instruction for that peak.
func (s *Set) Measure(peak Peak, threads int) (best float64) {
	loop, n := s.peaks[peak], 1
	if loop.work == 0 {
		return 0
	}
	loop.run(n) // PeakRead allocates its memory in the first call, which must be the only one
	for timeOf(func() { loop.run(n) }) < roundTime {
		n *= 2
	}
	for range rounds {
		took := timeOf(func() {
			var group sync.WaitGroup
			for range threads {
				group.Go(func() { loop.run(n) })
			}
			group.Wait()
		})
		best = max(best, loop.work*float64(n*threads)/float64(max(1, took)))
	}
	return best
}

// batch repeats do for about so long, after a first call in which operands come to the caches.
func batch(do func(), work float64, long time.Duration) (func(), float64) {
	do()
	repeat := 1 + int(long/max(1, timeOf(do)))
	return func() {
		for range repeat {
			do()
		}
	}, work * float64(repeat)
}

func timeOf(do func()) time.Duration {
	start := time.Now()
	do()
	return time.Since(start)
}

func median(x []float64) float64 {
	slices.SortFunc(x, cmp.Compare)
	return x[len(x)/2]
}

// Benchmark measures every kernel on one core against the peak that bounds it, and returns each rate to report as it comes.
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
