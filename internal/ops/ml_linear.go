package ops

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A rowModel is a classical model ready to run: it returns numbers for each row of features, and perhaps a label.
type rowModel struct {
	labels   *tensor.Tensor // labels of the rows; nil if there are none
	dtype    tensor.DType   // type of the scores; Invalid for the operand's type
	width    int            // number of scores of a row
	features int            // number of features that a row must have
	steps    int            // estimate of the steps of a row
	// score returns the numbers of a row and the position of its label. Numbers of all rows are written one after the other: where they
	// are fewer than width, the end of the tensor is 0. onnxruntime leaves it unwritten (LinearClassifier, PROBIT of one sum).
	score  func(x []float64) (scores []float64, label int)
	forest *Forest // trees that score evaluates; nil for other models
}

// infer is the shape rule.
func (m *rowModel) infer(in []*ir.Value, results int) ([]ir.Type, error) {
	if m == nil {
		return nil, fmt.Errorf("the model is not prepared")
	}
	rows, err := samples(in[0], m.features)
	if err != nil {
		return nil, err
	}
	scores := ir.TensorOf(tensor.F32, rows, ir.N(m.width))
	if m.labels == nil {
		if scores.DType = m.dtype; m.dtype == tensor.Invalid {
			scores.DType = in[0].Type.DType
		}
		return []ir.Type{scores}, nil
	}
	return first(results, ir.TensorOf(m.labels.DType(), rows), scores), nil
}

// eval runs the model.
func (m *rowModel) eval(env *ir.Env, op ir.Op, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out := env.Outputs(op, in)
	rows, err := featuresOf(env, in[0], m.features)
	if err != nil {
		return nil, err
	}
	for i, row := range rows {
		env.Work(m.steps)
		scores, label := m.score(row)
		z := out[len(out)-1]
		if m.labels != nil {
			setElement(out[0], i, m.labels, label)
			if len(out) == 1 {
				continue
			}
		}
		for j, v := range scores {
			z.SetFloat64(i*len(scores)+j, v)
		}
	}
	return out, nil
}

// samples is the number of rows in an operand, of which a vector is one. They must have at least that many features.
func samples(v *ir.Value, features int) (ir.Dim, error) {
	x := v.Type
	if len(x.Shape) < 1 || len(x.Shape) > 2 || ir.LessEqual(ir.N(features), x.Shape[len(x.Shape)-1]) == ir.No {
		return ir.Dim{}, fmt.Errorf("%v is not a matrix with %d features per row", x, features)
	}
	if len(x.Shape) == 1 {
		return ir.N(1), nil
	}
	return x.Shape[0], nil
}

// regressor is a model without labels.
func regressor(d tensor.DType, targets, features int, score func(x []float64) []float64) *rowModel {
	return &rowModel{dtype: d, width: targets, features: features, score: func(x []float64) ([]float64, int) { return score(x), 0 }}
}

// Classical is an operator for a classical model (ai.onnx.ml), with the parameters as ONNX has them, which M reads.
type Classical[M interface{ read(*reader) *rowModel }] struct {
	ir.Opaque[Classical[M]]
	Attrs   ir.Attrs
	Version int // version of the operator set
	Results int

	model *rowModel
}

// The classical models of ai.onnx.ml.
type (
	LinearClassifier       = Classical[linearClassifier]
	LinearRegressor        = Classical[linearRegressor]
	SVMClassifier          = Classical[svmClassifier]
	SVMRegressor           = Classical[svmRegressor]
	TreeEnsemble           = Classical[treeEnsemble]
	TreeEnsembleClassifier = Classical[treeEnsembleClassifier]
	TreeEnsembleRegressor  = Classical[treeEnsembleRegressor]

	linearClassifier       struct{}
	linearRegressor        struct{}
	svmClassifier          struct{}
	svmRegressor           struct{}
	treeEnsemble           struct{}
	treeEnsembleClassifier struct{}
	treeEnsembleRegressor  struct{}
)

// Of is the operator with these parameters.
func (Classical[M]) Of(attrs ir.Attrs, version, results int) ir.Op {
	return Classical[M]{Attrs: attrs, Version: version, Results: results}
}

func (o Classical[M]) Prepare() (_ ir.Op, err error) {
	var m M
	o.model, err = prepare(o.Attrs, o.Version, m.read)
	return o, err
}

func (o Classical[M]) Infer(in []*ir.Value) ([]ir.Type, error) { return o.model.infer(in, o.Results) }

func (o Classical[M]) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return o.model.eval(env, o, in)
}

// Trees is the model's forest, nil if it is none.
func (o Classical[M]) Trees() *Forest {
	if o.model == nil {
		return nil
	}
	return o.model.forest
}

// Labels is the labels of a classifier, nil if it is none.
func (o Classical[M]) Labels() *tensor.Tensor { return o.model.labels }

func (linearRegressor) read(r *reader) *rowModel {
	targets := r.int("targets", 1)
	sums, features := r.linearModel(targets)
	post := r.transform(targets)
	return regressor(tensor.F32, targets, features, func(x []float64) []float64 {
		s := sums(x)
		post(s)
		return s
	})
}

// read makes a sum for each label, or one that says which of two it is.
func (linearClassifier) read(r *reader) *rowModel {
	r.ignore("multi_class")
	labels := r.classLabels("classlabels_ints")
	n := labels.Len()
	if given, ok := attr[[]float32](r, "intercepts"); ok && n == 2 {
		n = len(given)
	}
	if n > labels.Len() {
		r.failf("%d intercepts for %d labels", n, labels.Len())
	}
	sums, features := r.linearModel(n)
	k := &rowModel{labels: labels, width: labels.Len(), features: features}
	if n == 1 && labels.Len() == 2 {
		logistic := r.text("post_transform", "NONE") == "LOGISTIC"
		if r.text("post_transform", "NONE") == "PROBIT" {
			k.score = func(x []float64) ([]float64, int) {
				s := sums(x)
				label := signOf(s[0])
				s[0] = probit(s[0])
				return s, label
			}
			return k
		}
		r.transform(1)
		k.score = func(x []float64) ([]float64, int) {
			s := sums(x)[0]
			if logistic {
				return []float64{sigmoid(-s), sigmoid(s)}, signOf(s)
			}
			return []float64{1 - s, s}, signOf(s)
		}
		return k
	}
	post := r.transform(n)
	k.score = func(x []float64) ([]float64, int) {
		s := sums(x)
		best := argMax(s)
		post(s)
		return s, best
	}
	return k
}

// transforms are what post_transform makes of the scores of one row.
var transforms = map[string]func([]float64){
	"NONE":         func([]float64) {},
	"LOGISTIC":     eachScore(sigmoid),
	"PROBIT":       eachScore(probit),
	"SOFTMAX":      softmax,
	"SOFTMAX_ZERO": softmaxZero,
}

func sigmoid(v float64) float64 { return 1 / (1 + math.Exp(-v)) }

// probit is the quantile function of the normal distribution, by Winitzki's approximation (2008) of the inverse error function, which
// onnxruntime uses: its relative error is up to 2e-3. Outside [0, 1] it is NaN.
func probit(p float64) float64 {
	const a = 0.147
	x := 2*p - 1
	l := math.Log((1 - x) * (1 + x))
	v := 2/(math.Pi*a) + l/2
	return math.Copysign(math.Sqrt2*math.Sqrt(math.Sqrt(v*v-l/a)-v), x)
}

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
func (r *reader) transform(scores int) func([]float64) {
	name := r.text("post_transform", "NONE")
	f, ok := transforms[name]
	if !ok {
		r.failf("post_transform %q is not NONE, LOGISTIC, PROBIT, SOFTMAX or SOFTMAX_ZERO", name)
	}
	if scores == 1 && name != "PROBIT" {
		return transforms["NONE"]
	}
	return f
}

// featuresOf is the content of samples, row by row.
func featuresOf(env *ir.Env, x *tensor.Tensor, features int) (rows [][]float64, err error) {
	s := x.Shape()
	n := s[len(s)-1]
	if n < features {
		return nil, fmt.Errorf("rows of %d features, the model takes %d", n, features)
	}
	values := env.Float64s(x)
	rows = ir.Make[[]float64](env, s[:len(s)-1].Elements())
	for i := range env.Range(s[:len(s)-1].Elements()) {
		rows[i] = values[i*n : (i+1)*n]
	}
	return rows, nil
}

// classLabels reads the labels from classlabels_strings or the attribute of integers.
func (r *reader) classLabels(ints string) *tensor.Tensor {
	text, isText := attr[[]string](r, "classlabels_strings")
	numbers, isInts := attr[[]int64](r, ints)
	switch {
	case isText == isInts:
		r.failf("labels: either %s or classlabels_strings", ints)
	case isText && len(text) > 0:
		return tensor.FromStrings(text)
	case len(numbers) > 0:
		return tensor.FromSlice(numbers)
	}
	r.failf("there are no labels")
	return nil
}

// linearModel reads coefficients of n rows and as many intercepts, 0 where there are none.
func (r *reader) linearModel(n int) (sums func([]float64) []float64, features int) {
	weights, intercepts := r.numbers("coefficients"), r.numbers("intercepts")
	if n < 1 || len(weights) == 0 || len(weights)%n != 0 || len(intercepts) > 0 && len(intercepts) != n {
		r.failf("%d coefficients and %d intercepts for %d sums", len(weights), len(intercepts), n)
	}
	if len(intercepts) == 0 {
		intercepts = make([]float64, n)
	}
	features = len(weights) / n
	return func(x []float64) []float64 { return affine(weights, x[:features], intercepts) }, features
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
