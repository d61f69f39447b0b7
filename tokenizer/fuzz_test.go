package tokenizer

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/files"
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

// FuzzRecorded holds of any text, by tokenizers of each family: ids are below Size, spans are in the text, and a row that is cut has the
// first tokens of the uncut one.
func FuzzRecorded(f *testing.F) {
	for _, c := range recordedCases(f)[:60] {
		f.Add(c.text)
	}
	tokenizers := map[string]*Tokenizer{}
	for _, name := range []string{"bert-cased", "roberta", "modernbert", "llama3", "gpt4o", "xlm-roberta", "albert", "llama2", "gemma"} {
		tokenizers[name] = openRecorded(f, name)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for name, tok := range tokenizers {
			whole, err := tok.Encode(Text(text), 0, Spans())
			require.NoError(t, err, name)
			for i, o := range whole.Offsets {
				require.True(t, 0 <= o.Start && o.Start <= o.End && o.End <= len(text), "%s: %v", name, o)
				require.True(t, whole.InputIDs[i] < int64(tok.Size()), name)
			}
			plain := encode(t, tok, Text(text), 0)
			require.Equal(t, whole.InputIDs, plain.InputIDs, name)
			n, err := tok.Count(Text(text))
			require.NoError(t, err)
			require.Len(t, whole.InputIDs, n, name)
			_, err = tok.Decode(whole.InputIDs, true)
			require.NoError(t, err, name)
			cut := encode(t, tok, Text(text), 5)
			require.LessOrEqual(t, len(cut.InputIDs), 5, name)
			require.Equal(t, n > 5, cut.Truncated, name)
		}
	})
}

// FuzzOpen holds of any file that it opens or returns an error, and that what opens can encode and decode.
func FuzzOpen(f *testing.F) {
	for i, name := range []string{"tokenizer.json", "vocab.txt"} {
		data, err := os.ReadFile("testdata/" + name)
		require.NoError(f, err)
		f.Add(data, uint8(i))
	}
	f.Add(unpack(f, "llama2.model.zst")[:20000], uint8(2))
	f.Add([]byte(`{"<s>": 0, "</s>": 1, "a": 2, "b": 3, "ab": 4}`), uint8(3))
	for _, c := range []string{
		`{"model": {"type": "WordPiece", "vocab": {"[UNK]": 0}}, "normalizer": {"type": "BertNormalizer"}, "pre_tokenizer": {"type": ` +
			`"BertPreTokenizer"}}`,
		`{"added_tokens": [{"content": ""}], "model": {"vocab": {"\ud800": 1 , "" : 2}}}`,
		`{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"], "byte_fallback": true}, "pre_tokenizer": ` +
			`{"type": "Metaspace", "replacement": "_"}}`,
		`{"model": {"type": "Unigram", "unk_id": 0, "vocab": [["a", -1e3], ["b", 2]]}, "decoder": {"type": "Sequence", "decoders": ` +
			`[{"type": "Fuse"}]},
			"normalizer": {"type": "Precompiled", "precompiled_charsmap": "BAAAAAAEAAAAAA=="}}`,
		`{"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}, "pre_tokenizer": {"type": "Split", "pattern": {"Regex": ` +
			`"a|b"}, "behavior": "MergedWithNext"}}`,
	} {
		f.Add([]byte(c), uint8(0))
	}
	names := []string{"tokenizer.json", "vocab.txt", "spiece.model", "vocab.json"}
	f.Fuzz(func(t *testing.T, data []byte, kind uint8) {
		name := names[int(kind)%len(names)]
		var d *definition
		var err error
		if name == "vocab.json" { // the merges are a file beside it
			d, err = newByteLevel(data, []byte("#version: 0.2\na b\n"), &config{})
		} else {
			d, err = read(files.System{}, name, data, &config{})
		}
		if err != nil {
			assert.NotEmpty(t, err.Error())
			return
		}
		tok, err := d.build()
		if err != nil {
			assert.NotEmpty(t, err.Error())
			return
		}
		e, err := tok.Encode(Pair("Hello [MASK] wörld", "\xff漢ab"), 0, Spans())
		if err == nil {
			_, _ = tok.Decode(e.InputIDs, true)
		}
	})
}
