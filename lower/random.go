package lower

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Random numbers. ONNX does not say which generator: a node with a seed gives the same numbers in every run, one without
// other numbers each time.
var randomRows = []row{
	{"RandomUniform", 1, lowerRandom(uniform, false)},
	{"RandomNormal", 1, lowerRandom(normal, false)},
	{"RandomUniformLike", 1, lowerRandom(uniform, true)},
	{"RandomNormalLike", 1, lowerRandom(normal, true)},
	{"Bernoulli", 15, lowerBernoulli},
	{"Multinomial", 7, lowerMultinomial},
}

// generator reads the attribute seed.
func (c *Context) generator() func() *rand.Rand {
	seed, fixed := attr[float32](c, "seed")
	return func() *rand.Rand {
		if fixed {
			return rand.New(rand.NewPCG(uint64(math.Float32bits(seed)), 0))
		}
		return rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
}

func uniform(c *Context) func(*rand.Rand) float64 {
	low, high := float64(c.AttrFloat("low", 0)), float64(c.AttrFloat("high", 1))
	return func(r *rand.Rand) float64 { return low + (high-low)*r.Float64() }
}

func normal(c *Context) func(*rand.Rand) float64 {
	mean, scale := float64(c.AttrFloat("mean", 0)), float64(c.AttrFloat("scale", 1))
	return func(r *rand.Rand) float64 { return mean + scale*r.NormFloat64() }
}

func lowerRandom(distribution func(*Context) func(*rand.Rand) float64, like bool) func(*Context) []*ir.Value {
	return func(c *Context) []*ir.Value {
		t := ir.TensorOf(tensor.F32)
		if like {
			t = c.In(0).Type
		} else {
			sizes, ok := c.AttrInts("shape")
			if !ok {
				c.Failf("attribute shape is missing")
			}
			for i, n := range sizes {
				if n < 0 {
					c.Failf("axis %d has size %d", i, n)
				}
			}
			t.Shape = ir.Dims(sizes...)
		}
		if t.DType = tensor.DType(c.AttrInt("dtype", int(t.DType))); !t.DType.IsFloat() {
			c.Failf("random numbers of type %v", t.DType)
		}
		draw, begin := distribution(c), c.generator()
		run := func(o ir.Custom, _ []*tensor.Tensor) ([]*tensor.Tensor, error) {
			y, r := resultOf(o, 0), begin()
			for i := range y.Len() {
				y.SetFloat64(i, draw(r))
			}
			return []*tensor.Tensor{y}, nil
		}
		return c.Kernel(run, t)
	}
}

// lowerBernoulli gives 1 with the probability that the operand says.
func lowerBernoulli(c *Context) []*ir.Value {
	t := c.In(0).Type
	to, begin := t, c.generator()
	if to.DType = tensor.DType(c.AttrInt("dtype", int(t.DType))); !to.DType.Valid() || to.DType == tensor.String || to.DType.IsComplex() {
		c.Failf("random numbers of type %v", to.DType)
	}
	run := func(o ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		y, r := resultOf(o, 0), begin()
		for i := range y.Len() {
			if r.Float64() < in[0].Float64(i) {
				y.SetFloat64(i, 1)
			}
		}
		return []*tensor.Tensor{y}, nil
	}
	return c.Kernel(run, to)
}

// lowerMultinomial draws classes [batch, sample_size] by their unnormalised log-probabilities [batch, classes].
func lowerMultinomial(c *Context) []*ir.Value {
	t, n, begin := c.In(0).Type, c.AttrInt("sample_size", 1), c.generator()
	to := tensor.DType(c.AttrInt("dtype", int(tensor.I32)))
	if len(t.Shape) != 2 || n < 1 || to != tensor.I32 && to != tensor.I64 {
		c.Failf("%d samples of type %v from %v", n, to, t)
	}
	run := func(o ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		y, r := resultOf(o, 0), begin()
		classes := in[0].Shape()[1]
		if classes == 0 && y.Len() > 0 {
			return nil, fmt.Errorf("there are no classes to draw from")
		}
		weights := make([]float64, classes)
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
			for i := range n {
				left, k := r.Float64()*total, 0
				for ; k < classes-1 && left >= weights[k]; k++ {
					left -= weights[k]
				}
				y.SetInt64(b*n+i, int64(k))
			}
		}
		return []*tensor.Tensor{y}, nil
	}
	return c.Kernel(run, ir.TensorOf(to, t.Shape[0], ir.N(n)))
}
