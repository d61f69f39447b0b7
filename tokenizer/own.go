package tokenizer

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// A Token is a token that an Interface finds in a text.
type Token struct {
	ID         int64
	Start, End int  // bytes of the text before the token, and up to its end
	Continues  bool // whether the token belongs to the same word as the token before it
}

// An Interface is a tokenizer of one's own. New makes a Tokenizer of it, which adds special tokens, truncates, makes windows and pairs, and
// counts characters.
type Interface interface {
	// Tokens returns the tokens of a text in order, without special tokens. Several goroutines may call it at once.
	Tokens(text string) ([]Token, error)
	// Vocabulary returns the token of each id, "" for an id without a token. Special tokens are found by their usual names, such as
	// "[PAD]" or "<pad>" (see Role).
	Vocabulary() []string
	// Special returns the ids with which a sequence begins, those between the texts of a pair, and those with which a sequence ends.
	Special() (first, between, last []int64)
}

// New makes a Tokenizer of one's own. The second text of a pair and the tokens after it have the type id 1, all others 0. New fails if
// two tokens have the same id, if there is no token, or if Special returns an id without a token. Encoding fails with the errors of
// Tokens, and if Tokens returns an id or an offset out of range, or panics.
func New(own Interface) (*Tokenizer, error) {
	words := own.Vocabulary()
	if len(words) > maxID {
		return nil, fmt.Errorf("tokenizer: the vocabulary has %d ids: at most %d are possible", len(words), maxID)
	}
	var entries []entry
	for id, word := range words {
		if word != "" {
			entries = append(entries, entry{[]byte(word), int32(id)})
		}
	}
	if len(entries) == 0 {
		return nil, errors.New("tokenizer: the vocabulary has no token")
	}
	vocab, err := newVocabulary(entries)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	t := &Tokenizer{own: own, vocab: vocab, spelt: none, size: len(words), cutSide: Right, padSide: Right,
		added:   addedTokens{special: map[string]bool{}},
		scratch: sync.Pool{New: func() any { return &scratch{} }}}
	first, between, last := own.Special()
	for _, ids := range [][]int64{first, between, last} {
		for _, id := range ids {
			word, ok := vocab.token(id)
			if !ok {
				return nil, fmt.Errorf("tokenizer: the special token %d is not in the vocabulary", id)
			}
			t.added.special[word] = true
		}
	}
	for role := range usualNames {
		if word, _, ok := t.Role(role); ok {
			t.added.special[word] = true
		}
	}
	t.post = postProcessor{
		single: template{{special, first, 0}, {text: 0}, {special, last, 0}},
		pair:   template{{special, first, 0}, {text: 0}, {special, between, 0}, {text: 1, segment: 1}, {special, last, 1}},
	}
	_, t.pad, _ = t.Role("pad")
	return t, nil
}

// appendOwn appends the first limit tokens of a text, of a tokenizer of one's own. Their memory is taken from b.
func (t *Tokenizer) appendOwn(dst *tokens, b *budget, text string, limit int, spans bool) error {
	list, err := t.ownTokens(text)
	if err != nil {
		return fmt.Errorf("tokenizer: %w", err)
	}
	list = list[:min(len(list), limit-len(dst.ids))]
	if err := b.take(tokenBytes * len(list)); err != nil {
		return err
	}
	dst.asked += tokenBytes * len(list)
	word := int32(-1)
	for i, token := range list {
		switch {
		case token.ID < 0 || token.ID >= int64(t.size):
			return fmt.Errorf("tokenizer: token %d has the id %d, but the vocabulary has the ids 0 to %d", i, token.ID, t.size-1)
		case token.Start < 0 || token.Start > token.End || token.End > len(text):
			return fmt.Errorf("tokenizer: token %d is from %d to %d of a text of %d bytes", i, token.Start, token.End, len(text))
		}
		dst.ids = append(dst.ids, token.ID)
		if !token.Continues || word < 0 {
			word++
		}
		if spans {
			dst.spans, dst.words = append(dst.spans, span{int32(token.Start), int32(token.End)}), append(dst.words, word)
		}
	}
	return nil
}

// ownTokens calls Tokens, and returns its panic as an error: the process lives.
func (t *Tokenizer) ownTokens(text string) (list []Token, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("a panic in Tokens: %v\n%s", fault, debug.Stack())
		}
	}()
	return t.own.Tokens(text)
}
