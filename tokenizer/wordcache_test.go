package tokenizer

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWordCache puts more words and pieces than a cache holds: a word is found right after it was put, never with another's pieces, and
// the cache is emptied at its bounds.
func TestWordCache(t *testing.T) {
	for _, long := range []int{1, 40} { // pieces of a word: the number of words ends the first cache, that of pieces the second
		var c wordCache
		put, found, emptied := map[string]int32{}, 0, 0
		for i := range int32(3 * cacheWords) {
			word := make([]byte, 1+i%(longestCached+2))
			copy(word, binary.LittleEndian.AppendUint32(nil, uint32(i)*2654435761))
			if c.find(word) != nil || len(word) < 4 {
				continue
			}
			pieces := make([]piece, long)
			pieces[long-1] = piece{i, i, i}
			before := c.count
			c.put(word, pieces)
			if len(word) > longestCached {
				require.Nil(t, c.find(word))
				continue
			}
			put[string(word)] = i
			require.Equal(t, pieces, c.find(word))
			if c.count != before+1 {
				emptied++
				require.Equal(t, 1, c.count)
				require.True(t, before == cacheWords || (before+1)*long > cachePieces)
			}
			require.Len(t, c.pieces, c.count*long)
			require.LessOrEqual(t, len(c.pieces), cachePieces)
			require.LessOrEqual(t, c.count, cacheWords)
		}
		for word, i := range put {
			if pieces := c.find([]byte(word)); pieces != nil {
				found++
				require.Equal(t, i, pieces[long-1].id)
			}
		}
		require.Positive(t, emptied)
		require.Greater(t, found, c.count*9/10, "few words take the place of another")
	}
	var c wordCache
	c.put(nil, nil)
	require.Nil(t, c.find(nil))
	c.put([]byte("none"), nil)
	require.NotNil(t, c.find([]byte("none")), "no pieces are an answer")
}

// TestHashWord holds that every byte of a word, and its length, change the hash.
func TestHashWord(t *testing.T) {
	seen := map[uint32]string{}
	for n := 1; n <= longestCached; n++ {
		for i := range n {
			for _, b := range []byte{1, 128} {
				word := make([]byte, n)
				word[i] = b
				h := hashWord(word)
				require.Empty(t, seen[h], "%x", word)
				seen[h] = string(word)
			}
		}
	}
}
