package rewrite_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	_ "github.com/rlxc/rlxc/backend/cpu"
	"github.com/rlxc/rlxc/internal/artifact"
	"github.com/rlxc/rlxc/internal/engine"
	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/internal/rewrite"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A program is a source that has no file.
type program struct{ text string }

func (program) Name() string                { return "program" }
func (p program) Graph() (*ir.Graph, error) { return ir.Parse(p.text) }
func (program) Compiled() *artifact.Info    { return nil }
func (program) Evict()                      {}
func (program) EvictPart([]byte) bool       { return false }
func (program) Stamps() []files.Stamp       { return nil }
func (program) Retain()                     {}
func (program) Close() error                { return nil }

var programs = flag.Int("programs", 150, "programs that TestDevices makes")

// TestDevices runs programs that nearly are what rules fuse at every level, with the processor's own instructions and in plain Go,
// each plan proved, and twice in the same memory: what is left there from the first run must not show in the second.
func TestDevices(t *testing.T) {
	texts, err := rewrite.Patterns("testdata")
	require.NoError(t, err)
	tried, failed := 0, 0
	for seed := *rewrite.FirstSeed; tried < *programs && failed < 5; seed++ {
		n := rewrite.New(uint64(seed))
		g := n.Change(texts[seed%len(texts)])
		if g == nil {
			continue
		}
		tried++
		if why := run(n, g); why != "" {
			failed++
			t.Errorf("seed %d: %s\n%s", seed, why, g)
		}
	}
}

// run says what goes wrong with a program on some device, nothing if nothing.
func run(n *rewrite.Generator, g *ir.Graph) string {
	text := named(g)
	every := rewrite.Parse(text)
	for _, node := range every.Nodes {
		every.Outputs = append(every.Outputs, node.Outputs...)
	}
	every.OutputNames = nil
	var inputs [][]*tensor.Tensor
	for style := range rewrite.Styles - 1 { // beyond those numbers kernels may differ from Eval
		in := n.Inputs(g, style)
		if _, err := rewrite.Interpret(every, in); err == nil {
			inputs = append(inputs, in)
		}
	}
	if len(inputs) == 0 {
		return ""
	}
	for _, level := range []options.Level{options.O0, options.O1, options.O2} {
		for _, cpu := range []string{"", "generic"} {
			where := fmt.Sprintf("at -O %s, instructions %q", level, cpu)
			p, err := engine.Compile(context.Background(), program{text}, program{text}.Graph,
				options.Compile{CPU: cpu, Threads: 1, Level: level,
					Exact: true, Verify: true})
			if err != nil {
				return fmt.Sprintf("%s: %v", where, err)
			}
			why := runs(p, every, inputs)
			if err := p.Close(); err != nil {
				return err.Error()
			}
			if why != "" {
				return where + ": " + why
			}
		}
	}
	return ""
}

func runs(p *engine.Program, every *ir.Graph, inputs [][]*tensor.Tensor) string {
	s, err := p.NewSession()
	if err != nil {
		return err.Error()
	}
	defer s.Close()
	once := map[int][]*tensor.Tensor{}
	for _, k := range []int{0, len(inputs) - 1, 0} {
		in := map[string]*tensor.Tensor{}
		for i, v := range every.Inputs {
			in[v.Name] = inputs[k][i]
		}
		out, err := s.Run(context.Background(), in)
		if err != nil {
			return fmt.Sprintf("inputs %v: %v", inputs[k], err)
		}
		var got []*tensor.Tensor
		for i := range len(out) {
			got = append(got, out[fmt.Sprintf("y%d", i)].Clone())
		}
		if before := once[k]; before != nil {
			for i := range got {
				if !slices.Equal(before[i].Bytes(), got[i].Bytes()) {
					return fmt.Sprintf("output %d is another in the second run with %v", i, inputs[k])
				}
			}
			continue
		}
		once[k] = got
		want, err := rewrite.Interpret(every, inputs[k])
		if err != nil {
			return err.Error()
		}
		shaken, err := rewrite.Shake(every, inputs[k])
		if err != nil {
			shaken = want
		}
		if why := rewrite.Departs(want, got, shaken, false); why != "" {
			return fmt.Sprintf("inputs %v: %s", inputs[k], why)
		}
	}
	return ""
}

// named names inputs and outputs.
func named(g *ir.Graph) string {
	for i, v := range g.Inputs {
		v.Name = fmt.Sprintf("x%d", i)
	}
	g.OutputNames = nil
	for i := range g.Outputs {
		g.OutputNames = append(g.OutputNames, fmt.Sprintf("y%d", i))
	}
	return g.String()
}
