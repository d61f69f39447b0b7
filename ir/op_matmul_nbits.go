package ir

import (
	"fmt"
	"math"

	"github.com/rlxc/rlxc/tensor"
)

// MatMulNBits is act(a·wᵀ + bias) + residual with weights of Bits bits (2, 4 or 8), quantised in blocks of Block elements along K, of which
// a whole column may be one: w[n,k] = (q − zero)·scale. Operands: a [..,K] of floats; quantised values u8 [N, blocks, Block·Bits/8], the
// first one of a byte in its low bits; scales [N·blocks] of a's type; zeros packed as the quantised values with a whole number of bytes a
// row, u8 [N·⌈blocks·Bits/8⌉], or of a's type [N·blocks], or nil for 2^(Bits−1); groups i32 [K], the block of each k, or nil for k/Block;
// bias [N]; residual of the result's shape. With Int8 (onnxruntime's accuracy_level 4) each block of a row of a is rounded first: to 127ths
// of its largest magnitude, ties to even.
type MatMulNBits struct {
	K, N, Bits, Block int
	Int8              bool
	Act               UnaryFn
}

// The operand positions of MatMulNBits.
const (
	NBitsA = iota
	NBitsWeights
	NBitsScales
	NBitsZeros
	NBitsGroups
	NBitsBias
	NBitsResidual
)

func (MatMulNBits) Kind() Kind { return KindMatMulNBits }

// Activation is the function of the epilogue.
func (o MatMulNBits) Activation() Unary { return Unary{Fn: o.Act} }

// Blocks is the number of blocks of a row of weights.
func (o MatMulNBits) Blocks() int { return (o.K + o.Block - 1) / o.Block }

// maxNBits bounds K, N and Block, so that no product of what follows from them overflows.
const maxNBits = 1 << 28

// Check reports sizes that no weights have.
func (o MatMulNBits) Check() error {
	for _, n := range []int{o.K, o.N, o.Block} {
		if n < 1 || n > maxNBits {
			return fmt.Errorf("sizes K = %d, N = %d and block_size = %d: they are from 1 to %d", o.K, o.N, o.Block, maxNBits)
		}
	}
	return nil
}

func (o MatMulNBits) Infer(in []*Value) ([]Type, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	a := in[NBitsA].Type
	if err := o.Act.checkEpilogue(); err != nil {
		return nil, err
	}
	if o.Bits != 2 && o.Bits != 4 && o.Bits != 8 {
		return nil, fmt.Errorf("weights of %d bits: 2, 4 and 8 are known", o.Bits)
	}
	if o.Block%16 != 0 || o.Int8 && o.Block&(o.Block-1) != 0 {
		return nil, fmt.Errorf("blocks of %d: a multiple of 16 is needed, a power of two where activations are rounded", o.Block)
	}
	if !a.DType.IsFloat() || len(a.Shape) < 1 || Same(a.Shape[len(a.Shape)-1], N(o.K)) == No {
		return nil, fmt.Errorf("a product of %v and [%d,%d]", a, o.K, o.N)
	}
	want := func(i int, d tensor.DType, n int) error {
		v := Operand(in, i)
		if v == nil {
			return nil
		}
		if v.Type.DType != d || Same(v.Type.Shape.Elements(), N(n)) == No {
			return fmt.Errorf("operand %d is %v where %d elements of %s are needed", i, v.Type, n, d)
		}
		return nil
	}
	zeros, zeroType := o.N*o.Blocks(), a.DType
	if z := Operand(in, NBitsZeros); z != nil && z.Type.DType == tensor.U8 {
		zeros, zeroType = o.N*((o.Blocks()*o.Bits+7)/8), tensor.U8
	}
	for _, err := range []error{
		want(NBitsWeights, tensor.U8, o.N*o.Blocks()*o.Block*o.Bits/8), want(NBitsScales, a.DType, o.N*o.Blocks()),
		want(NBitsZeros, zeroType, zeros), want(NBitsGroups, tensor.I32, o.K), want(NBitsBias, a.DType, o.N),
	} {
		if err != nil {
			return nil, err
		}
	}
	out := append(append(Shape{}, a.Shape[:len(a.Shape)-1]...), N(o.N))
	y := TensorOf(a.DType, out...)
	return []Type{y}, checkResidual(Operand(in, NBitsResidual), y)
}

// Weight returns the weights that the quantised values stand for, [N,K] of the scales' type.
func (o MatMulNBits) Weight(env *Env, quantized, scales, zeros, groups *tensor.Tensor) (*tensor.Tensor, error) {
	w := env.New(scales.DType(), o.N, o.K)
	blocks, per := o.Blocks(), 8/o.Bits
	bitsOf := func(t *tensor.Tensor, row, rowBytes, i int) float64 {
		return float64(t.Bytes()[row*rowBytes+i/per] >> (i % per * o.Bits) & (1<<o.Bits - 1))
	}
	for n := range o.N {
		for k := range env.Range(o.K) {
			block := k / o.Block
			if groups != nil {
				if block = int(groups.Int64(k)); block < 0 || block >= blocks {
					return nil, fmt.Errorf("g_idx[%d] is %d: there are %d blocks", k, block, blocks)
				}
			}
			zero := math.Ldexp(1, o.Bits-1)
			switch {
			case zeros == nil:
			case zeros.DType() == tensor.U8:
				zero = bitsOf(zeros, n, (blocks+per-1)/per, block)
			default:
				zero = zeros.Float64(n*blocks + block)
			}
			w.SetFloat64(n*o.K+k, (bitsOf(quantized, n, blocks*o.Block/per, k)-zero)*scales.Float64(n*blocks+block))
		}
	}
	return w, nil
}

func (o MatMulNBits) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	w, err := o.Weight(env, in[NBitsWeights], in[NBitsScales], Operand(in, NBitsZeros), Operand(in, NBitsGroups))
	if err != nil {
		return nil, err
	}
	a := in[NBitsA]
	s := a.Shape()
	rows, shape := s[:len(s)-1].Elements(), append(s[:len(s)-1].Clone(), o.N)
	residual := Operand(in, NBitsResidual)
	if residual != nil {
		residual = residual.Reshape(rows, o.N)
	}
	wide := a
	if o.Int8 {
		wide = o.rounded(env, a)
	}
	out, err := MatMul{TransB: true, Act: o.Act}.Eval(env, []*tensor.Tensor{wide.Reshape(rows, o.K), w, Operand(in, NBitsBias), residual})
	if err != nil {
		return nil, err
	}
	if !o.Int8 {
		return []*tensor.Tensor{out[0].Reshape(shape...)}, nil
	}
	y := env.New(a.DType(), shape...)
	for i := range env.Range(y.Len()) {
		y.SetFloat64(i, out[0].Float64(i))
	}
	return []*tensor.Tensor{y}, nil
}

// rounded is a with every block rounded to 8 bits.
func (o MatMulNBits) rounded(env *Env, a *tensor.Tensor) *tensor.Tensor {
	y, v := env.New(tensor.F64, a.Shape()...), env.Float64s(a)
	for row := 0; row < len(v); row += o.K {
		for k := 0; k < o.K; k += o.Block {
			block := v[row+k : row+min(k+o.Block, o.K)]
			var largest float32
			for _, x := range block {
				largest = max(largest, float32(math.Abs(x)))
			}
			if largest == 0 {
				continue
			}
			scale, inverse := largest/127, 127/largest
			for i, x := range block {
				y.SetFloat64(row+k+i, math.RoundToEven(float64(float32(x)*inverse))*float64(scale))
			}
		}
	}
	return y
}
