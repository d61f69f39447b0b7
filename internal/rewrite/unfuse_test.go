package rewrite

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// An unfuser writes an encoder layer in primitives, in one of the many equal ways: operands swapped, products and sums
// grouped at will, scales and transposes here or there.
type unfuser struct {
	t *testing.T
	r *rand.Rand
	g *ir.Graph
}

const (
	unfusedHidden = 8
	unfusedHeads  = 2
)

func (u *unfuser) coin() bool { return u.r.IntN(2) == 0 }

func (u *unfuser) emit(op ir.Op, in ...*ir.Value) *ir.Value {
	out, err := u.g.Append(op, in)
	require.NoError(u.t, err)
	return out[0]
}

func (u *unfuser) bin(fn ir.BinaryFn, a, b *ir.Value) *ir.Value {
	if commutative[fn] && u.coin() {
		a, b = b, a
	}
	return u.emit(ir.Binary{Fn: fn}, a, b)
}

func (u *unfuser) un(fn ir.UnaryFn, x *ir.Value) *ir.Value { return u.emit(ir.Unary{Fn: fn}, x) }

// all combines values in a random order and grouping.
func (u *unfuser) all(fn ir.BinaryFn, vs ...*ir.Value) *ir.Value {
	u.r.Shuffle(len(vs), func(i, j int) { vs[i], vs[j] = vs[j], vs[i] })
	for len(vs) > 1 {
		i := u.r.IntN(len(vs) - 1)
		vs[i] = u.bin(fn, vs[i], vs[i+1])
		vs = append(vs[:i+1], vs[i+2:]...)
	}
	return vs[0]
}

func (u *unfuser) num(x float64) *ir.Value {
	return u.g.NewConst("", tensor.FromSlice([]float32{float32(x)}, make([]int, 0)...))
}

func (u *unfuser) weight(shape ...int) *ir.Value {
	t := tensor.New(tensor.F32, shape...)
	for i := range t.Len() {
		t.SetFloat64(i, u.r.Float64()-0.5)
	}
	return u.g.NewConst("w", t)
}

func (u *unfuser) mean(x *ir.Value) *ir.Value {
	return u.emit(ir.Reduce{Fn: ir.Mean, Axes: []int{len(x.Type.Shape) - 1}, KeepDims: true}, x)
}

func (u *unfuser) square(x *ir.Value) *ir.Value {
	if u.coin() {
		return u.emit(ir.Binary{Fn: ir.Pow}, x, u.num(2))
	}
	return u.bin(ir.Mul, x, x)
}

func (u *unfuser) norm(x *ir.Value) *ir.Value {
	c := u.emit(ir.Binary{Fn: ir.Sub}, x, u.mean(x))
	variance := u.bin(ir.Add, u.mean(u.square(c)), u.num(1e-5))
	var y *ir.Value
	switch u.r.IntN(5) {
	case 0:
		y = u.emit(ir.Binary{Fn: ir.Div}, c, u.un(ir.Sqrt, variance))
	case 1:
		y = u.bin(ir.Mul, c, u.un(ir.Reciprocal, u.un(ir.Sqrt, variance)))
	case 2:
		y = u.bin(ir.Mul, c, u.emit(ir.Binary{Fn: ir.Div}, u.num(1), u.un(ir.Sqrt, variance)))
	case 3:
		y = u.bin(ir.Mul, c, u.emit(ir.Binary{Fn: ir.Pow}, variance, u.num(-0.5)))
	default:
		y = u.emit(ir.Binary{Fn: ir.Div}, c, u.emit(ir.Binary{Fn: ir.Pow}, variance, u.num(0.5)))
	}
	return u.bin(ir.Add, u.bin(ir.Mul, y, u.weight(unfusedHidden)), u.weight(unfusedHidden))
}

func (u *unfuser) gelu(x *ir.Value) *ir.Value {
	var arg *ir.Value
	if u.coin() {
		arg = u.emit(ir.Binary{Fn: ir.Div}, x, u.num(math.Sqrt2))
	} else {
		arg = u.bin(ir.Mul, x, u.num(math.Sqrt(0.5)))
	}
	s := u.bin(ir.Add, u.un(ir.Erf, arg), u.num(1))
	if u.coin() {
		return u.emit(ir.Binary{Fn: ir.Div}, u.bin(ir.Mul, x, s), u.num(2))
	}
	return u.all(ir.Mul, x, s, u.num(0.5))
}

// linear is x·w + b, over rows seen as one matrix or not, with w as it is or transposed.
func (u *unfuser) linear(x *ir.Value, n int) *ir.Value {
	shape := x.Type.Shape
	k := last(shape).Int()
	flat := u.coin()
	if flat {
		x = u.emit(ir.Reshape{Shape: ir.Shape{shape[0].Mul(shape[1]), ir.N(k)}}, x)
	}
	var y *ir.Value
	switch u.r.IntN(3) {
	case 0:
		y = u.emit(ir.MatMul{}, x, u.weight(k, n))
	case 1:
		y = u.emit(ir.MatMul{}, x, u.emit(ir.Transpose{Perm: []int{1, 0}}, u.weight(n, k)))
	default:
		y = u.emit(ir.MatMul{TransB: true}, x, u.weight(n, k))
	}
	back := func() {
		if flat {
			y = u.emit(ir.Reshape{Shape: ir.Shape{shape[0], shape[1], ir.N(n)}}, y)
			flat = false
		}
	}
	if u.coin() {
		back()
	}
	y = u.bin(ir.Add, y, u.weight(n))
	back()
	return y
}

// scaled multiplies by s, or divides by 1/s.
func (u *unfuser) scaled(x *ir.Value, s float64) *ir.Value {
	if u.coin() {
		return u.emit(ir.Binary{Fn: ir.Div}, x, u.num(1/s))
	}
	return u.bin(ir.Mul, x, u.num(s))
}

func (u *unfuser) attention(x, keep *ir.Value) *ir.Value {
	b, s, d := x.Type.Shape[0], x.Type.Shape[1], unfusedHidden/unfusedHeads
	split := func(v *ir.Value, perm ...int) *ir.Value {
		v = u.emit(ir.Reshape{Shape: ir.Shape{b, s, ir.N(unfusedHeads), ir.N(d)}}, v)
		return u.emit(ir.Transpose{Perm: perm}, v)
	}
	q, v := split(u.linear(x, unfusedHidden), 0, 2, 1, 3), split(u.linear(x, unfusedHidden), 0, 2, 1, 3)
	var k *ir.Value
	switch key := u.linear(x, unfusedHidden); u.r.IntN(3) {
	case 0:
		k = split(key, 0, 2, 3, 1)
	case 1:
		k = u.emit(ir.Transpose{Perm: []int{0, 1, 3, 2}}, split(key, 0, 2, 1, 3))
	default: // the heads in the batch for the time of the transpose
		k = u.emit(ir.Reshape{Shape: ir.Shape{b.Mul(ir.N(unfusedHeads)), s, ir.N(d)}}, split(key, 0, 2, 1, 3))
		k = u.emit(ir.Transpose{Perm: []int{0, 2, 1}}, k)
		k = u.emit(ir.Reshape{Shape: ir.Shape{b, ir.N(unfusedHeads), ir.N(d), s}}, k)
	}
	scale := 1 / math.Sqrt(float64(d))
	place := u.r.IntN(4)
	switch place {
	case 0:
		q = u.scaled(q, scale)
	case 1:
		k = u.scaled(k, scale)
	case 2:
		q, k = u.scaled(q, math.Sqrt(scale)), u.scaled(k, math.Sqrt(scale))
	}
	scores := u.emit(ir.MatMul{}, q, k)
	if place == 3 {
		scores = u.scaled(scores, scale)
	}
	fill, zero := u.num(-math.MaxFloat32), u.num(0)
	switch u.r.IntN(4) {
	case 0:
		scores = u.bin(ir.Add, scores, u.emit(ir.Where{}, keep, zero, fill))
	case 1:
		scores = u.emit(ir.Where{}, keep, scores, fill)
	case 2:
		scores = u.emit(ir.Where{}, u.un(ir.Not, keep), fill, scores)
	default:
		mask := u.emit(ir.Expand{Shape: ir.Shape{b, ir.N(1), s, s}}, u.emit(ir.Where{}, keep, zero, fill))
		scores = u.bin(ir.Add, scores, mask)
	}
	p := u.emit(ir.Softmax{Axis: 3}, scores)
	if u.coin() {
		p = u.emit(ir.Where{}, u.un(ir.IsNaN, p), zero, p)
	}
	o := u.emit(ir.Transpose{Perm: []int{0, 2, 1, 3}}, u.emit(ir.MatMul{}, p, v))
	return u.emit(ir.Reshape{Shape: x.Type.Shape}, o)
}

// TestUnfused writes encoder layers in random primitives; they come back as the same few ops, with equal results.
func TestUnfused(t *testing.T) {
	for seed := range uint64(100) {
		u := &unfuser{t: t, r: rand.New(rand.NewPCG(seed, 1)), g: ir.NewGraph("layer")}
		x := u.g.AddInput("x", ir.TensorOf(tensor.F32, ir.Sym("b"), ir.Sym("s"), ir.N(unfusedHidden)))
		mask := u.g.AddInput("mask", ir.TensorOf(tensor.Bool, ir.Sym("b"), ir.Sym("s")))
		keep := u.emit(ir.Reshape{Shape: ir.Shape{ir.Sym("b"), ir.N(1), ir.N(1), ir.Sym("s")}}, mask)
		a := u.linear(u.attention(x, keep), unfusedHidden)
		y := u.norm(u.bin(ir.Add, x, a))
		f := u.linear(u.gelu(u.linear(y, 2*unfusedHidden)), unfusedHidden)
		y = u.norm(u.bin(ir.Add, f, y))
		u.g.Outputs = []*ir.Value{y}
		require.NoError(t, ir.Verify(u.g))

		text := u.g.String()
		before := *u.g
		in := RandomInputs(&before, u.r)
		want, err := ir.Interpret(&before, in)
		require.NoError(t, err)

		_, err = Run(t.Context(), u.g, nil, Options{Level: O2, Verify: true})
		require.NoError(t, err)
		var steps []string
		for _, n := range u.g.Nodes {
			if k := n.Op.Kind(); !k.Has(ir.View) && k != ir.KindWhere && k != ir.KindUnary { // of the mask
				steps = append(steps, ir.OpName(n.Op))
			}
		}
		require.Equal(t, []string{"matmul", "attention", "matmul", "layernorm", "matmul", "matmul", "layernorm"}, steps,
			"seed %d\n%s\n%s", seed, text, u.g)
		got, err := ir.Interpret(u.g, in)
		require.NoError(t, err)
		requireClose(t, want[0], got[0], text)
	}
}
