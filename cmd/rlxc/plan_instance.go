package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc/planner"
	"github.com/rlxc/rlxc/tensor"
)

// maxPlanFile bounds files of intervals and of plans, in bytes.
const maxPlanFile = 1 << 30

// An instanceReport is what plan prints of bare intervals.
type instanceReport struct {
	ArenaSize  int64  `json:"arena_size"`
	LowerBound int64  `json:"lower_bound"`
	Capacity   int64  `json:"capacity,omitempty"`
	Fits       bool   `json:"fits"`
	Problem    string `json:"why,omitempty"` // why they do not fit
	*planner.File
}

func (p *planning) planInstance(c *cobra.Command) error {
	data, err := tensor.ReadFile(p.instance, maxPlanFile)
	if err != nil {
		return err
	}
	problem, err := planner.ReadCSV(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("%s: %w", p.instance, err)
	}
	o, err := planner.FromEnv(planner.Options{}) // no alignment and no guards
	if err != nil {
		return err
	}
	if c.Flags().Changed("mode") {
		o.Mode = p.mode
	}
	o.Capacity = int64(p.capacity)
	report := &instanceReport{Capacity: o.Capacity, Fits: true}
	if report.LowerBound, err = planner.LowerBound(problem, o); err != nil {
		return err
	}
	plan, err := planner.Solve(problem, o)
	var capacity *planner.CapacityError
	switch {
	case errors.As(err, &capacity):
		report.Fits, report.Problem = false, err.Error()
	case err != nil:
		return err
	}
	if plan != nil {
		report.ArenaSize, report.File = plan.Committed, &planner.File{Problem: problem, Plan: plan}
		if err := planner.Check(problem, plan); err != nil {
			return err
		}
		if err := p.draw(problem, plan, p.instance); err != nil {
			return err
		}
	}
	err = emit(c, report, func(out io.Writer) error {
		if report.Problem != "" {
			fmt.Fprintln(out, report.Problem)
		}
		if plan == nil {
			_, err := fmt.Fprintf(out, "lower_bound=%d\n", report.LowerBound)
			return err
		}
		_, err := fmt.Fprintf(out, "arena_size=%d lower_bound=%d\n", report.ArenaSize, report.LowerBound)
		return err
	})
	if err == nil && !report.Fits {
		return errCheck
	}
	return err
}

// checkFile checks the plan in a JSON file, which may say more besides.
func (p *planning) checkFile(c *cobra.Command) error {
	data, err := tensor.ReadFile(p.check, maxPlanFile)
	if err != nil {
		return err
	}
	file, err := planner.ReadFile(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("%s: %w", p.check, err)
	}
	report := struct {
		OK        bool   `json:"ok"`
		Problem   string `json:"why,omitempty"`
		ArenaSize int64  `json:"arena_size"`
	}{OK: true, ArenaSize: file.Plan.Committed}
	if err := checkPlans(file); err != nil {
		report.OK, report.Problem = false, err.Error()
	}
	err = emit(c, report, func(out io.Writer) error {
		if !report.OK {
			_, err := fmt.Fprintf(out, "wrong: %s\n", report.Problem)
			return err
		}
		for _, f := range append([]*planner.File{file}, file.Stages...) {
			fmt.Fprintf(out, "ok: %d buffers in an arena of %d bytes\n", len(f.Problem.Buffers), f.Plan.Committed)
		}
		return nil
	})
	if err == nil && !report.OK {
		return errCheck
	}
	return err
}

// checkPlans verifies a plan, and those of the other stages of its program.
func checkPlans(f *planner.File) error {
	if err := planner.Check(f.Problem, f.Plan); err != nil {
		return err
	}
	for i, stage := range f.Stages {
		if err := planner.Check(stage.Problem, stage.Plan); err != nil {
			return fmt.Errorf("stage %d: %w", i+1, err)
		}
	}
	return nil
}
