package rlxc

import (
	"errors"
	"fmt"
	"maps"
	"runtime/metrics"

	"github.com/rlxc/rlxc/internal/engine"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/planner"
)

// A Report is a memory plan: where every buffer of a program is at given sizes.
type Report struct {
	Dims map[string]int `json:"dims"`
	// Slices is the number of slices that a run takes its batch in, because the plan of all is above CompileOptions.MemoryLimit; Dims and
	// Plan are those of a slice. Each slice reads all weights. 0: the batch runs at once.
	Slices  int              `json:"slices,omitempty"`
	Problem *planner.Problem `json:"problem"`
	Plan    *planner.Plan    `json:"plan"`
	// Bounds are the proof of the plan's lower bound. Prove computes it.
	Bounds []planner.Bound `json:"bounds,omitempty"`
	// PlainBound is what Plan.LowerBound would be if no layer ran tile by tile and all results were row-major. Prove computes it.
	PlainBound int64 `json:"plain_bound,omitempty"`
	// Weights is the size of the constants in bytes, packed or as the file stores them. What several nodes share counts once.
	Weights int64 `json:"weights"`
	// SharedWeights is the segment of the parameters: those of equal content have the same bytes. A compiled file stores them in this
	// order. Prove computes it.
	SharedWeights *planner.SharedWeightLayout `json:"shared_weights,omitempty"`
	// Resident estimates the resident memory of a process that runs the program at these sizes, in bytes. It is the sum of
	// ResidentParts. Peak is the most that such a process has held: what compiling took in this one, or Resident if that is more; 0
	// before Measure, and where the system reports none. Only backend cpu has them.
	Resident      int64          `json:"resident,omitempty"`
	Peak          int64          `json:"peak,omitempty"`
	ResidentParts *ResidentParts `json:"resident_parts,omitempty"`
	// Steps is the number of steps of a run. Views are not steps.
	Steps int `json:"steps"`
	// Host lists the steps that have no kernel on the device. They run the reference implementation on the host: slowly, and with
	// memory outside of the arena.
	Host []HostStep `json:"host,omitempty"`
	// Cuts names the operators that split the program into stages, because the sizes of their results depend on data or because
	// they are control flow. They run on the host.
	Cuts []string `json:"cuts,omitempty"`
	// Stages are the other stages of a program that is split, each with a separate arena. The plan above is that of the first
	// stage, or of the main one of a program without padding.
	Stages []StagePlan `json:"stages,omitempty"`

	program  *engine.Program
	sizes    map[string]int    // that Plan was called with
	bindings []*engine.Binding // of the plan, and of the stages that have one
	garbage  int64             // that planning made, and that the first run at these sizes makes, before it is collected
}

// A StagePlan is the memory plan of a stage that does not come first.
type StagePlan struct {
	After []string `json:"after,omitempty"` // the operators that run on the host before the stage
	// Most holds the sizes that depend on data, as large as the operators allow. The plan of a run is for the actual sizes.
	Most    map[string]int   `json:"most,omitempty"`
	Problem *planner.Problem `json:"problem,omitempty"`
	Plan    *planner.Plan    `json:"plan,omitempty"` // nil if Unknown says why there is none before a run
	Bounds  []planner.Bound  `json:"bounds,omitempty"`
	Unknown string           `json:"unknown,omitempty"`
}

// A HostStep is a step that runs on the host. With backend wgpu the device waits for it, and data moves.
type HostStep struct {
	Op    string   `json:"op"`
	Nodes []string `json:"nodes"` // nodes of the model that the step computes
	Down  int64    `json:"down"`  // bytes of operands copied from the device
	Up    int64    `json:"up"`    // bytes of results copied to the device
}

// ResidentParts are the parts of the resident memory of a process that runs a program, in bytes.
type ResidentParts struct {
	// File is the pages of the model's file that runs read. Weights of an ONNX file that were packed are not read again. Of an
	// embedding table, only the pages around the rows of the batch are read; the estimate is for random rows.
	File int64 `json:"file"`
	// Packed is the weights laid out for the kernels, if the file does not store them so.
	Packed int64 `json:"packed"`
	Arena  int64 `json:"arena"`
	// Inputs is the tensors that the caller makes for a run.
	Inputs int64 `json:"inputs"`
	// Runtime is the Go program: its code, the graph, and plans. It is an estimate until Report.Measure.
	Runtime int64 `json:"runtime"`
}

// Plan binds the program to sizes, one for each symbolic dimension of its inputs, and returns the memory plan. A program
// whose sizes depend on data has several stages: the other ones are in Report.Stages.
//
// It fails with ErrInput, ErrShape, ErrMemory or ErrClosed.
func (p *Program) Plan(dims map[string]int) (*Report, error) {
	allocated := allocations()
	slices := 0
	b, err := p.engine.Bind(dims)
	if errors.Is(err, ErrMemory) {
		if dims, slices, err = p.engine.Slice(dims, err); err == nil {
			b, err = p.engine.Bind(dims)
		}
	}
	if err != nil {
		return nil, err
	}
	planned := b.Planned
	r := &Report{Dims: maps.Clone(b.Dims), Slices: slices, Steps: len(planned.Steps), program: p.engine, sizes: maps.Clone(dims),
		garbage: allocations() - allocated}
	r.Problem, r.Plan = b.Explained()
	r.bindings = append(r.bindings, b)
	for _, h := range b.Host {
		r.Host = append(r.Host, HostStep{Op: ir.OpName(h.Node.Op), Nodes: h.Node.Origins, Down: h.Down, Up: h.Up})
	}
	for data := range b.Weights() {
		r.Weights += int64(len(data))
	}
	if b.Resident != nil {
		parts := *b.Resident
		r.Resident, r.ResidentParts = parts.Sum(), (*ResidentParts)(&parts)
	}
	r.Cuts = labels(p.engine.Cuts())
	others, err := p.engine.Others(dims)
	if err != nil {
		return nil, err
	}
	for _, o := range others {
		s := StagePlan{After: labels(o.After), Most: o.Most}
		if o.Err != nil {
			s.Unknown = o.Err.Error()
		} else {
			s.Problem, s.Plan = o.Binding.Explained()
			r.bindings = append(r.bindings, o.Binding)
		}
		r.Stages = append(r.Stages, s)
	}
	return r, nil
}

// allocations is the number of bytes that were ever allocated on the heap. Unlike runtime.ReadMemStats it stops nothing: a server plans
// while it runs.
func allocations() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// Measure completes Resident, ResidentParts and Peak with what this process holds beside the weights of the program. It collects
// garbage. What the first call for a program measures stands for all of its reports, so call it before the first run, whose arena would
// count twice.
func (r *Report) Measure() {
	if r.ResidentParts == nil {
		return
	}
	runtime, peak := r.program.Process()
	r.Resident += runtime - r.ResidentParts.Runtime
	r.ResidentParts.Runtime = runtime
	if peak > 0 {
		r.Peak = max(peak, r.Resident+r.garbage)
	}
}

// Prove completes the report with what takes time: the proofs of all lower bounds, and SharedWeights, with the content of each
// parameter (planner.Buffer.Content), by which planner.NewSharedWeightLayout lays out the weights of several programs. It reads all
// weights, and fails with ErrClosed if the program is closed.
func (r *Report) Prove() (err error) {
	if r.Bounds, err = planner.Bounds(r.Problem, r.Plan.Options); err != nil {
		return err
	}
	if r.PlainBound, err = r.program.PlainBound(r.sizes, r.Plan.Options); err != nil {
		return err
	}
	problems := []*planner.Problem{r.Problem}
	for i := range r.Stages {
		s := &r.Stages[i]
		if s.Plan == nil {
			continue
		}
		problems = append(problems, s.Problem)
		if s.Bounds, err = planner.Bounds(s.Problem, s.Plan.Options); err != nil {
			return err
		}
	}
	for i, b := range r.bindings {
		if err := r.program.Identify(b, problems[i]); err != nil {
			return err
		}
	}
	r.SharedWeights, err = planner.NewSharedWeightLayout(r.Plan.Options, problems...)
	return err
}

// labels names nodes with their operators.
func labels(nodes []*ir.Node) (list []string) {
	for _, n := range nodes {
		list = append(list, fmt.Sprintf("%s (%s)", n.Label(), ir.OpName(n.Op)))
	}
	return list
}
