package onnx

import (
	"errors"
	"fmt"

	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// sparseTensor is a sparse tensor read and checked: values[i] is at position linear[i] of the dense one.
type sparseTensor struct {
	shape  tensor.Shape
	values *tensor.Tensor
	linear []int
}

// Dense reads a sparse tensor as the dense tensor that it stands for, which must not need more than limit bytes: a few bytes
// of a file can ask for any amount. It fails with ErrInvalid, or if the limit is too low.
func Dense(sp *onnxpb.SparseTensorProto, limit int) (*tensor.Tensor, error) {
	s, err := readSparse(sp)
	if err != nil {
		return nil, invalid(fmt.Errorf("sparse tensor %s: %w", Quote(sp.GetValues().GetName()), err))
	}
	d := s.values.DType()
	if need := d.Bytes(s.shape.Elements()); need > limit {
		return nil, fmt.Errorf("sparse tensor %s: %s%v needs %d bytes, the limit is %d",
			Quote(sp.Values.Name), d.ONNX(), s.shape, need, limit)
	}
	dense := tensor.New(d, s.shape...)
	size := d.Size()
	for i, at := range s.linear {
		copy(dense.Bytes()[at*size:(at+1)*size], s.values.Bytes()[i*size:])
	}
	return dense, nil
}

func readSparse(sp *onnxpb.SparseTensorProto) (*sparseTensor, error) {
	if sp.Values == nil || sp.Indices == nil {
		return nil, errors.New("it lacks values or indices")
	}
	values, err := Tensor(sp.Values)
	if err != nil {
		return nil, fmt.Errorf("values: %w", err)
	}
	indices, err := Tensor(sp.Indices)
	if err != nil {
		return nil, fmt.Errorf("indices: %w", err)
	}
	shape, total, err := shapeOf(values.DType(), sp.Dims)
	switch {
	case err != nil:
		return nil, err
	case values.DType().Size() == 0:
		return nil, fmt.Errorf("sparse tensors of %s are not supported", values.DType().ONNX())
	case values.Rank() != 1:
		return nil, fmt.Errorf("values have shape %v, not that of a vector", values.Shape())
	case indices.DType() != tensor.I64:
		return nil, fmt.Errorf("indices are %s, not int64", indices.DType().ONNX())
	}
	linear, err := linearIndices(indices, values.Len(), shape)
	if err != nil {
		return nil, err
	}
	for i, at := range linear {
		if at < 0 || at >= total {
			return nil, fmt.Errorf("index %d is outside of shape %v", i, shape)
		}
		if i > 0 && at <= linear[i-1] {
			return nil, fmt.Errorf("index %d is not above the one before it", i)
		}
	}
	return &sparseTensor{shape, values, linear}, nil
}

// linearIndices returns row-major positions for both forms of indices: [n], and [n, rank] with coordinates. A coordinate
// outside of its axis is −1.
func linearIndices(indices *tensor.Tensor, n int, shape tensor.Shape) ([]int, error) {
	all := indices.Aligned().Int64s()
	linear := make([]int, n)
	switch {
	case indices.Shape().Equal(tensor.Shape{n}):
		for i := range linear {
			linear[i] = int(all[i])
		}
	case indices.Shape().Equal(tensor.Shape{n, len(shape)}):
		strides := shape.Strides()
		for i := range linear {
			for axis, at := range all[i*len(shape) : (i+1)*len(shape)] {
				if at < 0 || at >= int64(shape[axis]) {
					linear[i] = -1
					break
				}
				linear[i] += int(at) * strides[axis]
			}
		}
	default:
		return nil, fmt.Errorf("indices have shape %v for %d values of a tensor of rank %d", indices.Shape(), n, len(shape))
	}
	return linear, nil
}
