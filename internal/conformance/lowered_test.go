package conformance

import (
	"cmp"
	"fmt"
	"hash/crc32"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc/internal/recorded"
	"github.com/rlxc/rlxc/lower"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

const loweredFile = "testdata/lowered.txt"

// loweredPerOperator is how many models of an operator TestLowered changes.
const loweredPerOperator = 2

// A nodeChange changes one thing of a model of one node.
type nodeChange struct {
	what   string
	change func(g *onnxpb.GraphProto)
}

// integerAttributes are those of operators in any version, by domain and name.
var integerAttributes = func() map[string][]string {
	all := map[string][]string{}
	schemas, _ := os.ReadFile("../../lower/schemas.txt")
	for _, m := range regexp.MustCompile(`(?m)^(\S+ \w+) \d+ \|.*\|(.*)$`).FindAllStringSubmatch(string(schemas), -1) {
		for _, a := range regexp.MustCompile(`(\w+):int(?:!| |$)`).FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(all[m[1]], a[1]) {
				all[m[1]] = append(all[m[1]], a[1])
			}
		}
	}
	return all
}()

// nodeChanges are other operands, attributes and results.
func nodeChanges(g *onnxpb.GraphProto) (list []nodeChange) {
	add := func(what string, f func(g *onnxpb.GraphProto)) { list = append(list, nodeChange{what, f}) }
	n := g.Node[0]
	for i, name := range n.Input {
		add(fmt.Sprint(i, " _"), func(g *onnxpb.GraphProto) { g.Node[0].Input[i] = "" })
		for k, v := range g.Input {
			if t := v.GetType().GetTensorType(); v.GetName() == name && t.GetShape() != nil {
				dims := t.Shape.Dim
				shaped := func(what string, dims ...*onnxpb.TensorShapeProto_Dimension) {
					add(fmt.Sprint(i, " ", what), func(g *onnxpb.GraphProto) { g.Input[k].Type.GetTensorType().Shape.Dim = dims })
				}
				one := &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: 1}}
				shaped("[1,…]", append([]*onnxpb.TensorShapeProto_Dimension{one}, dims...)...)
				for axis := range dims {
					shaped(fmt.Sprint("-", axis), slices.Delete(slices.Clone(dims), axis, axis+1)...)
					for _, to := range []any{"q", int64(0), dims[axis].GetDimValue() + 1} {
						d := &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: "q"}}
						if n, ok := to.(int64); ok {
							d.Value = &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: n}
						}
						s := slices.Clone(dims)
						s[axis] = d
						shaped(fmt.Sprint(axis, "=", to), s...)
					}
				}
			}
		}
		for k, c := range g.Initializer {
			if c.GetName() == name {
				add(fmt.Sprint(i, " input"), func(g *onnxpb.GraphProto) { // a run computes it
					t := &onnxpb.TypeProto_Tensor{ElemType: c.DataType, Shape: &onnxpb.TensorShapeProto{}}
					for _, n := range c.Dims {
						t.Shape.Dim = append(t.Shape.Dim,
							&onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: n}})
					}
					g.Initializer = slices.Delete(g.Initializer, k, k+1)
					g.Input = append(g.Input, &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{
						Value: &onnxpb.TypeProto_TensorType{TensorType: t}}})
				})
				for what, to := range otherConstants(c) {
					add(fmt.Sprint(i, " ", what), func(g *onnxpb.GraphProto) { g.Initializer[k] = onnx.FromTensor(name, to) })
				}
			}
		}
	}
	for i, a := range n.Attribute {
		add(a.GetName(), func(g *onnxpb.GraphProto) { g.Node[0].Attribute = slices.Delete(g.Node[0].Attribute, i, i+1) })
		put := func(what any, f func(a *onnxpb.AttributeProto)) {
			add(fmt.Sprint(a.GetName(), "=", what), func(g *onnxpb.GraphProto) { f(g.Node[0].Attribute[i]) })
		}
		switch a.Type {
		case onnxpb.AttributeProto_INT:
			for _, x := range []int64{a.I + 1, a.I - 1, 0, -1, 100, 1 << 40} {
				put(x, func(a *onnxpb.AttributeProto) { a.I = x })
			}
		case onnxpb.AttributeProto_FLOAT:
			for _, x := range []float32{0, -1, 2} {
				put(x, func(a *onnxpb.AttributeProto) { a.F = x })
			}
		case onnxpb.AttributeProto_STRING:
			put("x", func(a *onnxpb.AttributeProto) { a.S = []byte("x") })
		case onnxpb.AttributeProto_INTS:
			if len(a.Ints) > 0 {
				put("less", func(a *onnxpb.AttributeProto) { a.Ints = a.Ints[1:] })
			}
			for k := range a.Ints[:min(len(a.Ints), 4)] {
				for _, x := range []int64{a.Ints[k] + 1, a.Ints[k] - 1, 0, -1} {
					put(fmt.Sprint(k, ":", x), func(a *onnxpb.AttributeProto) { a.Ints[k] = x })
				}
			}
		}
	}
	for _, name := range integerAttributes[cmp.Or(n.GetDomain(), "ai.onnx")+" "+n.GetOpType()] {
		if !slices.ContainsFunc(n.Attribute, func(a *onnxpb.AttributeProto) bool { return a.GetName() == name }) {
			for x := range int64(2) {
				add(fmt.Sprint(name, "=", x), func(g *onnxpb.GraphProto) {
					g.Node[0].Attribute = append(g.Node[0].Attribute,
						&onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_INT, I: x})
				})
			}
		}
	}
	if k := len(n.Output) - 1; k > 0 {
		add("fewer results", func(g *onnxpb.GraphProto) {
			g.Node[0].Output = g.Node[0].Output[:k]
			g.Output = slices.DeleteFunc(g.Output, func(v *onnxpb.ValueInfoProto) bool { return v.GetName() == n.Output[k] })
		})
	}
	return list
}

// otherConstants have other shapes, and other numbers where they are few.
func otherConstants(p *onnxpb.TensorProto) map[string]*tensor.Tensor {
	list := map[string]*tensor.Tensor{}
	c, err := onnx.Tensor(p)
	if err != nil || c.DType() == tensor.String || c.DType().IsComplex() || c.Len() == 0 {
		return nil
	}
	shaped := func(what string, shape ...int) {
		to := tensor.New(c.DType(), shape...)
		for i := range to.Len() {
			to.SetFloat64(i, c.Float64(i%c.Len()))
		}
		list[what] = to
	}
	shape := c.Shape()
	shaped("[1,…]", append([]int{1}, shape...)...)
	for axis, n := range shape {
		shaped(fmt.Sprint("-", axis), slices.Delete(slices.Clone(shape), axis, axis+1)...)
		for _, to := range []int{n + 1, 0} {
			s := slices.Clone(shape)
			s[axis] = to
			shaped(fmt.Sprint(axis, "=", to), s...)
		}
	}
	for i := range min(c.Len(), 4) {
		for _, x := range []float64{c.Float64(i) + 1, c.Float64(i) - 1, 0, -1} {
			if c.DType().IsInt() && c.Len() <= 8 || c.Len() == 1 {
				to := c.Clone()
				to.SetFloat64(i, x)
				list[fmt.Sprintf("%d:%.3g", i, x)] = to
			}
		}
	}
	return list
}

// lowered is a sum of the graph that a model is lowered to, "" where it is refused.
func lowered(t *testing.T, what string, m *onnxpb.ModelProto) string {
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("%s: panic: %v", what, r)
		}
	}()
	if onnx.Check(m) != nil {
		return ""
	}
	g, err := lower.Model(m)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%04x", crc32.ChecksumIEEE([]byte(whole(g)))&0xffff)
}

// TestLowered changes one thing at a time of models of all operators. What they are lowered to is as recorded: the sums of graphs that are
// others than that of the model itself, and nothing after changes that are refused. After a change: go test ./internal/conformance
// -run TestLowered -update
func TestLowered(t *testing.T) {
	found, seen := map[string]string{}, map[string]int{}
	models, _ := allModels(t)
	for _, m := range models {
		n := m.Graph.Node[0]
		key := n.GetDomain() + "." + n.GetOpType()
		base := lowered(t, key, m)
		if seen[key]++; base == "" || seen[key] > loweredPerOperator {
			continue
		}
		text := []string{base}
		for _, c := range nodeChanges(m.Graph) {
			changed := proto.CloneOf(m)
			c.change(changed.Graph)
			if sum := lowered(t, fmt.Sprintf("%v with %s", n, c.what), changed); sum == "" {
				text = append(text, c.what)
			} else if sum != base {
				text = append(text, c.what+" "+sum)
			}
		}
		slices.Sort(text[1:])
		found[fmt.Sprintf("%s %d", key, seen[key])] = strings.Join(text, "; ")
	}
	if *update {
		os.Remove(loweredFile) // operators that are gone
	}
	recorded.Keys(t, loweredFile, *update, found)
}
