package rlxc

import (
	"errors"
	"fmt"
	"maps"

	"github.com/rlxc/rlxc/internal/engine"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/planner"
)

// A Report is a memory plan: the offset of every buffer of a program at given sizes.
type Report struct {
	Dims map[string]int `json:"dims"`
	// Slices is the number of slices in which a run takes its batch, because the plan for the whole batch exceeds
	// CompileOptions.MemoryLimit. Dims and Plan are those of a slice. Each slice reads all weights. 0 means that the batch runs at once.
	Slices  int              `json:"slices,omitempty"`
	Problem *planner.Problem `json:"problem"`
	Plan    *planner.Plan    `json:"plan"`
	// Bounds proves the lower bound of the plan. Prove computes it.
	Bounds []planner.Bound `json:"bounds,omitempty"`
	// PlainBound is the lower bound of a plan in which no layer runs by tiles and all results are row-major. Prove computes it.
	PlainBound int64 `json:"plain_bound,omitempty"`
	// Weights is the size of the constants in bytes, packed or as the file stores them. Constants that several nodes share count once.
	Weights int64 `json:"weights"`
	// Streamed is the number of bytes of weights that each run copies to the device, because CompileOptions.DeviceWeights leaves them on
	// the host. Stream is the memory on the device, beside the plan, to which a session copies them.
	Streamed int64 `json:"streamed,omitempty"`
	Stream   int64 `json:"stream,omitempty"`
	// SharedWeights is the layout of the parameters, in which parameters of equal content share memory. A compiled file stores them in
	// this order. Prove computes it.
	SharedWeights *planner.SharedWeightLayout `json:"shared_weights,omitempty"`
	// Resident estimates the resident memory of a process that runs the program at these sizes, in bytes. It is the sum of ResidentParts.
	// Peak is the maximum that such a process has held. It is the maximum of Resident and of what compiling took in this process. Peak is
	// 0 before Measure, and on systems that do not report it. Both are 0 for other backends than cpu.
	Resident      int64          `json:"resident,omitempty"`
	Peak          int64          `json:"peak,omitempty"`
	ResidentParts *ResidentParts `json:"resident_parts,omitempty"`
	// Steps is the number of steps of a run. Views are not steps.
	Steps int `json:"steps"`
	// Host lists the steps without a kernel on the device. They run the reference implementation on the host. They are slow and use
	// memory outside of the arena.
	Host []HostStep `json:"host,omitempty"`
	// Cuts names the operators that split the program into stages. The sizes of their results depend on data, or they are control flow.
	// They run on the host.
	Cuts []string `json:"cuts,omitempty"`
	// Stages lists the other stages of a split program, each with a separate arena. Plan is the plan of the first stage, or of the main
	// stage of an unpadded program.
	Stages []StagePlan `json:"stages,omitempty"`

	program  *engine.Program
	sizes    map[string]int    // sizes of Plan: those of a slice if Slices is not 0
	whole    map[string]int    // arguments of the method Plan that made the report
	bindings []*engine.Binding // the bindings of Plan, and of the stages with a plan
	garbage  int64             // heap bytes of planning and of the first run at these sizes, before they are collected
}

// A StagePlan is the memory plan of a later stage.
type StagePlan struct {
	After []string `json:"after,omitempty"` // the operators that run on the host before the stage
	// Most holds the largest values of sizes that depend on data. A run plans for the actual values.
	Most    map[string]int   `json:"most,omitempty"`
	Problem *planner.Problem `json:"problem,omitempty"`
	Plan    *planner.Plan    `json:"plan,omitempty"` // nil if Unknown says why there is none before a run
	Bounds  []planner.Bound  `json:"bounds,omitempty"`
	Unknown string           `json:"unknown,omitempty"`
}

// A HostStep is a step that runs on the host. With a GPU backend, the device waits for it, and data is copied.
type HostStep struct {
	Op    string   `json:"op"`
	Nodes []string `json:"nodes"` // nodes of the model that the step computes
	Down  int64    `json:"down"`  // bytes of operands copied from the device
	Up    int64    `json:"up"`    // bytes of results copied to the device
}

// ResidentParts are the parts of Report.Resident, in bytes.
type ResidentParts struct {
	// File is the pages of the model's file that runs read. Weights of an ONNX file that were packed are not read again. Of an embedding
	// table, runs read only the pages around the rows that it reads. The estimate is for random rows.
	File int64 `json:"file"`
	// Packed is the packed weights, if the file does not store them packed.
	Packed int64 `json:"packed"`
	Arena  int64 `json:"arena"`
	// Inputs is the tensors that the caller makes for a run.
	Inputs int64 `json:"inputs"`
	// Runtime is the Go program: its code, the graph, and plans. It is an estimate before Report.Measure.
	Runtime int64 `json:"runtime"`
}

// Plan binds the program to a size for each symbolic dimension of its inputs, and returns the memory plan. A program whose sizes depend
// on data has several stages. Report.Stages holds the later ones.
//
// It fails with ErrInput, ErrShape, ErrMemory or ErrClosed.
func (p *Program) Plan(dims map[string]int) (*Report, error) {
	allocated := engine.Allocated()
	slices, whole := 0, maps.Clone(dims)
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
		whole: whole, garbage: engine.Allocated() - allocated}
	r.Streamed, r.Stream = b.Streamed, b.Stream
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

// Measure updates Resident, ResidentParts and Peak with the memory that this process holds besides the weights of the program. It
// collects garbage. The first call for a program measures once for all of its reports. Call it before the first run, because the arena of
// a run would count twice.
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

// Prove computes the slow parts of the report: the proofs of all lower bounds, SharedWeights, and the content of each parameter
// (planner.Buffer.Content). Prove reads all weights, and fails with ErrClosed if the program is closed.
func (r *Report) Prove() (err error) {
	if r.Bounds, err = planner.Bounds(r.Problem, r.Plan.Options); err != nil {
		return err
	}
	if r.PlainBound, err = r.program.PlainBound(r.sizes, r.Plan.Options); err != nil {
		return err
	}
	for i := range r.Stages {
		s := &r.Stages[i]
		if s.Plan == nil {
			continue
		}
		if s.Bounds, err = planner.Bounds(s.Problem, s.Plan.Options); err != nil {
			return err
		}
	}
	r.SharedWeights, err = ShareWeights(r)
	return err
}

// problems returns the problems of the stages that have a plan, in the order of bindings.
func (r *Report) problems() []*planner.Problem {
	list := []*planner.Problem{r.Problem}
	for i := range r.Stages {
		if s := &r.Stages[i]; s.Plan != nil {
			list = append(list, s.Problem)
		}
	}
	return list
}

// ShareWeights lays out the parameters of several programs in one segment, such as those of a forward and a backward program. Parameters
// with the same bytes share memory. It sets the content of each parameter in the problems of the reports (planner.Buffer.Content), so that
// the layout's Apply gives them memory. The field Programs of a slot holds indices of reports.
//
// ShareWeights reads all weights. It fails with ErrClosed if a program is closed. It also fails without reports.
func ShareWeights(reports ...*Report) (*planner.SharedWeightLayout, error) {
	if len(reports) == 0 {
		return nil, engine.WithKind(ErrInput, errors.New("no reports to share weights of"))
	}
	layout := &planner.SharedWeightLayout{}
	for _, r := range reports {
		params := &planner.Problem{} // of all stages
		for i, problem := range r.problems() {
			if err := r.program.Identify(r.bindings[i], problem); err != nil {
				return nil, err
			}
			for _, b := range problem.Buffers {
				if b.Boundary == planner.Param {
					b.ID = len(params.Buffers)
					params.Buffers = append(params.Buffers, b)
				}
			}
		}
		if err := layout.Extend(reports[0].Plan.Options, params); err != nil {
			return nil, err
		}
	}
	return layout, nil
}

// An OptimalOrder compares the order of a plan's steps with all orders in which they can run, in bytes.
type OptimalOrder struct {
	Steps int `json:"steps"`
	// Bound is what every order of the steps needs, with all or none of the results that can be written over parts of buffers. The proof is
	// an exhaustive search, or a step's own buffers.
	Bound int64 `json:"bound"`
	// Arena is the arena of the best order found. It is the least possible one if it equals Bound.
	Arena int64 `json:"arena"`
	// Today is the arena of the plan.
	Today int64 `json:"today"`
}

// OptimalOrder searches for an order of the steps that needs a smaller arena than the plan, and for a bound of all orders. work limits the
// search: 2,000,000 decide most programs of up to 200 steps in seconds. It covers the stage that Plan is of. It fails with ErrClosed.
func (r *Report) OptimalOrder(work int) (*OptimalOrder, error) {
	found, err := r.program.OptimalOrder(r.sizes, r.Plan.Options, work)
	if err != nil {
		return nil, err
	}
	today := r.Plan.Committed
	return &OptimalOrder{Steps: found.Steps, Bound: found.Bound, Arena: min(found.Arena, today), Today: today}, nil
}

// Rates are the highest speeds of a processor, on all threads of a run.
type Rates = engine.Rates

// A SliceCost is what running a batch in slices costs.
type SliceCost = engine.SliceCost

// SliceCost estimates what running in Slices costs on a processor of these rates. It fails with ErrInput if Slices is 0 or if Float or
// Bytes is not positive, and with ErrClosed.
func (r *Report) SliceCost(rates Rates) (*SliceCost, error) {
	if r.Slices == 0 {
		return nil, engine.WithKind(ErrInput, errors.New("the batch runs at once, without slices"))
	}
	return r.program.SliceCost(r.whole, rates)
}

// labels names nodes with their operators.
func labels(nodes []*ir.Node) (list []string) {
	for _, n := range nodes {
		list = append(list, fmt.Sprintf("%s (%s)", n.Label(), ir.OpName(n.Op)))
	}
	return list
}
