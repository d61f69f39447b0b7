package tokenizer

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// TestTrie compares a trie with a map of the same tokens.
func TestTrie(t *testing.T) {
	token := rapid.StringMatching(`[abé]{0,4}`)
	rapid.Check(t, func(t *rapid.T) {
		tokens := rapid.SliceOfN(token, 0, 200).Draw(t, "tokens")
		ids := map[string]int32{}
		var entries []entry
		for i, token := range tokens {
			ids[token] = int32(i)
			entries = append(entries, entry{[]byte(token), int32(i)})
		}
		trie := newTrie(entries)
		find := func(token string) int32 {
			if n := trie.walk(token); n != none {
				return trie.nodes[n].id
			}
			return none
		}
		for _, token := range append(tokens, token.Draw(t, "another")) {
			id, ok := ids[token]
			if !ok {
				id = none
			}
			assert.Equal(t, id, find(token), "%q", token)
		}

		text := rapid.StringMatching(`[abé]{0,8}`).Draw(t, "text")
		want, wantSize := int32(none), 0
		for token, id := range ids {
			if strings.HasPrefix(text, token) && len(token) > wantSize {
				want, wantSize = id, len(token)
			}
		}
		id, size := longest(trie, 0, text, &budget{})
		assert.Equal(t, want, id, "%q", text)
		assert.Equal(t, wantSize, size, "%q", text)
	})
}
