package ir

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/tensor"
)

// MatMul is act(Alpha·a·b + bias) + residual, the product of numpy.matmul over the last two axes with the leading ones broadcast, b taken
// transposed when TransB, in one element type with sums in float64 (Eval) or float32 and better (kernels). A b of 16-bit floats stands for
// the same numbers in an a's f32. Operands: a [..,M,K], b [..,K,N] ([..,N,K] with TransB), bias [N] or nil, residual of the result's shape
// or nil. Alpha 0 means 1. Integer operands give the exact wrapped sum, and have neither Alpha nor Act.
type MatMul struct {
	TransB            bool
	Alpha             float32
	Act               UnaryFn
	ActAlpha, ActBeta float32 // Act's parameters, where it has some
}

// Activation is act.
func (o MatMul) Activation() Unary { return Unary{Fn: o.Act, Alpha: o.ActAlpha, Beta: o.ActBeta} }

// The operand positions of MatMul.
const (
	MatMulA = iota
	MatMulB
	MatMulBias
	MatMulResidual
)

func (MatMul) Kind() Kind { return KindMatMul }

// Scale is Alpha, or 1 where it was left out.
func (o MatMul) Scale() float32 {
	if o.Alpha == 0 {
		return 1
	}
	return o.Alpha
}

func (o MatMul) Infer(in []*Value) ([]Type, error) {
	a, b := in[MatMulA].Type, in[MatMulB].Type
	if half := b.DType == tensor.F16 || b.DType == tensor.BF16; a.DType != b.DType && !(half && a.DType == tensor.F32) {
		return nil, fmt.Errorf("matmul of %s and %s", a.DType, b.DType)
	}
	if !a.DType.IsFloat() && (!a.DType.IsInt() || o.Scale() != 1 || o.Act != NoUnary) {
		return nil, fmt.Errorf("this matmul is not defined for %s", a.DType)
	}
	if o.Act >= NumUnary || o.Act != NoUnary && o.Activation().Real() == nil {
		return nil, fmt.Errorf("a product followed by %s", o.Act)
	}
	if len(a.Shape) < 2 || len(b.Shape) < 2 {
		return nil, fmt.Errorf("matmul of %v and %v needs at least two axes each", a, b)
	}
	ra, rb := len(a.Shape), len(b.Shape)
	k, n := b.Shape[rb-2], b.Shape[rb-1]
	if o.TransB {
		k, n = n, k
	}
	if Same(a.Shape[ra-1], k) == No {
		return nil, fmt.Errorf("inner sizes of %v and %v differ: %v and %v", a, b, a.Shape[ra-1], k)
	}
	lead, err := BroadcastShapes(a.Shape[:ra-2], b.Shape[:rb-2])
	if err != nil {
		return nil, err
	}
	out := append(append(make(Shape, 0, len(lead)+2), lead...), a.Shape[ra-2], n)
	for _, v := range in[2:] {
		if v != nil && v.Type.DType != a.DType {
			return nil, fmt.Errorf("a bias or residual of %s for a matmul of %s", v.Type.DType, a.DType)
		}
	}
	if bias := Operand(in, MatMulBias); bias != nil && (len(bias.Type.Shape) != 1 || Same(bias.Type.Shape[0], n) == No) {
		return nil, fmt.Errorf("bias %v for %v columns", bias.Type, n)
	}
	y := TensorOf(a.DType, out...)
	return []Type{y}, checkResidual(Operand(in, MatMulResidual), y)
}

// checkResidual fails if there is a residual whose type or shape differs from the result's.
func checkResidual(residual *Value, y Type) error {
	if residual != nil && (residual.Type.DType != y.DType ||
		!slices.EqualFunc(residual.Type.Shape, y.Shape, func(a, b Dim) bool { return Same(a, b) != No })) {
		return fmt.Errorf("residual %v for %v", residual.Type, y)
	}
	return nil
}

func (o MatMul) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	a, b := in[MatMulA], in[MatMulB]
	bias, residual := Operand(in, MatMulBias), Operand(in, MatMulResidual)
	sa, sb := a.Shape(), b.Shape()
	m, k := sa[len(sa)-2], sa[len(sa)-1]
	n, rs, cs := sb[len(sb)-1], sb[len(sb)-1], 1 // strides of b's rows and columns
	if o.TransB {
		n, rs, cs = sb[len(sb)-2], 1, sb[len(sb)-1]
	}
	lead, err := tensor.Broadcast(sa[:len(sa)-2], sb[:len(sb)-2])
	if err != nil {
		return nil, err
	}
	y := env.New(a.DType(), append(lead.Clone(), m, n)...)
	ia, ib := broadcastIndex(sa[:len(sa)-2], lead), broadcastIndex(sb[:len(sb)-2], lead)
	if !a.DType().IsFloat() {
		for t := range env.Range(lead.Elements()) {
			for i := range m {
				for j := range n {
					env.Work(k)
					var s int64
					for p := range k {
						s += a.Int64(ia(t)*m*k+i*k+p) * b.Int64(ib(t)*k*n+p*rs+j*cs)
					}
					if bias != nil {
						s += bias.Int64(j)
					}
					if residual != nil {
						s += residual.Int64((t*m+i)*n + j)
					}
					y.SetInt64((t*m+i)*n+j, s)
				}
			}
		}
		return []*tensor.Tensor{y}, nil
	}
	af, bf := env.Float64s(a), env.Float64s(b)
	act := func(x float64) float64 { return x }
	if fn := o.Act; fn != NoUnary {
		act = func(x float64) float64 { return unaryTable[fn].real(x, o.Activation()) }
	}
	row := Make[float64](env, n)
	for t := range env.Range(lead.Elements()) {
		for i := range m {
			clear(row)
			for p := range k {
				env.Work(n)
				x := af[ia(t)*m*k+i*k+p]
				at := ib(t)*k*n + p*rs
				for j := range row {
					row[j] += x * bf[at+j*cs]
				}
			}
			for j, s := range row {
				s *= float64(o.Scale())
				if bias != nil {
					s += bias.Float64(j)
				}
				s = act(s)
				if residual != nil {
					s += residual.Float64((t*m+i)*n + j)
				}
				y.SetFloat64((t*m+i)*n+j, s)
			}
		}
	}
	return []*tensor.Tensor{y}, nil
}
