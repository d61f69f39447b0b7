package liveness

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
)

// A within is a step whose result 0 may be written over an operand that is a part of a buffer, such as the queries in a buffer of
// queries, keys and values. The result then has the strides of that operand, and keeps the buffer as long as it is read.
type within struct {
	b       int32             // the buffer
	layouts map[int]ir.Layout // by ID, of the result and of its views
	inlay   Inlay
}

// findWithin finds these steps: the kernel must write by strides and may write over the operand; the operand shows each of its elements
// once, and the step's other operands show none of them; every reader of the result takes its strides.
func (m *Memory) findWithin() {
	for s, n := range m.Steps {
		for i, v := range n.Inputs {
			if v == nil || m.root(v).Def == nil || whole(v, m.layout(v)) || !overSlice(n, i, m.layout, m.t) {
				continue
			}
			w := within{m.of(v), map[int]ir.Layout{}, Inlay{Over: i, Into: -1}}
			l := m.layouts[v.ID]
			l.Root = n.Outputs[0]
			if m.strided(n.Outputs[0], l, w.layouts) {
				if m.within == nil {
					m.within = map[int]within{}
				}
				m.within[s] = w
				break
			}
		}
	}
}

// apart reports whether operand i of n reads each of its elements once, and no other operand reads any of them.
func apart(n *ir.Node, i int, layout func(v *ir.Value) ir.Layout) bool {
	l := layout(n.Inputs[i])
	if !injective(l) {
		return false
	}
	for k, w := range n.Inputs {
		if k != i && w != nil && layout(w).Root == l.Root && !disjoint(l, layout(w)) {
			return false
		}
	}
	return true
}

// strided lists the layouts of v, laid out as l, and of its views, and reports whether all that read them take their strides.
func (m *Memory) strided(v *ir.Value, l ir.Layout, to map[int]ir.Layout) bool {
	if m.g.IsOutput(v) {
		return false
	}
	to[v.ID] = l
	for _, u := range v.Uses {
		if u.Node.Op.Kind().Has(ir.View) {
			below, ok := ir.ViewLayout(u.Node, l)
			if !ok || !m.strided(u.Node.Outputs[0], below, to) {
				return false
			}
		} else if !l.Contiguous() && !m.t.Strided(u.Node, u.Index, l.Strides) {
			return false
		}
	}
	return true
}

// injective reports whether no two elements share an address: each stride is beyond all that smaller ones reach.
func injective(l ir.Layout) bool {
	axes := make([]int, 0, len(l.Shape))
	for i, size := range l.Shape {
		if size > 1 {
			axes = append(axes, i)
		}
	}
	slices.SortFunc(axes, func(a, b int) int { return l.Strides[a] - l.Strides[b] })
	reach := 0
	for _, i := range axes {
		if l.Strides[i] <= reach {
			return false
		}
		reach += (l.Shape[i] - 1) * l.Strides[i]
	}
	return true
}

// disjoint reports whether two layouts in one memory share no address: they are different columns of a matrix, whose rows are as far apart
// as some axis of the first; or different ranges, which are columns of a matrix of one row.
func disjoint(a, b ir.Layout) bool {
	apart := func(row int) bool {
		aLow, aHigh, ok := columns(a, row)
		bLow, bHigh, fits := columns(b, row)
		return ok && fits && (aHigh <= bLow || bHigh <= aLow)
	}
	return apart(a.Offset+a.Span()+b.Offset+b.Span()) || slices.ContainsFunc(a.Strides, apart)
}

// columns returns the range of columns that a layout shows of a matrix with rows of some length.
func columns(l ir.Layout, row int) (low, high int, ok bool) {
	if row <= 0 {
		return 0, 0, false
	}
	span := 1
	for i, size := range l.Shape {
		switch st := l.Strides[i]; {
		case size <= 1 || st%row == 0:
		default:
			span += (size - 1) * st
		}
	}
	low = l.Offset % row
	return low, low + span, low+span <= row
}

// weigh drops these steps where the program needs more with them, with extensions or without: they keep the rest of the buffer longer.
func (m *Memory) weigh(order []int) {
	m.weighParts(order)
	if len(m.within) == 0 {
		return
	}
	need := m.needs(order)
	m.found, m.within = m.within, nil
	if !m.needs(order).below(need) {
		m.within = m.found
	}
}

// A need is the peak of a program with extensions, and without.
type need struct{ extended, own int64 }

func (m *Memory) needs(order []int) need {
	return need{m.extended(order).peak(), m.lives(order).peak()}
}

func (n need) below(other need) bool {
	return n.extended < other.extended || n.extended == other.extended && n.own < other.own
}

// Within returns the footprint of a program all of whose results are written over parts of buffers where an order allows it; nil if none
// are. used reports whether Analyze has decided for it. Its sizes are those of m.
func (m *Memory) Within(order []int) (f *Footprint, used bool) {
	if len(m.found) == 0 {
		return nil, false
	}
	last := m.lives(order)
	for s, w := range m.found {
		if last.last[w.b] != last.at[s] || last.busy[w.b] >= last.at[s] {
			continue
		}
		if f == nil {
			f = &Footprint{m.Bytes, m.Held, slices.Clone(m.Reads), slices.Clone(m.Writes), slices.Clone(m.Over), m.Scratch}
		}
		out := m.Writes[s][0]
		f.Writes[s], f.Over[s] = m.Writes[s][1:], nil
		for i, reads := range f.Reads {
			if slices.Contains(reads, out) {
				f.Reads[i] = append(slices.DeleteFunc(slices.Clone(reads), func(b int32) bool { return b == out || b == w.b }), w.b)
				f.Over[i] = slices.DeleteFunc(slices.Clone(f.Over[i]), func(b int32) bool { return b == out })
			}
		}
	}
	return f, m.within != nil
}
