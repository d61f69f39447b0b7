package tokenizer

import (
	"bytes"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/rlxc/rlxc/internal/oniguruma"
)

// A pattern finds the matches for Split and Replace.
type pattern interface {
	// matches calls found for each match, in order. It takes steps from the budget of the text, and fails if the budget is used up.
	matches(text []byte, b *budget, found func(start, end int)) error
}

// compilePattern returns the pattern of a regular expression: a scanner if the expression is one of the published ones, else the
// engine of regexp2.
func compilePattern(expression string) (pattern, error) {
	if s, ok := scanners[expression]; ok {
		return s, nil
	}
	if expression == " {2,}" {
		return spaces{}, nil
	}
	return compileEngine(expression)
}

// compileEngine returns the pattern of any regular expression.
func compileEngine(expression string) (pattern, error) {
	re, err := oniguruma.Compile(expression, patternTimeout)
	if err != nil {
		return nil, err
	}
	return &engine{re}, nil
}

// patternTimeout bounds the search for one match: a pattern can be made to take exponential time. All patterns of a tokenizer together may
// take as long for a text, and timePerByte for each of its bytes.
const (
	patternTimeout = time.Second
	timePerByte    = 10 * time.Microsecond
)

// An engine is a regular expression for which there is no scanner.
type engine struct{ re *oniguruma.Regexp }

func (p *engine) matches(text []byte, b *budget, found func(start, end int)) error {
	if len(text) == 0 {
		return nil
	}
	const perByte = 8 // the characters, and their symbols in the engine
	if err := b.take(perByte * len(text)); err != nil {
		return err
	}
	defer b.take(-perByte * len(text))
	runes := []rune(string(text))
	limit := patternTimeout + time.Duration(len(text))*timePerByte // where the budget has none
	if b.most > 0 {
		limit = b.engines
	}
	if limit <= 0 {
		return fmt.Errorf("tokenizer: %w: its patterns take more than %v", ErrWork, patternTimeout+time.Duration(len(text))*timePerByte)
	}
	begun := time.Now()
	defer func() { b.engines -= time.Since(begun) }()
	at, index := 0, 0 // a position in text, in bytes and in runes
	advance := func(to int) int {
		for ; index < to; index++ {
			at += utf8.RuneLen(runes[index])
		}
		return at
	}
	var late error
	err := p.re.Matches(runes, func(from, to int) bool {
		start := advance(from)
		found(start, advance(to))
		if !b.spend(to - from + 1) {
			late = b.err
		} else if time.Since(begun) > limit {
			late = fmt.Errorf("tokenizer: the pattern %q took more than %v for a text of %d bytes", p.re, limit, len(text))
		}
		return late == nil
	})
	if err != nil {
		return fmt.Errorf("tokenizer: the pattern %q took more than %v: %w", p.re, patternTimeout, err)
	}
	return late
}

// A literal is a string to be found.
type literal string

func (l literal) matches(text []byte, _ *budget, found func(start, end int)) error {
	if l == "" {
		return nil
	}
	needle := []byte(l)
	for i := 0; ; {
		j := bytes.Index(text[i:], needle)
		if j < 0 {
			return nil
		}
		found(i+j, i+j+len(needle))
		i += j + len(needle)
	}
}

// A predicate finds characters, each a match.
type predicate func(r rune) bool

func (p predicate) matches(text []byte, _ *budget, found func(start, end int)) error {
	for i := 0; i < len(text); {
		r, size := decodeRune(text[i:])
		if p(r) {
			found(i, i+size)
		}
		i += size
	}
	return nil
}

// hasClass finds the characters of a class.
func hasClass(c class) predicate { return func(r rune) bool { return classOf(r)&c != 0 } }

// A scanner returns where the match ends that begins at byte i, or i if there is none.
type scanner func(text []byte, i int) int

func (s scanner) matches(text []byte, _ *budget, found func(start, end int)) error {
	for i := 0; i < len(text); {
		end := s(text, i)
		if end == i {
			_, size := decodeRune(text[i:])
			i += size
			continue
		}
		found(i, end)
		i = end
	}
	return nil
}

// spaces is " {2,}".
type spaces struct{}

func (spaces) matches(text []byte, _ *budget, found func(start, end int)) error {
	for i := 0; ; {
		n := bytes.Index(text[i:], []byte("  "))
		if n < 0 {
			return nil
		}
		start := i + n
		for i = start; i < len(text) && text[i] == ' '; {
			i++
		}
		found(start, i)
	}
}
