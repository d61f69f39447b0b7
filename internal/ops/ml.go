package ops

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Normalizer divides rows by their norm.
type Normalizer struct {
	ir.Opaque[Normalizer]
	Norm string
}

// A norm is a fold over a row of features from its start. MAX is the largest element, not the largest magnitude, and passes over NaN
// like onnxruntime's.
type norm struct {
	start float64
	add   func(sum, v float64) float64
}

var norms = map[string]norm{
	"MAX": {-math.MaxFloat32, func(most, v float64) float64 {
		if v > most {
			return v
		}
		return most
	}},
	"L1": {0, func(sum, v float64) float64 { return sum + math.Abs(v) }},
	"L2": {0, math.Hypot},
}

func (o Normalizer) Infer(in []*ir.Value) ([]ir.Type, error) {
	if norms[o.Norm].add == nil {
		return nil, fmt.Errorf("norm %q is not MAX, L1 or L2", o.Norm)
	}
	_, err := samples(in[0], 0)
	return []ir.Type{ir.TensorOf(tensor.F32, in[0].Type.Shape...)}, err
}

func (o Normalizer) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	y := env.Output(o, in)
	rows, err := featuresOf(env, in[0], 0)
	norm := norms[o.Norm]
	for i, row := range rows {
		size := norm.start
		for _, v := range row {
			size = norm.add(size, v)
		}
		if size == 0 {
			size = 1
		}
		for k, v := range row {
			y.SetFloat64(i*len(row)+k, v/size)
		}
	}
	return []*tensor.Tensor{y}, err
}

// OneHotEncoder adds a last axis with 1 where an element is that category. Categories are a tensor in Attrs.
type OneHotEncoder struct {
	ir.Opaque[OneHotEncoder]
	Attrs  ir.Attrs // categories
	Strict bool     // an element that is not a category is an error

	categories *tensor.Tensor
	indices    *positions
}

// NewOneHotEncoder is the encoder for these categories.
func NewOneHotEncoder(categories *tensor.Tensor, strict bool) OneHotEncoder {
	return OneHotEncoder{Attrs: ir.Attrs{{Name: "categories", Value: categories}}, Strict: strict}
}

func (o OneHotEncoder) Prepare() (ir.Op, error) {
	var err error
	if o.categories, err = tensorOf(o.Attrs, "categories"); err != nil {
		return nil, err
	}
	o.indices = newPositions()
	for i := range o.categories.Len() { // the last of equal categories counts
		o.indices.put(o.categories, i)
	}
	return o, nil
}

// tensorOf is a parameter that is a tensor.
func tensorOf(attrs ir.Attrs, name string) (*tensor.Tensor, error) {
	v, _ := attrs.Get(name)
	t, ok := v.(*tensor.Tensor)
	if !ok {
		return nil, fmt.Errorf("it lacks its %s", name)
	}
	return t.Aligned(), nil
}

func (o OneHotEncoder) Infer(in []*ir.Value) ([]ir.Type, error) {
	x := in[0].Type
	if o.categories == nil || (o.categories.DType() == tensor.String) != (x.DType == tensor.String) {
		return nil, fmt.Errorf("categories %v for %v", o.categories, x)
	}
	return []ir.Type{ir.TensorOf(tensor.F32, append(slices.Clone(x.Shape), ir.N(o.categories.Len()))...)}, nil
}

func (o OneHotEncoder) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	y := env.Output(o, in)
	x := in[0]
	if x.DType().IsFloat() { // categories are integers
		whole, err := ir.Cast{To: tensor.I64}.Eval(env, in)
		if err != nil {
			return nil, err
		}
		x = whole[0]
	}
	for i := range env.Range(x.Len()) {
		if k, ok := o.indices.find(x, i); ok {
			y.SetFloat64(i*o.categories.Len()+k, 1)
		} else if o.Strict {
			return nil, fmt.Errorf("element %d is %s, which is not a category", i, files.Quote(elementText(x, i)))
		}
	}
	return []*tensor.Tensor{y}, nil
}

// LabelEncoder maps elements from keys to values, and all others to a default. The three are tensors in Attrs.
type LabelEncoder struct {
	ir.Opaque[LabelEncoder]
	Attrs ir.Attrs // keys, values, default

	values, other *tensor.Tensor
	keys          tensor.DType
	table         *positions
}

// NewLabelEncoder is the encoder for these keys and values.
func NewLabelEncoder(keys, values, other *tensor.Tensor) LabelEncoder {
	return LabelEncoder{Attrs: ir.Attrs{{Name: "keys", Value: keys}, {Name: "values", Value: values}, {Name: "default", Value: other}}}
}

func (o LabelEncoder) Prepare() (ir.Op, error) {
	keys, err := tensorOf(o.Attrs, "keys")
	if err != nil {
		return nil, err
	}
	if o.values, err = tensorOf(o.Attrs, "values"); err != nil {
		return nil, err
	}
	if o.other, err = tensorOf(o.Attrs, "default"); err != nil {
		return nil, err
	}
	if keys.Len() != o.values.Len() || o.other.Len() != 1 || o.other.DType() != o.values.DType() {
		return nil, fmt.Errorf("keys %v, values %v and default %v", keys, o.values, o.other)
	}
	o.keys, o.table = keys.DType(), newPositions()
	for i := keys.Len() - 1; i >= 0; i-- { // the first of equal keys counts
		o.table.put(keys, i)
	}
	return o, nil
}

func (o LabelEncoder) Infer(in []*ir.Value) ([]ir.Type, error) {
	x := in[0].Type
	if o.table == nil || o.keys != x.DType {
		return nil, fmt.Errorf("keys of %v for %v", o.keys, x)
	}
	return []ir.Type{ir.TensorOf(o.values.DType(), x.Shape...)}, nil
}

func (o LabelEncoder) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	y := env.Output(o, in)
	for i := range env.Range(y.Len()) {
		if k, ok := o.table.find(in[0], i); ok {
			setElement(y, i, o.values, k)
		} else {
			setElement(y, i, o.other, 0)
		}
	}
	return []*tensor.Tensor{y}, nil
}

// positions maps elements of tensors to their positions in a list. Floats are compared as numbers: −0 is 0, and every NaN is the same.
type positions struct {
	texts map[string]int
	whole map[int64]int
	reals map[float64]int // without NaN
	nan   int             // position of NaN, −1 where the list has none
}

func newPositions() *positions {
	return &positions{texts: map[string]int{}, whole: map[int64]int{}, reals: map[float64]int{}, nan: -1}
}

// put sets the position of element i of a list to i.
func (p *positions) put(list *tensor.Tensor, i int) {
	switch d := list.DType(); {
	case d == tensor.String:
		p.texts[list.Strings()[i]] = i
	case !d.IsFloat():
		p.whole[list.Int64(i)] = i
	case math.IsNaN(list.Float64(i)):
		p.nan = i
	default:
		p.reals[list.Float64(i)] = i
	}
}

// find returns the position of element i of x in the list; ok is false if the list lacks it.
func (p *positions) find(x *tensor.Tensor, i int) (position int, ok bool) {
	switch d := x.DType(); {
	case d == tensor.String:
		position, ok = p.texts[x.Strings()[i]]
	case !d.IsFloat():
		position, ok = p.whole[x.Int64(i)]
	case math.IsNaN(x.Float64(i)):
		position, ok = p.nan, p.nan >= 0
	default:
		position, ok = p.reals[x.Float64(i)]
	}
	return position, ok
}

// elementText shows a string or an integer in an error.
func elementText(t *tensor.Tensor, i int) string {
	if t.DType() == tensor.String {
		return t.Strings()[i]
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
