package engine

import "slices"

// boxed returns the binding for the sizes of the run of a stage that has boxes, and its instance.
func (f *frame) boxed(i int) (*Binding, error) {
	seg, p, prog := &f.stages[i], &f.parts[i], f.s.p
	if !slices.Equal(p.outside, p.boxesAt) {
		p.boxes, p.boxesAt = nil, p.outside
	}
	p.boxes = slices.DeleteFunc(p.boxes, func(e *entry) bool { return !prog.cache.has(e) })
	for _, e := range p.boxes {
		x := e.binding.box
		for k, b := range x.bindings {
			if slices.Equal(b.sizes, p.sizes) {
				x.bindings = slices.Insert(slices.Delete(x.bindings, k, k+1), 0, b)
				return b, nil
			}
		}
	}
	sizes, inOrder := restrict(f.sizes, seg.symbols), slices.Clone(p.sizes)
	for k, e := range p.boxes {
		x := e.binding.box
		most := prog.mostBindings(x)
		b, err := prog.bound(x, seg.graph, sizes)
		if err != nil { // the box made for these sizes says what is wrong with them, if something is
			continue
		}
		p.boxes = slices.Insert(slices.Delete(p.boxes, k, k+1), 0, e)
		b.sizes, x.bindings = inOrder, slices.Insert(x.bindings, 0, b)
		surplus := max(0, len(x.bindings)-most)
		x.bindings = slices.Delete(x.bindings, len(x.bindings)-surplus, len(x.bindings))
		prog.cache.add(e, x.bytes*int64(1-surplus))
		return b, nil
	}
	if n := len(p.boxes); n == mostBoxes {
		prog.cache.drop(p.boxes[n-1])
		p.boxes = p.boxes[:n-1]
	}
	f.s.boxes++
	key := cacheKey{stage: seg, of: f.s, box: f.s.boxes}
	e, err := prog.cache.bind(key, func() (*Binding, error) { return prog.plan(seg.graph, sizes, p.outside, seg.symbols) })
	if err != nil {
		prog.cache.drop(e)
		return nil, err
	}
	e.binding.sizes, p.boxes = inOrder, slices.Insert(p.boxes, 0, e)
	return e.binding, nil
}

// mostBoxes bounds the boxes that a session has of a stage.
const mostBoxes = 8
