package planner

import (
	"cmp"
	_ "embed"
	"fmt"
	"hash/fnv"
	"html/template"
	"io"
	"slices"
)

//go:embed plan.html
var pageText string

var page = template.Must(template.New("plan").Parse(pageText))

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
	X, Y, W, H  float64
	Fill, Hover string
}

type legend struct {
	Kind string
	Fill template.CSS
}

// WriteHTML writes the plan as one self-contained page: for each device the live bytes over time
// below the lower bound, for each arena the buffers, coloured by kind, with what they are on hover.
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
		pic.Notes = append(pic.Notes, fmt.Sprintf("extension %s (%s): %d buffers, peak +%d bytes", e.Name, e.Policy, len(e.Buffers), e.PeakGrowth))
	}
	for _, u := range plan.Unplanned {
		pic.Notes = append(pic.Notes, fmt.Sprintf("not planned: %s (%d bytes): %s", p.Buffers[u.Buffer].label(), p.Buffers[u.Buffer].Size, u.Reason))
	}
	return page.Execute(w, pic)
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
	fills := map[string]string{}
	for _, i := range drawn {
		b, slot := &p.Buffers[i], plan.Slots[i]
		fill, known := fills[b.Kind]
		if !known {
			fill = colour(b.Kind)
			fills[b.Kind] = fill
		}
		scale := arenaHeight / float64(max(plan.Arenas[slot.Arena].Size, 1))
		hover := fmt.Sprintf("%s %s %s\n%d bytes at %d\nsteps %d to %d", b.label(), b.Kind, b.Detail, slot.Size, slot.Offset, b.First, b.Last-1)
		panels[slot.Arena].Boxes = append(panels[slot.Arena].Boxes, box{
			X: x(b.First), W: x(b.Last) - x(b.First),
			Y: arenaHeight - float64(slot.Offset+slot.Size)*scale, H: float64(slot.Size) * scale,
			Fill: fill, Hover: hover,
		})
	}
	pic.Panels = append(pic.Panels, panels...)
	for kind, fill := range fills {
		if kind != "" {
			pic.Legend = append(pic.Legend, legend{kind, template.CSS(fill)})
		}
	}
	slices.SortFunc(pic.Legend, func(a, b legend) int { return cmp.Compare(a.Kind, b.Kind) })
}

// colour picks a colour that depends on nothing but the kind.
func colour(kind string) string {
	h := fnv.New32a()
	h.Write([]byte(kind))
	sum := h.Sum32()
	return fmt.Sprintf("hsl(%d %d%% %d%%)", sum%360, 45+sum/360%30, 55+sum/10800%20)
}
