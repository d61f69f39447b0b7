package backendtest

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// parsed is a graph bound to s.
func parsed(t testing.TB, text string, s int) *ir.Graph {
	g, err := ir.Parse(`graph "case" ` + text)
	require.NoError(t, err)
	bound, err := g.Bind(ir.Binding{"s": s}, false)
	require.NoError(t, err)
	return bound
}

// GivesBack holds that a memory which a large shape has grown stays so for the shapes of a mixed load, and shrinks when only small ones
// come.
func GivesBack(t *testing.T, d backend.Device) {
	m := d.NewMemory()
	defer m.Close()
	attach := func(rows int) (run func() []*tensor.Tensor) {
		g := parsed(t, `(%0 "x": f32[s,1024]) { %1 = exp(%0) %2 = softmax(%1) {axis=1} return %2 as "y" }`, rows)
		p, err := d.Load(Plan(t, g, d.Target()))
		require.NoError(t, err)
		in, err := p.Attach(m, nil)
		require.NoError(t, err)
		x := Inputs(t, g, nil)
		return func() []*tensor.Tensor {
			out, err := in.Run(context.Background(), x)
			require.NoError(t, err)
			return out
		}
	}
	large, small := attach(4000), attach(3)
	first := small()[0].Clone()
	before := m.Size()
	large()
	most := m.Size()
	require.Greater(t, most, before+gpu.Slack)
	for range 3 {
		for range gpu.IdleRuns - 1 {
			small()
		}
		require.Equal(t, most, m.Size())
		large()
	}
	for range gpu.IdleRuns {
		small()
	}
	require.Equal(t, before, m.Size())
	require.Equal(t, first.Bytes(), small()[0].Bytes())
	large()
	require.Equal(t, most, m.Size())
}

// Poison holds that the poison reaches what the plan calls dead: a step reads memory whose life the plan ends too early.
func Poison(t *testing.T, d backend.Device) {
	for _, early := range []int{0, 1} {
		g := parsed(t, `(%0 "x": f32[s,8]) { const %1: f32[8,8] = data
			%2 = matmul(%0, %1) %3 = matmul(%2, %1) %4 = matmul(%3, %1) return %4 as "y" }`, 9)
		planned := Plan(t, g, d.Target())
		planned.Problem.Buffers[planned.Buffers[planned.Steps[0].Outputs[0].ID]].Last -= early
		p, err := d.Load(planned)
		require.NoError(t, err)
		m := d.NewMemory()
		m.(interface{ Poison(byte) }).Poison(0xFF)
		in, err := p.Attach(m, nil)
		require.NoError(t, err)
		for range 2 {
			out, err := in.Run(context.Background(), Inputs(t, g, nil))
			require.NoError(t, err)
			require.Equal(t, early == 1, math.IsNaN(out[0].Float64(0)))
		}
		m.Close()
	}
}

// Union returns the cases of several tables.
func Union(tables ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, table := range tables {
		maps.Copy(all, table)
	}
	return all
}

// RunTwice runs a program twice, the arena poisoned: results are the same to the bit.
func RunTwice(t *testing.T, d backend.Device, p backend.Program, inputs []*tensor.Tensor, name string) (results []*tensor.Tensor) {
	t.Helper()
	m := d.NewMemory().(*gpu.Memory)
	defer m.Close()
	m.Poison(0xFF)
	in, err := p.Attach(m, nil)
	require.NoError(t, err, name)
	for again := range 2 {
		out, err := in.Run(context.Background(), inputs)
		require.NoError(t, err, name)
		for i, x := range out {
			if again == 0 {
				results = append(results, x.Clone()) // the next run overwrites x
			} else {
				require.Equal(t, results[i].Bytes(), x.Bytes(), name)
			}
		}
	}
	return results
}

// Launches returns what runs the launches of a graph several times over, without copies of inputs and outputs.
func Launches(t testing.TB, d backend.Device, r *gpu.Runtime, g *ir.Graph, b ir.Binding, repeats int) (run func()) {
	bound, err := g.Bind(b, false)
	require.NoError(t, err)
	s := &spy{repeats: repeats}
	driver := r.Driver
	r.Driver = spyDriver{driver, s}
	p, err := d.Load(Plan(t, bound, d.Target()))
	r.Driver = driver
	require.NoError(t, err)
	m := d.NewMemory()
	t.Cleanup(m.Close)
	in, err := p.Attach(m, nil)
	require.NoError(t, err)
	var inputs []*tensor.Tensor
	for _, v := range bound.Inputs {
		inputs = append(inputs, tensor.New(v.Type.DType, v.Type.Sizes()...))
	}
	_, err = in.Run(context.Background(), inputs)
	require.NoError(t, err)
	return func() {
		leave, err := s.queue.Enter()
		require.NoError(t, err)
		defer leave()
		require.NoError(t, s.recording.Submit(0, nil))
		_, err = s.recording.Wait(0)
		require.NoError(t, err)
	}
}

// Commands lists the commands with which a device runs a graph: uploads, launches, downloads and steps on the host. launches lists the
// launches of a binder.
func Commands(t testing.TB, d backend.Device, r *gpu.Runtime, g *ir.Graph, b ir.Binding, launches func(gpu.Binder) []string) string {
	bound, err := g.Bind(b, false)
	require.NoError(t, err)
	s := &spy{describe: launches}
	driver := r.Driver
	r.Driver = spyDriver{driver, s}
	defer func() { r.Driver = driver }()
	p, err := d.Load(Plan(t, bound, d.Target()))
	require.NoError(t, err)
	m := d.NewMemory()
	defer m.Close()
	in, err := p.Attach(m, nil)
	require.NoError(t, err)
	_, err = in.Run(context.Background(), Inputs(t, bound, b))
	require.NoError(t, err)
	for _, h := range p.HostSteps() {
		s.text += fmt.Sprintf(" host %s %d %d", ir.OpName(h.Node.Op), h.Up, h.Down)
	}
	return s.text
}

// A spy records only the launches of a program's first section, or describes all commands.
type spy struct {
	repeats   int
	queue     gpu.Queue
	recording gpu.Recording
	describe  func(gpu.Binder) []string
	launches  []string
	text      string
}

type (
	spyDriver struct {
		gpu.Driver
		*spy
	}
	spyBinder struct {
		gpu.Binder
		*spy
	}
	spyKernels struct {
		gpu.Kernels
		*spy
	}
	spyQueue struct {
		gpu.Queue
		*spy
	}
)

func (s spyDriver) Binder(p *gpu.Locations) gpu.Binder { return spyBinder{s.Driver.Binder(p), s.spy} }

func (s spyBinder) Finish() (gpu.Kernels, error) {
	if s.describe != nil {
		s.launches = s.describe(s.Binder)
	}
	k, err := s.Binder.Finish()
	return spyKernels{k, s.spy}, err
}

func (s spyKernels) NewQueue(timed bool) (gpu.Queue, error) {
	q, err := s.Kernels.NewQueue(timed)
	s.queue = q
	return spyQueue{q, s.spy}, err
}

func (s spyQueue) Record(sections [][]gpu.Command, segment func(int) backend.Buffer, staging gpu.Staging) (gpu.Recording, error) {
	if s.describe != nil {
		for i, section := range sections {
			s.text += fmt.Sprint(" section ", i)
			for _, c := range section {
				switch c.Kind {
				case gpu.Launch:
					s.text += " " + s.launches[c.Launch]
				case gpu.Upload:
					s.text += fmt.Sprintf(" up %v %d", c.Location, c.Size)
				case gpu.Download:
					s.text += fmt.Sprintf(" down %v %d %d", c.Location, c.Size, c.Staged)
				}
			}
		}
		return s.Queue.Record(sections, segment, staging)
	}
	launches := slices.DeleteFunc(slices.Clone(sections[0]), func(c gpu.Command) bool { return c.Kind != gpu.Launch })
	var err error
	if s.recording, err = s.Queue.Record([][]gpu.Command{slices.Repeat(launches, s.repeats)}, segment, staging); err != nil {
		return nil, err
	}
	return s.Queue.Record(sections, segment, staging)
}
