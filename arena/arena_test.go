package arena

import (
	"math"
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

func TestTypedSlices(t *testing.T) {
	_, l := program(t, planner.Activations())
	a := New(l)
	x, err := Slice[float32](a, 0)
	require.NoError(t, err)
	require.Len(t, x, 100)
	require.Zero(t, uintptr(unsafe.Pointer(&x[0]))%BaseAlign)
	wide, err := Slice[bool](a, 7)
	require.NoError(t, err)
	require.Zero(t, uintptr(unsafe.Pointer(&wide[0]))%4096)
	y, err := Slice[uint16](a, 2)
	require.NoError(t, err)
	require.Len(t, y, 100)
	empty, err := Slice[int8](a, 5)
	require.NoError(t, err)
	require.Empty(t, empty)

	x[7] = 3
	raw, err := a.Bytes(0)
	require.NoError(t, err)
	require.Len(t, raw, 400)
	require.Equal(t, byte(0x40), raw[31])
	view, err := View[float32](a, 0, 28, 2)
	require.NoError(t, err)
	require.Equal(t, []float32{3, 0}, view)

	offset, err := l.Offset(0)
	require.NoError(t, err)
	require.Equal(t, byte(0x40), a.Memory()[offset+31])
	i, ok := l.Find("ids")
	require.True(t, ok)
	require.Equal(t, 4, i)
	_, ok = l.Find("absent")
	require.False(t, ok)
}

func TestClearErrors(t *testing.T) {
	_, l := program(t, planner.Activations())
	a := New(l)
	for buffer, text := range map[int]string{
		3: "buffer 3 (w): no memory in this arena: parameters have their own segment",
		6: "buffer 6 (gpu): no memory in this arena: it lies on device 1",
		8: "buffer 8 of 8: no memory in this arena",
	} {
		_, err := Slice[float32](a, buffer)
		require.ErrorContains(t, err, text)
		require.ErrorIs(t, err, ErrNoSlot)
		require.False(t, l.Has(buffer))
		require.Zero(t, l.Capacity(buffer))
		require.ErrorIs(t, a.SetLength(buffer, 0), ErrNoSlot)
	}
	_, err := Slice[int32](a, 0)
	require.EqualError(t, err, "buffer 0 (x) holds f32, not int32")
	_, err = Slice[uint16](a, 0)
	require.Error(t, err)
	_, err = View[float32](a, 0, 400, 1)
	require.ErrorContains(t, err, "leaves its 400 bytes")
	_, err = View[float32](a, 0, 0, math.MaxInt)
	require.ErrorContains(t, err, "leaves its 400 bytes")
	_, err = View[float32](a, 0, 2, 1)
	require.ErrorContains(t, err, "not aligned")
}

func TestActualLength(t *testing.T) {
	_, l := program(t, planner.Activations())
	a := New(l)
	require.Equal(t, 10, a.Length(4))
	require.NoError(t, a.SetLength(4, 3))
	require.Equal(t, 3, a.Length(4))
	ids, err := Slice[int64](a, 4)
	require.NoError(t, err)
	require.Len(t, ids, 3)
	require.ErrorContains(t, a.SetLength(4, 11), "11 elements, planned for 0 to 10")
	require.Error(t, a.SetLength(4, -1))
	a.Rebind(l)
	require.Equal(t, 10, a.Length(4))
}

func TestPoolReusesTheSmallestThatFits(t *testing.T) {
	_, small := program(t, planner.Activations())
	_, large := program(t, planner.Inference())
	require.Less(t, small.Size(), large.Size())
	pool := NewPool(2)
	a, b, c := pool.Get(small), pool.Get(large), pool.Get(large)
	pool.Put(a)
	pool.Put(b)
	require.Same(t, a, pool.Get(small))
	pool.Put(a)
	pool.Put(c)
	require.GreaterOrEqual(t, pool.Bytes(), 2*large.Size(), "the smallest is dropped")
	d := pool.Get(small)
	require.Contains(t, []*Arena{b, c}, d)
	require.EqualValues(t, small.Size(), len(d.Memory()))
}

func TestSegmentLivesUntilTheLastUserCloses(t *testing.T) {
	released := 0
	s := NewSegment([]byte{1, 2, 3, 4}, func() error { released++; return nil })
	shared, err := s.Share()
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.Zero(t, released)
	b, err := shared.Bytes(1, 2)
	require.NoError(t, err)
	require.Equal(t, []byte{2, 3}, b)
	_, err = shared.Bytes(3, 2)
	require.ErrorContains(t, err, "leave the weight segment of 4 bytes")
	_, err = shared.Bytes(math.MaxInt64, 2)
	require.Error(t, err)
	require.NoError(t, shared.Close())
	require.Equal(t, 1, released)
	require.Error(t, shared.Close())
	_, err = s.Share()
	require.Error(t, err)
}

func TestWatchFindsStrayAccesses(t *testing.T) {
	o := planner.Activations()
	o.TailGuard = true
	_, l := program(t, o)
	a := New(l)
	run := func(step func(int)) error {
		a.Poison(NaNFill)
		w := NewWatch(a)
		for s := range 5 {
			w.Before(s)
			step(s)
			if err := w.After(s); err != nil {
				return err
			}
		}
		return nil
	}
	x, err := Slice[float32](a, 0)
	require.NoError(t, err)
	require.NoError(t, run(func(step int) {
		switch step {
		case 0:
			require.True(t, math.IsNaN(float64(x[99])), "poisoned before it is written")
			x[99] = 1
		case 1:
			require.EqualValues(t, 1, x[99], "alive while it is read")
		case 2:
			require.True(t, math.IsNaN(float64(x[99])), "poisoned behind its last read")
		}
	}))
	offset, err := l.Offset(2)
	require.NoError(t, err)
	err = run(func(step int) {
		if step == 3 {
			a.Memory()[offset+205] = 0
		}
	})
	require.EqualError(t, err, "step 3 wrote 5 bytes behind the end of buffer 2 (y)")
}
