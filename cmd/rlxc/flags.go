package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/internal/onnxruntime"
	"github.com/rlxc/rlxc/internal/options"
)

// modelFlags are what the commands on a model's tensors have in common: the options of its compilation, and how it is opened.
type modelFlags struct {
	rlxc.CompileOptions
	library     string
	strict      bool
	independent bool
}

func newModelFlags() *modelFlags {
	return &modelFlags{CompileOptions: rlxc.CompileOptions{Backend: "cpu", Level: rlxc.O2, MemoryLimit: memory.Limit(0)}}
}

// registerCompile adds a flag for each option of a compilation, but for those that the command has registered in another form. The
// values that o has are the defaults.
func registerCompile(c *cobra.Command, o *rlxc.CompileOptions) {
	for _, row := range options.Table {
		if row.Flag == "" || c.Flags().Lookup(row.Flag) != nil {
			continue
		}
		v := row.Value((*options.Compile)(o))
		f := addFlag(c, v, row.Flag, row.Short, row.Usage)
		if row.Env != "" {
			f.Value = byHand{v, row.Env}
		}
	}
}

// flag adds a flag, whose usage and completions list the words that it takes.
func addFlag(c *cobra.Command, v options.Value, name, short, usage string) *pflag.Flag {
	if list, ok := v.(options.Choice); ok {
		words := list.Words()
		usage += " (" + options.Join(words) + ")"
		defer c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
	f := c.Flags().VarPF(v, name, short, usage)
	switch v.Type() {
	case "bool":
		f.NoOptDefVal = "true"
	case "bytes":
		f.DefValue = "" // it depends on the machine
	}
	return f
}

// enum adds a flag that takes one of a few words.
func enum[T ~string](c *cobra.Command, v *T, name, usage string, words ...T) {
	addFlag(c, options.OneOf(v, "", options.Words(words...)), name, "", usage)
}

// needs finds flags that do nothing without another.
func needs(c *cobra.Command, other string, names ...string) error {
	for _, name := range names {
		if c.Flags().Changed(name) && !c.Flags().Changed(other) {
			return usagef("--%s requires --%s", name, other)
		}
	}
	return nil
}

// least finds a number below the least that a flag takes.
func least(flag string, value, want int) error {
	if value < want {
		return usagef("--%s %d: want at least %d", flag, value, want)
	}
	return nil
}

// pathFlags are the flags whose values are paths or contain one. The operating system allows any bytes in a path.
var pathFlags = strings.Fields("against-cmd api-key-file backward calibrate check csv draw html input instance lengths onnxruntime " +
	"output reference skip throughput tls-cert tls-key tokenizer trace")

// errNotUTF8 refuses a text of the command line, which would become another text in a tokenizer or in JSON.
var errNotUTF8 = errors.New("not valid UTF-8: convert it, for example with iconv")

// textFlag is a flag whose value is text, from the command line or from the environment.
type textFlag struct{ pflag.Value }

// Set implements pflag.Value.
func (v textFlag) Set(s string) error {
	if !utf8.ValidString(s) {
		return errNotUTF8
	}
	return v.Value.Set(s)
}

// requireUTF8 makes values that are not UTF-8 a mistake in the command line: those of all flags of c but pathFlags, and of the arguments
// after the first if texts is set.
func requireUTF8(c *cobra.Command, texts bool) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(pathFlags, f.Name) {
			f.Value = textFlag{f.Value}
		}
	})
	if check := c.Args; texts {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return err
			}
			for i, text := range args[1:] {
				if !utf8.ValidString(text) {
					return fmt.Errorf("text %d, %q, is %w", i+1, text, errNotUTF8)
				}
			}
			return nil
		}
	}
}

// byHand is a flag that goes before an environment variable, also if its value leaves the choice to that.
type byHand struct {
	options.Value
	env string
}

// Set implements pflag.Value.
func (v byHand) Set(s string) error {
	if err := v.Value.Set(s); err != nil {
		return err
	}
	return os.Unsetenv(v.env)
}

// onnxRuntime is the name of the reference engine on the command line.
const onnxRuntime = "onnxruntime"

// registerEngine adds the flags of commands that run a model, in the reference engine too.
func (o *modelFlags) registerEngine(c *cobra.Command) {
	enum(c, &o.Backend, "backend", "backend that runs the model", append(options.Backends(), onnxRuntime)...)
	o.registerLibrary(c)
	o.register(c)
}

// register adds the flags of commands that compile a model.
func (o *modelFlags) register(c *cobra.Command) {
	registerCompile(c, &o.CompileOptions)
	c.Flags().BoolVar(&o.independent, "independent-sizes", false,
		"give each axis of the inputs a separate size, for a model that uses one name for sizes that differ")
}

func (o *modelFlags) registerLibrary(c *cobra.Command) {
	c.Flags().StringVar(&o.library, onnxRuntime, "",
		"path of onnxruntime's shared library (default $"+onnxruntime.Env+", then the active Python environment's)")
}

func (o *modelFlags) registerStrict(c *cobra.Command) {
	c.Flags().BoolVar(&o.strict, "strict", false, "fail if the model states types or shapes that its nodes contradict, instead of warning")
}

// heed fails for a model with warnings, if --strict is given.
func (o *modelFlags) heed(m *rlxc.Model) error {
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

// counted is "1 run" or "2 runs".
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
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
			return nil, usagef("--shapes %s: the model has %s: %s", shapeText(shape), counted(len(free), "free dimension"),
				strings.Join(free, ", "))
		}
		b := map[string]int{}
		for i, name := range free {
			b[name] = shape[i]
		}
		out = append(out, b)
	}
	return out, nil
}
