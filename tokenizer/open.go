package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// An Option changes what Open makes of the files.
type Option func(*settings)

// Lowercase says whether text is lower-cased, whatever the files say. Accents go with the case where the files do not say otherwise.
func Lowercase(on bool) Option { return func(s *settings) { s.lower = on } }

// Open reads a tokenizer.json, or a vocab.txt (any file not named .json, a token a line), or what a folder holds of them, the former
// first. Text is normalised as tokenizer.json says, or for vocab.txt as uncased BERT does it. A tokenizer_config.json in the same
// folder has the last word where it names a setting (do_lower_case, strip_accents, tokenize_chinese_chars), as in transformers; it also
// gives the maximum length of the model, the name of the padding token and, for vocab.txt, the other special tokens. Truncation and padding
// that tokenizer.json asks for are not followed: both are the caller's choice.
//
// An error names the file, and says what is supported if the file is a tokenizer of another kind.
func Open(path string, options ...Option) (*Tokenizer, error) {
	file, err := locate(path)
	if err != nil {
		return nil, fmt.Errorf("tokenizer %s: %w", path, err)
	}
	t, err := open(file, options)
	if err != nil {
		return nil, fmt.Errorf("tokenizer %s: %w", file, err)
	}
	return t, nil
}

// locate returns the tokenizer's file: path, or the one in the folder path.
func locate(path string) (string, error) {
	info, err := os.Stat(path)
	var missing *fs.PathError
	switch {
	case errors.As(err, &missing):
		return "", missing.Err
	case !info.IsDir():
		return path, nil
	}
	for _, name := range []string{"tokenizer.json", "vocab.txt"} {
		file := filepath.Join(path, name)
		if _, err := os.Stat(file); err == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("there is no tokenizer.json and no vocab.txt in it; %s", supported)
}

func open(file string, options []Option) (*Tokenizer, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	c, err := readConfig(filepath.Join(filepath.Dir(file), "tokenizer_config.json"))
	if err != nil {
		return nil, err
	}
	read := readVocab
	if strings.EqualFold(filepath.Ext(file), ".json") {
		read = readJSON
	}
	s, err := read(data, c)
	if err != nil {
		return nil, err
	}
	c.apply(s)
	for _, option := range options {
		option(s)
	}
	return s.build()
}

// A config is what counts of tokenizer_config.json.
type config struct {
	ModelMaxLength       *float64              `json:"model_max_length"` // 1e30 where the model has no limit
	DoLowerCase          *bool                 `json:"do_lower_case"`
	StripAccents         *bool                 `json:"strip_accents"`
	TokenizeChineseChars *bool                 `json:"tokenize_chinese_chars"`
	AddedTokens          map[string]addedToken `json:"added_tokens_decoder"` // by id

	Unk  tokenName `json:"unk_token"`
	Sep  tokenName `json:"sep_token"`
	Pad  tokenName `json:"pad_token"`
	Cls  tokenName `json:"cls_token"`
	Mask tokenName `json:"mask_token"`
}

// A tokenName is written "[PAD]" or {"content": "[PAD]", …}.
type tokenName string

func (n *tokenName) UnmarshalJSON(data []byte) error {
	if data[0] == '{' {
		var token addedToken
		err := json.Unmarshal(data, &token)
		*n = tokenName(token.Content)
		return err
	}
	return json.Unmarshal(data, (*string)(n))
}

// or returns the name, or another one where there is none.
func (n tokenName) or(other string) string {
	if n == "" {
		return other
	}
	return string(n)
}

// readConfig reads tokenizer_config.json; no file says nothing.
func readConfig(file string) (*config, error) {
	c := &config{}
	data, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c, nil
	case err != nil:
		return nil, err
	}
	if err := json.Unmarshal(data, c); err != nil {
		return nil, fmt.Errorf("%s beside it: %w", filepath.Base(file), err)
	}
	return c, nil
}

// longestRow is above the maximum length of any model: more stands for no limit.
const longestRow = 1 << 30

// apply changes the settings that the config names.
func (c *config) apply(s *settings) {
	if c.DoLowerCase != nil {
		s.lower = *c.DoLowerCase
	}
	if c.StripAccents != nil {
		s.strip = c.StripAccents
	}
	if c.TokenizeChineseChars != nil {
		s.chinese = *c.TokenizeChineseChars
	}
	if c.ModelMaxLength != nil && *c.ModelMaxLength >= 1 && *c.ModelMaxLength < longestRow {
		s.maxLength = int(*c.ModelMaxLength)
	}
}
