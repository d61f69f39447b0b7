package rewrite

import (
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// oneHotRule takes rows of a table where a product multiplies it with rows that have a single one: integers compared with 0, 1, 2, …
// An integer that is none of them has no one, and the product is zero: the table gets a row of zeros for it.
func oneHotRule() *Rule {
	index, steps, table := value(), constant(), constant()
	hot := node[ir.Cast](binary(ir.Equal, index, steps))
	hits := with(node[ir.MatMul](hot, table), func(o ir.MatMul) bool { return o == ir.MatMul{} })
	return &Rule{Name: "matmul.one_hot", pattern: hits, build: func(m *match) *ir.Value {
		indices, w := m.get(index), m.get(table).Const.Aligned()
		rank, size := len(indices.Type.Shape), w.Shape()
		if !target.IsIndex(indices.Type.DType) || rank == 0 || !last(indices.Type.Shape).Is(1) || len(size) != 2 ||
			!counts(m.get(steps).Const.Aligned(), rank, size[0]) {
			return nil
		}
		rows := tensor.New(w.DType(), size[0]+1, size[1])
		copy(rows.Bytes(), w.Bytes())
		for i := range w.Len() {
			if x := w.Float64(i); x-x != 0 {
				return m.refuse("zero times %v is not zero", x)
			}
		}
		limit := func(x int) *ir.Value {
			c := tensor.New(indices.Type.DType)
			c.SetInt64(0, int64(x))
			return m.e.constant("", c)
		}
		at := m.reshape(indices, indices.Type.Shape[:rank-1])
		at = m.emit(ir.Binary{Fn: ir.MinFn}, m.emit(ir.Binary{Fn: ir.MaxFn}, at, limit(-1)), limit(size[0])) // −1 is the last row, too
		return m.emit(ir.Gather{}, m.e.constant(m.get(table).Name, rows), at)
	}}
}

// counts reports whether c is 0, 1, … n−1 along the last of at most rank axes.
func counts(c *tensor.Tensor, rank, n int) bool {
	s := c.Shape()
	if c.Len() != n || len(s) > rank || len(s) == 0 || s[len(s)-1] != n {
		return false
	}
	for i := range n {
		if c.Int64(i) != int64(i) {
			return false
		}
	}
	return true
}
