package rlxc

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rlxc/rlxc/backend"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/planner"
)

// A Report is a memory plan: where every buffer of a program lies at given sizes, and why.
type Report struct {
	Dims    map[string]int   `json:"dims"`
	Problem *planner.Problem `json:"problem"`
	Plan    *planner.Plan    `json:"plan"`
	// Weights is the size in bytes of the constants, packed or as the file has them.
	Weights int64 `json:"weights"`
	// Resident is the memory that a process which runs the program at these sizes is expected to hold, in bytes; only backend
	// cpu has it, and so the parts that it is the sum of.
	Resident      int64          `json:"resident,omitempty"`
	ResidentParts *ResidentParts `json:"resident_parts,omitempty"`
	// Steps is the number of steps of a run; views are none.
	Steps int `json:"steps"`
	// Host lists the steps among them that run by the op's own Eval, for want of a kernel: slowly, and with memory of their own.
	Host []HostStep `json:"host,omitempty"`
	// Cuts names the operators that run between two stages of the program, on the host: the sizes of their results depend on
	// data, or they are control flow. The plan is that of the first stage; the others get theirs while the program runs.
	Cuts []string `json:"cuts,omitempty"`
}

// A HostStep is a step that runs on the host. In a program for backend wgpu the device stands still meanwhile, and data move.
type HostStep struct {
	Op    string   `json:"op"`
	Nodes []string `json:"nodes"` // of the model, that the step stands for
	Down  int64    `json:"down"`  // bytes of operands that come from the device
	Up    int64    `json:"up"`    // bytes of results that go to the device
}

func newReport(b ir.Binding, p *backend.Planned, host []backend.HostStep) *Report {
	r := &Report{Dims: maps.Clone(b), Problem: p.Problem, Plan: p.Plan, Steps: len(p.Steps)}
	for _, h := range host {
		r.Host = append(r.Host, HostStep{Op: ir.OpName(h.Node.Op), Nodes: h.Node.Origins, Down: h.Down, Up: h.Up})
	}
	for _, v := range p.Graph.Consts() {
		if v.Packed != nil {
			r.Weights += int64(len(v.Packed.Data.Bytes()))
		} else {
			r.Weights += int64(len(v.Const.Bytes()))
		}
	}
	return r
}

// Plan binds the program to sizes, one for each symbol of its inputs, and reports the memory plan. A program some of whose
// sizes depend on data reports its first stage, and what ends its stages.
func (p *Program) Plan(dims map[string]int) (*Report, error) {
	if p.closed.Load() {
		return nil, closedError("program")
	}
	b := ir.Binding{}
	for _, name := range p.graph.FreeSymbols() {
		n, ok := dims[name]
		if !ok {
			return nil, withKind(ErrInput, fmt.Errorf("dimension %s has no size: the model has %s", name, strings.Join(p.graph.FreeSymbols(), ", ")))
		}
		if n < 0 {
			return nil, withKind(ErrInput, fmt.Errorf("dimension %s = %d is negative", name, n))
		}
		b[name] = n
	}
	for name := range dims {
		if _, ok := b[name]; !ok {
			return nil, withKind(ErrInput, noDimension(name, p.graph.FreeSymbols()))
		}
	}
	bound, err := p.bind(0, b)
	if err != nil {
		return nil, err
	}
	report := *bound.report
	for _, s := range p.stages {
		for _, n := range s.dynamic {
			report.Cuts = append(report.Cuts, fmt.Sprintf("%s (%s)", n.Label(), ir.OpName(n.Op)))
		}
	}
	return &report, nil
}

// describe prints sizes as "batch=2 seq=16".
func describe(b ir.Binding) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(b)) {
		parts = append(parts, fmt.Sprintf("%s=%d", name, b[name]))
	}
	if len(parts) == 0 {
		return "the model's sizes"
	}
	return strings.Join(parts, " ")
}
