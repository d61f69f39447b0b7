package ir

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/tensor"
)

// TestSizesThatFallShort: parameters for too few axes are errors, whichever they are.
func TestSizesThatFallShort(t *testing.T) {
	x := f32(tensor.Shape{2, 4}, 1, 2, 3, 4, 5, 6, 7, 8)
	for _, c := range []evalCase{
		{name: "starts", op: Slice{Starts: Dims(0), Sizes: Dims(1, 1), Steps: []int{1, 1}}, in: []*tensor.Tensor{x}, err: "for rank 2"},
		{name: "sizes", op: Slice{Starts: Dims(0, 0), Sizes: Dims(1), Steps: []int{1, 1}}, in: []*tensor.Tensor{x}, err: "for rank 2"},
		{name: "steps", op: Slice{Starts: Dims(0, 0), Sizes: Dims(1, 1), Steps: []int{1}}, in: []*tensor.Tensor{x}, err: "for rank 2"},
		{name: "a table of another rank", op: Embedding{}, in: []*tensor.Tensor{nil, nil, x, tensor.FromSlice([]int64{0}),
			tensor.New(tensor.F32, 3, 4, 5), tensor.FromSlice([]int64{0})}, err: "is not a table beside"},
		{name: "a table of other elements", op: Embedding{}, in: []*tensor.Tensor{nil, nil, x, tensor.FromSlice([]int64{0}),
			tensor.New(tensor.F64, 3, 4), tensor.FromSlice([]int64{0})}, err: "is not a table beside"},
	} {
		c.run(t)
	}
}

// TestInputsOfOtherTypes: a tensor of another element type or rank, and a sequence, are reported from what is wanted.
func TestInputsOfOtherTypes(t *testing.T) {
	want := TensorOf(tensor.F32, Sym("n"))
	require.NoError(t, want.accepts(tensor.New(tensor.F32, 3)))
	for _, x := range []*tensor.Tensor{tensor.New(tensor.F64, 3), tensor.New(tensor.F32, 3, 1),
		tensor.NewSequence(tensor.New(tensor.F32, 3))} {
		require.ErrorContains(t, want.accepts(x), "is wanted")
	}
}

// TestSizesThatAreNotFollowed: quotients of what may be negative, which ONNX cuts towards zero, and sizes in a matrix.
func TestSizesThatAreNotFollowed(t *testing.T) {
	g, err := Parse(`graph "" (%0: f32[n,m]) {
		const %1: i64[2] = [2,3]
		const %2: i64[2] = [-2,3]
		%3 = dims() {dims=[n,m], dtype=i64}
		%4 = div(%3, %1)
		%5 = div(%3, %2)
		%6 = reshape(%3) {shape=[1,2]}
		%7: i64[n] = range() {start=0, step=1, len=n, dtype=i64}
		%8: i64[9999] = range() {start=0, step=1, len=9999, dtype=i64}
		%9: i64[2] = range() {start=5, step=2, len=2, dtype=i64}
		return %4, %5, %6, %7, %8, %9 }`)
	require.NoError(t, err)
	dims := map[int][]Dim{}
	for _, n := range g.Nodes {
		dims[n.Outputs[0].ID] = n.Outputs[0].Dims
	}
	require.Len(t, dims[4], 2)
	require.Nil(t, dims[5])
	require.Nil(t, dims[6])
	require.Nil(t, dims[7])
	require.Nil(t, dims[8])
	require.Equal(t, []Dim{N(5), N(7)}, dims[9])
}

// TestProductsStayAtTheirBounds of int64, and 0 times anything is 0.
func TestProductsStayAtTheirBounds(t *testing.T) {
	const most, least = 1<<63 - 1, -1 << 63
	for _, c := range [][3]int64{{0, least, 0}, {least, 0, 0}, {3, -4, -12}, {most, 2, most}, {most, -2, least}, {least, -1, most},
		{least, 1, least}, {1 << 32, 1 << 31, most}, {-1 << 32, 1 << 31, least}} {
		require.Equal(t, c[2], satMul(c[0], c[1]), "%d times %d", c[0], c[1])
	}
}
