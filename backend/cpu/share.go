package cpu

import (
	"errors"
	"slices"
	"sync"

	"github.com/rlxc/rlxc/internal/packed"
	"github.com/rlxc/rlxc/internal/sharing"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Programs of one model differ in threads, in outputs, in what an If runs, and most of their weights are packed to the same bytes.
// They are held once in a process: a Device that has packed a weight looks whether another holds its equal, and then takes that one.
// It is found by its content, not by its name, so that models which share tensors share them here too.

// A shelf is the memory of the weights that one Device packed. It stays while any Device uses one of them.
type shelf struct {
	slab  sharing.Slab
	users int
	has   []*sharedWeight
}

// A sharedWeight is a packed weight.
type sharedWeight struct {
	layout packed.Layout
	data   *tensor.Tensor
	on     *shelf
}

// Content implements sharing.Holder.
func (x *sharedWeight) Content() (any, *tensor.Tensor) { return x.layout, x.data }

// shelves are all packed weights of the process.
var shelves struct {
	sync.Mutex
	sharing.Table[*sharedWeight]
}

// weights are those that a Device uses: its own shelf, if it packed any, and those of others.
type weights struct {
	own  *shelf
	used []*shelf
}

// take returns zeroed memory for a weight that is to be packed, which keep ends.
func (w *weights) take(d tensor.DType, shape ...int) *tensor.Tensor {
	if w.own == nil {
		w.own = &shelf{users: 1}
		w.used = append(w.used, w.own)
	}
	return w.own.slab.Tensor(d, shape...)
}

// keep ends the packing of the weight that was taken last. If there is an equal one already, that one is returned.
func (w *weights) keep(l packed.Layout, data *tensor.Tensor) *ir.Packed {
	shelves.Lock()
	defer shelves.Unlock()
	if x, ok := shelves.Find(l, data); ok {
		if !slices.Contains(w.used, x.on) {
			w.used = append(w.used, x.on)
			x.on.users++
		}
		w.own.slab.GiveBack(data.Bytes())
		return &ir.Packed{Layout: l, Data: x.data}
	}
	x := &sharedWeight{l, data, w.own}
	shelves.Add(x)
	w.own.has = append(w.own.has, x)
	return &ir.Packed{Layout: l, Data: data}
}

// trim releases what packing did not need.
func (w *weights) trim() {
	if w.own != nil {
		w.own.slab.Trim()
	}
}

// close ends the use of all weights.
func (w *weights) close() error {
	shelves.Lock()
	defer shelves.Unlock()
	var errs []error
	for _, s := range w.used {
		if s.users--; s.users > 0 {
			continue
		}
		for _, x := range s.has {
			shelves.Remove(x)
		}
		errs = append(errs, s.slab.Close())
	}
	*w = weights{}
	return errors.Join(errs...)
}
