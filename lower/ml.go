package lower

import (
	"fmt"
	"math"
	"strings"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/tensor"
)

// Classical models: ai.onnx.ml.
var mlRows = []row{
	{"ArrayFeatureExtractor", 1, lowerArrayFeatureExtractor},
	{"Binarizer", 1, lowerBinarizer},
	{"CategoryMapper", 1, lowerCategoryMapper},
	{"FeatureVectorizer", 1, lowerFeatureVectorizer},
	{"Imputer", 1, lowerImputer},
	{"LabelEncoder", 1, lowerClassEncoder},
	{"LabelEncoder", 2, lowerLabelEncoder},
	{"LinearClassifier", 1, lowerClassical(ops.LinearClassifier{})},
	{"LinearRegressor", 1, lowerLinearRegressor},
	{"Normalizer", 1, lowerNormalizer},
	{"OneHotEncoder", 1, lowerOneHotEncoder},
	{"SVMClassifier", 1, lowerClassical(ops.SVMClassifier{})},
	{"SVMRegressor", 1, lowerClassical(ops.SVMRegressor{})},
	{"Scaler", 1, lowerScaler},
	{"TreeEnsemble", 5, lowerTreeEnsemble},
	{"TreeEnsembleClassifier", 1, lowerClassical(ops.TreeEnsembleClassifier{})},
	{"TreeEnsembleRegressor", 1, lowerClassical(ops.TreeEnsembleRegressor{})},
	{"ZipMap", 1, lowerZipMap},
}

func lowerBinarizer(c *context) []*ir.Value {
	x := c.In(0)
	above := c.binary(ir.Greater, x, c.like(x, float64(c.AttrFloat("threshold", 0))))
	return []*ir.Value{c.cast(above, x.Type.DType)}
}

// lowerArrayFeatureExtractor picks along the last axis; of a vector it makes a row.
func lowerArrayFeatureExtractor(c *context) []*ir.Value {
	x, index := c.In(0), c.In(1)
	if rank(x) < 1 {
		c.Failf("%v has no axis to pick from", x.Type)
	}
	if index.Type.Shape.Elements().Is(0) {
		c.Failf("operand 1 is %v: it picks nothing", index.Type)
	}
	y := c.Emit(ir.Gather{Axis: rank(x) - 1}, x, c.reshape(c.nonNegative(index), ir.Shape{index.Type.Shape.Elements()}))
	if rank(y) == 1 {
		y = c.reshape(y, ir.Shape{ir.N(1), y.Type.Shape[0]})
	}
	return []*ir.Value{y}
}

func lowerScaler(c *context) []*ir.Value {
	x := c.cast(c.In(0), tensor.F32)
	offset, shifted := c.AttrFloats("offset")
	scale, scaled := c.AttrFloats("scale")
	if shifted && scaled && len(offset) != len(scale) {
		c.Failf("%d offsets and %d scales: want equally many", len(offset), len(scale))
	}
	if shifted {
		x = c.binary(ir.Sub, x, c.Constant(tensor.FromSlice(offset)))
	}
	if scaled {
		x = c.binary(ir.Mul, x, c.Constant(tensor.FromSlice(scale)))
	}
	return []*ir.Value{x}
}

// lowerImputer replaces one value, NaN most often, by a number for each feature.
func lowerImputer(c *context) []*ir.Value {
	x := c.In(0)
	given, isInt := attr[[]int64](c, "imputed_value_int64s")
	floats, isFloat := c.AttrFloats("imputed_value_floats")
	imputed := tensor.FromSlice(floats)
	if x.Type.DType.IsInt() {
		imputed, isInt, isFloat = tensor.FromSlice(given), isFloat, isInt
	}
	replaced, absent := float64(c.AttrFloat("replaced_value_float", 0)), c.AttrInt("replaced_value_int64", 0)
	n := ir.N(imputed.Len())
	if rank(x) < 1 || isInt || !isFloat || ir.Same(n, ir.N(1)) == ir.No && ir.Same(n, x.Type.Shape[rank(x)-1]) == ir.No {
		c.Failf("%d imputed values for %v: want floats, one or one for each column", imputed.Len(), x.Type)
	}
	var missing *ir.Value
	switch {
	case x.Type.DType.IsInt():
		missing = c.binary(ir.Equal, x, c.Constant(intScalar(x.Type.DType, absent)))
	case math.IsNaN(replaced):
		missing = c.unary(ir.IsNaN, x)
	default:
		missing = c.binary(ir.Equal, x, c.like(x, replaced))
	}
	return []*ir.Value{c.Emit(ir.Where{}, missing, c.cast(c.Constant(imputed), x.Type.DType), x)}
}

// lowerFeatureVectorizer joins rows; of each operand, as many features as inputdimensions says, zeros after them.
func lowerFeatureVectorizer(c *context) []*ir.Value {
	sizes, _ := c.AttrInts("inputdimensions")
	if len(sizes) != c.NumInputs() {
		c.Failf("inputdimensions %v for %d operands: want one each", sizes, c.NumInputs())
	}
	var parts []*ir.Value
	for i, x := range c.All() {
		if rank(x) == 1 {
			x = c.reshape(x, ir.Shape{ir.N(1), x.Type.Shape[0]})
		}
		if rank(x) != 2 || sizes[i] < 0 || sizes[i] > ops.MaxSize {
			c.Failf("%d features of operand %d, which is %v", sizes[i], i, x.Type)
		}
		size := ir.N(sizes[i])
		have := ir.Min(x.Type.Shape[1], size)
		x = c.slice(c.cast(x, tensor.F32), 1, ir.N(0), have)
		if more := size.Sub(have); !more.Is(0) {
			x = c.Emit(ir.Pad{Before: ir.Dims(0, 0), After: ir.Shape{ir.N(0), more}}, x)
		}
		parts = append(parts, x)
	}
	return []*ir.Value{c.Emit(ir.Concat{Axis: 1}, parts...)}
}

func lowerNormalizer(c *context) []*ir.Value {
	return c.opaque(ops.Normalizer{Norm: c.AttrString("norm", "MAX")}, c.In(0))
}

func lowerOneHotEncoder(c *context) []*ir.Value {
	x := c.In(0)
	cats, _ := c.attrList("cats_")
	if cats == nil {
		c.Failf("there are no categories")
	}
	return c.opaque(ops.NewOneHotEncoder(cats, !c.AttrBool("zeros", true)), x)
}

// lowerLabelEncoder maps keys to values, and all else to a default.
func lowerLabelEncoder(c *context) []*ir.Value {
	x := c.In(0)
	keys, _ := c.attrList("keys_")
	values, kind := c.attrList("values_")
	if keys == nil || values == nil || keys.Len() != values.Len() || keys.DType() != x.Type.DType {
		c.Failf("keys %v and values %v for %v: want equally many, and keys of the type of the input", keys, values, x.Type)
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
	if c.Version() < 4 && keys.DType().IsFloat() { // a NaN equals nothing before version 4
		some := []int64{}
		for i := range keys.Len() {
			if !math.IsNaN(keys.Float64(i)) {
				some = append(some, int64(i))
			}
		}
		keys, values = c.picked(keys, some), c.picked(values, some)
	}
	return c.translate(keys, values, other)
}

// picked returns the elements of a list at these positions.
func (c *context) picked(list *tensor.Tensor, at []int64) *tensor.Tensor {
	y, err := ir.EvalOp(nil, ir.Gather{}, []*tensor.Tensor{list, tensor.FromSlice(at)})
	if err != nil {
		c.Failf("%w", err)
	}
	return y[0]
}

// lowerClassEncoder maps strings to their positions in a list, or positions to strings.
func lowerClassEncoder(c *context) []*ir.Value {
	text, _ := c.AttrStrings("classes_strings")
	at := tensor.New(tensor.I64, len(text))
	for i := range text {
		at.SetInt64(i, int64(i))
	}
	return c.categories(tensor.FromStrings(text), at)
}

// lowerCategoryMapper maps strings to integers, or integers to strings.
func lowerCategoryMapper(c *context) []*ir.Value {
	text, _ := c.AttrStrings("cats_strings")
	numbers, _ := attr[[]int64](c, "cats_int64s")
	return c.categories(tensor.FromStrings(text), tensor.FromSlice(numbers))
}

// categories maps strings to integers, or integers to strings, according to the operand's type.
func (c *context) categories(text, numbers *tensor.Tensor) []*ir.Value {
	if text.Len() != numbers.Len() {
		c.Failf("%d strings for %d integers: want equally many", text.Len(), numbers.Len())
	}
	name, number := c.AttrString("default_string", "_Unused"), c.AttrInt("default_int64", -1)
	// The last of equal keys counts here, the first in a LabelEncoder since version 2.
	back := make([]int64, text.Len())
	for i := range back {
		back[i] = int64(len(back) - 1 - i)
	}
	text, numbers = c.picked(text, back), c.picked(numbers, back)
	if c.In(0).Type.DType == tensor.String {
		return c.translate(text, numbers, tensor.FromSlice([]int64{int64(number)}))
	}
	return c.translate(numbers, text, tensor.FromStrings([]string{name}))
}

// translate maps the elements of operand 0 from keys to values, and all else to a default.
func (c *context) translate(keys, values, other *tensor.Tensor) []*ir.Value {
	return c.opaque(ops.NewLabelEncoder(keys, values, other), c.In(0))
}

// attrList reads a list whose kind follows from the attribute's name.
func (c *context) attrList(prefix string) (*tensor.Tensor, string) {
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

// classical is an operator for a classical model, which understands the node's attributes.
func (c *context) classical(op classicalOp) ir.Op {
	for _, a := range c.attrs {
		c.IgnoreAttr(a.Name)
	}
	return op.Of(c.attrs, c.version, c.NumOutputs())
}

type classicalOp interface {
	Of(attrs ir.Attrs, version, results int) ir.Op
}

func lowerClassical(op classicalOp) func(*context) []*ir.Value {
	return func(c *context) []*ir.Value { return c.opaque(c.classical(op), c.In(0)) }
}

// lowerLinearRegressor: a product, where nothing comes after it.
func lowerLinearRegressor(c *context) []*ir.Value {
	x, op := c.In(0), c.classical(ops.LinearRegressor{})
	targets := c.AttrInt("targets", 1)
	w, _ := c.AttrFloats("coefficients")
	b, biased := c.AttrFloats("intercepts")
	c.check(op)
	if features := len(w) / targets; c.AttrString("post_transform", "NONE") == "NONE" && rank(x) == 2 && x.Type.Shape[1].Is(features) {
		in := []*ir.Value{c.cast(x, tensor.F32), c.Constant(tensor.FromSlice(w, targets, features))}
		if biased {
			in = append(in, c.Constant(tensor.FromSlice(b)))
		}
		return []*ir.Value{c.Emit(ir.MatMul{TransB: true}, in...)}
	}
	return c.opaque(op, x)
}

func lowerTreeEnsemble(c *context) []*ir.Value {
	if post := c.AttrInt("post_transform", 0); post != 0 {
		c.Unsupportedf("post_transform %d", post)
	}
	return c.opaque(c.classical(ops.TreeEnsemble{}), c.In(0))
}

// lowerZipMap returns the scores [N,C] themselves, where ONNX makes a map from label to score of each row. The labels are in the warning.
func lowerZipMap(c *context) []*ir.Value {
	x := c.In(0)
	texts, named := c.AttrStrings("classlabels_strings")
	numbers, numbered := attr[[]int64](c, "classlabels_int64s")
	labels := fmt.Sprintf("%q", texts[:min(len(texts), maxLabels)])
	n := len(texts)
	if numbered {
		labels, n = fmt.Sprint(numbers[:min(len(numbers), maxLabels)]), len(numbers)
	}
	if n > maxLabels {
		labels = strings.TrimSuffix(labels, "]") + " …]"
	}
	switch {
	case named == numbered:
		c.Failf("either classlabels_strings or classlabels_int64s is needed")
	case rank(x) == 1:
		x = c.reshape(x, ir.Shape{ir.N(1), x.Type.Shape[0]})
	case rank(x) != 2:
		c.Failf("%v has no columns for labels: [N,C] is needed", x.Type)
	}
	if ir.Same(x.Type.Shape[1], ir.N(n)) == ir.No {
		c.Failf("%d labels for %v: want one for each column", n, x.Type)
	}
	c.b.warn("node %s (ZipMap): result %s is a tensor %v, where ONNX has maps; its columns are the labels %s", onnx.Quote(c.node),
		onnx.Quote(c.outputs[0]),
		x.Type, labels)
	return []*ir.Value{x}
}

// maxLabels is how many labels the warning of a ZipMap lists.
const maxLabels = 16
