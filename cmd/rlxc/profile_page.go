package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rlxc/rlxc/internal/page"
)

// frameHeight is the height of a row of the flame chart, in points.
const frameHeight = 22

// writeHTML writes a page of the run: a flame chart of the modules and steps, and tables of their times.
func (p *profile) writeHTML(w io.Writer, title string) error {
	r := page.NewReport(w, title)
	all := p.summary.cells()
	r.Facts("median of the runs", timeText(p.Time.Median), "quartiles, ms", p.Time.middle(), "runs", fmt.Sprint(p.Runs),
		"time of the steps", timeText(p.summary.Time), "steps", fmt.Sprint(len(p.Steps)), "GFLOP/s", all[2], "GB/s", all[3])
	if p.Bound != nil {
		r.Put("<p>The processor does at most %s. The column “bound” is the time that it needs at least for the products, or for "+
			"reading and writing each operand and result once, as a share of the time.</p>\n",
			p.Bound.text())
	}
	r.Chart(p.flames())
	r.Put("<h2>By layer and operator, in ms</h2>\n")
	r.Table(p.layersByOp())
	for _, by := range []struct {
		name string
		sums []sum
	}{{"operator", p.Ops}, {"layer", p.Layers}} {
		r.Put("<h2>By %s</h2>\n", by.name)
		rows := make([][]string, len(by.sums))
		for i, s := range by.sums {
			rows[i] = append([]string{cmp.Or(s.Name, "none"), fmt.Sprint(s.Steps)}, s.cells()...)
		}
		r.Table([]string{by.name, "steps", "ms", "share", "GFLOP/s", "GB/s", "bound"}, rows)
	}
	return r.Close()
}

func timeText(t time.Duration) string { return fmt.Sprintf("%.3f ms", ms(t)) }

// flames draws the steps, each below the modules that contain it.
func (p *profile) flames() *page.Chart {
	c := &page.Chart{Caption: "Median times run to the right, one step after the other. A step is below the modules that it is part of."}
	for _, op := range p.Ops {
		c.Kinds = append(c.Kinds, page.Kind{Name: op.Name, Fill: page.Colour(op.Name)})
	}
	var begin, end time.Duration
	if n := len(p.Steps); n > 0 {
		begin, end = p.Steps[0].Start, p.Steps[n-1].End
	}
	x := func(t time.Duration) float64 { return (t - begin).Seconds() / max((end-begin).Seconds(), 1e-12) }
	box := func(depth int, first, last time.Duration, label, about string) page.Box {
		return page.Box{X: x(first), W: x(last) - x(first), Y: float64(depth) * frameHeight, H: frameHeight, Label: label,
			About: fmt.Sprintf("%s\n%s, from %s on", about, timeText(last-first), timeText(first-begin))}
	}
	var open []string // modules that contain the step before, the outermost first
	var since []time.Duration
	depth := 0
	leave := func(to int, at time.Duration) {
		for len(open) > to {
			last := len(open) - 1
			c.Boxes = append(c.Boxes, box(last, since[last], at, open[last], strings.Join(open, "/")))
			open, since = open[:last], since[:last]
		}
	}
	var before time.Duration
	for i := range p.Steps {
		s := &p.Steps[i]
		path := page.Path(s.Path)
		same := 0
		for same < min(len(path), len(open)) && path[same] == open[same] {
			same++
		}
		leave(same, before)
		for _, module := range path[same:] {
			open, since = append(open, module), append(since, s.Start)
		}
		step := box(len(path), s.Start, s.End, s.Op, s.Op+" "+strings.Join(s.Nodes, "\n\t"))
		step.Fill = page.Colour(s.Op)
		step.About += "; quartiles " + s.middle() + " ms"
		cells := p.sumOf(s).cells()
		for i, unit := range []string{"GFLOP/s", "GB/s", "of the bound"} {
			if cell := cells[2+i]; cell != "" {
				step.About += ", " + cell + " " + unit
			}
		}
		c.Boxes = append(c.Boxes, step)
		before, depth = s.End, max(depth, len(path)+1)
	}
	leave(0, before)
	c.Height = float64(depth) * frameHeight
	const most = 8
	for i := range most + 1 {
		at := float64(i) / most
		c.Below = append(c.Below, page.Tick{At: at, Text: timeText(time.Duration(at * float64(end-begin)))})
	}
	return c
}

// layersByOp returns the times of each layer by operator, in the order of the run. The operators that took longest have separate columns.
func (p *profile) layersByOp() (heads []string, rows [][]string) {
	const most = 6
	columns := make([]string, 0, most)
	for _, op := range p.Ops[:min(len(p.Ops), most)] {
		columns = append(columns, op.Name)
	}
	heads = append([]string{"layer"}, columns...)
	if len(p.Ops) > most {
		heads = append(heads, "other")
	}
	times := map[[2]string]time.Duration{}
	for i := range p.Steps {
		s := &p.Steps[i]
		op := s.Op
		if !slices.Contains(columns, op) {
			op = "other"
		}
		times[[2]string{page.Layer(s.Path), op}] += s.Median
	}
	for i := range p.Layers {
		layer := &p.Layers[i]
		row := []string{cmp.Or(layer.Name, "none")}
		for _, op := range heads[1:] {
			text := ""
			if t := times[[2]string{layer.Name, op}]; t > 0 {
				text = fmt.Sprintf("%.3f", ms(t))
			}
			row = append(row, text)
		}
		rows = append(rows, append(row, layer.cells()[:2]...))
	}
	return append(heads, "all", "share"), rows
}
