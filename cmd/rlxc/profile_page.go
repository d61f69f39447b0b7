package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/page"
)

// frameHeight is the height of a row of the flame chart, in points.
const frameHeight = 22

// moduleOf is the node that says where in the model a step is: the last of those that it computes.
func moduleOf(s *rlxc.StepTime) string {
	if len(s.Nodes) == 0 {
		return ""
	}
	return s.Nodes[len(s.Nodes)-1]
}

// writeHTML writes a page of the run: a flame chart of the modules and steps, and tables of their times.
func (p *profile) writeHTML(w io.Writer, title string) error {
	ops, total := p.byOp()
	flops := 0
	for _, o := range ops {
		flops += o.flops
	}
	r := page.NewReport(w, title)
	r.Facts("time of the steps", timeText(total), "steps", fmt.Sprint(len(p.Steps)), "GFLOP/s", flopRate(flops, total))
	r.Chart(p.flames(ops))
	r.Put("<h2>By layer and op, in ms</h2>\n")
	r.Table(p.byLayer(ops))
	r.Put("<h2>By op</h2>\n")
	rows := make([][]string, len(ops))
	for i, o := range ops {
		rows[i] = []string{o.op, fmt.Sprint(o.steps), fmt.Sprintf("%.3f", ms(o.time)), shareText(o.time, total), flopRate(o.flops, o.time)}
	}
	r.Table([]string{"op", "steps", "ms", "share", "GFLOP/s"}, rows)
	return r.Close()
}

func timeText(t time.Duration) string { return fmt.Sprintf("%.3f ms", ms(t)) }

// flames draws the steps, each below the modules that it is in.
func (p *profile) flames(ops []opTime) *page.Chart {
	c := &page.Chart{Caption: "Time runs to the right; a step is below the modules that it is part of."}
	fills := map[string]string{}
	for i, o := range ops {
		fills[o.op] = page.Colour(i)
		c.Kinds = append(c.Kinds, page.Kind{Name: o.op, Fill: fills[o.op]})
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
	var open []string // the modules that the step before is in
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
		path := page.Path(moduleOf(s))
		same := 0
		for same < min(len(path), len(open)) && path[same] == open[same] {
			same++
		}
		leave(same, before)
		for _, module := range path[same:] {
			open, since = append(open, module), append(since, s.Start)
		}
		step := box(len(path), s.Start, s.End, s.Op, s.Op+" "+strings.Join(s.Nodes, "\n\t"))
		step.Fill = fills[s.Op]
		if rate := flopRate(s.Flops, s.End-s.Start); rate != "" {
			step.About += ", " + rate + " GFLOP/s"
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

// byLayer are the times of each layer by op, in the order of the run; the ops that took longest have separate columns.
func (p *profile) byLayer(ops []opTime) (heads []string, rows [][]string) {
	const most = 6
	columns := make([]string, 0, most)
	for _, o := range ops[:min(len(ops), most)] {
		columns = append(columns, o.op)
	}
	heads = append([]string{"layer"}, columns...)
	if len(ops) > most {
		heads = append(heads, "other")
	}
	heads = append(heads, "all", "share")
	var layers []string
	times := map[[2]string]time.Duration{}
	var total time.Duration
	for i := range p.Steps {
		s := &p.Steps[i]
		layer, op := page.Layer(moduleOf(s)), s.Op
		if !slices.Contains(layers, layer) {
			layers = append(layers, layer)
		}
		if !slices.Contains(columns, op) {
			op = "other"
		}
		times[[2]string{layer, op}] += s.End - s.Start
		times[[2]string{layer, "all"}] += s.End - s.Start
		total += s.End - s.Start
	}
	for _, layer := range layers {
		row := []string{layer}
		if layer == "" {
			row[0] = "none"
		}
		for _, op := range heads[1 : len(heads)-1] {
			text := ""
			if t := times[[2]string{layer, op}]; t > 0 {
				text = fmt.Sprintf("%.3f", ms(t))
			}
			row = append(row, text)
		}
		rows = append(rows, append(row, shareText(times[[2]string{layer, "all"}], total)))
	}
	return heads, rows
}
