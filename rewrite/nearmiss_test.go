package rewrite

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// envNearMisses is the number of programs that TestNearMisses makes, and envNearSeed the first seed.
const (
	envNearMisses = "RLXC_NEAR_MISSES"
	envNearSeed   = "RLXC_NEAR_SEED"
)

// TestNearMisses makes programs that nearly are what a rule fuses: the graphs of testdata, which hold every rule's pattern, each with
// a few things changed that a condition of the rule is about. Whatever the passes make of them must compute the same.
func TestNearMisses(t *testing.T) {
	count, first := 2000, 1
	if s := os.Getenv(envNearMisses); s != "" {
		n, err := strconv.Atoi(s)
		require.NoError(t, err, envNearMisses)
		count = n
	}
	if s := os.Getenv(envNearSeed); s != "" {
		n, err := strconv.Atoi(s)
		require.NoError(t, err, envNearSeed)
		first = n
	}
	texts := patterns(t)
	tried, failed := 0, 0
	for seed := first; tried < count && failed < 10; seed++ {
		n := nearMiss{r: rand.New(rand.NewPCG(uint64(seed), 24))}
		g := n.change(parsed(texts[seed%len(texts)]))
		if g == nil {
			continue
		}
		tried++
		if why := n.differs(g.String()); why != "" {
			failed++
			t.Errorf("seed %d: %s", seed, n.shrink(g.String(), why))
		}
	}
}

// patterns are the graphs of testdata before their passes.
func patterns(t *testing.T) (texts []string) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		require.NoError(t, err)
		for _, f := range a.Files {
			if f.Name != "after" && !strings.Contains(string(f.Data), "onnx.") {
				texts = append(texts, string(f.Data))
			}
		}
	}
	return texts
}

func parsed(text string) *ir.Graph {
	g, err := ir.Parse(text)
	if err != nil {
		panic(err)
	}
	return g
}

// A nearMiss makes one program.
type nearMiss struct{ r *rand.Rand }

// change builds g anew with one to three changes, nil where that is no program.
func (n *nearMiss) change(g *ir.Graph) (changed *ir.Graph) {
	defer func() {
		if recover() != nil { // ops take it for granted that their fields are in range
			changed = nil
		}
	}()
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
	dce(h)
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
func (n *nearMiss) symbols(g *ir.Graph, change bool) map[string]ir.Dim {
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

func (n *nearMiss) changeNode(h *ir.Graph, op ir.Op, in, all []*ir.Value) (ir.Op, []*ir.Value) {
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
			between := []ir.Op{ir.Unary{Fn: ir.Neg}, ir.Unary{Fn: ir.Abs}, ir.Unary{Fn: ir.Floor}, ir.Cast{To: tensor.F16}, ir.Cast{To: tensor.I8}, ir.Copy{}}[n.r.IntN(6)]
			if out, err := h.Append(between, in[i:i+1]); err == nil {
				in[i] = out[0]
			}
		}
	case 6: // an operand that is left out
		if len(in) > ir.RowOf(op).MinIn {
			in[len(in)-1] = nil
		}
	}
	return op, in
}

// changeConst gives other numbers: one, or all of them by a factor.
func (n *nearMiss) changeConst(c *tensor.Tensor) *tensor.Tensor {
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
func (n *nearMiss) changeOp(op ir.Op) ir.Op {
	x := reflect.New(reflect.TypeOf(op)).Elem()
	x.Set(reflect.ValueOf(op))
	if x.NumField() == 0 {
		return op
	}
	n.changeField(x.Field(n.r.IntN(x.NumField())))
	return x.Interface().(ir.Op)
}

func (n *nearMiss) changeField(f reflect.Value) {
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
		f.SetFloat(oddNumbers[n.r.IntN(len(oddNumbers))])
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

// differs says what the passes change in the results of a program, nothing if nothing.
func (n *nearMiss) differs(text string) (why string) {
	defer func() {
		if p := recover(); p != nil {
			why = fmt.Sprintf("panic: %v", p)
		}
	}()
	g := parsed(text)
	every := parsed(text)
	for _, node := range every.Nodes {
		every.Outputs = append(every.Outputs, node.Outputs...)
	}
	every.OutputNames = nil
	steppy := slices.ContainsFunc(g.Nodes, func(node *ir.Node) bool {
		return slices.ContainsFunc(node.Inputs, func(v *ir.Value) bool { return v != nil && flowOf(node, slices.Index(node.Inputs, v)) == decides })
	})
	for _, o := range []struct {
		level int
		Options
	}{{O1, Options{Verify: true}}, {O2, Options{Verify: true, Exact: true}}, {O2, Options{Verify: true}}} {
		h := parsed(text)
		s, err := Run(h, o.level, nil, o.Options)
		if err != nil {
			return fmt.Sprintf("at -O %d: %v", o.level, err)
		}
		means := slices.ContainsFunc(s.Rules, func(c RuleCount) bool { return changeOf[c.Rule] > Rounding })
		for style := range 3 {
			in := n.inputs(g, style)
			want, wantErr := interpret(every, in)
			got, gotErr := interpret(h, in)
			switch {
			case means:
			case contradicts(g, in): // what is wrong with a view goes away with it
			case (wantErr == nil) != (gotErr == nil):
				return fmt.Sprintf("at -O %d exactly %t, inputs %v: it ends with %v, was %v\n%s", o.level, o.Exact, in, gotErr, wantErr, h)
			case wantErr == nil:
				shaken, err := shake(every, in)
				if err != nil || steppy {
					shaken = want
				}
				if why := departs(want, got, shaken, o.level); why != "" {
					return fmt.Sprintf("at -O %d exactly %t, inputs of style %d: %s\n%s\n%v", o.level, o.Exact, style, why, h, ruleNames(s))
				}
			}
		}
	}
	return ""
}

// contradicts reports whether the sizes of g do not fit one another for these inputs.
func contradicts(g *ir.Graph, in []*tensor.Tensor) bool {
	b := ir.Binding{}
	if err := g.BindTensors(in, b); err != nil {
		return true
	}
	_, err := g.Bind(b, false)
	return err != nil
}

// shake runs a graph with every float that it computes a few places off: what becomes of that is how far roundings may be seen.
func shake(g *ir.Graph, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	b := ir.Binding{}
	if err := g.BindTensors(in, b); err != nil {
		return nil, err
	}
	bound, err := g.Bind(b, false)
	if err != nil {
		return nil, err
	}
	env := map[*ir.Value]*tensor.Tensor{}
	for i, v := range bound.Inputs {
		env[v] = in[i]
	}
	read := func(vs []*ir.Value) []*tensor.Tensor {
		out := make([]*tensor.Tensor, len(vs))
		for i, v := range vs {
			switch {
			case v == nil:
			case v.Const != nil:
				out[i] = v.Const.Aligned()
			default:
				out[i] = env[v]
			}
		}
		return out
	}
	for _, n := range bound.Nodes {
		out, err := ir.EvalNode(n, read(n.Inputs), b)
		if err != nil {
			return nil, err
		}
		for k, t := range out {
			if t.DType().IsFloat() && !n.Op.Kind().Has(ir.View) {
				for i := range t.Len() {
					t.SetFloat64(i, t.Float64(i)*(1+float64(i%3+k)*0x1p-22))
				}
			}
			env[n.Outputs[k]] = t
		}
	}
	return read(bound.Outputs), nil
}

// interpret runs a graph bound to the sizes of its inputs: that checks what only numbers can tell.
func interpret(g *ir.Graph, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	b := ir.Binding{}
	if err := g.BindTensors(in, b); err != nil {
		return nil, err
	}
	bound, err := g.Bind(b, false)
	if err != nil {
		return nil, err
	}
	return ir.Interpret(bound, in)
}

var changeOf = map[string]Change{}

func init() {
	for _, p := range passes {
		for _, r := range p.rules {
			changeOf[r.Name] = r.changes
		}
	}
}

// departs compares the first results of want, which goes on with everything in between: a rounding of the largest number there may
// show in any result. Where something in between is no finite number, roundings may become anything.
func departs(want, got, shaken []*tensor.Tensor, level int) string {
	largest, finite := 1.0, true
	for _, t := range want {
		if !t.DType().IsFloat() {
			continue
		}
		for i := range t.Len() {
			x := math.Abs(t.Float64(i))
			finite = finite && x < 1e15 && (x == 0 || x > 1e-15)
			largest = max(largest, x)
		}
	}
	if !finite && level > O1 {
		return ""
	}
	for k, t := range got {
		if !t.DType().IsFloat() {
			if string(t.Bytes()) != string(want[k].Bytes()) {
				return fmt.Sprintf("output %d is %v, was %v", k, values(t), values(want[k]))
			}
			continue
		}
		tolerance := 2e-5 * largest
		for _, w := range want {
			switch w.DType() {
			case tensor.F16:
				tolerance = max(tolerance, 4e-3*largest)
			case tensor.BF16:
				tolerance = max(tolerance, 3e-2*largest)
			}
		}
		for i := range t.Len() {
			a, b := t.Float64(i), want[k].Float64(i)
			allowed := tolerance + 30*math.Abs(shaken[k].Float64(i)-b)
			if math.IsNaN(a) != math.IsNaN(b) || math.Abs(a-b) > allowed || math.IsInf(b, 0) && a != b {
				return fmt.Sprintf("output %d: element %d is %v, was %v", k, i, a, b)
			}
		}
	}
	return ""
}

func values(t *tensor.Tensor) (x []float64) {
	for i := range min(t.Len(), 64) {
		x = append(x, float64(t.Int64(i)))
	}
	return x
}

// inputs are numbers of a style: around 0, small whole ones, and those at the ends of their types.
func (n *nearMiss) inputs(g *ir.Graph, style int) []*tensor.Tensor {
	in := randomInputs(g, n.r)
	for _, x := range in {
		for i := range x.Len() {
			switch {
			case style == 0:
			case x.DType() == tensor.Bool:
			case !x.DType().IsFloat():
				x.SetInt64(i, int64(n.r.IntN(9)-3))
			case style == 1:
				x.SetFloat64(i, float64(n.r.IntN(9)-4))
			default:
				x.SetFloat64(i, []float64{0, 1, -1, 0.5, 100, -100, 1e4, 5, math.Inf(1), math.Inf(-1), math.NaN(), 1e-40, 1e-3, 3e38}[n.r.IntN(14)])
			}
		}
	}
	return in
}

// shrink takes outputs away as long as the program fails.
func (n *nearMiss) shrink(text, why string) string {
	for k := 0; ; {
		g := parsed(text)
		if len(g.Outputs) <= 1 || k >= len(g.Outputs) {
			return text + why
		}
		g.Outputs = slices.Delete(g.Outputs, k, k+1)
		g.OutputNames = nil
		dce(g)
		g.Renumber()
		smaller := &nearMiss{r: rand.New(rand.NewPCG(1, 1))}
		again := ""
		for range 20 {
			if again = smaller.differs(g.String()); again != "" {
				break
			}
		}
		if again != "" {
			text, why = g.String(), again
			continue
		}
		k++
	}
}
