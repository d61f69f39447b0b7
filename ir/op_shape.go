package ir

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/rlxc/rlxc/tensor"
)

// Reshape gives the elements of its operand, in row-major order, another shape. Shape has no wildcards: the lowering
// has solved them.
type Reshape struct{ Shape []Dim }

func (Reshape) Kind() Kind { return KindReshape }

// Infer demands the same number of elements.
func (o Reshape) Infer(in []*Value) ([]Type, error) {
	t := in[0].Type
	if !t.Unranked && Same(t.Shape.Elements(), Shape(o.Shape).Elements()) == No {
		return nil, fmt.Errorf("%v cannot be seen as %v: %v and %v elements", t.Shape, Shape(o.Shape), t.Shape.Elements(),
			Shape(o.Shape).Elements())
	}
	if err := nonNegativeSizes(o.Shape); err != nil {
		return nil, err
	}
	return []Type{TensorOf(t.DType, o.Shape...)}, nil
}

func nonNegativeSizes(s []Dim) error {
	for i, d := range s {
		if k, ok := d.Const(); ok && k < 0 {
			return fmt.Errorf("axis %d of %v has a negative size", i, Shape(s))
		}
	}
	return nil
}

func (o Reshape) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return []*tensor.Tensor{env.Clone(in[0]).Reshape(sizes(o.Shape)...)}, nil
}

func (Reshape) Content(in []*Value) []Dim { return in[0].Dims }

// sizes reads a bound shape.
func sizes(s []Dim) tensor.Shape {
	out := make(tensor.Shape, len(s))
	for i, d := range s {
		out[i] = d.Int()
	}
	return out
}

// Transpose permutes axes: axis i of the result is axis Perm[i] of the operand.
type Transpose struct{ Perm []int }

func (Transpose) Kind() Kind { return KindTranspose }

func (o Transpose) Infer(in []*Value) ([]Type, error) {
	t := in[0].Type
	if len(o.Perm) != len(t.Shape) {
		return nil, fmt.Errorf("permutation %v for rank %d", o.Perm, len(t.Shape))
	}
	s := make(Shape, len(o.Perm))
	seen := make([]bool, len(o.Perm))
	for i, p := range o.Perm {
		if p < 0 || p >= len(s) || seen[p] {
			return nil, fmt.Errorf("%v is not a permutation of the axes", o.Perm)
		}
		seen[p] = true
		s[i] = t.Shape[p]
	}
	return []Type{TensorOf(t.DType, s...)}, nil
}

func (o Transpose) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x := in[0]
	st := x.Shape().Strides()
	shape, strides := make(tensor.Shape, len(o.Perm)), make([]int, len(o.Perm))
	for i, p := range o.Perm {
		shape[i], strides[i] = x.Shape()[p], st[p]
	}
	return []*tensor.Tensor{CopyStrided(env, x, shape, strides, 0)}, nil
}

// CopyStrided reads x at off + Σ index·stride, in elements, into a new row-major tensor.
func CopyStrided(env *Env, x *tensor.Tensor, shape tensor.Shape, strides []int, off int) *tensor.Tensor {
	y := env.New(x.DType(), shape...)
	if y.Len() > 0 && (Layout{Shape: shape, Strides: strides}).Contiguous() {
		env.Work(y.Len())
		copyRun(y, 0, x, off, y.Len())
		return y
	}
	switch w := x.DType().Size(); {
	case y.Len() == 0:
	case x.DType() == tensor.String || w != 1 && w != 2 && w != 4 && w != 8:
		walk(shape, strides, shape.Strides(), off, 0, func(from, to int) {
			env.Work(1)
			copyElement(y, to, x, from)
		})
	case w == 1:
		copyTiles[[1]byte](env, y, x, shape, strides, off)
	case w == 2:
		copyTiles[[2]byte](env, y, x, shape, strides, off)
	case w == 4:
		copyTiles[[4]byte](env, y, x, shape, strides, off)
	case w == 8:
		copyTiles[[8]byte](env, y, x, shape, strides, off)
	}
	return y
}

// walk calls f for each index of a shape, in row-major order, with the offsets of the index by two lists of strides.
func walk(shape, a, b []int, atA, atB int, f func(atA, atB int)) {
	if len(shape) == 0 {
		f(atA, atB)
		return
	}
	for range shape[0] {
		walk(shape[1:], a[1:], b[1:], atA, atB, f)
		atA, atB = atA+a[0], atB+b[0]
	}
}

// copyTiles is CopyStrided of elements T, which need no alignment. Two axes, the last one and a long one that is nearer in x, are taken
// in tiles, so that every line of memory is read and written while it is in the cache.
func copyTiles[T any](env *Env, y, x *tensor.Tensor, shape tensor.Shape, strides []int, off int) {
	const tile = 16
	dst, src := elementsOf[T](y), elementsOf[T](x)
	across, down := len(shape)-1, -1
	if strides[across] == 1 {
		walk(shape[:across], strides, shape.Strides(), off, 0, func(from, to int) {
			env.Work(shape[across])
			copy(dst[to:][:shape[across]], src[from:])
		})
		return
	}
	var rest [3][]int // the other axes
	for k, n := range shape[:across] {
		if max(strides[k], -strides[k]) < max(strides[across], -strides[across]) && (down < 0 || n > shape[down]) {
			down = k
		}
	}
	rows, row, rowTo := 1, 0, 0
	for k, to := range shape.Strides()[:across] {
		if k == down {
			rows, row, rowTo = shape[k], strides[k], to
			continue
		}
		rest[0], rest[1], rest[2] = append(rest[0], shape[k]), append(rest[1], strides[k]), append(rest[2], to)
	}
	for r := 0; r < rows; r += tile {
		for c := 0; c < shape[across]; c += tile {
			high, wide := min(tile, rows-r), min(tile, shape[across]-c)
			walk(rest[0], rest[1], rest[2], off+r*row+c*strides[across], r*rowTo+c, func(from, to int) {
				env.Work(high * wide)
				for range high {
					at := from
					for i := range dst[to:][:wide] {
						dst[to+i] = src[at]
						at += strides[across]
					}
					from, to = from+row, to+rowTo
				}
			})
		}
	}
}

// elementsOf is the memory of a tensor as that many bytes each.
func elementsOf[T any](t *tensor.Tensor) []T {
	var element T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(t.Bytes()))), len(t.Bytes())/int(unsafe.Sizeof(element)))
}

// copyElement sets y[i] = x[j] for two tensors of one type.
func copyElement(y *tensor.Tensor, i int, x *tensor.Tensor, j int) {
	switch w := x.DType().Size(); {
	case x.DType() == tensor.String:
		y.Strings()[i] = x.Strings()[j]
	case w > 0:
		copy(y.Bytes()[i*w:(i+1)*w], x.Bytes()[j*w:(j+1)*w])
	case x.DType() == tensor.F4E2M1:
		y.SetFloat64(i, x.Float64(j))
	default:
		y.SetInt64(i, x.Int64(j))
	}
}

// copyRun sets y[i:i+n] = x[j:j+n] for two tensors of one type.
func copyRun(y *tensor.Tensor, i int, x *tensor.Tensor, j, n int) {
	if w := x.DType().Size(); w > 0 {
		copy(y.Bytes()[i*w:(i+n)*w], x.Bytes()[j*w:(j+n)*w])
		return
	}
	for k := range n {
		copyElement(y, i+k, x, j+k)
	}
}

// Slice takes Sizes[i] elements of each axis, from Starts[i] on, every Steps[i]-th; a negative step walks backwards. The
// lowering has normalised starts and clamped sizes.
type Slice struct {
	Starts, Sizes []Dim
	Steps         []int
}

func (Slice) Kind() Kind { return KindSlice }

// Infer refuses a slice that is known to leave its operand.
func (o Slice) Infer(in []*Value) ([]Type, error) {
	t := in[0].Type
	if len(o.Starts) != len(t.Shape) || len(o.Sizes) != len(t.Shape) || len(o.Steps) != len(t.Shape) {
		return nil, fmt.Errorf("slice of %d axes for rank %d", len(o.Starts), len(t.Shape))
	}
	for i, d := range t.Shape {
		if o.Steps[i] == 0 {
			return nil, fmt.Errorf("axis %d: step 0", i)
		}
		last := o.Starts[i].Add(o.Sizes[i].Sub(N(1)).scale(int64(o.Steps[i])))
		outside := func(p Dim) bool { return LessEqual(d, p) == Yes || LessEqual(N(0), p) == No }
		if LessEqual(N(1), o.Sizes[i]) == Yes && (outside(o.Starts[i]) || outside(last)) { // a slice of nothing may begin anywhere
			return nil, fmt.Errorf("axis %d: elements %v to %v of %v", i, o.Starts[i], last, d)
		}
	}
	if err := nonNegativeSizes(o.Sizes); err != nil {
		return nil, err
	}
	return []Type{TensorOf(t.DType, o.Sizes...)}, nil
}

func (o Slice) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x := in[0]
	strides := x.Shape().Strides()
	off := 0
	for i := range strides {
		off += o.Starts[i].Int() * strides[i]
		strides[i] *= o.Steps[i]
	}
	return []*tensor.Tensor{CopyStrided(env, x, sizes(o.Sizes), strides, off)}, nil
}

func (o Slice) Content(in []*Value) []Dim {
	x := in[0].Dims
	if x == nil || len(o.Starts) != 1 {
		return nil
	}
	start, ok1 := o.Starts[0].Const()
	n, ok2 := o.Sizes[0].Const()
	if !ok1 || !ok2 {
		return nil
	}
	out := make([]Dim, n)
	for i := range out {
		out[i] = x[start+i*o.Steps[0]]
	}
	return out
}

// Expand broadcasts its operand to Shape, whose axes are equal to the operand's or meet a 1 there.
type Expand struct{ Shape []Dim }

func (Expand) Kind() Kind { return KindExpand }

// Infer implements Op. The operand must broadcast to exactly Shape.
func (o Expand) Infer(in []*Value) ([]Type, error) {
	t := in[0].Type
	if err := broadcastsTo(t.Shape, o.Shape); err != nil {
		return nil, err
	}
	if err := nonNegativeSizes(o.Shape); err != nil {
		return nil, err
	}
	return []Type{TensorOf(t.DType, o.Shape...)}, nil
}

func (o Expand) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x, shape := in[0], sizes(o.Shape)
	st := x.Shape().Strides()
	strides := make([]int, len(shape))
	off := len(shape) - len(st)
	for i, d := range x.Shape() {
		switch d {
		case 1:
		case shape[off+i]:
			strides[off+i] = st[i]
		default:
			return nil, fmt.Errorf("%v does not expand to %v", x.Shape(), shape)
		}
	}
	return []*tensor.Tensor{CopyStrided(env, x, shape, strides, 0)}, nil
}

func (o Expand) Content(in []*Value) []Dim {
	if len(in[0].Dims) != 1 || len(o.Shape) != 1 {
		return nil
	}
	n, ok := o.Shape[0].Const()
	if !ok || n < 0 || n > maxDims {
		return nil
	}
	return slices.Repeat(in[0].Dims, n)
}

// Copy copies its operand to row-major order. Legalisation inserts it before a kernel that cannot read a strided view, and before outputs
// that would share memory with an input.
type Copy struct{}

func (Copy) Kind() Kind { return KindCopy }

func (Copy) Infer(in []*Value) ([]Type, error) { return []Type{in[0].Type}, nil }

func (Copy) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return []*tensor.Tensor{env.Clone(in[0])}, nil
}

func (Copy) Content(in []*Value) []Dim { return in[0].Dims }

// Materialize copies what a view reads into separate memory. Legalisation uses it for a view that strides cannot express, such as a slice
// with negative steps.
type Materialize struct{ View Op }

func (Materialize) Kind() Kind { return KindMaterialize }

func (o Materialize) Infer(in []*Value) ([]Type, error) {
	if o.View == nil || !o.View.Kind().Has(View) {
		return nil, errors.New("materialize needs a view")
	}
	return o.View.Infer(in)
}

func (o Materialize) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return o.View.Eval(env, in)
}

// Concat joins its operands along Axis.
type Concat struct{ Axis int }

func (Concat) Kind() Kind { return KindConcat }

func (o Concat) Infer(in []*Value) ([]Type, error) {
	if i := slices.Index(in, nil); i >= 0 {
		return nil, fmt.Errorf("concat lacks operand %d", i)
	}
	first := in[0].Type
	if err := axisWithin(o.Axis, len(first.Shape)); err != nil {
		return nil, err
	}
	s := slices.Clone(first.Shape)
	for _, v := range in[1:] {
		t := v.Type
		if t.DType != first.DType || len(t.Shape) != len(s) {
			return nil, fmt.Errorf("%v beside %v", t, first)
		}
		for i, d := range t.Shape {
			switch {
			case i == o.Axis:
				s[i] = s[i].Add(d)
			case Same(s[i], d) == No:
				return nil, fmt.Errorf("%v beside %v: axis %d differs", t, first, i)
			case len(d.terms) == 0:
				s[i] = d // a number says more than a symbol
			}
		}
	}
	return []Type{TensorOf(first.DType, s...)}, nil
}

func (o Concat) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	shape := in[0].Shape().Clone()
	for _, x := range in[1:] {
		shape[o.Axis] += x.Shape()[o.Axis]
	}
	y := env.New(in[0].DType(), shape...)
	outer, inner := shape[:o.Axis].Elements(), shape[o.Axis+1:].Elements()
	at := 0
	for _, x := range in {
		run := x.Shape()[o.Axis] * inner
		for b := range env.Range(outer) {
			env.Work(run)
			copyRun(y, b*shape[o.Axis]*inner+at, x, b*run, run)
		}
		at += run
	}
	return []*tensor.Tensor{y}, nil
}

func (o Concat) Content(in []*Value) []Dim {
	var out []Dim
	for _, v := range in {
		if v.Dims == nil {
			return nil
		}
		out = append(out, v.Dims...)
	}
	return out
}

// DimsOp is the vector of sizes that ONNX's Shape and Size return, or a scalar.
type DimsOp struct {
	Dims   []Dim
	Scalar bool
	DType  tensor.DType
}

func (DimsOp) Kind() Kind { return KindDims }

func (o DimsOp) Infer([]*Value) ([]Type, error) {
	if !carriesDims(o.DType) {
		return nil, fmt.Errorf("sizes of type %s", o.DType)
	}
	if o.Scalar {
		return []Type{TensorOf(o.DType)}, nil
	}
	return []Type{TensorOf(o.DType, N(len(o.Dims)))}, nil
}

func (o DimsOp) Eval(*Env, []*tensor.Tensor) ([]*tensor.Tensor, error) {
	t, _ := o.Infer(nil)
	x, ok := contentOf(t[0], o.Content(nil))
	if !ok {
		return nil, fmt.Errorf("sizes %v are not bound", Shape(o.Dims))
	}
	return []*tensor.Tensor{x}, nil
}

// Content implements contenter. A list of no sizes, the shape of a scalar, is not nil, which stands for unknown content.
func (o DimsOp) Content([]*Value) []Dim { return append([]Dim{}, o.Dims...) }

// Range counts: Len integers from Start on, Step apart.
type Range struct {
	Start, Step, Len Dim
	DType            tensor.DType
}

func (Range) Kind() Kind { return KindRange }

func (o Range) Infer([]*Value) ([]Type, error) {
	if !o.DType.IsInt() {
		return nil, fmt.Errorf("range of %s", o.DType)
	}
	return []Type{TensorOf(o.DType, o.Len)}, nil
}

func (o Range) Eval(env *Env, _ []*tensor.Tensor) ([]*tensor.Tensor, error) {
	y := env.New(o.DType, o.Len.Int())
	for i := range env.Range(y.Len()) {
		y.SetInt64(i, int64(o.Start.Int())+int64(i)*int64(o.Step.Int()))
	}
	return []*tensor.Tensor{y}, nil
}

func (o Range) Content([]*Value) []Dim {
	n, ok := o.Len.Const()
	if !ok || n > maxDims {
		return nil
	}
	out := make([]Dim, n)
	for i := range out {
		out[i] = o.Start.Add(o.Step.scale(int64(i)))
	}
	return out
}

// ActCopy is a copy of an activation, made to keep an intermediate value for comparison. Rewrites do not change it, and liveness treats
// it as a custom operator.
type ActCopy struct{}

func (ActCopy) Kind() Kind { return KindActCopy }

func (ActCopy) Infer(in []*Value) ([]Type, error) { return Copy{}.Infer(in) }

func (ActCopy) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return Copy{}.Eval(env, in)
}
