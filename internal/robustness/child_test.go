package robustness

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/tensor"
)

// childEnv makes the test binary the child: it opens, compiles and runs the models of that list of paths, and says of each what
// came of it.
const childEnv = "RLXC_HOSTILE_MODELS"

// limits of the child.
const (
	memoryLimit   = 64 << 20 // what the child sets for itself
	refusalMemory = 256 << 20
	acceptMemory  = 512 << 20
	refusalTime   = time.Second      // of the processor: the machine may be busy
	patience      = 20 * time.Second // of the processor, for all models of a child
)

func TestMain(m *testing.M) {
	if list := os.Getenv(childEnv); list != "" {
		limitCPU(patience)
		for _, path := range filepath.SplitList(list) {
			start := cpuTime()
			o := child(path)
			o.CPU = cpuTime() - start
			json.NewEncoder(os.Stdout).Encode(o)
		}
		return
	}
	if name := os.Getenv(attackEnv); name != "" {
		limitCPU(patience)
		attackChild(name)
		return
	}
	flag.Set("rapid.checks", "1000") // unless the command line says otherwise, which is parsed after this
	os.Exit(m.Run())
}

// An outcome is what the child says.
type outcome struct {
	Stage   string   // "open", "compile", "run": where it was refused; "done"
	Error   string   // of the refusal
	Outputs []string // of the first run at -O 2
	Differ  string   // what -O 0 returns otherwise
	CPU     time.Duration
}

func child(path string) (o outcome) {
	debug.SetMemoryLimit(acceptMemory / 2)
	refused := func(stage string, err error) outcome { o.Stage, o.Error = stage, err.Error(); return o }
	m, err := rlxc.Open(path)
	if err != nil {
		return refused("open", err)
	}
	defer m.Close()
	in, err := childInputs(m, filepath.Join(filepath.Dir(path), "inputs.json"))
	if err != nil {
		panic(err)
	}
	for _, level := range []rlxc.Level{rlxc.O2, rlxc.O0} {
		p, err := m.Compile(context.Background(), rlxc.CompileOptions{Level: level, Threads: 1, MemoryLimit: memoryLimit})
		if err != nil {
			return refused("compile", err)
		}
		s, err := p.NewSession()
		if err != nil {
			return refused("compile", err)
		}
		out, err := s.Run(context.Background(), in)
		if err != nil {
			return refused("run", err)
		}
		var shown []string
		for _, info := range p.Outputs() {
			shown = append(shown, show(out[info.Name]))
		}
		if level == rlxc.O2 {
			o.Outputs = shown
		} else if a, b := strings.Join(o.Outputs, " "), strings.Join(shown, " "); a != b {
			o.Differ = fmt.Sprintf("-O 2 returns %s, -O 0 %s", a, b)
		}
		s.Close()
		p.Close()
	}
	o.Stage = "done"
	return o
}

// show prints type, shape and the first elements.
func show(t *tensor.Tensor) string {
	if t == nil {
		return "nothing"
	}
	if t.IsSequence() {
		parts := make([]string, t.Len())
		for i, e := range t.Elems() {
			parts[i] = show(e)
		}
		return "(" + strings.Join(parts, " ") + ")"
	}
	const most = 8
	var b strings.Builder
	fmt.Fprintf(&b, "%v=", t)
	for i := range min(t.Len(), most) {
		if i > 0 {
			b.WriteByte(',')
		}
		switch d := t.DType(); {
		case d == tensor.String:
			b.WriteString(strconv.Quote(t.Strings()[i]))
		case d.IsFloat():
			fmt.Fprintf(&b, "%.4g", t.Float64(i))
		case d == tensor.U64:
			fmt.Fprint(&b, uint64(t.Int64(i)))
		default:
			fmt.Fprint(&b, t.Int64(i))
		}
	}
	return b.String()
}

// childInputs reads the inputs of a case, and makes zeros of all others, with 2 for every symbol.
func childInputs(m *rlxc.Model, file string) (rlxc.Tensors, error) {
	given := map[string][]int64{}
	if data, err := os.ReadFile(file); err == nil {
		if err := json.Unmarshal(data, &given); err != nil {
			return nil, err
		}
	}
	in := rlxc.Tensors{}
	for _, info := range m.Inputs() {
		if !info.DType.Valid() {
			in[info.Name] = tensor.NewSequence()
			continue
		}
		var shape []int
		for _, s := range info.Shape {
			n, err := strconv.Atoi(s)
			if err != nil || n < 0 || n > 1<<20 && !slices.Contains(info.Shape, "0") {
				n = 2
			}
			shape = append(shape, n)
		}
		values, ok := given[info.Name]
		if ok && tensor.Shape(shape).Elements() != len(values) {
			shape = []int{len(values)}
		}
		t := tensor.New(info.DType, shape...)
		for i := range values {
			if info.DType.IsFloat() {
				t.SetFloat64(i, float64(values[i]))
			} else {
				t.SetInt64(i, values[i])
			}
		}
		in[info.Name] = t
	}
	return in, nil
}

// A report is what the parent saw of the child.
type report struct {
	outcome
	crash  string // how the child ended, where it did not end well
	memory int64  // of the child, for all its models
}

// used returns what a process that has ended used of the processor.
func used(s *os.ProcessState) time.Duration {
	if s == nil { // it has not begun
		return 0
	}
	return s.UserTime() + s.SystemTime()
}

// spawn runs the child on models.
func spawn(paths []string) []report {
	c := exec.Command(os.Args[0])
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	c.Env = append(os.Environ(), childEnv+"="+strings.Join(paths, string(filepath.ListSeparator)))
	err := c.Run()
	reports := make([]report, len(paths))
	d := json.NewDecoder(&out)
	for i := range reports {
		r := &reports[i]
		if c.ProcessState != nil {
			r.memory = peakMemory(c.ProcessState)
		}
		if d.Decode(&r.outcome) != nil {
			text := errs.String()
			r.crash = fmt.Sprintf("%v after %v of the processor, of at most %v: %s", err, used(c.ProcessState), patience,
				text[:min(len(text), 3000)])
		}
	}
	return reports
}
