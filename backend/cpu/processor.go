package cpu

import (
	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// A processor is what kernels are bound and weights are packed for: the level of instructions, and a pool of workers.
type processor struct {
	set     *kernel.Set
	pool    *kernel.Pool
	threads int // threads for which memory is planned; at least those of the pool
	target  *target.Target
	qPlans  kernel.QPlans
	format  format              // format of float32 weights
	weights weights             // weights that Prepare has packed
	release func(weight []byte) // see Device.OnRelease
	links   map[ir.Kind]entry   // entries of the ops that a chain may have, see linkTable
}

// cacheLine is the alignment of every buffer: a cache line, and an AVX-512 register.
const cacheLine = 64

// align keeps workers' scratch on separate cache lines.
func align(n int) int { return (n + cacheLine - 1) &^ (cacheLine - 1) }

// Threads returns the number of workers for which memory is planned.
func (d *processor) Threads() int { return d.threads }

// A format is how the constant matrix of a float32 product is packed, which decides how the product is computed.
type format uint8

const (
	formatF32  format = iota // float32 numbers, not rounded
	formatBF16               // rounded to bfloat16; a is rounded on the way, and sums are float32
	// rounded to 127ths of each column's largest magnitude; each row of a is quantised on the way, and sums are exact
	formatS8
	numFormats
)
