package ops

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TestThresholds: a box is left out where its score is the least one itself, and stays where the overlap is the threshold itself.
func TestThresholds(t *testing.T) {
	boxes := tensor.FromSlice([]float32{0, 0, 1, 1, 0, 0, 1, 2, 5, 5, 6, 6}, 1, 3, 4)
	scores := tensor.FromSlice([]float32{0.5, 0.75, 0.25}, 1, 1, 3)
	for _, c := range []struct {
		limit          int64
		overlap, least float32
		want           []int64
	}{
		{9, 0.5, 0.125, []int64{0, 0, 1, 0, 0, 0, 0, 0, 2}}, // boxes 0 and 1 share half
		{9, 0.5, 0.25, []int64{0, 0, 1, 0, 0, 0}},
		{9, 0.25, 0.125, []int64{0, 0, 1, 0, 0, 2}},
		{1, 0.5, 0.125, []int64{0, 0, 1}},
		{0, 0.5, 0.125, []int64{}},
	} {
		in := []*tensor.Tensor{boxes, scores, tensor.Scalar(c.limit), tensor.Scalar(c.overlap), tensor.Scalar(c.least)}
		out, err := ir.EvalOp(&ir.Env{}, NonMaxSuppression{}, in)
		require.NoError(t, err)
		require.Equal(t, c.want, out[0].Int64s(), "%+v", c)
	}
}

// TestPositions: which positions an op on a sequence of two takes, and that others are its error.
func TestPositions(t *testing.T) {
	s, x := tensor.NewSequence(tensor.Scalar(int64(7)), tensor.Scalar(int64(8))), tensor.Scalar(int64(9))
	for _, c := range []struct {
		name string
		eval func(at *tensor.Tensor) ([]*tensor.Tensor, error)
		want map[int64][]int64
	}{
		{"at", func(at *tensor.Tensor) ([]*tensor.Tensor, error) {
			return ir.EvalOp(&ir.Env{}, SequenceAt{}, []*tensor.Tensor{s, at})
		},
			map[int64][]int64{-3: nil, -2: {7}, -1: {8}, 0: {7}, 1: {8}, 2: nil}},
		{"insert", func(at *tensor.Tensor) ([]*tensor.Tensor, error) {
			return ir.EvalOp(&ir.Env{}, SequenceInsert{}, []*tensor.Tensor{s, x, at})
		}, map[int64][]int64{-3: nil, -2: {9, 7, 8}, -1: {7, 9, 8}, 0: {9, 7, 8}, 1: {7, 9, 8}, 2: {7, 8, 9}, 3: nil}},
		{"erase", func(at *tensor.Tensor) ([]*tensor.Tensor, error) {
			return ir.EvalOp(&ir.Env{}, SequenceErase{}, []*tensor.Tensor{s, at})
		},
			map[int64][]int64{-3: nil, -2: {8}, -1: {7}, 0: {8}, 1: {7}, 2: nil}},
	} {
		for at, want := range c.want {
			out, err := c.eval(tensor.Scalar(at))
			if want == nil {
				require.ErrorContains(t, err, "position", "%s %d", c.name, at)
				continue
			}
			require.NoError(t, err)
			elems := []*tensor.Tensor{out[0]}
			if out[0].IsSequence() {
				elems = out[0].Elems()
			}
			var got []int64
			for _, e := range elems {
				got = append(got, e.Int64(0))
			}
			require.Equal(t, want, got, "%s %d", c.name, at)
		}
	}
}

// TestPartSizes: the parts of an axis have the sizes that are asked for, and add up to it.
func TestPartSizes(t *testing.T) {
	for _, c := range []struct {
		n     int
		split *tensor.Tensor
		want  []int
	}{
		{5, nil, []int{1, 1, 1, 1, 1}},
		{5, tensor.Scalar(int64(2)), []int{2, 2, 1}},
		{4, tensor.Scalar(int64(2)), []int{2, 2}},
		{2, tensor.Scalar(int64(9)), []int{2}},
		{5, tensor.FromSlice([]int64{3, 0, 2}), []int{3, 0, 2}},
		{5, tensor.FromSlice([]int64{3, 1}), nil},
		{5, tensor.FromSlice([]int64{3, 3}), nil},
		{5, tensor.FromSlice([]int64{6, -1}), nil},
		{5, tensor.Scalar(int64(0)), nil},
	} {
		parts, size, err := PartSizes(c.n, c.split)
		require.Equal(t, c.want == nil, err != nil, "%d %v", c.n, c.split)
		var got []int
		for i := range parts {
			got = append(got, size(i))
		}
		require.Equal(t, c.want, got, "%d %v", c.n, c.split)
	}
}

// TestFaultsOfReaders: a fault of what reads parameters is no error of a model.
func TestFaultsOfReaders(t *testing.T) {
	require.PanicsWithValue(t, "a fault", func() { prepare(nil, 1, func(*reader) *rowModel { panic("a fault") }) })
	_, err := prepare(nil, 1, func(r *reader) *rowModel { r.failf("wrong"); return nil })
	require.EqualError(t, err, "wrong")
}

// TestSequencesAlongAxes: along which axes, from -3 to 3, sequences are joined and tensors are split, and what comes of it.
func TestSequencesAlongAxes(t *testing.T) {
	wide, narrow, ints := tensor.New(tensor.F32, 2, 3), tensor.New(tensor.F32, 1, 3), tensor.New(tensor.I64, 2, 3)
	x := tensor.Scalar(float32(1))
	join := func(fresh bool, elems ...*tensor.Tensor) func(axis int) (ir.Op, []*tensor.Tensor) {
		return func(axis int) (ir.Op, []*tensor.Tensor) {
			return ConcatFromSequence{Axis: axis, NewAxis: fresh}, []*tensor.Tensor{tensor.NewSequence(elems...)}
		}
	}
	split := func(keep bool, in ...*tensor.Tensor) func(axis int) (ir.Op, []*tensor.Tensor) {
		return func(axis int) (ir.Op, []*tensor.Tensor) { return SplitToSequence{Axis: axis, KeepDims: keep}, in }
	}
	for _, c := range []struct {
		of   func(axis int) (ir.Op, []*tensor.Tensor)
		want string
	}{
		{join(false, wide, wide), "- [4,3] [2,6] [4,3] [2,6] - -"},
		{join(true, wide, wide), "[2,2,3] [2,2,3] [2,3,2] [2,2,3] [2,2,3] [2,3,2] -"},
		{join(false, wide, narrow), "- [3,3] - [3,3] - - -"},
		{join(true, wide, narrow), "- - - - - - -"},
		{join(false, wide, ints), "- - - - - - -"},
		{join(false, wide, x), "- - - - - - -"},
		{join(false, tensor.NewSequence(x)), "- - - - - - -"},
		{join(false), "- - - - - - -"},
		{join(false, x, x), "- - - - - - -"},
		{join(true, x, x), "- - [2] [2] - - -"},
		{split(false, wide), "- [3][3] [2][2][2] [3][3] [2][2][2] - -"},
		{split(true, wide), "- [1,3][1,3] [2,1][2,1][2,1] [1,3][1,3] [2,1][2,1][2,1] - -"},
		{split(false, wide, tensor.Scalar(int64(2))), "- [2,3] [2,2][2,1] [2,3] [2,2][2,1] - -"},
		{split(false, x), "- - - - - - -"},
	} {
		var got []string
		for axis := -3; axis <= 3; axis++ {
			op, in := c.of(axis)
			out, err := ir.EvalOp(&ir.Env{}, op, in)
			text := "-"
			if err == nil && out[0].IsSequence() {
				text = ""
				for _, e := range out[0].Elems() {
					text += e.Shape().String()
				}
			} else if err == nil {
				text = out[0].Shape().String()
			}
			got = append(got, text)
		}
		require.Equal(t, c.want, strings.Join(got, " "))
	}
}

// TestBilinear: samples between elements, at the borders, and beyond them.
func TestBilinear(t *testing.T) {
	x := tensor.FromSlice([]float64{1, 2, 4, 8, 16, 32}, 2, 3)
	for at, want := range map[[2]float64][2]float64{
		{0, 0}: {1, 1}, {1, 2}: {32, 32}, {0, 0.5}: {1.5, 1}, {0.5, 0}: {4.5, 4}, {0.25, 1.5}: {8.25, 4}, {-1, 0.5}: {1.5, 1},
		{-0.5, -1}: {1, 1}, {1.5, 2}: {32, 32}, {2, 3}: {32, 32}, {0.5, 2.75}: {18, 16}, {1.75, 0.5}: {12, 8},
		{2.25, 0}: {0, 0}, {0, 3.25}: {0, 0}, {-1.25, 0}: {0, 0}, {0, -1.25}: {0, 0}, {nan, 0}: {0, 0}, {0, nan}: {0, 0},
	} {
		v, largest := bilinear(x, 0, 2, 3, at[0], at[1])
		require.Equal(t, want, [2]float64{v, largest}, "%v", at)
	}
	v, _ := bilinear(x, 0, 0, 0, 0, 0)
	require.Zero(t, v)
}
