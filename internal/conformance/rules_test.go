package conformance

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/internal/recorded"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/lower"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

const (
	rulesFile = "testdata/rules.txt"
	evalsFile = "testdata/evals.txt"
)

// rulesPerOp is how many nodes of each op the test of the shape rules changes.
const rulesPerOp = 2

// fusedCases are nodes of ops that rewriting makes.
var fusedCases = map[string]string{
	"copies": `(%0: f32[2,s]) { %1 = copy(%0) %2 = materialize(%0) {view=transpose {perm=[1,0]}} %3 = onnx.ActCopy(%0) return %1, %2, %3 }`,
	"chain": `(%0: f32[s,4], %1: f32[4,8], %2: f32[8], %3: f32[8,4], %4: f32[4], %5: f32[s,4]) {
		%6 = chain(%0, %1, %2, %3, %4, %5) {ops=[matmul {act=gelu},matmul {}]} return %6 }`,
	"sums of rows": `(%0: f32[1,7,4], %1: i32[2,4]) { %2 = sum_sequences(%0, %1) return %2 }`,
	"quantised": `(%0: u8[1,3,2,4], %1: u8[1,9,2,4], %2: f32[1,1,3,9], %3: f32[], %4: u8[], %5: f32[3,4], %6: f32[4], %7: u8[3,4],
		%8: u8[20,4], %9: i64[2,3]) {
		%10 = qattention(%0, %1, %1, %2, %3, %4, %3, %4, %3, %4, %3, %4, %3, %4, %3, %4)
		%11 = qlayernorm(%5, %6, %6, %7, %3, %4, %3, %4) {axes=1, eps=1e-5}
		%12 = qembedding(%6, %6, %8, %9, %3, %4) {eps=1e-5} return %10, %11, %12 }`,
	"spectra": `(%0: f32[2,24,1], %1: f32[8]) { %2 = onnx.STFT(%0, %1) {step=5, length=8, onesided=true} return %2 }`,
}

// nodesOfAllOps are nodes of every op that node tests lower to, or otherwise that all backends run: by the op's name, a few with
// different parameters and operands.
func nodesOfAllOps(t *testing.T) map[string]map[string]*ir.Node {
	all := map[string]map[string]*ir.Node{}
	add := func(g *ir.Graph) {
		for _, n := range g.Nodes {
			name := ir.OpName(n.Op)
			if all[name] == nil {
				all[name] = map[string]*ir.Node{}
			}
			most := rulesPerOp
			if n.Op.Kind().Has(ir.Elementwise) {
				most = 1
			}
			if text := nodeText(n); len(n.Subgraphs) == 0 && len(all[name]) < most && len(text) < 400 {
				all[name][text] = n
			}
		}
	}
	models, _ := allModels(t)
	for _, m := range models { // whose operands but the first are constants, and as they are
		if g, err := lower.Model(m); err == nil {
			add(g)
		}
	}
	cases, err := loadCases()
	require.NoError(t, err)
	for _, c := range cases {
		m := new(onnxpb.ModelProto)
		require.NoError(t, proto.Unmarshal(c.model, m))
		if g, err := lower.Model(m); err == nil {
			add(g)
		}
	}
	for _, programs := range []map[string]string{fusedCases, backendtest.KernelCases, backendtest.ConvCases, backendtest.OpaqueCases,
		backendtest.AppendCases, backendtest.RecurrentCases, backendtest.PickCases, backendtest.IndexCases, backendtest.BitCases,
		backendtest.QuantizedCases} {
		for _, name := range slices.Sorted(maps.Keys(programs)) {
			g, err := ir.Parse(`graph "" ` + programs[name])
			require.NoError(t, err, name)
			g, err = g.Bind(ir.Binding{"s": 5}, false)
			require.NoError(t, err, name)
			add(g)
		}
	}
	return all
}

func typesText(types []ir.Type) string {
	parts := make([]string, len(types))
	for i, t := range types {
		parts[i] = t.String()
	}
	return strings.Join(parts, " ")
}

func operandTypes(n *ir.Node) []*ir.Type {
	in := make([]*ir.Type, len(n.Inputs))
	for i, v := range n.Inputs {
		if v != nil {
			in[i] = &v.Type
		}
	}
	return in
}

// nodeText is a node without the names of its operands.
func nodeText(n *ir.Node) string {
	parts := make([]string, len(n.Inputs))
	for i, t := range operandTypes(n) {
		parts[i] = "_"
		if t != nil {
			parts[i] = t.String()
		}
	}
	return fmt.Sprintf("%s(%s) {%s}", ir.OpName(n.Op), strings.Join(parts, ", "), ir.Params(n.Op))
}

// A ruleChange is a node with one operand in another form or one parameter with another value.
type ruleChange struct {
	what    string
	op      ir.Op
	in      []*ir.Type
	retypes bool // it changes the type of the elements of an operand
}

func ruleChanges(n *ir.Node) (out []ruleChange) {
	base := operandTypes(n)
	for i, t := range base {
		operand := func(what string, to *ir.Type) {
			in := slices.Clone(base)
			in[i] = to
			out = append(out, ruleChange{fmt.Sprintf("%d %s", i, what), n.Op, in, to != nil && to.DType != t.DType})
		}
		if t == nil || t.Kind != ir.TensorType || t.Unranked {
			continue
		}
		operand("_", nil)
		for _, d := range []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.I64, tensor.I32, tensor.I8, tensor.U8, tensor.Bool,
			tensor.String} {
			if d != t.DType {
				operand(d.String(), &ir.Type{DType: d, Shape: t.Shape})
			}
		}
		shaped := func(what string, shape ...ir.Dim) { operand(what, &ir.Type{DType: t.DType, Shape: shape}) }
		shaped("[1,…]", append(ir.Dims(1), t.Shape...)...)
		for axis, d := range t.Shape {
			shaped(fmt.Sprintf("-%d", axis), slices.Delete(slices.Clone(t.Shape), axis, axis+1)...)
			for _, to := range []ir.Dim{d.Add(ir.N(1)), ir.N(1), ir.N(0), ir.Sym("q")} {
				s := slices.Clone(t.Shape)
				s[axis] = to
				shaped(fmt.Sprintf("%d=%v", axis, to), s...)
			}
		}
	}
	v := reflect.ValueOf(n.Op)
	for _, field := range reflect.VisibleFields(v.Type()) {
		if tag := field.Tag.Get("ir"); tag == "-" || tag == "name" || !field.IsExported() || field.Anonymous {
			continue
		}
		for _, to := range otherValues(v.FieldByIndex(field.Index)) {
			op := reflect.New(v.Type()).Elem()
			op.Set(v)
			op.FieldByIndex(field.Index).Set(to)
			changed := op.Interface().(ir.Op)
			out = append(out, ruleChange{fmt.Sprintf("%s=%v", strings.ToLower(field.Name), to), changed, base, false})
		}
	}
	return out
}

// otherValues are values next to that of a parameter and at its limits.
func otherValues(v reflect.Value) (out []reflect.Value) {
	put := func(x any) {
		if to := reflect.ValueOf(x).Convert(v.Type()); !to.Equal(v) {
			out = append(out, to)
		}
	}
	switch x := v.Interface().(type) {
	case ir.Dim:
		for _, d := range []ir.Dim{x.Add(ir.N(1)), x.Sub(ir.N(1)), ir.N(0), ir.N(-1), ir.Sym("q")} {
			out = append(out, reflect.ValueOf(d))
		}
		return out
	case tensor.DType:
		for _, d := range []tensor.DType{tensor.F32, tensor.F16, tensor.I64, tensor.I32, tensor.U8, tensor.I4, tensor.Bool, tensor.String} {
			put(d)
		}
		return out
	}
	switch v.Kind() {
	case reflect.Bool:
		put(!v.Bool())
	case reflect.Int:
		for _, n := range []int64{v.Int() + 1, v.Int() - 1, 0, -1, ir.MaxSize, ir.MaxSize + 1} {
			put(n)
		}
	case reflect.Uint8:
		put(v.Uint() + 1)
	case reflect.Float32:
		for _, x := range []float32{0, -1, 2} {
			put(x)
		}
	case reflect.String:
		put("x")
		put("")
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[ir.Attrs]() || v.Type() == reflect.TypeFor[ir.Expr]() {
			return nil
		}
		out = append(out, reflect.Zero(v.Type()))
		if v.Len() == 0 {
			return out
		}
		out = append(out, v.Slice(0, v.Len()-1))
		for i := range min(v.Len(), 4) {
			for _, to := range otherValues(v.Index(i)) {
				s := reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()), v)
				s.Index(i).Set(to)
				out = append(out, s)
			}
		}
	}
	return out
}

// node makes the changed node.
func (c ruleChange) node() (n *ir.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	g := ir.NewGraph("")
	in := make([]*ir.Value, len(c.in))
	for i, t := range c.in {
		if t != nil {
			in[i] = g.AddInput("", *t)
		}
	}
	return g.NewNode(c.op, in)
}

// eval computes the changed node on small numbers. There are no results where the op refuses them, or where its rule alone says too
// little: which types of elements an opaque op takes is checked by the schema of its operator.
func (c ruleChange) eval(n *ir.Node) (out []*tensor.Tensor, refused, err error) {
	kind := n.Op.Kind()
	if _, err := ir.BindOp(n.Op, nil); err != nil || kind.Has(ir.Typed) || c.retypes && kind.Has(ir.IsOpaque) {
		return nil, nil, nil
	}
	in := make([]*tensor.Tensor, len(n.Inputs))
	for i, v := range n.Inputs {
		if v == nil {
			continue
		}
		shape, ok := v.Type.Static()
		if !ok || shape.Elements() > 1<<14 {
			return nil, nil, nil
		}
		in[i] = tensor.New(v.Type.DType, shape...)
		for k := range in[i].Len() {
			switch d := v.Type.DType; {
			case d.IsFloat():
				in[i].SetFloat64(k, float64(k%7)/4-0.75)
			case !d.IsComplex() && d != tensor.String:
				in[i].SetInt64(k, int64(k%2))
			}
		}
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	out, refused = ir.EvalOp(&ir.Env{Context: context.Background(), Memory: &memory.Account{Limit: 1 << 20}}, n.Op, in)
	return out, refused, nil
}

// valuesText is the values of a result. Those of floats are summed up: their last bits depend on the processor.
func valuesText(y *tensor.Tensor) string {
	switch d := y.DType(); {
	case y.IsSequence():
		return fmt.Sprint(y)
	case d == tensor.String:
		return fmt.Sprintf("%q", y.Strings())
	case d.IsFloat():
		var sums [2]float64
		for i := range y.Len() {
			sums[0] += math.Abs(y.Float64(i))
			sums[1] += y.Float64(i) * math.Sin(float64(i))
		}
		return fmt.Sprintf("%.4g", sums)
	}
	return fmt.Sprintf("%x", y.Bytes())
}

// TestShapeRules changes one thing at a time of nodes of all ops: an operand's type, rank or one of its sizes, or a parameter. What the
// shape rule takes is in testdata/rules.txt, with the types of the results; all else it refuses, without a panic. Eval, which is written
// apart from the rule, returns what the rule says. testdata/evals.txt has a checksum for each node of what Eval returned of all changes,
// and of what was refused in which words: -v prints all of them.
func TestShapeRules(t *testing.T) {
	var text, evals strings.Builder
	text.WriteString("# What shape rules take of nodes with one change, and the types of the results where they are others than before. " +
		"Written by: go test ./internal/conformance -update")
	all := nodesOfAllOps(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, base := range slices.Sorted(maps.Keys(all[name])) {
			n := all[name][base]
			same := make([]ir.Type, len(n.Outputs))
			for i, v := range n.Outputs {
				same[i] = v.Type
			}
			fmt.Fprintf(&text, "\n%s = %s", base, typesText(same))
			sum := fnv.New32a()
			note := func(format string, args ...any) {
				fmt.Fprintf(sum, format, args...)
				if testing.Verbose() {
					fmt.Printf(base+": "+format+"\n", args...)
				}
			}
			for _, c := range append([]ruleChange{{op: n.Op, in: operandTypes(n)}}, ruleChanges(n)...) {
				made, err := c.node()
				if err != nil {
					note("%s: %v", c.what, err)
					require.NotContains(t, err.Error(), "panic", "%s with %s", base, c.what)
					continue
				}
				types := make([]ir.Type, len(made.Outputs))
				for i, v := range made.Outputs {
					types[i] = v.Type
				}
				if c.what != "" {
					text.WriteString("; " + c.what)
					if !slices.EqualFunc(types, same, ir.Type.Equal) {
						text.WriteString(": " + typesText(types))
					}
				}
				out, refused, err := c.eval(made)
				require.NoError(t, err, "%s with %s", base, c.what)
				if refused != nil {
					note("%s: %v", c.what, refused)
				}
				for i, y := range out {
					note("%s: %s", c.what, valuesText(y))
					if shape, ok := types[i].Static(); ok {
						require.Equal(t, tensor.Shape(shape).String(), y.Shape().String(), "result %d of %s with %s", i, base, c.what)
						require.Equal(t, types[i].DType, y.DType(), "result %d of %s with %s", i, base, c.what)
					}
				}
			}
			fmt.Fprintf(&evals, "%08x %.100s\n", sum.Sum32(), base)
		}
	}
	for _, row := range ir.Defs() {
		require.True(t, row.Name == "" || row.Op.Kind().Has(ir.Typed) || all[row.Name] != nil, "no node of %s", row.Name)
	}
	recorded.Check(t, rulesFile, *update, text.String())
	recorded.Check(t, evalsFile, *update, evals.String())
}
