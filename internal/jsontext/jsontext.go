// Package jsontext has the rule for strings and numbers in JSON that other authors wrote (RFC 8259). encoding/json replaces invalid UTF-8
// and halves of surrogate pairs by U+FFFD, so that two different texts become one; here they are errors. The package is not API.
package jsontext

import (
	"errors"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// The errors of strings.
var (
	ErrUTF8      = errors.New("a string is not UTF-8")
	ErrSurrogate = errors.New("a string has half of a surrogate pair")
	ErrEscape    = errors.New("a string has an invalid escape")
	ErrControl   = errors.New("a string has a control character")
)

// A String checks what follows the quotation mark that begins a string, byte by byte as it arrives. The zero value is ready.
type String struct {
	utf8  [utf8.UTFMax]byte // bytes of a character that is not ASCII
	have  int               // number of them that have arrived
	state stringState
	unit  rune // value of the digits of an escape \uXXXX that have arrived
	high  rune // first half of a pair, whose second half must follow; 0 for none
}

// A stringState determines which bytes may follow. The states between plain and backslashU count the digits of \uXXXX that have arrived.
type stringState int

const (
	plain stringState = iota
	backslash
	digit1
	digit2
	digit3
	digit4
)

// Plain reports whether the string may end here. Bytes of ASCII from the space on, other than \ and ", leave it so.
func (s *String) Plain() bool { return s.state == plain && s.have == 0 && s.high == 0 }

// Next takes a byte, and reports whether it is the quotation mark that ends the string.
func (s *String) Next(c byte) (end bool, err error) {
	switch {
	case c == '"' && s.state != backslash:
		return true, s.end()
	case s.have > 0 || s.state == plain && c >= utf8.RuneSelf:
		return false, s.character(c)
	case s.state == backslash:
		return false, s.escape(c)
	case s.state != plain:
		return false, s.digit(c)
	case c == '\\':
		s.state = backslash
		return false, nil
	case s.high != 0:
		return false, ErrSurrogate
	case c < ' ':
		return false, ErrControl
	}
	return false, nil
}

// end checks that nothing is missing.
func (s *String) end() error {
	switch {
	case s.have > 0:
		return ErrUTF8
	case s.state != plain:
		return ErrEscape
	case s.high != 0:
		return ErrSurrogate
	}
	return nil
}

// character takes a byte of a character that is not ASCII.
func (s *String) character(c byte) error {
	if s.high != 0 {
		return ErrSurrogate
	}
	s.utf8[s.have] = c
	s.have++
	if !utf8.FullRune(s.utf8[:s.have]) {
		return nil
	}
	if !utf8.Valid(s.utf8[:s.have]) {
		return ErrUTF8
	}
	s.have = 0
	return nil
}

// escape takes the byte after a backslash.
func (s *String) escape(c byte) error {
	if c == 'u' {
		s.state, s.unit = digit1, 0
		return nil
	}
	if s.high != 0 {
		return ErrSurrogate
	}
	s.state = plain
	switch c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return nil
	}
	return ErrEscape
}

// digit takes a digit of \uXXXX.
func (s *String) digit(c byte) error {
	n := rune(0)
	switch {
	case '0' <= c && c <= '9':
		n = rune(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		n = rune(c|0x20-'a') + 10
	default:
		return ErrEscape
	}
	s.unit = s.unit<<4 | n
	if s.state != digit4 {
		s.state++
		return nil
	}
	s.state = plain
	switch {
	case s.high != 0:
		if utf16.DecodeRune(s.high, s.unit) == utf8.RuneError {
			return ErrSurrogate
		}
		s.high = 0
	case utf16.IsSurrogate(s.unit):
		const firstLow = 0xdc00
		if s.unit >= firstLow {
			return ErrSurrogate
		}
		s.high = s.unit
	}
	return nil
}

// NotUTF8 returns the index of the first text that is not UTF-8, and −1 if there is none. JSON cannot hold such a text, and encoding/json
// writes another.
func NotUTF8(texts []string) int {
	return slices.IndexFunc(texts, func(text string) bool { return !utf8.ValidString(text) })
}

// Check checks the strings of a text that is otherwise JSON.
func Check(text []byte) error {
	for i := 0; i < len(text); i++ {
		if text[i] != '"' {
			continue
		}
		s := String{}
		for end := false; !end && i+1 < len(text); {
			i++
			var err error
			if end, err = s.Next(text[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// A Number checks a number byte by byte as it arrives. The zero value is ready.
type Number struct{ state numberState }

// A numberState is the last part of a number that has arrived.
type numberState int

const (
	begin numberState = iota
	minus
	zero // before the point or the exponent, where no digit follows
	whole
	point
	fraction
	exponent
	sign
	power
	wrong
)

// Next takes a byte, and reports whether a number may continue with it.
func (n *Number) Next(c byte) bool {
	n.state = n.state.next(c)
	return n.state != wrong
}

func (s numberState) next(c byte) numberState {
	switch digit := '0' <= c && c <= '9'; {
	case digit && s <= minus && c == '0':
		return zero
	case digit && (s <= minus || s == whole):
		return whole
	case digit && (s == point || s == fraction):
		return fraction
	case digit && s >= exponent && s <= power:
		return power
	case c == '-' && s == begin:
		return minus
	case c == '.' && (s == zero || s == whole):
		return point
	case c|0x20 == 'e' && (s == zero || s == whole || s == fraction):
		return exponent
	case (c == '-' || c == '+') && s == exponent:
		return sign
	}
	return wrong
}

// Whole reports whether the number may end here.
func (n *Number) Whole() bool {
	return n.state == zero || n.state == whole || n.state == fraction || n.state == power
}
