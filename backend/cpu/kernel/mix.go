package kernel

import "unsafe"

// MixRows sums weighted rows of cols elements for each of a number of positions, whose results are dstRow apart in dst. offsets are the
// distances in bytes of the rows from the position in src; positions are srcRow elements apart. The weights of one offset are wRow apart.
// zeros has cols elements.
func (s *Set) MixRows(dst []float32, dstRow int, src []float32, srcRow int, offsets []int, w []float32, wRow int, zeros []float32,
	positions, cols int) {
	if positions == 0 || cols == 0 {
		return
	}
	taps, far := len(offsets), 0
	for _, o := range offsets {
		_ = src[o/4] // none is negative
		far = max(far, o/4)
	}
	demand(dst, (positions-1)*dstRow+cols)
	demand(src, (positions-1)*srcRow+far+cols)
	demand(w, (taps-1)*wRow+cols)
	demand(zeros, cols)
	step := rowsPerCall(cols * taps)
	for p := 0; p < positions; p += step {
		s.depthwise(pointerAt(dst, p*dstRow), dstRow, pointerAt(src, p*srcRow), srcRow, pointer(offsets), taps, pointer(w), wRow,
			pointer(zeros), min(step, positions-p), cols, lowest, highest)
	}
}

// MixBlock is the most columns that are worth a call of MixRows.
const MixBlock = 256

// A Mixer is the memory of one worker that sums rows.
type Mixer struct {
	Offsets []int     // offset of each tap, in bytes
	Scalars []float32 // weight of each tap
	Weights []float32 // rows of MixBlock weights
	Zeros   []float32 // MixBlock zeros
	Rows    []float32 // intermediate rows
}

// A MixerSize is the largest number of taps and of intermediate rows of a mixer.
type MixerSize struct{ Taps, Rows int }

// Bytes is the scratch memory of one mixer.
func (z MixerSize) Bytes() int { return 12*z.Taps + 4*(MixBlock*(z.Taps+1)+z.Rows) }

// NewMixer lays a mixer out in scratch memory.
func NewMixer(scratch []byte, z MixerSize) Mixer {
	m := Mixer{Offsets: unsafe.Slice((*int)(unsafe.Pointer(&scratch[0])), z.Taps)}
	rest := floats(scratch[8*z.Taps:], z.Taps+MixBlock*(z.Taps+1)+z.Rows)
	m.Scalars, rest = rest[:z.Taps], rest[z.Taps:]
	m.Weights, rest = rest[:MixBlock*z.Taps], rest[MixBlock*z.Taps:]
	m.Zeros, m.Rows = rest[:MixBlock], rest[MixBlock:]
	clear(m.Zeros)
	return m
}

// Weigh makes the weight of a tap that of cols columns.
func (m *Mixer) Weigh(tap int, weight float32, cols int) {
	row := m.Weights[tap*MixBlock:][:cols]
	for i := range row {
		row[i] = weight
	}
}

// Sum sums rows of any number of columns; the weights of the taps are those of MixBlock columns.
func (m *Mixer) Sum(s *Set, dst []float32, dstRow int, src []float32, srcRow, taps, positions, cols int) {
	for c := 0; c < cols; c += MixBlock {
		s.MixRows(dst[c:], dstRow, src[c:], srcRow, m.Offsets[:taps], m.Weights, MixBlock, m.Zeros, positions, min(MixBlock, cols-c))
	}
}
