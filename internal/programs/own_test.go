package programs

import (
	"math"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// own is the rounding errors that an op adds: strictly, and where roundings may move.
func (a *analyst) own(e *evaluation) (strict, loose [][]float64) {
	strict, loose = make([][]float64, len(e.out)), make([][]float64, len(e.out))
	y := e.out[0]
	u := roundoff(y.DType())
	both := func(b []float64) { strict[0], loose[0] = b, b }
	switch op := e.op.(type) {
	case ir.Unary:
		switch op.Fn {
		case ir.Neg, ir.Abs, ir.Relu, ir.Floor, ir.Ceil, ir.Round, ir.Sign, ir.Not, ir.BitwiseNot, ir.IsNaN, ir.IsInf:
		case ir.Sqrt, ir.Reciprocal, ir.LeakyRelu, ir.ThresholdedRelu, ir.Shrink:
			loose[0] = relative(y, 4*u)
		case ir.Gelu, ir.GeluTanh, ir.Silu: // x/2·(1+erf(x/√2)) and the like lose their last positions where the sum is small
			both(sum(relative(y, a.Ulps*u), sum(e.sensitivity(4 * u)[0],
				sum(relative(e.in[0].t, 4*roundoff(tensor.F32)), everywhere(y.Len(), a.Abs)))))
		default:
			both(sum(relative(y, a.Ulps*u), sum(e.sensitivity(4 * u)[0], everywhere(y.Len(), a.Abs))))
		}
	case ir.Binary:
		switch {
		case !y.DType().IsFloat():
		case op.Fn == ir.Add || op.Fn == ir.Sub:
			loose[0] = e.magnitude(ir.Binary{Fn: ir.Add}, 4*u)
		case op.Fn == ir.Mul || op.Fn == ir.Div || op.Fn == ir.PRelu:
			loose[0] = relative(y, 4*u)
		case op.Fn == ir.Pow:
			both(sum(relative(y, a.Ulps*u), e.sensitivity(4 * u)[0]))
		}
	case ir.Cast:
		if op.To.IsFloat() && e.in[0].t.DType() != op.To {
			loose[0] = relative(y, 2*u)
		}
	case ops.LabelEncoder, ops.Unique:
	case ir.Where, ir.Clip, ir.OneHot, ir.ScatterElements, ir.ScatterND, ir.ArgReduce, ir.DimsOp, ir.Range:
		if op, ok := op.(ir.ScatterElements); ok && op.Reduce != ir.NoReduction && y.DType().IsFloat() {
			loose[0] = relative(y, 4*u)
		}
	case ir.Reduce:
		strict[0], loose[0] = a.reduced(op, e)
	case ir.CumSum:
		if y.DType().IsFloat() {
			b := e.magnitude(op, float64(axisSize(e.in[0].t, op.Axis))*u)
			loose[0] = b
			if !e.exactSum(e.magnitude(op, 1)) {
				strict[0] = b
			}
		}
	case ir.Softmax:
		n := float64(axisSize(e.in[0].t, op.Axis))
		b := relative(y, (n+a.Ulps+8)*u)
		if op.Log {
			b = sum(sum(b, everywhere(y.Len(), (n+8)*u)), e.sensitivityBy(4 * u * largest(e.in[0].t))[0])
		} else { // the distance from the largest is rounded; those beyond 750 have no share in any type
			b = sum(b, e.shares(op.Axis, everywhere(y.Len(), 4*u*min(2*largest(e.in[0].t), 750))))
		}
		both(sum(b, everywhere(y.Len(), a.Abs)))
	case ir.MatMul:
		if y.DType().IsFloat() {
			k := float64(axisSize(e.in[0].t, e.in[0].t.Rank()-1))
			b := sum(e.magnitude(op, (k+4)*u), relative(y, 4*u))
			loose[0], strict[0] = b, b
			if op.Alpha == 0 && len(e.in) == 2 && e.exactSum(e.magnitude(op, 1)) {
				strict[0] = nil
			}
		}
	case ir.Quantize, ir.Dequantize, ir.DynamicQuantize:
		for k := range e.out {
			if e.out[k].DType().IsFloat() {
				loose[k] = relative(e.out[k], 4*u)
			}
		}
	default: // as many roundings as the largest operand has elements in all but its first axis
		n := 8.0
		for _, x := range e.in {
			if x != nil && x.t.Rank() > 0 && x.t.Len() > 0 {
				n = max(n, float64(x.t.Len()/x.t.Shape()[0]+8))
			}
		}
		scale := 0.0
		for _, x := range e.in {
			if x != nil && x.t.DType().IsFloat() {
				u = max(u, roundoff(x.t.DType()))
				scale = max(scale, largest(x.t))
			}
		}
		sensitive := e.sensitivityBy(n * u * scale)
		for k, y := range e.out {
			b := sensitive[k]
			if y.DType().IsFloat() {
				b = sum(b, everywhere(y.Len(), n*u*largest(y)+a.Abs*largest(y)))
			}
			strict[k], loose[k] = b, b
		}
		if op, ok := e.op.(ir.LayerNorm); ok && len(e.out) == 1 { // the mean is rounded, and the distance from it may be small
			b := e.normed(op, func(x *known) []float64 {
				if x == e.in[ir.LayerNormX] || x == ir.Operand(e.in, ir.LayerNormResidual) {
					return everywhere(x.t.Len(), n*u*largest(x.t))
				}
				return nil
			})
			strict[0], loose[0] = sum(strict[0], b), sum(loose[0], b)
		}
		if _, ok := e.op.(ops.TopK); ok { // which passes elements on
			strict, loose = make([][]float64, 2), make([][]float64, 2)
		}
	}
	return strict, loose
}

// reduced is own of a reduction.
func (a *analyst) reduced(op ir.Reduce, e *evaluation) (strict, loose []float64) {
	x, y := e.in[0].t, e.out[0]
	if !y.DType().IsFloat() || op.Fn == ir.MaxOf || op.Fn == ir.MinOf || y.Len() == 0 {
		return nil, nil
	}
	u := roundoff(y.DType())
	n := float64(x.Len()/y.Len() + 4)
	switch op.Fn {
	case ir.Sum, ir.Mean, ir.L1:
		b := sum(e.magnitude(op, n*u), relative(y, 4*u))
		total := op
		if op.Fn == ir.Mean {
			total.Fn = ir.Sum
		}
		if e.exactSum(e.magnitude(total, 1)) {
			if op.Fn == ir.Mean { // by a quotient or by a product
				return relative(y, 4*u), b
			}
			return nil, b
		}
		return b, b
	case ir.LogSum, ir.LogSumExp:
		b := sum(relative(y, (n+a.Ulps)*u), sum(e.sensitivity((n + 4) * u)[0], everywhere(y.Len(), n*u+a.Abs)))
		return b, b
	}
	b := relative(y, (n+a.Ulps)*u)
	least := n * leastOf[y.DType()] // that squares and products lose where they are small
	others := y
	if op.Fn == ir.Prod {
		larger := x.Clone()
		for i := range x.Len() {
			larger.SetFloat64(i, max(1, math.Abs(x.Float64(i))))
		}
		others = with1(op, larger)
	}
	for i := range b {
		switch size := math.Abs(y.Float64(i)); op.Fn {
		case ir.L2:
			b[i] += math.Sqrt(size*size+least) - math.Sqrt(max(0, size*size-least))
		case ir.Prod:
			b[i] += least * others.Float64(i)
		default:
			b[i] += least
		}
	}
	return b, b
}

func relative(t *tensor.Tensor, by float64) []float64 {
	normal := leastOf[t.DType()] / (2 * roundoff(t.DType())) // the least number that has all digits
	b := make([]float64, t.Len())
	for i := range b {
		if x := math.Abs(t.Float64(i)); x != 0 && !math.IsInf(x, 0) && !math.IsNaN(x) {
			b[i] = by * max(x, normal)
		}
	}
	return b
}

func largest(t *tensor.Tensor) (most float64) {
	for i := range t.Len() {
		if x := math.Abs(t.Float64(i)); !math.IsInf(x, 0) && !math.IsNaN(x) {
			most = max(most, x)
		}
	}
	return most
}

func axisSize(t *tensor.Tensor, axis int) int {
	if axis < 0 || axis >= t.Rank() {
		return 1
	}
	return t.Shape()[axis]
}

// sensitivity is how far results move if operands are a fraction off.
func (e *evaluation) sensitivity(by float64) [][]float64 {
	return e.moved(func(x float64) float64 { return by * math.Abs(x) })
}

// sensitivityBy is how far they move if operands are so far off.
func (e *evaluation) sensitivityBy(by float64) [][]float64 {
	return e.moved(func(float64) float64 { return by })
}

func (e *evaluation) moved(by func(float64) float64) [][]float64 {
	e.start()
	bounds := make([][]float64, len(e.out))
	for d := range e.directions() {
		e.differences(e.at(func(operand int, t *tensor.Tensor) {
			if e.in[operand].t.DType().IsFloat() {
				for i := range t.Len() {
					if x := t.Float64(i); !math.IsInf(x, 0) && !math.IsNaN(x) {
						t.SetFloat64(i, x+by(x)*e.sign(d, operand, i))
					}
				}
			}
		}), bounds)
	}
	return bounds
}

// magnitude is an op of sums on the magnitudes of its operands, times a factor.
func (e *evaluation) magnitude(op ir.Op, by float64) []float64 {
	wide := &evaluation{op: op, in: e.in, out: e.out, wide: true}
	out := wide.at(func(_ int, t *tensor.Tensor) {
		if t.DType().IsFloat() {
			for i := range t.Len() {
				t.SetFloat64(i, math.Abs(t.Float64(i)))
			}
		}
	})
	if out == nil {
		return everywhere(e.out[0].Len(), math.Inf(1))
	}
	b := out[0].Float64s()
	for i, x := range b {
		b[i] = by * x
		if math.IsNaN(x) || math.IsInf(x, 0) {
			b[i] = 0 // so is the result
		}
	}
	return b
}

// exactSum reports whether sums of products of the operands are exact in every order: all terms are multiples of a power of two, and
// no sum of their magnitudes has more positions than the type.
func (e *evaluation) exactSum(magnitudes []float64) bool {
	unit := 1.0
	for _, x := range e.in {
		if x != nil {
			unit *= lowestBit(x.t)
		}
	}
	places := 1 / roundoff(e.out[0].DType())
	for _, m := range magnitudes {
		if !(m <= unit*places) {
			return false
		}
	}
	return true
}

// lowestBit is the largest power of two, up to 1, of which all elements are multiples.
func lowestBit(t *tensor.Tensor) float64 {
	unit := 1.0
	for i := range t.Len() {
		for x := t.Float64(i); unit > 0x1p-60 && x/unit != math.Floor(x/unit); {
			unit /= 2
		}
	}
	return unit
}

// farthest is, for each element, the largest of the errors along an axis.
func (e *evaluation) farthest(axis int, off []float64) []float64 {
	most := with1(ir.Reduce{Fn: ir.MaxOf, Axes: []int{axis}, KeepDims: true}, floatsOf(off, e.in[0].t.Shape()))
	return with1(ir.Expand{Shape: ir.Dims(e.in[0].t.Shape()...)}, most).Float64s()
}

// shares is carried of a softmax: what is off by b beside others that are off by c has a share that is off by the factor e^(b+c).
func (e *evaluation) shares(axis int, off []float64) []float64 {
	if off == nil {
		off = make([]float64, e.in[0].t.Len())
	}
	most := e.farthest(axis, off)
	b := e.out[0].Float64s()
	for i := range b {
		if b[i] *= math.Expm1(off[i] + most[i]); math.IsNaN(b[i]) {
			b[i] = math.Inf(1)
		}
	}
	return b
}

// with1 is the result of an op on one operand, which it takes.
func with1(op ir.Op, x *tensor.Tensor) *tensor.Tensor {
	out, err := ir.EvalOp(nil, op, []*tensor.Tensor{x})
	if err != nil {
		panic(err)
	}
	return out[0]
}

// normed is carried of a norm: what the ends of the errors of all elements make of one, and of the deviation that it is divided by. No
// element is more than √n deviations from the mean.
func (e *evaluation) normed(op ir.LayerNorm, bound func(*known) []float64) []float64 {
	x, scale, residual := e.in[ir.LayerNormX], ir.Operand(e.in, ir.LayerNormScale), ir.Operand(e.in, ir.LayerNormResidual)
	shape := e.out[0].Shape()
	n := shape[len(shape)-op.Axes:].Elements()
	off := make([]float64, e.out[0].Len())
	for start := 0; start < len(off); start += n {
		d, b, mean, meanOff := make([]float64, n), make([]float64, n), 0.0, 0.0
		for i := range n {
			d[i], b[i] = x.t.Float64(start+i), boundAt(x, bound, shape, start+i)+boundAt(residual, bound, shape, start+i)
			if residual != nil {
				d[i] += residual.t.Float64(start + i)
			}
			if !op.RMS {
				mean, meanOff = mean+d[i]/float64(n), meanOff+b[i]/float64(n)
			}
		}
		variance, least, most := float64(op.Eps), float64(op.Eps), float64(op.Eps)
		for i := range n {
			d[i], b[i] = d[i]-mean, b[i]+meanOff
			lo, hi := max(0, math.Abs(d[i])-b[i]), math.Abs(d[i])+b[i]
			variance, least, most = variance+d[i]*d[i]/float64(n), least+lo*lo/float64(n), most+hi*hi/float64(n)
		}
		for i := range n {
			h, farthest := d[i]/math.Sqrt(variance), math.Sqrt(float64(n))
			end := func(x float64) float64 { // the magnitude of the end x > 0, or −x on the other side
				if q := x / math.Sqrt(least); x > 0 && !math.IsNaN(q) {
					return min(q, farthest)
				}
				return x / math.Sqrt(most)
			}
			move := max(end(d[i]+b[i])-h, end(b[i]-d[i])+h)
			k, g, gOff := start+i, 1.0, boundAt(scale, bound, shape, start+i)
			if scale != nil {
				g = math.Abs(scale.t.Float64(broadcastAt(scale.t.Shape(), shape, k)))
			}
			off[k] = g*move + (math.Abs(h)+move)*gOff + boundAt(ir.Operand(e.in, ir.LayerNormBias), bound, shape, k)
			switch {
			case most == math.Inf(1) && variance < most || !math.IsNaN(h) && math.IsNaN(off[k]):
				off[k] = math.Inf(1)
			case math.IsNaN(h): // which it stays
				off[k] = 0
			}
		}
	}
	return off
}

// linear is carried of sums, which is a sum itself, and of softmax, whose elements go up and down together in samples; nil for other ops.
func (e *evaluation) linear(bound func(*known) []float64) [][]float64 {
	with := func(op ir.Op, pick func(i int) *tensor.Tensor) []float64 {
		in := make([]*tensor.Tensor, len(e.in))
		for i := range in {
			in[i] = pick(i)
		}
		out, err := ir.EvalOp(nil, op, in)
		if err != nil {
			return everywhere(e.out[0].Len(), math.Inf(1))
		}
		b := out[0].Float64s()
		for i, x := range b {
			if math.IsNaN(x) {
				b[i] = math.Inf(1)
			}
		}
		return b
	}
	errors := func(i int) *tensor.Tensor { return floatsOf(bound(e.in[i]), e.in[i].t.Shape()) }
	sizes := func(i int) *tensor.Tensor {
		t := floatsOf(nil, e.in[i].t.Shape())
		for k, x := range tensor.Of[float64](t) {
			t.SetFloat64(k, math.Abs(x+number(e.in[i].t, k)))
		}
		return t
	}
	switch op := e.op.(type) {
	case ir.Reduce:
		if op.Fn == ir.Sum || op.Fn == ir.Mean || op.Fn == ir.L1 || op.Fn == ir.MaxOf || op.Fn == ir.MinOf {
			if op.Fn == ir.MinOf {
				op.Fn = ir.MaxOf
			}
			return [][]float64{with(op, errors)}
		}
	case ir.CumSum:
		return [][]float64{with(op, errors)}
	case ir.Softmax:
		if off := bound(e.in[0]); op.Log && off != nil {
			return [][]float64{sum(off, e.farthest(op.Axis, off))}
		} else if !op.Log {
			return [][]float64{e.shares(op.Axis, off)}
		}
	case ir.DynamicQuantize: // by how much the ends of the range and a number in it move
		off, low, high := 0.0, 0.0, 0.0
		for i, b := range bound(e.in[0]) {
			x := e.in[0].t.Float64(i)
			off, low, high = max(off, b), min(low, x), max(high, x)
		}
		steps := 255 * off / (high - low)
		if math.IsNaN(steps) {
			steps = math.Inf(1)
		}
		return [][]float64{everywhere(e.out[0].Len(), 2+6*steps), {2 * off / 255}, {2 + 4*steps}}
	case ir.LayerNorm:
		if len(e.out) == 1 {
			return [][]float64{e.normed(op, bound)}
		}
	case ir.MatMul:
		if len(e.in) != 2 || !e.out[0].DType().IsFloat() {
			return nil
		}
		left := with(op, func(i int) *tensor.Tensor { return []func(int) *tensor.Tensor{errors, sizes}[i](i) })
		right := with(op, func(i int) *tensor.Tensor { return []func(int) *tensor.Tensor{sizes, errors}[i](i) })
		return [][]float64{sum(sum(left, right), with(op, errors))}
	}
	return nil
}
