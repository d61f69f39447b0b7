package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A decoder makes text of tokens, which are joined when the last decoder is done.
type decoder interface {
	decode(tokens []string) ([]string, error)
}

// Decode returns the text of ids. skipSpecial removes special tokens. Ids without a token are always skipped. It fails with an error of
// the tokenizer's decoder.
func (t *Tokenizer) Decode(ids []int64, skipSpecial bool) (string, error) {
	var tokens []string
	for _, id := range ids {
		token, ok := t.Token(id)
		if ok && !(skipSpecial && t.added.special[token]) {
			tokens = append(tokens, token)
		}
	}
	if t.decoder == nil {
		return strings.Join(tokens, " "), nil
	}
	tokens, err := t.decoder.decode(tokens)
	return strings.Join(tokens, ""), err
}

// decoders are the types of tokenizer.json's decoder.
var decoders map[string]func(raw json.RawMessage, depth int) (decoder, error)

func init() { // a Sequence refers to the table
	decoders = map[string]func(json.RawMessage, int) (decoder, error){
		"Sequence": func(raw json.RawMessage, depth int) (decoder, error) {
			list, err := readSequence("decoders", "decoder", decoders, raw, depth)
			return decoderSequence(list), err
		},
		"WordPiece":    readWordPieceDecoder,
		"ByteLevel":    func(json.RawMessage, int) (decoder, error) { return decoderFunc(decodeByteLevel), nil },
		"Metaspace":    func(raw json.RawMessage, _ int) (decoder, error) { return newMetaspace(raw) },
		"ByteFallback": func(json.RawMessage, int) (decoder, error) { return decoderFunc(decodeByteFallback), nil },
		"BPEDecoder":   readBPEDecoder,
		"CTC":          readCTC,
		"Fuse": func(json.RawMessage, int) (decoder, error) {
			return decoderFunc(func(tokens []string) []string { return []string{strings.Join(tokens, "")} }), nil
		},
		"Strip":   readStripDecoder,
		"Replace": func(raw json.RawMessage, _ int) (decoder, error) { return newReplace(raw) },
	}
}

// A decoderFunc is a decoder that never fails.
type decoderFunc func(tokens []string) []string

func (f decoderFunc) decode(tokens []string) ([]string, error) { return f(tokens), nil }

// eachToken is a decoder that looks at one token alone. It changes its argument.
func eachToken(do func(i int, token string) string) decoder {
	return decoderFunc(func(tokens []string) []string {
		for i, token := range tokens {
			tokens[i] = do(i, token)
		}
		return tokens
	})
}

type decoderSequence []decoder

func (s decoderSequence) decode(tokens []string) ([]string, error) {
	var err error
	for _, d := range s {
		if tokens, err = d.decode(tokens); err != nil {
			break
		}
	}
	return tokens, err
}

// cleanUp undoes what splitting did to English, as BERT's decoder does.
var cleanUp = func() func(string) string {
	pairs := []string{" .", ".", " ?", "?", " !", "!", " ,", ",", " ' ", "'", " n't", "n't", " 'm", "'m", " do not", " don't", " 's", "'s",
		" 've", "'ve", " 're", "'re"}
	return func(text string) string {
		for i := 0; i < len(pairs); i += 2 { // one after another: a Replacer would look at each position once
			text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
		}
		return text
	}
}()

func readWordPieceDecoder(raw json.RawMessage, _ int) (decoder, error) {
	f := struct {
		Prefix  string `json:"prefix"`
		Cleanup bool   `json:"cleanup"`
	}{"##", true}
	err := json.Unmarshal(raw, &f)
	return eachToken(func(i int, token string) string {
		if i > 0 {
			if inside, ok := strings.CutPrefix(token, f.Prefix); ok {
				token = inside
			} else {
				token = " " + token
			}
		}
		if f.Cleanup {
			token = cleanUp(token)
		}
		return token
	}), err
}

// decodeByteLevel reads the alphabet of byte-level BPE. A token that is not written in it stands for itself.
func decodeByteLevel(tokens []string) []string {
	var out []byte
	for _, token := range tokens {
		if b, ok := bytesOf([]byte(token)); ok {
			out = append(out, b...)
		} else {
			out = append(out, token...)
		}
	}
	return []string{toValid(out)}
}

// toValid replaces what is not UTF-8 as Rust's from_utf8_lossy does: a U+FFFD for each longest beginning of a character, which is
// Unicode's recommendation (The Unicode Standard, section 3.9).
func toValid(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var out strings.Builder
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size == 1 {
			size = badLen(b)
		}
		out.WriteRune(r)
		b = b[size:]
	}
	return out.String()
}

// badLen returns how many bytes of a sequence that is not UTF-8 belong together.
func badLen(b []byte) int {
	low, high, need := byte(0x80), byte(0xbf), 0
	switch c := b[0]; {
	case 0xc2 <= c && c <= 0xdf:
		need = 1
	case 0xe0 <= c && c <= 0xef:
		need = 2
		if c == 0xe0 {
			low = 0xa0
		} else if c == 0xed {
			high = 0x9f
		}
	case 0xf0 <= c && c <= 0xf4:
		need = 3
		if c == 0xf0 {
			low = 0x90
		} else if c == 0xf4 {
			high = 0x8f
		}
	}
	n := 1
	for ; n <= need && n < len(b) && low <= b[n] && b[n] <= high; n++ {
		low, high = 0x80, 0xbf
	}
	return n
}

// decode makes spaces of the visible ones, and drops those of the first token unless it was given none.
func (m metaspace) decode(tokens []string) ([]string, error) {
	for i, token := range tokens {
		space := " "
		if i == 0 && m.scheme != prependNever {
			space = ""
		}
		tokens[i] = strings.ReplaceAll(token, m.replacement, space)
	}
	return tokens, nil
}

// decodeByteFallback puts the bytes that tokens such as <0xE2> stand for together; where they are not UTF-8, each is a U+FFFD.
func decodeByteFallback(tokens []string) []string {
	var out []string
	var pending []byte
	flush := func() {
		if utf8.Valid(pending) && len(pending) > 0 {
			out = append(out, string(pending))
		} else {
			for range pending {
				out = append(out, "\ufffd")
			}
		}
		pending = pending[:0]
	}
	for _, token := range tokens {
		if len(token) == 6 && strings.HasPrefix(token, "<0x") && token[5] == '>' {
			if b, err := strconv.ParseUint(strings.TrimPrefix(token[3:5], "+"), 16, 8); err == nil {
				pending = append(pending, byte(b))
				continue
			}
		}
		flush()
		out = append(out, token)
	}
	flush()
	return out
}

func readBPEDecoder(raw json.RawMessage, _ int) (decoder, error) {
	f := struct {
		Suffix string `json:"suffix"`
	}{"</w>"}
	err := json.Unmarshal(raw, &f)
	return decoderFunc(func(tokens []string) []string {
		for i, token := range tokens {
			space := " "
			if i == len(tokens)-1 {
				space = ""
			}
			tokens[i] = strings.ReplaceAll(token, f.Suffix, space)
		}
		return tokens
	}), err
}

func readCTC(raw json.RawMessage, _ int) (decoder, error) {
	f := struct {
		Pad       string `json:"pad_token"`
		Delimiter string `json:"word_delimiter_token"`
		Cleanup   bool   `json:"cleanup"`
	}{"<pad>", "|", true}
	err := json.Unmarshal(raw, &f)
	return decoderFunc(func(tokens []string) []string {
		var out []string
		for _, token := range slices.Compact(tokens) {
			token = strings.ReplaceAll(token, f.Pad, "")
			if f.Cleanup {
				token = strings.ReplaceAll(cleanUp(token), f.Delimiter, " ")
			}
			if token != "" {
				out = append(out, token)
			}
		}
		return out
	}), err
}

func readStripDecoder(raw json.RawMessage, _ int) (decoder, error) {
	var f struct {
		Content string `json:"content"`
		Start   int    `json:"start"`
		Stop    int    `json:"stop"`
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, err
	}
	if utf8.RuneCountInString(f.Content) != 1 || f.Start < 0 || f.Stop < 0 {
		return nil, fmt.Errorf("invalid content %q, start %d or stop %d: want one character and counts", f.Content, f.Start, f.Stop)
	}
	return eachToken(func(_ int, token string) string {
		for n := 0; n < f.Start && strings.HasPrefix(token, f.Content); n++ {
			token = token[len(f.Content):]
		}
		for n := 0; n < f.Stop && strings.HasSuffix(token, f.Content); n++ {
			token = token[:len(token)-len(f.Content)]
		}
		return token
	}), nil
}

// decode replaces in each token.
func (n replace) decode(tokens []string) ([]string, error) {
	var b budget
	all := 0
	for _, token := range tokens {
		all += len(token)
	}
	b.begin(all, nil)
	size := 0
	for i, token := range tokens {
		var out strings.Builder
		done := 0
		err := n.pattern.matches([]byte(token), &b, func(start, end int) {
			if !b.fits(size + out.Len() + len(n.content)) {
				return
			}
			out.WriteString(token[done:start])
			out.WriteString(n.content)
			done = end
		})
		if err != nil {
			return nil, err
		}
		out.WriteString(token[done:])
		tokens[i] = out.String()
		if size += out.Len(); b.err != nil {
			return nil, b.err
		}
	}
	return tokens, nil
}
