package rewrite

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// indexRules understand the arithmetic on positions that masks and position embeddings are exported as: gathers at indices
// that only count are views, and comparisons that hold everywhere are constants.
func indexRules() []*Rule {
	x, index, y := value(), value(), value()
	gather, gatherND := node[ir.Gather](x, index), node[ir.GatherND](x, index)
	uniform := value().when("the same element everywhere", func(_ *match, v *ir.Value) bool { return uniformOf(v, maxChase) != nil })
	compare := node[ir.Binary](x, y)
	// everywhere the same element is gathered, if any: found says what must be known of the indices.
	everywhere := func(name string, changes Change, assumes string, found ir.Tri) *Rule {
		return &Rule{Name: name, changes: changes, assumes: assumes,
			pattern: either(node[ir.Gather](uniform, index), node[ir.GatherElements](uniform, index), node[ir.GatherND](uniform, index)),
			build: func(m *match) *ir.Value {
				if inTable(m.root) != found {
					return nil
				}
				c := m.e.constant("", uniformOf(m.get(uniform), maxChase))
				return m.expand(c, m.root.Outputs[0].Type.Shape)
			}}
	}
	return []*Rule{
		everywhere("gather.uniform", Exact, "", ir.Yes),
		everywhere("gather.unchecked", Errors, "indices that a run computes are inside the table, which holds one number throughout",
			ir.Unknown),
		{Name: "gather.view", pattern: gather, build: func(m *match) *ir.Value {
			a, ok := affineOf(m.get(index))
			if !ok {
				return nil
			}
			return m.indexView(m.get(x), opOf[ir.Gather](m, gather).Axis, []affine{a}, m.get(index).Type.Shape)
		}},
		{Name: "gather_nd.view", pattern: gatherND, build: func(m *match) *ir.Value {
			parts, ok := tupleParts(m.get(index))
			if !ok || opOf[ir.GatherND](m, gatherND).BatchDims != 0 {
				return nil
			}
			s := m.get(index).Type.Shape
			return m.indexView(m.get(x), 0, parts, s[:len(s)-1])
		}},
		{Name: "compare.positions", pattern: compare, build: func(m *match) *ir.Value {
			holds, known := compares(m.root)
			if !known {
				return nil
			}
			c := tensor.New(tensor.Bool)
			c.SetInt64(0, holds)
			return m.expand(m.e.constant("", c), m.root.Outputs[0].Type.Shape)
		}},
	}
}

// inTable says whether the indices of a Gather, GatherElements or GatherND are inside of its table.
func inTable(n *ir.Node) ir.Tri {
	table, index := n.Inputs[0].Type.Shape, n.Inputs[1]
	var sizes []ir.Dim // sizes of the axes that an index tuple addresses
	switch op := n.Op.(type) {
	case ir.Gather:
		sizes = table[op.Axis : op.Axis+1]
	case ir.GatherElements:
		sizes = table[op.Axis : op.Axis+1]
	case ir.GatherND:
		tuple, _ := last(index.Type.Shape).Const()
		sizes = table[op.BatchDims : op.BatchDims+tuple]
	}
	within := func(lo, hi, size ir.Dim) ir.Tri {
		switch {
		case ir.LessEqual(ir.N(0), lo.Add(size)) == ir.Yes && ir.LessEqual(hi, size.Sub(ir.N(1))) == ir.Yes:
			return ir.Yes
		case ir.LessEqual(ir.N(0), lo.Add(size)) == ir.No || ir.LessEqual(hi, size.Sub(ir.N(1))) == ir.No:
			return ir.No
		}
		return ir.Unknown
	}
	if c := index.Const; c != nil && c.Len() <= maxFold {
		c = c.Aligned()
		all := ir.Yes
		for i := range c.Len() {
			position := ir.N(int(c.Int64(i)))
			switch within(position, position, sizes[i%len(sizes)]) {
			case ir.No:
				return ir.No
			case ir.Unknown:
				all = ir.Unknown
			}
		}
		return all
	}
	if a, ok := affineOf(index); ok && len(sizes) == 1 {
		if lo, hi, ok := a.bounds(index.Type.Shape); ok {
			if within(lo, hi, sizes[0]) == ir.Yes {
				return ir.Yes
			}
		}
	}
	return ir.Unknown
}

// expand stretches v to a shape, or returns v itself where it has it.
func (m *match) expand(v *ir.Value, s ir.Shape) *ir.Value {
	if v.Type.Shape.Equal(s) {
		return v
	}
	return m.emit(ir.Expand{Shape: s}, v)
}

// compares decides a comparison of positions for all of them at once.
func compares(n *ir.Node) (holds int64, known bool) {
	d, ok := comparison(n)
	if !ok {
		return 0, false
	}
	lo, hi, ok := d.bounds(n.Outputs[0].Type.Shape)
	switch {
	case !ok:
	case ir.LessEqual(hi, ir.N(0)) == ir.Yes:
		return 1, true
	case ir.LessEqual(lo, ir.N(0)) == ir.No:
		return 0, true
	}
	return 0, false
}

// comparison returns what a comparison of positions demands to be at most 0.
func comparison(n *ir.Node) (d affine, ok bool) {
	o, ok := n.Op.(ir.Binary)
	if !ok || o.Fn != ir.Less && o.Fn != ir.LessOrEqual && o.Fn != ir.Greater && o.Fn != ir.GreaterOrEqual {
		return d, false
	}
	a, ok1 := affineOf(n.Inputs[0])
	b, ok2 := affineOf(n.Inputs[1])
	if !ok1 || !ok2 {
		return d, false
	}
	s := n.Outputs[0].Type.Shape
	if a, ok = a.broadcast(n.Inputs[0].Type.Shape, s); !ok {
		return d, false
	}
	if b, ok = b.broadcast(n.Inputs[1].Type.Shape, s); !ok {
		return d, false
	}
	if o.Fn == ir.Greater || o.Fn == ir.GreaterOrEqual {
		a, b = b, a
	}
	d = a.add(b.scale(ir.N(-1)))
	if o.Fn == ir.Less || o.Fn == ir.Greater {
		d.off = d.off.Add(ir.N(1))
	}
	return d, true
}

// tupleParts takes index tuples apart that were concatenated.
func tupleParts(index *ir.Value) (parts []affine, ok bool) {
	if index.Def == nil {
		return nil, false
	}
	s := index.Type.Shape
	c, isConcat := index.Def.Op.(ir.Concat)
	if !isConcat || c.Axis != len(s)-1 {
		return nil, false
	}
	for _, v := range index.Def.Inputs {
		a, ok := affineOf(v)
		if !ok || !last(v.Type.Shape).Is(1) {
			return nil, false
		}
		parts = append(parts, affine{a.off, a.at[:len(s)-1]})
	}
	return parts, true
}

// indexView returns out[before…, i…, after…] = x[before…, parts[0](i), parts[1](i)…, after…] as views, where i runs over
// the shape s and axis is the first that the parts address. Every part must count through separate axes of s in
// row-major order; axes that no part counts through are stretched. It returns nil where that is not so.
func (m *match) indexView(x *ir.Value, axis int, parts []affine, s ir.Shape) *ir.Value {
	var order []int // axes of s in the order in which x has them
	split := slices.Clone(x.Type.Shape[:axis])
	type cut struct {
		start, size ir.Dim
		step        int
	}
	var cuts []cut
	for j, a := range parts {
		size, next := ir.N(1), ir.N(1)
		var mine []int
		step := 1
		for k := len(s) - 1; k >= 0; k-- {
			if a.at[k].Is(0) || s[k].Is(1) {
				continue
			}
			if len(mine) == 0 {
				n, ok := a.at[k].Const()
				if !ok || n <= 0 {
					return nil
				}
				step, next = n, a.at[k]
			}
			if !a.at[k].Equal(next) || slices.Contains(order, k) {
				return nil
			}
			size, next = size.Mul(s[k]), next.Mul(s[k])
			mine = append(mine, k)
		}
		slices.Reverse(mine)
		order = append(order, mine...)
		for _, k := range mine {
			split = append(split, s[k])
		}
		// Negative indices count from the end. A mix of both is not a view.
		start := a.off
		if lo, hi, ok := a.bounds(s); !ok {
			return nil
		} else if ir.LessEqual(hi, ir.N(-1)) == ir.Yes {
			start = start.Add(x.Type.Shape[axis+j])
		} else if ir.LessEqual(ir.N(0), lo) != ir.Yes {
			return nil
		}
		cuts = append(cuts, cut{start, size, step})
	}
	after := x.Type.Shape[axis+len(parts):]
	split = append(split, after...)

	o := ir.Slice{Sizes: slices.Clone(x.Type.Shape)}
	for range x.Type.Shape {
		o.Starts, o.Steps = append(o.Starts, ir.Dim{}), append(o.Steps, 1)
	}
	for j, c := range cuts {
		o.Starts[axis+j], o.Sizes[axis+j], o.Steps[axis+j] = c.start, c.size, c.step
	}
	v := m.reshape(m.emit(o, x), split)

	// Now the axes of s that x has come one after the other; bring them in the order of s.
	sorted := slices.Sorted(slices.Values(order))
	var perm []int
	for k := range axis {
		perm = append(perm, k)
	}
	for _, k := range sorted {
		perm = append(perm, axis+slices.Index(order, k))
	}
	for k := range after {
		perm = append(perm, axis+len(order)+k)
	}
	v = m.transpose(v, perm...)

	full := slices.Clone(x.Type.Shape[:axis])
	for k, d := range s {
		if !slices.Contains(order, k) {
			d = ir.N(1)
		}
		full = append(full, d)
	}
	full = append(full, after...)
	return m.expand(m.reshape(v, full), m.root.Outputs[0].Type.Shape)
}

// uniformOf returns the element that v has everywhere, as a tensor of rank 0.
func uniformOf(v *ir.Value, depth int) *tensor.Tensor {
	if depth == 0 || v == nil {
		return nil
	}
	if t := v.Const; t != nil {
		if n := t.Len(); n == 0 || n > maxFold || t.DType().Size() == 0 {
			return nil
		}
		w := t.DType().Size()
		first := t.Bytes()[:w]
		for i := range t.Len() {
			if string(t.Bytes()[i*w:(i+1)*w]) != string(first) {
				return nil
			}
		}
		c := tensor.New(t.DType())
		copy(c.Bytes(), first)
		return c
	}
	if v.Def == nil {
		return nil
	}
	switch v.Def.Op.Kind() {
	case ir.KindExpand, ir.KindReshape, ir.KindTranspose, ir.KindSlice, ir.KindTile:
		return uniformOf(v.Def.Inputs[0], depth-1)
	}
	return nil
}
