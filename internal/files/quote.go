package files

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxQuoted is the length in bytes to which Quote cuts.
const maxQuoted = 120

// Quote prints a name from a model or a file for a message: in double quotes, what a terminal would obey (escapes, direction
// marks) and bytes that are not UTF-8 spelled out, and cut if it is too long to read.
func Quote(name string) string {
	if len(name) <= maxQuoted {
		return strconv.Quote(name)
	}
	return strconv.Quote(start(name, maxQuoted)+"…") + " (" + strconv.Itoa(len(name)) + " bytes)"
}

// start returns at most the first n bytes, in whole characters.
func start(s string, n int) string {
	cut := n
	for cut > n-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}

// Obeyed reports whether terminals, editors or browsers act on a character instead of showing it: control characters but for tabs and ends
// of lines, and marks that change the direction of text.
func Obeyed(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r)
}

// Harmless spells out what is Obeyed in a text, and replaces bytes that are not UTF-8.
func Harmless(text string) string {
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	if !strings.ContainsFunc(text, Obeyed) {
		return text
	}
	var b []byte
	for _, r := range text {
		if !Obeyed(r) {
			b = utf8.AppendRune(b, r)
			continue
		}
		quoted := strconv.AppendQuoteRune(nil, r)
		b = append(b, quoted[1:len(quoted)-1]...)
	}
	return string(b)
}

// maxMessage is the largest error that repeats what a model says, in bytes.
const maxMessage = 4 << 10

// Cut ends a message that is too long: a model's lists and texts may have millions of elements.
func Cut(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return start(message, maxMessage) + "… (" + strconv.Itoa(len(message)) + " bytes)"
}

// Plain prints a name without quotes where it is an identifier, as those of operators and attributes are; otherwise it is
// Quote.
func Plain(name string) string {
	odd := func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-", r)
	}
	if name == "" || len(name) > maxQuoted || strings.ContainsFunc(name, odd) {
		return Quote(name)
	}
	return name
}
