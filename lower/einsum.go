package lower

import (
	"slices"
	"strings"

	"github.com/rlxc/rlxc/ir"
)

var einsumRows = []row{
	{"Einsum", 12, lowerEinsum},
}

// A term is a value whose axes have labels. The axes of an ellipsis are labelled '0', '1', … from the last one back, so
// that they line up as broadcasting has it.
type term struct {
	v      *ir.Value
	labels []rune
}

// lowerEinsum sums operands pairwise, from left to right, by one product each: an axis that both have and later ones need
// is a leading axis of the product, one that nothing needs is its inner axis.
func lowerEinsum(c *context) []*ir.Value {
	equation := strings.ReplaceAll(c.AttrString("equation", ""), " ", "")
	left, right, explicit := strings.Cut(equation, "->")
	parts := strings.Split(left, ",")
	if len(parts) != c.NumInputs() {
		c.Failf("equation %q is for %d operands, there are %d", equation, len(parts), c.NumInputs())
	}
	terms := make([]term, len(parts))
	count := map[rune]int{}
	dots := 0
	for i, p := range parts {
		v := c.In(i)
		n := 0
		if strings.Contains(p, "...") {
			if n = rank(v) - (len(p) - len("...")); n < 0 {
				c.Failf("equation %q: %q for %v: want an axis for each label", equation, p, v.Type)
			}
			dots = max(dots, n)
		}
		terms[i] = term{v, c.labels(p, n)}
		if len(terms[i].labels) != rank(v) {
			c.Failf("equation %q: %q for %v: want a label for each axis", equation, p, v.Type)
		}
		for _, l := range terms[i].labels {
			count[l]++
		}
	}
	var out []rune
	if explicit {
		if dots > 0 && !strings.Contains(right, "...") {
			c.Failf("equation %q: the axes of ... are missing from its result", equation)
		}
		out = c.labels(right, dots)
	} else {
		out = ellipsis(dots)
		for _, l := range sortedLabels(count) {
			if count[l] == 1 && !isDot(l) {
				out = append(out, l)
			}
		}
	}
	for i, l := range out {
		if count[l] == 0 || slices.Contains(out[:i], l) {
			c.Failf("equation %q: label %q of the result: want each once, and in an operand", equation, l)
		}
	}
	for i, t := range terms {
		diagonal, known := c.diagonal(t)
		if !known {
			return c.AtRun(c.einsumType(terms, out))
		}
		terms[i] = diagonal
	}
	acc := c.sumOut(terms[0], needed(out, terms[1:]))
	for i := 1; i < len(terms); i++ {
		acc = c.contract(acc, terms[i], needed(out, terms[i+1:]))
	}
	return []*ir.Value{c.arrange(acc, out)}
}

// einsumType is the type of a result whose axes have the labels out, where no size of an ellipsis is known.
func (c *context) einsumType(terms []term, out []rune) ir.Type {
	shape := make(ir.Shape, len(out))
	for k, l := range out {
		shape[k] = c.Fresh(k)
		for _, t := range terms {
			if i := slices.Index(t.labels, l); i >= 0 && !isDot(l) {
				shape[k] = t.v.Type.Shape[i]
			}
		}
	}
	return ir.TensorOf(terms[0].v.Type.DType, shape...)
}

// ellipsis labels n axes, the last one '0'.
func ellipsis(n int) []rune {
	var out []rune
	for k := n - 1; k >= 0; k-- {
		out = append(out, rune('0'+k))
	}
	return out
}

func isDot(l rune) bool { return l < 'A' }

func sortedLabels(count map[rune]int) []rune {
	var out []rune
	for l := range count {
		out = append(out, l)
	}
	slices.Sort(out)
	return out
}

// labels reads a term; dots is the number of axes of its ellipsis.
func (c *context) labels(p string, dots int) []rune {
	before, after, ok := strings.Cut(p, "...")
	out := []rune(before)
	if ok {
		out = slices.Concat(out, ellipsis(dots), []rune(after))
	}
	for _, l := range out {
		if !(l >= 'A' && l <= 'Z' || l >= 'a' && l <= 'z' || isDot(l) && ok) {
			c.Failf("einsum term %q: label %q: want letters", p, l)
		}
	}
	return out
}

// needed lists the labels that the result or later terms have.
func needed(out []rune, later []term) map[rune]bool {
	need := map[rune]bool{}
	for _, l := range out {
		need[l] = true
	}
	for _, t := range later {
		for _, l := range t.labels {
			need[l] = true
		}
	}
	return need
}

// diagonal makes the labels of a term unique: of two axes with one label the diagonal is left. Whether they are as long as each other
// must be known, and how long.
func (c *context) diagonal(t term) (unique term, known bool) {
	for i := 0; i < len(t.labels); i++ {
		k := i + 1 + slices.Index(t.labels[i+1:], t.labels[i])
		if k <= i {
			continue
		}
		first, second := t.v.Type.Shape[i], t.v.Type.Shape[k]
		if ir.Same(first, second) == ir.No {
			c.Failf("the diagonal of %v: the axes must have equal sizes", t.v.Type)
		}
		n, ok := first.Const()
		if !ok || !second.Is(n) {
			return t, false
		}
		rest := slices.Delete(slices.Delete(upTo(len(t.labels)), k, k+1), i, i+1)
		v := c.Emit(ir.Transpose{Perm: append([]int{i, k}, rest...)}, t.v)
		v = c.reshape(v, append(ir.Dims(n*n), v.Type.Shape[2:]...)) // element (j, j) is number j·(n+1)
		s := newSlice(v)
		s.Sizes[0], s.Steps[0] = ir.N(n), n+1
		labels := []rune{t.labels[i]}
		for _, r := range rest {
			labels = append(labels, t.labels[r])
		}
		t, i = term{c.emitSlice(s, v), labels}, -1
	}
	return t, true
}

// sumOut sums over the axes that nothing needs any more.
func (c *context) sumOut(t term, need map[rune]bool) term {
	var axes []int
	var left []rune
	for i, l := range t.labels {
		if need[l] {
			left = append(left, l)
		} else {
			axes = append(axes, i)
		}
	}
	if len(axes) == 0 {
		return t
	}
	return term{c.Emit(ir.Reduce{Fn: ir.Sum, Axes: axes}, t.v), left}
}

// contract multiplies two terms and sums over what they share and nothing needs.
func (c *context) contract(a, b term, need map[rune]bool) term {
	keepA, keepB := needed(b.labels, nil), needed(a.labels, nil)
	for l := range need {
		keepA[l], keepB[l] = true, true
	}
	a, b = c.sumOut(a, keepA), c.sumOut(b, keepB)
	var lead, inner, onlyA, onlyB []rune
	for _, l := range a.labels {
		switch shared := slices.Contains(b.labels, l); {
		case shared && need[l]:
			lead = append(lead, l)
		case shared:
			inner = append(inner, l)
		default:
			onlyA = append(onlyA, l)
		}
	}
	for _, l := range b.labels {
		if !slices.Contains(a.labels, l) {
			onlyB = append(onlyB, l)
		}
	}
	x, y := c.arrange(a, slices.Concat(lead, onlyA, inner)), c.arrange(b, slices.Concat(lead, inner, onlyB))
	sx, sy := x.Type.Shape, y.Type.Shape
	k := len(lead)
	m, n := sx[k:k+len(onlyA)], sy[k+len(inner):]
	x = c.reshape(x, append(slices.Clone(sx[:k]), m.Elements(), sx[k+len(onlyA):].Elements()))
	y = c.reshape(y, append(slices.Clone(sy[:k]), sy[k:k+len(inner)].Elements(), n.Elements()))
	p := c.Emit(ir.MatMul{}, x, y)
	p = c.reshape(p, slices.Concat(p.Type.Shape[:k], m, n))
	return term{p, slices.Concat(lead, onlyA, onlyB)}
}

// arrange puts the axes of a term in an order.
func (c *context) arrange(t term, order []rune) *ir.Value {
	var perm []int
	for _, l := range order {
		if i := slices.Index(t.labels, l); i >= 0 {
			perm = append(perm, i)
		}
	}
	if slices.IsSorted(perm) {
		return t.v
	}
	return c.Emit(ir.Transpose{Perm: perm}, t.v)
}
