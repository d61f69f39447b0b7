package cpu

import (
	"math"
	"unsafe"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A ranked element of a line comes before those of a higher key, and of the same key after it.
type ranked struct {
	key      int64
	position int
}

func (a ranked) before(b ranked) bool {
	return a.key < b.key || a.key == b.key && a.position < b.position
}

// topKEntry keeps the first elements of each line in a heap, whose root is the last of them.
func (d *processor) topKEntry() entry {
	bytes := func(n *ir.Node) int { return align(int(unsafe.Sizeof(ranked{})) * n.Op.(ops.TopK).K.Int()) }
	return entry{
		Supports: func(n *ir.Node) bool {
			d := n.Inputs[0].Type.DType
			return len(n.Outputs) == 2 && (d == tensor.F32 || d == tensor.I64 || d == tensor.I32)
		},
		Scratch: func(n *ir.Node) []int64 { return []int64{int64(d.Threads() * bytes(n))} },
		Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
			op, scratch, each := n.Op.(ops.TopK), b.scratchBytes(0), bytes(n)
			switch in[0].dtype {
			case tensor.F32:
				return topKStep(op, out, &in[0], scratch, each, floatKey), nil
			case tensor.I32:
				return topKStep(op, out, &in[0], scratch, each, func(v int32) int64 { return int64(v) }), nil
			}
			return topKStep(op, out, &in[0], scratch, each, func(v int64) int64 { return v }), nil
		},
	}
}

// floatKey orders as floats do; a NaN comes before every number, and the zeros are equal.
func floatKey(v float32) int64 {
	if v != v {
		return math.MinInt64
	}
	bits := int32(math.Float32bits(v))
	if bits < 0 {
		return -int64(bits & math.MaxInt32)
	}
	return int64(bits)
}

func topKStep[T number](op ops.TopK, out []operand, x *operand, scratch operand, each int, key func(T) int64) step {
	values, positions, src := out[0], out[1], *x
	size, inner, k := src.shape[op.Axis], src.shape[op.Axis+1:].Elements(), op.K.Int()
	lines := src.shape[:op.Axis].Elements() * inner
	parts, perPart := rowParts(lines, size)
	flip := int64(-1) // reverses an order without overflow, by the complement
	if op.Smallest {
		flip = 0
	}
	return step{parts: parts, run: func(m *machine, part, worker int) {
		d, at, s := elements[T](m, &values), elements[int64](m, &positions), elements[T](m, &src)
		heap := unsafe.Slice((*ranked)(unsafe.Pointer(&scratch.bytes(m)[worker*each])), k)
		for line := part * perPart; line < min((part+1)*perPart, lines); line++ {
			from, to := line/inner*size*inner+line%inner, line/inner*k*inner+line%inner
			for i := range k {
				heap[i] = ranked{key(s[from+i*inner]) ^ flip, i}
			}
			for i := k/2 - 1; i >= 0; i-- {
				sink(heap, i)
			}
			for i := k; ; i++ {
				if i = candidate(s[from:], i, size, inner, s[from+heap[0].position*inner], op.Smallest); i == size {
					break
				}
				if e := (ranked{key(s[from+i*inner]) ^ flip, i}); e.before(heap[0]) {
					heap[0] = e
					sink(heap, 0)
				}
			}
			for i := k - 1; i >= 0; i-- {
				last := heap[0].position
				d[to+i*inner], at[to+i*inner] = s[from+last*inner], int64(last)
				heap[0] = heap[i]
				sink(heap[:i], 0)
			}
		}
	}}
}

// candidate is the first element of a line, from i on, that may come before another, and size if there is none. Most do not; NaN may.
func candidate[T number](line []T, i, size, inner int, other T, smallest bool) int {
	if smallest {
		for i < size && line[i*inner] >= other {
			i++
		}
		return i
	}
	for i < size && line[i*inner] <= other {
		i++
	}
	return i
}

// sink moves an element of a heap below those that come after it.
func sink(heap []ranked, i int) {
	for {
		child := 2*i + 1
		if child >= len(heap) {
			return
		}
		if child+1 < len(heap) && heap[child].before(heap[child+1]) {
			child++
		}
		if heap[child].before(heap[i]) {
			return
		}
		heap[i], heap[child] = heap[child], heap[i]
		i = child
	}
}
