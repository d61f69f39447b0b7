package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/rlxc/rlxc/ir"
)

// A slicing divides the batch of a run into slices of as many rows as possible, or one fewer.
type slicing struct {
	sizes ir.Binding // sizes of the whole batch
	count int        // number of slices; 0 means that there is no slicing
	rows  int        // rows of the largest slice
	arena int64      // bytes that a slice needs
}

// bounds returns the rows [lo, hi) of slice i of a batch. For example, 3 slices of 7 rows are [0,3), [3,5) and [5,7). The first slice has
// as many rows as any other, so that the arena that it allocates is large enough for all: an arena that grows needs more memory for a
// moment.
func (s *slicing) bounds(i, all int) (lo, hi int) {
	return (i*all + s.count - 1) / s.count, ((i+1)*all + s.count - 1) / s.count
}

// findSlicing finds the most rows at a time that fit. It returns cause, the error of the whole batch, if none do.
func (p *plans) findSlicing(sizes ir.Binding, cause error) (slicing, error) {
	k, err := p.independent()
	if err != nil {
		return slicing{}, fmt.Errorf("%w, and the batch cannot be split into slices: %v", cause, err)
	}
	results, err := p.resultBytes(sizes)
	if err != nil {
		return slicing{}, err
	}
	arena := int64(0)
	fits := func(rows int) error {
		e, err := p.bind(&p.main.stages[0], k.resized(sizes, rows), nil)
		if above := (*tooMuch)(nil); errors.As(err, &above) {
			arena = above.arena + above.host
		}
		if err != nil {
			return err
		}
		if arena = e.binding.Planned.Plan.Committed + e.binding.host; arena+results > p.opts.MemoryLimit {
			return cause
		}
		return nil
	}
	low, high := 0, sizes[k.symbol]
	for high-low > 1 {
		if rows := (low + high) / 2; fits(rows) == nil {
			low = rows
		} else {
			high = rows
		}
	}
	if low == 0 {
		if err := fits(1); high == 1 && errors.Is(err, ErrMemory) {
			cause = fmt.Errorf("%w; the smallest slice needs %d with the results", cause, arena+results)
		}
		return slicing{}, cause
	}
	count := (sizes[k.symbol] + low - 1) / low
	rows := (sizes[k.symbol] + count - 1) / count
	if err := fits(rows); err != nil {
		return slicing{}, err
	}
	for _, rows := range slices.Compact([]int{rows, sizes[k.symbol] / count}) {
		if err := p.keepsBits(sizes, k.resized(sizes, rows)); err != nil {
			return slicing{}, fmt.Errorf("%w, and %d rows of %s have other results than the whole batch: %v", cause, rows, k.symbol, err)
		}
	}
	return slicing{maps.Clone(sizes), count, rows, arena}, nil
}

// keepsBits fails if a kernel runs by another algorithm at some sizes than at others. The error names the node.
func (p *plans) keepsBits(from, to ir.Binding) error {
	t, graph := p.device.Target(), p.main.stages[0].graph
	several := func(n *ir.Node) bool { return t.Kernels[n.Op.Kind()].Algorithm != nil }
	if !slices.ContainsFunc(graph.Nodes, several) {
		return nil
	}
	var bound [2][]*ir.Node // a Bind may fold other nodes away, which depend on sizes alone
	for i, sizes := range []ir.Binding{from, to} {
		g, err := graph.Bind(sizes, false)
		if err != nil {
			return bindError(err)
		}
		bound[i] = slices.DeleteFunc(g.Nodes, func(n *ir.Node) bool { return !several(n) })
	}
	for i, n := range bound[0] {
		if i >= len(bound[1]) || t.Algorithm(n) != t.Algorithm(bound[1][i]) {
			return n.Fail(errors.New("its kernel computes few rows by another algorithm"))
		}
	}
	return nil
}

// findIndependent is Program.independent.
func (p *plans) findIndependent() (*batch, error) {
	if len(p.main.stages) != 1 || p.main.stages[0].graph == nil {
		return nil, errors.New("the program has steps on the host between those of the device")
	}
	return findBatch(p.graph)
}

// resultBytes is the size of the results of a run.
func (p *plans) resultBytes(sizes ir.Binding) (sum int64, err error) {
	for _, v := range p.graph.Outputs {
		t, err := ir.MapType(v.Type, sizes.Number)
		if err != nil {
			return 0, bindError(err)
		}
		sum += int64(t.DType.Bytes(t.Elements()))
	}
	return sum, nil
}

// resized is the sizes of that many rows.
func (b *batch) resized(sizes ir.Binding, rows int) ir.Binding {
	sizes = maps.Clone(sizes)
	sizes[b.symbol] = rows
	return sizes
}

// Slice returns the sizes of a slice, and how many there are, for sizes at which Bind fails with cause. It returns cause where slices do
// not help.
func (p *plans) Slice(dims map[string]int, cause error) (slice map[string]int, count int, err error) {
	if err := p.use(); err != nil {
		return nil, 0, err
	}
	defer p.leave()
	sizes, _, err := p.sizes(dims)
	if err != nil {
		return nil, 0, err
	}
	s, err := p.findSlicing(sizes, cause)
	if err != nil {
		return nil, 0, err
	}
	k, _ := p.independent()
	return k.resized(sizes, s.rows), s.count, nil
}
