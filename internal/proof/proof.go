// Package proof checks that a plan is safe by running it in the abstract. Verify knows, for every byte of the arenas, whose
// value is there, and lets each step of the bound graph read and write; Replay does so with bytes. Neither shares code
// with liveness or planner: lives are never computed, only lost contents are found. Of a plan for all sizes, Verify knows no bytes, but
// which buffers are apart whatever their sizes are.
package proof

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/ir"
)

// A Region is a range of bytes in one of a plan's arenas.
type Region struct {
	Arena        int
	Offset, Size int64
}

func (p Region) end() int64 { return p.Offset + p.Size }

func (p Region) overlaps(q Region) bool {
	return p.Arena == q.Arena && p.Size > 0 && q.Size > 0 && p.Offset < q.end() && q.Offset < p.end()
}

// A Claim describes where a plan puts the values of a bound graph. Verify checks it.
type Claim struct {
	Graph *ir.Graph
	Steps []*ir.Node // nodes in the order in which they run, without views
	// Arenas are the sizes in bytes of the plan's arenas.
	Arenas []int64
	// Align is the alignment in bytes of every region.
	Align int64
	// Layout is where the kernels find the elements of a value.
	Layout func(v *ir.Value) ir.Layout
	// Made is the layout for which the code of a step was made, of a value that the step reads or writes: a step may have been made for an
	// earlier binding of the graph. nil: all code was made for Layout.
	Made func(step int, v *ir.Value) ir.Layout
	// Region returns the memory of a value that is not a view; false for one that was not planned.
	Region func(v *ir.Value) (Region, bool)
	// Scratch returns the regions of a step's scratch memory.
	Scratch func(step int) []Region
	// InPlace reports whether the kernel of n may write its result 0 over operand i.
	InPlace func(n *ir.Node, i int) bool
	// StridedResult reports whether the kernel of n writes its result 0 by these strides and touches nothing else there; nil: none.
	StridedResult func(n *ir.Node, strides []int) bool
	// LateReads is the number of steps after its own during which n may still read its operands.
	LateReads func(n *ir.Node) int
	// Held are values, besides the graph's outputs, that are read after the last step.
	Held []*ir.Value
	// Below, if it is not nil, is a plan for all sizes: the buffers directly below each one. The Offset of a Region is then the number of a
	// buffer, whose bytes begin where the highest of those below it ends, and Arenas and Align mean nothing.
	Below [][]int
}

// Verify runs the claim in the abstract. The error names the step and both values when something is read that is not there
// any more or not there yet, when a result is over an operand that its kernel still reads, when a view shows other elements
// than it means, when a step was made for other layouts, or when a region is outside its arena or misaligned.
func Verify(c Claim) error {
	s := &state{Claim: c, layouts: newLayouts(c), overlap: Region.overlaps, joins: map[*ir.Value]*join{}}
	if c.Below != nil {
		var err error
		if s.overlap, err = unordered(c.Below); err != nil {
			return err
		}
	}
	s.held = newContents(c, s.overlap)
	if err := s.layouts.show(c.Graph.Inputs); err != nil {
		return err
	}
	for _, v := range c.Graph.Inputs {
		if err := s.write(v, "the caller"); err != nil {
			return err
		}
	}
	for i, n := range c.Steps {
		if err := s.layouts.show(slices.Concat(n.Inputs, n.Outputs)); err != nil {
			return err
		}
		if err := s.asMade(i, n); err != nil {
			return err
		}
		if err := s.step(i, n); err != nil {
			return err
		}
	}
	if err := s.layouts.show(c.Graph.Outputs); err != nil {
		return err
	}
	for _, v := range c.Graph.Outputs {
		if err := s.read(v, "the caller"); err != nil {
			return err
		}
	}
	for _, v := range c.Held {
		if err := s.read(v, "the caller at the end"); err != nil {
			return err
		}
	}
	return nil
}

type state struct {
	Claim
	layouts *layouts
	overlap func(p, q Region) bool
	held    *contents // roots that are intact, and where
	joins   map[*ir.Value]*join
	late    []lateRead
}

// asMade demands that the code of a step was made for the layouts that its operands and results have.
func (c *Claim) asMade(i int, n *ir.Node) error {
	if c.Made == nil {
		return nil
	}
	for _, v := range slices.Concat(n.Inputs, n.Outputs) {
		if v == nil {
			continue
		}
		was, is, shape := c.Made(i, v), c.Layout(v), v.Type.Sizes()
		if was.Root != is.Root || was.Offset != is.Offset || !was.Shape.Equal(shape) || !slices.Equal(was.Strides, is.Strides) {
			return fmt.Errorf("step %s was made for %s at element %d of %s with shape %v and strides %v, and it is at element %d of %s "+
				"with shape %v and strides %v", n.Label(), name(v), was.Offset, name(was.Root), was.Shape, was.Strides, is.Offset,
				name(is.Root), shape, is.Strides)
		}
	}
	return nil
}

// A join is the state of a Concat's result whose operands are written directly into it. Its memory is taken as soon as
// the first operand is written.
type join struct {
	parts map[*ir.Value]bool // operands that are in the memory already
	whole bool               // the Concat has run, and the result can be read
}

// lateRead is an operand that a step reads until step `until` has run.
type lateRead struct {
	v     *ir.Value
	by    string
	until int
}

// read returns an error if the contents of v are not intact.
func (s *state) read(v *ir.Value, by string) error {
	root := s.layouts.of(v).Root
	if root.IsConst() || size(root) == 0 && s.Below == nil {
		return nil
	}
	if _, ok := s.intact(root); !ok {
		return fmt.Errorf("%s reads %s, whose memory was not written or has been reused", by, name(v))
	}
	return nil
}

// intact returns the region of a root; false if its contents are not intact.
func (s *state) intact(root *ir.Value) (Region, bool) {
	whole := s.layouts.into(root)
	if whole == nil {
		p, ok := s.held.region(root)
		return p, ok && (s.joins[root] == nil || s.joins[root].whole)
	}
	p, ok := s.held.region(whole)
	return p, ok && s.joins[whole].parts[root]
}

// write records that v is in the region of the plan. The values that the region overlaps are lost.
func (s *state) write(v *ir.Value, by string) error {
	p, err := s.regionOf(v, by)
	if err != nil {
		return err
	}
	whole := s.layouts.into(v)
	if whole == nil {
		s.held.lose(p)
		s.held.hold(v, p)
		if j := s.joins[v]; j != nil {
			j.whole = true
		}
		return nil
	}
	if q, ok := s.held.region(whole); !ok || q != p {
		s.held.lose(p)
		s.held.hold(whole, p)
		s.joins[whole] = &join{parts: map[*ir.Value]bool{}}
	}
	s.joins[whole].parts[v] = true
	return nil
}

// regionOf returns the bytes that v takes, and checks them.
func (s *state) regionOf(v *ir.Value, by string) (Region, error) {
	p, ok := s.Region(v)
	if !ok {
		return p, fmt.Errorf("%s writes %s, which has no buffer in the plan", by, name(v))
	}
	bytes := s.layouts.bytes(v)
	if p.Size < bytes {
		return p, fmt.Errorf("%s writes %s: %d bytes, and its buffer has %d", by, name(v), bytes, p.Size)
	}
	if p.Size = bytes; s.Below != nil {
		p.Size = max(p.Size, 1) // what is empty is not so at all sizes
	}
	return p, s.check(p, name(v))
}

func (s *state) check(p Region, what string) error {
	if s.Below != nil {
		return nil
	}
	if p.Arena < 0 || p.Arena >= len(s.Arenas) || p.Offset < 0 || p.Size < 0 || p.Offset > s.Arenas[p.Arena]-p.Size {
		return fmt.Errorf("%s is at byte %d of arena %d and has %d, outside the plan's arenas %v", what, p.Offset, p.Arena, p.Size,
			s.Arenas)
	}
	if s.Align > 0 && p.Offset%s.Align != 0 {
		return fmt.Errorf("%s is at byte %d, which is not a multiple of %d", what, p.Offset, s.Align)
	}
	return nil
}

// step lets n read its operands, use its scratch and write its results.
func (s *state) step(i int, n *ir.Node) error {
	by := "step " + n.Label()
	late := s.LateReads(n)
	for _, v := range n.Inputs {
		if v == nil {
			continue
		}
		if err := s.read(v, by); err != nil {
			return err
		}
		if late > 0 && !v.IsConst() {
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

// apart demands that what a step writes is apart from what it reads, but for a result that the kernel may write over an
// operand element by element: then both must be the same bytes, whole and row-major; or the result shows the same elements of a buffer as
// that operand, and the other operands show others.
func (s *state) apart(i int, n *ir.Node, by string) error {
	written := s.Scratch(i)
	for k, p := range written {
		if err := s.check(p, fmt.Sprintf("scratch %d of %s", k, by)); err != nil {
			return err
		}
		for _, q := range written[:k] {
			if s.overlap(p, q) {
				return fmt.Errorf("two scratch buffers of %s overlap", by)
			}
		}
		for _, x := range n.Inputs {
			if x == nil {
				continue
			}
			if q, held := s.intact(s.layouts.of(x).Root); held && s.overlap(p, q) {
				return fmt.Errorf("the scratch of %s overlaps its operand %s", by, name(x))
			}
		}
		s.held.lose(p)
	}
	for k, v := range n.Outputs {
		p, err := s.regionOf(v, by)
		if err != nil {
			return err
		}
		for _, q := range written {
			if s.overlap(p, q) {
				return fmt.Errorf("%s writes %s over its own scratch or another result", by, name(v))
			}
		}
		written = append(written, p)
		if v.Type.Elements() == 0 {
			continue // nothing is written
		}
		for j, x := range n.Inputs {
			if x == nil {
				continue
			}
			l := s.layouts.of(x)
			q, held := s.intact(l.Root)
			if !held || !s.overlap(p, q) {
				continue
			}
			over := k == 0 && p == q && s.InPlace(n, j) && s.layouts.whole(x) && s.layouts.over(v) == nil && s.layouts.into(v) == nil
			if within := s.layouts.over(v); within != nil && k == 0 && p == q {
				over = x == within || s.layouts.disjoint(v, x)
			}
			if joined := s.layouts.into(l.Root); joined != nil { // other operands of that Concat are elsewhere in its result
				over = k == 0 && p == q && (v == joined || s.layouts.into(v) == joined)
			}
			if !over {
				return fmt.Errorf("%s writes %s over its operand %s, which it still reads", by, name(v), name(x))
			}
		}
	}
	return nil
}

func size(v *ir.Value) int64 {
	return int64(v.Type.DType.Bytes(v.Type.Elements()))
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
