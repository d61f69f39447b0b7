package backend

import (
	"encoding/binary"
	"math"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Where the elements of a resized tensor are between those of the operand is computed on the host, in float64, and comes to the device as a
// table of words: for each position along an axis that many pairs of a neighbour and its weight, of which fewer count where a neighbour is
// MixEnd.

// MixEnd is in the table for no neighbour. Where it is the first of a position, the position is outside.
const MixEnd = math.MaxUint32

// maxMixTable is the most words of such a table.
const maxMixTable = 1 << 22

// A MixedAxis is one that a resizing changes, the number of its pairs for a position, and where they begin in the table.
type MixedAxis struct{ Axis, Taps, At int }

// MixTable lists the axes that a resizing changes, and returns their table; nil if it would be too large.
func MixTable(op ops.Resize, from, to tensor.Shape) (mixed []MixedAxis, words *tensor.Tensor) {
	op.Shape = ir.Dims(to...)
	size := 0
	for axis := range from {
		if !op.Keeps(axis, ir.Dims(from...)) {
			taps := op.Taps(axis, from[axis], to[axis])
			if taps > maxMixTable || to[axis] > maxMixTable || size+2*taps*to[axis] > maxMixTable {
				return nil, nil
			}
			mixed = append(mixed, MixedAxis{axis, taps, size})
			size += 2 * taps * to[axis]
		}
	}
	words = tensor.New(tensor.U32, max(size, 1))
	put := func(i int, v uint32) { binary.NativeEndian.PutUint32(words.Bytes()[4*i:], v) }
	var mix ops.Mix
	for _, a := range mixed {
		for index := range to[a.Axis] {
			mix = op.Mix(mix[:0], a.Axis, from[a.Axis], to[a.Axis], index)
			for k := range a.Taps {
				at := a.At + 2*(index*a.Taps+k)
				if k < len(mix) {
					put(at, uint32(mix[k].At))
					put(at+1, math.Float32bits(float32(mix[k].Weight)))
				} else {
					put(at, MixEnd)
				}
			}
		}
	}
	return mixed, words
}
