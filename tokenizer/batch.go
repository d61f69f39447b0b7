package tokenizer

// A Batch holds sequences padded to the longest of them. Its inputs are Sequences × Length matrices in row-major order.
type Batch struct {
	Sequences, Length int
	InputIDs          []int64 // padded with the id of the padding token
	AttentionMask     []int64 // 1 for a token, 0 for padding
	TokenTypeIDs      []int64 // padded with 0
	Truncated         int     // how many sequences were cut

	Encodings []Encoding // the sequences without padding, with the index of their input, and with offsets if Spans is given
	Start     []int      // column of each sequence's first token; 0 unless padding is at the left
}

// Batch encodes inputs as Encodings does and pads the sequences to the longest. It fails as Encode does.
func (t *Tokenizer) Batch(inputs []Input, maxLength int, options ...EncodeOption) (*Batch, error) {
	encodings, err := t.Encodings(inputs, maxLength, options...)
	if err != nil {
		return nil, err
	}
	o := t.options(options)
	b := &Batch{Sequences: len(encodings), Encodings: encodings, Start: make([]int, len(encodings))}
	for _, e := range encodings {
		b.Length = max(b.Length, len(e.InputIDs))
		if e.Truncated {
			b.Truncated++
		}
	}
	if m := o.multiple; m > 1 && b.Length%m != 0 {
		b.Length += m - b.Length%m
	}
	b.InputIDs = make([]int64, b.Sequences*b.Length)
	b.AttentionMask = make([]int64, b.Sequences*b.Length)
	b.TokenTypeIDs = make([]int64, b.Sequences*b.Length)
	if t.pad != 0 {
		for i := range b.InputIDs {
			b.InputIDs[i] = t.pad
		}
	}
	for i, e := range encodings {
		if o.padSide == Left {
			b.Start[i] = b.Length - len(e.InputIDs)
		}
		at := i*b.Length + b.Start[i]
		copy(b.InputIDs[at:], e.InputIDs)
		copy(b.AttentionMask[at:], e.AttentionMask)
		copy(b.TokenTypeIDs[at:], e.TokenTypeIDs)
	}
	return b, nil
}
