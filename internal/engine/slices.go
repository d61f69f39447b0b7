package engine

import (
	"context"
	"maps"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A run whose plan is above the memory limit takes its batch in slices, if each row is computed separately and a plan of some rows fits
// beside the results. It reads the weights once for each slice.

// forget gives the arenas of the session back.
func (f *frame) forget() {
	f.s.use.memory.Pass(f.s.holding())
	f.s.p.cache.forget(f.s)
	for i := range f.parts {
		if p := &f.parts[i]; p.memory != nil {
			p.memory.Close()
			p.memory, p.instance = f.s.p.device.NewMemory(), nil
		}
	}
}

// cut is rows lo to hi of a tensor with that many rows for each of the batch.
func cut(t *tensor.Tensor, lo, hi, times int) (*tensor.Tensor, error) {
	shape := t.Shape().Clone()
	row := t.DType().Bytes(shape[1:].Elements()) * times
	shape[0] = (hi - lo) * times
	return tensor.FromBytes(t.DType(), shape, t.Bytes()[lo*row:hi*row])
}

// runSlices runs slice after slice of the inputs that are there.
func (f *frame) runSlices(ctx context.Context) ([]*tensor.Tensor, error) {
	in := maps.Clone(f.values)
	p, s := f.s.p, f.sliced
	k, err := p.independent()
	if err != nil {
		return nil, err
	}
	results, err := p.resultBytes(s.sizes)
	if err != nil {
		return nil, err
	}
	if err := f.s.use.memory.Fits(results + max(0, s.arena-f.s.holding())); err != nil {
		f.forget() // arenas of other sizes are in the way
	}
	if err := f.s.use.memory.Take(results); err != nil {
		return nil, runError(err)
	}
	out := make([]*tensor.Tensor, len(f.out))
	for i, v := range f.graph.Outputs {
		t, err := ir.MapType(v.Type, s.sizes.Number)
		if err != nil {
			return nil, bindError(err)
		}
		out[i] = tensor.New(t.DType, t.Sizes()...)
	}
	all := s.sizes[k.symbol]
	for i := range s.count {
		lo, hi := s.bounds(i, all)
		for i, v := range f.graph.Inputs {
			if f.values[v] = in[v]; !k.inputs[i] {
				continue
			}
			if f.values[v], err = cut(in[v], lo, hi, 1); err != nil {
				return nil, err
			}
		}
		if err := f.bindInputs(nil); err != nil {
			return nil, err
		}
		part, err := f.run(ctx, 0)
		if err != nil {
			return nil, err
		}
		for i, t := range part {
			to, err := cut(out[i], lo, hi, k.outputs[i])
			if err != nil {
				return nil, err
			}
			copy(to.Bytes(), t.Bytes())
		}
	}
	return out, nil
}
