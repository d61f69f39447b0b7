package programs_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/engine"
	"github.com/rlxc/rlxc/internal/frontend"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/internal/programs"
	"github.com/rlxc/rlxc/internal/rewrite"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

var sequences = flag.Int("sequences", 80, "programs that TestSequencesOfSizes makes")

// mostSizes is how many sizes a program of TestSequencesOfSizes has at most.
const mostSizes = 6

// TestSequencesOfSizes runs random programs at several sizes in random order in one session, without proofs. Each result must be that of
// a session which has run at that size alone, bit for bit, and the check must reject no plan.
func TestSequencesOfSizes(t *testing.T) {
	var tally struct{ ran, pairs, refused, gpu, failed atomic.Int64 }
	seen := &decisions{by: map[string]*[2]int{}}
	try := func(seed uint64) {
		p, refused := programs.Sized(seed, mostSizes)
		if refused != nil || len(p.Inputs) < 2 {
			tally.refused.Add(1)
			return
		}
		list := []way{{"-O 2", "cpu", "", rewrite.O2, true}}
		if seed%4 == 0 {
			list = append(list, way{"-O 0", "cpu", "", rewrite.O0, true})
		}
		if *onGPU > 0 && seed%*onGPU == 0 && os.Getenv("RLXC_WGPU") != "" {
			list = append(list, way{"-O 2 on wgpu", "wgpu", "", rewrite.O2, true})
			tally.gpu.Add(1)
		}
		for i, w := range list {
			tally.pairs.Add(int64(len(p.Inputs)))
			count := seen
			if i > 0 {
				count = nil
			}
			why := w.sequence(p, seed, count)
			if why == "" {
				continue
			}
			tally.failed.Add(1)
			p = programs.Shrink(p, func(q *programs.Program) bool { return len(q.Inputs) > 1 && w.sequence(q, seed, nil) != "" })
			t.Errorf("seed %d, %s: %s\n%s", seed, w.name, w.sequence(p, seed, nil), p)
			if *saveTo != "" {
				if err := p.Save(filepath.Join(*saveTo, fmt.Sprintf("sequence-%d.onnx", seed))); err != nil {
					t.Error(err)
				}
			}
			break
		}
		tally.ran.Add(1)
	}
	next, started := atomic.Uint64{}, time.Now()
	var all sync.WaitGroup
	running := *workers
	if running == 0 {
		running = runtime.NumCPU()
	}
	for range running {
		all.Go(func() {
			for i := next.Add(1) - 1; i < uint64(*sequences) && tally.failed.Load() < int64(*most); i = next.Add(1) - 1 {
				if *limit > 0 && time.Since(started) > *limit {
					return
				}
				try(*firstSeed + i)
			}
		})
	}
	all.Wait()
	t.Logf("sequences: %d programs from seed %d on, %d of them on wgpu, too; %d sizes, each run twice among others; %d that have one size "+
		"or that lowering refuses; %d failed\n%s", tally.ran.Load(), *firstSeed, tally.gpu.Load(), tally.pairs.Load(),
		tally.refused.Load(), tally.failed.Load(), seen)
}

// sequence returns what goes wrong with a program that runs at its sizes in random order, "" if nothing does. It counts the decisions in
// seen unless that is nil.
func (w way) sequence(p *programs.Program, seed uint64, seen *decisions) string {
	src, err := frontend.FromProto(p.Clone(), "program", nil)
	if err != nil {
		return err.Error()
	}
	defer src.Close()
	program, err := engine.Compile(context.Background(), src, src.Graph, options.Compile{Backend: w.backend, CPU: w.cpu, Threads: 1,
		Level: w.level, MemoryLimit: 256 << 20})
	if err != nil {
		return ""
	}
	defer program.Close()
	if seen != nil {
		seen.count(program, p)
	}
	want := make([]map[string]*tensor.Tensor, len(p.Inputs))
	for k, in := range p.Inputs {
		out, why := alone(program, in)
		if why != "" {
			return fmt.Sprintf("inputs %d in a session of their own: %s", k, why)
		}
		want[k] = out
	}
	s, err := program.NewSession()
	if err != nil {
		return err.Error()
	}
	defer s.Close()
	poison(s)
	rnd := rand.New(rand.NewPCG(seed, 0x5e9))
	var before []int
	for range 2 {
		for _, k := range rnd.Perm(len(p.Inputs)) {
			out, err := s.Run(context.Background(), p.Inputs[k])
			before = append(before, k)
			if why := differs(out, err, want[k]); why != "" {
				return fmt.Sprintf("inputs %d after those before: %v: %s", k, before, why)
			}
		}
	}
	if n := program.CacheStats().Rejected; n > 0 {
		return fmt.Sprintf("the check rejected %d plans", n)
	}
	return ""
}

// alone runs inputs in a new session; nil if they are refused.
func alone(program *engine.Program, in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, string) {
	s, err := program.NewSession()
	if err != nil {
		return nil, err.Error()
	}
	defer s.Close()
	poison(s)
	out, err := s.Run(context.Background(), in)
	if err != nil && strings.Contains(err.Error(), "internal error") {
		return nil, err.Error()
	}
	if err != nil {
		return nil, ""
	}
	copied := map[string]*tensor.Tensor{}
	for name, t := range out {
		copied[name] = t.Clone()
	}
	return copied, ""
}

func poison(s *engine.Session) {
	for _, m := range s.Memories() {
		if m, ok := m.(interface{ Poison(byte) }); ok {
			m.Poison(0xFF)
		}
	}
}

// differs compares what a run returned with what it should return, which is nil for an error.
func differs(got map[string]*tensor.Tensor, err error, want map[string]*tensor.Tensor) string {
	switch {
	case err != nil && want != nil:
		return err.Error()
	case err == nil && want == nil:
		return "no error, as there is in a session of that size alone"
	case err != nil:
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		x, y := got[name], want[name]
		if x == nil || x.DType() != y.DType() || !x.Shape().Equal(y.Shape()) {
			return fmt.Sprintf("output %s is %v, and %v in a session of that size alone", name, x, y)
		}
		if y.DType() == tensor.String {
			if !slices.Equal(x.Strings(), y.Strings()) {
				return fmt.Sprintf("output %s differs", name)
			}
		} else if !bytes.Equal(x.Bytes(), y.Bytes()) {
			for i := range y.Len() {
				if y.DType().IsFloat() && x.Float64(i) != y.Float64(i) {
					return fmt.Sprintf("element %d of output %s is %v, and %v in a session of that size alone", i, name, x.Float64(i),
						y.Float64(i))
				}
			}
			return fmt.Sprintf("output %s differs in bits", name)
		}
	}
	return ""
}

// decisions counts what plans of programs decide: by kind, in how many programs some plan decides so, and in how many of them it differs
// between sizes.
type decisions struct {
	sync.Mutex
	by map[string]*[2]int
}

// count looks at the plans of the first stage at each size.
func (d *decisions) count(program *engine.Program, p *programs.Program) {
	sums := map[string][]string{}
	for _, in := range p.Inputs {
		sizes := map[string]int{}
		for _, v := range p.Model.Graph.Input {
			for i, dim := range v.GetType().GetTensorType().GetShape().GetDim() {
				if name := dim.GetDimParam(); name != "" {
					sizes[name] = in[v.Name].Shape()[i]
				}
			}
		}
		maps.DeleteFunc(sizes, func(name string, _ int) bool { return !slices.Contains(program.Graph().FreeSymbols(), name) })
		b, err := program.Bind(sizes)
		if err != nil {
			continue
		}
		for kind, text := range decided(b.Planned) {
			sums[kind] = append(sums[kind], text)
		}
	}
	d.Lock()
	defer d.Unlock()
	for kind, texts := range sums {
		n := d.by[kind]
		if n == nil {
			n = new([2]int)
			d.by[kind] = n
		}
		if slices.ContainsFunc(texts, func(s string) bool { return s != "" }) {
			n[0]++
		}
		if slices.ContainsFunc(texts, func(s string) bool { return s != texts[0] }) {
			n[1]++
		}
	}
}

// decided lists the nodes of each kind of decision.
func decided(pl *backend.Planned) map[string]string {
	kinds := map[string]string{"a part of a Concat": "", "over an operand": "", "over a slice": "", "tiles": "", "a copy for strides": "",
		"a view as a step": "", "a slice inside": "", "constants of sizes": constants(pl.Graph), "the order of steps": "", "scratch": ""}
	at := map[*ir.Node]int{}
	for i, n := range pl.Graph.Nodes {
		at[n] = i
		v := n.Outputs[0]
		l := pl.Layout(v)
		kind := ""
		switch {
		case n.Op.Kind() == ir.KindSlice && l.Offset > 0:
			kind = "a slice inside"
		case n.Op.Kind().Has(ir.View):
		case n.Op.Kind() == ir.KindCopy:
			kind = "a copy for strides"
		case n.Op.Kind() == ir.KindMaterialize:
			kind = "a view as a step"
		case l.Root != v && slices.ContainsFunc(v.Uses, func(u ir.Use) bool { return u.Node == l.Root.Def }):
			kind = "a part of a Concat"
		case l.Root != v && l.Contiguous() && v.Type.Elements() == l.Root.Type.Elements():
			kind = "over an operand"
		case l.Root != v:
			kind = "over a slice"
		}
		if n.Op.Kind() == ir.KindChain {
			kinds["tiles"] += fmt.Sprint(v.ID, " ")
		}
		if kind != "" {
			text := fmt.Sprint(v.ID, " ")
			if kind == "a slice inside" {
				text = fmt.Sprint(v.ID, "@", l.Offset, " ")
			}
			kinds[kind] += text
		}
	}
	for i, n := range pl.Steps {
		kinds["the order of steps"] += fmt.Sprint(at[n], " ")
		for _, b := range pl.Scratch[i] {
			if size := pl.Problem.Buffers[b].Size; size > 0 {
				kinds["scratch"] += fmt.Sprint(size, " ")
			}
		}
	}
	return kinds
}

// constants lists the constants that binding has computed, whose shapes may be others at another size.
func constants(g *ir.Graph) (text string) {
	for _, v := range g.Consts() {
		if v.Name == "" || v.Const != nil && v.Const.Len() != v.Type.Elements() {
			text += fmt.Sprint(v.Type)
		}
	}
	return text
}

// String prints a line for each kind.
func (d *decisions) String() string {
	var text strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(d.by)) {
		fmt.Fprintf(&text, "%s: in %d programs, otherwise at another size in %d\n", kind, d.by[kind][0], d.by[kind][1])
	}
	return text.String()
}
