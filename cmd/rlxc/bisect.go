package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/ir"
)

// A departure is the first value of a program, in the order of its nodes, that differs from the reference.
type departure struct {
	Run        string     `json:"run"`
	Op         string     `json:"op"`
	Nodes      []string   `json:"nodes"` // nodes of the model that the op computes
	Difference difference `json:"difference"`
	Got        statistics `json:"got"`
	Want       statistics `json:"want"`
}

// firstDeparture looks through the values of a run that were compared; it is nil where all agree.
func firstDeparture(g *ir.Graph, k testCase, r comparison, got, want rlxc.Tensors) *departure {
	failed := map[string]difference{}
	for _, list := range [][]difference{r.Outputs, r.Taps} {
		for _, d := range list {
			if !d.OK {
				failed[d.Name] = d
			}
		}
	}
	names := map[*ir.Value]string{}
	for i, v := range g.Outputs {
		names[v] = g.OutputNames[i]
	}
	for _, n := range g.Nodes {
		for _, v := range n.Outputs {
			name, ok := names[v]
			d, departs := failed[name]
			if !ok || !departs {
				continue
			}
			return &departure{Run: k.name(), Op: ir.OpName(n.Op), Nodes: n.Origins, Difference: d,
				Got: describe(got[name]), Want: describe(want[name])}
		}
	}
	return nil
}

func (d *departure) text(out io.Writer) {
	if d == nil {
		return
	}
	fmt.Fprintf(out, "first difference, at %s: node %s (%s), value %q\n", d.Run, strings.Join(d.Nodes, " + "), d.Op, d.Difference.Name)
	fmt.Fprintf(out, "  max abs %.3e, max rel %.3e, cosine %.8f; %d elements outside the tolerance\n",
		d.Difference.MaxAbs, d.Difference.MaxRel, d.Difference.Cosine, d.Difference.Outside)
	for _, side := range []struct {
		name string
		s    statistics
	}{{"here", d.Got}, {"reference", d.Want}} {
		fmt.Fprintf(out, "  %-9s  min %-12.6g max %-12.6g mean %-12.6g NaNs %d\n", side.name, side.s.Min, side.s.Max, side.s.Mean,
			side.s.NaNs)
	}
}
