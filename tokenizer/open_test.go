package tokenizer

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// row returns the ids of tokens of testdata/vocab.txt between [CLS] and [SEP].
func row(t *testing.T, tokens string) []int64 {
	data, err := os.ReadFile("testdata/vocab.txt")
	require.NoError(t, err)
	vocab := strings.Split(string(data), "\n")
	var ids []int64
	for _, token := range strings.Fields("[CLS] " + tokens + " [SEP]") {
		i := slices.Index(vocab, token)
		require.GreaterOrEqual(t, i, 0, token)
		ids = append(ids, int64(i))
	}
	return ids
}

// openBeside opens a file of testdata that has a tokenizer_config.json beside it.
func openBeside(t *testing.T, name, config string, options ...Option) (*Tokenizer, error) {
	data, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	file := writeFile(t, name, string(data))
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(file), "tokenizer_config.json"), []byte(config), 0o600))
	return Open(file, options...)
}

func TestConfig(t *testing.T) {
	const text, uncased, cased, kept = "É é漢字", "e e 漢 字", "É é 漢 字", "é é 漢 字"
	for _, c := range []struct {
		config  string
		options []Option
		tokens  string
		max     int
	}{
		{config: `{}`, tokens: uncased},
		{config: `{"do_lower_case": true}`, tokens: uncased},
		{config: `{"do_lower_case": false}`, tokens: cased},
		{config: `{"strip_accents": false}`, tokens: kept},
		{config: `{"strip_accents": null, "do_lower_case": null}`, tokens: uncased},
		{config: `{"tokenize_chinese_chars": false}`, tokens: "e e ##漢 ##字"},
		{config: `{}`, options: []Option{Lowercase(false)}, tokens: cased},
		{config: `{"do_lower_case": false}`, options: []Option{Lowercase(true)}, tokens: uncased},
		{config: `{"model_max_length": 512}`, tokens: uncased, max: 512},
		{config: `{"model_max_length": 1000000000000000019884624838656}`, tokens: uncased},
		{config: `{"model_max_length": null}`, tokens: uncased},
		{config: `{"model_max_length": -1}`, tokens: uncased},
	} {
		for _, name := range []string{"tokenizer.json", "vocab.txt"} {
			tok, err := openBeside(t, name, c.config, c.options...)
			require.NoError(t, err)
			assert.Equal(t, row(t, c.tokens), encode(t, tok, Text(text), 0).InputIDs, "%s %s", name, c.config)
			assert.Equal(t, c.max, tok.MaxLength(), "%s %s", name, c.config)
		}
	}
}

// TestNames renames the special tokens and adds tokens.
func TestNames(t *testing.T) {
	const names = `"pad_token": "world", "unk_token": {"content": "fox"}, "cls_token": "i", "sep_token": "ma", "mask_token": null`
	tok, err := openBeside(t, "vocab.txt", `{`+names+`, "added_tokens_decoder": {"1000": {"content": "<x>", "lstrip": true}}}`)
	require.NoError(t, err)
	assert.Equal(t, 1001, tok.Size())
	batch, err := tok.Batch(Texts("x <x>a ☃", ""), 0)
	require.NoError(t, err)
	want := row(t, "i x [PAD] a fox ma i ma world world world world")
	want = want[1 : len(want)-1]
	want[2] = 1000
	assert.Equal(t, want, batch.InputIDs)

	tok, err = openBeside(t, "vocab.txt", `{"added_tokens_decoder": {"1000": {"content": "a"}}}`)
	require.NoError(t, err)
	require.Len(t, tok.Notes(), 1)
	assert.Contains(t, tok.Notes()[0], `the added token "a" has the id `)
	assert.Less(t, tok.Size(), 1000)
}

func TestBadFiles(t *testing.T) {
	base := readObject(t, "testdata/tokenizer.json")
	// changed is tokenizer.json with another value of one part.
	changed := func(part, value string) string {
		object := maps.Clone(base)
		object[part] = json.RawMessage(value)
		return writeJSON(t, "tokenizer.json", object)
	}
	model := func(vocab string) string {
		return changed("model", `{"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "vocab": `+vocab+`}`)
	}
	processing := func(rest string) string { return changed("post_processor", `{"type": `+rest+`}`) }
	template := func(single, pair string) string {
		return processing(`"TemplateProcessing", "single": [` + single + `], "pair": [` + pair +
			`], "special_tokens": {"[CLS]": {"ids": [2]}, "[SEP]": {"ids": [999]}}`)
	}
	bpe := func(vocab, merges string) string {
		return changed("model", `{"type": "BPE", "vocab": `+vocab+`, "merges": `+merges+`}`)
	}
	const bert = `{"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}`
	const a, b = `{"Sequence": {"id": "A", "type_id": 0}}`, `{"Sequence": {"id": "B", "type_id": 0}}`
	special := func(name string) string { return `{"SpecialToken": {"id": "` + name + `", "type_id": 0}}` }

	for name, c := range map[string]struct{ file, want string }{
		"empty folder":  {t.TempDir(), "it has no tokenizer.json, no vocab.txt, no vocab.json,"},
		"empty":         {writeFile(t, "tokenizer.json", ""), "invalid JSON: at byte 0: the file ends, want '{'"},
		"cut off":       {writeFile(t, "tokenizer.json", `{"model": {"type": "Wor`), "the file ends inside a string"},
		"more than one": {writeFile(t, "tokenizer.json", `{"model": {}} 1`), "more follows the end"},
		"another JSON":  {writeFile(t, "config.json", `{"hidden_size": 384}`), "it has no model"},
		"no UTF-8":      {writeFile(t, "tokenizer.json", "{\"\xff\": 1}"), "it is not UTF-8"},
		"another type":  {writeFile(t, "tokenizer.json", `{"model": 3}`), "the model is not an object"},
		"unknown model": {changed("model", `{"type": "Trigram", "vocab": {"a": 0}}`),
			`unknown model "Trigram"; known are BPE, Unigram, WordLevel and WordPiece`},
		"unknown normalizer": {changed("normalizer", `{"type": "NFX"}`),
			`unknown normalizer "NFX"; known are BertNormalizer, ByteLevel, Lowercase, NFC,`},
		"nested normalizer": {changed("normalizer",
			`{"type": "Sequence", "normalizers": [{"type": "Sequence", "normalizers": [{"type": "X"}]}]}`), `unknown normalizer "X"`},
		"deep normalizer": {changed("normalizer", strings.Repeat(`{"type": "Sequence", "normalizers": [`, 1000)+strings.Repeat(`]}`,
			1000)), "normalizer Sequence: nested more than 32 deep"},
		"pre_tokenizer": {changed("pre_tokenizer", `{"type": "Morphemes"}`), `unknown pre_tokenizer "Morphemes"; known are`},
		"behavior": {changed("pre_tokenizer", `{"type": "Split", "pattern": {"String": "a"}, "behavior": "Gone"}`),
			`pre_tokenizer Split: unknown behavior "Gone"; known are Contiguous, Isolated,`},
		"no pattern": {changed("pre_tokenizer", `{"type": "Split", "pattern": {}, "behavior": "Isolated"}`),
			`pre_tokenizer Split: its pattern is neither a String nor a Regex`},
		"pattern": {changed("pre_tokenizer", `{"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Isolated"}`),
			`pre_tokenizer Split: invalid regular expression: unmatched (`},
		"replacement": {changed("pre_tokenizer", `{"type": "Metaspace", "replacement": "__"}`),
			`pre_tokenizer Metaspace: invalid replacement "__": want one character`},
		"post_processor": {processing(`"Rows"`), `unknown post_processor "Rows"; known are BertProcessing, ByteLevel,`},
		"decoder":        {changed("decoder", `{"type": "Rot13"}`), `unknown decoder "Rot13"; known are BPEDecoder,`},
		"no cls":         {processing(`"BertProcessing", "sep": ["[SEP]", 3]`), "post_processor BertProcessing: it lacks cls or sep"},
		"odd sep": {processing(`"RobertaProcessing", "cls": ["[CLS]", 2], "sep": ["[SEP]"]`),
			`["[SEP]"] is not a token and its id`},
		"template": {template(special("[CLS]"), a+","+b),
			"post_processor TemplateProcessing: single: it must hold each of its 1 texts once"},
		"template of a pair": {template(a, a+","+a), "post_processor TemplateProcessing: pair: it must hold each of its 2 texts once"},
		"pair alone":         {template(b, a+","+b), `single: sequence "B" has no text`},
		"unknown piece":      {template(a+`,{"Other": {}}`, a), "single: a piece is neither a SpecialToken nor a Sequence"},
		"unknown special":    {template(a+","+special("[EOS]"), a), `single: special token "[EOS]" is not among special_tokens`},
		"id too large": {template(a+","+special("[SEP]"), a+","+b),
			"post_processor adds the id 999, but the ids of the vocabulary end at 253"},
		"two templates": {changed("post_processor", `{"type": "Sequence", "processors": [`+bert+`, `+bert+`]}`),
			"post_processor Sequence: two of its components add special tokens"},
		"no vocabulary": {model(`null`), "model: the vocabulary is neither an object of tokens and ids nor an array"},
		"negative id": {model(`{"[UNK]": 0, "a": -1}`),
			`the vocabulary maps the token "a" to the id -1; an id must be an integer from 0 to below 8388608`},
		"fraction": {model(`{ "\"x" : 0.5 }`), `maps the token "\"x" to the id 0.5;`},
		"huge id":  {model(`{"[UNK]": 2147483648}`), `the id 2147483648;`},
		"large id": {model(`{"[UNK]": 8388608}`),
			`model WordPiece: the token "[UNK]" has the id 8388608; an id is at least 0 and less than 8388608`},
		"same id": {model(`{"[UNK]": 0, "a": 1, "b": 1}`), `model WordPiece: the tokens "a" and "b" have the same id 1`},
		"object":  {model(`{"[UNK]": {"}": 1}}`), `the token "[UNK]" to the id {"`},
		"no unknown token": {model(`{"a": 0}`),
			`model WordPiece: the vocabulary of 1 tokens lacks "[UNK]", the token of unknown words`},
		"merge":          {bpe(`{"a": 0, "b": 1}`, `["a b"]`), `model BPE: merge 0, of "a" and "b": the vocabulary lacks "ab"`},
		"merge of three": {bpe(`{"a": 0}`, `[["a", "a", "a"]]`), `model: merge 0 is of 3 tokens; want 2`},
		"merge of one":   {bpe(`{"a": 0}`, `["a"]`), `model: merge 0, "a": want two tokens with a space between`},
		"no score":       {changed("model", `{"type": "Unigram", "unk_id": 0, "vocab": [["a"]]}`), `want ','`},
		"unk_id": {changed("model", `{"type": "Unigram", "unk_id": 1, "vocab": [["a", -1.5]]}`),
			`model Unigram: unk_id 1 is not in the vocabulary of 1 pieces`},
		"charsmap": {changed("normalizer", `{"type": "Precompiled", "precompiled_charsmap": "AAQAAAAA"}`),
			"normalizer Precompiled: its charsmap has a trie of 1024 bytes, in a file of 2"},
		"outside": {changed("normalizer", `{"type": "Precompiled", "precompiled_charsmap": "BAAAAAAAAHwA"}`),
			"normalizer Precompiled: its charsmap points outside of its trie"},
		"added at -1": {changed("added_tokens", `[{"id": -1, "content": "new"}]`),
			`added_tokens: the token "new" has the id -1; an id is at least 0`},
		"a million merges": {bpe(`{"a": 0, "b": 1}`, `[`+strings.Repeat(`"a b", `, 1_000_000)+`"a b"]`),
			`model BPE: merge 0, of "a" and "b": the vocabulary lacks "ab"`},
		"no protobuf": {writeFile(t, "spiece.model", "pieces: a b c"), "it is not a SentencePiece file"},
		"cut-off protobuf": {writeFile(t, "tokenizer.model", string(unpack(t, "llama2.model.zst")[:5000])),
			"it is not a SentencePiece file"},
		"no pieces":        {writeFile(t, "sentencepiece.bpe.model", ""), "it is not a SentencePiece file: it has no pieces"},
		"no line":          {writeFile(t, "vocab.txt", ""), `its 0 lines lack "[CLS]" or "[SEP]"`},
		"binary vocab.txt": {writeFile(t, "vocab.txt", "[CLS]\n\x00\n"), "it is not a text file"},
		"merges": {writeFile(t, "vocab.txt", "#version: 0.2\ni n\n"),
			`its 2 lines lack "[CLS]" or "[SEP]", which begin and end a sequence`},
		"no [UNK]": {writeFile(t, "vocab.txt", "[CLS]\n[SEP]\n"), `the vocabulary of 2 tokens lacks "[UNK]"`},
	} {
		tok, err := Open(c.file)
		require.Nil(t, tok, name)
		assert.ErrorContains(t, err, c.want, name)
		assert.ErrorContains(t, err, filepath.Base(c.file), name)
	}

	_, err := Open(filepath.Join(t.TempDir(), "tokenizer.json"))
	assert.ErrorIs(t, err, fs.ErrNotExist)
	_, err = openBeside(t, "vocab.txt", `{"model_max_length": "long"}`)
	assert.ErrorContains(t, err, "tokenizer_config.json beside it: json: cannot unmarshal string")
	_, err = openBeside(t, "vocab.txt", `{"added_tokens_decoder": {"x": {}}}`)
	assert.ErrorContains(t, err, `tokenizer_config.json beside it: added_tokens_decoder: "x" is not an id`)
}
