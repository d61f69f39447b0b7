// Package proof checks that a plan is safe by running it in the abstract: it knows, for every byte of the arena, whose
// value lies there, and lets each step of the bound graph read and write. It shares no code with liveness or planner: lives
// are never computed, only lost contents are found.
package proof

import (
	"fmt"

	"github.com/rlxc/rlxc/ir"
)

// A Place is a range of bytes in one of a plan's arenas.
type Place struct {
	Arena        int
	Offset, Size int64
}

func (p Place) end() int64 { return p.Offset + p.Size }

func (p Place) overlaps(q Place) bool {
	return p.Arena == q.Arena && p.Size > 0 && q.Size > 0 && p.Offset < q.end() && q.Offset < p.end()
}

// A Claim is what a plan says about a bound graph.
type Claim struct {
	Graph *ir.Graph
	Steps []*ir.Node // in the order in which they run; views are none
	// Arenas are the sizes in bytes of the plan's arenas.
	Arenas []int64
	// Align is the alignment in bytes that every place has.
	Align int64
	// Place is where a value with memory of its own lies; false for one that was not planned.
	Place func(v *ir.Value) (Place, bool)
	// Scratch gives the places of a step's scratch memory.
	Scratch func(step int) []Place
	// InPlace reports whether the kernel of n may write its result 0 over operand i.
	InPlace func(n *ir.Node, i int) bool
	// LateReads is the number of steps after its own during which n may still read its operands.
	LateReads func(n *ir.Node) int
}

// Verify runs the claim in the abstract. The error names the step and both values when something is read that is not there
// any more or not there yet, when a result lies over an operand that its kernel still reads, when a view leaves its root,
// or when a place is outside its arena or misaligned.
func Verify(c Claim) error {
	s := &state{Claim: c, layouts: make([]ir.Layout, c.Graph.NumValues()), held: map[*ir.Value]Place{}}
	for _, v := range c.Graph.Inputs {
		if err := s.write(v, "the caller"); err != nil {
			return err
		}
	}
	views := viewsBefore(c.Graph)
	for i, n := range c.Steps {
		for _, v := range views[n] {
			if err := s.view(v); err != nil {
				return err
			}
		}
		if err := s.step(i, n); err != nil {
			return err
		}
	}
	for _, v := range views[nil] {
		if err := s.view(v); err != nil {
			return err
		}
	}
	for _, v := range c.Graph.Outputs {
		if err := s.read(v, "the caller"); err != nil {
			return err
		}
	}
	return nil
}

// viewsBefore lists the views that stand before each step in the graph's order; under nil those behind the last. A
// schedule may run steps in another order, so views are sorted to their first reader.
func viewsBefore(g *ir.Graph) map[*ir.Node][]*ir.Node {
	out := map[*ir.Node][]*ir.Node{}
	placed := map[*ir.Node]bool{}
	var need func(v *ir.Value, at *ir.Node)
	need = func(v *ir.Value, at *ir.Node) {
		if v == nil || v.Def == nil || !v.Def.Op.Kind().Has(ir.View) || placed[v.Def] {
			return
		}
		need(v.Def.Inputs[0], at)
		placed[v.Def] = true
		out[at] = append(out[at], v.Def)
	}
	for _, n := range g.Nodes {
		if !n.Op.Kind().Has(ir.View) {
			for _, v := range n.Inputs {
				need(v, n)
			}
		}
	}
	for _, v := range g.Outputs {
		need(v, nil)
	}
	return out
}

type state struct {
	Claim
	layouts []ir.Layout         // by ID, found from the graph alone
	held    map[*ir.Value]Place // roots whose contents are intact, and where
	late    []lateRead
}

// lateRead is an operand that a step goes on reading until step `until` has run.
type lateRead struct {
	v     *ir.Value
	by    string
	until int
}

func (s *state) layout(v *ir.Value) ir.Layout {
	if s.layouts[v.ID].Root == nil {
		s.layouts[v.ID] = ir.OwnLayout(v)
	}
	return s.layouts[v.ID]
}

// view follows a view to its root and checks that it stays inside.
func (s *state) view(n *ir.Node) error {
	in, out := n.Inputs[0], n.Outputs[0]
	l, ok := ir.ViewLayout(n, s.layout(in))
	if !ok {
		return fmt.Errorf("view %s: its operand's strides do not allow it", n.Label())
	}
	s.layouts[out.ID] = l
	if shape := out.Type.Sizes(); shape.Elements() > 0 {
		if last := l.Offset + l.Span(shape); l.Offset < 0 || last > l.Root.Type.Sizes().Elements() {
			return fmt.Errorf("view %s shows elements %d to %d of %s, which has %d", n.Label(), l.Offset, last, name(l.Root), l.Root.Type.Sizes().Elements())
		}
	}
	return nil
}

// read demands that the contents of v are intact.
func (s *state) read(v *ir.Value, by string) error {
	root := s.layout(v).Root
	if root.IsConst() || size(root) == 0 {
		return nil
	}
	if _, ok := s.held[root]; !ok {
		return fmt.Errorf("%s reads %s, whose memory was not written or has been reused", by, name(v))
	}
	return nil
}

// write puts v's contents where the plan says; whatever lay there is lost.
func (s *state) write(v *ir.Value, by string) error {
	s.layouts[v.ID] = ir.OwnLayout(v)
	p, ok := s.Place(v)
	if !ok {
		return fmt.Errorf("%s writes %s, which has no place in the plan", by, name(v))
	}
	if p.Size < size(v) {
		return fmt.Errorf("%s writes %s: %d bytes, its place has %d", by, name(v), size(v), p.Size)
	}
	p.Size = size(v)
	if err := s.check(p, name(v)); err != nil {
		return err
	}
	s.lose(p)
	s.held[v] = p
	return nil
}

func (s *state) check(p Place, what string) error {
	if p.Arena < 0 || p.Arena >= len(s.Arenas) || p.Offset < 0 || p.end() > s.Arenas[p.Arena] {
		return fmt.Errorf("%s lies at bytes %d to %d of arena %d, outside the plan's arenas %v", what, p.Offset, p.end(), p.Arena, s.Arenas)
	}
	if s.Align > 0 && p.Offset%s.Align != 0 {
		return fmt.Errorf("%s lies at byte %d, which is not a multiple of %d", what, p.Offset, s.Align)
	}
	return nil
}

// lose forgets the contents that a write to p destroys.
func (s *state) lose(p Place) {
	for v, q := range s.held {
		if q.overlaps(p) {
			delete(s.held, v)
		}
	}
}

// step lets n read its operands, use its scratch and write its results.
func (s *state) step(i int, n *ir.Node) error {
	by := "step " + n.Label()
	for _, v := range n.Inputs {
		if v == nil {
			continue
		}
		if err := s.read(v, by); err != nil {
			return err
		}
		if late := s.LateReads(n); late > 0 && !v.IsConst() {
			s.late = append(s.late, lateRead{v, by, min(i+late, len(s.Steps)-1)})
		}
	}
	if err := s.apart(i, n, by); err != nil {
		return err
	}
	for _, v := range n.Outputs {
		if err := s.write(v, by); err != nil {
			return err
		}
	}
	keep := s.late[:0]
	for _, r := range s.late {
		if err := s.read(r.v, r.by+" (late)"); err != nil {
			return err
		}
		if r.until > i {
			keep = append(keep, r)
		}
	}
	s.late = keep
	return nil
}

// apart demands that what a step writes lies apart from what it reads, but for a result that the kernel may write over an
// operand element by element: then both must be the same bytes, whole and row-major.
func (s *state) apart(i int, n *ir.Node, by string) error {
	written := s.Scratch(i)
	for k, p := range written {
		if err := s.check(p, fmt.Sprintf("scratch %d of %s", k, by)); err != nil {
			return err
		}
	}
	for k, v := range n.Outputs {
		p, ok := s.Place(v)
		if !ok {
			return fmt.Errorf("%s writes %s, which has no place in the plan", by, name(v))
		}
		p.Size = size(v)
		for _, q := range written {
			if p.overlaps(q) {
				return fmt.Errorf("%s writes %s over its own scratch or another result", by, name(v))
			}
		}
		written = append(written, p)
		for j, x := range n.Inputs {
			if x == nil {
				continue
			}
			root := s.layout(x).Root
			q, held := s.held[root]
			if !held || !p.overlaps(q) {
				continue
			}
			l := s.layout(x)
			whole := l.Offset == 0 && size(x) == size(root) && l.Contiguous(x.Type.Sizes())
			if k != 0 || !s.InPlace(n, j) || !whole || p != q {
				return fmt.Errorf("%s writes %s over its operand %s, which it still reads", by, name(v), name(x))
			}
		}
	}
	for _, p := range s.Scratch(i) {
		for _, x := range n.Inputs {
			if x == nil {
				continue
			}
			if q, held := s.held[s.layout(x).Root]; held && p.overlaps(q) {
				return fmt.Errorf("the scratch of %s lies over its operand %s", by, name(x))
			}
		}
		s.lose(p)
	}
	return nil
}

func size(v *ir.Value) int64 {
	return int64(v.Type.DType.Bytes(v.Type.Sizes().Elements()))
}

// name says which value is meant.
func name(v *ir.Value) string {
	if v.Name != "" {
		return fmt.Sprintf("%q", v.Name)
	}
	if v.Def != nil {
		return fmt.Sprintf("%%%d of %s", v.ID, v.Def.Label())
	}
	return fmt.Sprintf("%%%d", v.ID)
}
