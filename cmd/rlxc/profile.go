package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/ir"
)

// A profile says where the time of a run goes.
type profile struct {
	Steps []rlxc.StepTime `json:"steps"`
}

// profiled runs once more, now that everything is planned and warm, and takes the times.
func (r *running) profiled(ctx context.Context, e *own, in, out rlxc.Tensors, title string) (*profile, error) {
	run, done, err := e.again(ctx, in, out)
	if err == nil {
		defer done()
		err = run()
	}
	if err != nil {
		return nil, err
	}
	p := &profile{e.Profile()}
	if p.Steps == nil {
		return nil, errors.New("no profile: the device does not measure its steps")
	}
	if r.trace != "" {
		if err := p.writeTrace(r.trace); err != nil {
			return nil, err
		}
	}
	if r.html != "" {
		return p, files.ReplaceFile(r.html, func(w io.Writer) error { return p.writeHTML(w, title) })
	}
	return p, nil
}

// An opTime is what the steps of one op took together.
type opTime struct {
	op    string
	steps int
	time  time.Duration
	flops int
}

// byOp adds the steps up, the longest first.
func (p *profile) byOp() (ops []opTime, total time.Duration) {
	index := map[string]int{}
	for _, s := range p.Steps {
		i, ok := index[s.Op]
		if !ok {
			i = len(ops)
			index[s.Op] = i
			ops = append(ops, opTime{op: s.Op})
		}
		ops[i].steps++
		ops[i].time += s.End - s.Start
		ops[i].flops += s.Flops
		total += s.End - s.Start
	}
	slices.SortStableFunc(ops, func(a, b opTime) int { return cmp.Compare(b.time, a.time) })
	return ops, total
}

// referenceText names the nodes that run by reference code, and the share of the time that they take in a profile, if there is one;
// it is empty where there are none.
func referenceText(nodes []*ir.Node, p *profile) string {
	if len(nodes) == 0 {
		return ""
	}
	counts := map[string]int{}
	for _, n := range nodes {
		counts[displayName(n.Op)]++
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if counts[name] > 1 {
			name = fmt.Sprintf("%s %d×", name, counts[name])
		}
		names = append(names, name)
	}
	text := fmt.Sprintf("reference code, without kernels: %s", strings.Join(names, ", "))
	if p != nil {
		var slow, total time.Duration
		for _, s := range p.Steps {
			if total += s.End - s.Start; s.Reference {
				slow += s.End - s.Start
			}
		}
		text += fmt.Sprintf("; %.1f%% of the time", 100*slow.Seconds()/max(total.Seconds(), 1e-9))
	}
	return text
}

// text prints a row an op, then a row a step in the order of the run.
func (p *profile) text(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	ops, total := p.byOp()
	fmt.Fprintln(w, "\nTIME ms\tSHARE\tGFLOP/s\tSTEPS\t  OP")
	for _, o := range ops {
		fmt.Fprintf(w, "%.3f\t%s\t%s\t%d\t  %s\n", ms(o.time), shareText(o.time, total), flopRate(o.flops, o.time), o.steps, o.op)
	}
	fmt.Fprintln(w, "\nSTART ms\tTIME ms\tGFLOP/s\t  STEP")
	for _, s := range p.Steps {
		fmt.Fprintf(w, "%.3f\t%.3f\t%s\t  %s %s\n", ms(s.Start), ms(s.End-s.Start), flopRate(s.Flops, s.End-s.Start), s.Op,
			originText(s.Nodes))
	}
	return w.Flush()
}

// shareText is how much of a time a part of it is.
func shareText(part, all time.Duration) string {
	return fmt.Sprintf("%.1f%%", 100*part.Seconds()/max(all.Seconds(), 1e-9))
}

// flopRate is empty for what is not a product.
func flopRate(flops int, t time.Duration) string {
	if flops == 0 || t <= 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", float64(flops)/t.Seconds()/1e9)
}

// A traceEvent is a complete event of the Trace Event Format, which Chrome and Perfetto read; times are in microseconds.
type traceEvent struct {
	Name  string              `json:"name"`
	Phase string              `json:"ph"`
	Start float64             `json:"ts"`
	Time  float64             `json:"dur"`
	PID   int                 `json:"pid"`
	TID   int                 `json:"tid"`
	Args  map[string][]string `json:"args"`
}

func (p *profile) writeTrace(file string) error {
	events := make([]traceEvent, len(p.Steps))
	for i, s := range p.Steps {
		events[i] = traceEvent{s.Op, "X", 1e3 * ms(s.Start), 1e3 * ms(s.End-s.Start), 1, 1, map[string][]string{"nodes": s.Nodes}}
	}
	return files.ReplaceFile(file, func(w io.Writer) error { return json.NewEncoder(w).Encode(map[string]any{"traceEvents": events}) })
}
