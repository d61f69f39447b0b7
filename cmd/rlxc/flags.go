package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/internal/onnxruntime"
	"github.com/rlxc/rlxc/liveness"
	"github.com/rlxc/rlxc/planner"
	"github.com/rlxc/rlxc/tensor"
)

// An options value holds the flags that several commands share. Each command registers those that apply to it.
type options struct {
	backend     choice
	device      string
	library     string
	level       choice
	exact       bool
	strict      bool
	independent bool
	unpad       bool
	precision   choice
	weights     choice
	threads     int
	dims        dims
	mode        planner.Mode
	memoryLimit size
	maxFlops    int64
	liveness    choice
	profile     bool
	taps        []string
}

// defaultLimit is the default of --memory-limit on a machine, and in a container, of at least twice as much memory: a size with a
// digit too many should be an error, not a machine that runs out of memory.
const defaultLimit = 8 << 30

func newOptions() *options {
	return &options{backend: choice{"cpu", []string{"cpu", "cuda", "wgpu"}}, level: choice{"2", []string{"0", "1", "2"}}, dims: dims{},
		precision: choice{"fp32", []string{"fp32", "tf32", "bf16", "f16"}}, weights: choice{"model", []string{"model", "int8"}},
		memoryLimit: size(min(defaultLimit, memory.Limit(0))), liveness: choice{liveness.Exact.String(), liveness.Policies()}}
}

// onnxRuntime is the name of the reference engine on the command line.
const onnxRuntime = "onnxruntime"

// registerEngine adds the flags of commands that run a model, in the reference engine too.
func (o *options) registerEngine(c *cobra.Command) {
	o.backend.words = append(o.backend.words, onnxRuntime)
	o.registerLibrary(c)
	o.registerCompile(c)
}

func (o *options) registerBackend(c *cobra.Command) {
	enum(c, &o.backend, "backend", "", "backend that runs the model")
	c.Flags().StringVar(&o.device, "device", "", "device of the backend (default the best; \"rlxc devices\" lists them)")
}

func (o *options) registerLibrary(c *cobra.Command) {
	c.Flags().StringVar(&o.library, onnxRuntime, "", "path of onnxruntime's shared library (default $"+onnxruntime.Env+", then the active Python environment's)")
}

// registerCompile adds the flags of commands that compile a model.
func (o *options) registerCompile(c *cobra.Command) {
	o.registerBackend(c)
	o.registerLevel(c)
	o.registerPrecision(c)
	f := c.Flags()
	f.IntVar(&o.threads, "threads", 0, "number of CPU threads (default all)")
	o.registerMode(c)
	enum(c, &o.liveness, "liveness", "", "how long buffers are kept for late readers")
	f.Var(&o.memoryLimit, "memory-limit", "largest memory of a run beyond the weights: bytes, or 64KiB, 16MiB, 2GiB (default half of the machine's or container's memory, at most 8GiB)")
	f.Int64Var(&o.maxFlops, "max-flops", 0, "largest number of multiplications and additions in the products of a run (default no limit)")
	f.Lookup("memory-limit").DefValue = "" // it depends on the machine
	o.registerDims(c)
}

func (o *options) registerLevel(c *cobra.Command) {
	enum(c, &o.level, "optimize", "O", "optimization level: 0 none, 1 folding, 2 all fusions")
	c.Flags().BoolVar(&o.exact, "exact", false, "leave out the fusions that change more than rounding, such as dropping QDQ pairs, or that drop an error")
	c.Flags().BoolVar(&o.unpad, "unpad", false, "compute the tokens that the attention mask keeps, and no padding, if the model allows it")
}

func (o *options) registerStrict(c *cobra.Command) {
	c.Flags().BoolVar(&o.strict, "strict", false, "fail if the model states types or shapes that its nodes contradict, instead of warning")
}

// heed fails for a model with warnings, if --strict is given.
func (o *options) heed(m *rlxc.Model) error {
	if w := m.Warnings(); o.strict && len(w) > 0 {
		return fmt.Errorf("%s: %w: %s", m.Name(), rlxc.ErrInvalidModel, strings.Join(w, "\n"))
	}
	return nil
}

func printWarnings(out io.Writer, warnings []string) {
	for _, w := range warnings {
		fmt.Fprintf(out, "warning: %s\n", w)
	}
}

func (o *options) registerPrecision(c *cobra.Command) {
	enum(c, &o.precision, "precision", "", "precision of fp32 products with weights; a file compiled for the CPU keeps its own")
	enum(c, &o.weights, "weights", "", "type of stored fp32 weights: int8 quantises them by column, and activations by row")
}

func (o *options) registerMode(c *cobra.Command) {
	c.Flags().Var((*modeFlag)(&o.mode), "mode", "mode of the memory planner: "+join(planner.Modes()))
	c.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions(strings.Split(join(planner.Modes()), ", "), cobra.ShellCompDirectiveNoFileComp))
}

// modeFlag is a mode given by hand. It goes before the environment's, also if it is auto, which leaves the choice to that.
type modeFlag planner.Mode

// String implements pflag.Value.
func (m *modeFlag) String() string { return planner.Mode(*m).String() }

// Type implements pflag.Value.
func (*modeFlag) Type() string { return "mode" }

// Set implements pflag.Value.
func (m *modeFlag) Set(s string) error {
	mode, err := planner.ParseMode(s)
	if err != nil {
		return err
	}
	*m = modeFlag(mode)
	return os.Unsetenv(planner.EnvMode)
}

func (o *options) registerDims(c *cobra.Command) {
	c.Flags().Var(o.dims, "dim", "size of a dimension, such as seq=128 (repeatable)")
	o.registerIndependent(c)
}

func (o *options) registerIndependent(c *cobra.Command) {
	c.Flags().BoolVar(&o.independent, "independent-sizes", false, "for a model that uses one name for sizes that differ: give each axis of the inputs a size of its own")
}

// counted is "1 run" or "2 runs".
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// join lists alternatives.
func join[T any](list []T) string {
	parts := make([]string, len(list))
	for i, x := range list {
		parts[i] = fmt.Sprint(x)
	}
	return strings.Join(parts, ", ")
}

// referenceLevels are the settings of -O in onnxruntime.
var referenceLevels = map[string]onnxruntime.Level{"0": onnxruntime.None, "1": onnxruntime.Basic, "2": onnxruntime.All}

// dtypes are the settings of --precision and --weights.
var dtypes = map[string]rlxc.DType{"fp32": tensor.F32, "bf16": tensor.BF16, "f16": tensor.F16, "tf32": tensor.TF32, "model": tensor.F32, "int8": tensor.I8}

// compileOptions returns the flags as options of the library.
func (o *options) compileOptions() (rlxc.CompileOptions, error) {
	sizes, err := o.dims.sizes()
	if err != nil {
		return rlxc.CompileOptions{}, err
	}
	policy, err := liveness.ParsePolicy(o.liveness.value)
	return rlxc.CompileOptions{Backend: o.backend.value, Device: o.device, Level: rlxc.Level(o.level.value), Exact: o.exact, Unpad: o.unpad, Threads: o.threads, Mode: o.mode, Dims: sizes,
		Precision: dtypes[o.precision.value], Weights: dtypes[o.weights.value],
		MemoryLimit: int64(o.memoryLimit), MaxFlops: o.maxFlops, Liveness: policy, Profile: o.profile, Taps: o.taps}, err
}

// A choice is a flag that takes one of a few words.
type choice struct {
	value string
	words []string
}

// enum registers a choice. short is a one-letter name, or empty.
func enum(c *cobra.Command, v *choice, name, short, usage string) {
	c.Flags().VarP(v, name, short, usage+" ("+join(v.words)+")")
	c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(v.words, cobra.ShellCompDirectiveNoFileComp))
}

// String implements pflag.Value.
func (v *choice) String() string { return v.value }

// Type implements pflag.Value.
func (v *choice) Type() string { return "word" }

// Set implements pflag.Value.
func (v *choice) Set(s string) error {
	if !slices.Contains(v.words, s) {
		return fmt.Errorf("want one of %s", join(v.words))
	}
	v.value = s
	return nil
}

// A span is the sizes from low to high.
type span struct{ low, high int }

// dims is the flag --dim: a size for each name, or a range of sizes.
type dims map[string]span

// String implements pflag.Value.
func (dims) String() string { return "" }

// Type implements pflag.Value.
func (dims) Type() string { return "name=size" }

// Set implements pflag.Value.
func (d dims) Set(s string) error {
	name, text, ok := strings.Cut(s, "=")
	if !ok || name == "" {
		return fmt.Errorf("want name=size, such as seq=128")
	}
	low, high, ranged := strings.Cut(text, ":")
	if !ranged {
		high = low
	}
	if _, twice := d[name]; twice {
		return fmt.Errorf("duplicate dimension %q", name)
	}
	a, err := strconv.Atoi(low)
	b, err2 := strconv.Atoi(high)
	if err != nil || err2 != nil || a < 0 || b < a {
		return fmt.Errorf("invalid size %q: want an integer, or a range such as 1:512", text)
	}
	d[name] = span{a, b}
	return nil
}

// sizes returns the dims of a command that takes no ranges.
func (d dims) sizes() (map[string]int, error) {
	out := map[string]int{}
	for name, s := range d {
		if s.low != s.high {
			return nil, usagef("--dim %s=%d:%d: only plan takes a range", name, s.low, s.high)
		}
		out[name] = s.low
	}
	return out, nil
}

// A size is a flag for a number of bytes.
type size int64

var units = []struct {
	suffix string
	bytes  int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"", 1}}

// String implements pflag.Value.
func (n *size) String() string {
	for _, u := range units {
		if v := int64(*n); v > 0 && v%u.bytes == 0 && u.bytes != 1 {
			return fmt.Sprintf("%d%s", v/u.bytes, u.suffix)
		}
	}
	return strconv.FormatInt(int64(*n), 10)
}

// Type implements pflag.Value.
func (n *size) Type() string { return "bytes" }

// Set implements pflag.Value.
func (n *size) Set(s string) error {
	for _, u := range units {
		if number, ok := strings.CutSuffix(s, u.suffix); ok {
			v, err := strconv.ParseFloat(number, 64)
			if err != nil || v <= 0 || v*float64(u.bytes) >= 1<<62 {
				return fmt.Errorf("want a number of bytes, such as 16MiB")
			}
			*n = size(v * float64(u.bytes))
			return nil
		}
	}
	return nil
}

// shapes is the flag --shapes: lists of sizes for the free dimensions in order of appearance.
type shapes [][]int

// String implements pflag.Value.
func (s *shapes) String() string {
	parts := make([]string, len(*s))
	for i, shape := range *s {
		parts[i] = shapeText(shape)
	}
	return strings.Join(parts, ",")
}

// shapeText writes sizes as "2x16".
func shapeText(shape []int) string {
	parts := make([]string, len(shape))
	for i, n := range shape {
		parts[i] = strconv.Itoa(n)
	}
	return strings.Join(parts, "x")
}

// Type implements pflag.Value.
func (*shapes) Type() string { return "NxN,…" }

// Set implements pflag.Value.
func (s *shapes) Set(text string) error {
	var all shapes
	for _, part := range strings.Split(text, ",") {
		var shape []int
		for _, n := range strings.Split(part, "x") {
			v, err := strconv.Atoi(n)
			if err != nil || v < 0 {
				return fmt.Errorf("invalid shape %q: want sizes, such as 2x16", part)
			}
			shape = append(shape, v)
		}
		all = append(all, shape)
	}
	*s = all
	return nil
}

// bindings returns each shape's sizes by name. A model without free dimensions has one binding, which is empty.
func (s shapes) bindings(free []string) ([]map[string]int, error) {
	if len(free) == 0 && len(s) == 0 {
		return []map[string]int{{}}, nil
	}
	if len(s) == 0 {
		return nil, usagef("--shapes is required: sizes of %s", strings.Join(free, ", "))
	}
	var out []map[string]int
	for _, shape := range s {
		if len(shape) != len(free) {
			return nil, usagef("--shapes %s: the model has %s: %s", shapeText(shape), counted(len(free), "free dimension"), strings.Join(free, ", "))
		}
		b := map[string]int{}
		for i, name := range free {
			b[name] = shape[i]
		}
		out = append(out, b)
	}
	return out, nil
}
