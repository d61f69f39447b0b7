package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// A behavior says what becomes of what a pattern finds.
type behavior int

const (
	removed behavior = iota
	isolated
	mergedWithPrevious
	mergedWithNext
	contiguous
)

var behaviors = map[string]behavior{
	"Removed": removed, "Isolated": isolated, "MergedWithPrevious": mergedWithPrevious, "MergedWithNext": mergedWithNext,
	"Contiguous": contiguous,
}

func (b *behavior) UnmarshalJSON(data []byte) error {
	var name string
	if err := json.Unmarshal(data, &name); err != nil {
		return err
	}
	known, ok := behaviors[name]
	if !ok {
		return fmt.Errorf("unknown behavior %q; known are %s", name, names(behaviors))
	}
	*b = known
	return nil
}

// A splitter splits parts where a pattern matches, or with invert where it does not.
type splitter struct {
	pattern  pattern
	behavior behavior
	invert   bool
}

func readSplit(raw json.RawMessage, _ int) (preTokenizer, error) {
	var f struct {
		Pattern  patternField `json:"pattern"`
		Behavior *behavior    `json:"behavior"`
		Invert   bool         `json:"invert"`
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, err
	}
	if f.Behavior == nil {
		return nil, fmt.Errorf("it names no behavior; known are %s", names(behaviors))
	}
	p, err := f.Pattern.compile()
	return splitter{p, *f.Behavior, f.Invert}, err
}

func readPunctuation(raw json.RawMessage, _ int) (preTokenizer, error) {
	f := struct {
		Behavior behavior `json:"behavior"`
	}{isolated}
	err := json.Unmarshal(raw, &f)
	return splitter{hasClass(punct), f.Behavior, false}, err
}

func readDigits(raw json.RawMessage, _ int) (preTokenizer, error) {
	var f struct {
		Individual bool `json:"individual_digits"`
	}
	err := json.Unmarshal(raw, &f)
	if f.Individual {
		return splitter{hasClass(numeric), isolated, false}, err
	}
	return splitter{hasClass(numeric), contiguous, false}, err
}

func readDelimiter(raw json.RawMessage, _ int) (preTokenizer, error) {
	var f struct {
		Delimiter string `json:"delimiter"`
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, err
	}
	if utf8.RuneCountInString(f.Delimiter) != 1 {
		return nil, fmt.Errorf("invalid delimiter %q: want one character", f.Delimiter)
	}
	return splitter{literal(f.Delimiter), removed, false}, nil
}

func (s splitter) split(w *work) error {
	if l, ok := s.pattern.(literal); ok && !s.invert && !strings.Contains(w.string(), string(l)) {
		return nil
	}
	return w.each(func(p part, out []part) ([]part, error) {
		text := w.bytes[p.start:p.end]
		if scan, ok := s.pattern.(scanner); ok && s.behavior == isolated {
			return scan.isolate(p, text, out), nil
		}
		if s.behavior == isolated {
			done := 0
			err := s.pattern.matches(text, &w.budget, func(start, end int) {
				out = appendPart(out, p, done, start)
				out = appendPart(out, p, start, end)
				done = end
			})
			return appendPart(out, p, done, len(text)), err
		}
		found, done := w.found[:0], 0
		err := s.pattern.matches(text, &w.budget, func(start, end int) {
			if done < start {
				found = append(found, match{done, start, s.invert})
			}
			found = append(found, match{start, end, !s.invert})
			done = end
		})
		if done < len(text) {
			found = append(found, match{done, len(text), s.invert})
		}
		w.found = found
		return s.behavior.fold(found, p, out), err
	})
}

// isolate appends what the pattern finds and what is between, each as a part.
func (s scanner) isolate(p part, text []byte, out []part) []part {
	done := 0
	for i := 0; i < len(text); {
		end := s(text, i)
		if end == i {
			_, size := decodeRune(text[i:])
			i += size
			continue
		}
		if done < i {
			out = append(out, part{p.start + int32(done), p.start + int32(i), none})
		}
		out = append(out, part{p.start + int32(i), p.start + int32(end), none})
		i, done = end, end
	}
	return appendPart(out, p, done, len(text))
}

// appendPart appends a range of a part, if it is not empty.
func appendPart(out []part, p part, start, end int) []part {
	if start < end {
		out = append(out, part{p.start + int32(start), p.start + int32(end), none})
	}
	return out
}

// fold appends the parts that a behavior makes of matches.
func (b behavior) fold(found []match, p part, out []part) []part {
	switch b {
	case removed:
		for _, m := range found {
			if !m.hit {
				out = appendPart(out, p, m.start, m.end)
			}
		}
	case isolated:
		for _, m := range found {
			out = appendPart(out, p, m.start, m.end)
		}
	case contiguous:
		joinMatches(found, func(hit, previous bool) bool { return hit == previous },
			func(m match) { out = appendPart(out, p, m.start, m.end) })
	case mergedWithPrevious:
		joinMatches(found, func(hit, previous bool) bool { return hit && !previous },
			func(m match) { out = appendPart(out, p, m.start, m.end) })
	case mergedWithNext:
		for i := 0; i < len(found); {
			// A match goes with what follows it, unless that is a match too.
			m := found[i]
			if m.hit && i+1 < len(found) && !found[i+1].hit {
				m.end = found[i+1].end
				i++
			}
			i++
			out = appendPart(out, p, m.start, m.end)
		}
	}
	return out
}

// joinMatches calls do for each range. A range is joined with the next one if join returns true for the two.
func joinMatches(found []match, join func(hit, previous bool) bool, do func(match)) {
	previous := false
	var m match
	for i, next := range found {
		switch {
		case i == 0:
			m = next
		case join(next.hit, previous):
			m.end = next.end
		default:
			do(m)
			m = next
		}
		previous = next.hit
	}
	do(m)
}

// scanWhitespace is \w+|[^\w\s]+.
func scanWhitespace(text []byte, i int) int {
	r, size := decodeRune(text[i:])
	k := classOf(r)
	switch {
	case k&word != 0:
		return scanRun(text, i+size, word)
	case k&space != 0:
		return i
	}
	return scanWithout(text, i+size, word|space)
}
