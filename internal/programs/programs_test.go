package programs_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	_ "github.com/rlxc/rlxc/backend/cpu"
	_ "github.com/rlxc/rlxc/backend/wgpu"
	"github.com/rlxc/rlxc/internal/engine"
	"github.com/rlxc/rlxc/internal/frontend"
	"github.com/rlxc/rlxc/internal/onnxruntime"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/internal/programs"
	"github.com/rlxc/rlxc/internal/rewrite"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

var (
	count     = flag.Int("programs", 400, "programs that TestPrograms makes")
	firstSeed = flag.Uint64("seed", 1, "the first seed of TestPrograms")
	onGPU     = flag.Uint64("wgpu", 100, "one program of so many runs on wgpu, too; 0 for none")
	saveTo    = flag.String("save", "", "a folder that shrunk programs are saved to")
	most      = flag.Int("most", 5, "failures after which TestPrograms ends")
	workers   = flag.Int("workers", 1, "programs that TestPrograms runs at a time; 0 for as many as there are cores")
	limit     = flag.Duration("for", 0, "the time after which no more programs begin; 0 for none")
)

// A way is a device and a level to run programs at; free leaves --exact out.
type way struct {
	name, backend, cpu string
	level              options.Level
	free               bool
}

var ways = []way{
	{"-O 0", "cpu", "", rewrite.O0, false},
	{"-O 1", "cpu", "", rewrite.O1, false},
	{"-O 2 --exact", "cpu", "", rewrite.O2, false},
	{"-O 2", "cpu", "", rewrite.O2, true},
	{"-O 0 in plain Go", "cpu", "generic", rewrite.O0, false},
	{"-O 1 in plain Go", "cpu", "generic", rewrite.O1, false},
	{"-O 2 --exact in plain Go", "cpu", "generic", rewrite.O2, false},
}

var waysOnGPU = []way{{"-O 0 on wgpu", "wgpu", "", rewrite.O0, false}, {"-O 2 on wgpu", "wgpu", "", rewrite.O2, false}}

// The arithmetic of engines' functions: rlxc's own tests hold its kernels to 4 positions at most, onnxruntime's and a GPU's are
// polynomials that are good to that much of 1.
var (
	kernels   = programs.Arithmetic{Ulps: 8, Abs: 0x1p-100, Forms: 1}
	pairless  = programs.Arithmetic{Ulps: 8, Abs: 0x1p-100, Forms: 1, Pairs: true}
	shaders   = programs.Arithmetic{Ulps: 16, Abs: 0x1p-20, Forms: 1}
	reference = programs.Arithmetic{Ulps: 16, Abs: 0x1p-20, Forms: 4, Moves: true}
)

func TestPrograms(t *testing.T) {
	var tally struct{ failed, refused, ran, compared, second, gpu atomic.Int64 }
	try := func(seed uint64) {
		p, refused := programs.New(seed)
		var why string
		if refused != nil {
			tally.refused.Add(1)
			why = refusedByAll(p, refused)
		} else {
			gpu := *onGPU > 0 && seed%*onGPU == 0 && os.Getenv("RLXC_WGPU") != ""
			var compared bool
			why, compared = check(p, gpu)
			tally.ran.Add(1)
			if compared {
				tally.compared.Add(1)
			}
			if gpu {
				tally.gpu.Add(1)
			}
			tally.second.Add(int64(len(p.Inputs) - 1))
		}
		if why == "" {
			return
		}
		tally.failed.Add(1)
		fails := func(q *programs.Program) bool { w, _ := check(q, strings.Contains(why, "wgpu")); return w != "" }
		if refused == nil {
			p = programs.Shrink(p, fails)
			why, _ = check(p, strings.Contains(why, "wgpu"))
		}
		t.Errorf("seed %d: %s\n%s", seed, why, p)
		if *saveTo != "" {
			if err := p.Save(filepath.Join(*saveTo, fmt.Sprintf("seed-%d.onnx", seed))); err != nil {
				t.Error(err)
			}
		}
	}
	started := time.Now()
	next := *firstSeed
	var mu sync.Mutex
	take := func() (seed uint64, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		done := next - *firstSeed
		if done == uint64(*count) || tally.failed.Load() >= int64(*most) || *limit > 0 && time.Since(started) > *limit {
			return 0, false
		}
		if done > 0 && done%5000 == 0 {
			t.Logf("%d begun, %d failed", done, tally.failed.Load())
		}
		next++
		return next - 1, true
	}
	if *workers == 0 {
		*workers = runtime.NumCPU()
	}
	var all sync.WaitGroup
	for range *workers {
		all.Go(func() {
			for seed, ok := take(); ok; seed, ok = take() {
				try(seed)
			}
		})
	}
	all.Wait()
	t.Logf("programs: seeds %d to %d: %d run, %d of them with a second set of sizes, %d also by onnxruntime, %d also on wgpu; %d that "+
		"lowering refuses; %d failed", *firstSeed, next-1, tally.ran.Load(), tally.second.Load(), tally.compared.Load(), tally.gpu.Load(),
		tally.refused.Load(), tally.failed.Load())
}

// TestChainsKeepOverflow runs a quarter as many programs as TestPrograms. They multiply and divide beyond the range of float32. Below -O 2
// and with Exact, infinities, zeros and NaN are those of the model, and of onnxruntime.
func TestChainsKeepOverflow(t *testing.T) {
	for seed := *firstSeed; seed < *firstSeed+uint64(*count)/4; seed++ {
		p, want, err := programs.Chain(seed)
		require.NoError(t, err)
		for _, w := range ways {
			if !w.free {
				require.Empty(t, w.run(p, []*programs.Analysis{want}, []error{nil}), "seed %d, %s\n%s", seed, w.name, p)
			}
		}
		if os.Getenv("RLXC_ONNXRUNTIME") != "" {
			out, err := byReference(p, 0)
			require.NoError(t, err)
			require.Empty(t, departs(out[p.Model.Graph.Output[0].Name], want.Outputs[0]), "seed %d, onnxruntime\n%s", seed, p)
		}
	}
}

// TestCases runs what once failed.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/*.onnx")
	require.NoError(t, err)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".onnx"), func(t *testing.T) {
			p, err := programs.Load(file)
			require.NoError(t, err)
			_, err = p.Analyse(0, kernels)
			require.NoError(t, err, "%s", p)
			why, _ := check(p, os.Getenv("RLXC_WGPU") != "")
			require.Empty(t, why, "%s", p)
		})
	}
}

// check says what goes wrong with a program somewhere, nothing if nothing; compared is whether onnxruntime took it.
func check(p *programs.Program, gpu bool) (why string, compared bool) {
	wants := make([]*programs.Analysis, len(p.Inputs))
	errs := make([]error, len(p.Inputs))
	for k := range p.Inputs {
		wants[k], errs[k] = p.Analyse(k, kernels)
	}
	// by is what another arithmetic may make of it.
	by := func(a programs.Arithmetic) []*programs.Analysis {
		other := slices.Clone(wants)
		for k := range other {
			if errs[k] == nil {
				other[k], errs[k] = p.Analyse(k, a)
			}
		}
		return other
	}
	freely := wants
	if slices.ContainsFunc(p.Model.Graph.Node, func(n *onnxpb.NodeProto) bool { return n.OpType == "DequantizeLinear" }) {
		freely = by(pairless)
	}
	for _, w := range ways {
		want := wants
		if w.free {
			want = freely
		}
		if why := w.run(p, want, errs); why != "" {
			return w.name + ": " + why, false
		}
	}
	if gpu {
		want := by(shaders)
		for _, w := range waysOnGPU {
			if why := w.run(p, want, errs); why != "" {
				return w.name + ": " + why, false
			}
		}
	}
	if os.Getenv("RLXC_ONNXRUNTIME") == "" {
		return "", false
	}
	odd := false
	for _, n := range p.Model.Graph.Node {
		if apart[n.OpType] != "" {
			return "", false
		}
		odd = odd || apartAtOdd[n.OpType] != ""
	}
	for k := range p.Inputs {
		// of nothing, onnxruntime leaves sums unwritten
		if w := wants[k]; errs[k] != nil || w.Extreme || w.Undefined || w.Unsized || w.Empty || odd && w.NotFinite ||
			w.Unread != nil && w.Unread != programs.ErrData {
			continue
		}
		out, err := byReference(p, k)
		if err != nil {
			continue // onnxruntime lacks kernels for many types and versions
		}
		compared = true
		want, err := p.Analyse(k, reference)
		if err != nil {
			return err.Error(), false
		}
		for i, o := range p.Model.Graph.Output {
			if why := departs(out[o.Name], want.Outputs[i]); why != "" {
				return fmt.Sprintf("onnxruntime, inputs %d: output %s %s", k, o.Name, why), true
			}
		}
	}
	return "", compared
}

// apart are operators that onnxruntime computes with fewer positions than the model says.
var apart = map[string]string{
	"InstanceNormalization": "x·s + (b − mean·s) in place of (x − mean)·s + b",
	"BatchNormalization":    "the same",
	"Shrink":                "float32 for all types",
	"Sign":                  "0 of a NaN of 16 bits",
}

// apartAtOdd are operators that onnxruntime computes in its own way where numbers are infinite or not numbers.
var apartAtOdd = map[string]string{
	"MaxPool":       "begins with the lowest finite number",
	"GlobalMaxPool": "the same",
	"Hardmax":       "a line that begins with a NaN has no 1",
	"Unique":        "a NaN equals its neighbours",
}

func byReference(p *programs.Program, k int) (map[string]*tensor.Tensor, error) {
	m, err := onnx.New(p.Clone(), "program")
	if err != nil {
		return nil, err
	}
	defer m.Close()
	s, err := onnxruntime.New(m, onnxruntime.Options{Threads: 1, Level: onnxruntime.None})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.Run(context.Background(), p.Inputs[k])
}

// refusedByAll holds that onnxruntime does not take what lowering refuses, either.
func refusedByAll(p *programs.Program, refused error) string {
	if os.Getenv("RLXC_ONNXRUNTIME") == "" {
		return ""
	}
	nodes := p.Model.Graph.Node
	last := nodes[len(nodes)-1]
	p.Model.Graph.Output = p.Model.Graph.Output[:0]
	for _, y := range last.Output {
		o := &onnxpb.ValueInfoProto{Name: y}
		p.Model.Graph.Output = append(p.Model.Graph.Output, o)
	}
	if _, err := byReference(p, 0); err == nil {
		return fmt.Sprintf("onnxruntime takes what is refused: %v", refused)
	}
	return ""
}

// run runs the program twice in the same memory, poisoned: nothing may show of the first run in the second.
func (w way) run(p *programs.Program, wants []*programs.Analysis, errs []error) string {
	src, err := frontend.FromProto(p.Clone(), "program", nil)
	if err != nil {
		return err.Error()
	}
	defer src.Close()
	if src, err = frontend.With(src, false, p.Defaults()); err != nil {
		return err.Error()
	}
	program, err := engine.Compile(context.Background(), src, src.Graph, options.Compile{Backend: w.backend, CPU: w.cpu, Threads: 1,
		Level: w.level, Exact: !w.free, Verify: true})
	if err != nil {
		if !slices.Contains(errs, nil) {
			return ""
		}
		return err.Error()
	}
	defer program.Close()
	s, err := program.NewSession()
	if err != nil {
		return err.Error()
	}
	defer s.Close()
	for _, m := range s.Memories() {
		if m, ok := m.(interface{ Poison(byte) }); ok {
			m.Poison(0xFF)
		}
	}
	for round := range 2 {
		for k, want := range wants {
			out, err := s.Run(context.Background(), p.Inputs[k])
			switch {
			case err != nil && errs[k] == nil && want.Unread != nil && !strings.Contains(err.Error(), "internal error"):
				continue
			case err != nil && (errs[k] == nil || strings.Contains(err.Error(), "internal error")):
				return fmt.Sprintf("inputs %d: %v", k, err)
			case err == nil && errors.Is(errs[k], programs.ErrData):
				continue
			case err == nil && errs[k] != nil && w.level > rewrite.O0 && gone(program.Graph(), errs[k]):
				continue
			case err == nil && errs[k] != nil:
				return fmt.Sprintf("inputs %d: no error, which should be %v", k, errs[k])
			case err != nil:
				continue
			}
			for i, o := range p.Model.Graph.Output {
				why := departs(out[o.Name], want.Outputs[i])
				if want.Extreme && w.level == rewrite.O2 && !strings.HasPrefix(why, "is of") || w.backend == "wgpu" && want.Odd ||
					w.free && want.Low || want.Unsized {
					continue // roundings that move may become anything, and so may masks of such scores
				}
				if why != "" {
					return fmt.Sprintf("inputs %d, run %d: output %s %s", k, round, o.Name, why)
				}
			}
		}
	}
	if n := program.CacheStats().Rejected; n > 0 {
		return fmt.Sprintf("%d plans were rejected", n)
	}
	return ""
}

// gone reports whether the node of an error is none of a graph's any more: what no result needs may go, with its error.
func gone(g *ir.Graph, err error) bool {
	var at *ir.ShapeError
	if !errors.As(err, &at) {
		return false
	}
	return !slices.ContainsFunc(g.Nodes, func(n *ir.Node) bool { return slices.Contains(n.Origins, at.Node) })
}

// departs compares a result with what it may be.
func departs(got *tensor.Tensor, want programs.Result) string {
	if got == nil || got.DType() != want.DType() || !got.Shape().Equal(want.Shape()) {
		return fmt.Sprintf("is of type %v, not %v", got, want.Tensor)
	}
	if got.DType() == tensor.String {
		if !slices.Equal(got.Strings(), want.Strings()) {
			return fmt.Sprintf("is %q, not %q", got.Strings(), want.Strings())
		}
		return ""
	}
	float := got.DType().IsFloat()
	for i := range got.Len() {
		off := 0.0
		if want.Off != nil {
			off = want.Off[i]
		}
		if !float {
			if x, y := got.Int64(i), want.Int64(i); x != y && !(math.Abs(float64(x)-float64(y)) <= off) {
				return fmt.Sprintf("element %d is %d, %d expected within %g", i, x, y, off)
			}
			continue
		}
		x, y := got.Float64(i), want.Float64(i)
		if x != y && !(math.IsNaN(x) && math.IsNaN(y)) && !(math.Abs(x-y) <= off+0x1p-140) && !math.IsInf(off, 1) {
			return fmt.Sprintf("element %d is %v, %v expected within %g", i, x, y, off)
		}
	}
	return ""
}
