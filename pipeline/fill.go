package pipeline

import (
	"cmp"
	"context"
	"slices"

	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/tokenizer"
)

// A Filled is a word for a mask, with its score.
type Filled struct {
	Token string  `json:"token"` // text of the word
	ID    int64   `json:"id"`
	Score float64 `json:"score"`
	Text  string  `json:"text"` // the text with the word instead of the mask
}

// FillOptions are the options of Fill.
type FillOptions struct {
	TopK      int      // for each mask; 0 for 5
	Targets   []string // the only words to choose from, by their first tokens; nil for the vocabulary
	Truncated Truncated
}

// Mask returns the word that marks a missing word for Fill, such as "[MASK]". It is empty if the tokenizer has none.
func (m *Model) Mask() string {
	token, _, _ := m.tok.Role("mask")
	return token
}

// Fill returns the most likely words for each mask of each text. It fails as Embed does, and with ErrInvalid if a text has no mask or no
// target is a token.
func (m *Model) Fill(ctx context.Context, texts []string, o FillOptions) ([][][]Filled, error) {
	word, mask, ok := m.tok.Role("mask")
	if m.heads.filled.name == "" || !ok {
		return nil, m.lacks("fill")
	}
	targets, err := m.targets(ctx, o.Targets)
	if err != nil {
		return nil, err
	}
	encodings, err := m.sequences(ctx, texts, "", m.MaxLength, o.Truncated)
	if err != nil {
		return nil, err
	}
	masks := make([][]candidates, len(texts))
	sequences, ask := make([]*sequence, len(encodings)), memory.Asker(ctx)
	for i, e := range encodings {
		var picks []int
		for t, id := range e.InputIDs {
			if id == mask {
				masks[i], picks = append(masks[i], candidates{at: t}), append(picks, t)
			}
		}
		if len(picks) == 0 {
			return nil, invalidf("text %d has no %s among its first %d tokens", i, word, len(e.InputIDs))
		}
		sequences[i] = &sequence{ids: e.InputIDs, types: e.TokenTypeIDs, picks: picks, take: func(b *batch, at int) error {
			data, err := b.textVector(m.heads.filled, at)
			if err != nil {
				return err
			}
			size := len(data) / len(picks)
			for k := range masks[i] {
				c := &masks[i][k]
				c.choose(wide(data[k*size:(k+1)*size]), targets, cmp.Or(o.TopK, 5))
				if err := ask(16 * int64(len(c.ids))); err != nil {
					return err
				}
			}
			return nil
		}}
	}
	if err := m.run(ctx, sequences, m.heads.filled.name); err != nil {
		return nil, err
	}
	out := make([][][]Filled, len(texts))
	for i, e := range encodings {
		for _, c := range masks[i] {
			words, err := m.putIn(c, e.InputIDs, len(masks[i]) == 1, ask)
			if err != nil {
				return nil, err
			}
			out[i] = append(out[i], words)
		}
	}
	return out, nil
}

// targets are the tokens of words: the word's own, or the first of several.
func (m *Model) targets(ctx context.Context, words []string) ([]int64, error) {
	var ids []int64
	for _, word := range words {
		id, ok := m.tok.ID(word)
		if !ok {
			e, err := m.tok.Encode(tokenizer.Text(word), 0, tokenizer.Spans(), tokenizer.Ask(memory.Asker(ctx)))
			if err != nil {
				return nil, err
			}
			at := slices.Index(e.Special, false)
			if at < 0 {
				continue
			}
			id = e.InputIDs[at]
		}
		ids = append(ids, id)
	}
	if words != nil && len(ids) == 0 {
		return nil, invalidf("none of the %d targets is a word", len(words))
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// candidates are the likeliest tokens for a mask.
type candidates struct {
	at     int // position of the mask in the sequence
	ids    []int64
	scores []float64
}

// choose finds the k likeliest of targets, or of all tokens if that is nil, by their logits.
func (c *candidates) choose(logits []float64, targets []int64, k int) {
	softmax(logits)
	if c.ids = slices.DeleteFunc(slices.Clone(targets), func(id int64) bool { return id >= int64(len(logits)) }); targets == nil {
		c.ids = make([]int64, len(logits))
		for id := range c.ids {
			c.ids[id] = int64(id)
		}
	}
	slices.SortStableFunc(c.ids, func(a, b int64) int { return cmp.Compare(logits[b], logits[a]) })
	c.ids = slices.Clone(c.ids[:min(k, len(c.ids))])
	for _, id := range c.ids {
		c.scores = append(c.scores, logits[id])
	}
}

// putIn returns the candidates of a mask, each with the text in which it replaces the mask. alone is true if the sequence has no other
// mask; then the texts leave out special tokens.
func (m *Model) putIn(c candidates, ids []int64, alone bool, ask func(bytes int64) error) ([]Filled, error) {
	var out []Filled
	sequence := slices.Clone(ids)
	for i, id := range c.ids {
		sequence[c.at] = id
		word, err := m.tok.Decode([]int64{id}, false)
		if err != nil {
			return nil, err
		}
		text, err := m.tok.Decode(sequence, alone)
		if err != nil {
			return nil, err
		}
		if err := ask(int64(128 + 2*len(text))); err != nil {
			return nil, err
		}
		out = append(out, Filled{word, id, c.scores[i], text})
	}
	return out, nil
}
