package cpu

import (
	"math"
	"slices"
	"unsafe"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
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

// topKBlock is how many elements of a line have one bound, the first of all of them. The first k elements of a line are in the k blocks
// whose bounds are first, so lines with many blocks are not searched whole.
const topKBlock = 32

// boundedBlocks is the number of blocks of a line that are searched by their bounds; 0: the line is searched whole.
func boundedBlocks(n *ir.Node) int {
	op, x := n.Op.(ops.TopK), n.Inputs[0].Type
	shape := x.Sizes()
	if blocks := shape[op.Axis] / topKBlock; x.DType == tensor.F32 && shape[op.Axis+1:].Elements() == 1 && blocks >= 2*op.K.Int() {
		return blocks
	}
	return 0
}

// The most that is selected, and the longest lines, of which a kernel selects from several at a time.
const (
	topColumnsK    = 16
	topColumnsSize = 1 << 10
)

// topColumns is the number of lines from which a kernel selects at a time, as columns; 0: the lines are searched one by one.
func (d *processor) topColumns(n *ir.Node) int {
	op, x := n.Op.(ops.TopK), n.Inputs[0].Type
	shape, columns := x.Sizes(), d.set.TopColumns()
	if size := shape[op.Axis]; x.DType != tensor.F32 || op.K.Int() > topColumnsK || op.K.Is(0) || size > topColumnsSize ||
		shape[op.Axis+1:].Elements() != 1 || shape[:op.Axis].Elements() < columns {
		return 0
	}
	return columns
}

// topKEntry keeps the first elements of each line in a heap, whose root is the last of them.
func (d *processor) topKEntry() entry {
	columnBytes := func(n *ir.Node) int {
		return align(4 * d.topColumns(n) * (n.Inputs[0].Type.Sizes()[n.Op.(ops.TopK).Axis] + 2*n.Op.(ops.TopK).K.Int()))
	}
	heap := func(n *ir.Node) int { return align(int(unsafe.Sizeof(ranked{})) * n.Op.(ops.TopK).K.Int()) }
	bytes := func(n *ir.Node) int { return 2*heap(n) + align(4*boundedBlocks(n)) }
	return entry{
		Supports: func(n *ir.Node) bool {
			d := n.Inputs[0].Type.DType
			return len(n.Outputs) == 2 && (d == tensor.F32 || d == tensor.I64 || d == tensor.I32)
		},
		Scratch: func(n *ir.Node) []int64 { return []int64{int64(d.Threads() * max(bytes(n), columnBytes(n)))} },
		Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
			if columns := d.topColumns(n); columns > 0 {
				return topColumnsStep(d.set, n.Op.(ops.TopK), out, &in[0], b.scratchBytes(0), columnBytes(n), columns), nil
			}
			op, scratch, each := n.Op.(ops.TopK), b.scratchBytes(0), bytes(n)
			switch in[0].dtype {
			case tensor.F32:
				bounds, blocks, first := kernel.ReduceMax, boundedBlocks(n), 2*heap(n)
				if op.Smallest {
					bounds = kernel.ReduceMin
				}
				return topKStep(op, out, &in[0], scratch, each, floatKey, func(line []float32, own []byte) []float32 {
					list := lanes[float32](own[first:], blocks)
					b.d.set.ReduceRows(bounds, list, line, topKBlock, blocks, topKBlock)
					if !op.Smallest && slices.ContainsFunc(list, func(v float32) bool { return v != v }) {
						return nil // a NaN is the last element, but not the bound of a block that has one
					}
					return list
				}), nil
			case tensor.I32:
				return topKStep(op, out, &in[0], scratch, each, func(v int32) int64 { return int64(v) }, noBounds), nil
			}
			return topKStep(op, out, &in[0], scratch, each, func(v int64) int64 { return v }, noBounds), nil
		},
	}
}

// noBounds are those of elements that no kernel reduces.
func noBounds[T number]([]T, []byte) []T { return nil }

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

// A selection keeps the first elements of those that it has been offered.
type selection[T number] struct {
	heap     []ranked
	key      func(T) int64
	flip     int64 // reverses an order without overflow, by the complement
	smallest bool
}

// clear forgets all elements: every other one comes before what is in the heap then.
func (h *selection[T]) clear() {
	for i := range h.heap {
		h.heap[i] = ranked{math.MaxInt64, math.MaxInt}
	}
}

// offer takes the elements of a line from lo up to hi, which are after those that it has taken.
func (h *selection[T]) offer(line []T, lo, hi, inner int) {
	for i := lo; i < hi; i++ {
		if last := h.heap[0].position; last != math.MaxInt {
			if i = candidate(line, i, hi, inner, line[last*inner], h.smallest); i == hi {
				return
			}
		}
		if e := (ranked{h.key(line[i*inner]) ^ h.flip, i}); e.before(h.heap[0]) {
			h.heap[0] = e
			sink(h.heap, 0)
		}
	}
}

// topKStep takes bounds, which returns those of a line's blocks, if there are any.
func topKStep[T number](op ops.TopK, out []operand, x *operand, scratch operand, each int, key func(T) int64,
	bounds func(line []T, own []byte) []T) step {
	values, positions, src := out[0], out[1], *x
	size, inner, k := src.shape[op.Axis], src.shape[op.Axis+1:].Elements(), op.K.Int()
	lines := src.shape[:op.Axis].Elements() * inner
	parts, perPart := rowParts(lines, size)
	flip := int64(-1)
	if op.Smallest {
		flip = 0
	}
	return step{parts: parts, run: func(m *machine, part, worker int) {
		d, at, s := elements[T](m, &values), elements[int64](m, &positions), elements[T](m, &src)
		own := scratch.bytes(m)[worker*each:][:each]
		heaps := unsafe.Slice((*ranked)(unsafe.Pointer(unsafe.SliceData(own))), 2*k)
		blocks, chosen := selection[T]{heaps[k:], key, flip, op.Smallest}, selection[T]{heaps[:k], key, flip, op.Smallest}
		for line := part * perPart; line < min((part+1)*perPart, lines); line++ {
			from, to := line/inner*size*inner+line%inner, line/inner*k*inner+line%inner
			row, rest := s[from:], 0
			chosen.clear()
			if list := bounds(row, own); len(list) > 0 {
				blocks.clear()
				blocks.offer(list, 0, len(list), 1)
				slices.SortFunc(blocks.heap, func(a, b ranked) int { return a.position - b.position })
				for _, b := range blocks.heap {
					chosen.offer(row, b.position*topKBlock, (b.position+1)*topKBlock, 1)
				}
				rest = len(list) * topKBlock
			}
			chosen.offer(row, rest, size, inner)
			for heap, i := chosen.heap, k-1; i >= 0; i-- {
				last := heap[0].position
				d[to+i*inner], at[to+i*inner] = row[last*inner], int64(last)
				heap[0] = heap[i]
				sink(heap[:i], 0)
			}
		}
	}}
}

// topColumnsStep selects from as many lines at a time as a kernel does, transposed.
func topColumnsStep(set *kernel.Set, op ops.TopK, out []operand, x *operand, scratch operand, each, columns int) step {
	values, positions, src := out[0], out[1], *x
	size, k := src.shape[op.Axis], op.K.Int()
	lines := src.shape[:op.Axis].Elements()
	groups := ceilDiv(lines, columns)
	parts, perPart := rowParts(groups, columns*size)
	return step{parts: parts, run: func(m *machine, part, worker int) {
		d, at, s := values.f32(m), elements[int64](m, &positions), src.f32(m)
		own := scratch.bytes(m)[worker*each:][:each]
		transposed, rest := lanes[float32](own, columns*size), own[4*columns*size:]
		rows, keys := lanes[int32](rest, columns*k), lanes[int32](rest[4*columns*k:], columns*k)
		for group := part * perPart; group < min((part+1)*perPart, groups); group++ {
			first := group * columns
			count := min(columns, lines-first)
			set.Transpose(transposed, columns, s[first*size:], size, size, count)
			set.Top(rows, keys, k, transposed, size, op.Smallest)
			for i := range count {
				line, to := s[(first+i)*size:], (first+i)*k
				for j := range k {
					row := int(rows[j*columns+i])
					d[to+j], at[to+j] = line[row], int64(row)
				}
			}
		}
	}}
}

// candidate is the first element of a line, from i up to end, that may come before an earlier one, and end if there is none. Most do not;
// NaN may.
func candidate[T number](line []T, i, end, inner int, other T, smallest bool) int {
	if smallest {
		for i < end && line[i*inner] >= other {
			i++
		}
		return i
	}
	for i < end && line[i*inner] <= other {
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
