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

// A tolerance is what a comparison lets pass: |got − want| ≤ abs + rel·|want| for every element, if elements are looked at,
// and a cosine of at least that much. NaN equals NaN. Integers have no rel: 30001 is another word than 30000.
//
// Inside a model abs counts in units of the value's typical magnitude, where that is above 1: sums of large terms that cancel
// keep the noise of the terms.
type tolerance struct {
	elements bool
	abs, rel float64
	cosine   float64
	inside   bool // of an intermediate value
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
	OK      bool   `json:"ok"`
}

// compare measures got against want.
func compare(name string, got, want *tensor.Tensor, tol tolerance) difference {
	d := difference{Name: name, DType: want.DType(), Shape: want.Shape(), Cosine: 1}
	switch {
	case got == nil:
		d.Problem = "is missing"
	case got.DType() != want.DType() || !got.Shape().Equal(want.Shape()):
		d.Problem = fmt.Sprintf("is %v, %v expected", got, want)
	case want.DType() == tensor.String:
		if !slices.Equal(got.Strings(), want.Strings()) {
			d.Problem = "differs in its strings"
		}
	default:
		if d := want.DType(); !d.IsFloat() && !d.IsComplex() {
			tol.rel = 0
		}
		d.measure(numbers(got), numbers(want), tol)
	}
	d.OK = d.Problem == ""
	return d
}

func (d *difference) measure(got, want []float64, tol tolerance) {
	if tol.inside {
		tol.abs *= max(1, typical(want))
	}
	var dot, gg, ww, far, excess float64
	for i, w := range want {
		g := got[i]
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
			d.Outside, len(want), position(d.Worst*d.Shape.Elements()/len(want), d.Shape), got[d.Worst], want[d.Worst])
	case !(float64(d.Cosine) >= tol.cosine):
		d.Problem = fmt.Sprintf("the cosine is %.8f, below %v", d.Cosine, tol.cosine)
	}
}

// typical is the median magnitude of the elements that are not 0: unlike a mean, a mask of −10000 or −3.4e38 among less than
// half of them does not move it.
func typical(values []float64) float64 {
	var m []float64
	for _, v := range values {
		if v != 0 && !math.IsNaN(v) {
			m = append(m, math.Abs(v))
		}
	}
	if len(m) == 0 {
		return 0
	}
	slices.Sort(m)
	return m[len(m)/2]
}

// numbers reads the elements; a complex one is two numbers.
func numbers(t *tensor.Tensor) []float64 {
	t = t.Aligned()
	var out []float64
	switch t.DType() {
	case tensor.C64:
		for _, z := range tensor.Of[complex64](t) {
			out = append(out, float64(real(z)), float64(imag(z)))
		}
	case tensor.C128:
		for _, z := range tensor.Of[complex128](t) {
			out = append(out, real(z), imag(z))
		}
	default:
		out = t.Float64s()
	}
	return out
}

// position gives the index of element i along each axis.
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
	sum, n := 0.0, 0
	for _, x := range numbers(t) {
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
