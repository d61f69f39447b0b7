package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// A Filled is a word in the place of a mask.
type Filled struct {
	Token string  `json:"token"` // as text
	ID    int64   `json:"id"`
	Score float64 `json:"score"`
	Text  string  `json:"text"` // with the word put in
}

// FillOptions say what is put in the place of masks.
type FillOptions struct {
	TopK      int // for each mask; 0 for 5
	Truncated Truncated
}

// Mask returns the word that stands for a missing one in texts for Fill, such as "[MASK]"; empty if the tokenizer has none.
func (m *Model) Mask() string {
	token, _, _ := m.tok.Role("mask")
	return token
}

// Fill returns the words that fit best for each mask of each text, the likeliest first. It fails as Embed does, and if a
// text has no mask.
func (m *Model) Fill(ctx context.Context, texts []string, o FillOptions) ([][][]Filled, error) {
	word, mask, ok := m.tok.Role("mask")
	if m.heads.logits == "" || !ok {
		return nil, m.lacks("fill")
	}
	encodings, err := m.rows(ctx, texts, "", m.MaxLength, o.Truncated)
	if err != nil {
		return nil, err
	}
	out := make([][][]Filled, len(texts))
	rows := make([]*row, len(encodings))
	for i, e := range encodings {
		var places []int
		for t, id := range e.InputIDs {
			if id == mask {
				places = append(places, t)
			}
		}
		if len(places) == 0 {
			return nil, fmt.Errorf("pipeline: text %d has no %s among its first %d tokens", i, word, len(e.InputIDs))
		}
		rows[i] = &row{ids: e.InputIDs, types: e.TokenTypeIDs, take: func(b *batch, at int) error {
			data, tokens, size, err := b.vectors(m.heads.logits, at)
			if err != nil {
				return err
			}
			if tokens != len(e.InputIDs) {
				return fmt.Errorf("pipeline: the model returns logits for %d of %d tokens", tokens, len(e.InputIDs))
			}
			for _, place := range places {
				p := wide(data[place*size : (place+1)*size])
				softmax(p)
				words, err := m.likeliest(p, cmp.Or(o.TopK, 5), e.InputIDs, place, len(places) == 1)
				if err != nil {
					return err
				}
				out[i] = append(out[i], words)
			}
			return nil
		}}
	}
	if err := m.schedule.run(ctx, rows); err != nil {
		return nil, err
	}
	return out, nil
}

// likeliest puts the words of the k highest probabilities in a place of a row.
func (m *Model) likeliest(p []float64, k int, ids []int64, place int, alone bool) ([]Filled, error) {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return -compareFloats(p[a], p[b]) })
	var out []Filled
	row := slices.Clone(ids)
	for _, id := range order[:min(k, len(order))] {
		row[place] = int64(id)
		word, err := m.tok.Decode([]int64{int64(id)}, false)
		if err != nil {
			return nil, err
		}
		text, err := m.tok.Decode(row, alone)
		if err != nil {
			return nil, err
		}
		out = append(out, Filled{word, int64(id), p[id], text})
	}
	return out, nil
}
