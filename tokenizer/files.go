package tokenizer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// supported ends the errors about files that are of no use here.
const supported = "supported are BERT WordPiece tokenizers: a vocab.txt, or a tokenizer.json with the model WordPiece, the normalizer " +
	"BertNormalizer, the pre_tokenizer BertPreTokenizer and the post_processor TemplateProcessing, BertProcessing or RobertaProcessing"

// tokenizerFile is what counts of tokenizer.json.
type tokenizerFile struct {
	AddedTokens []addedToken `json:"added_tokens"`
	Normalizer  struct {
		Type               string `json:"type"`
		CleanText          *bool  `json:"clean_text"`
		HandleChineseChars *bool  `json:"handle_chinese_chars"`
		StripAccents       *bool  `json:"strip_accents"`
		Lowercase          *bool  `json:"lowercase"`
	} `json:"normalizer"`
	PreTokenizer struct {
		Type string `json:"type"`
	} `json:"pre_tokenizer"`
	PostProcessor *postProcessor `json:"post_processor"`
	Model         struct {
		Type     string          `json:"type"`
		Unknown  *string         `json:"unk_token"`
		Prefix   *string         `json:"continuing_subword_prefix"`
		MaxChars *uint32         `json:"max_input_chars_per_word"`
		Vocab    json.RawMessage `json:"vocab"`
	} `json:"model"`
}

// readJSON reads a tokenizer.json.
func readJSON(data []byte, c *config) (*settings, error) {
	var f tokenizerFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("not a tokenizer.json: %w; %s", err, supported)
	}
	// Old files leave the type of the model out.
	if f.Model.Type == "" && f.Model.Prefix != nil && f.Model.MaxChars != nil {
		f.Model.Type = "WordPiece"
	}
	for _, part := range []struct{ name, kind, want string }{
		{"model", f.Model.Type, "WordPiece"},
		{"normalizer", f.Normalizer.Type, "BertNormalizer"},
		{"pre_tokenizer", f.PreTokenizer.Type, "BertPreTokenizer"},
	} {
		if part.kind != part.want {
			return nil, fmt.Errorf("its %s has the type %q; %s", part.name, part.kind, supported)
		}
	}
	s := defaults()
	set(&s.clean, f.Normalizer.CleanText)
	set(&s.chinese, f.Normalizer.HandleChineseChars)
	set(&s.lower, f.Normalizer.Lowercase)
	s.strip = f.Normalizer.StripAccents
	set(&s.unknown, f.Model.Unknown)
	set(&s.prefix, f.Model.Prefix)
	set(&s.maxChars, f.Model.MaxChars)
	s.added = f.AddedTokens
	s.pad = c.Pad.or(s.pad)
	var err error
	if s.vocab, err = parseVocab(f.Model.Vocab); err != nil {
		return nil, err
	}
	if s.templates, err = f.PostProcessor.templates(); err != nil {
		return nil, fmt.Errorf("its post_processor: %w", err)
	}
	return s, nil
}

// set sets what a file names.
func set[T any](to *T, value *T) {
	if value != nil {
		*to = *value
	}
}

// parseVocab reads {"token": id, …}, which encoding/json has found to be sound. To unmarshal it into a map would take as long as all the
// rest of Open.
func parseVocab(data []byte) ([]entry, error) {
	const space = " \t\r\n"
	rest := string(data)
	take := func(mark string) bool {
		after, found := strings.CutPrefix(strings.TrimLeft(rest, space), mark)
		if found {
			rest = strings.TrimLeft(after, space)
		}
		return found
	}
	if !take("{") {
		return nil, errors.New("its vocabulary is not an object of tokens and ids")
	}
	var vocab []entry
	for strings.HasPrefix(rest, `"`) {
		end := 1
		for ; rest[end] != '"'; end++ {
			if rest[end] == '\\' {
				end++
			}
		}
		token := rest[1:end]
		if strings.Contains(token, `\`) {
			token = unquote(rest[:end+1])
		}
		rest = rest[end+1:]
		take(":")
		end = strings.IndexAny(rest, ",}"+space)
		id, err := strconv.ParseUint(rest[:end], 10, 31)
		if err != nil {
			return nil, fmt.Errorf("its vocabulary gives the token %q the id %s; an id is a whole number below 2³¹", token, rest[:end])
		}
		rest = rest[end:]
		take(",")
		vocab = append(vocab, entry{token, int32(id)})
	}
	return vocab, nil
}

// unquote returns what a sound JSON string stands for.
func unquote(quoted string) (text string) {
	_ = json.Unmarshal([]byte(quoted), &text)
	return text
}

// readVocab reads a vocab.txt: a token a line, the id of which is the number of the line, from 0.
func readVocab(data []byte, c *config) (*settings, error) {
	text := string(data)
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("it is no text file; %s", supported)
	}
	s := defaults()
	s.unknown, s.pad = c.Unk.or(s.unknown), c.Pad.or(s.pad)
	cls, sep := c.Cls.or("[CLS]"), c.Sep.or("[SEP]")
	named := map[string]int32{s.unknown: none, s.pad: none, cls: none, sep: none, c.Mask.or("[MASK]"): none}
	for line := range strings.Lines(text) {
		e := entry{strings.TrimRightFunc(line, unicode.IsSpace), int32(len(s.vocab))}
		s.vocab = append(s.vocab, e)
		if _, ok := named[e.token]; ok {
			named[e.token] = e.id
		}
	}
	if named[cls] == none || named[sep] == none {
		return nil, fmt.Errorf("its %d lines lack %q or %q, which begin and end a row; %s", len(s.vocab), cls, sep, supported)
	}
	s.templates = bertTemplates(int64(named[cls]), int64(named[sep]))
	for number, a := range c.AddedTokens {
		id, err := strconv.ParseUint(number, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("tokenizer_config.json beside it: added_tokens_decoder: %q is no id", number)
		}
		a.ID = int32(id)
		s.added = append(s.added, a)
		delete(named, a.Content)
	}
	for token, id := range named {
		if id != none {
			s.added = append(s.added, addedToken{ID: id, Content: token})
		}
	}
	slices.SortFunc(s.added, func(a, b addedToken) int { return cmp.Compare(a.ID, b.ID) })
	return s, nil
}
