package lower

import (
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

var randomRows = []row{
	{"RandomUniform", 1, lowerRandom(uniform, false)},
	{"RandomNormal", 1, lowerRandom(normal, false)},
	{"RandomUniformLike", 1, lowerRandom(uniform, true)},
	{"RandomNormalLike", 1, lowerRandom(normal, true)},
	{"Bernoulli", 15, lowerBernoulli},
	{"Multinomial", 7, lowerMultinomial},
}

// generator reads the attribute seed.
func (c *context) generator() ops.Generator {
	seed, fixed := attr[float32](c, "seed")
	return ops.Generator{Seeded: fixed, Seed: seed}
}

func uniform(c *context, to ops.Typed) ir.Op {
	return ops.RandomUniform{Typed: to, Generator: c.generator(), Low: c.AttrFloat("low", 0), High: c.AttrFloat("high", 1)}
}

func normal(c *context, to ops.Typed) ir.Op {
	return ops.RandomNormal{Typed: to, Generator: c.generator(), Mean: c.AttrFloat("mean", 0), Scale: c.AttrFloat("scale", 1)}
}

func lowerRandom(distribution func(*context, ops.Typed) ir.Op, like bool) func(*context) []*ir.Value {
	return func(c *context) []*ir.Value {
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
			c.Failf("random numbers of type %v: want floats", t.DType)
		}
		return c.opaque(distribution(c, typed(t)))
	}
}

// typed is the types of the results of an operator of package ops.
func typed(types ...ir.Type) ops.Typed { return ops.Typed{Types: types} }

// lowerBernoulli returns 1 with the probability that the operand says.
func lowerBernoulli(c *context) []*ir.Value {
	to := c.In(0).Type
	if to.DType = tensor.DType(c.AttrInt("dtype", int(to.DType))); !to.DType.Valid() || to.DType == tensor.String || to.DType.IsComplex() {
		c.Failf("random numbers of type %v: want numbers or booleans", to.DType)
	}
	return c.opaque(ops.Bernoulli{Typed: typed(to), Generator: c.generator()})
}

// lowerMultinomial draws classes [batch, sample_size] by their unnormalised log-probabilities [batch, classes].
func lowerMultinomial(c *context) []*ir.Value {
	t, n := c.In(0).Type, c.AttrInt("sample_size", 1)
	to := tensor.DType(c.AttrInt("dtype", int(tensor.I32)))
	if len(t.Shape) != 2 || n < 1 || to != tensor.I32 && to != tensor.I64 {
		c.Failf("%d samples of type %v from %v: want at least one, i32 or i64, from a matrix", n, to, t)
	}
	return c.opaque(ops.Multinomial{Typed: typed(ir.TensorOf(to, t.Shape[0], ir.N(n))), Generator: c.generator(), SampleSize: n, To: to})
}
