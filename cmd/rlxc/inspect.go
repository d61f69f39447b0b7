package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc/internal/inside"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/lower"
	"github.com/rlxc/rlxc/onnx"
)

// An inspection is the command line of inspect.
type inspection struct {
	*modelFlags
	ir, ops, values, verify bool
}

func inspectCommand() *cobra.Command {
	i := &inspection{modelFlags: newModelFlags()}
	i.MemoryLimit = math.MaxInt64 // planning takes no memory
	c := &cobra.Command{
		Use:   "inspect [M]",
		Short: "describe a model",
		Long: `inspect prints a model's inputs, outputs, operators (and which of them are supported), weights and
arithmetic. If --dim sets a size for every free dimension, it also prints the memory of a run. For a
compiled file it prints the target and the operations of the program.

--ir prints the program at the level of -O. --values prints every value of the model with its type, its
symbolic shape, and its content as far as it is known. --ops, which takes no model, prints the supported
operators.

The exit code is 1 if the model uses an unsupported operator.`,
		Example: `  rlxc inspect bert-tiny
  rlxc inspect model.onnx --dim batch=1 --dim seq=128
  rlxc inspect model.onnx --ir -O 0
  rlxc inspect model.rlxc --verify
  rlxc inspect --ops`,
		Args: cobra.MaximumNArgs(1),
		RunE: i.run,
	}
	i.register(c)
	i.registerStrict(c)
	c.Flags().BoolVar(&i.ir, "ir", false, "print the program")
	c.Flags().BoolVar(&i.ops, "ops", false, "print the supported operators")
	c.Flags().BoolVar(&i.values, "values", false, "print every value of the model with its type and symbolic shape")
	c.Flags().BoolVar(&i.verify, "verify", false, "verify the checksums of a compiled file")
	c.MarkFlagsMutuallyExclusive("ir", "ops", "values", "verify")
	return c
}

func (i *inspection) run(c *cobra.Command, args []string) error {
	if i.ops {
		if len(args) > 0 {
			return usagef("--ops takes no model: leave out --ops to list the operators of a model")
		}
		ops := lower.Operators()
		return emit(c, ops, func(out io.Writer) error { return operatorTable(out, ops) })
	}
	if err := oneModel(c, args); err != nil {
		return usageError{err}
	}
	src, err := i.find(args[0])
	if err != nil {
		return err
	}
	if i.ir {
		e, err := i.loadOwn(c.Context(), src, false)
		if err != nil {
			return err
		}
		defer e.Close()
		text := inside.Program(e.program).Graph().String()
		return emit(c, map[string]string{"ir": text}, func(out io.Writer) error {
			_, err := io.WriteString(out, text)
			return err
		})
	}
	if i.values {
		return i.printValues(c, src)
	}
	report, err := i.inspect(c.Context(), src)
	if err != nil {
		return err
	}
	if err := emit(c, report, report.text); err != nil {
		return err
	}
	if report.Problem != "" {
		return errCheck
	}
	return nil
}

// operatorTable prints a row an operator: the opset versions from which its meaning is a lowering's own, the types of its first
// operand, and whether kernels or the host run it.
func operatorTable(out io.Writer, ops []lower.Operator) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "OPERATOR\tSINCE OPSET\tTYPES\tCPU\tWGPU\tCUDA")
	for k := 0; k < len(ops); {
		first, last, versions := ops[k], ops[k], []string(nil)
		for ; k < len(ops) && ops[k].Domain == first.Domain && ops[k].Name == first.Name; k++ {
			last, versions = ops[k], append(versions, fmt.Sprint(ops[k].Since))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", operatorName(first.Domain, first.Name), strings.Join(versions, ", "),
			lower.ShortTypes(last.Types), first.Backends["cpu"],
			first.Backends["wgpu"], first.Backends["cuda"])
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
	Content string `json:"content,omitempty"` // elements of small integer tensors, because sizes may depend on these
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
	g, err := inside.Model(m)
	if err != nil {
		return err
	}
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
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", shown(l.Name), l.Type, l.Content, l.Node)
		}
		return w.Flush()
	})
}
