package ir

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/tensor"
)

// Append writes the new positions of each sequence after its cached ones. Operand 0 is the new positions. Operand 1 is the length of
// every sequence after appending, one i64 per sequence. Operand 2 is the cache, absent if it is empty. For a sequence of length n with S
// new positions, the result holds the cache's positions before max(n−S, 0), then the new positions. With Keep, the remaining positions
// are those of the cache. Without it, and beyond the cache, they are zeros.
//
// All operands have the positions on Axis and the sequences on Batch. The result has Size positions.
type Append struct {
	Axis, Batch int
	Size        Dim
	Keep        bool
}

// The operand positions of Append.
const (
	AppendNew = iota
	AppendLengths
	AppendCache
)

func (Append) Kind() Kind { return KindAppend }

func (o Append) Infer(in []*Value) ([]Type, error) {
	x, lengths := in[AppendNew].Type, in[AppendLengths].Type
	if rank := len(x.Shape); o.Axis < 0 || o.Axis >= rank || o.Batch < 0 || o.Batch >= rank || o.Axis == o.Batch {
		return nil, fmt.Errorf("axes %d and %d of %v", o.Axis, o.Batch, x)
	}
	if lengths.DType != tensor.I64 || Same(lengths.Shape.Elements(), x.Shape[o.Batch]) == No {
		return nil, fmt.Errorf("lengths %v for %v sequences: an i64 for each is needed", lengths, x.Shape[o.Batch])
	}
	if LessEqual(N(0), o.Size) == No {
		return nil, fmt.Errorf("%v positions", o.Size)
	}
	if cache := Operand(in, AppendCache); cache != nil {
		fits := cache.Type.DType == x.DType && len(cache.Type.Shape) == len(x.Shape)
		for i := 0; fits && i < len(x.Shape); i++ {
			fits = i == o.Axis || Same(cache.Type.Shape[i], x.Shape[i]) != No
		}
		if !fits {
			return nil, fmt.Errorf("%v cannot be appended to a cache %v on axis %d", x, cache.Type, o.Axis)
		}
		if LessEqual(cache.Type.Shape[o.Axis], o.Size) == No {
			return nil, fmt.Errorf("the cache %v has more than %v positions", cache.Type, o.Size)
		}
	}
	y := slices.Clone(x.Shape)
	y[o.Axis] = o.Size
	return []Type{TensorOf(x.DType, y...)}, nil
}

// Start returns the first new position of a sequence of length n. It fails if n is not a possible length.
func (o Append) Start(n int64, added, cached, size int) (start int, err error) {
	start = int(max(n-int64(added), 0))
	if n < 1 || n > int64(size) || start > cached {
		return 0, fmt.Errorf("a sequence of length %d with %d new positions, a cache of %d and a capacity of %d", n, added, cached, size)
	}
	return start, nil
}

func (o Append) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x, lengths, cache := in[AppendNew], in[AppendLengths], Operand(in, AppendCache)
	shape, cached := x.Shape().Clone(), 0
	shape[o.Axis] = o.Size.Int()
	if cache != nil {
		cached = cache.Shape()[o.Axis]
	}
	starts := Make[int](env, lengths.Len())
	for i := range starts {
		start, err := o.Start(lengths.Int64(i), x.Shape()[o.Axis], cached, o.Size.Int())
		if err != nil {
			return nil, err
		}
		starts[i] = start
	}
	y := env.New(x.DType(), shape...)
	from := func(t *tensor.Tensor, idx []int, position int) int {
		at := 0
		for k, stride := range t.Shape().Strides() {
			if k == o.Axis {
				at += position * stride
			} else {
				at += idx[k] * stride
			}
		}
		return at
	}
	EachIndex(env, shape, func(i int, idx []int) {
		switch position, start := idx[o.Axis], starts[idx[o.Batch]]; {
		case position >= start && position < start+x.Shape()[o.Axis]:
			copyElement(y, i, x, from(x, idx, position-start))
		case position < start || o.Keep && position < cached:
			copyElement(y, i, cache, from(cache, idx, position))
		}
	})
	return []*tensor.Tensor{y}, nil
}
