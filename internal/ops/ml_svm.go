package ops

import (
	"math"

	"github.com/rlxc/rlxc/tensor"
)

func (svmRegressor) read(r *reader) *rowModel {
	m := r.machine(r.int("n_supports", 0))
	r.transform(1)
	vectors, weights := m.vectors, m.coefficients
	if len(vectors) == 0 {
		vectors, weights = [][]float64{m.coefficients}, []float64{1}
		m.kernel = dot
	}
	if len(weights) != len(vectors) {
		r.failf("%d coefficients for %d support vectors", len(weights), len(vectors))
	}
	oneClass := r.int("one_class", 0) != 0
	return regressor(tensor.F32, 1, len(vectors[0]), func(x []float64) []float64 {
		sum := m.rho[0]
		for i, v := range vectors {
			sum += weights[i] * m.kernel(x, v)
		}
		if oneClass {
			return []float64{float64(2*signOf(sum) - 1)}
		}
		return []float64{sum}
	})
}

// read makes a machine for every pair of classes, which vote; or without support vectors a linear one a class.
func (svmClassifier) read(r *reader) *rowModel {
	labels := r.classLabels("classlabels_ints")
	n := labels.Len()
	perClass := r.ints("vectors_per_class")
	total := 0
	for _, k := range perClass {
		if k < 0 || k > MaxSize {
			r.failf("a class of %d vectors", k)
		}
		total += k
	}
	m := r.machine(total)
	a, b := r.numbers("prob_a"), r.numbers("prob_b")
	name := r.text("post_transform", "NONE")
	pairs := n * (n - 1) / 2
	if total == 0 {
		return r.linearMachine(m, labels)
	}
	if n < 2 || len(perClass) != n || len(m.coefficients) != (n-1)*total || len(m.rho) != pairs || len(a) != len(b) || len(a) != 0 &&
		len(a) != pairs {
		r.failf("%d labels, %d classes of %d vectors with %d coefficients, %d rho and %d prob_a", n, len(perClass), total,
			len(m.coefficients), len(m.rho), len(a))
	}
	width := pairs
	if len(a) > 0 || n == 2 {
		width = n
	}
	post := r.transform(width)
	return &rowModel{labels: labels, width: width, features: len(m.vectors[0]), score: func(x []float64) ([]float64, int) {
		margins, votes := m.duel(x, perClass)
		switch {
		case len(a) > 0:
			p := coupled(n, margins, a, b)
			post(p)
			return p, argMax(votes)
		case n == 2:
			return marginOfTwo(name, margins[0]), argMax(votes)
		}
		post(margins)
		return margins, argMax(votes)
	}}
}

// marginOfTwo returns onnxruntime's scores of two labels: what post_transform makes of their margin s. Any softmax is (1−s, s), and of
// PROBIT the second score is never written there, and 0 here.
func marginOfTwo(postTransform string, s float64) []float64 {
	switch postTransform {
	case "LOGISTIC":
		return []float64{sigmoid(-s), sigmoid(s)}
	case "SOFTMAX", "SOFTMAX_ZERO":
		return []float64{1 - s, s}
	case "PROBIT":
		return []float64{probit(s), 0}
	}
	return []float64{-s, s}
}

func (r *reader) linearMachine(m *machine, labels *tensor.Tensor) *rowModel {
	n := labels.Len()
	if len(m.coefficients)%n != 0 {
		r.failf("%d coefficients for %d labels", len(m.coefficients), n)
	}
	features := len(m.coefficients) / n
	post := r.transform(n)
	return &rowModel{labels: labels, width: n, features: features, score: func(x []float64) ([]float64, int) {
		s := make([]float64, n)
		for i := range s {
			s[i] = dot(x, m.coefficients[i*features:(i+1)*features]) + m.rho[0]
		}
		best := argMax(s)
		post(s)
		return s, best
	}}
}

// kernels are the products of support vector machines; gamma, coef0 and degree are kernel_params.
var kernels = map[string]func(a, b []float64, gamma, coef0, degree float64) float64{
	"LINEAR": func(a, b []float64, _, _, _ float64) float64 { return dot(a, b) },
	"POLY": func(a, b []float64, gamma, coef0, degree float64) float64 {
		return math.Pow(gamma*dot(a, b)+coef0, degree)
	},
	"SIGMOID": func(a, b []float64, gamma, coef0, _ float64) float64 { return math.Tanh(gamma*dot(a, b) + coef0) },
	"RBF": func(a, b []float64, gamma, _, _ float64) float64 {
		sum := 0.0
		for i, v := range b {
			sum += (a[i] - v) * (a[i] - v)
		}
		return math.Exp(-gamma * sum)
	},
}

// dot is over the elements of b; a may have more.
func dot(a, b []float64) float64 {
	sum := 0.0
	for i, v := range b {
		sum += a[i] * v
	}
	return sum
}

// A machine is what the attributes of both operators share.
type machine struct {
	kernel       func(a, b []float64) float64
	vectors      [][]float64
	coefficients []float64
	rho          []float64
}

// machine reads n support vectors, or for n = 0 as many weights as there are rows of coefficients.
func (r *reader) machine(n int) (m *machine) {
	m = &machine{coefficients: r.numbers("coefficients"), rho: r.numbers("rho")}
	kind := r.text("kernel_type", "LINEAR")
	kernel, ok := kernels[kind]
	params := r.numbers("kernel_params")
	if len(params) == 0 {
		params = make([]float64, 3)
	}
	if !ok || len(params) != 3 {
		r.failf("kernel_type %q with %d kernel_params", kind, len(params))
	}
	m.kernel = func(a, b []float64) float64 { return kernel(a, b, params[0], params[1], params[2]) }
	all := r.numbers("support_vectors")
	if n < 0 || n > 0 && (len(all) == 0 || len(all)%n != 0) {
		r.failf("%d numbers are not %d support vectors", len(all), n)
	}
	for i := range n {
		width := len(all) / n
		m.vectors = append(m.vectors, all[i*width:(i+1)*width])
	}
	if len(m.rho) == 0 || len(m.coefficients) == 0 {
		r.failf("it lacks coefficients or rho")
	}
	return m
}

// duel returns the margin of every pair of classes, and how many pairs each class wins. Coefficients are laid out as LIBSVM
// does: those of class i against class j are in row j−1 for the vectors of i, in row i for those of j.
func (m *machine) duel(x []float64, perClass []int) (margins, votes []float64) {
	products := make([]float64, len(m.vectors))
	for i, v := range m.vectors {
		products[i] = m.kernel(x, v)
	}
	votes = make([]float64, len(perClass))
	startI := 0
	for i, ni := range perClass {
		startJ := startI + ni
		for j := i + 1; j < len(perClass); j++ {
			nj := perClass[j]
			row := func(r, from, n int) []float64 { return m.coefficients[r*len(m.vectors):][from : from+n] }
			sum := dot(products[startI:], row(j-1, startI, ni)) + dot(products[startJ:], row(i, startJ, nj)) + m.rho[len(margins)]
			margins = append(margins, sum)
			if sum > 0 {
				votes[i]++
			} else {
				votes[j]++
			}
			startJ += nj
		}
		startI += ni
	}
	return margins, votes
}

// coupled turns the margins of pairs into probabilities of classes: Platt's sigmoid for each pair, then the second method of
// Wu, Lin and Weng, "Probability Estimates for Multi-class Classification by Pairwise Coupling" (2004), as in LIBSVM.
func coupled(n int, margins, a, b []float64) []float64 {
	const least = 1e-7
	r := make([][]float64, n)
	for i := range r {
		r[i] = make([]float64, n)
	}
	at := 0
	for i := range n {
		for j := i + 1; j < n; j++ {
			p := min(max(1-sigmoid(margins[at]*a[at]+b[at]), least), 1-least)
			r[i][j], r[j][i] = p, 1-p
			at++
		}
	}
	q := make([][]float64, n)
	p := make([]float64, n)
	for t := range n {
		p[t] = 1 / float64(n)
		q[t] = make([]float64, n)
		for j := range n {
			if j != t {
				q[t][t] += r[j][t] * r[j][t]
				q[t][j] = -r[j][t] * r[t][j]
			}
		}
	}
	for range max(100, n) {
		qp, pqp := make([]float64, n), 0.0
		for t := range n {
			qp[t] = dot(q[t], p)
			pqp += p[t] * qp[t]
		}
		worst := 0.0
		for t := range n {
			worst = max(worst, math.Abs(qp[t]-pqp))
		}
		if worst < 0.005/float64(n) {
			break
		}
		for t := range n {
			diff := (pqp - qp[t]) / q[t][t]
			p[t] += diff
			pqp = (pqp + diff*(diff*q[t][t]+2*qp[t])) / ((1 + diff) * (1 + diff))
			for j := range n {
				qp[j] = (qp[j] + diff*q[t][j]) / (1 + diff)
				p[j] /= 1 + diff
			}
		}
	}
	return p
}
