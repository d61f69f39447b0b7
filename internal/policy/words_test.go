package policy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// words lists the private words that the field has a term for: docs/glossary.md defines the terms. allowed is where a word has its
// usual meaning.
var words = []struct{ word, pattern, allowed, better string }{
	{"behind", `behind`, `behind a proxy`, "after; beyond"},
	{"by itself", `(by|of) (itself|themselves|its own|their own)`, ``, "separate; separately; alone"},
	{"codes", `code[sd]?`, `((exit|status|source|machine) code|code blocks?|code)s?`, "quantized values; stored weights"},
	{"figure", `figures?`, ``, "number; metric; value"},
	{"hand on", `hand(s|ed|ing)? (it |them )?on`, ``, "pass; carry; loop-carried"},
	{"kept", `kept( the)? (in|out)puts?|kept (values?|tensors?|buffers?)|kept:|kind kept`, ``,
		"device tensor; opaque operator; not quantised"},
	{"lie", `lies?|lying|lay`, ``, "is; is stored; follows"},
	{"place", `places?`, `(planner|which|mode|rlxc|that) places|in[- ]place|last place|one place|first place|takes? the place of`,
		"position; flat index; instead of"},
	{"rows", `by rows|rows? of (a|the|its|each) (batch|texts?)|longest row|tokens of a row`, ``,
		"packed batch; sequence; kernel entry"},
	{"so many", `so many`, `so many simple`, "n; that many"},
	{"stand", `stands?|stood`, `decisions? that stands?|stands for`, "is; is written"},
	{"taken out", `(taken?|takes|taking|left|leaves?|leaving) (the |its |of )?padding out|padding (is |was )?(taken|left) out`, ``,
		"skipped; unpadded; excluded; removed"},
	{"tell", `tells?|told`, ``, "reports; returns; distinguishes"},
	{"texts", `lengths? of texts|texts? (of|in) a batch|texts without padding|packed texts|padding of (a |the )?texts?`, ``, "sequence"},
	{"trip", `trips?`, ``, "iteration"},
	{"turn", `turn(s|ed|ing|er)?`, `turn(s|ed)? [^.;]*into|in turn`, "transpose; rotate; flip; alternately; convert"},
}

// gone reports the private words in files. shown is the part of a file that is searched.
func gone(t *testing.T, files []string, shown func(content string) string) {
	require.NotEmpty(t, files)
	for _, w := range words {
		pattern := regexp.MustCompile(`(?i)\b(` + w.pattern + `)\b`)
		allowed := regexp.MustCompile(`(?i)\b(` + w.allowed + `)\b`)
		for _, file := range files {
			content, err := os.ReadFile(file)
			require.NoError(t, err)
			number := 0
			for line := range strings.Lines(shown(string(content))) {
				number++
				if w.allowed != "" {
					line = allowed.ReplaceAllString(line, "")
				}
				if found := pattern.FindString(line); found != "" {
					t.Errorf("%s:%d: %q: write %q", file, number, found, w.better)
				}
			}
		}
	}
}

// TestWords searches the documents.
func TestWords(t *testing.T) {
	t.Chdir(root)
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	roots, err := filepath.Glob("*.md")
	require.NoError(t, err)
	gone(t, append(roots, pages...), func(content string) string { return content })
}
