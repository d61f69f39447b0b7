package rlxc

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rlxc/rlxc/backend"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/planner"
	"github.com/rlxc/rlxc/target"
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
	// Host names the steps that run by the op's own Eval, for want of a kernel: slowly, and with memory of their own.
	Host []string `json:"host,omitempty"`
}

func newReport(b ir.Binding, p *backend.Planned, t *target.Target) *Report {
	r := &Report{Dims: maps.Clone(b), Problem: p.Problem, Plan: p.Plan, Steps: len(p.Steps)}
	for _, n := range p.Steps {
		if t.Where(n) == target.OnHost {
			r.Host = append(r.Host, fmt.Sprintf("%s (%s)", n.Label(), ir.OpName(n.Op)))
		}
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
// sizes depend on data reports its first stage.
func (p *Program) Plan(dims map[string]int) (*Report, error) {
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
			return nil, withKind(ErrInput, fmt.Errorf("the model has no dimension %q: it has %s", name, strings.Join(p.graph.FreeSymbols(), ", ")))
		}
	}
	bound, err := p.bind(0, b)
	if err != nil {
		return nil, err
	}
	return bound.report, nil
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
