package arena

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/rlxc/rlxc/planner"
	"github.com/rlxc/rlxc/tensor"
	"github.com/stretchr/testify/require"
)

// program is a small planned program: x → h → y with weights outside and an int64 beside.
func program(t *testing.T, o planner.Options) (*planner.Problem, *Layout) {
	t.Helper()
	p := &planner.Problem{Buffers: []planner.Buffer{
		{ID: 0, Name: "x", Size: 400, First: 0, Last: 2, DType: uint8(tensor.F32), Boundary: planner.Input},
		{ID: 1, Name: "h", Size: 400, First: 1, Last: 3, DType: uint8(tensor.F32)},
		{ID: 2, Name: "y", Size: 200, First: 2, Last: 5, DType: uint8(tensor.F16), Boundary: planner.Output},
		{ID: 3, Name: "w", Size: 9000, First: 0, Last: 5, DType: uint8(tensor.F32), Boundary: planner.Param},
		{ID: 4, Name: "ids", Size: 80, Elements: 10, First: 0, Last: 4, DType: uint8(tensor.I64)},
		{ID: 5, Name: "none", Size: 0, First: 0, Last: 4, DType: uint8(tensor.I8)},
		{ID: 6, Name: "gpu", Size: 64, First: 0, Last: 4, DType: uint8(tensor.F32), Lane: planner.Lane{Device: 1}},
		{ID: 7, Name: "wide", Size: 64, Align: 4096, First: 1, Last: 4, DType: uint8(tensor.Bool)},
	}}
	plan, err := planner.Solve(p, o)
	require.NoError(t, err)
	require.NoError(t, planner.Check(p, plan))
	l, err := NewLayout(p, plan, 0)
	require.NoError(t, err)
	return p, l
}

func TestOffsets(t *testing.T) {
	p, l := program(t, planner.Activations())
	for buffer := range p.Buffers {
		offset, err := l.Offset(buffer)
		if text, outside := map[int]string{
			3: "buffer 3 (w): no memory in this arena: parameters have their own segment",
			6: "buffer 6 (gpu): no memory in this arena: it is on device 1, 64 bytes",
		}[buffer]; outside {
			require.EqualError(t, err, text)
			require.ErrorIs(t, err, ErrNoSlot)
			require.False(t, l.Has(buffer))
			require.Zero(t, l.Capacity(buffer))
			continue
		}
		require.NoError(t, err)
		require.True(t, l.Has(buffer))
		require.Equal(t, p.Buffers[buffer].Size, l.Capacity(buffer))
		require.LessOrEqual(t, offset+l.Capacity(buffer), l.Size())
		require.Zero(t, offset%max(BaseAlign, p.Buffers[buffer].Align))
	}
	_, err := l.Offset(8)
	require.EqualError(t, err, "buffer 8 of 8: no memory in this arena")
}

// TestFit goes up and down: the arena moves only to grow, and holds little more than it needs.
func TestFit(t *testing.T) {
	layout := func(size int64) *Layout {
		p := &planner.Problem{Buffers: []planner.Buffer{{Name: "x", Size: size, Last: 1, Align: 4096}}}
		plan, err := planner.Solve(p, planner.Activations())
		require.NoError(t, err)
		l, err := NewLayout(p, plan, 0)
		require.NoError(t, err)
		return l
	}
	var a Arena
	require.Nil(t, a.Memory())
	require.Zero(t, a.Size())
	a.Fit(layout(0))
	require.NotNil(t, a.Memory())
	small, large := layout(1<<20), layout(64<<20)
	a.Fit(small)
	require.Len(t, a.Memory(), 1<<20)
	a.Fit(large)
	require.Len(t, a.Memory(), 64<<20)
	require.EqualValues(t, 64<<20, a.Size())
	base := &a.Memory()[0]
	require.Zero(t, uintptr(unsafe.Pointer(base))%4096)
	Fill(a.Memory(), 1)
	a.Fit(small)
	require.Same(t, base, &a.Memory()[0])
	require.EqualValues(t, 1<<20, a.Size(), "the rest goes back")
	a.Fit(layout(8 << 20))
	a.Fit(small)
	require.EqualValues(t, 8<<20, a.Size(), "a little stays")
	a.Fit(large)
	require.Same(t, base, &a.Memory()[0])
	if runtime.GOOS == "linux" {
		require.Zero(t, a.Memory()[32<<20], "the pages were gone")
	}
	a.Free()
	require.Nil(t, a.Memory())
	require.Zero(t, a.Size())
}

func TestWatchFindsStrayAccesses(t *testing.T) {
	o := planner.Activations()
	o.TailGuard = true
	_, l := program(t, o)
	var a Arena
	a.Fit(l)
	run := func(step func(int)) error {
		w := NewWatch(&a, NaNFill)
		for s := range 5 {
			w.Before(s)
			step(s)
			if err := w.After(s); err != nil {
				return err
			}
		}
		return nil
	}
	at, err := l.Offset(0)
	require.NoError(t, err)
	x := a.Memory()[at:][:l.Capacity(0)]
	require.NoError(t, run(func(step int) {
		switch step {
		case 0:
			require.EqualValues(t, NaNFill, x[399], "poisoned before it is written")
			x[399] = 1
		case 1:
			require.EqualValues(t, 1, x[399], "alive while it is read")
		case 2:
			require.EqualValues(t, NaNFill, x[399], "poisoned after its last read")
		}
	}))
	offset, err := l.Offset(2)
	require.NoError(t, err)
	err = run(func(step int) {
		if step == 3 {
			a.Memory()[offset+205] = 0
		}
	})
	require.EqualError(t, err, "step 3 wrote 5 bytes past the end of buffer 2 (y)")
}

// TestOutgrown: what a larger layout replaces takes no memory, however long the collector waits.
func TestOutgrown(t *testing.T) {
	a := Arena{}
	a.Fit(&Layout{size: 1 << 20, align: 64})
	old := a.memory
	for i := range old {
		old[i] = 1
	}
	a.Fit(&Layout{size: 4 << 20, align: 64})
	if runtime.GOOS == "linux" { // elsewhere the system takes pages back when it likes
		require.Zero(t, old[len(old)/2])
	}
	runtime.KeepAlive(old)
}
