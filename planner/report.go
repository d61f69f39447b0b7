package planner

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
)

// WriteText writes the plan as text: a header; a tab-separated line `offset size node` for each buffer, sorted by offset and followed by
// the values in it; and a summary. It fails with the error of w.
func (plan *Plan) WriteText(out io.Writer, p *Problem) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "# arena_size=%d total_unshared=%d saved=%d\n", plan.Committed, plan.Rounded, plan.Reused)
	fmt.Fprint(w, "# offset\tsize\tnode\n")
	views := p.viewsOf()
	last := -1
	for _, i := range plan.byAddress() {
		slot := plan.Slots[i]
		if len(plan.Arenas) > 1 && slot.Arena != last {
			fmt.Fprintf(w, "# arena %d: %s\n", slot.Arena, plan.Arenas[slot.Arena])
			last = slot.Arena
		}
		fmt.Fprintf(w, "%d\t%d\t%s\n", slot.Offset, slot.Size, p.Buffers[i].label())
		for _, v := range views[i] {
			fmt.Fprintf(w, "%d\t%d\t%s, in %s\n", slot.Offset+v.Offset, v.Size, v.Name, p.Buffers[i].label())
		}
	}
	fmt.Fprintf(w, "# mode=%v lower_bound=%d ratio=%.4f\n", plan.Options.Mode, plan.LowerBound, plan.Ratio())
	fmt.Fprintf(w, "# logical=%d rounded=%d peak=%d committed=%d padding=%d reused=%d\n",
		plan.Logical, plan.Rounded, plan.Peak, plan.Committed, plan.Padding, plan.Reused)
	for n, name := range p.Steps {
		fmt.Fprintf(w, "# step %d %s\n", n, name)
	}
	for _, e := range p.Extensions {
		fmt.Fprintf(w, "# extension %s (%s): %d buffers, peak +%d bytes\n", e.Name, e.Policy, len(e.Buffers), e.PeakGrowth)
		for _, name := range e.Buffers {
			fmt.Fprintf(w, "#\t%s\n", name)
		}
	}
	for _, u := range plan.unplanned(p) {
		fmt.Fprintf(w, "# not planned: %s (%d bytes): %s\n", u.names, u.size, u.reason)
	}
	return w.Flush()
}

// A reasonGroup is buffers that got no memory for one reason.
type reasonGroup struct {
	reason, names string
	count         int
	size          int64
}

// unplanned sums up what got no memory, by reason.
func (plan *Plan) unplanned(p *Problem) []reasonGroup {
	var groups []reasonGroup
	for _, u := range plan.Unplanned {
		b := &p.Buffers[u.Buffer]
		i := slices.IndexFunc(groups, func(g reasonGroup) bool { return g.reason == u.Reason })
		if i < 0 {
			i = len(groups)
			groups = append(groups, reasonGroup{reason: u.Reason, names: b.label()})
		}
		g := &groups[i]
		g.count++
		g.size += b.Size
		if g.count > 1 {
			g.names = fmt.Sprintf("%d buffers", g.count)
		}
	}
	return groups
}

// viewsOf returns the views in each buffer, by address; equal ones in the order of the problem.
func (p *Problem) viewsOf() [][]*View {
	list := make([][]*View, len(p.Buffers))
	for i := range p.Views {
		v := &p.Views[i]
		list[v.Buffer] = append(list[v.Buffer], v)
	}
	for _, views := range list {
		slices.SortStableFunc(views, func(a, b *View) int { return cmp.Compare(a.Offset, b.Offset) })
	}
	return list
}

// stepName returns how reports call a step.
func (p *Problem) stepName(step int) string {
	if step < 0 || step >= len(p.Steps) {
		return fmt.Sprint(step)
	}
	return fmt.Sprintf("%d (%s)", step, p.Steps[step])
}

// byAddress returns the planned buffers by arena, offset and id.
func (plan *Plan) byAddress() []int {
	rows := make([]int, 0, len(plan.Slots))
	for i := range plan.Slots {
		if plan.Slots[i].Arena != NoArena {
			rows = append(rows, i)
		}
	}
	slices.SortStableFunc(rows, func(i, j int) int {
		a, b := plan.Slots[i], plan.Slots[j]
		return cmp.Or(cmp.Compare(a.Arena, b.Arena), cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Size, b.Size))
	})
	return rows
}

// String says on which memory the arena is.
func (a Arena) String() string {
	text := fmt.Sprintf("device %d", a.Device)
	switch {
	case a.Weights:
		text += ", weights"
	case a.Copy:
		text += ", copy lane"
	}
	if a.Start > 0 {
		text += fmt.Sprintf(", from %d", a.Start)
	}
	return text + fmt.Sprintf(", %d bytes", a.Size)
}

// label is how reports call a buffer.
func (b *Buffer) label() string {
	if b.Name == "" {
		return fmt.Sprintf("#%d", b.ID)
	}
	return b.Name
}
