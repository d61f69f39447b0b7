package tokenizer

import (
	"fmt"
	"hash/crc32"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTables holds that tables.txt has the classes that are named, each with characters.
func TestTables(t *testing.T) {
	fillClasses()
	seen := map[string]class{}
	for line := range strings.Lines(tables) {
		if name, _, heading := strings.Cut(line, ": "); heading && line[0] != '#' {
			seen[name] = classNames[name]
		}
	}
	assert.Equal(t, classNames, seen)
	for name, c := range classNames {
		count := 0
		c.each(func(r rune) {
			require.NotZero(t, classOf(r)&c)
			count++
		})
		assert.NotZero(t, count, name)
	}
}

// TestEveryCodePoint holds that each code point is normalised and split as tokenizers does it: testdata/codepoints.txt has a checksum for
// each 4096 of them, made by testdata/unicode.py.
func TestEveryCodePoint(t *testing.T) {
	fillClasses()
	normalizers := []*bertNormalizer{
		newBertNormalizer(true, false, false, false),
		newBertNormalizer(false, true, false, false),
		newBertNormalizer(false, false, true, false),
		newBertNormalizer(false, false, false, true),
		newBertNormalizer(true, true, true, true),
	}
	strip := normalizers[2]
	var x text
	apply := func(dst []byte, n normalizer, s string) []byte {
		x.reset(s, 0, false)
		if err := n.normalize(&x); err != nil {
			t.Fatal(err)
		}
		return append(dst, x.bytes...)
	}

	data, err := os.ReadFile("testdata/codepoints.txt")
	require.NoError(t, err)
	blocks := 0
	for line := range strings.Lines(string(data)) {
		var first rune
		var want uint32
		if _, err := fmt.Sscanf(line, "%x %x", &first, &want); err != nil {
			continue // the heading
		}
		blocks++
		got := uint32(0)
		var shown []byte
		for r := first; r < first+0x1000; r++ {
			if 0xd800 <= r && r < 0xe000 {
				continue
			}
			shown = shown[:0]
			for _, n := range normalizers {
				shown = append(apply(shown, n, string(r)), 0)
			}
			// Two marks of music change positions, unless the character between them is a starter.
			shown = append(apply(shown, strip, "\U0001d16d"+string(r)+"\U0001d165"), 0)
			shown = append(shown, map[bool]string{true: "True", false: "False"}[isWord(r)]...)
			word := "a" + string(r) + "b"
			w := work{parts: []part{{0, int32(len(word)), none}}}
			w.reset(word, 0, false)
			if err := (bertWords{}).split(&w); err != nil {
				t.Fatal(err)
			}
			for _, p := range w.parts {
				shown = append(append(shown, 0), word[p.start:p.end]...)
			}
			got = crc32.Update(got, crc32.IEEETable, append(shown, '\n'))
		}
		assert.Equal(t, want, got, "block %U", first)
	}
	assert.Equal(t, 0x110, blocks)
}
