package modeltest

import (
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
)

// Transcript calls do with what is after "$ " in the lines of a file that begin so, and compares what it returns with the lines that
// follow. Numbers with a fraction may differ by rounding, and what the expression matches is recorded as "…". After "$~ " neither numbers
// nor the order of lines count: they are times. Other files of the archive are written into the working folder. With update, the file
// becomes what do returns.
func Transcript(t *testing.T, file string, update bool, changing *regexp.Regexp, do func(line string) string) {
	recorded, err := txtar.ParseFile(file)
	require.NoError(t, err)
	for _, f := range recorded.Files {
		require.NoError(t, os.WriteFile(f.Name, f.Data, 0o666))
	}
	var all, want strings.Builder
	line := ""
	check := func() {
		if mark, text, ok := strings.Cut(line, " "); ok {
			if testing.Verbose() {
				t.Log(line)
			}
			got := changing.ReplaceAllString(do(text), "…")
			if mark == "$~" {
				got = number.ReplaceAllString(got, "#")
			}
			if got != "" && !strings.HasSuffix(got, "\n") {
				got += "\n"
			}
			if !update && !alike(want.String(), got, mark == "$") {
				t.Errorf("%s\nwant:\n%s\ngot:\n%s", line, want.String(), got)
			}
			all.WriteString(got)
		}
		want.Reset()
	}
	for text := range strings.Lines(string(recorded.Comment)) {
		switch {
		case strings.HasPrefix(text, "$ "), strings.HasPrefix(text, "$~ "):
			check()
			line = strings.TrimSuffix(text, "\n")
			all.WriteString(text)
		case strings.HasPrefix(text, "# == "): // the head of a section
			check()
			line = ""
			all.WriteString(text)
		default:
			want.WriteString(text)
		}
	}
	check()
	if update {
		recorded.Comment = []byte(all.String())
		require.NoError(t, os.WriteFile(file, txtar.Format(recorded), 0o666))
	}
}

var (
	number = regexp.MustCompile(`-?\b\d+(\.\d+)?(e[-+]?\d+)?\b`)
	blanks = regexp.MustCompile(` +`)
)

// alike compares two texts, in which numbers with a fraction may differ by rounding. Without numbers, lines have any order, too.
func alike(want, got string, numbers bool) bool {
	form := func(s string) string {
		s = blanks.ReplaceAllString(number.ReplaceAllStringFunc(s, func(x string) string {
			if !numbers || strings.ContainsAny(x, ".e") {
				return "#"
			}
			return x
		}), " ")
		if !numbers {
			s = strings.Join(slices.Sorted(strings.SplitSeq(s, "\n")), "\n")
		}
		return s
	}
	if form(want) != form(got) {
		return false
	}
	a, b := number.FindAllString(want, -1), number.FindAllString(got, -1)
	for i := range a {
		x, err := strconv.ParseFloat(a[i], 64)
		y, err2 := strconv.ParseFloat(b[i], 64)
		if numbers && (err != nil || err2 != nil || math.Abs(x-y) > 1e-4+1e-3*math.Abs(x)) {
			return false
		}
	}
	return true
}
