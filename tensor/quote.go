package tensor

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxQuoted is the length in bytes to which Quote cuts.
const maxQuoted = 120

// Quote prints a name from a model or a file for a message: in double quotes, what a terminal would obey (escapes, direction
// marks) and bytes that are not UTF-8 spelled out, and cut where it is longer than anybody reads.
func Quote(name string) string {
	if len(name) <= maxQuoted {
		return strconv.Quote(name)
	}
	cut := maxQuoted
	for cut > maxQuoted-utf8.UTFMax && !utf8.RuneStart(name[cut]) {
		cut--
	}
	return strconv.Quote(name[:cut]+"…") + " (" + strconv.Itoa(len(name)) + " bytes)"
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
