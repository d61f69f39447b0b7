package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/internal/inside"
	"github.com/rlxc/rlxc/internal/page"
	"github.com/rlxc/rlxc/internal/rewrite"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/pipeline"
)

func compileCommand() *cobra.Command {
	o := newModelFlags()
	var why bool
	var output, html string
	var overridable []string
	c := &cobra.Command{
		Use:   "compile M",
		Short: "compile a model, print its steps, or write a compiled file",
		Long: `compile rewrites a model for a backend and prints its steps, the rewrites that applied, and the opaque
operators. --why adds the near misses: where a fusion almost applied, and what prevented it.

-o writes the program to a file with packed weights. Every command takes such a file as M and opens it
without compiling. If M is a folder with a tokenizer, the file also holds the tokenizer and the
configuration, so that embed, serve and the other commands on texts need no other file, and it skips
padding unless --unpad=false is given. A file for a GPU requires the same --backend. With several levels
(--cpu avx2,avx512,amx) the file holds a program for each, and stores what they share once. A machine of
another level takes the first program and packs its weights again.`,
		Example: `  rlxc compile bert-tiny
  rlxc compile model.onnx -o model.rlxc
  rlxc compile model.onnx --backend wgpu -o gpu.rlxc
  rlxc compile model.onnx --cpu avx2,avx512,amx -o model.rlxc
  rlxc compile model.onnx -O 1 --json
  rlxc compile model.onnx --why
  rlxc compile model.onnx --html passes.html`,
		Args: oneModel,
	}
	o.register(c)
	o.registerStrict(c)
	c.Flags().StringVarP(&output, "output", "o", "", "write the program to a .rlxc file")
	c.Flags().StringVar(&html, "html", "", "write the graph before and after each pass to an HTML file")
	c.Flags().StringArrayVar(&overridable, "overridable", nil,
		"initializer that becomes an input with a default: one that inspect lists as such (repeatable)")
	c.Flags().BoolVar(&why, "why", false, "report where a fusion almost applied, and what prevented it")
	c.RunE = func(c *cobra.Command, args []string) error {
		src, err := o.find(args[0])
		if err != nil {
			return err
		}
		src.overridable = func([]string) ([]string, error) { return overridable, nil }
		levels := strings.Split(o.CPU, ",")
		if len(levels) > 1 && output == "" {
			return usagef("--cpu %s: several levels require -o", o.CPU)
		}
		o.CPU = levels[0]
		var beside map[string][]byte
		if output != "" {
			var texts *pipeline.Description
			if texts, beside, err = filesBeside(args[0]); err != nil {
				return err
			}
			if len(beside) > 0 && !c.Flags().Changed("unpad") { // the commands on texts compile the folder without padding
				o.Unpad = texts.SkipsPadding() && cmp.Or(o.Level, rlxc.O2) == rlxc.O2
			}
		}
		ctx, trace := rewrite.WithTrace(c.Context())
		if html == "" {
			ctx = c.Context()
		}
		e, err := o.loadOwn(ctx, src, false)
		if err != nil {
			return err
		}
		defer e.Close()
		if html != "" {
			if inside.Proto(e.model) == nil {
				return usagef("--html requires an ONNX model: %s is already compiled", src.name)
			}
			if err := files.ReplaceFile(html, func(w io.Writer) error { return trace.WriteHTML(w, "Passes over "+src.name) }); err != nil {
				return err
			}
		}
		if err := o.heed(e.model); err != nil {
			return err
		}
		report := newCompileReport(src, e, why)
		if output != "" {
			var others []*rlxc.Program
			for _, level := range levels[1:] {
				opts := o.CompileOptions
				opts.CPU = level
				p, err := e.model.Compile(c.Context(), opts)
				if err != nil {
					return err
				}
				defer p.Close()
				others = append(others, p)
			}
			if err := e.program.SaveWith(output, beside, others...); err != nil {
				return err
			}
			report.Holds = slices.Sorted(maps.Keys(beside))
			info, err := os.Stat(output)
			if err != nil {
				return err
			}
			report.File, report.Bytes = output, info.Size()
		}
		return emit(c, report, report.text)
	}
	return c
}

// filesBeside returns the files that a compiled file of m should hold, and their description. For a folder with a tokenizer, these are its
// tokenizer and configuration. For a compiled file, these are the files that it holds already. Otherwise both results are nil.
func filesBeside(m string) (*pipeline.Description, map[string][]byte, error) {
	info, err := os.Stat(m)
	if err != nil { // the name of a built-in model, which has no tokenizer
		return nil, nil, nil
	}
	d, err := pipeline.Describe(m, pipeline.Options{})
	if err != nil || !info.IsDir() && d.Dir != m || d.Tokenizer == d.Dir {
		return nil, nil, err
	}
	beside, err := d.Files()
	return d, beside, err
}

// A compileReport is what compile prints.
type compileReport struct {
	Model     string         `json:"model"`
	Level     rlxc.Level     `json:"level"`
	ONNXNodes int            `json:"onnx_nodes"`
	Nodes     int            `json:"nodes"` // number of nodes of the lowered program
	Steps     int            `json:"steps"` // number of steps of a run, without views
	Packed    int            `json:"packed_weights"`
	Rewrites  []rewriteRow   `json:"rewrites"`
	Custom    map[string]int `json:"custom"` // opaque operators
	StepList  []stepRow      `json:"step_list"`
	Reference string         `json:"reference,omitempty"` // steps that run by reference code
	Why       []string       `json:"near_misses,omitempty"`
	Padding   string         `json:"padding,omitempty"`  // what --unpad did
	Warnings  []string       `json:"warnings,omitempty"` // see rlxc.Model.Warnings
	File      string         `json:"file,omitempty"`     // path of the compiled file
	Holds     []string       `json:"holds,omitempty"`    // the files in File beside the program, such as tokenizer.json
	Bytes     int64          `json:"bytes,omitempty"`
}

// A rewriteRow is how often a rule was applied.
type rewriteRow struct {
	Pass  string `json:"pass"`
	Rule  string `json:"rule"`
	Count int    `json:"count"`
}

// A stepRow is a step of the program.
type stepRow struct {
	Op     string   `json:"op"`
	Result string   `json:"result"`
	Nodes  []string `json:"nodes"` // nodes of the model that the op replaces
}

func newCompileReport(src *source, e *own, why bool) *compileReport {
	stats, rewrites := e.program.Stats(), inside.Program(e.program).Stats().Rewrites
	r := &compileReport{Model: src.name, Level: stats.Level, ONNXNodes: len(inside.Proto(e.model).GetGraph().GetNode()),
		Nodes: rewrites.Before,
		Steps: rewrites.Steps, Packed: stats.Packed, Custom: map[string]int{}, Warnings: e.model.Warnings()}
	for _, rule := range rewrites.Rules {
		r.Rewrites = append(r.Rewrites, rewriteRow{rule.Pass, rule.Rule, rule.Count})
	}
	if e.program.Unpadded() {
		r.Padding = "padding is skipped"
	} else if stats.Padded != "" {
		r.Padding = "padding is not skipped: " + stats.Padded
	}
	if why {
		for _, miss := range rewrites.NearMisses {
			r.Why = append(r.Why, miss.String())
		}
	}
	r.Reference = referenceText(inside.Program(e.program).Reference(), nil)
	for _, n := range inside.Program(e.program).Graph().Nodes {
		if n.Op.Kind().Has(ir.View) {
			continue
		}
		r.StepList = append(r.StepList, stepRow{ir.OpName(n.Op), n.Outputs[0].Type.String(), n.Origins})
		if n.Op.Kind().Has(ir.IsOpaque) {
			r.Custom[displayName(n.Op)]++
		}
	}
	return r
}

// displayName is an op's name, that of its operator where it stands for one that is translated in each run.
func displayName(op ir.Op) string {
	if s, ok := op.(fmt.Stringer); ok {
		return s.String()
	}
	return ir.OpName(op)
}

func (r *compileReport) text(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "STEP\tRESULT\tNODES")
	for _, s := range r.StepList {
		fmt.Fprintf(w, "%s\t%s\t%s\n", s.Op, s.Result, originText(s.Nodes))
	}
	fmt.Fprintln(w, "\nREWRITE\tCOUNT\t")
	for _, rule := range r.Rewrites {
		fmt.Fprintf(w, "%s\t%d\t\n", strings.Trim(rule.Pass+" "+rule.Rule, " "), rule.Count)
	}
	w.Flush()
	for _, name := range slices.Sorted(maps.Keys(r.Custom)) {
		fmt.Fprintf(out, "opaque: %s, %d times\n", name, r.Custom[name])
	}
	if r.Reference != "" {
		fmt.Fprintln(out, r.Reference)
	}
	for _, miss := range r.Why {
		fmt.Fprintf(out, "near miss: %s\n", miss)
	}
	if r.Padding != "" {
		fmt.Fprintln(out, r.Padding)
	}
	printWarnings(out, r.Warnings)
	fmt.Fprintf(out, "%s: %d nodes → %d operations → %d steps at -O %s; %d weights packed\n", r.Model, r.ONNXNodes, r.Nodes, r.Steps,
		r.Level, r.Packed)
	if r.File != "" {
		fmt.Fprintf(out, "%s: %s\n", r.File, page.Bytes(r.Bytes))
		if len(r.Holds) > 0 {
			fmt.Fprintf(out, "%s holds %s\n", r.File, strings.Join(r.Holds, ", "))
		}
	}
	return nil
}

// originText names the last of the nodes that a step stands for, and counts the others.
func originText(nodes []string) string {
	switch len(nodes) {
	case 0:
		return ""
	case 1:
		return shown(nodes[0])
	}
	return fmt.Sprintf("%s and %d more", shown(nodes[len(nodes)-1]), len(nodes)-1)
}
