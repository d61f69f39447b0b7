package rlxc

import (
	"time"

	"github.com/rlxc/rlxc/ir"
)

// A StepTime says when a step of the last run started and ended, from the start of the run.
type StepTime struct {
	Op    string        `json:"op"`
	Nodes []string      `json:"nodes"` // nodes of the model that the step computes
	Start time.Duration `json:"start_ns"`
	End   time.Duration `json:"end_ns"`
	// Flops is the number of multiplications and additions of a product; 0 for other steps.
	Flops int `json:"flops,omitempty"`
	// Reference is true for a step that runs by reference code, the plain definition of its operator, for want of a kernel: it is slow.
	Reference bool `json:"reference,omitempty"`
}

// Profile returns the times of the steps of the last run, if the program was compiled with CompileOptions.Profile: those of the device and
// of the host, in the order of the run. It returns nil before the first run, and if the device keeps no times. A node with subgraphs is
// their steps, of at most the first million.
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
	}
	return out
}
