package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/artifact"
	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/internal/inside"
	"github.com/rlxc/rlxc/internal/page"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/lower"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/pipeline"
	"github.com/rlxc/rlxc/tensor"
)

// An inspectReport is what inspect prints of a model.
type inspectReport struct {
	Model     string            `json:"model"`
	Compiled  *compiledFor      `json:"compiled,omitempty"` // header of a compiled file; nil for other files
	Producer  string            `json:"producer,omitempty"`
	Opsets    map[string]int64  `json:"opsets,omitempty"`
	Inputs    []rlxc.ValueInfo  `json:"inputs"`
	Outputs   []rlxc.ValueInfo  `json:"outputs"`
	Nodes     int               `json:"nodes"`
	Operators []operatorCount   `json:"operators"`
	Weights   map[string]weight `json:"weights"` // weights of each type, by its name
	Flops     string            `json:"flops"`   // operations of products, as an expression of the symbols
	Problem   string            `json:"problem,omitempty"`
	Warnings  []string          `json:"warnings,omitempty"` // see rlxc.Model.Warnings
	// Meant is what the files beside the model say of how it is meant.
	Meant  []pipeline.Finding `json:"meant,omitempty"`
	Memory *memoryNeed        `json:"memory,omitempty"` // at the sizes of --dim
}

// compiledFor is the description in a compiled file.
type compiledFor struct {
	Target string `json:"target"` // the backend and device; of several, with commas between them
	Level  int    `json:"level"`
	Source string `json:"source"` // the model, as it was called then
	// Verified says that the checksums of all its sections are right: --verify.
	Verified bool `json:"verified"`
}

type operatorCount struct {
	Name      string `json:"name"`
	Count     int    `json:"count"`
	Supported bool   `json:"supported"`
}

type weight struct {
	Count int   `json:"count"`
	Bytes int64 `json:"bytes"`
}

// A memoryNeed is what a run takes.
type memoryNeed struct {
	Dims    map[string]int `json:"dims"`
	Weights int64          `json:"weights"` // bytes, packed or as the file has them
	Arena   int64          `json:"arena"`
}

func (i *inspection) inspect(ctx context.Context, src *source) (*inspectReport, error) {
	r := &inspectReport{Model: src.name, Weights: map[string]weight{}}
	m, err := src.open()
	if errors.Is(err, rlxc.ErrUnsupportedOp) {
		r.Problem = err.Error()
		file, err := src.openFile()
		if err != nil {
			return nil, err
		}
		defer file.Close()
		return r, r.fromFile(file.Proto)
	}
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if err := i.heed(m); err != nil {
		return nil, err
	}
	r.Warnings = m.Warnings()
	g, err := inside.Model(m)
	if err != nil {
		return nil, err
	}
	if p := inside.Proto(m); p != nil {
		err = r.fromFile(p)
	} else {
		r.fromProgram(g)
		r.Compiled, err = i.compiledFor(src, m)
	}
	if err != nil {
		return nil, err
	}
	if src.path != "" {
		r.Meant = meant(src.path, m)
	}
	flops := ir.N(0)
	for _, n := range g.Nodes {
		flops = flops.Add(ir.Flops(n))
	}
	r.Inputs, r.Outputs, r.Flops = slices.Concat(m.Inputs(), m.Overridable()), m.Outputs(), flops.String()
	if len(i.Dims) > 0 {
		return r, i.need(ctx, r, m)
	}
	return r, nil
}

// meant is what the files beside a model say. A contradiction among them is reported and is no error here.
func meant(file string, m *rlxc.Model) []pipeline.Finding {
	d, err := pipeline.Describe(file, pipeline.Options{})
	if err != nil {
		return []pipeline.Finding{{What: "contradiction", Value: err.Error(), Where: filepath.Dir(file)}}
	}
	if !slices.ContainsFunc(d.Found, func(f pipeline.Finding) bool { return path.Ext(f.Where) == ".json" }) {
		return nil
	}
	_ = d.Meet(m) // which adds nothing if the model is not one of text
	return d.Found
}

// compiledFor reads the header of a compiled file. It also checks the sections if --verify is given.
func (i *inspection) compiledFor(src *source, m *rlxc.Model) (*compiledFor, error) {
	data, err := files.System{}.Map(src.path)
	if err != nil {
		return nil, err
	}
	defer data.Close()
	file, err := artifact.Read(data.Bytes(), src.name)
	if err != nil {
		return nil, err
	}
	if i.verify {
		err = m.VerifyFile()
	}
	return &compiledFor{strings.Join(file.Targets(), ","), file.Level, file.Source, i.verify}, err
}

// fromFile fills in what an ONNX file says.
func (r *inspectReport) fromFile(p *onnxpb.ModelProto) error {
	r.Producer, r.Opsets = strings.TrimSpace(p.ProducerName+" "+p.ProducerVersion), opsets(p.OpsetImport)
	r.count(p)
	for _, w := range p.Graph.Initializer {
		t, err := onnx.Tensor(w)
		if err != nil {
			return err
		}
		r.addWeight(t)
	}
	return nil
}

// fromProgram fills in what a compiled file holds instead: steps are its operators.
func (r *inspectReport) fromProgram(g *ir.Graph) {
	counts := map[string]int{}
	for _, n := range g.Nodes {
		counts[ir.OpName(n.Op)]++
	}
	for name, n := range counts {
		r.Operators = append(r.Operators, operatorCount{name, n, true})
	}
	r.Nodes = len(g.Nodes)
	r.sortOperators()
	for _, v := range g.Consts() {
		if v.Packed != nil {
			r.addWeight(v.Packed.Data)
		} else {
			r.addWeight(v.Const)
		}
	}
}

func (r *inspectReport) addWeight(t *tensor.Tensor) {
	w := r.Weights[t.DType().String()]
	r.Weights[t.DType().String()] = weight{w.Count + 1, w.Bytes + int64(len(t.Bytes()))}
}

func (r *inspectReport) sortOperators() {
	slices.SortFunc(r.Operators, func(a, b operatorCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
}

// need fills in the memory at the sizes of --dim.
func (i *inspection) need(ctx context.Context, r *inspectReport, m *rlxc.Model) error {
	o := i.CompileOptions
	o.Dims = nil // of the plan, not of the program
	program, err := m.Compile(ctx, o)
	if err != nil {
		return err
	}
	defer program.Close()
	plan, err := program.Plan(i.Dims)
	if err != nil {
		return err
	}
	r.Memory = &memoryNeed{Dims: i.Dims, Weights: plan.Weights, Arena: plan.Plan.Committed}
	return nil
}

func opsets(imports []*onnxpb.OperatorSetIdProto) map[string]int64 {
	out := map[string]int64{}
	for _, o := range imports {
		out[cmp.Or(onnx.Domain(o.Domain), "ai.onnx")] = o.Version
	}
	return out
}

// count counts the operators of the graph, its subgraphs and the model's functions, each once.
func (r *inspectReport) count(p *onnxpb.ModelProto) {
	counts := map[string]*operatorCount{}
	functions := map[string]bool{}
	for _, f := range p.Functions {
		functions[f.Domain+"."+f.Name] = true
	}
	var visit func(nodes []*onnxpb.NodeProto, opsets map[string]int64)
	visit = func(nodes []*onnxpb.NodeProto, opsets map[string]int64) {
		for _, n := range nodes {
			r.Nodes++
			name := operatorName(n.Domain, n.OpType)
			if counts[name] == nil {
				version := opsets[cmp.Or(onnx.Domain(n.Domain), "ai.onnx")]
				counts[name] = &operatorCount{Name: name,
					Supported: functions[n.Domain+"."+n.OpType] || lower.Understands(n.OpType, onnx.Domain(n.Domain), int(version))}
			}
			counts[name].Count++
			for _, a := range n.Attribute {
				if a.G != nil {
					visit(a.G.Node, opsets)
				}
			}
		}
	}
	visit(p.Graph.Node, r.Opsets)
	for _, f := range p.Functions {
		visit(f.Node, opsets(f.OpsetImport))
	}
	for _, c := range counts {
		r.Operators = append(r.Operators, *c)
	}
	r.sortOperators()
}

// shownDefaults is the number of inputs with a default that text prints: some exporters list every weight as an input.
const shownDefaults = 8

func (r *inspectReport) text(out io.Writer) error {
	defer func() {
		if len(r.Meant) > 0 {
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "\nMEANT\tVALUE\tFOUND IN")
			for _, f := range r.Meant {
				fmt.Fprintf(w, "%s\t%s\t%s\n", f.What, shown(f.Value), f.Where)
			}
			w.Flush()
		}
	}()
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "model\t%s\n", r.Model)
	if c := r.Compiled; c != nil {
		verified := ""
		if c.Verified {
			verified = ", its checksums are right"
		}
		fmt.Fprintf(w, "compiled\tfor %s at -O %d of %s%s\n", c.Target, c.Level, c.Source, verified)
	}
	if r.Producer != "" {
		fmt.Fprintf(w, "producer\t%s\n", shown(r.Producer))
	}
	for _, domain := range slices.Sorted(maps.Keys(r.Opsets)) {
		fmt.Fprintf(w, "opset\t%s %d\n", shown(domain), r.Opsets[domain])
	}
	defaults := 0
	for _, v := range r.Inputs {
		if !v.Default {
			fmt.Fprintf(w, "input\t%s\n", infoText(v))
		} else if defaults++; defaults <= shownDefaults {
			fmt.Fprintf(w, "input\t%s, with a default\n", infoText(v))
		}
	}
	if more := defaults - shownDefaults; more > 0 {
		fmt.Fprintf(w, "\tand %d more with a default\n", more)
	}
	for _, v := range r.Outputs {
		fmt.Fprintf(w, "output\t%s\n", infoText(v))
	}
	for _, d := range slices.Sorted(maps.Keys(r.Weights)) {
		fmt.Fprintf(w, "weights\t%d × %s, %s\n", r.Weights[d].Count, d, page.Bytes(r.Weights[d].Bytes))
	}
	if r.Flops != "" {
		fmt.Fprintf(w, "flops\t%s\n", r.Flops)
	}
	if m := r.Memory; m != nil {
		fmt.Fprintf(w, "memory\t%s of weights, %s of arena at %s\n", page.Bytes(m.Weights), page.Bytes(m.Arena),
			testCase{dims: m.Dims}.name())
	}
	fmt.Fprintf(w, "nodes\t%d\n", r.Nodes)
	w.Flush()
	fmt.Fprintln(w, "\nOPERATOR\tCOUNT\t")
	for _, o := range r.Operators {
		note := ""
		if !o.Supported {
			note = "not supported"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\n", shown(o.Name), o.Count, note)
	}
	w.Flush()
	if r.Problem != "" {
		fmt.Fprintf(out, "\n%s\n", r.Problem)
	}
	printWarnings(out, r.Warnings)
	return nil
}

func infoText(v rlxc.ValueInfo) string {
	return fmt.Sprintf("%s %v[%s]", shown(v.Name), v.DType, strings.Join(v.Shape, ","))
}
