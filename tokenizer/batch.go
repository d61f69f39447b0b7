package tokenizer

// A Batch is rows padded to the longest of them: Rows × Length matrices, row by row, as a model's inputs want them.
type Batch struct {
	Rows, Length  int
	InputIDs      []int64 // padded with the id of the padding token
	AttentionMask []int64 // 1 for a token, 0 for padding
	TokenTypeIDs  []int64 // padded with 0
	Truncated     int     // how many rows were cut

	Encodings []Encoding // the rows without padding: which input each came from, and what Spans asks for
	Start     []int      // by row: the column of its first token; 0 unless padding is at the left
}

// Batch encodes inputs as Encodings does and pads the rows to the longest. It fails as Encode does.
func (t *Tokenizer) Batch(inputs []Input, maxLength int, options ...RowOption) (*Batch, error) {
	rows, err := t.Encodings(inputs, maxLength, options...)
	if err != nil {
		return nil, err
	}
	o := t.options(options)
	b := &Batch{Rows: len(rows), Encodings: rows, Start: make([]int, len(rows))}
	for _, row := range rows {
		b.Length = max(b.Length, len(row.InputIDs))
		if row.Truncated {
			b.Truncated++
		}
	}
	if m := o.multiple; m > 1 && b.Length%m != 0 {
		b.Length += m - b.Length%m
	}
	b.InputIDs = make([]int64, b.Rows*b.Length)
	b.AttentionMask = make([]int64, b.Rows*b.Length)
	b.TokenTypeIDs = make([]int64, b.Rows*b.Length)
	if t.pad != 0 {
		for i := range b.InputIDs {
			b.InputIDs[i] = t.pad
		}
	}
	for i, row := range rows {
		if o.padSide == Left {
			b.Start[i] = b.Length - len(row.InputIDs)
		}
		at := i*b.Length + b.Start[i]
		copy(b.InputIDs[at:], row.InputIDs)
		copy(b.AttentionMask[at:], row.AttentionMask)
		copy(b.TokenTypeIDs[at:], row.TokenTypeIDs)
	}
	return b, nil
}
