package cuda

import (
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/tensor"
)

// maxRank is the rank of what kernels walk over, after axes were merged.
const maxRank = 8

// A walk is an operand of kernels that go element by element: Operand in _gen/common.cuh.
type walk struct {
	at     address
	kind   int32
	_      int32
	stride [maxRank]int64
}

// nest is the loop nest of kernels that go element by element over operands that broadcast to a shape.
type nest struct {
	rank  int32
	size  [maxRank]int32
	walks []walk
}

// newNest fails where the operands take more axes than kernels have.
func newNest(shape tensor.Shape, operands ...*operand) (n nest, err error) {
	merged := backend.NewNest(shape, operands...)
	if len(merged.Shape) > maxRank || shape.Elements() > 1<<31-1 {
		return n, errOnHost
	}
	n.rank = int32(len(merged.Shape))
	for i, s := range merged.Shape {
		n.size[i] = int32(s)
	}
	for j, o := range operands {
		w := walk{at: o.at, kind: kinds[o.DType]}
		for i, s := range merged.Strides[j] {
			w.stride[i] = int64(s)
		}
		n.walks = append(n.walks, w)
	}
	return n, nil
}
