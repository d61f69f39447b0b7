package policy

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sentenceEnd is between two sentences.
var sentenceEnd = regexp.MustCompile("([.:!?]) ([A-Z`])")

// sentences are those of a document in Markdown, in order: of paragraphs, items of lists, and cells of tables but for those of the column
// "tests".
func sentences(document string) (list []string) {
	var paragraph []string
	add := func(text string) {
		text = strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "**", "")
		for text = sentenceEnd.ReplaceAllString(text, "$1\n$2"); text != ""; {
			var sentence string
			sentence, text, _ = strings.Cut(text, "\n")
			list = append(list, sentence)
		}
	}
	end := func() {
		add(strings.Join(paragraph, " "))
		paragraph = nil
	}
	for line := range strings.SplitSeq(document, "\n") {
		switch {
		case line == "", strings.HasPrefix(line, "#"), strings.HasPrefix(line, "|---"):
			end()
		case strings.HasPrefix(line, "|"):
			end()
			cells := strings.Split(strings.Trim(line, "| "), " | ")
			for _, cell := range cells[:min(2, len(cells))] {
				add(cell)
			}
		default:
			if strings.HasPrefix(line, "- ") {
				end()
			}
			paragraph = append(paragraph, strings.TrimPrefix(line, "- "))
		}
	}
	end()
	return list
}

// TestEverySentenceAboutSecurityHasATest holds docs/security.md to testdata/security.txt, which has each sentence of the page and, in the
// line below it, the tests that hold the sentence: TestX, TestX/part for what a subtest or a case is called, a script, or "none:" and the
// reason.
func TestEverySentenceAboutSecurityHasATest(t *testing.T) {
	t.Chdir(root)
	document, err := os.ReadFile("docs/security.md")
	require.NoError(t, err)
	table, err := os.ReadFile("internal/policy/testdata/security.txt")
	require.NoError(t, err)
	held := map[string]string{}
	lines := strings.Split(strings.TrimSpace(string(table)), "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		require.True(t, strings.HasPrefix(lines[i+1], "\t"), "line %d is not tests: %s", i+2, lines[i+1])
		held[lines[i]] = strings.TrimSpace(lines[i+1])
	}
	known := map[string]string{} // functions of tests by name, with the text of their files; other files by name, with nothing
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && d.Name() == ".git" {
				return filepath.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(path, "_test.go") {
			known[d.Name()] = ""
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range function.FindAllStringSubmatch(string(text), -1) {
			known[m[1]] += string(text)
		}
		return err
	}))
	robustness := "" // attacks and the corpus are tables in several files
	files, err := filepath.Glob("internal/robustness/*_test.go")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		robustness += string(text)
	}
	seen := map[string]bool{}
	for _, sentence := range sentences(string(document)) {
		seen[sentence] = true
		tests, ok := held[sentence]
		if !ok {
			t.Errorf("no test holds this sentence of docs/security.md; write both into "+
				"internal/policy/testdata/security.txt:\n%s", sentence)
			continue
		}
		if reason, none := strings.CutPrefix(tests, "none: "); none {
			require.NotEmpty(t, reason)
			continue
		}
		for name := range strings.SplitSeq(tests, ", ") {
			test, part, _ := strings.Cut(name, "/")
			text, ok := known[test]
			if !ok {
				t.Errorf("there is no test %s, which holds: %s", test, sentence)
			} else if !strings.Contains(text, part) && !strings.Contains(robustness, part) {
				t.Errorf("%s has no %q, which holds: %s", test, part, sentence)
			}
		}
	}
	for sentence := range held {
		require.True(t, seen[sentence], "docs/security.md no longer has: %s", sentence)
	}
}
