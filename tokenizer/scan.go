package tokenizer

import "unicode/utf8"

// gpt2Pattern is the pattern of GPT-2, which byte-level BPE splits by where it is not configured otherwise.
const gpt2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

const (
	contractions = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	upperLower   = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+`
	upperOnly    = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*`
)

// scanners are hand-made for the patterns that models were published with, by their text. Each goes over a match once.
var scanners = map[string]scanner{
	gpt2Pattern: scanGPT2,
	// Llama 3, and the cl100k_base of GPT-4.
	contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`: scanGPT4(3),
	// Qwen 2 and 3.
	contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`: scanGPT4(1),
	// o200k_base of GPT-4o, and Llama 4.
	upperLower + contractions + `?|` + upperOnly + contractions +
		`?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`: scanGPT4o,
	`\s+`: func(text []byte, i int) int { return scanRun(text, i, blank) },
}

// scanRun returns where the characters that have one of the classes end.
func scanRun(text []byte, i int, c class) int {
	for i < len(text) {
		if b := text[i]; b < utf8.RuneSelf {
			if classes[b]&c == 0 {
				break
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if classOf(r)&c == 0 {
			break
		}
		i += size
	}
	return i
}

// scanWithout returns where the characters end that have none of the classes.
func scanWithout(text []byte, i int, c class) int {
	for i < len(text) {
		if b := text[i]; b < utf8.RuneSelf {
			if classes[b]&c != 0 {
				break
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if classOf(r)&c != 0 {
			break
		}
		i += size
	}
	return i
}

// scanOther returns where the characters end that are not letters, numbers or white space.
func scanOther(text []byte, i int) int { return scanWithout(text, i, letter|number|blank) }

// scanGPT2 is gpt2Pattern.
func scanGPT2(text []byte, i int) int {
	if text[i] == '\'' {
		if end := scanContraction(text, i, false); end > i {
			return end
		}
	}
	j := i
	if text[i] == ' ' && i+1 < len(text) {
		j++
	}
	r, size := decodeRune(text[j:])
	switch k := classOf(r); {
	case k&letter != 0:
		return scanRun(text, j+size, letter)
	case k&number != 0:
		return scanRun(text, j+size, number)
	case k&blank == 0:
		return scanOther(text, j+size)
	}
	return scanBlanks(text, i)
}

// scanBlanks is \s+(?!\S)|\s+: white space, but for its last character if something else follows.
func scanBlanks(text []byte, i int) int {
	end, last := i, i
	for end < len(text) {
		r, size := decodeRune(text[end:])
		if classOf(r)&blank == 0 {
			if last > i {
				return last
			}
			break
		}
		last = end
		end += size
	}
	return end
}

// scanContraction is 's|'t|'re|'ve|'m|'ll|'d, in either case if fold is set. It returns i where there is none.
func scanContraction(text []byte, i int, fold bool) int {
	if i >= len(text) || text[i] != '\'' || i+1 == len(text) {
		return i
	}
	at := func(j int) byte {
		if j >= len(text) {
			return 0
		}
		c := text[j]
		if fold && 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		return c
	}
	switch a, b := at(i+1), at(i+2); {
	case a == 's', a == 't', a == 'm', a == 'd':
		return i + 2
	case a == 'r' && b == 'e', a == 'v' && b == 'e', a == 'l' && b == 'l':
		return i + 3
	case fold && a == 0xc5 && b == 0xbf: // U+017F, the long s
		return i + 3
	}
	return i
}

// scanNewlines is \s*[\r\n]+ followed by \s+(?!\S)|\s+.
func scanNewlines(text []byte, i int) int {
	newline := i
	for end := i; end < len(text); {
		r, size := decodeRune(text[end:])
		if classOf(r)&blank == 0 {
			break
		}
		end += size
		if r == '\n' || r == '\r' {
			newline = end
		}
	}
	if newline > i {
		return newline
	}
	return scanBlanks(text, i)
}

// scanNumber is \p{N}{1,most}.
func scanNumber(text []byte, i, most int) int {
	for ; most > 0 && i < len(text); most-- {
		r, size := decodeRune(text[i:])
		if classOf(r)&number == 0 {
			break
		}
		i += size
	}
	return i
}

// scanGPT4 is the pattern of GPT-4 for numbers of that many digits.
func scanGPT4(digits int) scanner {
	return func(text []byte, i int) int {
		if text[i] == '\'' {
			if end := scanContraction(text, i, true); end > i {
				return end
			}
		}
		r, size := decodeRune(text[i:])
		k := classOf(r)
		switch {
		case k&letter != 0:
			return scanRun(text, i+size, letter)
		case k&number != 0:
			return scanNumber(text, i, digits)
		case r != '\r' && r != '\n':
			if end := scanRun(text, i+size, letter); end > i+size {
				return end
			}
		}
		return scanMarks(text, i, r, k, '\r')
	}
}

// scanMarks is ` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+` at the character r of the classes k. The byte also may follow the
// marks, as newlines do.
func scanMarks(text []byte, i int, r rune, k class, also byte) int {
	j := i
	if r == ' ' {
		j++
	}
	if j == i && k&blank != 0 {
		return scanNewlines(text, i)
	}
	end := scanOther(text, j)
	if end == j {
		return scanNewlines(text, i)
	}
	for end < len(text) && (text[end] == '\r' || text[end] == '\n' || text[end] == also) {
		end++
	}
	return end
}

// scanGPT4o is the pattern of GPT-4o.
func scanGPT4o(text []byte, i int) int {
	r, size := decodeRune(text[i:])
	k := classOf(r)
	if k&number != 0 {
		return scanNumber(text, i, 3)
	}
	// Each alternative is tried with the optional character before the word, then without it.
	prefix := k&letter == 0 && r != '\r' && r != '\n'
	for _, word := range []scanner{scanUpperLower, scanUpperOnly} {
		if prefix {
			if end := word(text, i+size); end > i+size {
				return contracted(text, end)
			}
		}
		if end := word(text, i); end > i {
			return contracted(text, end)
		}
	}
	return scanMarks(text, i, r, k, '/')
}

// contracted takes in a contraction.
func contracted(text []byte, i int) int { return scanContraction(text, i, true) }

// caseOf reports in which of the two sets of GPT-4o's pattern a character is: capitals with letters without case and marks, or small
// letters with the same.
func caseOf(r rune) (upper, lower bool) {
	k := classOf(r)
	both := k&anyMark != 0 || k&letter != 0 && k&(capital|small) == 0
	return both || k&capital != 0, both || k&small != 0
}

// scanUpperLower is [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+.
func scanUpperLower(text []byte, i int) int {
	j, last := i, -1 // last: the end of the last character of the first run that may be in the second
	for j < len(text) {
		r, size := decodeRune(text[j:])
		upper, lower := caseOf(r)
		if !upper {
			break
		}
		j += size
		if lower {
			last = j
		}
	}
	end := scanLower(text, j)
	switch {
	case end > j:
		return end
	case last >= 0: // the first run returns to it
		return last
	}
	return i
}

// scanUpperOnly is [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*.
func scanUpperOnly(text []byte, i int) int {
	j := i
	for j < len(text) {
		r, size := decodeRune(text[j:])
		if upper, _ := caseOf(r); !upper {
			break
		}
		j += size
	}
	if j == i {
		return i
	}
	return scanLower(text, j)
}

// scanLower is [\p{Ll}\p{Lm}\p{Lo}\p{M}]*.
func scanLower(text []byte, i int) int {
	for i < len(text) {
		r, size := decodeRune(text[i:])
		if _, lower := caseOf(r); !lower {
			break
		}
		i += size
	}
	return i
}
