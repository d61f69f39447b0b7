package ir

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A token is a word (letters, digits, _ and . after a letter or _), a number, a quoted string, or one punctuation
// character; at the end of the text it is empty.
type token struct {
	kind tokenKind
	text string // the token; a string without its quotes and escapes
	at   int
}

type tokenKind uint8

const (
	endOfText tokenKind = iota
	word
	number
	quoted
	punctuation
)

func (t token) String() string {
	switch t.kind {
	case endOfText:
		return "the end of the text"
	case quoted:
		return strconv.Quote(t.text)
	}
	return strconv.Quote(t.text)
}

// A lexer cuts text into tokens and holds the current one. Its methods report errors by panic(syntaxError), which
// the caller recovers.
type lexer struct {
	src string
	pos int
	tok token
}

type syntaxError struct{ err error }

// failAt stops the parse with an error at a position of the text.
func (l *lexer) failAt(at int, format string, args ...any) {
	before := l.src[:at]
	line := 1 + strings.Count(before, "\n")
	column := 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
	panic(syntaxError{fmt.Errorf("%d:%d: %w", line, column, fmt.Errorf(format, args...))})
}

func (l *lexer) fail(format string, args ...any) { l.failAt(l.tok.at, format, args...) }

func isLetter(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

// next reads the next token; # starts a comment to the end of the line.
func (l *lexer) next() {
	for l.pos < len(l.src) {
		switch c := l.src[l.pos]; {
		case c == '#':
			if n := strings.IndexByte(l.src[l.pos:], '\n'); n >= 0 {
				l.pos += n
			} else {
				l.pos = len(l.src)
			}
			continue
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			l.pos++
			continue
		}
		break
	}
	rest := l.src[l.pos:]
	l.tok = token{at: l.pos}
	if rest == "" {
		return
	}
	n := 1
	switch c := rest[0]; {
	case isLetter(c):
		for n < len(rest) && (isLetter(rest[n]) || isDigit(rest[n]) || rest[n] == '.') {
			n++
		}
		l.tok.kind = word
	case isDigit(c):
		for n < len(rest) && (isDigit(rest[n]) || rest[n] == '.' || rest[n] == 'e' || (rest[n] == '-' || rest[n] == '+') &&
			rest[n-1] == 'e') {
			n++
		}
		l.tok.kind = number
	case c == '"':
		q, err := strconv.QuotedPrefix(rest)
		if err != nil {
			l.failAt(l.pos, "a string without an end, or with a bad escape")
		}
		s, err := strconv.Unquote(q)
		if err != nil {
			l.failAt(l.pos, "string %s: %v", q, err)
		}
		l.tok.kind, l.tok.text, l.pos = quoted, s, l.pos+len(q)
		return
	default:
		_, n = utf8.DecodeRuneInString(rest)
		l.tok.kind = punctuation
	}
	l.tok.text = rest[:n]
	l.pos += n
}

// is reports whether the current token is that word or punctuation.
func (l *lexer) is(text string) bool {
	return (l.tok.kind == word || l.tok.kind == punctuation) && l.tok.text == text
}

// skip passes over the token if it is there.
func (l *lexer) skip(text string) bool {
	if !l.is(text) {
		return false
	}
	l.next()
	return true
}

func (l *lexer) expect(text string) {
	if !l.skip(text) {
		l.fail("%q expected, not %v", text, l.tok)
	}
}

// take returns the current token, which must be of that kind.
func (l *lexer) take(kind tokenKind, what string) string {
	if l.tok.kind != kind {
		l.fail("%s expected, not %v", what, l.tok)
	}
	text := l.tok.text
	l.next()
	return text
}

// listOf reads items between brackets, separated by commas.
func (l *lexer) listOf(open, end string, item func()) {
	l.expect(open)
	for !l.skip(end) {
		item()
		if !l.is(end) {
			l.expect(",")
		}
	}
}

// signed reads a number with an optional sign, "inf" and "nan" among them, as text for strconv.
func (l *lexer) signed() string {
	sign := ""
	if l.skip("-") {
		sign = "-"
	}
	if l.is("inf") || l.is("nan") {
		return sign + l.take(word, "")
	}
	return sign + l.take(number, "a number")
}

func (l *lexer) int64() int64 {
	at := l.tok.at
	n, err := strconv.ParseInt(l.signed(), 10, 64)
	if err != nil {
		l.failAt(at, "a whole number expected: %v", err)
	}
	return n
}

func (l *lexer) float(bits int) float64 {
	at := l.tok.at
	x, err := strconv.ParseFloat(l.signed(), bits)
	if err != nil {
		l.failAt(at, "a number expected: %v", err)
	}
	return x
}

// recover turns a syntaxError panic into an error.
func (l *lexer) recover(err *error) {
	switch r := recover().(type) {
	case nil:
	case syntaxError:
		*err = r.err
	default:
		panic(r)
	}
}

// maxDepth bounds what nests, against texts made to exhaust the stack.
const maxDepth = 100
