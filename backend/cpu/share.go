package cpu

import (
	"bytes"
	"errors"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/rlxc/rlxc/internal/packed"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Programs of one model differ in threads, in outputs, in what an If runs, and most of their weights are packed to the same bytes.
// They are held once in a process: a Device that has packed a weight looks whether another holds its equal, and then takes that one.
// It is found by its content, not by its name, so that models which share tensors share them here too.

// A shelf is the memory of the weights that one Device packed. It stays while any Device uses one of them.
type shelf struct {
	slab  tensor.Slab
	users int
	has   []weightKey
}

// weightKey finds weights that may be equal.
type weightKey struct {
	layout packed.Layout
	dtype  tensor.DType
	bytes  int
	sample uint64 // a hash of a part of the bytes
}

type sharedWeight struct {
	data *tensor.Tensor
	on   *shelf
}

// shelves are all packed weights of the process.
var shelves = struct {
	sync.Mutex
	seed maphash.Seed
	by   map[weightKey][]sharedWeight
}{seed: maphash.MakeSeed(), by: map[weightKey][]sharedWeight{}}

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
	key := weightKey{l, data.DType(), len(data.Bytes()), sampleOf(data.Bytes())}
	shelves.Lock()
	defer shelves.Unlock()
	for _, x := range shelves.by[key] {
		if !bytes.Equal(x.data.Bytes(), data.Bytes()) {
			continue
		}
		if !slices.Contains(w.used, x.on) {
			w.used = append(w.used, x.on)
			x.on.users++
		}
		w.own.slab.Return(data.Bytes())
		return &ir.Packed{Layout: l, Data: x.data}
	}
	shelves.by[key] = append(shelves.by[key], sharedWeight{data, w.own})
	w.own.has = append(w.own.has, key)
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
		for _, key := range s.has {
			left := slices.DeleteFunc(shelves.by[key], func(x sharedWeight) bool { return x.on == s })
			if shelves.by[key] = left; len(left) == 0 {
				delete(shelves.by, key)
			}
		}
		errs = append(errs, s.slab.Close())
	}
	*w = weights{}
	return errors.Join(errs...)
}

// sampleOf hashes some of the bytes: enough to tell weights of one size apart, little beside packing them.
func sampleOf(data []byte) uint64 {
	const pieces, piece = 64, 64
	var h maphash.Hash
	h.SetSeed(shelves.seed)
	if len(data) <= pieces*piece {
		h.Write(data)
		return h.Sum64()
	}
	for i := range pieces {
		h.Write(data[i*(len(data)-piece)/(pieces-1):][:piece])
	}
	return h.Sum64()
}
