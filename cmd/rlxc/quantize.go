package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/inside"
	"github.com/rlxc/rlxc/internal/page"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/quantize"
)

// A quantization is the command line of quantize.
type quantization struct {
	*modelFlags
	forms     map[quantize.Form]*bool
	output    string
	calibrate string
	field     string
	text      textOptions
	shapes    shapes
}

// formFlags are the flags that choose a form.
var formFlags = []struct {
	form  quantize.Form
	usage string
}{
	{quantize.Dynamic, "int8 weights; activations are quantised by the range found in each run"},
	{quantize.QDQ, "int8 weights; activations are quantised by the ranges found with --calibrate"},
	{quantize.Int4, "4-bit weights in blocks of 32; activations are quantised to 8 bits by block"},
}

func quantizeCommand() *cobra.Command {
	q := &quantization{modelFlags: newModelFlags(), forms: map[quantize.Form]*bool{}}
	c := &cobra.Command{
		Use:   "quantize M -o F",
		Short: "write a model with 8-bit or 4-bit weights",
		Long: `quantize writes a float32 model with quantised weights, as standard ONNX that other engines run too
(--int4 uses an operator of onnxruntime). It prints which products were quantised, and how far the
results differ from the original's.

--calibrate names typical inputs, a few dozen: an .npz archive with an array per input, or a file of
texts as "rlxc embed --input" reads, which --tokenizer encodes. An array has the shape of its input, or
one more leading axis for several runs. Long batches run 8 sequences at a time.

Results are compared on the inputs of --calibrate. Without it, they are compared on inputs recorded with
the model, or else on generated inputs of the sizes of --shapes.`,
		Example: `  rlxc quantize model.onnx -o small.onnx --dynamic
  rlxc quantize model.onnx -o small.onnx --qdq --calibrate data.npz
  rlxc quantize path/to/folder -o small.onnx --int4 --calibrate texts.txt`,
		Args: oneModel,
		RunE: q.run,
	}
	f := c.Flags()
	f.StringVarP(&q.output, "output", "o", "", "file to write")
	var names []string
	for _, form := range formFlags {
		q.forms[form.form] = f.Bool(string(form.form), false, form.usage)
		names = append(names, string(form.form))
	}
	f.StringVar(&q.calibrate, "calibrate", "", "typical inputs: an .npz, or a file of texts (one a line, .jsonl, .csv, .parquet)")
	f.StringVar(&q.field, "field", "", "with --calibrate, field or column of the text (default text)")
	f.StringVar(&q.text.tokenizer, "tokenizer", "",
		"tokenizer for texts: tokenizer.json, vocab.txt, or a folder with one (default the model's folder)")
	f.Var(&q.shapes, "shapes", "sizes of generated inputs, in order of appearance (default "+defaultShapes+")")
	c.MarkFlagRequired("output")
	c.MarkFlagsOneRequired(names...)
	c.MarkFlagsMutuallyExclusive(names...)
	return c
}

// form is the one that the flags choose.
func (q *quantization) form() quantize.Form {
	for form, set := range q.forms {
		if *set {
			return form
		}
	}
	return ""
}

func (q *quantization) run(c *cobra.Command, args []string) error {
	form := q.form()
	if form == quantize.QDQ && q.calibrate == "" {
		return usagef("--qdq requires --calibrate with typical inputs: an .npz with an array per input, or a file of texts")
	}
	src, err := find(args[0])
	if err != nil {
		return err
	}
	original, err := q.loadOwn(c.Context(), src, false)
	if err != nil {
		return err
	}
	defer original.Close()
	examples, err := q.examples(c, src, original)
	if err != nil {
		return err
	}
	o := rlxc.QuantizeOptions{Form: form}
	for _, k := range examples {
		o.Calibration = append(o.Calibration, k.inputs)
	}
	p, made, err := original.model.Quantize(c.Context(), o)
	if err != nil {
		return err
	}
	var want []rlxc.Tensors
	for _, k := range examples { // before anything is written: they may not fit the model
		out, err := original.Run(c.Context(), k.inputs)
		if err != nil {
			return fmt.Errorf("%s: %w", k.name(), err)
		}
		want = append(want, cloned(out))
	}
	if err := onnx.Save(q.output, p.(*onnxpb.ModelProto)); err != nil {
		return err
	}
	report := &quantizeReport{Model: src.name, Form: form, File: q.output, Bytes: proto.Size(p),
		OriginalBytes: proto.Size(inside.Proto(original.model)),
		Quantised:     quantize.Summary(made.Quantised), NotQuantised: quantize.Summary(made.NotQuantised)}
	if err := q.compare(c, report, examples, want, namesOf(original.Outputs())); err != nil {
		return err
	}
	return emit(c, report, report.text)
}

// cloned copies tensors that hold until the next run.
func cloned(in rlxc.Tensors) rlxc.Tensors {
	out := rlxc.Tensors{}
	for name, t := range in {
		out[name] = t.Clone()
	}
	return out
}

// compare runs what was written.
func (q *quantization) compare(c *cobra.Command, report *quantizeReport, runs []testCase, want []rlxc.Tensors, outputs []string) error {
	small, err := q.loadOwn(c.Context(), fileSource(q.output), false)
	if err != nil {
		return err
	}
	defer small.Close()
	report.Runs, report.Outputs = len(runs), make([]accuracy, len(outputs))
	bar := progress(c, len(runs), "comparing")
	for run, k := range runs {
		got, err := small.Run(c.Context(), k.inputs)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", q.output, k.name(), err)
		}
		for i, name := range outputs {
			report.Outputs[i].add(compare(name, got[name], want[run][name], tolerance{}))
		}
		bar.Add(1)
	}
	return bar.Finish()
}

// A quantizeReport is what quantize prints.
type quantizeReport struct {
	Model         string           `json:"model"`
	Form          quantize.Form    `json:"form"`
	File          string           `json:"file"`
	Bytes         int              `json:"bytes"` // external data included
	OriginalBytes int              `json:"original_bytes"`
	Quantised     []quantize.Count `json:"quantised"`
	NotQuantised  []quantize.Count `json:"not_quantised"`
	Runs          int              `json:"runs"`
	Outputs       []accuracy       `json:"outputs"`
}

// An accuracy is how far an output is from the original's over all runs.
type accuracy struct {
	Name   string `json:"name"`
	MaxAbs number `json:"max_abs"`
	Cosine number `json:"mean_cosine"`
	Lowest number `json:"lowest_cosine"`
	runs   int
}

func (a *accuracy) add(d difference) {
	if a.runs == 0 {
		a.Name, a.Lowest = d.Name, 1
	}
	a.MaxAbs, a.Lowest = max(a.MaxAbs, d.MaxAbs), min(a.Lowest, d.Cosine)
	a.Cosine = (a.Cosine*number(a.runs) + d.Cosine) / number(a.runs+1)
	a.runs++
}

func (r *quantizeReport) text(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "OPERATOR\tCOUNT\t")
	for _, n := range r.Quantised {
		fmt.Fprintf(w, "%s\t%d\tquantised\n", n.Op, n.Count)
	}
	for _, n := range r.NotQuantised {
		fmt.Fprintf(w, "%s\t%d\tnot quantised: %s\n", n.Op, n.Count, n.Reason)
	}
	fmt.Fprintln(w, "\nOUTPUT\tMAX ABS\tMEAN COSINE\tLOWEST")
	for _, o := range r.Outputs {
		fmt.Fprintf(w, "%s\t%.2e\t%.6f\t%.6f\n", shown(o.Name), o.MaxAbs, o.Cosine, o.Lowest)
	}
	w.Flush()
	_, err := fmt.Fprintf(out, "%s: %s, of %s in %s; compared in %s\n", r.File, page.Bytes(int64(r.Bytes)),
		page.Bytes(int64(r.OriginalBytes)), r.Model, counted(r.Runs, "run"))
	return err
}
