package main

import (
	"fmt"
	"io"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/memory"
)

// A planSummary is what plan prints first, in bytes.
type planSummary struct {
	PeakStep int    `json:"peak_step"`           // step at which most of the arena is live
	PeakName string `json:"peak_name,omitempty"` // operation and nodes of that step
	// Run and Serve are the sizes of containers that are enough for "rlxc run" at these sizes, and for "rlxc serve" with its defaults and
	// batches that are no larger. They are 0 where the resident memory is not known: on other backends than cpu.
	Run      int64 `json:"container_run,omitempty"`
	Serve    int64 `json:"container_serve,omitempty"`
	Sessions int   `json:"serve_sessions"` // concurrent batches of serve
}

// summarise requires the proofs of a report.
func summarise(r *rlxc.Report, sessions int) planSummary {
	s := planSummary{Sessions: sessions}
	most := int64(-1)
	for _, b := range r.Bounds {
		if b.Bytes <= most {
			continue
		}
		if most, s.PeakStep = b.Bytes, b.Step; b.Step >= 0 && b.Step < len(r.Problem.Steps) {
			s.PeakName = r.Problem.Steps[b.Step]
		}
	}
	if r.Resident > 0 {
		s.Run = containerOfRun(max(r.Resident, r.Peak), r.Plan.Committed)
		arenas := int64(sessions) * r.Plan.Committed
		s.Serve = max(s.Run, containerOfServe(r.Resident-r.Plan.Committed, arenas, arenas+r.Plan.Committed))
	}
	return s
}

// container rounds the size of a container up to what people write, with memory of the kernel and 8 MiB for sockets and stacks.
func container(bytes int64) int64 {
	const margin, step = 8 << 20, 16 << 20
	return (memory.InGroup(bytes) + margin + step - 1) / step * step
}

// containerOfRun returns the size of a container for a process with that peak. Half of a container is the limit of a run's arena
// (CompileOptions.MemoryLimit).
func containerOfRun(peak, arena int64) int64 { return max(container(peak), container(2*arena)) }

// containerOfServe returns the size of a container for a server. Half of a container is the limit of a server. Half of the limit is for
// runs, a quarter for requests, and a quarter for garbage, so that a quarter of the container is not for weights. Models have equal parts
// of what is for runs, and each session of a model and its session of tensors have equal parts of that: parts is the sum of all, if each
// is as large as the largest arena of any model.
func containerOfServe(weights, arenas, parts int64) int64 {
	return max(container((weights+arenas)*4/3), container(4*parts))
}

// mib prints a size for people, with three digits where that is possible.
func mib(n int64) string {
	digits := 3
	for m := n; m >= 1<<20 && digits > 0; m /= 10 {
		digits--
	}
	return fmt.Sprintf("%.*f MiB", digits, float64(n)/(1<<20))
}

// text prints a summary in five lines.
func (s planSummary) text(out io.Writer, r *rlxc.Report) {
	fmt.Fprintf(out, "# weights: %s\n", mib(r.Weights))
	fmt.Fprintf(out, "# arena: %s, most of it live at step %d, %s\n", mib(r.Plan.Committed), s.PeakStep, s.PeakName)
	if r.Resident == 0 {
		return
	}
	fmt.Fprintf(out, "# resident memory: %s\n", mib(r.Resident))
	if r.Peak > 0 {
		fmt.Fprintf(out, "# peak: %s\n", mib(r.Peak))
	}
	fmt.Fprintf(out, "# container: %d MiB are enough to run, %d MiB to serve with %d sessions\n", s.Run>>20, s.Serve>>20, s.Sessions)
}
