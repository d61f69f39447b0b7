package tokenizer

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzEncode holds of any text, by every variant: an id is below Size, a row is no longer than asked for, it is cut only if it has to be,
// and an uncut one is the same each time.
func FuzzEncode(f *testing.F) {
	for _, text := range []string{
		"", " ", "\x00", "\xff\xfe\xc3", "\xed\xa0\x80", "\ufffd", "\u200b\u00ad\ufeff", "[MASK][CLS] [SEP]x[MAS", "##a ##",
		"<l>  <r> New  York words", "İIıi ΣΑΣ ß ẞ ǅ ŉ", "e\u0301\u0316\u0327 \u0344 \u1b44\u302e\U0001d160\U0001d16d\U0001d165",
		"漢字豈𠀀丽", "한국어 각ᄒ\u1161\u11ab", "हिन्दी क़", "שָׁלוֹם العربية", "ภาษาไทย", "🤗👍🏽👨\u200d👩\u200d👧", "ᏣᎳᎩ ꭰ",
		"\u0c4d\u0d4d\u1039\u17d2", "\U00010400\U0001e900\U0001f12e\U000e0041\U0010ffff",
	} {
		f.Add(text, "hello "+text, uint8(5))
	}
	tokenizers := openVariants(f)
	f.Fuzz(func(t *testing.T, text, second string, maxLength uint8) {
		for name, tok := range tokenizers {
			for _, input := range []Input{Text(text), Pair(text, second)} {
				whole := encode(t, tok, input, 0)
				require.Len(t, whole.TokenTypeIDs, len(whole.InputIDs), name)
				for _, id := range whole.InputIDs {
					require.True(t, 0 <= id && id < int64(tok.Size()), "%s: %d", name, id)
				}
				again, err := tok.Encode(input, int(maxLength)+3)
				if err != nil {
					continue // a template of four special tokens has no room
				}
				require.LessOrEqual(t, len(again.InputIDs), int(maxLength)+3, name)
				require.Equal(t, again.Truncated, len(again.InputIDs) < len(whole.InputIDs), name)
				if !again.Truncated {
					require.Equal(t, whole, again, name)
				}
			}
		}
	})
}

// FuzzOpen holds of any file that it opens or gives an error, and that what opens can encode.
func FuzzOpen(f *testing.F) {
	for _, name := range []string{"tokenizer.json", "vocab.txt"} {
		data, err := os.ReadFile("testdata/" + name)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Add([]byte(`{"model": {"type": "WordPiece", "vocab": {"[UNK]": 0}}, "normalizer": {"type": "BertNormalizer"}, "pre_tokenizer": {"type": "BertPreTokenizer"}}`))
	f.Add([]byte(`{"added_tokens": [{"content": ""}], "model": {"vocab": {"\ud800": 1 , "" : 2}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, read := range []func([]byte, *config) (*definition, error){func(data []byte, _ *config) (*definition, error) { return readTokenizerJSON(data) }, readVocab} {
			s, err := read(data, &config{})
			if err != nil {
				assert.NotEmpty(t, err.Error())
				continue
			}
			tok, err := s.build()
			if err != nil {
				assert.NotEmpty(t, err.Error())
				continue
			}
			encode(t, tok, Pair("Hello [MASK] wörld", "\xff漢"), 0)
		}
	})
}
