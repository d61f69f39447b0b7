package tokenizer

import (
	"bufio"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/fixtures"
)

// A testCase is a line of testdata/cases.jsonl or of the fixtures, which name their fields a little differently.
type testCase struct {
	Variant   string
	Text      string
	Pair      *string
	MaxLength int `json:"max_length"`
	IDs       []int64
	Types     []int64
	TypeIDs   []int64 `json:"type_ids"`
}

func (c testCase) input() Input {
	if c.Pair != nil {
		return Pair(c.Text, *c.Pair)
	}
	return Text(c.Text)
}

func (c testCase) check(t *testing.T, tok *Tokenizer) {
	t.Helper()
	got, err := tok.Encode(c.input(), c.MaxLength)
	assert.NoError(t, err)
	types := append(c.Types, c.TypeIDs...)
	if c.TypeIDs == nil && c.Types == nil {
		types = make([]int64, len(c.IDs))
	}
	assert.Equal(t, c.IDs, got.InputIDs, "%+q", c)
	assert.Equal(t, types, got.TokenTypeIDs, "%+q", c)
}

func readCases(t *testing.T, file string) []testCase {
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	var cases []testCase
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c testCase
		require.NoError(t, json.Unmarshal(lines.Bytes(), &c))
		cases = append(cases, c)
	}
	require.NoError(t, lines.Err())
	require.NotEmpty(t, cases)
	return cases
}

func readObject(t testing.TB, file string) map[string]json.RawMessage {
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	object := map[string]json.RawMessage{}
	require.NoError(t, json.Unmarshal(data, &object))
	return object
}

// writeJSON writes value to a file of that name in a new folder and returns its path.
func writeJSON(t testing.TB, name string, value any) string {
	data, err := json.Marshal(value)
	require.NoError(t, err)
	return writeFile(t, name, string(data))
}

func writeFile(t testing.TB, name, content string) string {
	file := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	return file
}

// openVariants opens testdata/tokenizer.json with each of the changes of testdata/variants.json.
func openVariants(t testing.TB) map[string]*Tokenizer {
	base := readObject(t, "testdata/tokenizer.json")
	tokenizers := map[string]*Tokenizer{}
	for name, changes := range readObject(t, "testdata/variants.json") {
		variant := maps.Clone(base)
		require.NoError(t, json.Unmarshal(changes, &variant))
		tok, err := Open(writeJSON(t, "tokenizer.json", variant))
		require.NoError(t, err, name)
		tokenizers[name] = tok
	}
	return tokenizers
}

func TestCases(t *testing.T) {
	tokenizers := openVariants(t)
	for _, c := range readCases(t, "testdata/cases.jsonl") {
		c.check(t, tokenizers[c.Variant])
	}
}

func TestMiniLM(t *testing.T) {
	folder := fixtures.Dir(t, "tokenizer")
	for _, file := range []string{"tokenizer.json", "vocab.txt"} {
		tok, err := Open(filepath.Join(folder, file))
		require.NoError(t, err)
		assert.Equal(t, 512, tok.MaxLength())
		assert.Equal(t, 30522, tok.Size())
		for _, name := range []string{"minilm-cases.jsonl", "minilm-truncated.jsonl"} {
			for _, c := range readCases(t, filepath.Join(folder, name)) {
				c.check(t, tok)
			}
		}
	}
}

// open opens a file of testdata.
func openTestdata(t testing.TB, name string) *Tokenizer {
	tok, err := Open(filepath.Join("testdata", name))
	require.NoError(t, err)
	return tok
}

func encode(t testing.TB, tok *Tokenizer, input Input, maxLength int) Encoding {
	e, err := tok.Encode(input, maxLength)
	require.NoError(t, err)
	return e
}

func TestVocabTxt(t *testing.T) {
	tok := openTestdata(t, "vocab.txt")
	for _, c := range readCases(t, "testdata/cases.jsonl") {
		// tokenizer.json has another limit for the length of a word.
		if c.Variant == "uncased" && !strings.Contains(c.Text, "aaaa") {
			c.check(t, tok)
		}
	}
}

// TestFolder holds that of a folder's files tokenizer.json comes first.
func TestFolder(t *testing.T) {
	vocab, err := os.ReadFile("testdata/vocab.txt")
	require.NoError(t, err)
	folder := filepath.Dir(writeFile(t, "vocab.txt", string(vocab)))
	tok, err := Open(folder)
	require.NoError(t, err)
	assert.Equal(t, openTestdata(t, "tokenizer.json").Size(), tok.Size())

	require.NoError(t, os.WriteFile(filepath.Join(folder, "tokenizer.json"), []byte("{}"), 0o600))
	_, err = Open(folder)
	assert.ErrorContains(t, err, "tokenizer.json")
}

func TestInvalidUTF8(t *testing.T) {
	tok := openTestdata(t, "tokenizer.json")
	assert.Equal(t, encode(t, tok, Text("hello [MASK] é"), 0), encode(t, tok, Text("\xffhel\xc3lo\xe2\x82 [MASK]\xf0\x9f é\xc3"), 0))

	// What is not cleaned shows each byte as U+FFFD.
	base := readObject(t, "testdata/tokenizer.json")
	base["normalizer"] = json.RawMessage(`{"type": "BertNormalizer", "clean_text": false}`)
	raw, err := Open(writeJSON(t, "tokenizer.json", base))
	require.NoError(t, err)
	assert.Equal(t, encode(t, raw, Text("\ufffd\ufffd \ufffd"), 0), encode(t, raw, Text("\xe2\x82 \xff"), 0))
}

func TestBatch(t *testing.T) {
	tok := openTestdata(t, "tokenizer.json")
	inputs := []Input{Text("hello"), Pair("hello world", "fox"), Text(""), Text("the quick brown fox hello world")}
	b, err := tok.Batch(inputs, 6)
	require.NoError(t, err)
	assert.Equal(t, []int{4, 6, 1}, []int{b.Sequences, b.Length, b.Truncated})
	cls, sep, hello := int64(2), int64(3), encode(t, tok, Text("hello"), 0).InputIDs[1]
	assert.Equal(t, []int64{cls, hello, sep, 0, 0, 0}, b.InputIDs[:6])
	assert.Equal(t, []int64{
		1, 1, 1, 0, 0, 0,
		1, 1, 1, 1, 1, 1,
		1, 1, 0, 0, 0, 0,
		1, 1, 1, 1, 1, 1,
	}, b.AttentionMask)
	assert.Equal(t, []int64{
		0, 0, 0, 0, 0, 0,
		0, 0, 0, 0, 1, 1,
		0, 0, 0, 0, 0, 0,
		0, 0, 0, 0, 0, 0,
	}, b.TokenTypeIDs)

	none, err := tok.Batch(nil, 6)
	require.NoError(t, err)
	assert.Equal(t, Batch{InputIDs: []int64{}, AttentionMask: []int64{}, TokenTypeIDs: []int64{}, Encodings: []Encoding{},
		Start: []int{}}, *none)

	_, err = tok.Batch(Texts("hello"), 1)
	assert.EqualError(t, err, "tokenizer: a maximum length of 1 has no room for the 2 special tokens of a sequence")
}

// TestSameAddedToken holds that of two added tokens with the same normal form the first counts, and that an empty one is never found.
func TestSameAddedToken(t *testing.T) {
	base := readObject(t, "testdata/tokenizer.json")
	base["added_tokens"] = json.RawMessage(`[{"id": 900, "content": "Ab", "normalized": true}, {"id": 901, "content": "aB", ` +
		`"normalized": true},
		{"id": 902, "content": "\u0302", "normalized": true}]`)
	tok, err := Open(writeJSON(t, "tokenizer.json", base))
	require.NoError(t, err)
	assert.Equal(t, []int64{2, 900, 900, 900, 3}, encode(t, tok, Text("AB\u0302 aBAb"), 0).InputIDs)
}

// TestLongText holds that a long text, which is normalised part by part, is not cut inside an added token.
func TestLongText(t *testing.T) {
	tok := openVariants(t)["added"]
	one := encode(t, tok, Text("New York"), 0).InputIDs
	require.Len(t, one, 3)
	many := encode(t, tok, Text(strings.Repeat("New York ", 2*chunk)), 0).InputIDs
	require.Len(t, many, 2*chunk+2)
	for _, id := range many[1 : len(many)-1] {
		require.Equal(t, one[1], id)
	}
}

// TestCutEarly holds that reading no further than the limit changes nothing: a row is what is left of the uncut row.
func TestCutEarly(t *testing.T) {
	short := "hello the fox"
	long := strings.Repeat("the quick  brown [MASK] un-wanted, New York! ", 400)
	longer := long + short
	variants := openVariants(t)
	for _, tok := range []*Tokenizer{variants["uncased"], variants["added"]} {
		ids := func(text string) []int64 {
			row := encode(t, tok, Text(text), 0).InputIDs
			return row[1 : len(row)-1]
		}
		for _, pair := range [][2]string{{short, long}, {long, short}, {long, longer}, {longer, long}, {long, long}} {
			a, b := ids(pair[0]), ids(pair[1])
			for _, room := range []int{0, 1, 2, 5, 6, 7, 508, 509, len(b) - 1, len(b), len(b) + 1, len(a) + len(b) - 1, len(a) + len(b)} {
				n, m := truncate(len(a), len(b), room)
				e := encode(t, tok, Pair(pair[0], pair[1]), room+3)
				assert.Equal(t, append(append(append([]int64{2}, a[:n]...), 3), append(b[:m:m], 3)...), e.InputIDs)
				assert.Equal(t, n < len(a) || m < len(b), e.Truncated)

				n = min(room, len(a))
				e = encode(t, tok, Text(pair[0]), room+2)
				assert.Equal(t, append(append([]int64{2}, a[:n]...), 3), e.InputIDs)
				assert.Equal(t, n < len(a), e.Truncated)
			}
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	tok := openTestdata(t, "tokenizer.json")
	cases := readCases(t, "testdata/cases.jsonl")
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for _, c := range cases {
				if c.Variant == "uncased" {
					c.check(t, tok)
				}
			}
		})
	}
	group.Wait()
}

// TestSplit: of words that the caller finds each is encoded as a text alone, and keeps its position in the text.
func TestSplit(t *testing.T) {
	const text = "the  Zürich-based naïve café,\u200bx"
	var words []Span
	for _, word := range []string{"the", "Zürich-based", "\u200b", "naïve", "café,", "x"} {
		at := strings.Index(text, word)
		words = append(words, Span{at, at + len(word)})
	}
	for _, name := range recordedNames(t) {
		tok := openRecorded(t, name)
		e, err := tok.Encode(Split(text, words), 0, Spans())
		require.NoError(t, err)
		n, err := tok.Count(Split(text, words))
		require.NoError(t, err)
		require.Len(t, e.InputIDs, n)
		at := slices.Index(e.Special, false)
		for i, w := range words {
			alone, err := tok.Encode(Text(text[w.Start:w.End]), 0, Spans())
			require.NoError(t, err)
			for k, id := range alone.InputIDs {
				if alone.Special[k] {
					continue
				}
				require.Equal(t, id, e.InputIDs[at], "%s, word %d", name, i)
				require.Equal(t, i, e.Words[at], name)
				o := alone.Offsets[k]
				require.Equal(t, Span{w.Start + o.Start, w.Start + o.End}, e.Offsets[at], "%s, word %d", name, i)
				require.Equal(t, utf8.RuneCountInString(text[:e.Offsets[at].Start]), e.CharOffsets[at].Start, name)
				at++
			}
		}
		require.True(t, at == len(e.InputIDs) || e.Special[at], name)
		_, err = tok.Encode(Split(text, []Span{{3, 2}}), 0)
		require.ErrorContains(t, err, "word 0 is from 3 to 2", name)
	}
}
