package planner

import (
	"bufio"
	"cmp"
	_ "embed"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
)

//go:embed plan.css
var style string

// Sizes of the picture, in SVG units.
const (
	pictureWidth = 1000
	curveHeight  = 120
	arenaHeight  = 500
	pictureMost  = 20_000 // boxes; the largest are drawn
)

// picture is what the page shows.
type picture struct {
	Title   string
	Plan    *Plan
	Ratio   string
	Width   int
	Panels  []panel
	Legend  []legend
	Notes   []string
	Omitted int
}

// panel is one drawing: the live bytes of a device over time, or the boxes of an arena.
type panel struct {
	Caption string
	Height  int
	Curve   string  // the points of the live bytes
	Bound   float64 // the height of the lower bound over the curve
	Boxes   []box
}

// box is a buffer: time across, address up.
type box struct {
	X, Y, W, H float64
	Fill       string
	Hover      string
}

type legend struct {
	Kind string
	Fill string
}

// WriteHTML writes the plan as one self-contained page: for each device the live bytes over time below the lower bound, for
// each arena the buffers, coloured by kind, with what they are on hover. It fails with the error of w.
func (plan *Plan) WriteHTML(w io.Writer, p *Problem, title string) error {
	pic := &picture{Title: title, Plan: plan, Ratio: fmt.Sprintf("%.4f", plan.Ratio()), Width: pictureWidth}
	if len(p.Buffers) > 0 {
		begin, end := p.Buffers[0].First, p.Buffers[0].Last
		for i := range p.Buffers {
			begin, end = min(begin, p.Buffers[i].First), max(end, p.Buffers[i].Last)
		}
		x := func(step int) float64 {
			return (float64(step) - float64(begin)) / (float64(end) - float64(begin)) * pictureWidth
		}
		if err := pic.drawCurves(p, plan, x); err != nil {
			return err
		}
		pic.drawArenas(p, plan, x)
	}
	for _, e := range p.Extensions {
		pic.Notes = append(pic.Notes, fmt.Sprintf("extension %s (%s): %d buffers, peak +%d bytes", e.Name, e.Policy, len(e.Buffers),
			e.PeakGrowth))
	}
	for _, u := range plan.unplanned(p) {
		pic.Notes = append(pic.Notes, fmt.Sprintf("not planned: %s (%d bytes): %s", u.names, u.size, u.reason))
	}
	return pic.write(w)
}

// write writes the page. It is no html/template: calls of methods by name, which templates make, keep every exported method of
// everything in a program that links them.
func (pic *picture) write(to io.Writer) error {
	w := bufio.NewWriter(to)
	put := func(format string, values ...any) {
		for i, v := range values {
			if text, ok := v.(string); ok {
				values[i] = html.EscapeString(text)
			}
		}
		fmt.Fprintf(w, format, values...) // w keeps the error
	}
	put("<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>%s</title>\n<style>\n", pic.Title)
	w.WriteString(style)
	put("</style>\n<h1>%s</h1>\n<table>\n", pic.Title)
	p := pic.Plan
	put(" <tr><td>mode</td><td>%v</td><td>arena size</td><td>%d bytes</td><td>lower bound</td><td>%d</td><td>ratio</td><td>%s</td></tr>\n",
		p.Options.Mode, p.Committed, p.LowerBound, pic.Ratio)
	put(" <tr><td>logical</td><td>%d</td><td>without sharing</td><td>%d</td><td>padding</td><td>%d</td><td>reused</td><td>%d</td></tr>\n"+
		"</table>\n",
		p.Logical, p.Rounded, p.Padding, p.Reused)
	put("<p>Time runs across, step by step; addresses run up.")
	if pic.Omitted > 0 {
		put(" The %d smallest buffers are not drawn.", pic.Omitted)
	}
	put("</p>\n<p>")
	for _, l := range pic.Legend {
		if l.Kind != "" {
			put(`<span class="kind"><i style="background:%s"></i>%s</span>`, l.Fill, l.Kind)
		}
	}
	put("</p>\n")
	for _, panel := range pic.Panels {
		put("<figure><figcaption>%s</figcaption>\n<svg viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" height=\"%d\">\n",
			panel.Caption, pic.Width,
			panel.Height, panel.Height)
		if panel.Curve != "" {
			put("<polyline points=\"%s\"/><line x1=\"0\" x2=\"%d\" y1=\"%g\" y2=\"%g\"/>\n", panel.Curve, pic.Width, panel.Bound,
				panel.Bound)
		}
		for _, b := range panel.Boxes {
			put("<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\"><title>%s</title></rect>\n", b.X, b.Y, b.W, b.H,
				b.Fill, b.Hover)
		}
		put("</svg></figure>\n")
	}
	for _, note := range pic.Notes {
		put("<p>%s</p>\n", note)
	}
	put("</html>\n")
	return w.Flush()
}

// drawCurves adds a panel a device with its live bytes.
func (pic *picture) drawCurves(p *Problem, plan *Plan, x func(int) float64) error {
	o := plan.Options
	o.Mode = Auto // one space a device
	l, err := newLayout(p, &o)
	if err != nil {
		return err
	}
	for s := range l.spaces {
		sp := &l.spaces[s]
		high := max(sp.bound, 1)
		y := func(bytes int64) float64 { return curveHeight - float64(bytes)/float64(high)*(curveHeight-10) }
		changes := map[int]int64{}
		for i := range sp.blocks {
			changes[sp.blocks[i].first] += sp.blocks[i].size
			changes[sp.blocks[i].last] -= sp.blocks[i].size
		}
		steps := make([]int, 0, len(changes))
		for step := range changes {
			steps = append(steps, step)
		}
		slices.Sort(steps)
		var live int64
		var points []byte
		for _, step := range steps {
			points = fmt.Appendf(points, "%.2f,%.2f ", x(step), y(live))
			live += changes[step]
			points = fmt.Appendf(points, "%.2f,%.2f ", x(step), y(live))
		}
		pic.Panels = append(pic.Panels, panel{
			Caption: fmt.Sprintf("live bytes of device %d; lower bound %d", sp.lane.Device, sp.bound),
			Height:  curveHeight, Curve: string(points), Bound: y(sp.bound),
		})
	}
	return nil
}

// drawArenas adds a panel an arena with its buffers.
func (pic *picture) drawArenas(p *Problem, plan *Plan, x func(int) float64) {
	drawn := plan.byAddress()
	if len(drawn) > pictureMost {
		area := func(i int) float64 {
			return float64(plan.Slots[i].Size) * float64(p.Buffers[i].Last-p.Buffers[i].First)
		}
		slices.SortStableFunc(drawn, func(i, j int) int { return cmp.Compare(area(j), area(i)) })
		pic.Omitted = len(drawn) - pictureMost
		drawn = drawn[:pictureMost]
	}
	panels := make([]panel, len(plan.Arenas))
	for i, a := range plan.Arenas {
		panels[i] = panel{Caption: fmt.Sprintf("arena %d: %s", i, a), Height: arenaHeight}
	}
	pic.Legend = kindColours(p)
	views := p.viewsOf()
	fills := map[string]string{}
	for _, l := range pic.Legend {
		fills[l.Kind] = l.Fill
	}
	for _, i := range drawn {
		b, slot := &p.Buffers[i], plan.Slots[i]
		scale := arenaHeight / float64(max(plan.Arenas[slot.Arena].Size, 1))
		hover := fmt.Sprintf("%s %s %s\n%d bytes at %d\nsteps %s to %s", b.label(), b.Kind, b.Detail, slot.Size, slot.Offset,
			p.stepName(b.First), p.stepName(b.Last-1))
		for _, v := range views[i] {
			hover += fmt.Sprintf("\nholds %s %s %s, %d bytes at %d", v.Name, v.Kind, v.Detail, v.Size, slot.Offset+v.Offset)
		}
		panels[slot.Arena].Boxes = append(panels[slot.Arena].Boxes, box{
			X: x(b.First), W: x(b.Last) - x(b.First),
			Y: arenaHeight - float64(slot.Offset+slot.Size)*scale, H: float64(slot.Size) * scale,
			Fill: fills[b.Kind], Hover: hover,
		})
	}
	pic.Panels = append(pic.Panels, panels...)
}

// kindColours assigns each kind a hue, neighbours in the alphabet far apart.
func kindColours(p *Problem) []legend {
	var kinds []string
	for i := range p.Buffers {
		if kind := p.Buffers[i].Kind; !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	list := make([]legend, len(kinds))
	for n, kind := range kinds {
		const goldenAngle = 137.508
		list[n] = legend{kind, fmt.Sprintf("hsl(%.0f 60%% %d%%)", math.Mod(goldenAngle*float64(n)+210, 360), 60+n/8%3*8)}
	}
	return list
}
