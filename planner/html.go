package planner

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/rlxc/rlxc/internal/page"
)

// Sizes of the chart, in points.
const (
	layerHeight = 20
	curveHeight = 90
	arenaHeight = 420
	gapHeight   = 18
	mostBoxes   = 20_000 // the largest are drawn
	mostPieces  = 16     // pieces that are drawn of a view, spread evenly over it: more would be thinner than a line
)

// A picture is a chart that grows downwards: layers, the live bytes of each device, each arena.
type picture struct {
	page.Chart
	problem    *Problem
	plan       *Plan
	begin, end int // steps
}

// WriteHTML writes the plan as one HTML page. Time runs to the right, with the layers in the names of the steps. For each device the page
// shows the live bytes below the lower bound. For each arena it shows the buffers by address, with their values. It fails with the error
// of w.
func (plan *Plan) WriteHTML(w io.Writer, p *Problem, title string) error {
	r := page.NewReport(w, title)
	r.Facts("arena", page.Bytes(plan.Committed), "lower bound", page.Bytes(plan.LowerBound), "ratio", fmt.Sprintf("%.4f", plan.Ratio()),
		"without sharing", page.Bytes(plan.Rounded), "shared", page.Bytes(plan.Reused), "padding", page.Bytes(plan.Padding),
		"mode", plan.Options.Mode.String())
	if len(p.Buffers) > 0 {
		c := &picture{problem: p, plan: plan, begin: p.Buffers[0].First, end: p.Buffers[0].Last}
		for i := range p.Buffers {
			c.begin, c.end = min(c.begin, p.Buffers[i].First), max(c.end, p.Buffers[i].Last)
		}
		c.Caption = "Steps run to the right, addresses up. From the top:"
		c.layers()
		if err := c.curves(); err != nil {
			return err
		}
		c.arenas()
		c.steps()
		r.Chart(&c.Chart)
	}
	for _, e := range p.Extensions {
		if len(e.Buffers) == 0 {
			continue
		}
		r.Put("<p>Extension %s (%s): %d buffers, peak +%s</p>\n", e.Name, e.Policy, len(e.Buffers), page.Bytes(e.PeakGrowth))
	}
	for _, u := range plan.unplanned(p) {
		r.Put("<p>Not planned: %s (%s): %s</p>\n", u.names, page.Bytes(u.size), u.reason)
	}
	return r.Close()
}

// x is where a step begins.
func (c *picture) x(step int) float64 {
	return (float64(step) - float64(c.begin)) / (float64(c.end) - float64(c.begin))
}

// below adds a part of the chart and returns where it begins.
func (c *picture) below(height float64, caption string) float64 {
	if c.Height > 0 {
		c.Height += gapHeight
		c.Caption += ";"
	}
	c.Caption += " " + caption
	top := c.Height
	c.Height += height
	return top
}

// layers draws which steps belong to one layer.
func (c *picture) layers() {
	var boxes []page.Box
	names := c.problem.Steps
	for first := 0; first < len(names); {
		layer, last := page.Layer(names[first]), first+1
		for last < len(names) && page.Layer(names[last]) == layer {
			last++
		}
		if layer != "" {
			boxes = append(boxes, page.Box{X: c.x(first), W: c.x(last) - c.x(first), H: layerHeight, Label: layer,
				About: fmt.Sprintf("%s\nsteps %d to %d", layer, first, last-1)})
		}
		first = last
	}
	if boxes != nil {
		c.below(layerHeight, "layers")
		c.Boxes = append(c.Boxes, boxes...)
	}
}

// curves draws the live bytes of each device.
func (c *picture) curves() error {
	o := c.plan.Options
	o.Mode = Auto // one space a device
	l, err := newLayout(c.problem, &o)
	if err != nil {
		return err
	}
	for s := range l.spaces {
		sp := &l.spaces[s]
		changes := map[int]int64{}
		for i := range sp.blocks {
			for h := range sp.blocks[i].held() {
				changes[h.first] += h.high - h.low
				changes[h.last] -= h.high - h.low
			}
		}
		steps := make([]int, 0, len(changes))
		for step := range changes {
			steps = append(steps, step)
		}
		slices.Sort(steps)
		about := fmt.Sprintf("live bytes of device %d, lower bound %s", sp.device, page.Bytes(sp.bound))
		const most = 0.95 // share of the height at which the bound is drawn
		if len(sp.blocks) > 0 {
			peak := fmt.Sprintf("peak of device %d: step %s", sp.device, c.problem.stepName(sp.boundStep))
			about += ", " + peak
			c.Marks = append(c.Marks, page.Mark{At: (c.x(sp.boundStep) + c.x(sp.boundStep+1)) / 2, About: peak})
		}
		curve := page.Curve{Top: c.below(curveHeight, about), Height: curveHeight, About: about, Bound: most}
		share := func(bytes int64) float64 { return float64(bytes) / float64(max(sp.bound, 1)) * most }
		var live int64
		for _, step := range steps {
			before := live
			live += changes[step]
			curve.Points = append(curve.Points, [2]float64{c.x(step), share(before)}, [2]float64{c.x(step), share(live)})
		}
		c.Curves = append(c.Curves, curve)
		c.Left = append(c.Left, page.Tick{At: curve.Top + (1-most)*curveHeight, Text: page.Bytes(sp.bound)},
			page.Tick{At: curve.Top + curveHeight, Text: "0"})
	}
	return nil
}

// arenas draws the buffers of each arena, and the values in them.
func (c *picture) arenas() {
	p, plan := c.problem, c.plan
	drawn := plan.byAddress()
	omitted := len(drawn) - mostBoxes
	if omitted > 0 {
		area := func(i int) float64 {
			return float64(plan.Slots[i].Size) * float64(p.Buffers[i].Last-p.Buffers[i].First)
		}
		slices.SortStableFunc(drawn, func(i, j int) int { return cmp.Compare(area(j), area(i)) })
		drawn = drawn[:mostBoxes]
	}
	bottoms := make([]float64, len(plan.Arenas)) // of the arenas
	for i, a := range plan.Arenas {
		bottoms[i] = c.below(arenaHeight, fmt.Sprintf("arena %d of device %d, %s", i, a.Device, page.Bytes(a.Size))) + arenaHeight
		for _, at := range ticks(a.Size) {
			c.Left = append(c.Left, page.Tick{At: bottoms[i] - scaled(at, a), Text: page.Bytes(at)})
		}
	}
	c.Caption += "."
	if omitted > 0 {
		c.Caption += fmt.Sprintf(" The %d smallest buffers are not drawn.", omitted)
	}
	c.Kinds = p.kindColours(drawn)
	fills := map[string]string{}
	for _, k := range c.Kinds {
		fills[k.Name] = k.Fill
	}
	views := p.viewsOf()
	for _, i := range drawn {
		b, slot := &p.Buffers[i], plan.Slots[i]
		arena, bottom := plan.Arenas[slot.Arena], bottoms[slot.Arena]
		box := func(first, last int, offset, size int64) page.Box {
			height := scaled(size, arena)
			return page.Box{X: c.x(first), W: c.x(last) - c.x(first), Y: bottom - scaled(offset, arena) - height, H: height}
		}
		buffer := box(b.First, b.Last, slot.Offset, slot.Size)
		buffer.Fill, buffer.Label = fills[b.Kind], cmp.Or(b.Kind+" "+b.Detail, b.label())
		buffer.About = fmt.Sprintf("%s %s %s\n%s at %d\nsteps %s to %s", b.label(), b.Kind, b.Detail, page.Bytes(slot.Size), slot.Offset,
			p.stepName(b.First), p.stepName(b.Last-1))
		var inside []page.Box
		for _, v := range views[i] {
			about := fmt.Sprintf("holds %s %s %s, %s at %d", v.Name, v.Kind, v.Detail, page.Bytes(v.Size), slot.Offset+v.Offset)
			piece, _ := v.piece() // Validate has checked it
			for _, s := range v.Strides {
				about += fmt.Sprintf(", %d × %d bytes apart", s.Count, s.Step)
			}
			if len(v.Strides) > 0 {
				about += fmt.Sprintf(", pieces of %s", page.Bytes(piece))
			}
			buffer.About += "\n" + about
			first, last := max(b.First, v.First), min(b.Last, cmp.Or(v.Last, b.Last))
			if first >= last {
				continue
			}
			for at := range v.starts(mostPieces) {
				view := box(first, last, slot.Offset+at, piece)
				view.Class, view.About = "view", about
				inside = append(inside, view)
			}
		}
		c.Boxes = append(append(c.Boxes, buffer), inside...)
	}
}

// scaled is how high bytes are in the drawing of an arena.
func scaled(bytes int64, a Arena) float64 {
	return float64(bytes) / float64(max(a.Size, 1)) * arenaHeight
}

// ticks are round numbers up to a size: 4 to 8 steps of a power of two.
func ticks(size int64) (list []int64) {
	step := int64(1)
	for size/step > 8 {
		step *= 2
	}
	for at := int64(0); at <= size; at += step {
		list = append(list, at)
	}
	return list
}

// steps writes the numbers of steps below the chart.
func (c *picture) steps() {
	const most = 10
	by := (c.end-c.begin)/most + 1
	for step := c.begin; step < c.end; step += by {
		c.Below = append(c.Below, page.Tick{At: c.x(step), Text: fmt.Sprint(step)})
	}
}

// kindColours returns the kinds of some buffers in alphabetical order, with their colours.
func (p *Problem) kindColours(buffers []int) []page.Kind {
	var names []string
	for _, i := range buffers {
		if kind := p.Buffers[i].Kind; !slices.Contains(names, kind) {
			names = append(names, kind)
		}
	}
	slices.Sort(names)
	kinds := make([]page.Kind, len(names))
	for n, name := range names {
		kinds[n] = page.Kind{Name: name, Fill: page.Colour(name)}
	}
	return kinds
}
