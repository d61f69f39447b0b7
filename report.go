package rlxc

import (
	"fmt"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/planner"
	"maps"
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

// ResidentParts is what the resident memory of a process that runs a program consists of, in bytes.
type ResidentParts struct {
	// File is the pages of the model's file that runs read. Of an ONNX file what is packed is not needed again; the rest is read,
	// but of a table of embeddings only the pages around the rows that are looked up: as many as rows drawn at random touch.
	File int64 `json:"file"`
	// Packed is the weights laid out for the kernels, where the file does not hold them so.
	Packed int64 `json:"packed"`
	Arena  int64 `json:"arena"`
	// Runtime is the Go program itself.
	Runtime int64 `json:"runtime"`
}

// Plan binds the program to sizes, one for each symbol of its inputs, and reports the memory plan. A program some of whose
// sizes depend on data reports its first stage, and what ends its stages.
func (p *Program) Plan(dims map[string]int) (*Report, error) {
	b, err := p.engine.Bind(dims)
	if err != nil {
		return nil, err
	}
	planned := b.Planned
	r := &Report{Dims: maps.Clone(b.Dims), Problem: planned.Problem, Plan: planned.Plan, Steps: len(planned.Steps)}
	for _, h := range b.Host {
		r.Host = append(r.Host, HostStep{Op: ir.OpName(h.Node.Op), Nodes: h.Node.Origins, Down: h.Down, Up: h.Up})
	}
	for _, v := range planned.Graph.Consts() {
		if v.Packed != nil {
			r.Weights += int64(len(v.Packed.Data.Bytes()))
		} else {
			r.Weights += int64(len(v.Const.Bytes()))
		}
	}
	if b.Resident != nil {
		r.Resident, r.ResidentParts = b.Resident.Sum(), (*ResidentParts)(b.Resident)
	}
	for _, n := range p.engine.Cuts() {
		r.Cuts = append(r.Cuts, fmt.Sprintf("%s (%s)", n.Label(), ir.OpName(n.Op)))
	}
	return r, nil
}
