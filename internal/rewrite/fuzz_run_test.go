package rewrite

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Contradicts reports whether the sizes of g do not fit one another for these inputs.
func Contradicts(g *ir.Graph, in []*tensor.Tensor) bool {
	b := ir.Binding{}
	if err := g.BindTensors(in, b); err != nil {
		return true
	}
	_, err := g.Bind(b, false)
	return err != nil
}

// Shake runs a graph with every float that it computes a few positions off, and with it the known weights of products, into which factors
// of
// columns go: what becomes of that is how far roundings may be seen.
func Shake(g *ir.Graph, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
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
	shake := func(t *tensor.Tensor, k int) {
		for i := range t.Len() {
			t.SetFloat64(i, t.Float64(i)*(1+float64(i%3+k)*0x1p-22))
		}
	}
	for _, n := range bound.Nodes {
		in := read(n.Inputs)
		if kind := n.Op.Kind(); kind == ir.KindMatMul || kind == ir.KindConv {
			for i, v := range n.Inputs {
				if v != nil && v.Const != nil && v.Type.DType.IsFloat() {
					in[i] = in[i].Clone()
					shake(in[i], 0)
				}
			}
		}
		out, err := ir.EvalNode(n, in, b)
		if err != nil {
			return nil, err
		}
		for k, t := range out {
			if t.DType().IsFloat() && !n.Op.Kind().Has(ir.View) {
				shake(t, k)
			}
			env[n.Outputs[k]] = t
		}
	}
	return read(bound.Outputs), nil
}

// Interpret runs a graph bound to the sizes of its inputs: that checks what only numbers can report.
func Interpret(g *ir.Graph, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
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

// Departs compares the first results of want, which continues with everything in between: a rounding of the largest number there may
// show in any result, and as much as in shaken. Unless results are to be exact, roundings may become anything where something in
// between is not a finite number.
func Departs(want, got, shaken []*tensor.Tensor, exact bool) string {
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
	if !finite && !exact {
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

// Styles is the number of sorts of inputs.
const Styles = 3

// Inputs are numbers of a style: around 0, small whole ones, and those at the ends of their types.
func (n *Generator) Inputs(g *ir.Graph, style int) []*tensor.Tensor {
	in := RandomInputs(g, n.r)
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
				x.SetFloat64(i, []float64{0, 1, -1, 0.5, 100, -100, 1e4, 5, math.Inf(1), math.Inf(-1), math.NaN(), 1e-40, 1e-3,
					3e38}[n.r.IntN(14)])
			}
		}
	}
	return in
}

// RandomInputs makes inputs with small sizes for the symbols: floats in [−1, 1), whole numbers 0 and 1.
func RandomInputs(g *ir.Graph, r *rand.Rand) []*tensor.Tensor {
	b := ir.Binding{}
	for _, v := range g.Inputs {
		set := map[string]bool{}
		for _, d := range v.Type.Shape {
			d.Symbols(set)
		}
		for _, s := range slices.Sorted(maps.Keys(set)) {
			if _, ok := b[s]; !ok {
				b[s] = 1 + r.IntN(5)
			}
		}
	}
	var in []*tensor.Tensor
	for _, v := range g.Inputs {
		shape := make([]int, len(v.Type.Shape))
		for i, d := range v.Type.Shape {
			shape[i], _ = d.Eval(b)
		}
		x := tensor.New(v.Type.DType, shape...)
		for i := range x.Len() {
			if x.DType().IsFloat() {
				x.SetFloat64(i, 2*r.Float64()-1)
			} else {
				x.SetInt64(i, int64(r.IntN(2)))
			}
		}
		in = append(in, x)
	}
	return in
}
