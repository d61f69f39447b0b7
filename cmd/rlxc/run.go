package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/inside"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A running is the command line of run.
type running struct {
	*modelFlags
	inputs        []string
	zeros, random bool
	text          textOptions
	output        string
	trace, html   string
}

func runCommand() *cobra.Command {
	r := &running{modelFlags: newModelFlags()}
	c := &cobra.Command{
		Use:   "run M",
		Short: "run a model once",
		Long: `run runs a model once and prints its outputs.

Inputs come from files (--input), from texts that a tokenizer encodes (--text), or are generated (--zeros
or --random, with --dim for the sizes that the model leaves open). --input takes precedence over
generated inputs. The commands embed, rerank, classify, tag and answer take texts and print answers
instead of tensors.

--tap adds an intermediate value of the model to the outputs. It is computed at every level of -O, and
fusions that would remove it do not apply.`,
		Example: `  rlxc run bert-tiny --random --dim batch=2 --dim seq=16
  rlxc run model.onnx --input input_ids=ids.npy --input attention_mask=mask.json --zeros -o out.npz
  rlxc run path/to/folder --text "a photo of a cat" --text "a picture of a kitten"
  rlxc run bert-tiny --random --dim batch=1 --dim seq=8 --tap /encoder/layer.0/attention/self/Softmax_output_0
  rlxc run model.onnx --random --dim batch=1 --dim seq=128 --profile --html profile.html
  rlxc run model.onnx --backend onnxruntime --random --dim batch=1 --dim seq=8 --json`,
		Args: oneModel,
		RunE: r.run,
	}
	r.registerEngine(c)
	f := c.Flags()
	f.StringArrayVar(&r.inputs, "input", nil,
		"name=file ("+endings(readers)+"), or an .npz with arrays named after the inputs (repeatable)")
	f.BoolVar(&r.zeros, "zeros", false, "generate inputs of zeros")
	f.BoolVar(&r.random, "random", false, "generate random inputs: valid ids, masks with padding, numbers around 0")
	f.StringVarP(&r.output, "output", "o", "", "write the outputs to a file ("+endings(writers)+")")
	f.BoolVar(&r.Profile, "profile", false, "print the times of operators, layers and steps: medians of 3 to 51 more runs, about 2 s")
	f.StringVar(&r.trace, "trace", "", "write the median times of the steps as a trace for Chrome or Perfetto (.json)")
	f.StringVar(&r.html, "html", "", "write a flame chart of the median times, and tables by layer and operator, to an HTML file")
	f.StringArrayVar(&r.Taps, "tap", nil, "intermediate value that becomes an output too, or * for all that -O leaves (repeatable)")
	r.text.register(c)
	c.MarkFlagsMutuallyExclusive("zeros", "random", "text")
	return c
}

// A runReport is what run prints.
type runReport struct {
	Model   string       `json:"model"`
	Backend string       `json:"backend"`
	Outputs rlxc.Tensors `json:"outputs"`
	Seconds float64      `json:"seconds"` // duration of the run alone, without opening the model; it is the first run at its sizes
	Profile *profile     `json:"profile,omitempty"`
	names   []string
}

func (r *running) run(c *cobra.Command, args []string) error {
	r.Profile = r.Profile || r.trace != "" || r.html != ""
	if r.Profile && r.Backend == onnxRuntime {
		return usagef("--profile, --trace and --html do not apply to --backend %s", onnxRuntime)
	}
	if err := r.text.check(c); err != nil {
		return err
	}
	src, err := r.find(args[0])
	if err != nil {
		return err
	}
	src.overridable = amongDefaults(func() ([]string, error) { return inputNames(r.inputs, r.MemoryLimit) })
	sizes := r.Dims
	if r.Unpad || c.Flags().Changed("memory-limit") {
		r.Dims = nil // of the inputs only: a program of fixed sizes leaves no padding out, and takes its batch as it is
	}
	e, err := r.load(c.Context(), src)
	if err != nil {
		return err
	}
	defer e.Close()
	warn(c, e)
	in, err := r.gather(c, src, e, sizes)
	if err != nil {
		return err
	}
	begin := time.Now()
	out, err := e.Run(c.Context(), in)
	if err != nil {
		return err
	}
	report := &runReport{Model: src.name, Backend: r.Backend, Outputs: out, Seconds: time.Since(begin).Seconds(),
		names: namesOf(e.Outputs())}
	if r.output != "" {
		if err := writeOutputs(r.output, report.names, out); err != nil {
			return err
		}
	}
	if o, ok := e.(*own); ok && r.Profile {
		report.Outputs = rlxc.Tensors{} // the session takes their memory again
		for name, t := range out {
			report.Outputs[name] = t.Clone()
		}
		if report.Profile, err = r.profiled(c.Context(), o, in, report.Outputs, "Run of "+src.name); err != nil {
			return err
		}
	}
	return emit(c, report, report.table)
}

// gather makes the inputs that the flags describe.
func (r *running) gather(c *cobra.Command, src *source, e engine, given map[string]int) (rlxc.Tensors, error) {
	if len(r.text.texts) > 0 {
		if len(r.inputs) > 0 {
			return nil, usagef("--text and --input exclude each other")
		}
		tok, err := r.text.open(src, e)
		if err != nil {
			return nil, err
		}
		return r.text.tokenize(c, tok, src, e)
	}
	types := map[string]ir.Type{}
	if o, ok := e.(*own); ok {
		for _, v := range inside.Program(o.program).Graph().Inputs {
			types[v.Name] = v.Type
		}
	}
	in, err := readInputs(r.inputs, e.Inputs(), types, r.MemoryLimit)
	if err != nil || !r.zeros && !r.random {
		if len(r.inputs) == 0 && len(e.Inputs()) > 0 {
			return nil, usagef("no inputs: add --input, --random, --zeros or --text")
		}
		return in, err
	}
	sizes := map[string]int{}
	maps.Copy(sizes, given)
	maker, err := newMaker(src, e)
	if err != nil {
		return nil, err
	}
	var missing []rlxc.ValueInfo
	for _, v := range maker.infos {
		t := in[v.Name]
		if t == nil {
			missing = append(missing, v)
			continue
		}
		if t.IsSequence() || slices.Equal(v.Shape, []string{"*"}) {
			continue
		}
		if t.Rank() != len(v.Shape) {
			return nil, fmt.Errorf("input %q is %v: want %s", v.Name, t, infoText(v))
		}
		for i, text := range v.Shape { // what files fix need not be said again
			name := symbolOf(text)
			if _, known := sizes[name]; !known {
				sizes[name] = t.Shape()[i]
			}
		}
	}
	maker.infos = missing
	made, err := maker.zeros(sizes)
	if r.random {
		made, err = maker.random(sizes)
	}
	if err != nil {
		return nil, err
	}
	maps.Copy(in, made)
	return in, nil
}

// firstElements is how many elements the table shows of an output.
const firstElements = 6

// table prints a row an output.
func (r *runReport) table(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "OUTPUT\tSHAPE\tMIN\tMAX\tMEAN\tFIRST ELEMENTS")
	for _, name := range r.names {
		outputRows(w, shown(name), r.Outputs[name])
	}
	w.Flush()
	if r.Profile != nil {
		return r.Profile.text(out)
	}
	return nil
}

// shownElements is how many elements of a sequence the table shows.
const shownElements = 16

// outputRows prints a tensor in a row, and a sequence with a row for each of its first elements.
func outputRows(w io.Writer, name string, t *tensor.Tensor) {
	switch {
	case t.IsSequence():
		fmt.Fprintf(w, "%s\t%v\t\t\t\t\n", name, t)
		for i, e := range t.Elems() {
			if i == shownElements {
				fmt.Fprintf(w, "%s\t%d more\t\t\t\t\n", name, t.Len()-i)
				break
			}
			outputRows(w, fmt.Sprintf("%s[%d]", name, i), e)
		}
	case t.DType() == tensor.String:
		fmt.Fprintf(w, "%s\t%v\t\t\t\t%q\n", name, t, t.Strings()[:min(t.Len(), firstElements)])
	default:
		s := describe(t)
		fmt.Fprintf(w, "%s\t%v\t%.6g\t%.6g\t%.6g\t%s\n", name, t, s.Min, s.Max, s.Mean, firstOf(numbersOf(t)))
	}
}

// firstOf writes the first numbers of a tensor.
func firstOf(v numbers) string {
	head := make([]float64, min(v.n, firstElements+1))
	for i := range head {
		head[i] = v.at(i)
	}
	return first(head, firstElements)
}

// writeJSON writes the report with its outputs one after the other: as text they take several times their memory.
func (r *runReport) writeJSON(w io.Writer) error {
	head := *r
	head.Outputs = nil
	var text bytes.Buffer
	if err := encodeJSON(&text, head); err != nil {
		return err
	}
	before, after, _ := strings.Cut(text.String(), "\"outputs\": null")
	if err := writeTensors(w, before+"\"outputs\": ", "  ", r.names, r.Outputs); err != nil {
		return err
	}
	_, err := io.WriteString(w, after)
	return err
}

// first writes the first n numbers.
func first[T float32 | float64](values []T, n int) string {
	var parts []string
	for i, v := range values {
		if i == n {
			parts = append(parts, "…")
			break
		}
		parts = append(parts, fmt.Sprintf("%.5g", v))
	}
	return strings.Join(parts, " ")
}
