package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

// A jsonReader walks over a file whose vocabulary may be tens of megabytes: strings are slices of the file, and no value is looked at
// twice. What is small goes to encoding/json.
type jsonReader struct {
	data []byte
	at   int
}

func (r *jsonReader) errorf(format string, args ...any) error {
	return fmt.Errorf("invalid JSON: at byte %d: %s", r.at, fmt.Sprintf(format, args...))
}

// peek returns the next byte that is not white space; 0 at the end.
func (r *jsonReader) peek() byte {
	for ; r.at < len(r.data); r.at++ {
		switch c := r.data[r.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// take passes over the byte c.
func (r *jsonReader) take(c byte) error {
	if got := r.peek(); got != c {
		if got == 0 {
			return r.errorf("the file ends, want %q", c)
		}
		return r.errorf("%q, want %q", got, c)
	}
	r.at++
	return nil
}

// list reads what is between two brackets, the elements of which do reads.
func (r *jsonReader) list(open, end byte, do func() error) error {
	if err := r.take(open); err != nil {
		return err
	}
	if r.peek() == end {
		r.at++
		return nil
	}
	for {
		if err := do(); err != nil {
			return err
		}
		if r.peek() != ',' {
			return r.take(end)
		}
		r.at++
	}
}

// object reads an object: do reads the value of a key.
func (r *jsonReader) object(do func(key []byte) error) error {
	return r.list('{', '}', func() error {
		key, err := r.text()
		if err != nil {
			return err
		}
		if err := r.take(':'); err != nil {
			return err
		}
		return do(key)
	})
}

// array reads an array, the elements of which do reads.
func (r *jsonReader) array(do func() error) error { return r.list('[', ']', do) }

// text reads a string.
func (r *jsonReader) text() ([]byte, error) {
	if err := r.take('"'); err != nil {
		return nil, err
	}
	start, escaped := r.at, false
	for {
		n := bytes.IndexByte(r.data[r.at:], '"')
		if n < 0 {
			r.at = len(r.data)
			return nil, r.errorf("the file ends inside a string")
		}
		if b := bytes.IndexByte(r.data[r.at:r.at+n], '\\'); b >= 0 {
			escaped = true
			r.at = min(r.at+b+2, len(r.data))
			continue
		}
		r.at += n + 1
		break
	}
	s := r.data[start : r.at-1]
	if escaped {
		return unescape(s)
	}
	return s, nil
}

// unescape replaces the escapes of a JSON string.
func unescape(s []byte) ([]byte, error) {
	out := make([]byte, 0, len(s))
	hex := func(s []byte) rune {
		if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
			return -1
		}
		n, err := strconv.ParseUint(string(s[2:6]), 16, 16)
		if err != nil {
			return -1
		}
		return rune(n)
	}
	for len(s) > 0 {
		n := bytes.IndexByte(s, '\\')
		if n < 0 {
			return append(out, s...), nil
		}
		out = append(out, s[:n]...)
		s = s[n:]
		switch i := bytes.IndexByte([]byte(`"\/bfnrt`), s[1]); {
		case i >= 0:
			out = append(out, "\"\\/\b\f\n\r\t"[i])
			s = s[2:]
		case hex(s) >= 0:
			c := hex(s)
			s = s[6:]
			if utf16.IsSurrogate(c) {
				if pair := utf16.DecodeRune(c, hex(s)); pair != utf8.RuneError {
					c = pair
					s = s[6:]
				}
			}
			out = utf8.AppendRune(out, c)
		default:
			return nil, fmt.Errorf("invalid JSON: invalid escape in %q", shorten(s))
		}
	}
	return out, nil
}

// inNumbers are the characters of numbers.
var inNumbers = func() (set [256]bool) {
	for _, c := range []byte("+-.0123456789eE") {
		set[c] = true
	}
	return set
}()

// number reads a number, as it is written.
func (r *jsonReader) number() []byte {
	r.peek()
	start := r.at
	for r.at < len(r.data) && inNumbers[r.data[r.at]] {
		r.at++
	}
	return r.data[start:r.at]
}

// value passes over a value of any kind and returns it.
func (r *jsonReader) value() (json.RawMessage, error) {
	r.peek()
	start, depth := r.at, 0
	for {
		switch c := r.peek(); c {
		case 0:
			return nil, r.errorf("the file ends")
		case '"':
			if _, err := r.text(); err != nil {
				return nil, err
			}
		case '{', '[':
			depth++
			r.at++
		case '}', ']':
			depth--
			r.at++
		case ',', ':':
			r.at++
		default:
			for r.at < len(r.data) && bytes.IndexByte([]byte(" \t\r\n,:{}[]\""), r.data[r.at]) < 0 {
				r.at++
			}
		}
		if depth < 0 {
			return nil, r.errorf("a bracket too many")
		}
		if depth == 0 {
			return r.data[start:r.at], nil
		}
	}
}

// A modelFile is the model of a tokenizer.json.
type modelFile struct {
	kind    string
	entries []entry
	scores  []float64 // scores of the pieces of a Unigram; otherwise nil
	merges  [][2][]byte
	rest    []byte // JSON object with the other fields
}

// A tokenizerFile is a tokenizer.json.
type tokenizerFile struct {
	model modelFile
	parts map[string]json.RawMessage // the other fields
}

// readFile reads a tokenizer.json.
func readFile(data []byte) (*tokenizerFile, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("it is not UTF-8")
	}
	f := &tokenizerFile{parts: map[string]json.RawMessage{}}
	r := &jsonReader{data: data}
	seen := false
	err := r.object(func(key []byte) (err error) {
		if string(key) == "model" {
			seen = true
			return f.model.read(r)
		}
		f.parts[string(key)], err = r.value()
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case r.peek() != 0:
		return nil, r.errorf("more follows the end")
	case !seen:
		return nil, errors.New("it has no model")
	}
	return f, nil
}

func (m *modelFile) read(r *jsonReader) error {
	if r.peek() != '{' {
		return r.errorf("the model is not an object")
	}
	m.rest = append(m.rest, '{')
	err := r.object(func(key []byte) error {
		switch string(key) {
		case "vocab":
			return m.readVocab(r)
		case "merges":
			return m.readMerges(r)
		}
		value, err := r.value()
		if err != nil {
			return err
		}
		if string(key) == "type" {
			if err := json.Unmarshal(value, &m.kind); err != nil {
				return fmt.Errorf("model: %w", err)
			}
			return nil
		}
		if len(m.rest) > 1 {
			m.rest = append(m.rest, ',')
		}
		m.rest = strconv.AppendQuote(m.rest, string(key))
		m.rest = append(append(m.rest, ':'), value...)
		return nil
	})
	m.rest = append(m.rest, '}')
	return err
}

// grown is how many tokens a vocabulary has room for once it is known not to be small; larger ones grow further.
const grown = 1 << 18

// add adds a token. Vocabularies that are large at all are about as large as grown.
func (m *modelFile) add(token []byte, id int32) {
	if len(m.entries) == grown/16 {
		m.entries = slices.Grow(m.entries, grown)
	}
	m.entries = append(m.entries, entry{token, id})
}

func (m *modelFile) readVocab(r *jsonReader) error {
	switch r.peek() {
	case '{':
		return r.object(func(token []byte) error {
			number := r.number()
			id, err := strconv.ParseUint(string(number), 10, 31)
			if err != nil {
				return fmt.Errorf("model: the vocabulary maps the token %q to the id %s; an id must be an integer from 0 to below %d",
					shorten(token),
					shortNumber(number, r), maxID)
			}
			m.add(token, int32(id))
			return nil
		})
	case '[':
		return r.array(func() error {
			if err := r.take('['); err != nil {
				return err
			}
			token, err := r.text()
			if err != nil {
				return err
			}
			if err := r.take(','); err != nil {
				return err
			}
			number := r.number()
			score, ok := parseScore(number)
			if !ok {
				return fmt.Errorf("model: the score of the piece %q is %q; want a number", shorten(token), shortNumber(number, r))
			}
			m.add(token, int32(len(m.entries)))
			m.scores = append(m.scores, score)
			return r.take(']')
		})
	}
	return fmt.Errorf("model: the vocabulary is neither an object of tokens and ids nor an array of pieces and scores")
}

// parseScore reads a number as Rust's serde_json does it, through which tokenizers reads its files: the digits as one number, multiplied
// or divided by a power of ten. The last bit may be another one than that of the nearest float64, and pieces of equal scores may change
// positions by it.
func parseScore(number []byte) (score float64, ok bool) {
	digits, negative := bytes.CutPrefix(number, []byte("-"))
	var significand uint64
	exponent, point, full, any := 0, false, false, false
	for len(digits) > 0 && (digits[0] == '.' && !point || '0' <= digits[0] && digits[0] <= '9') {
		if c := digits[0]; c == '.' {
			point = true
		} else {
			any = true
			d := uint64(c - '0')
			full = full || significand > (math.MaxUint64-d)/10
			switch {
			case !full && point:
				significand = significand*10 + d
				exponent--
			case !full:
				significand = significand*10 + d
			case !point:
				exponent++
			}
		}
		digits = digits[1:]
	}
	if len(digits) > 0 && digits[0]|0x20 == 'e' {
		e, err := strconv.Atoi(string(digits[1:]))
		if err != nil || e > 1000 || e < -1000 {
			return 0, false
		}
		exponent += e
		digits = nil
	}
	if !any || len(digits) > 0 {
		return 0, false
	}
	score = float64(significand)
	for ; exponent < -308 && score != 0; exponent += 308 {
		score /= 1e308
	}
	switch n := max(exponent, -exponent); {
	case score == 0:
	case n >= len(powers()):
		return 0, false
	case exponent < 0:
		score /= powers()[n]
	default:
		score *= powers()[n]
	}
	if negative {
		score = -score
	}
	return score, !math.IsInf(score, 0)
}

// powers are those of ten, each the nearest float64.
var powers = sync.OnceValue(func() []float64 {
	table := make([]float64, 309)
	for i := range table {
		table[i], _ = strconv.ParseFloat("1e"+strconv.Itoa(i), 64)
	}
	return table
})

// shortNumber returns what is where an id should.
func shortNumber(number []byte, r *jsonReader) []byte {
	if len(number) > 0 {
		return number
	}
	return r.data[r.at:min(r.at+10, len(r.data))]
}

func (m *modelFile) readMerges(r *jsonReader) error {
	return r.array(func() error {
		if r.peek() == '"' {
			line, err := r.text()
			if err != nil || bytes.HasPrefix(line, []byte("#version")) {
				return err
			}
			return m.addMerge(line)
		}
		var pair [2][]byte
		n := 0
		err := r.array(func() error {
			token, err := r.text()
			if n < 2 {
				pair[n] = token
			}
			n++
			return err
		})
		if err == nil && n != 2 {
			err = fmt.Errorf("model: merge %d is of %d tokens; want 2", len(m.merges), n)
		}
		m.merges = append(m.merges, pair)
		return err
	})
}

// addMerge adds a merge from a line of two tokens that are separated by a space.
func (m *modelFile) addMerge(line []byte) error {
	a, b, ok := bytes.Cut(line, []byte(" "))
	if !ok || bytes.IndexByte(b, ' ') >= 0 {
		return fmt.Errorf("model: merge %d, %q: want two tokens with a space between", len(m.merges), shorten(line))
	}
	m.merges = append(m.merges, [2][]byte{a, b})
	return nil
}

// shorten cuts what a message quotes.
func shorten(token []byte) []byte {
	if len(token) > 40 {
		return append(bytes.Clone(token[:40]), "…"...)
	}
	return token
}
