package tokenizer

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestConfigBesideJSON holds what a tokenizer_config.json changes of a tokenizer.json. models/scripts/compare_configs.py compares the same
// with two versions of transformers.
func TestConfigBesideJSON(t *testing.T) {
	const text = "Hello <mask> [MASK] É"
	for _, row := range []struct {
		name, tokenizer, config string
		options                 []Option
		want                    []string // tokens, from the first on
		last                    string   // the last token, if it matters
		notes                   int
	}{
		{name: "nothing", tokenizer: "roberta", config: `{}`, want: []string{"<s>", "H"}, last: "</s>"},
		{name: "prefix", tokenizer: "roberta", config: `{"tokenizer_class": "RobertaTokenizer", "add_prefix_space": true}`,
			want: []string{"<s>", "ĠH"}},
		{name: "prefix by default", tokenizer: "roberta-prefix", config: `{"tokenizer_class": "RobertaTokenizer"}`,
			want: []string{"<s>", "H"}},
		{name: "prefix of another class", tokenizer: "roberta",
			config: `{"tokenizer_class": "PreTrainedTokenizerFast", "add_prefix_space": true}`, want: []string{"<s>", "ĠH"}, notes: 1},
		{name: "prefix of the file", tokenizer: "roberta-prefix", config: `{"tokenizer_class": "PreTrainedTokenizerFast"}`,
			want: []string{"<s>", "ĠH"}, notes: 1},
		{name: "defaults of BERT", tokenizer: "bert-cased", config: `{"tokenizer_class": "BertTokenizerFast"}`,
			want: []string{"[CLS]", "he"}},
		{name: "cased", tokenizer: "bert-cased", config: `{"tokenizer_class": "BertTokenizer", "do_lower_case": false}`,
			want: []string{"[CLS]", "H"}},
		{name: "case of another class", tokenizer: "bert-cased",
			config: `{"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": true}`, want: []string{"[CLS]", "H"}},
		{name: "end token", tokenizer: "qwen", config: `{"tokenizer_class": "Qwen2TokenizerFast", "add_eos_token": true}`,
			want: []string{"H"}, last: "ī"},
		{name: "end token of own code", tokenizer: "qwen",
			config: `{"add_eos_token": true, "eos_token": "<|endoftext|>", "auto_map": {"AutoTokenizer": ["a.B", "a.C"]}}`,
			want:   []string{"H"}, last: "<|endoftext|>", notes: 1},
		{name: "end token of last-token models", tokenizer: "qwen",
			config:  `{"tokenizer_class": "Qwen2TokenizerFast", "add_eos_token": true, "eos_token": "<|endoftext|>"}`,
			options: []Option{AppendEnd()}, want: []string{"H"}, last: "<|endoftext|>", notes: 1},
		{name: "end token that is there", tokenizer: "roberta",
			config: `{"add_eos_token": true, "eos_token": "</s>", "auto_map": {"AutoTokenizer": "a.B"}}`,
			want:   []string{"<s>", "H"}, last: "</s>"},
		{name: "split special tokens", tokenizer: "roberta", config: `{"split_special_tokens": true}`,
			want: []string{"<s>", "H", "el", "lo", "Ġ<"}},
		{name: "attributes", tokenizer: "roberta", config: `{"added_tokens_decoder": {"3000": {"content": "<mask>", "special": true, ` +
			`"lstrip": false}}}`, want: []string{"<s>", "H", "el", "lo", "Ġ", "<mask>"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			folder := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(folder, "tokenizer.json"), unpack(t, row.tokenizer+".json.zst"), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(folder, "tokenizer_config.json"), []byte(row.config), 0o600))
			tok, err := Open(folder, row.options...)
			require.NoError(t, err)
			e, err := tok.Encode(Text(text), 0)
			require.NoError(t, err)
			var tokens []string
			for _, id := range e.InputIDs {
				token, _ := tok.Token(id)
				tokens = append(tokens, token)
			}
			require.Equal(t, row.want, tokens[:len(row.want)], tokens)
			if row.last != "" {
				require.Equal(t, row.last, tokens[len(tokens)-1], tokens)
			}
			require.Len(t, tok.Notes(), row.notes)
		})
	}
}
