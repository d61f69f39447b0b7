package cuda

import "github.com/rlxc/rlxc/tensor"

// quantizeSequencesParams is QuantizeSequences in _gen/packed.cu.
type quantizeSequencesParams struct {
	x, ranges, y, scale, zero, list  address
	tokens, width, sequences, vector int32
}

// sequenceParts is the number of blocks that find the range of a sequence.
const sequenceParts = 32

// sequenceScratch is the scratch memory for quantising floats [..,tokens,width] with a range for each sequence: the quantised values, the
// ranges of parts, and a scale and a zero point for each token.
func sequenceScratch(x tensor.Shape, sequences int) []int64 {
	tokens := int64(x[:len(x)-1].Elements())
	return []int64{int64(x.Elements()), int64(sequences) * sequenceParts * 8, 4 * tokens, tokens}
}

// launches are two kernels: the first finds the ranges of the sequences' parts, and the second quantises.
func (p quantizeSequencesParams) launches() []*launch {
	return []*launch{newLaunch("sequence_ranges", p, line(int(p.sequences)*sequenceParts), groupSize, 0),
		newLaunch("quantize_sequences", p, line(ceil(int(p.tokens), 8)), groupSize, 0)}
}
