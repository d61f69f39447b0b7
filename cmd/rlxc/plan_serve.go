package main

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/pipeline"
	"github.com/rlxc/rlxc/server"
)

// A servePlan is what serve --plan prints.
type servePlan struct {
	Models    []*servedPlan `json:"models"`
	Container int64         `json:"container,omitempty"` // bytes that are enough for all models; 0 on other backends than cpu
}

// A servedPlan is the memory of a model in a server, in bytes.
type servedPlan struct {
	Name     string         `json:"name"`
	Dims     map[string]int `json:"dims"`     // sizes of the largest batch
	Weights  int64          `json:"weights"`  // bytes of all weights, which the sessions share
	Arena    int64          `json:"arena"`    // bytes of a session's arena
	Sessions int            `json:"sessions"` // number of concurrent batches

	// resident is the estimated resident memory of this process with one session of the model, in bytes. It is right only for the first
	// model: while later models are planned, the process still holds the earlier ones. It is 0 on other backends than cpu.
	resident int64
}

// plan prints what a server of these models takes, without listening.
func (s *serving) plan(c *cobra.Command, args []string) error {
	if s.open.Compile.Backend == "" {
		s.open.Compile.Backend = "cpu"
	}
	if s.open.Compile.MemoryLimit == 0 {
		s.open.Compile.MemoryLimit = math.MaxInt64 // the container decides it
	}
	models, err := s.models(args)
	if err != nil {
		return err
	}
	report := &servePlan{}
	var weights, arenas, most int64
	for _, m := range models {
		one, program, err := planOf(c, m)
		if err != nil {
			return err
		}
		defer program.Close()
		report.Models = append(report.Models, one)
		arenas += int64(one.Sessions) * one.Arena
		most = max(most, int64(one.Sessions+1)*one.Arena)
		if len(report.Models) == 1 {
			weights = one.resident - one.Arena
		} else {
			weights += one.Weights
		}
	}
	if report.Models[0].resident > 0 {
		report.Container = containerOfServe(weights, arenas, most*int64(len(models)))
	}
	return emit(c, report, report.text)
}

// planOf plans the largest batch that a model runs in a server.
func planOf(c *cobra.Command, served server.Model) (_ *servedPlan, _ *rlxc.Program, err error) {
	path, _, err := pipeline.Find(c.Context(), served.Path, served.Options)
	if err != nil {
		return nil, nil, err
	}
	d, err := pipeline.Describe(path, served.Options)
	if err != nil {
		return nil, nil, err
	}
	m, err := d.OpenModel()
	if err != nil {
		return nil, nil, err
	}
	defer m.Close()
	program, err := d.Compile(c.Context(), m, served.Options.Compile)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, program.Close())
		}
	}()
	o := served.Options.Defaults()
	length := o.BatchTokens
	if d.MaxLength > 0 {
		length = min(length, d.MaxLength)
	}
	planned := func() (*rlxc.Report, error) {
		sizes, err := d.Sizes(m, max(1, o.BatchTokens/length), length)
		if err != nil {
			return nil, err
		}
		for name := range o.Compile.Dims {
			delete(sizes, name)
		}
		return program.Plan(sizes)
	}
	plan, err := planned()
	for err != nil && length > 1 && !errors.Is(err, pipeline.ErrNotText) { // it has fewer positions, which its files do not say
		length /= 2
		plan, err = planned()
	}
	if errors.Is(err, pipeline.ErrNotText) {
		err = fmt.Errorf("%s takes no texts, so that requests decide the sizes of its tensors: rlxc plan %s --dim NAME=SIZE plans some",
			served.Name, served.Path)
	}
	if err != nil {
		return nil, nil, err
	}
	plan.Measure()
	return &servedPlan{Name: served.Name, Dims: plan.Dims, Weights: plan.Weights, Arena: plan.Plan.Committed, Sessions: o.Sessions,
		resident: plan.Resident}, program, nil
}

// text prints a line for each model, and the container.
func (r *servePlan) text(out io.Writer) error {
	for _, m := range r.Models {
		fmt.Fprintf(out, "%s: weights %s, %d sessions with an arena of %s each, at %s\n", m.Name, mib(m.Weights), m.Sessions, mib(m.Arena),
			testCase{dims: m.Dims}.name())
	}
	if r.Container == 0 {
		return nil
	}
	_, err := fmt.Fprintf(out, "a container of %d MiB is enough\n", r.Container>>20)
	return err
}
