package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/inside"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// A validation is the command line of validate.
type validation struct {
	*modelFlags
	against       string
	referencePath string
	shapes        shapes
	abs, rel      float64
	cosine        float64
	tapAll        string
	bisect        bool
}

// defaultShapes are the sizes at which a model of two free dimensions runs.
const defaultShapes = "1x1,2x16,3x37,1x128"

func validateCommand() *cobra.Command {
	v := &validation{modelFlags: newModelFlags()}
	c := &cobra.Command{
		Use:   "validate M",
		Short: "compare a model's results with a reference",
		Long: `validate runs a model and compares its outputs with a reference: the outputs recorded in folders
test_data_set_* next to the model, those of onnxruntime without optimisations, or those of eval, rlxc's
reference implementation of every operator.

Without --shapes, the inputs are the recorded ones if there are any. Otherwise they are generated: valid
ids, masks with padding, numbers around 0.

An output passes if |d| <= atol + rtol*|ref| for all elements (integers: |d| <= atol; NaN equals NaN) and
its cosine to the reference is at least --cosine. If only --cosine is given, elements are not compared.
If no tolerance is given, it follows from the types that the model computes with, and from --precision
and --weights. If the model computes with 16-bit numbers or quantised values, only the cosine of floats is
compared, since no two ways of computing them return the same elements. Integers are always compared by
element. An output that fails passes if onnxruntime, as the reference, differs as much from itself with and
without its optimisations. The cosine of an output of a QDQ model may also be too small if the output is at
least as near as the reference engine's to what that engine computes without the roundings between
products, which -O 2 omits, and if rlxc agrees with the engine there. The last line prints the tolerance.

--taps all also compares the intermediate values that -O leaves. For recorded outputs their reference is
eval. For these values, --atol is relative to the median magnitude if that is above 1. --bisect prints
the first value that differs.

The exit code is 1 if anything differs.`,
		Example: `  rlxc validate bert-tiny
  rlxc validate bert-tiny --atol 1e-5 --rtol 1e-4
  rlxc validate model.onnx --against onnxruntime --shapes 1x1,2x16,1x128
  rlxc validate model.onnx --against onnxruntime -O 0 --bisect`,
		Args: oneModel,
		RunE: v.run,
	}
	v.registerEngine(c)
	f := c.Flags()
	enum(c, &v.against, "against", "reference to use instead of recorded outputs", references...)
	f.StringVar(&v.referencePath, "reference", "", "model that the reference runs instead of M")
	f.Var(&v.shapes, "shapes", "sizes of the free dimensions, in order of appearance (default "+defaultShapes+")")
	f.Float64Var(&v.abs, "atol", 1e-5, "absolute tolerance")
	f.Float64Var(&v.rel, "rtol", 1e-4, "relative tolerance")
	f.Float64Var(&v.cosine, "cosine", -1, "smallest cosine")
	enum(c, &v.tapAll, "taps", "compare intermediate values too", "all")
	f.BoolVar(&v.bisect, "bisect", false, "print the first node whose result differs")
	return c
}

// A validationReport is what validate prints.
type validationReport struct {
	Model     string       `json:"model"`
	Backend   string       `json:"backend"`
	Level     rlxc.Level   `json:"level"`
	Reference string       `json:"reference"`
	Tolerance string       `json:"tolerance"`
	OK        bool         `json:"ok"`
	Compiled  int          `json:"compiled"` // how often rlxc compiled the model
	Packed    int          `json:"packed"`   // and packed its weights
	Runs      []comparison `json:"runs"`
	Departure *departure   `json:"departure,omitempty"` // with --bisect
	// Exact reports whether a failed model passes with --exact. It is absent if the model passes, or was compiled with --exact or by -O 0.
	Exact *bool `json:"exact_passes,omitempty"`
}

// A comparison is one run.
type comparison struct {
	Set     string         `json:"set,omitempty"`  // the folder of a recorded run
	Dims    map[string]int `json:"dims,omitempty"` // sizes of a run with inputs that validate made
	Outputs []difference   `json:"outputs"`
	Taps    []difference   `json:"taps,omitempty"` // intermediate values, in the order of the program
}

func (v *validation) run(c *cobra.Command, args []string) error {
	taps := v.bisect || v.tapAll != ""
	if taps && v.Backend == onnxRuntime {
		return usagef("--taps and --bisect do not apply to --backend %s", onnxRuntime)
	}
	src, err := v.find(args[0])
	if err != nil {
		return err
	}
	if len(v.shapes) == 0 {
		src.overridable = amongDefaults(func() ([]string, error) { return recordedGiven(src.folder) })
	}
	e, err := v.loadTested(c.Context(), src, taps)
	if err != nil {
		return err
	}
	defer e.Close()
	warn(c, e)
	cases, err := v.cases(src, e)
	if err != nil {
		return err
	}
	ref, err := v.loadReferenceOf(src, e, taps)
	if err != nil {
		return err
	}
	defer ref.close()

	report := &validationReport{Model: src.name, Backend: v.Backend, Level: v.Level, Reference: ref.name, OK: true}
	tol, err := v.tolerance(c, src, e)
	if err != nil {
		return err
	}
	report.Tolerance = tol.String()
	within := tol
	within.inside, within.bits = true, anyBits // integers inside a model may count steps
	var wants []rlxc.Tensors                   // outputs of the reference, by case
	bar := progress(c, len(cases), "comparing")
	for _, k := range cases {
		got, err := e.Run(c.Context(), k.inputs)
		if err != nil {
			return fmt.Errorf("%s: %w", k.name(), err)
		}
		want, err := ref.run(c.Context(), k)
		if err != nil {
			return fmt.Errorf("%s, the reference: %w", k.name(), err)
		}
		r := comparison{Set: k.set, Dims: k.dims}
		expected := want
		if o, ok := e.(*own); ok && o.program.Unpadded() {
			expected = unpadded(inside.Program(o.program).Graph(), k.inputs, got, want)
		}
		for _, name := range ref.outputs {
			r.Outputs = append(r.Outputs, compare(name, got[name], expected[name], tol))
		}
		for _, name := range ref.taps {
			r.Taps = append(r.Taps, compare(name, got[name], want[name], within))
		}
		report.Runs = append(report.Runs, r)
		wants = append(wants, want)
		if o, ok := e.(*own); ok && v.bisect && report.Departure == nil {
			report.Departure = firstDeparture(inside.Program(o.program).Graph(), k, r, got, want)
		}
		bar.Add(1)
	}
	bar.Finish()
	if report.judge(); !report.OK && tol.derived() {
		report.accept(ref.worth(c.Context(), cases, wants, tol))
		report.judge()
	}
	if o, ok := e.(*own); ok && !report.OK && tol.derived() {
		if err := v.acceptNearer(c.Context(), report, o, ref, cases, wants, tol); err != nil {
			return err
		}
		report.judge()
	}
	if _, ok := e.(*own); ok && !report.OK && !v.Exact && v.Level != rlxc.O0 {
		passes, err := v.passesExactly(c.Context(), src, cases, wants, tol)
		if err != nil {
			return err
		}
		report.Exact = &passes
	}
	if o, ok := e.(*own); ok {
		stats, times := o.program.Stats(), map[bool]int{true: 1}
		report.Level, report.Compiled, report.Packed = stats.Level, times[stats.Compiled], times[stats.Prepared]
	}
	if err := emit(c, report, report.text); err != nil {
		return err
	}
	if !report.OK {
		return errCheck
	}
	return nil
}

// passesExactly reports whether a model that failed passes with --exact. wants has what the reference returned, by case.
func (v *validation) passesExactly(ctx context.Context, src *source, cases []testCase, wants []rlxc.Tensors, tol tolerance) (bool, error) {
	exact := v.modelFlags
	exact.Exact = true
	e, err := exact.loadOwn(ctx, src, false)
	if err != nil {
		return false, err
	}
	defer e.Close()
	for i, k := range cases {
		got, err := e.Run(ctx, k.inputs)
		if err != nil {
			return false, fmt.Errorf("%s, with --exact: %w", k.name(), err)
		}
		for _, y := range e.Outputs() {
			if want := wants[i][y.Name]; want != nil && !compare(y.Name, got[y.Name], want, tol).OK {
				return false, nil
			}
		}
	}
	return true, nil
}

// unpadded returns what a program that skips padding is expected to return, where a reference that computes padding too returns want.
// Outputs of tokens are 0 where the mask is 0. Outputs of a sequence whose mask has no 1 have no meaning and are taken from got. Without a
// mask among the inputs, unpadded returns want.
func unpadded(g *ir.Graph, inputs, got, want rlxc.Tensors) rlxc.Tensors {
	at := slices.IndexFunc(g.Nodes, func(n *ir.Node) bool { _, ok := n.Op.(ir.Pack); return ok })
	if at < 0 || inputs[g.Nodes[at].Inputs[0].Name] == nil {
		return want
	}
	value := g.Nodes[at].Inputs[0]
	mask, batch := inputs[value.Name], value.Type.Shape[0]
	rows, length := mask.Shape()[0], mask.Shape()[1]
	expected := maps.Clone(want)
	for i, v := range g.Outputs {
		name := g.OutputNames[i]
		y := want[name]
		if y == nil || y.IsSequence() || y.DType() == tensor.String || y.Rank() == 0 || y.Shape()[0] != rows {
			continue
		}
		if len(v.Type.Shape) == 0 || !v.Type.Shape[0].Equal(batch) {
			continue
		}
		y = y.Clone()
		expected[name] = y
		ofTokens := v.Def != nil && v.Def.Op.Kind() == ir.KindUnpack
		parts := rows
		if ofTokens {
			parts *= length
		}
		size := len(y.Bytes()) / max(parts, 1)
		for p := range parts {
			part := y.Bytes()[p*size:][:size]
			switch {
			case ofTokens && mask.Int64(p) == 0:
				clear(part)
			case !ofTokens && !anyOne(mask, p) && len(got[name].Bytes()) == len(y.Bytes()):
				copy(part, got[name].Bytes()[p*size:])
			}
		}
	}
	return expected
}

// anyOne reports whether a row of a mask has a 1.
func anyOne(mask *tensor.Tensor, row int) bool {
	length := mask.Shape()[1]
	for i := range length {
		if mask.Int64(row*length+i) != 0 {
			return true
		}
	}
	return false
}

// judge sets OK: everything that was compared passes.
func (r *validationReport) judge() {
	r.OK = true
	for _, c := range r.Runs {
		for _, d := range slices.Concat(c.Outputs, c.Taps) {
			r.OK = r.OK && d.OK
		}
	}
}

// accept lets outputs pass from which the reference is as far itself: worth has the farthest of any run, by output.
func (r *validationReport) accept(worth map[string]difference) {
	for _, c := range r.Runs {
		for i := range c.Outputs {
			if d := &c.Outputs[i]; !d.OK {
				if own, ok := worth[d.Name]; ok {
					d.accept(own)
				}
			}
		}
	}
}

// acceptNearer lets outputs of a quantised model pass that are at least as near as the reference to the model without the roundings between
// its products. -O 2 omits such roundings. The reference itself computes the model without roundings: an output of rlxc would hide a fault
// of rlxc. Recorded outputs have no engine that could. wants has what the reference returned, by case.
func (v *validation) acceptNearer(ctx context.Context, r *validationReport, tested *own, ref *reference, cases []testCase,
	wants []rlxc.Tensors, tol tolerance) error {
	p := unrounded(inside.Proto(tested.model))
	if p == nil || ref.unrounded == nil {
		return nil
	}
	exactly, err := ref.unrounded()
	if exactly == nil || err != nil {
		return err
	}
	defer exactly.Close()
	m, err := rlxc.FromProto(p, r.Model)
	if err != nil {
		return err
	}
	defer m.Close()
	g, err := inside.Model(m)
	if err != nil {
		return err
	}
	program, err := m.Compile(ctx, v.CompileOptions)
	if err != nil {
		return err
	}
	defer program.Close()
	s, err := program.NewSession()
	if err != nil {
		return err
	}
	defer s.Close()
	within := v.toleranceOf(g)
	for i, k := range cases {
		exact, err := exactly.Run(ctx, k.inputs)
		if err != nil {
			return fmt.Errorf("%s, the reference without roundings: %w", k.name(), err)
		}
		plain, err := s.Run(ctx, k.inputs)
		if err != nil {
			return fmt.Errorf("%s, the model without roundings: %w", k.name(), err)
		}
		got, err := tested.Run(ctx, k.inputs)
		if err != nil {
			return fmt.Errorf("%s: %w", k.name(), err)
		}
		for j := range r.Runs[i].Outputs {
			if d := &r.Runs[i].Outputs[j]; !d.OK && d.angle {
				x := exact[d.Name]
				d.acceptNearer(compare(d.Name, plain[d.Name], x, within), compare(d.Name, got[d.Name], x, tol),
					compare(d.Name, wants[i][d.Name], x, tol))
			}
		}
	}
	return nil
}

// unrounded returns a model without the pairs of QuantizeLinear and DequantizeLinear between its nodes. Weights keep their
// DequantizeLinear. A QuantizeLinear that nothing else reads is removed: the tolerance follows from the nodes. unrounded returns nil for a
// model without such pairs.
func unrounded(p *onnxpb.ModelProto) *onnxpb.ModelProto {
	quantised := map[string]string{} // values before a QuantizeLinear, by its result
	for _, n := range p.GetGraph().GetNode() {
		if n.GetOpType() == "QuantizeLinear" {
			quantised[n.GetOutput()[0]] = n.GetInput()[0]
		}
	}
	if len(quantised) == 0 {
		return nil
	}
	p = proto.Clone(p).(*onnxpb.ModelProto)
	found := false
	for _, n := range p.Graph.Node {
		if n.OpType != "DequantizeLinear" {
			continue
		}
		if before, ok := quantised[n.Input[0]]; ok {
			n.OpType, n.Domain, n.Input, n.Attribute, found = "Identity", "", []string{before}, nil, true
		}
	}
	if !found {
		return nil
	}
	read := map[string]bool{} // results of QuantizeLinear that are still read
	for _, v := range p.Graph.Output {
		read[v.GetName()] = true
	}
	for _, n := range p.Graph.Node {
		for _, x := range n.GetInput() {
			read[x] = true
		}
	}
	p.Graph.Node = slices.DeleteFunc(p.Graph.Node, func(n *onnxpb.NodeProto) bool {
		return n.GetOpType() == "QuantizeLinear" && !read[n.Output[0]]
	})
	return p
}

// text prints a row an output and run. Of intermediate values it prints those that fail.
func (r *validationReport) text(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RUN\tOUTPUT\tSHAPE\tMAX ABS\tMAX REL\tCOSINE\t")
	var notes []string
	row := func(run string, d difference) {
		verdict := "ok"
		if !d.OK {
			verdict = "FAIL"
			notes = append(notes, fmt.Sprintf("%s: %q %s", run, d.Name, d.Problem))
		} else if d.Worth != "" {
			notes = append(notes, fmt.Sprintf("%s: %q passes: %s", run, d.Name, d.Worth))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.2e\t%.2e\t%.10f\t%s\n", run, shown(d.Name), d.typeText(), d.MaxAbs, d.MaxRel, d.Cosine, verdict)
	}
	taps := 0
	for _, c := range r.Runs {
		run := testCase{set: c.Set, dims: c.Dims}.name()
		for _, d := range c.Outputs {
			row(run, d)
		}
		for _, d := range c.Taps {
			taps++
			if !d.OK {
				row(run, d)
			}
		}
	}
	w.Flush()
	for _, note := range notes {
		fmt.Fprintln(out, note)
	}
	if taps > 0 {
		fmt.Fprintf(out, "%d intermediate values compared\n", taps)
	}
	r.Departure.text(out)
	verdict := "ok"
	if !r.OK {
		verdict = "FAILED"
	}
	fmt.Fprintf(out, "tolerance: %s\n", r.Tolerance)
	fmt.Fprintf(out, "%s: %s at -O %s against %s: %s", verdict, r.Model, r.Level, r.Reference, counted(len(r.Runs), "run"))
	if r.Backend != onnxRuntime {
		fmt.Fprintf(out, ", compiled %d×, weights packed %d×", r.Compiled, r.Packed)
	}
	fmt.Fprintln(out)
	if r.Exact != nil && *r.Exact {
		fmt.Fprintln(out, "with --exact it passes: a fusion that changes more than rounding causes the difference (rlxc compile "+
			"--why lists what applied)")
	}
	return nil
}
