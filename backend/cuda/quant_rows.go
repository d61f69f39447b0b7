package cuda

import "github.com/rlxc/rlxc/tensor"

// quantizeTextsParams is QuantizeTexts in _gen/texts.cu.
type quantizeTextsParams struct {
	x, ranges, y, scale, zero, rows address
	tokens, width, texts, vector    int32
}

// textParts is the number of blocks that look for the range of a text.
const textParts = 32

// textScratch is the memory that quantising floats [..,tokens,width] text by text needs: the values, ranges of parts, and a scale and a
// zero point for each token.
func textScratch(x tensor.Shape, texts int) []int64 {
	tokens := int64(x[:len(x)-1].Elements())
	return []int64{int64(x.Elements()), int64(texts) * textParts * 8, 4 * tokens, tokens}
}

// launches are the ranges of all texts' parts, and the quantised values.
func (p quantizeTextsParams) launches() []*launch {
	return []*launch{newLaunch("text_ranges", p, line(int(p.texts)*textParts), groupSize, 0),
		newLaunch("quantize_texts", p, line(ceil(int(p.tokens), 8)), groupSize, 0)}
}
