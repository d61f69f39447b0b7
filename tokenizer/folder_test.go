package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// oldFiles writes what a model had before tokenizer.json: the vocabulary and the merges of a recorded tokenizer, and other files.
func oldFiles(t *testing.T, name string, files map[string]string) string {
	var recorded struct {
		Model struct {
			Vocab  map[string]int
			Merges [][2]string
		}
	}
	require.NoError(t, json.Unmarshal(unpack(t, name+".json.zst"), &recorded))
	folder := t.TempDir()
	write := func(name, content string) {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
	}
	vocab := recorded.Model.Vocab
	if len(recorded.Model.Merges) == 0 {
		lines := make([]string, len(vocab))
		for token, id := range vocab {
			lines[id] = token
		}
		write("vocab.txt", strings.Join(lines, "\n")+"\n")
	} else {
		data, err := json.Marshal(vocab)
		require.NoError(t, err)
		write("vocab.json", string(data))
		merges := "#version: 0.2\n"
		for _, m := range recorded.Model.Merges {
			merges += m[0] + " " + m[1] + "\n"
		}
		write("merges.txt", merges)
	}
	for name, content := range files {
		write(name, content)
	}
	return folder
}

// TestFolders holds what is made of vocab.txt, of vocab.json with merges.txt, and of the files beside them, to the answers of the
// tokenizer.json of the same vocabulary; models/scripts/check_folders.py holds transformers to the same answers.
func TestFolders(t *testing.T) {
	const mask = `"mask_token": {"content": "<mask>", "lstrip": true, "rstrip": false, "normalized": false, "single_word": false}`
	cases := recordedCases(t)
	for name, c := range map[string]struct {
		recorded string
		files    map[string]string
	}{
		"BERT uncased": {"bert-uncased", nil},
		"BERT cased":   {"bert-cased", map[string]string{"tokenizer_config.json": `{"do_lower_case": false}`}},
		"BERT multilingual": {"bert-multilingual",
			map[string]string{"tokenizer_config.json": `{"tokenizer_class": "BertTokenizer", "do_lower_case": false}`}},
		"RoBERTa, special_tokens_map.json": {"roberta", map[string]string{"special_tokens_map.json": `{` + mask + `}`}},
		"RoBERTa, added_tokens.json": {"roberta",
			map[string]string{"special_tokens_map.json": `{` + mask + `, "cls_token": "<s>"}`, "added_tokens.json": `{"<mask>": 3000}`}},
		"RoBERTa, tokenizer_config.json": {"roberta",
			map[string]string{"tokenizer_config.json": `{"tokenizer_class": "RobertaTokenizerFast", ` + mask + `}`}},
		"RoBERTa with a space, class by pieces": {"roberta-prefix",
			map[string]string{"tokenizer_config.json": `{"add_prefix_space": true, ` + mask + `}`}},
		"Qwen, added_tokens_decoder": {"qwen", map[string]string{"tokenizer_config.json": `{"tokenizer_class": "Qwen2Tokenizer", ` +
			`"added_tokens_decoder": {
			"3000": {"content": "<|endoftext|>", "special": true}, "3001": {"content": "<|im_start|>", "special": true}, "3002": ` +
			`{"content": "<|im_end|>", "special": true}}}`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tok, err := Open(oldFiles(t, c.recorded, c.files))
			require.NoError(t, err)
			checkRecorded(t, tok, c.recorded, cases, 7, len(name))
		})
	}
}

// TestAddedTokensFile holds which attributes a token of added_tokens.json has: those of the file that names it, else of an ordinary one.
func TestAddedTokensFile(t *testing.T) {
	folder := oldFiles(t, "gpt2", map[string]string{
		"tokenizer_config.json": `{"tokenizer_class": "GPT2Tokenizer", "padding_side": "left", "truncation_side": "left", ` +
			`"model_max_length": 6}`,
		"special_tokens_map.json": `{"pad_token": "<|pad|>", "sep_token": {"content": "<|sep|>", "rstrip": true}}`,
		"added_tokens.json":       `{"<|sep|>": 3002, "<|pad|>": 3001, "<|word|>": 3003}`,
	})
	tok, err := Open(folder)
	require.NoError(t, err)
	assert.Equal(t, 3004, tok.Size())
	assert.Equal(t, 6, tok.MaxLength())
	for role, want := range map[string]int64{"pad": 3001, "sep": 3002} {
		_, id, ok := tok.Role(role)
		assert.True(t, ok)
		assert.Equal(t, want, id, role)
	}
	e := encode(t, tok, Text("a<|word|><|sep|>  b<|pad|>"), 0)
	text, err := tok.Decode(e.InputIDs, true)
	require.NoError(t, err)
	assert.Equal(t, "a<|word|>b", text, "special tokens are left out, and the white space after sep with it")
	all, err := tok.Decode(e.InputIDs, false)
	require.NoError(t, err)
	assert.Equal(t, "a<|word|><|sep|>b<|pad|>", all)

	// The sides are the files', and the caller's come first.
	long, short := "one two three four five six seven", "one"
	b, err := tok.Batch(Texts(long, short), tok.MaxLength())
	require.NoError(t, err)
	whole := encode(t, tok, Text(long), 0).InputIDs
	assert.Equal(t, whole[len(whole)-6:], b.InputIDs[:6], "cut at the left")
	n := len(encode(t, tok, Text(short), 0).InputIDs)
	assert.Equal(t, slices.Repeat([]int64{3001}, 6-n), b.InputIDs[6:12-n], "padded at the left, with the token that is named")
	assert.Equal(t, []int{0, 6 - n}, b.Start)
	b, err = tok.Batch(Texts(long, short), 6, Truncate(LongestFirst, Right), Pad(Right, 4))
	require.NoError(t, err)
	assert.Equal(t, 8, b.Length)
	assert.Equal(t, whole[:6], b.InputIDs[:6])
	assert.Equal(t, []int64{3001, 3001}, b.InputIDs[6:8])
	assert.Equal(t, []int{0, 0}, b.Start)
}
