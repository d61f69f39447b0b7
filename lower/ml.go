package lower

import (
	"fmt"
	"math"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Classical models: ai.onnx.ml.
var mlRows = []row{
	{"ArrayFeatureExtractor", 1, lowerArrayFeatureExtractor},
	{"Binarizer", 1, lowerBinarizer},
	{"LabelEncoder", 2, lowerLabelEncoder},
	{"LinearRegressor", 1, lowerLinearRegressor},
	{"Scaler", 1, lowerScaler},
	{"TreeEnsemble", 5, lowerTreeEnsemble},
}

func lowerBinarizer(c *Context) []*ir.Value {
	x := c.In(0)
	above := c.binary(ir.Greater, x, c.like(x, float64(c.AttrFloat("threshold", 0))))
	return []*ir.Value{c.cast(above, x.Type.DType)}
}

// lowerArrayFeatureExtractor picks along the last axis; of a vector it makes a row.
func lowerArrayFeatureExtractor(c *Context) []*ir.Value {
	x, index := c.In(0), c.In(1)
	if Rank(x) < 1 {
		c.Failf("%v has no axis to pick from", x.Type)
	}
	y := c.Emit(ir.Gather{Axis: Rank(x) - 1}, x, c.reshape(index, ir.Shape{index.Type.Shape.Elements()}))
	if Rank(y) == 1 {
		y = c.reshape(y, ir.Shape{ir.N(1), y.Type.Shape[0]})
	}
	return []*ir.Value{y}
}

func lowerScaler(c *Context) []*ir.Value {
	x := c.cast(c.In(0), tensor.F32)
	if v, ok := c.AttrFloats("offset"); ok {
		x = c.binary(ir.Sub, x, c.Constant(tensor.FromSlice(v)))
	}
	if v, ok := c.AttrFloats("scale"); ok {
		x = c.binary(ir.Mul, x, c.Constant(tensor.FromSlice(v)))
	}
	return []*ir.Value{x}
}

func lowerLinearRegressor(c *Context) []*ir.Value {
	x, targets := c.cast(c.In(0), tensor.F32), c.AttrInt("targets", 1)
	w, _ := c.AttrFloats("coefficients")
	if post := c.AttrString("post_transform", "NONE"); post != "NONE" {
		c.Unsupportedf("post_transform %s", post)
	}
	if targets < 1 || len(w) == 0 || len(w)%targets != 0 || Rank(x) != 2 {
		c.Failf("%d coefficients of %d targets for %v", len(w), targets, x.Type)
	}
	in := []*ir.Value{x, c.Constant(tensor.FromSlice(w, targets, len(w)/targets))}
	if b, ok := c.AttrFloats("intercepts"); ok {
		in = append(in, c.Constant(tensor.FromSlice(b)))
	}
	return []*ir.Value{c.Emit(ir.MatMul{TransB: true}, in...)}
}

// lowerLabelEncoder maps keys to values, and all else to a default.
func lowerLabelEncoder(c *Context) []*ir.Value {
	x := c.In(0)
	keys, _ := c.attrList("keys_")
	values, kind := c.attrList("values_")
	if keys == nil || values == nil || keys.Len() != values.Len() || keys.DType() != x.Type.DType {
		c.Failf("keys %v and values %v for %v", keys, values, x.Type)
	}
	other := tensor.New(values.DType(), 1)
	switch values.DType() {
	case tensor.String:
		other.Strings()[0] = "_Unused"
	case tensor.F32:
		other.SetFloat64(0, math.Copysign(0, -1))
	default:
		other.SetInt64(0, -1)
	}
	switch kind {
	case "tensor":
		if t, ok := c.AttrTensor("default_tensor"); ok {
			other = t
		}
	case "strings":
		other.Strings()[0] = c.AttrString("default_string", "_Unused")
	case "int64s":
		other.SetInt64(0, int64(c.AttrInt("default_int64", -1)))
	case "floats":
		other.SetFloat64(0, float64(c.AttrFloat("default_float", float32(math.Copysign(0, -1)))))
	}
	c.IgnoreAttr("default_string", "default_int64", "default_float", "default_tensor") // those of other kinds of values
	if other.Len() != 1 || other.DType() != values.DType() {
		c.Failf("default %v for values %v", other, values)
	}
	table := map[string]int{}
	for i := keys.Len() - 1; i >= 0; i-- { // the first of equal keys counts
		table[elementText(keys, i)] = i
	}
	run := func(o ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		y := resultOf(o, 0)
		for i := range y.Len() {
			if k, ok := table[elementText(in[0], i)]; ok {
				setElement(y, i, values, k)
			} else {
				setElement(y, i, other, 0)
			}
		}
		return []*tensor.Tensor{y}, nil
	}
	return c.Kernel(run, ir.TensorOf(values.DType(), x.Type.Shape...))
}

// attrList reads a list that the attribute's name gives the kind of.
func (c *Context) attrList(prefix string) (*tensor.Tensor, string) {
	if v, ok := c.AttrStrings(prefix + "strings"); ok {
		return tensor.FromStrings(v), "strings"
	}
	if v, ok := attr[[]int64](c, prefix+"int64s"); ok {
		return tensor.FromSlice(v), "int64s"
	}
	if v, ok := c.AttrFloats(prefix + "floats"); ok {
		return tensor.FromSlice(v), "floats"
	}
	if v, ok := c.AttrTensor(prefix + "tensor"); ok {
		return v.Aligned(), "tensor"
	}
	return nil, ""
}

// elementText tells elements apart.
func elementText(t *tensor.Tensor, i int) string {
	if t.DType() == tensor.String {
		return t.Strings()[i]
	}
	if t.DType().IsFloat() {
		return fmt.Sprint(t.Float64(i))
	}
	return fmt.Sprint(t.Int64(i))
}

func setElement(y *tensor.Tensor, i int, x *tensor.Tensor, k int) {
	switch d := y.DType(); {
	case d == tensor.String:
		y.Strings()[i] = x.Strings()[k]
	case d.IsFloat():
		y.SetFloat64(i, x.Float64(k))
	default:
		y.SetInt64(i, x.Int64(k))
	}
}

// A forest is what the attributes of TreeEnsemble say: nodes and leaves in tables that refer to each other.
type forest struct {
	splits, weights, members                          *tensor.Tensor
	features, yes, no, yesLeaf, noLeaf, targets, root []int
	modes, missing                                    []int
	sets                                              []map[float64]bool // of nodes that ask for membership
}

// The comparisons of a node, as nodes_modes numbers them.
const (
	atMost = iota
	below
	atLeast
	above
	equalTo
	unequal
	member
)

func lowerTreeEnsemble(c *Context) []*ir.Value {
	x, targets := c.In(0), c.AttrInt("n_targets", 1)
	if post := c.AttrInt("post_transform", 0); post != 0 {
		c.Unsupportedf("post_transform %d", post)
	}
	aggregate := c.AttrInt("aggregate_function", 1)
	c.IgnoreAttr("nodes_hitrates")
	table := func(name string) *tensor.Tensor {
		t, ok := c.AttrTensor(name)
		if !ok {
			c.Failf("attribute %s is missing", name)
		}
		return t.Aligned()
	}
	list := func(name string) []int { v, _ := c.AttrInts(name); return v }
	f := &forest{splits: table("nodes_splits"), weights: table("leaf_weights"), features: list("nodes_featureids"), yes: list("nodes_truenodeids"),
		no: list("nodes_falsenodeids"), yesLeaf: list("nodes_trueleafs"), noLeaf: list("nodes_falseleafs"), targets: list("leaf_targetids"),
		root: list("tree_roots"), missing: list("nodes_missing_value_tracks_true")}
	for _, v := range table("nodes_modes").Int64s() {
		f.modes = append(f.modes, int(v))
	}
	if t, ok := c.AttrTensor("membership_values"); ok {
		f.members = t.Aligned()
	}
	if Rank(x) != 2 || targets < 1 || targets > maxWindow || aggregate < 0 || aggregate > 3 {
		c.Failf("%v, %d targets, aggregate_function %d", x.Type, targets, aggregate)
	}
	if err := f.check(targets); err != nil {
		c.Failf("%w", err)
	}
	run := func(o ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		y, features := resultOf(o, 0), in[0].Shape()[1]
		for row := range in[0].Shape()[0] {
			sums, counts := make([]float64, targets), make([]int, targets)
			for _, root := range f.root {
				leaf, err := f.leaf(root, features, func(k int) float64 { return in[0].Float64(row*features + k) })
				if err != nil {
					return nil, err
				}
				t, w := f.targets[leaf], f.weights.Float64(leaf)
				switch first := counts[t] == 0; {
				case first, aggregate == 2 && w < sums[t], aggregate == 3 && w > sums[t]:
					sums[t] = w
				case aggregate < 2:
					sums[t] += w
				}
				counts[t]++
			}
			for t, s := range sums {
				if aggregate == 0 {
					s /= float64(max(len(f.root), 1))
				}
				y.SetFloat64(row*targets+t, s)
			}
		}
		return []*tensor.Tensor{y}, nil
	}
	return c.Kernel(run, ir.TensorOf(x.Type.DType, x.Type.Shape[0], ir.N(targets)))
}

// check looks at every reference once, so that walking a tree cannot leave the tables or go round for ever.
func (f *forest) check(targets int) error {
	n, leaves := len(f.features), f.weights.Len()
	for name, k := range map[string]int{"nodes_splits": f.splits.Len(), "nodes_modes": len(f.modes), "nodes_truenodeids": len(f.yes), "nodes_falsenodeids": len(f.no),
		"nodes_trueleafs": len(f.yesLeaf), "nodes_falseleafs": len(f.noLeaf)} {
		if k != n {
			return fmt.Errorf("%s has %d entries for %d nodes", name, k, n)
		}
	}
	if len(f.targets) != leaves || len(f.missing) > 0 && len(f.missing) != n {
		return fmt.Errorf("%d targets for %d leaves, %d entries of nodes_missing_value_tracks_true for %d nodes", len(f.targets), leaves, len(f.missing), n)
	}
	for i, t := range f.targets {
		if t < 0 || t >= targets {
			return fmt.Errorf("leaf %d is of target %d of %d", i, t, targets)
		}
	}
	seen := make([]bool, n)
	var visit []int
	for _, r := range f.root {
		if r < 0 || r >= n {
			return fmt.Errorf("a tree begins at node %d of %d", r, n)
		}
		visit = append(visit, r)
	}
	for len(visit) > 0 {
		i := visit[len(visit)-1]
		visit = visit[:len(visit)-1]
		if seen[i] {
			return fmt.Errorf("node %d has two ways to it", i)
		}
		seen[i] = true
		if f.features[i] < 0 || f.modes[i] < atMost || f.modes[i] > member {
			return fmt.Errorf("node %d compares feature %d by mode %d", i, f.features[i], f.modes[i])
		}
		for _, next := range [2][2]int{{f.yes[i], f.yesLeaf[i]}, {f.no[i], f.noLeaf[i]}} {
			switch {
			case next[1] != 0 && (next[0] < 0 || next[0] >= leaves):
				return fmt.Errorf("node %d leads to leaf %d of %d", i, next[0], leaves)
			case next[1] == 0 && (next[0] < 0 || next[0] >= n):
				return fmt.Errorf("node %d leads to node %d of %d", i, next[0], n)
			case next[1] == 0:
				visit = append(visit, next[0])
			}
		}
	}
	return f.readSets(n)
}

// readSets reads the members of the nodes that ask for membership, in the order of the nodes, each list ended by a NaN.
func (f *forest) readSets(n int) error {
	f.sets = make([]map[float64]bool, n)
	at := 0
	for i, m := range f.modes {
		if m != member {
			continue
		}
		f.sets[i] = map[float64]bool{}
		for ; ; at++ {
			if f.members == nil || at >= f.members.Len() {
				return fmt.Errorf("membership_values ends before the set of node %d does", i)
			}
			v := f.members.Float64(at)
			if math.IsNaN(v) {
				at++
				break
			}
			f.sets[i][v] = true
		}
	}
	return nil
}

// leaf walks a tree.
func (f *forest) leaf(i, features int, x func(int) float64) (int, error) {
	for {
		if f.features[i] >= features {
			return 0, fmt.Errorf("node %d asks for feature %d of %d", i, f.features[i], features)
		}
		v, split := x(f.features[i]), f.splits.Float64(i)
		yes := [...]bool{v <= split, v < split, v >= split, v > split, v == split, v != split, f.sets[i][v]}[f.modes[i]]
		yes = yes || len(f.missing) > 0 && f.missing[i] != 0 && math.IsNaN(v)
		next, isLeaf := f.no[i], f.noLeaf[i]
		if yes {
			next, isLeaf = f.yes[i], f.yesLeaf[i]
		}
		if isLeaf != 0 {
			return next, nil
		}
		i = next
	}
}
