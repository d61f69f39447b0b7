// Package options defines the options of a compilation, each in one place: its field in Compile, and its row in Table, from which the
// flags of all commands, the environment variables and docs/command-line.md follow. What obeys an option reads it from Compile.
package options

import (
	"fmt"
	"os"

	"github.com/rlxc/rlxc/liveness"
	"github.com/rlxc/rlxc/planner"
	"github.com/rlxc/rlxc/tensor"
)

// Level says how far a program is rewritten, in the notation of the command line's -O. Empty means O2. Levels compare as text.
type Level string

// The levels.
const (
	O0 Level = "0" // as the model says
	O1 Level = "1" // folding, common subexpressions, dead code
	O2 Level = "2" // all fusions
)

// Compile says how a model is compiled. The zero value suits most uses. A file that was compiled for backend cpu keeps its
// Precision and Weights.
type Compile struct {
	// Backend runs the program: "cpu" if empty. Others are available if the program imports their packages.
	Backend string
	// Device chooses one of the backend's devices. Empty means the best.
	Device string
	// CPU is the instruction level of backend cpu: "avx512", "avx2" or "generic". Empty means the best. Programs for a level that this
	// machine lacks, or for more threads than it has processors, can be planned and saved, and runs fail.
	CPU string
	// Level says how far to rewrite.
	Level Level
	// Exact leaves out the rewrites that change more than roundings or drop an error: docs/rewrites.md.
	Exact bool
	// Unpad skips padding tokens where the model allows it. Outputs at masked positions are 0. Which models allow it, and what becomes of
	// the others: docs/unpad.md. A compiled file is as it was compiled.
	Unpad bool
	// Threads is the number of threads of the host that a run has at most; the runs under way share out the processors. 0 means
	// GOMAXPROCS, on Apple silicon at most the number of performance cores.
	Threads int
	// Precision is the type to which float32 products with constant weights round their operands: tensor.BF16 (cpu, cuda),
	// tensor.F16 (wgpu, cuda) or tensor.TF32 (cuda, attention too). Sums stay float32.
	Precision tensor.DType `json:",omitempty"`
	// Weights is the type in which such weights are stored. With tensor.I8, weights have a scale per column, and activations are
	// quantised by row in each run.
	Weights tensor.DType `json:",omitempty"`
	// Mode is the memory planner's. With planner.Auto, the environment variable RLXC_MEMORY_PLANNER decides.
	Mode planner.Mode
	// Liveness says how long buffers are kept for readers that the steps do not show, such as kernels that run late.
	Liveness liveness.Policy
	// LateReads is the number of steps after its own during which any kernel may still read its operands, for a device that runs kernels
	// late. What kernels of a backend and custom operators declare counts in any case.
	LateReads int `json:",omitempty"`
	// PinOutputAncestors keeps all that the outputs are computed from to the end, for executors that run steps out of order.
	PinOutputAncestors bool `json:",omitempty"`
	// Dims fixes symbolic dimensions at compile time.
	Dims map[string]int
	// MemoryLimit bounds the arenas of a run, and its results outside of them, in bytes. 0 means half of what the process may have: of
	// the machine's memory, or of its control group's (Linux).
	MemoryLimit int64
	// MaxFlops bounds the multiplications and additions of a run's products, those of all trips of its loops together. They are
	// counted before they begin. 0 means no limit.
	MaxFlops int64
	// CacheLimit bounds, roughly, the memory plans that are kept for shapes seen before, in bytes. 0 means 64 MiB.
	CacheLimit int64
	// Profile records the times of the steps: see Session.Profile.
	Profile bool
	// Verify checks the graph after every pass and proves every memory plan safe, as RLXC_VERIFY=1 does.
	Verify bool
	// Taps names intermediate values of the model that become outputs too; they are computed at every level. AllValues stands
	// for all that survive rewriting.
	Taps []string
}

// An Option is a row of Table.
type Option struct {
	Field string // of Compile
	Flag  string // of every command that compiles; empty for an option without one
	Short string // the flag's letter, or empty
	Env   string // the variable that decides where the field is empty, or empty
	Usage string
	// Value is the field of o as the flag.
	Value func(o *Compile) Value
}

// Backends lists the backends.
func Backends() []string { return []string{"cpu", "cuda", "wgpu"} }

// EnvCPU and EnvVerify are the environment variables of CPU and Verify.
const (
	EnvCPU    = "RLXC_CPU"
	EnvVerify = "RLXC_VERIFY"
)

// Table lists all options in the order in which documents show them.
var Table = []Option{
	{Field: "Backend", Flag: "backend", Usage: "backend that runs the model",
		Value: func(o *Compile) Value { return OneOf(&o.Backend, "cpu", Words(Backends()...)) }},
	{Field: "Device", Flag: "device",
		Usage: `device of the backend (default the best; "rlxc devices" lists them); commands on texts take several, as 0,1`,
		Value: func(o *Compile) Value { return (*text)(&o.Device) }},
	{Field: "CPU", Flag: "cpu", Env: EnvCPU, Usage: "instruction level of the CPU kernels: " +
		"amx, avx512bf16, avx512vnni, avx512, avx2 or generic; on arm64 bf16, i8mm, dotprod, neon or generic",
		Value: func(o *Compile) Value { return (*text)(&o.CPU) }},
	{Field: "Level", Flag: "optimize", Short: "O", Usage: "optimization level: 0 none, 1 folding, 2 all fusions",
		Value: func(o *Compile) Value { return OneOf(&o.Level, string(O2), Words(O0, O1, O2)) }},
	{Field: "Exact", Flag: "exact",
		Usage: "leave out the fusions that change more than rounding, such as dropping QDQ pairs, or that drop an error",
		Value: func(o *Compile) Value { return (*boolean)(&o.Exact) }},
	{Field: "Unpad", Flag: "unpad", Usage: "skip padding tokens, if the model allows it",
		Value: func(o *Compile) Value { return (*boolean)(&o.Unpad) }},
	{Field: "Threads", Flag: "threads",
		Usage: "number of CPU threads of a run (default all, which the runs under way share out)",
		Value: func(o *Compile) Value { return integer[int]{&o.Threads} }},
	{Field: "Precision", Flag: "precision", Usage: "precision of fp32 products with weights; a file compiled for the CPU keeps its own",
		Value: func(o *Compile) Value {
			return OneOf(&o.Precision, "fp32", []Word[tensor.DType]{{"fp32", tensor.F32}, {"tf32", tensor.TF32}, {"bf16", tensor.BF16},
				{"f16", tensor.F16}})
		}},
	{Field: "Weights", Flag: "weights", Usage: "type of stored fp32 weights: int8 quantises them by column, and activations by row",
		Value: func(o *Compile) Value {
			return OneOf(&o.Weights, "model", []Word[tensor.DType]{{"model", tensor.F32}, {"int8", tensor.I8}})
		}},
	{Field: "Mode", Flag: "mode", Env: planner.EnvMode, Usage: "mode of the memory planner",
		Value: func(o *Compile) Value {
			return parsed[planner.Mode]{&o.Mode, planner.ParseMode, names(planner.Modes())}
		}},
	{Field: "Liveness", Flag: "liveness", Usage: "how long buffers are kept for late readers",
		Value: func(o *Compile) Value {
			return parsed[liveness.Policy]{&o.Liveness, liveness.ParsePolicy, liveness.Policies()}
		}},
	{Field: "LateReads", Usage: "steps during which kernels may still read their operands (plan --late-reads)"},
	{Field: "PinOutputAncestors", Usage: "keep all that the outputs are computed from to the end (plan --pin-output-ancestors)"},
	{Field: "Dims", Flag: "dim", Usage: "size of a dimension, such as seq=128 (repeatable)",
		Value: func(o *Compile) Value { return (*sizes)(&o.Dims) }},
	{Field: "MemoryLimit", Flag: "memory-limit",
		Usage: "largest memory of runs beyond the weights: bytes, or 64KiB, 16MiB, 2GiB (default what the machine or container allows)",
		Value: func(o *Compile) Value { return (*Size)(&o.MemoryLimit) }},
	{Field: "MaxFlops", Flag: "max-flops",
		Usage: "largest number of multiplications and additions in the products of a run (default no limit)",
		Value: func(o *Compile) Value { return integer[int64]{&o.MaxFlops} }},
	{Field: "CacheLimit", Usage: "memory of the plans kept for shapes seen before"},
	{Field: "Profile", Usage: "record the times of the steps"},
	{Field: "Verify", Env: EnvVerify, Usage: "1 checks the graph after every pass and proves every memory plan safe"},
	{Field: "Taps", Usage: "intermediate values that become outputs too"},
}

// Resolve returns o with its defaults, and with what RLXC_VERIFY asks for. It fails for a value that its type does not define; the backend
// checks the rest.
func Resolve(o Compile) (Compile, error) {
	if o.Backend == "" {
		o.Backend = "cpu"
	}
	if o.Level == "" {
		o.Level = O2
	}
	if o.Level != O0 && o.Level != O1 && o.Level != O2 {
		return o, fmt.Errorf("invalid level %q: want 0, 1 or 2", string(o.Level))
	}
	if _, err := o.Mode.MarshalText(); err != nil {
		return o, err
	}
	if _, err := liveness.ParsePolicy(o.Liveness.String()); err != nil {
		return o, err
	}
	o.Verify = o.Verify || os.Getenv(EnvVerify) == "1"
	return o, nil
}
