package robustness

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/quantize"
	"github.com/rlxc/rlxc/tensor"
)

// attackEnv makes the test binary the child that runs one attack.
const attackEnv = "RLXC_ATTACK"

// An attack is something hostile that is done to the library, other than to open and run a model: in a separate process, since
// what it is after is that the process dies, hangs, or takes the machine's memory.
type attack struct {
	want   string // in the error; "" for success, "!" for any error, "?" for either
	run    func(dir string) error
	memory int64         // that the child may take where it is not attackMemory; nothing but the account bounds it then
	time   time.Duration // of the processor, where it is not attackTime
}

// The child's limits: of memory, in total, and of the processor's time.
const (
	attackMemory = 320 << 20
	attackTime   = 4 * time.Second
)

var attacks = map[string]attack{
	"a .npy of strings without letters": {want: "no letters", run: func(string) error {
		return readNPY(`{'descr': '<U0', 'fortran_order': False, 'shape': (1099511627776,), }`, nil)
	}},
	"a .npy of strings of negative length": {want: "not plain numbers", run: func(string) error {
		return readNPY(`{'descr': '<U-4', 'fortran_order': False, 'shape': (4,), }`, nil)
	}},
	"a .npy that lies about its size": {want: "there are 4", run: func(string) error {
		return readNPY(`{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,), }`, make([]byte, 4))
	}},
	"a .npy above the limit": {want: "limit", run: func(string) error {
		header := npyHeader(`{'descr': '|u1', 'fortran_order': True, 'shape': (1073741824,), }`)
		_, err := tensor.ReadNPY(io.MultiReader(bytes.NewReader(header), io.LimitReader(zeros{}, 1<<30)), 64<<20)
		return err
	}},
	"a .npz that unpacks to 8 times the limit": {want: "limit", run: func(string) error {
		var file bytes.Buffer
		z := zip.NewWriter(&file)
		for i := range 8 {
			w, err := z.Create(fmt.Sprintf("a%d.npy", i))
			if err != nil {
				return err
			}
			w.Write(npyHeader(`{'descr': '|u1', 'fortran_order': False, 'shape': (33554432,), }`))
			io.CopyN(w, zeros{}, 32<<20)
		}
		z.Close()
		_, err := tensor.ReadNPZ(bytes.NewReader(file.Bytes()), int64(file.Len()), 40<<20)
		return err
	}},
	"a model of 2^40 bytes that are not there": {want: "truncated", run: func(string) error {
		_, err := rlxc.Read(strings.NewReader("short"), 1<<40, "attack")
		return err
	}},
	"JSON of 2^40 rows of nothing": {want: "", run: func(string) error {
		text, err := json.Marshal(tensor.New(tensor.F32, 1<<40, 0, 3))
		if err == nil && len(text) > 200 {
			err = fmt.Errorf("%d bytes of text", len(text))
		}
		return err
	}},
	"JSON of many lists": {want: "nested more than", run: func(string) error {
		_, err := tensor.ParseJSON(bytes.Repeat([]byte("["), 10<<20), tensor.Invalid)
		return err
	}},
	"JSON of many numbers": {want: "", run: func(string) error {
		_, err := tensor.ParseJSON([]byte("[0"+strings.Repeat(",0", 1<<20)+"]"), tensor.F32)
		return err
	}},
	"numbers for elements that are none": {want: "", run: func(string) error {
		for _, t := range []*tensor.Tensor{tensor.New(tensor.String, 1), tensor.New(tensor.C64, 1), tensor.New(tensor.C128, 1),
			tensor.NewSequence(), new(tensor.Tensor)} {
			for _, set := range []func(){func() { t.SetFloat64(0, 1) }, func() { t.SetInt64(0, 1) }, func() { t.Float64(0) },
				func() { t.Int64(0) }} {
				if !panics(set) {
					return fmt.Errorf("%v takes a number", t)
				}
			}
		}
		return nil
	}},
	"sums over 2^32 times nothing": {want: "", run: func(string) error {
		x := tensor.New(tensor.F32, 1<<32, 0, 2)
		for fn := ir.NoReduction + 1; fn < ir.NumReductions; fn++ {
			if _, err := ir.EvalOp(nil, ir.Reduce{Fn: fn, Axes: []int{0, 1}}, []*tensor.Tensor{x}); err != nil {
				return err
			}
		}
		return nil
	}},
	"a sum over everything": {want: "", run: func(string) error {
		x := tensor.New(tensor.U8, 1<<25)
		_, err := ir.EvalOp(nil, ir.Reduce{Fn: ir.Sum, Axes: []int{0}}, []*tensor.Tensor{x})
		return err
	}},

	// What a caller may hand over.
	"nil in the lists of a model": {want: "is nil", run: func(string) error {
		for i, spoil := range []func(*onnxpb.ModelProto){
			func(p *onnxpb.ModelProto) { p.Graph.Node[0] = nil }, func(p *onnxpb.ModelProto) { p.Graph.Input[0] = nil },
			func(p *onnxpb.ModelProto) { p.Graph.Initializer[0] = nil }, func(p *onnxpb.ModelProto) { p.OpsetImport[0] = nil },
			func(p *onnxpb.ModelProto) { p.Functions = append(p.Functions, nil) },
			func(p *onnxpb.ModelProto) { p.Graph.Node[0].Attribute = append(p.Graph.Node[0].Attribute, nil) },
			func(p *onnxpb.ModelProto) { p.Graph.Input[0].Type.GetTensorType().Shape.Dim[0] = nil },
		} {
			p := good()
			spoil(p)
			if _, err := rlxc.FromProto(p, "attack"); err == nil || !strings.Contains(err.Error(), "is nil") {
				return fmt.Errorf("%d: %v", i, err)
			}
		}
		return errors.New("is nil")
	}},
	"a graph that holds itself": {want: "deep", run: func(string) error {
		p := good()
		p.Graph.Node[0].Attribute = append(p.Graph.Node[0].Attribute, attribute("body", p.Graph))
		_, err := rlxc.FromProto(p, "attack")
		return err
	}},
	"nil for a model, an option and a context": {want: "", run: func(string) error {
		_, noModel := rlxc.FromProto(nil, "attack")
		_, noOption := rlxc.FromProto(good(), "attack", nil)
		m, err := rlxc.FromProto(good(), "attack")
		if err != nil {
			return err
		}
		_, noContext := m.Compile(nil, rlxc.CompileOptions{}) //lint:ignore SA1012 it is the attack
		p, err := m.Compile(context.Background(), rlxc.CompileOptions{})
		if err != nil {
			return err
		}
		s, err := p.NewSession()
		if err != nil {
			return err
		}
		_, noRun := s.Run(nil, rlxc.Tensors{"x": tensor.New(f32, 1, 4)}) //lint:ignore SA1012 it is the attack
		if noModel == nil || noOption == nil || noContext == nil || noRun == nil {
			return fmt.Errorf("accepted: %v, %v, %v, %v", noModel, noOption, noContext, noRun)
		}
		return nil
	}},
	"a reader that panics": {want: "the reader panics: boom", run: func(string) error {
		_, err := rlxc.Read(panicking{}, 100, "attack")
		return err
	}},
	"a file system that panics": {want: "the file system panics: boom", run: func(string) error {
		_, err := rlxc.OpenFS(panicking{}, "model.onnx")
		return err
	}},

	// Files that change while they are used.
	"Quantize of a file that was cut": {want: "was truncated", run: func(dir string) error {
		m, err := cutAfterOpening(dir)
		if err != nil {
			return err
		}
		_, _, err = m.Quantize(context.Background(), rlxc.QuantizeOptions{Form: quantize.Dynamic})
		return err
	}},
	"Compile of a file that was cut": {want: "was truncated", run: func(dir string) error {
		m, err := cutAfterOpening(dir)
		if err != nil {
			return err
		}
		_, err = m.Compile(context.Background(), rlxc.CompileOptions{})
		return err
	}},
	"Close during Compile": {want: "", run: func(dir string) error {
		path := filepath.Join(dir, "model.onnx")
		if err := onnx.Save(path, wide()); err != nil {
			return err
		}
		for _, use := range []func(m *rlxc.Model, p *rlxc.Program) error{
			func(m *rlxc.Model, _ *rlxc.Program) error {
				p, err := m.Compile(context.Background(), rlxc.CompileOptions{Threads: 1})
				if err == nil {
					err = p.Close()
				}
				return err
			},
			func(m *rlxc.Model, _ *rlxc.Program) error {
				_, _, err := m.Quantize(context.Background(), rlxc.QuantizeOptions{Form: quantize.Dynamic})
				return err
			},
			func(_ *rlxc.Model, p *rlxc.Program) error { return p.Save(filepath.Join(dir, "model.rlxc")) },
			func(_ *rlxc.Model, p *rlxc.Program) error { _, err := p.Plan(map[string]int{"n": 3}); return err },
		} {
			if err := closeDuring(path, use); err != nil {
				return err
			}
		}
		return nil
	}},

	// Work without an end.
	"a loop of products above the limit of operations": {want: "the limit", run: func(string) error {
		step := body(names("i", "c", "v"), names("c", "w"), node("MatMul", names("v", "v"), names("w")))
		g := graph(infos{value("x", f32, 50, 50), value("m", i64)}, infos{unranked("y", f32)},
			node("Loop", names("m", "", "x"), names("y"), attribute("body", step)))
		s, err := opened(model(g), rlxc.CompileOptions{Threads: 1, MaxFlops: 100 * 2 * 50 * 50 * 50})
		if err != nil {
			return err
		}
		defer s.Close()
		for _, trips := range []int64{100, 101} { // the first is allowed
			_, err = s.Run(context.Background(), rlxc.Tensors{"x": tensor.New(f32, 50, 50), "m": tensor.Scalar(trips)})
			if trips == 100 && err != nil {
				return fmt.Errorf("100 trips are refused: %v", err)
			}
		}
		if !errors.Is(err, rlxc.ErrWork) {
			return fmt.Errorf("of another kind: %v", err)
		}
		return err
	}},
	"a product that takes longer than its deadline": {want: "deadline", run: func(string) error {
		const n = 3000
		g := graph(infos{value("x", f32, n, n)}, infos{unranked("y", f32)}, node("MatMul", names("x", "x"), names("a")),
			node("MatMul", names("a", "a"), names("b")), node("MatMul", names("b", "b"), names("y")))
		return within(100*time.Millisecond, 700*time.Millisecond, model(g), rlxc.Tensors{"x": tensor.New(f32, n, n)})
	}},
}

// zeros are without an end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// panicking is a reader and a file system.
type panicking struct{}

func (panicking) ReadAt([]byte, int64) (int, error) { panic("boom") }
func (panicking) Open(string) (fs.File, error)      { panic("boom") }

func panics(f func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	f()
	return false
}

func npyHeader(text string) []byte {
	return append([]byte("\x93NUMPY\x01\x00"+string([]byte{byte(len(text)), byte(len(text) >> 8)})), text...)
}

func readNPY(header string, data []byte) error {
	_, err := tensor.ReadNPY(bytes.NewReader(append(npyHeader(header), data...)), 1<<50)
	return err
}

// wide is a model of a weight of a few megabytes.
func wide() *onnxpb.ModelProto {
	p := good()
	p.Graph.Input[0], p.Graph.Output[0] = value("x", f32, "n", 1000), unranked("y", f32)
	p.Graph.Initializer[0] = onnx.FromTensor("w", tensor.New(f32, 1000, 1000))
	return p
}

// closeDuring closes a model and its program at ten moments of a use, which returns no other error than that they are closed.
func closeDuring(path string, use func(m *rlxc.Model, p *rlxc.Program) error) error {
	for i := range 10 {
		m, err := rlxc.Open(path)
		if err != nil {
			return err
		}
		p, err := m.Compile(context.Background(), rlxc.CompileOptions{Threads: 1})
		if err != nil {
			return err
		}
		ended := make(chan error)
		go func() { ended <- use(m, p) }()
		time.Sleep(time.Duration(i) * 300 * time.Microsecond)
		if err := errors.Join(m.Close(), p.Close()); err != nil {
			return err
		}
		if err := <-ended; err != nil && !errors.Is(err, rlxc.ErrClosed) {
			return err
		}
	}
	return nil
}

// cutAfterOpening opens a model, of whose file nothing is left then.
func cutAfterOpening(dir string) (*rlxc.Model, error) {
	path := filepath.Join(dir, "model.onnx")
	if err := onnx.Save(path, wide()); err != nil {
		return nil, err
	}
	m, err := rlxc.Open(path)
	if err != nil {
		return nil, err
	}
	return m, os.Truncate(path, 10)
}

// opened compiles a model and opens a session, which keeps what it needs of both.
func opened(p *onnxpb.ModelProto, o rlxc.CompileOptions) (*rlxc.Session, error) {
	m, err := rlxc.FromProto(p, "attack")
	if err != nil {
		return nil, err
	}
	defer m.Close()
	program, err := m.Compile(context.Background(), o)
	if err != nil {
		return nil, err
	}
	defer program.Close()
	return program.NewSession()
}

// within runs a model with a deadline and holds that it ends soon after it.
func within(deadline, patience time.Duration, p *onnxpb.ModelProto, in rlxc.Tensors) error {
	s, err := opened(p, rlxc.CompileOptions{Threads: 1})
	if err != nil {
		return err
	}
	defer s.Close()
	return endsBy(deadline, patience, s, in)
}

// A cpuDeadline is a context whose deadline is in time of the processor that this process uses: on a busy machine it ends after as much
// work as on an idle one.
type cpuDeadline struct{ context.Context }

// newCPUDeadline returns a context that ends once the process has used that much more of the processor.
func newCPUDeadline(after time.Duration) (_ cpuDeadline, cancel context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	end := cpuTime() + after
	go func() {
		for ctx.Err() == nil && cpuTime() < end {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	return cpuDeadline{ctx}, cancel
}

// Err implements context.Context.
func (c cpuDeadline) Err() error {
	if c.Context.Err() != nil {
		return context.DeadlineExceeded
	}
	return nil
}

// endsBy runs a session with a deadline of the processor. If the run ends late, the error is not that of the deadline, and does not name
// it.
func endsBy(deadline, patience time.Duration, s *rlxc.Session, in rlxc.Tensors) error {
	ctx, cancel := newCPUDeadline(deadline)
	defer cancel()
	before := cpuTime()
	_, err := s.Run(ctx, in)
	if took := cpuTime() - before; took > deadline+patience {
		return fmt.Errorf("it ends after %v, which is late", took)
	}
	return err
}

// An attackResult is what the child says.
type attackResult struct {
	Error string
	CPU   time.Duration
}

func attackChild(name string) {
	if attacks[name].memory == 0 {
		debug.SetMemoryLimit(attackMemory / 2)
	}
	dir, err := os.MkdirTemp("", "attack")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	var said attackResult
	if err := attacks[name].run(dir); err != nil {
		said.Error = err.Error()
	}
	said.CPU = cpuTime()
	json.NewEncoder(os.Stdout).Encode(said)
}

func TestAttacks(t *testing.T) {
	gate := make(chan struct{}, runtime.NumCPU()) // children share the processor with few others
	for name, a := range attacks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate <- struct{}{}
			defer func() { <-gate }()
			c := exec.Command(os.Args[0])
			c.Env = append(os.Environ(), attackEnv+"="+name)
			var out, errs bytes.Buffer
			c.Stdout, c.Stderr = &out, &errs
			ended := c.Run()
			text := errs.String()
			require.NoError(t, ended, "after %v of the processor: %s", used(c.ProcessState), text[:min(len(text), 3000)])
			var said attackResult
			require.NoError(t, json.Unmarshal(out.Bytes(), &said), out.String())
			switch a.want {
			case "":
				assert.Empty(t, said.Error)
			case "?":
			case "!":
				assert.NotEmpty(t, said.Error)
			default:
				assert.Contains(t, said.Error, a.want)
			}
			assert.NotContains(t, said.Error, "internal error")
			assert.Less(t, peakMemory(c.ProcessState), cmp.Or(a.memory, attackMemory), "bytes of memory")
			assert.Less(t, said.CPU, cmp.Or(a.time, attackTime))
		})
	}
}
