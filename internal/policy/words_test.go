package policy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// words lists the private words that the field has a term for: docs/glossary.md defines the terms. allowed is where a word has its
// usual meaning.
var words = []struct{ word, pattern, allowed, better string }{
	{"anew", `anew`, ``, "again"},
	{"behind", `behind`, `behind( a proxy|$)`, "after; beyond"},
	{"by itself", `(by|of) (itself|themselves|its own|their own)`, ``, "separate; separately; alone"},
	{"codes", `code[sd]?`, `((exit|status|source|machine) code|code blocks?|code)s?`, "quantized values; stored weights"},
	{"figure", `figures?`, ``, "number; metric; value"},
	{"go on", `go(es|ing)? on`, ``, "continue"},
	{"hand on", `hand(s|ed|ing)? (it |them )?on`, ``, "pass; carry; loop-carried"},
	{"is no", `(it|which|that|what) (is|are) no`, `(it|which|that) (is|are) no (longer|more)`, "is not"},
	{"kept", `kept( the)? (in|out)puts?|kept (values?|tensors?|buffers?)|kept:|kind kept`, ``,
		"device tensor; opaque operator; not quantised"},
	{"lie", `lies?|lying|lay`, ``, "is; is stored; follows"},
	{"nobody", `(any|no|some)body|whoever`, ``, "the caller; no other; unknown"},
	{"place", `places?`,
		`(planner|which|mode|rlxc|that) places|in[- ]place|last place|one place|first place|the place of|have a place|^place, and`,
		"position; flat index; instead of"},
	{"rows", `by rows|rows? of (a|the|its|each) (batch|texts?)|longest row|tokens of a row`, ``,
		"packed batch; sequence; kernel entry"},
	{"so many", `so many`, `so many simple`, "n; that many"},
	{"stand", `stands?|stood`, `decisions? that stands?|stands? for`, "is; is written"},
	{"taken out", `(taken?|takes|taking|left|leaves?|leaving) (the |its |of )?padding out|padding (is |was )?(taken|left) out`, ``,
		"skipped; unpadded; excluded; removed"},
	{"tell", `tells?|told`, ``, "reports; returns; distinguishes"},
	{"texts", `lengths? of texts|texts? (of|in) a batch|texts without padding|packed texts|padding of (a |the )?texts?`, ``, "sequence"},
	{"trip", `trips?`, ``, "iteration"},
	{"turn", `turn(s|ed|ing|er)?`, `turn(s|ed)? [^.;]*into|in turn`, "transpose; rotate; flip; alternately; convert"},
}

// search reports the private words in a text.
func search(t *testing.T, where, text string) {
	for i, w := range words {
		line := text
		if w.allowed != "" {
			line = compiledWords[i].allowed.ReplaceAllString(line, "")
		}
		if found := compiledWords[i].pattern.FindString(line); found != "" {
			t.Errorf("%s: %q in %q: write %q", where, found, text, w.better)
		}
	}
}

var compiledWords = func() (list []struct{ pattern, allowed *regexp.Regexp }) {
	for _, w := range words {
		list = append(list, struct{ pattern, allowed *regexp.Regexp }{
			regexp.MustCompile(`(?i)\b(` + w.pattern + `)\b`), regexp.MustCompile(`(?i)\b(` + w.allowed + `)\b`)})
	}
	return list
}()

// TestWords searches the documents.
func TestWords(t *testing.T) {
	t.Chdir(root)
	roots, err := filepath.Glob("*.md")
	require.NoError(t, err)
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	require.Greater(t, len(pages), 5)
	for _, file := range append(roots, pages...) {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		number := 0
		for line := range strings.Lines(string(content)) {
			number++
			search(t, fmt.Sprintf("%s:%d", file, number), line)
		}
	}
}

// source is what a string holds that is not a message: shaders and pages.
var source = regexp.MustCompile(`[;{}]|[+*] "`)

// TestWordsOfMessages searches what the program says: help texts, errors, and other strings of more than a word.
func TestWordsOfMessages(t *testing.T) {
	t.Chdir(root)
	walkSource(t, func(folder, file string) {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			l, ok := n.(*ast.BasicLit)
			if !ok || l.Kind != token.STRING || !strings.Contains(l.Value, " ") || source.MatchString(l.Value) && folder == "backend/wgpu" {
				return true
			}
			if text, err := strconv.Unquote(l.Value); err == nil && !strings.Contains(text, "<") {
				search(t, fset.Position(l.Pos()).String(), text)
			}
			return true
		})
	})
}

// placing is what a planner does with buffers.
var placing = regexp.MustCompile(`\bplaces?\b`)

// TestWordsOfComments searches the comments of the source.
func TestWordsOfComments(t *testing.T) {
	t.Chdir(root)
	walkSource(t, func(folder, file string) {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution|parser.ParseComments)
		require.NoError(t, err)
		if ast.IsGenerated(f) {
			return
		}
		for _, group := range f.Comments {
			for _, c := range group.List {
				text := c.Text
				if folder == "planner" || folder == "internal/engine" {
					text = placing.ReplaceAllString(text, "")
				}
				search(t, fset.Position(c.Pos()).String(), text)
			}
		}
	})
}

var (
	part = regexp.MustCompile(`[A-Z]+[a-z0-9]*|[a-z0-9]+`)
	// gone lists parts of identifiers that the field has another word for.
	gone = regexp.MustCompile(`^(anew|behind|codes|crew|kept|lies?|nobody|places?|stands?|tells?|told|trips?|turn(s|ed|ing)?|whoever)$`)
	// usual lists identifiers in which the field uses such a part.
	usual = regexp.MustCompile(`[iI]nPlace|statusCodes`)
)

// TestWordsOfIdentifiers searches the names that the source declares. A planner places buffers.
func TestWordsOfIdentifiers(t *testing.T) {
	t.Chdir(root)
	checked := 0
	walkSource(t, func(folder, file string) {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution|parser.ParseComments)
		require.NoError(t, err)
		if ast.IsGenerated(f) || folder == "planner" {
			return
		}
		imported := map[string]bool{}
		for _, i := range f.Imports {
			imported[path.Base(strings.Trim(i.Path.Value, `"`))] = true
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && imported[x.Name] {
					return false // the name of another package
				}
			}
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			checked++
			for _, p := range part.FindAllString(usual.ReplaceAllString(id.Name, ""), -1) {
				if gone.MatchString(strings.ToLower(p)) {
					t.Errorf("%s: %s: see docs/glossary.md", fset.Position(id.Pos()), id.Name)
				}
			}
			return true
		})
	})
	require.Greater(t, checked, 100000)
}

// TestWordsOfKernels searches the CUDA C++, code and comments.
func TestWordsOfKernels(t *testing.T) {
	t.Chdir(root)
	files, err := filepath.Glob("backend/cuda/_gen/*.cu*")
	require.NoError(t, err)
	require.Greater(t, len(files), 15)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		number := 0
		for line := range strings.Lines(string(content)) {
			number++
			for _, p := range part.FindAllString(line, -1) {
				if gone.MatchString(strings.ToLower(p)) {
					t.Errorf("%s:%d: %s: see docs/glossary.md", file, number, p)
				}
			}
		}
	}
}
