package ops

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A Generator makes random numbers. ONNX does not say how: a node with a seed draws the same numbers in every run, one without
// other numbers each time.
type Generator struct {
	Seeded bool
	Seed   float32
}

func (g Generator) start() *rand.Rand {
	if g.Seeded {
		return rand.New(rand.NewPCG(uint64(math.Float32bits(g.Seed)), 0))
	}
	return rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
}

// drawn is the one result of an operator that draws numbers, by draw.
func (d Typed) drawn(env *ir.Env, draw func(i int) float64) ([]*tensor.Tensor, error) {
	if len(d.Types) != 1 {
		return nil, fmt.Errorf("%d results where there is one", len(d.Types))
	}
	shape, ok := d.Types[0].Static()
	if !ok {
		return nil, fmt.Errorf("the size of its result, %v, is not known", d.Types[0])
	}
	y := env.New(d.Types[0].DType, shape...)
	for i := range env.Range(y.Len()) {
		y.SetFloat64(i, draw(i))
	}
	return []*tensor.Tensor{y}, nil
}

// RandomUniform draws numbers between two, of the shape and type of its result.
type RandomUniform struct {
	ir.Opaque[RandomUniform]
	Typed
	Generator
	Low, High float32
}

func (o RandomUniform) Eval(env *ir.Env, _ []*tensor.Tensor) ([]*tensor.Tensor, error) {
	r, low, high := o.start(), float64(o.Low), float64(o.High)
	return o.drawn(env, func(int) float64 { return low + (high-low)*r.Float64() })
}

// RandomNormal draws numbers around a mean, of the shape and type of its result.
type RandomNormal struct {
	ir.Opaque[RandomNormal]
	Typed
	Generator
	Mean, Scale float32
}

func (o RandomNormal) Eval(env *ir.Env, _ []*tensor.Tensor) ([]*tensor.Tensor, error) {
	r := o.start()
	return o.drawn(env, func(int) float64 { return float64(o.Mean) + float64(o.Scale)*r.NormFloat64() })
}

// Bernoulli is 1 with the probability that the operand says, and 0 otherwise.
type Bernoulli struct {
	ir.Opaque[Bernoulli]
	Typed
	Generator
}

func (o Bernoulli) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	r := o.start()
	return o.drawn(env, func(i int) float64 {
		if i < in[0].Len() && r.Float64() < in[0].Float64(i) {
			return 1
		}
		return 0
	})
}

// Multinomial draws classes [batch, SampleSize] by their unnormalised log-probabilities [batch, classes].
type Multinomial struct {
	ir.Opaque[Multinomial]
	Typed
	Generator
	SampleSize int `ir:"sample_size"`
	To         tensor.DType
}

func (o Multinomial) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if in[0].Rank() != 2 || o.SampleSize < 1 || !o.To.IsInt() {
		return nil, fmt.Errorf("%d samples from %v", o.SampleSize, in[0])
	}
	y, r := env.New(o.To, in[0].Shape()[0], o.SampleSize), o.start()
	classes := in[0].Shape()[1]
	if classes == 0 && y.Len() > 0 {
		return nil, fmt.Errorf("there are no classes to draw from")
	}
	weights := ir.Make[float64](env, classes)
	for b := range in[0].Shape()[0] {
		largest, total := math.Inf(-1), 0.0
		for k := range weights {
			weights[k] = in[0].Float64(b*classes + k)
			largest = max(largest, weights[k])
		}
		for k, w := range weights {
			weights[k] = math.Exp(w - largest)
			total += weights[k]
		}
		for i := range o.SampleSize {
			env.Work(classes)
			left, k := r.Float64()*total, 0
			for ; k < classes-1 && left >= weights[k]; k++ {
				left -= weights[k]
			}
			y.SetInt64(b*o.SampleSize+i, int64(k))
		}
	}
	return []*tensor.Tensor{y}, nil
}
