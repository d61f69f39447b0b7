// Package options defines the options of a compilation: a field of Compile, and a row of Table, from which the flags of all commands, the
// environment variables and docs/command-line.md follow. What obeys an option reads it from Compile.
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
	O0 Level = "0" // no rewrites: each node runs as it is in the model
	O1 Level = "1" // folding, common subexpressions, dead code
	O2 Level = "2" // all fusions
)

// Compile is rlxc.CompileOptions, which documents the fields: one converts to the other, so the compiler holds them equal.
type Compile struct {
	Backend            string
	Device             string
	CPU                string
	Level              Level
	Exact              bool
	Unpad              bool
	Threads            int
	Precision          tensor.DType `json:",omitempty"`
	Weights            tensor.DType `json:",omitempty"`
	Mode               planner.Mode
	Liveness           liveness.Policy
	LateReads          int  `json:",omitempty"`
	PinOutputAncestors bool `json:",omitempty"`
	Dims               map[string]int
	MemoryLimit        int64
	DeviceWeights      int64 `json:",omitempty"`
	MaxFlops           int64
	CacheLimit         int64
	Profile            bool
	Verify             bool
	Taps               []string
}

// An Option is a row of Table.
type Option struct {
	Field string // name of a field of Compile
	Flag  string // name of the flag, which every command that compiles has; empty if there is none
	Short string // the flag's letter; empty if there is none
	Env   string // environment variable that gives the default; empty if there is none
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
		Usage: `device of the backend (default the best; "rlxc devices" lists them); text commands take several, as 0,1`,
		Value: func(o *Compile) Value { return (*text)(&o.Device) }},
	{Field: "CPU", Flag: "cpu", Env: EnvCPU, Usage: "instruction level of the CPU kernels: " +
		"amx, avx512bf16, avx512vnni, avx512, avx2 or generic; on arm64 bf16, i8mm, dotprod, neon or generic",
		Value: func(o *Compile) Value { return (*text)(&o.CPU) }},
	{Field: "Level", Flag: "optimize", Short: "O", Usage: "optimization level: 0 none, 1 folding, 2 all fusions",
		Value: func(o *Compile) Value { return OneOf(&o.Level, string(O2), Words(O0, O1, O2)) }},
	{Field: "Exact", Flag: "exact",
		Usage: "skip fusions that change more than rounding, such as removing QDQ pairs, or that drop an error",
		Value: func(o *Compile) Value { return (*boolean)(&o.Exact) }},
	{Field: "Unpad", Flag: "unpad", Usage: "skip padding tokens, if the model allows it",
		Value: func(o *Compile) Value { return (*boolean)(&o.Unpad) }},
	{Field: "Threads", Flag: "threads",
		Usage: "number of CPU threads of a run (default all; concurrent runs share them)",
		Value: func(o *Compile) Value { return integer[int]{&o.Threads} }},
	{Field: "Precision", Flag: "precision", Usage: "precision of fp32 products with weights; a file compiled for the CPU has a fixed one",
		Value: func(o *Compile) Value {
			return OneOf(&o.Precision, "fp32", []Word[tensor.DType]{{"fp32", tensor.F32}, {"tf32", tensor.TF32}, {"bf16", tensor.BF16},
				{"f16", tensor.F16}})
		}},
	{Field: "Weights", Flag: "weights", Usage: "type of fp32 weights in memory: int8 quantises them by column, and activations by row",
		Value: func(o *Compile) Value {
			return OneOf(&o.Weights, "model", []Word[tensor.DType]{{"model", tensor.F32}, {"int8", tensor.I8}})
		}},
	{Field: "Mode", Flag: "mode", Env: planner.EnvMode, Usage: "mode of the memory planner",
		Value: func(o *Compile) Value {
			return parsed[planner.Mode]{&o.Mode, planner.ParseMode, names(planner.Modes())}
		}},
	{Field: "Liveness", Flag: "liveness", Usage: "how long buffers live for late readers",
		Value: func(o *Compile) Value {
			return parsed[liveness.Policy]{&o.Liveness, liveness.ParsePolicy, liveness.Policies()}
		}},
	{Field: "LateReads", Usage: "steps during which kernels may still read their operands (plan --late-reads)"},
	{Field: "PinOutputAncestors", Usage: "keep everything that the outputs depend on until the end (plan --pin-output-ancestors)"},
	{Field: "Dims", Flag: "dim", Usage: "size of a dimension, such as seq=128 (repeatable)",
		Value: func(o *Compile) Value { return (*sizes)(&o.Dims) }},
	{Field: "MemoryLimit", Flag: "memory-limit",
		Usage: "maximum working memory, which runs and requests take at a time, without weights: bytes, or 64KiB, 16MiB, 2GiB " +
			"(default half of the machine or container)",
		Value: func(o *Compile) Value { return (*Size)(&o.MemoryLimit) }},
	{Field: "DeviceWeights", Flag: "device-weights",
		Usage: "maximum memory of weights on a GPU: those that do not fit stay on the host and are copied in each run (default no limit)",
		Value: func(o *Compile) Value { return (*Size)(&o.DeviceWeights) }},
	{Field: "MaxFlops", Flag: "max-flops",
		Usage: "maximum multiplications and additions in the products of a run (default no limit)",
		Value: func(o *Compile) Value { return integer[int64]{&o.MaxFlops} }},
	{Field: "CacheLimit", Usage: "memory for plans of earlier shapes"},
	{Field: "Profile", Usage: "record the times of the steps"},
	{Field: "Verify", Env: EnvVerify, Usage: "1 checks the graph after every pass and proves every memory plan safe"},
	{Field: "Taps", Usage: "intermediate values that become outputs too (run --tap)"},
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
