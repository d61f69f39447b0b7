package lower

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// transforms are what post_transform makes of the scores of one row.
var transforms = map[string]func([]float64){
	"NONE":         func([]float64) {},
	"LOGISTIC":     eachScore(sigmoid),
	"PROBIT":       eachScore(func(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }),
	"SOFTMAX":      softmax,
	"SOFTMAX_ZERO": softmaxZero,
}

func sigmoid(v float64) float64 { return 1 / (1 + math.Exp(-v)) }

func eachScore(f func(float64) float64) func([]float64) {
	return func(s []float64) {
		for i, v := range s {
			s[i] = f(v)
		}
	}
}

func softmax(s []float64) {
	top, sum := slices.Max(s), 0.0
	for i, v := range s {
		s[i] = math.Exp(v - top)
		sum += s[i]
	}
	for i := range s {
		s[i] /= sum
	}
}

// softmaxZero keeps zeros as they are.
func softmaxZero(s []float64) {
	const zero = 1e-7
	top, sum := slices.Max(s), 0.0
	for i, v := range s {
		if math.Abs(v) > zero {
			s[i] = math.Exp(v - top)
			sum += s[i]
		} else {
			s[i] = v * math.Exp(-top)
		}
	}
	for i := range s {
		if sum != 0 {
			s[i] /= sum
		}
	}
}

// transform reads post_transform. Of a single score, onnxruntime computes PROBIT alone, and so does it here.
func (c *Context) transform(scores int) func([]float64) {
	name := c.AttrString("post_transform", "NONE")
	f, ok := transforms[name]
	if !ok {
		c.Failf("post_transform %q is none of NONE, LOGISTIC, PROBIT, SOFTMAX and SOFTMAX_ZERO", name)
	}
	if scores == 1 && name != "PROBIT" {
		return transforms["NONE"]
	}
	return f
}

// samples is the number of rows in operand 0, of which a vector is one. They must have at least that many features.
func (c *Context) samples(features int) ir.Dim {
	x := c.In(0).Type
	if len(x.Shape) < 1 || len(x.Shape) > 2 || ir.LessEqual(ir.N(features), x.Shape[len(x.Shape)-1]) == ir.No {
		c.Failf("%v is no list of rows of %d features", x, features)
	}
	if len(x.Shape) == 1 {
		return ir.N(1)
	}
	return x.Shape[0]
}

// featuresOf is the content of samples, row by row.
func featuresOf(x *tensor.Tensor, features int) (rows [][]float64, err error) {
	s := x.Shape()
	n := s[len(s)-1]
	if n < features {
		return nil, fmt.Errorf("rows of %d features, the model takes %d", n, features)
	}
	values := x.Float64s()
	for i := range s[:len(s)-1].Elements() {
		rows = append(rows, values[i*n:(i+1)*n])
	}
	return rows, nil
}

// A classifier gives the label of each row, and scores.
type classifier struct {
	labels *tensor.Tensor
	width  int // scores of a row
	// score gives the scores of a row and the position of its label.
	score func(x []float64) (scores []float64, label int)
}

// classLabels reads the labels from classlabels_strings or the attribute of integers.
func (c *Context) classLabels(ints string) *tensor.Tensor {
	text, isText := c.AttrStrings("classlabels_strings")
	numbers, isInts := attr[[]int64](c, ints)
	switch {
	case isText == isInts:
		c.Failf("labels: either %s or classlabels_strings", ints)
	case isText && len(text) > 0:
		return tensor.FromStrings(text)
	case len(numbers) > 0:
		return tensor.FromSlice(numbers)
	}
	c.Failf("there are no labels")
	return nil
}

// classify emits a classifier over rows of at least that many features.
func (c *Context) classify(k classifier, features int) []*ir.Value {
	rows := c.samples(features)
	run := func(o ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		y, z := resultOf(o, 0), tensor.New(tensor.F32, o.Types[0].Shape[0].Int(), k.width)
		rows, err := featuresOf(in[0], features)
		if err != nil {
			return nil, err
		}
		for i, row := range rows {
			scores, label := k.score(row)
			setElement(y, i, k.labels, label)
			for j, v := range scores {
				z.SetFloat64(i*k.width+j, v)
			}
		}
		return []*tensor.Tensor{y, z}[:len(o.Types)], nil
	}
	types := []ir.Type{ir.TensorOf(k.labels.DType(), rows), ir.TensorOf(tensor.F32, rows, ir.N(k.width))}
	return c.Kernel(run, types[:c.NumOutputs()]...)
}

// regress emits a model of rows of at least that many features that gives targets numbers for each.
func (c *Context) regress(d tensor.DType, targets, features int, score func(x []float64) []float64) []*ir.Value {
	rows := c.samples(features)
	run := func(o ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		y := resultOf(o, 0)
		rows, err := featuresOf(in[0], features)
		if err != nil {
			return nil, err
		}
		for i, row := range rows {
			for j, v := range score(row) {
				y.SetFloat64(i*targets+j, v)
			}
		}
		return []*tensor.Tensor{y}, nil
	}
	return c.Kernel(run, ir.TensorOf(d, rows, ir.N(targets)))
}

// linearModel reads coefficients of n rows and as many intercepts, 0 where there are none.
func (c *Context) linearModel(n int) (sums func([]float64) []float64, features int) {
	weights, intercepts := c.numbers("coefficients"), c.numbers("intercepts")
	if len(intercepts) == 0 {
		intercepts = make([]float64, n)
	}
	if n < 1 || len(weights) == 0 || len(weights)%n != 0 || len(intercepts) != n {
		c.Failf("%d coefficients and %d intercepts for %d sums", len(weights), len(intercepts), n)
	}
	features = len(weights) / n
	return func(x []float64) []float64 { return affine(weights, x[:features], intercepts) }, features
}

// numbers reads an attribute of floats.
func (c *Context) numbers(name string) []float64 {
	v, _ := c.AttrFloats(name)
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}

func lowerLinearRegressor(c *Context) []*ir.Value {
	targets := c.AttrInt("targets", 1)
	sums, features := c.linearModel(targets)
	post := c.transform(targets)
	if x := c.cast(c.In(0), tensor.F32); c.AttrString("post_transform", "NONE") == "NONE" && Rank(x) == 2 && x.Type.Shape[1].Is(features) { // a product
		w, _ := c.AttrFloats("coefficients")
		in := []*ir.Value{x, c.Constant(tensor.FromSlice(w, targets, features))}
		if b, ok := c.AttrFloats("intercepts"); ok {
			in = append(in, c.Constant(tensor.FromSlice(b)))
		}
		return []*ir.Value{c.Emit(ir.MatMul{TransB: true}, in...)}
	}
	return c.regress(tensor.F32, targets, features, func(x []float64) []float64 {
		s := sums(x)
		post(s)
		return s
	})
}

// lowerLinearClassifier: a sum for each label, or one that says which of two it is.
func lowerLinearClassifier(c *Context) []*ir.Value {
	c.IgnoreAttr("multi_class")
	labels := c.classLabels("classlabels_ints")
	n := labels.Len()
	if given, ok := c.AttrFloats("intercepts"); ok && n == 2 {
		n = len(given)
	}
	if n > labels.Len() {
		c.Failf("%d intercepts for %d labels", n, labels.Len())
	}
	sums, features := c.linearModel(n)
	k := classifier{labels: labels, width: labels.Len()}
	if n == 1 && labels.Len() == 2 {
		logistic := c.AttrString("post_transform", "NONE") == "LOGISTIC"
		if c.AttrString("post_transform", "NONE") == "PROBIT" {
			c.Unsupportedf("post_transform PROBIT of one score for two labels")
		}
		c.transform(1)
		k.score = func(x []float64) ([]float64, int) {
			s := sums(x)[0]
			if logistic {
				return []float64{sigmoid(-s), sigmoid(s)}, signOf(s)
			}
			return []float64{1 - s, s}, signOf(s)
		}
		return c.classify(k, features)
	}
	post := c.transform(n)
	k.score = func(x []float64) ([]float64, int) {
		s := sums(x)
		best := argMax(s)
		post(s)
		return s, best
	}
	return c.classify(k, features)
}

// signOf is 1 for numbers above 0: the second of two labels.
func signOf(s float64) int {
	if s > 0 {
		return 1
	}
	return 0
}

// argMax is the first of the largest.
func argMax(s []float64) int {
	best := 0
	for i, v := range s {
		if v > s[best] {
			best = i
		}
	}
	return best
}
