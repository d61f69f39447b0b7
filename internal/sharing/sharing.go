// Package sharing finds tensors by what they hold. It is the one notion of equal weights: what rewriting makes twice, what
// programs of a process share, and what a file or a device stores once.
package sharing

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"
	"slices"

	"github.com/rlxc/rlxc/tensor"
)

// A Holder holds a tensor that can be read for as long as the Holder is in a Table.
type Holder interface {
	comparable
	// Content is the tensor, and what else must be equal, such as the layout of a packed matrix.
	Content() (kind any, data *tensor.Tensor)
}

// A Table finds Holders of equal tensors. The zero value is empty.
type Table[H Holder] struct{ by map[key][]H }

// key is equal for equal tensors. Tensors of one key are compared as a whole.
type key struct {
	kind   any
	dtype  tensor.DType
	bytes  int
	sample uint64
}

var seed = maphash.MakeSeed()

func keyOf(kind any, data *tensor.Tensor) key {
	return key{kind, data.DType(), len(data.Bytes()), sampleOf(data.Bytes())}
}

// Find returns the Holder of a tensor of this kind that has the type, the shape and the bytes of data.
func (t *Table[H]) Find(kind any, data *tensor.Tensor) (h H, ok bool) {
	for _, h := range t.by[keyOf(kind, data)] {
		_, x := h.Content()
		if x.Shape().Equal(data.Shape()) && bytes.Equal(x.Bytes(), data.Bytes()) {
			return h, true
		}
	}
	return h, false
}

// Add adds a Holder, whose tensor the Table does not hold yet.
func (t *Table[H]) Add(h H) {
	if t.by == nil {
		t.by = map[key][]H{}
	}
	k := keyOf(h.Content())
	t.by[k] = append(t.by[k], h)
}

// Remove takes a Holder out. Its tensor must still be there.
func (t *Table[H]) Remove(h H) {
	k := keyOf(h.Content())
	if left := slices.DeleteFunc(t.by[k], func(x H) bool { return x == h }); len(left) > 0 {
		t.by[k] = left
	} else {
		delete(t.by, k)
	}
}

// Len is the number of Holders.
func (t *Table[H]) Len() (n int) {
	for _, list := range t.by {
		n += len(list)
	}
	return n
}

// sampleOf hashes some of the bytes: enough to distinguish weights of one size, little beside making them.
func sampleOf(data []byte) uint64 {
	const pieces, piece = 64, 64
	var h maphash.Hash
	h.SetSeed(seed)
	if len(data) <= pieces*piece {
		h.Write(data)
		return h.Sum64()
	}
	for i := range pieces {
		h.Write(data[i*(len(data)-piece)/(pieces-1):][:piece])
	}
	return h.Sum64()
}

// Digest names bytes in files and plans, where the bytes themselves are not at hand: no two contents have one.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
