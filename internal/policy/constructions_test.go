package policy

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var updateConstructions = flag.Bool("update-constructions", false, "write the numbers of hard constructions to testdata/constructions.txt")

// constructions are ways to write a comment that readers did not understand at the first reading. A machine can see them, unlike a fluent
// sentence that is wrong.
var constructions = []struct {
	name    string
	fields  bool // only comments of a field, a constant or a variable, on its line or above it
	pattern *regexp.Regexp
}{
	// "// of the heap that another binding takes" has no head noun: "// estimated heap bytes of another binding" has.
	{"a field without a head noun", true, regexp.MustCompile(`^(of|that|in|as|by|those)\b`)},
	// "says so of operand i" and "is about attention" hide the verb: "reports whether operand i …", "finds attentions …".
	{"a verb without a meaning", false, regexp.MustCompile(`(?i)\b(is|are) about (a|an|the|what|attention)\b|\bsa(y|ys|id) so\b`)},
	// "what it does if results are not" stands for a noun that the reader has to find.
	{"a clause for a noun", false,
		regexp.MustCompile(`(?i)\bwhat (it|they|that|this|these|those|(the|an?) \w+) (is|are|does|do|has|have|was|were)\b`)},
	// "the operand that the tuples begin with" makes the reader go back for the object.
	{"a preposition at the end", false,
		regexp.MustCompile(`(?i)\b(of|to|by|with|for|from|in|on|at|into|over|under|between|about|through)[.:;]?$`)},
}

// countConstructions returns the number of comments with a hard construction for each folder, and where they are.
func countConstructions(t *testing.T) (counts map[string]int, where map[string][]string) {
	counts, where = map[string]int{}, map[string][]string{}
	walkSource(t, func(folder, file string) {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution|parser.ParseComments)
		require.NoError(t, err)
		if ast.IsGenerated(f) {
			return
		}
		fields := map[*ast.CommentGroup]bool{}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Field:
				fields[n.Doc], fields[n.Comment] = true, true
			case *ast.ValueSpec:
				fields[n.Doc], fields[n.Comment] = true, true
			}
			return true
		})
		for _, group := range f.Comments {
			text := strings.TrimSpace(group.Text())
			for _, c := range constructions {
				if text != "" && (!c.fields || fields[group]) && c.pattern.MatchString(text) {
					counts[folder]++
					where[folder] = append(where[folder], fmt.Sprintf("%s: %s: %s", fset.Position(group.Pos()), c.name, text))
					break
				}
			}
		}
	})
	return counts, where
}

// TestConstructions holds that no folder gets more comments with a hard construction than testdata/constructions.txt allows, which is what
// it had when the test was written. Who rewrites comments runs the test with -update-constructions, which only lowers the numbers.
func TestConstructions(t *testing.T) {
	const file = "internal/policy/testdata/constructions.txt"
	t.Chdir(root)
	counts, where := countConstructions(t)
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	allowed := map[string]int{}
	for line := range strings.Lines(string(content)) {
		folder, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		allowed[folder], err = strconv.Atoi(number)
		require.NoError(t, err, line)
	}
	for folder, n := range counts {
		if n > allowed[folder] {
			t.Errorf("%s has %d comments with a construction that readers do not understand at once, %d are allowed; one is new:\n%s",
				folder, n, allowed[folder], strings.Join(where[folder], "\n"))
		}
	}
	if *updateConstructions {
		var b strings.Builder
		for _, folder := range slices.Sorted(maps.Keys(allowed)) {
			if n := min(counts[folder], allowed[folder]); n > 0 {
				fmt.Fprintf(&b, "%s %d\n", folder, n)
			}
		}
		require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o666))
	}
}
