package rewrite

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Patterns are the graphs in files of testdata before their passes, which hold the pattern of every rule.
func Patterns(folder string) (texts []string, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no patterns in %s", folder)
	}
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			return nil, err
		}
		for _, f := range a.Files {
			if f.Name != "after" && !strings.Contains(f.Name, lacks) && !strings.Contains(string(f.Data), "onnx.") {
				texts = append(texts, string(f.Data))
			}
		}
	}
	return texts, nil
}

// Parse is ir.Parse of a text that must be right.
func Parse(text string) *ir.Graph {
	g, err := ir.Parse(text)
	if err != nil {
		panic(err)
	}
	return g
}

// A Generator makes programs; those of one seed are the same.
type Generator struct{ r *rand.Rand }

// New makes a generator.
func New(seed uint64) *Generator { return &Generator{rand.New(rand.NewPCG(seed, 24))} }

// Change builds a program again with one to three changes, nil where that is not a program.
func (n *Generator) Change(text string) (changed *ir.Graph) {
	defer func() {
		if recover() != nil { // ops take it for granted that their fields are in range
			changed = nil
		}
	}()
	g := Parse(text)
	at := map[int]bool{} // the nodes that change
	for range 1 + n.r.IntN(3) {
		at[n.r.IntN(len(g.Nodes)+1)] = true
	}
	h := ir.NewGraph(g.Name)
	values := map[*ir.Value]*ir.Value{}
	symbols := n.symbols(g, at[len(g.Nodes)])
	for _, v := range g.Inputs {
		t := ir.Type{DType: v.Type.DType}
		for _, d := range v.Type.Shape {
			t.Shape = append(t.Shape, d.Subst(symbols))
		}
		values[v] = h.AddInput(v.Name, t)
	}
	var all []*ir.Value
	for k, node := range g.Nodes {
		op, err := ir.MapDims(node.Op, func(d ir.Dim) (ir.Dim, error) { return d.Subst(symbols), nil })
		if err != nil {
			return nil
		}
		in := make([]*ir.Value, len(node.Inputs))
		for i, v := range node.Inputs {
			if v != nil && v.Const != nil && values[v] == nil {
				values[v] = h.NewConst(v.Name, v.Const)
			}
			if v != nil {
				in[i] = values[v]
			}
		}
		if at[k] {
			op, in = n.changeNode(h, op, in, all)
		}
		out, err := h.Append(op, in)
		if err != nil || len(out) != len(node.Outputs) {
			return nil
		}
		for i, v := range node.Outputs {
			values[v] = out[i]
			if at[k] && n.r.IntN(6) == 0 {
				h.Outputs = append(h.Outputs, out[i]) // read by others, too
			}
		}
		all = append(all, out...)
	}
	for _, v := range g.Outputs {
		if v.Const != nil {
			values[v] = h.NewConst(v.Name, v.Const)
		}
		h.Outputs = append(h.Outputs, values[v])
	}
	Prune(h)
	if ir.Verify(h) != nil {
		return nil
	}
	h.Renumber()
	if _, err := ir.Parse(h.String()); err != nil {
		return nil
	}
	return h
}

// symbols puts other sizes in place of those of g, sometimes: a number, or another symbol.
func (n *Generator) symbols(g *ir.Graph, change bool) map[string]ir.Dim {
	m := map[string]ir.Dim{}
	names := g.FreeSymbols()
	for _, s := range names {
		if change && n.r.IntN(2) == 0 {
			m[s] = []ir.Dim{ir.N(1), ir.N(2), ir.Sym(names[n.r.IntN(len(names))])}[n.r.IntN(3)]
		}
	}
	return m
}

// oddNumbers are what a constant may become.
var oddNumbers = []float64{0, 1, -1, 0.5, 2, 3, -10, -9999, -1e4, -3e38, 41, 127, 128, -128, 255, 1e-40, 3e38, 1.0000002, 2.0000005, 0.7}

func (n *Generator) changeNode(h *ir.Graph, op ir.Op, in, all []*ir.Value) (ir.Op, []*ir.Value) {
	in = slices.Clone(in)
	pick := func() int { return n.r.IntN(max(1, len(in))) }
	switch n.r.IntN(7) {
	case 0: // a constant
		for i, v := range in {
			if v != nil && v.Const != nil && v.Const.Len() > 0 && v.Const.Strings() == nil {
				in[i] = h.NewConst("", n.changeConst(v.Const))
				break
			}
		}
	case 1: // the order of operands
		if len(in) > 1 {
			i, j := pick(), pick()
			in[i], in[j] = in[j], in[i]
		}
	case 2: // another value of the same type
		if len(in) > 0 {
			i := pick()
			for _, v := range all {
				if in[i] != nil && v.Type.Equal(in[i].Type) && n.r.IntN(2) == 0 {
					in[i] = v
				}
			}
		}
	case 3, 4: // a parameter
		op = n.changeOp(op)
	case 5: // something in between
		if i := pick(); len(in) > 0 && in[i] != nil {
			between := []ir.Op{ir.Unary{Fn: ir.Neg}, ir.Unary{Fn: ir.Abs}, ir.Unary{Fn: ir.Floor}, ir.Cast{To: tensor.F16},
				ir.Cast{To: tensor.I8}, ir.Copy{}}[n.r.IntN(6)]
			if out, err := h.Append(between, in[i:i+1]); err == nil {
				in[i] = out[0]
			}
		}
	case 6: // an operand that is left out
		if len(in) > ir.DefOf(op).MinIn {
			in[len(in)-1] = nil
		}
	}
	return op, in
}

// changeConst changes numbers: one, or all of them by a factor.
func (n *Generator) changeConst(c *tensor.Tensor) *tensor.Tensor {
	t := c.Aligned().Clone()
	x := oddNumbers[n.r.IntN(len(oddNumbers))]
	set := func(i int, x float64) {
		if t.DType().IsFloat() {
			t.SetFloat64(i, x)
		} else {
			t.SetInt64(i, int64(max(-1000, min(1000, x))))
		}
	}
	switch i := n.r.IntN(t.Len()); n.r.IntN(3) {
	case 0:
		set(i, x)
	case 1:
		for i := range t.Len() {
			set(i, x)
		}
	default:
		old := 0.0
		if t.DType().IsFloat() {
			old = t.Float64(i)
		} else {
			old = float64(t.Int64(i))
		}
		set(i, old+[]float64{1, -1, old}[n.r.IntN(3)])
	}
	return t
}

// changeOp changes one field of an op.
func (n *Generator) changeOp(op ir.Op) ir.Op {
	x := reflect.New(reflect.TypeOf(op)).Elem()
	x.Set(reflect.ValueOf(op))
	if x.NumField() == 0 {
		return op
	}
	n.changeField(x.Field(n.r.IntN(x.NumField())))
	return x.Interface().(ir.Op)
}

func (n *Generator) changeField(f reflect.Value) {
	if d, ok := f.Interface().(ir.Dim); ok {
		f.Set(reflect.ValueOf(d.Add(ir.N(n.r.IntN(3) - 1))))
		return
	}
	switch f.Kind() {
	case reflect.Bool:
		f.SetBool(!f.Bool())
	case reflect.Int:
		f.SetInt(f.Int() + int64(n.r.IntN(3)-1))
	case reflect.Uint8: // a function, or an element type
		f.SetUint(uint64(int(f.Uint()) + []int{-2, -1, 1, 2}[n.r.IntN(4)]))
	case reflect.Float32:
		f.SetFloat([]float64{0, 1, 0.5, -1, 3}[n.r.IntN(5)])
	case reflect.Slice:
		if f.Len() == 0 || f.Type().Elem().Kind() == reflect.String {
			return
		}
		c := reflect.MakeSlice(f.Type(), f.Len(), f.Len())
		reflect.Copy(c, f)
		f.Set(c)
		i, j := n.r.IntN(c.Len()), n.r.IntN(c.Len())
		if i != j && n.r.IntN(2) == 0 {
			a, b := reflect.ValueOf(c.Index(i).Interface()), reflect.ValueOf(c.Index(j).Interface())
			c.Index(i).Set(b)
			c.Index(j).Set(a)
			return
		}
		n.changeField(c.Index(i))
	}
}

// Prune drops the nodes that no output needs.
func Prune(g *ir.Graph) {
	dead := func(n *ir.Node) bool {
		return !slices.ContainsFunc(n.Outputs, func(v *ir.Value) bool { return len(v.Uses) > 0 || g.IsOutput(v) })
	}
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		if n := g.Nodes[i]; dead(n) {
			n.Detach()
			g.Nodes = slices.Delete(g.Nodes, i, i+1)
		}
	}
}
