package cuda

import "github.com/rlxc/rlxc/tensor"

// quantizeTextsParams is QuantizeTexts in _gen/texts.cu.
type quantizeTextsParams struct {
	x, ranges, y, scale, zero, rows address
	tokens, width, texts, vector    int32
}

// textParts is the number of blocks that find the range of a sequence.
const textParts = 32

// textScratch is the scratch memory for quantising floats [..,tokens,width] with a range for each sequence: the quantised values, the
// ranges of parts, and a scale and a zero point for each token.
func textScratch(x tensor.Shape, texts int) []int64 {
	tokens := int64(x[:len(x)-1].Elements())
	return []int64{int64(x.Elements()), int64(texts) * textParts * 8, 4 * tokens, tokens}
}

// launches are two kernels: the first finds the ranges of the sequences' parts, and the second quantises.
func (p quantizeTextsParams) launches() []*launch {
	return []*launch{newLaunch("text_ranges", p, line(int(p.texts)*textParts), groupSize, 0),
		newLaunch("quantize_texts", p, line(ceil(int(p.tokens), 8)), groupSize, 0)}
}
