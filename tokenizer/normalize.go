package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// A normalizer changes the text before it is split.
type normalizer interface {
	normalize(t *text) error
}

// normalizers are the types of tokenizer.json's normalizer.
var normalizers map[string]func(raw json.RawMessage, depth int) (normalizer, error)

func init() { // a Sequence refers to the table
	normalizers = map[string]func(json.RawMessage, int) (normalizer, error){
		"Sequence": func(raw json.RawMessage, depth int) (normalizer, error) {
			list, err := readSequence("normalizers", "normalizer", normalizers, raw, depth)
			return sequence(list), err
		},
		"BertNormalizer": readBertNormalizer,
		"NFC":            form(canonical, composing),
		"NFD":            form(canonical, decomposing),
		"NFKC":           form(compatible, composing),
		"NFKD":           form(compatible, decomposing),
		"Lowercase":      perCharacter(lowercase),
		"Strip":          readStrip,
		"StripAccents":   perCharacter(stripAccents),
		"Replace":        readReplace,
		"Prepend":        readPrepend,
		"Nmt":            perCharacter(nmt),
		"Precompiled":    readCharsmap,
		"ByteLevel":      func(json.RawMessage, int) (normalizer, error) { return byteLevelNormalizer{}, nil },
	}
}

// maxDepth bounds how deep sequences of components may be nested.
const maxDepth = 32

// readComponent reads a component by the row of its type; none for null.
func readComponent[T any](what string, table map[string]func(json.RawMessage, int) (T, error), raw json.RawMessage, depth int) (T, error) {
	var zero T
	if len(raw) == 0 || string(raw) == "null" {
		return zero, nil
	}
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return zero, fmt.Errorf("%s: %w", what, err)
	}
	read := table[head.Type]
	switch {
	case read == nil:
		return zero, fmt.Errorf("unknown %s %q; known are %s", what, head.Type, names(table))
	case depth > maxDepth:
		return zero, fmt.Errorf("%s %s: nested more than %d deep", what, head.Type, maxDepth)
	}
	c, err := read(raw, depth+1)
	if err != nil && head.Type != "Sequence" {
		err = fmt.Errorf("%s %s: %w", what, head.Type, err)
	}
	return c, err
}

// readSequence reads the components of a Sequence, which are in a field; those that are null are left out.
func readSequence[T any](field, what string, table map[string]func(json.RawMessage, int) (T, error), raw json.RawMessage,
	depth int) ([]T, error) {
	var f map[string]json.RawMessage
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, err
	}
	var parts []json.RawMessage
	if len(f[field]) > 0 {
		if err := json.Unmarshal(f[field], &parts); err != nil {
			return nil, err
		}
	}
	var list []T
	for _, part := range parts {
		c, err := readComponent(what, table, part, depth)
		if err != nil {
			return nil, err
		}
		if any(c) != nil {
			list = append(list, c)
		}
	}
	return list, nil
}

// names lists the rows of a table.
func names[T any](table map[string]T) string {
	list := make([]string, 0, len(table))
	for name := range table {
		list = append(list, name)
	}
	slices.Sort(list)
	return joinWords(list)
}

// sequence is normalizers one after another.
type sequence []normalizer

func (s sequence) normalize(t *text) error {
	for _, n := range s {
		if err := n.normalize(t); err != nil {
			return err
		}
		if !t.budget.spend(len(t.bytes)) {
			return t.budget.err
		}
	}
	return nil
}

// A mapping replaces each character separately. What it returns for a character: the one that replaces it, and a second one after it;
// none leaves nothing.
type mapping func(r rune) (first, second rune)

func perCharacter(m mapping) func(json.RawMessage, int) (normalizer, error) {
	return func(json.RawMessage, int) (normalizer, error) { return m, nil }
}

func (m mapping) normalize(t *text) error {
	i := 0
	for i < len(t.bytes) { // what stays as it is
		r, size := decodeRune(t.bytes[i:])
		if first, second := m(r); first != r || second != none {
			break
		}
		i += size
	}
	if i == len(t.bytes) {
		return nil
	}
	e := t.edit()
	e.copy(0, i)
	for i < len(t.bytes) {
		r, size := decodeRune(t.bytes[i:])
		first, second := m(r)
		if first != none {
			if !t.track {
				e.out = utf8.AppendRune(e.out, first)
			} else {
				e.emit(first, t.origin(i))
			}
		}
		if second != none {
			e.emit(second, t.origin(i))
		}
		i += size
	}
	e.done()
	return nil
}

// decodeRune is utf8.DecodeRune with a short way for ASCII.
func decodeRune(text []byte) (rune, int) {
	if c := text[0]; c < utf8.RuneSelf {
		return rune(c), 1
	}
	return utf8.DecodeRune(text)
}

func lowercase(r rune) (rune, rune) {
	switch {
	case r == 'İ': // the one character whose lower case is two
		return 'i', '\u0307'
	case classOf(r)&upper != 0:
		return lateLower.ToLower(r), none
	}
	return r, none
}

func stripAccents(r rune) (rune, rune) {
	if classOf(r)&combining != 0 {
		return none, none
	}
	return r, none
}

// nmt is SentencePiece's rule of the name: control characters go, white space of all kinds becomes a space.
func nmt(r rune) (rune, rune) {
	switch {
	case 0x01 <= r && r <= 0x08, r == 0x0b, 0x0e <= r && r <= 0x1f, r == 0x7f, r == 0x8f, r == 0x9f:
		return none, none
	case r == '\t', r == '\n', r == '\f', r == '\r', r == 0x1680, 0x200b <= r && r <= 0x200f, r == 0x2028, r == 0x2029, r == 0x2581,
		r == 0xfeff, r == 0xfffd:
		return ' ', none
	}
	return r, none
}

// A strip takes white space off the ends.
type strip struct {
	Left  bool `json:"strip_left"`
	Right bool `json:"strip_right"`
}

func readStrip(raw json.RawMessage, _ int) (normalizer, error) {
	var s strip
	err := json.Unmarshal(raw, &s)
	return s, err
}

func (s strip) normalize(t *text) error {
	start, end := 0, len(t.bytes)
	for s.Left && start < end {
		r, size := utf8.DecodeRune(t.bytes[start:])
		if classOf(r)&space == 0 {
			break
		}
		start += size
	}
	for s.Right && start < end {
		r, size := utf8.DecodeLastRune(t.bytes[start:end])
		if classOf(r)&space == 0 {
			break
		}
		end -= size
	}
	if start > 0 || end < len(t.bytes) {
		e := t.edit()
		e.copy(start, end)
		e.done()
	}
	return nil
}

// A prepend puts a string before a text that is not empty.
type prepend string

func readPrepend(raw json.RawMessage, _ int) (normalizer, error) {
	var f struct {
		Prepend string `json:"prepend"`
	}
	err := json.Unmarshal(raw, &f)
	return prepend(f.Prepend), err
}

func (p prepend) normalize(t *text) error {
	if len(t.bytes) == 0 || p == "" {
		return nil
	}
	e := t.edit()
	e.prepend(string(p), 0)
	e.copy(0, len(t.bytes))
	e.done()
	return nil
}

// prepend adds a string before the character at byte i, whose origin it shares.
func (e *edit) prepend(s string, i int) {
	if !e.t.budget.fits(len(e.out) + len(s)) {
		return
	}
	if !e.t.track {
		e.out = append(e.out, s...)
		return
	}
	origin := e.t.origin(i)
	for _, r := range s {
		e.emit(r, origin)
	}
}

// A replace replaces each match of a pattern by a string.
type replace struct {
	pattern pattern
	content string
}

// A patternField is {"String": …} or {"Regex": …}.
type patternField struct {
	String *string `json:"String"`
	Regex  *string `json:"Regex"`
}

func (f patternField) compile() (pattern, error) {
	switch {
	case f.String != nil:
		return literal(*f.String), nil
	case f.Regex != nil:
		return compilePattern(*f.Regex)
	}
	return nil, errors.New("its pattern is neither a String nor a Regex")
}

func readReplace(raw json.RawMessage, _ int) (normalizer, error) {
	return newReplace(raw)
}

func newReplace(raw json.RawMessage) (replace, error) {
	var f struct {
		Pattern patternField `json:"pattern"`
		Content string       `json:"content"`
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return replace{}, err
	}
	p, err := f.Pattern.compile()
	return replace{p, f.Content}, err
}

func (n replace) normalize(t *text) error {
	if l, ok := n.pattern.(literal); ok {
		n.replaceAll(t, string(l))
		return nil
	}
	var e edit
	done := 0 // what is before is in e
	err := n.pattern.matches(t.bytes, &t.budget, func(start, end int) {
		if e.t == nil {
			e = t.edit()
		}
		e.copy(done, start)
		e.insert(n.content, end)
		done = end
	})
	if err != nil || e.t == nil {
		return err
	}
	e.copy(done, len(t.bytes))
	e.done()
	return nil
}

// replaceAll is normalize for a pattern that is a string.
func (n replace) replaceAll(t *text, old string) {
	whole := t.string()
	at := strings.Index(whole, old)
	if at < 0 || old == "" {
		return
	}
	if len(old) == 1 && t.byByte() {
		t.replaceByte("", old[0], n.content)
		return
	}
	e := t.edit()
	done := 0
	for at >= 0 {
		e.copy(done, done+at)
		done += at + len(old)
		e.insert(n.content, done)
		at = strings.Index(whole[done:], old)
	}
	e.copy(done, len(whole))
	e.done()
}

// byByte reports whether replaceByte knows the origin of each byte.
func (t *text) byByte() bool { return !t.track || t.from != nil || t.ascii }

// replaceByte puts a string before a text that is not empty, and another one instead of each character of ASCII that is old. It does in
// one pass what prepend and replaceAll do, for a text that is byByte.
func (t *text) replaceByte(before string, old byte, content string) {
	e := t.edit()
	e.unmoved = false
	e.prepend(before, 0)
	at := len(e.out)
	size := at + len(t.bytes) + bytes.Count(t.bytes, []byte{old})*(len(content)-1)
	if !t.budget.fits(size) {
		return
	}
	e.out = slices.Grow(e.out, size-at)[:size]
	if !t.track {
		for _, c := range t.bytes {
			if c == old {
				at += copy(e.out[at:], content)
			} else {
				e.out[at] = c
				at++
			}
		}
		e.done()
		return
	}
	e.from = slices.Grow(e.from, size-at)[:size]
	out, from := e.out, e.from
	for i, c := range t.bytes {
		origin := span{t.base + int32(i), t.base + int32(i) + 1}
		if t.from != nil {
			origin = t.from[i]
		}
		if c != old {
			out[at], from[at] = c, origin
			at++
			continue
		}
		for range copy(out[at:], content) {
			from[at] = origin
			at++
		}
	}
	e.done()
}

// A prependReplace is a prepend and a replace of a character of ASCII, which the prepended string does not hold.
type prependReplace struct {
	prepend prepend
	replace replace
}

// fused returns a sequence in which such neighbours are one.
func (s sequence) fused() sequence {
	var out sequence
	for _, n := range s {
		if r, ok := n.(replace); ok && len(out) > 0 {
			p, after := out[len(out)-1].(prepend)
			l, found := r.pattern.(literal)
			if after && p != "" && found && len(l) == 1 && l[0] < utf8.RuneSelf && !strings.Contains(string(p), string(l)) {
				out[len(out)-1] = prependReplace{p, r}
				continue
			}
		}
		out = append(out, n)
	}
	return out
}

func (n prependReplace) normalize(t *text) error {
	if len(t.bytes) > 0 && t.byByte() {
		t.replaceByte(string(n.prepend), string(n.replace.pattern.(literal))[0], n.replace.content)
		return nil
	}
	if err := n.prepend.normalize(t); err != nil {
		return err
	}
	return n.replace.normalize(t)
}

// insert adds a string that has the origin of what ends at byte i.
func (e *edit) insert(s string, i int) {
	if !e.t.budget.fits(len(e.out) + len(s)) {
		return
	}
	if !e.t.track {
		e.out = append(e.out, s...)
		return
	}
	origin := e.t.beginning()
	if i > 0 {
		origin = e.t.origin(i - 1)
	}
	if _, size := utf8.DecodeRuneInString(s); size == len(s) {
		e.out = append(e.out, s...)
		e.origins(len(e.out)-size, origin)
		return
	}
	for _, r := range s {
		e.emit(r, origin)
	}
}
