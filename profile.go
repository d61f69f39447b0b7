package rlxc

import (
	"time"

	"github.com/rlxc/rlxc/ir"
)

// A StepTime is when a step of the last run started and ended, measured from the start of the run.
type StepTime struct {
	Op    string        `json:"op"`
	Nodes []string      `json:"nodes"` // nodes of the model that the step computes
	Start time.Duration `json:"start_ns"`
	End   time.Duration `json:"end_ns"`
	// Flops is the number of multiplications and additions of a product. It is 0 for other steps.
	Flops int `json:"flops,omitempty"`
	// Bytes is the size of the operands and results, each counted once. Of a table, only the rows that are looked up count.
	Bytes int `json:"bytes,omitempty"`
	// Reference is true for a step without a kernel. Such a step runs the reference implementation of its operator and is slow.
	Reference bool `json:"reference,omitempty"`
}

// Profile returns the times of the steps of the last run, on the device and on the host, in execution order. The program must have been
// compiled with CompileOptions.Profile. Profile returns nil before the first run, while another goroutine uses the session, and if the
// device does not measure steps. A node with subgraphs appears as their steps, at most the first million.
func (s *Session) Profile() []StepTime {
	times := s.engine.Profile()
	if times == nil {
		return nil
	}
	out := make([]StepTime, len(times))
	for i, t := range times {
		if t.Node == nil {
			return nil
		}
		out[i] = StepTime{Op: ir.OpName(t.Node.Op), Nodes: t.Node.Origins, Start: t.Start, End: t.End,
			Reference: s.engine.ByReference(t.Node)}
		out[i].Flops, _ = ir.Flops(t.Node).Const()
		out[i].Bytes = ir.Bytes(t.Node)
	}
	return out
}
