package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/lower"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// An inspection is the command line of inspect.
type inspection struct {
	*options
	ir, ops, values, verify bool
}

func inspectCommand() *cobra.Command {
	i := &inspection{options: newOptions()}
	c := &cobra.Command{
		Use:   "inspect [M]",
		Short: "say what a model consists of",
		Long: `inspect prints a model's inputs, outputs, operators (and which of them rlxc understands), weights and arithmetic; with sizes for
all its free dimensions also the memory that a run takes. --ir prints the program at the level of -O. --values prints every
value of the model with its type, its shape in symbols, and what is known of its content. --ops, which needs no model, prints the
operators that rlxc understands. Of a compiled file it prints the program's operations.`,
		Example: `  rlxc inspect bert-tiny
  rlxc inspect model.onnx --dim batch=1 --dim seq=128
  rlxc inspect model.onnx --ir -O 0
  rlxc inspect --ops`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeModel,
		RunE:              i.run,
	}
	i.registerLevel(c)
	i.registerDims(c)
	c.Flags().BoolVar(&i.ir, "ir", false, "print the program")
	c.Flags().BoolVar(&i.ops, "ops", false, "print the operators that rlxc understands")
	c.Flags().BoolVar(&i.values, "values", false, "print every value of the model with its type and symbolic shape")
	c.Flags().BoolVar(&i.verify, "verify", false, "check the checksums of a compiled file's sections")
	c.MarkFlagsMutuallyExclusive("ir", "ops", "values", "verify")
	return c
}

func (i *inspection) run(c *cobra.Command, args []string) error {
	if i.ops {
		if len(args) > 0 {
			return usagef("--ops takes no model: without it, inspect says which of a model's operators rlxc understands")
		}
		ops := lower.Operators()
		return emit(c, ops, func(out io.Writer) error { return operatorTable(out, ops) })
	}
	if err := oneModel(c, args); err != nil {
		return usageError{err}
	}
	src, err := find(args[0])
	if err != nil {
		return err
	}
	if i.ir {
		e, err := i.loadOwn(src, false)
		if err != nil {
			return err
		}
		defer e.Close()
		text := e.program.Graph().String()
		return emit(c, map[string]string{"ir": text}, func(out io.Writer) error {
			_, err := io.WriteString(out, text)
			return err
		})
	}
	if i.values {
		return i.printValues(c, src)
	}
	report, err := i.inspect(src)
	if err != nil {
		return err
	}
	return emit(c, report, report.text)
}

// operatorTable prints a row an operator: the opset versions from which its meaning is a lowering's own, the types of its first
// operand, and whether kernels or the host run it.
func operatorTable(out io.Writer, ops []lower.Operator) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "OPERATOR\tSINCE OPSET\tTYPES\tCPU\tWGPU")
	for k := 0; k < len(ops); {
		first, last, versions := ops[k], ops[k], []string(nil)
		for ; k < len(ops) && ops[k].Domain == first.Domain && ops[k].Name == first.Name; k++ {
			last, versions = ops[k], append(versions, fmt.Sprint(ops[k].Since))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", operatorName(first.Domain, first.Name), strings.Join(versions, ", "), lower.ShortTypes(last.Types), first.Backends["cpu"], first.Backends["wgpu"])
	}
	return w.Flush()
}

func operatorName(domain, name string) string {
	if onnx.Domain(domain) == "" {
		return name
	}
	return domain + "." + name
}

// A valueLine is a value of the model as lowering has it.
type valueLine struct {
	Name    string `json:"name"`
	Type    string `json:"type"`              // with sizes in symbols
	Content string `json:"content,omitempty"` // of small integer tensors that sizes are computed with
	Node    string `json:"node,omitempty"`
}

// printValues prints inputs, and what each node makes, in order.
func (i *inspection) printValues(c *cobra.Command, src *source) error {
	m, err := src.open()
	if err != nil {
		return err
	}
	defer m.Close()
	var lines []valueLine
	add := func(v *ir.Value, node string) {
		line := valueLine{Name: v.Name, Type: v.Type.String(), Node: node}
		if v.Dims != nil {
			line.Content = ir.Shape(v.Dims).String()
		}
		lines = append(lines, line)
	}
	g := m.Graph()
	for _, v := range g.Inputs {
		add(v, "")
	}
	for _, n := range g.Nodes {
		for _, v := range n.Outputs {
			add(v, fmt.Sprintf("%s (%s)", n.Label(), ir.OpName(n.Op)))
		}
	}
	return emit(c, lines, func(out io.Writer) error {
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "VALUE\tTYPE\tCONTENT\tNODE")
		for _, l := range lines {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", strings.Trim(tensor.Quote(l.Name), `"`), l.Type, l.Content, l.Node)
		}
		return w.Flush()
	})
}

// An inspectReport is what inspect prints of a model.
type inspectReport struct {
	Model     string            `json:"model"`
	Producer  string            `json:"producer,omitempty"`
	Opsets    map[string]int64  `json:"opsets,omitempty"`
	Inputs    []rlxc.ValueInfo  `json:"inputs"`
	Outputs   []rlxc.ValueInfo  `json:"outputs"`
	Nodes     int               `json:"nodes"`
	Operators []operatorCount   `json:"operators"`
	Weights   map[string]weight `json:"weights"` // by type
	Flops     string            `json:"flops"`   // of products, in symbols
	Problem   string            `json:"problem,omitempty"`
	Memory    *memoryNeed       `json:"memory,omitempty"` // at the sizes of --dim
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

func (i *inspection) inspect(src *source) (*inspectReport, error) {
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
	if i.verify {
		if err := m.VerifyFile(); err != nil {
			return nil, err
		}
	}
	if p := m.Proto(); p != nil {
		err = r.fromFile(p)
	} else {
		r.fromProgram(m.Graph())
	}
	if err != nil {
		return nil, err
	}
	flops := ir.N(0)
	for _, n := range m.Graph().Nodes {
		flops = flops.Add(ir.Flops(n))
	}
	r.Inputs, r.Outputs, r.Flops = m.Inputs(), m.Outputs(), flops.String()
	if len(i.dims) > 0 {
		return r, i.need(r, m)
	}
	return r, nil
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
func (i *inspection) need(r *inspectReport, m *rlxc.Model) error {
	sizes, err := i.dims.sizes()
	if err != nil {
		return err
	}
	program, err := m.Compile(rlxc.CompileOptions{Level: levels[i.level.value].own})
	if err != nil {
		return err
	}
	defer program.Close()
	plan, err := program.Plan(sizes)
	if err != nil {
		return err
	}
	r.Memory = &memoryNeed{Dims: sizes, Weights: plan.Weights, Arena: plan.Plan.Committed}
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
	slices.SortFunc(r.Operators, func(a, b operatorCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
}

func (r *inspectReport) text(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "model\t%s\n", r.Model)
	if r.Producer != "" {
		fmt.Fprintf(w, "producer\t%s\n", r.Producer)
	}
	for _, domain := range slices.Sorted(maps.Keys(r.Opsets)) {
		fmt.Fprintf(w, "opset\t%s %d\n", domain, r.Opsets[domain])
	}
	for _, v := range r.Inputs {
		fmt.Fprintf(w, "input\t%s\n", infoText(v))
	}
	for _, v := range r.Outputs {
		fmt.Fprintf(w, "output\t%s\n", infoText(v))
	}
	for _, d := range slices.Sorted(maps.Keys(r.Weights)) {
		fmt.Fprintf(w, "weights\t%d × %s, %s\n", r.Weights[d].Count, d, bytesText(r.Weights[d].Bytes))
	}
	if r.Flops != "" {
		fmt.Fprintf(w, "flops\t%s\n", r.Flops)
	}
	if m := r.Memory; m != nil {
		fmt.Fprintf(w, "memory\t%s of weights, an arena of %s at %s\n", bytesText(m.Weights), bytesText(m.Arena), testCase{dims: m.Dims}.name())
	}
	fmt.Fprintf(w, "nodes\t%d\n", r.Nodes)
	w.Flush()
	fmt.Fprintln(w, "\nOPERATOR\tCOUNT\t")
	for _, o := range r.Operators {
		note := ""
		if !o.Supported {
			note = "not supported"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\n", o.Name, o.Count, note)
	}
	w.Flush()
	if r.Problem != "" {
		fmt.Fprintf(out, "\n%s\n", r.Problem)
	}
	return nil
}

func infoText(v rlxc.ValueInfo) string {
	return fmt.Sprintf("%s %v[%s]", v.Name, v.DType, strings.Join(v.Shape, ","))
}
