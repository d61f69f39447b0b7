package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/rlxc/rlxc/tensor"
)

// A number is a float whose JSON is as package tensor writes it: what JSON lacks is "NaN", "Infinity" or "-Infinity".
type number float64

// MarshalJSON implements json.Marshaler.
func (n number) MarshalJSON() ([]byte, error) {
	switch f := float64(n); {
	case math.IsNaN(f):
		return []byte(`"NaN"`), nil
	case math.IsInf(f, 1):
		return []byte(`"Infinity"`), nil
	case math.IsInf(f, -1):
		return []byte(`"-Infinity"`), nil
	default:
		return json.Marshal(f)
	}
}

// A difference is how far a tensor is from what is expected of it.
type difference struct {
	Name   string       `json:"name"`
	DType  tensor.DType `json:"dtype"`
	Shape  tensor.Shape `json:"shape"`
	MaxAbs number       `json:"max_abs"`
	MaxRel number       `json:"max_rel"` // over the elements whose expected value is not 0
	Cosine number       `json:"cosine"`
	// Outside is the number of elements that the tolerance does not let pass, and Worst the index of the one that is
	// farthest outside.
	Outside int    `json:"outside"`
	Worst   int    `json:"worst"`
	Problem string `json:"problem,omitempty"` // why it fails
	Worth   string `json:"worth,omitempty"`   // why it passes outside the tolerance: how far the reference is from itself

	angle bool // it fails by the cosine alone
	OK    bool `json:"ok"`
}

// typeText is the type of what was compared.
func (d difference) typeText() string {
	if !d.DType.Valid() {
		return fmt.Sprintf("sequence of %d", d.Shape[0])
	}
	return fmt.Sprintf("%v%v", d.DType, d.Shape)
}

// compare measures got against want.
func compare(name string, got, want *tensor.Tensor, tol tolerance) difference {
	d := difference{Name: name, DType: want.DType(), Shape: want.Shape(), Cosine: 1}
	switch {
	case got == nil:
		d.Problem = "is missing"
	case got.IsSequence() != want.IsSequence() || got.DType() != want.DType() || !got.Shape().Equal(want.Shape()):
		d.Problem = fmt.Sprintf("is %v, %v expected", got, want)
	case want.IsSequence():
		d.each(got.Elems(), want.Elems(), tol)
	case want.DType() == tensor.String:
		if !slices.Equal(got.Strings(), want.Strings()) {
			d.Problem = "differs in its strings"
		}
	default:
		if d := want.DType(); !d.IsFloat() && !d.IsComplex() {
			if tol.rel = 0; d.Bits() > tol.bits {
				tol.elements, tol.cosine = true, -1
			}
		}
		d.measure(numbersOf(got), numbersOf(want), tol)
	}
	d.OK = d.Problem == ""
	return d
}

// accept lets a difference pass if the reference engine, with its optimisations, is no closer to itself: own is its difference.
func (d *difference) accept(own difference) {
	closer := own.MaxAbs < d.MaxAbs || own.Outside < d.Outside
	if d.angle {
		closer = own.Cosine > d.Cosine
	}
	if far := float64(own.MaxAbs); closer || d.DType != own.DType || math.IsInf(far, 0) || math.IsNaN(far) {
		return
	}
	d.OK, d.Problem = true, ""
	d.Worth = fmt.Sprintf("onnxruntime with its optimisations is no closer: max abs %.2e, cosine %.10f", own.MaxAbs, own.Cosine)
}

// worthComparing is the smallest cosine to the exact output at which acceptNearer compares. Below it both outputs are noise, and which is
// nearer says nothing about faults. MiniLM with static pairs is at 0.973, which is the farthest of the models that were measured.
const worthComparing = 0.9

// acceptNearer lets a difference pass if the tested output is no farther from an exact one than the reference is. The exact output is what
// the reference computes of the model without roundings. plain is the difference of the tested program, without roundings, from the exact
// output. Faults in weights, biases or rewrites appear in plain, since nothing in it is rounded.
func (d *difference) acceptNearer(plain, tested, reference difference) {
	if !plain.OK || tested.DType != d.DType || !(tested.Cosine >= max(reference.Cosine, worthComparing)) {
		return
	}
	d.OK, d.Problem = true, ""
	d.Worth = fmt.Sprintf("it is as near as the reference to the model without roundings: cosine %.10f and %.10f", tested.Cosine,
		reference.Cosine)
}

// each compares the elements of sequences: the difference is that of the worst.
func (d *difference) each(got, want []*tensor.Tensor, tol tolerance) {
	for i, w := range want {
		e := compare(d.Name, got[i], w, tol)
		d.MaxAbs, d.MaxRel, d.Cosine = max(d.MaxAbs, e.MaxAbs), max(d.MaxRel, e.MaxRel), min(d.Cosine, e.Cosine)
		if d.Outside += e.Outside; d.Problem == "" && e.Problem != "" {
			d.Problem = fmt.Sprintf("element %d %s", i, e.Problem)
		}
	}
}

func (d *difference) measure(got, want numbers, tol tolerance) {
	if tol.inside {
		tol.abs *= max(1, typical(want))
	}
	var dot, gg, ww, far, excess float64
	for i := range want.n {
		g, w := got.at(i), want.at(i)
		if g == w || math.IsNaN(g) && math.IsNaN(w) {
			if !math.IsNaN(w) && !math.IsInf(w, 0) {
				dot, gg, ww = dot+g*w, gg+g*g, ww+w*w
			}
			continue
		}
		dot, gg, ww = dot+g*w, gg+g*g, ww+w*w
		abs := math.Abs(g - w)
		if math.IsNaN(abs) {
			abs = math.Inf(1) // a NaN on one side is as far as can be
		}
		far = max(far, abs)
		if w != 0 {
			d.MaxRel = max(d.MaxRel, number(abs/math.Abs(w)))
		}
		allowed := tol.abs
		if !math.IsInf(w, 0) { // an infinity is only like itself
			allowed += tol.rel * math.Abs(w)
		}
		if abs > allowed {
			d.Outside++
			if over := abs - allowed; over > excess {
				excess, d.Worst = over, i
			}
		}
	}
	d.MaxAbs = number(far)
	if gg != 0 || ww != 0 {
		d.Cosine = number(dot / math.Sqrt(gg*ww))
	}
	switch {
	case tol.elements && d.Outside > 0:
		d.Problem = fmt.Sprintf("%d of %d elements are outside the tolerance, the worst at %v: %v, %v expected",
			d.Outside, want.n, position(d.Worst/want.each, d.Shape), got.at(d.Worst), want.at(d.Worst))
	case tol.elements && (gg == 0) != (ww == 0): // zeros have no angle to anything
	case !(float64(d.Cosine) >= tol.cosine):
		d.angle, d.Problem = true, fmt.Sprintf("the cosine is %.8f, below %v", d.Cosine, tol.cosine)
	}
}

// typical is the median magnitude of the elements that are not 0: unlike a mean, a mask of −10000 or −3.4e38 among less than
// half of them does not move it. It is found digit by digit, 16 bits at a time: magnitudes are in the order of their bits, and no
// copy of the elements is made.
func typical(values numbers) float64 {
	counted := func(v float64) bool { return v != 0 && !math.IsNaN(v) }
	rank := 0 // of the median among those that begin with the digits found so far
	for i := range values.n {
		if counted(values.at(i)) {
			rank++
		}
	}
	if rank == 0 {
		return 0
	}
	rank /= 2
	var found uint64
	for shift := 48; shift >= 0; shift -= 16 {
		counts := make([]int, 1<<16)
		for i := range values.n {
			v := values.at(i)
			if bits := math.Float64bits(math.Abs(v)); counted(v) && bits>>shift>>16 == found {
				counts[bits>>shift&0xffff]++
			}
		}
		digit := 0
		for ; rank >= counts[digit]; digit++ {
			rank -= counts[digit]
		}
		found = found<<16 | uint64(digit)
	}
	return math.Float64frombits(found)
}

// numbers are the elements of a tensor, read where they are. A complex one is two numbers.
type numbers struct {
	n, each int // numbers, of an element
	at      func(i int) float64
}

func numbersOf(t *tensor.Tensor) numbers {
	t = t.Aligned()
	v := numbers{t.Len(), 1, t.Float64}
	parts := func(two func(i int) (re, im float64)) {
		v.n, v.each = 2*v.n, 2
		v.at = func(i int) float64 {
			re, im := two(i / 2)
			if i%2 == 0 {
				return re
			}
			return im
		}
	}
	switch t.DType() {
	case tensor.F32:
		x := tensor.Of[float32](t)
		v.at = func(i int) float64 { return float64(x[i]) }
	case tensor.C64:
		x := tensor.Of[complex64](t)
		parts(func(i int) (re, im float64) { return float64(real(x[i])), float64(imag(x[i])) })
	case tensor.C128:
		x := tensor.Of[complex128](t)
		parts(func(i int) (re, im float64) { return real(x[i]), imag(x[i]) })
	}
	return v
}

// position returns the index of element i along each axis.
func position(i int, shape tensor.Shape) []int {
	out := make([]int, len(shape))
	for axis := len(shape) - 1; axis >= 0; axis-- {
		out[axis], i = i%shape[axis], i/shape[axis]
	}
	return out
}

// Statistics of a tensor's elements.
type statistics struct {
	Min  number `json:"min"`
	Max  number `json:"max"`
	Mean number `json:"mean"`
	NaNs int    `json:"nans"`
}

func describe(t *tensor.Tensor) statistics {
	s := statistics{Min: number(math.Inf(1)), Max: number(math.Inf(-1))}
	sum, n, values := 0.0, 0, numbersOf(t)
	for i := range values.n {
		x := values.at(i)
		if math.IsNaN(x) {
			s.NaNs++
			continue
		}
		s.Min, s.Max = min(s.Min, number(x)), max(s.Max, number(x))
		sum += x
		n++
	}
	s.Mean = number(sum / float64(n))
	return s
}
