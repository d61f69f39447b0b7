package rewrite

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const docsHead = `# What -O 2 changes

Every rewrite states how far its result may differ from the model's. At level 1 only constants that are folded may be rounded
differently.

- **exact**: the same numbers for all operands, up to the sign of a zero and the bits of a NaN, and the same errors. Sums of
  products and of axes have no prescribed order, at any level and in any engine.
- **rounding**: the same function of finite numbers with other roundings, if nothing in between overflows. Such a rewrite does not
  apply where the last place of its result decides something larger: where it leads, through operators that only move elements,
  to Floor, Ceil, Round, Sign, a cast to integers, a comparison, Mod, ArgMax, TopK or an unknown operator. Before a quantiser it
  does not apply either, unless a sum of products precedes it: other values are the same in every engine, and quantised ones
  should be.
- **meaning**: another function, which is as good under the assumption in the table.
- **errors**: an error that a run would find is not found.

From -O 1 on, a node whose result nothing needs is removed, and with it an error of its sizes.

` + "`--exact` (`CompileOptions.Exact`)" + ` skips the rewrites of the last two kinds, which are these. It also keeps two
factors apart of which one makes numbers larger and the other smaller, and a factor beyond 2^24 or 2^-24 of a product:
(x·1e20)/1e20 is infinite where x·1e20 is.

`

// TestDocs holds the table of what rules change (go test ./internal/rewrite -update).
func TestDocs(t *testing.T) {
	var b strings.Builder
	b.WriteString(docsHead + "| rewrite | changes | assumes that |\n|---|---|---|\n")
	seen := map[string]bool{}
	byChange := map[Change][]string{}
	for _, p := range passes {
		for _, r := range p.rules {
			if seen[r.Name] {
				continue
			}
			seen[r.Name] = true
			if r.changes > Rounding {
				require.NotEmpty(t, r.assumes, "rule %s changes more than roundings and does not say what makes that right", r.Name)
				require.Equal(t, O2, p.level, "rule %s", r.Name)
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.Name, r.changes, r.assumes)
				continue
			}
			require.Empty(t, r.assumes, r.Name)
			byChange[r.changes] = append(byChange[r.changes], "`"+r.Name+"`")
		}
	}
	fmt.Fprintf(&b, "\nThese change roundings:%s.\n\nThe others are exact:%s.\n", lines(byChange[Rounding]), lines(byChange[Exact]))
	b.WriteString("\n## The passes\n\nThe passes run in this order. `rlxc compile M --html FILE` shows what each changed.\n\n" +
		"| pass | from | it |\n|---|---|---|\n")
	for _, p := range passes {
		fmt.Fprintf(&b, "| %s | -O %s | %s |\n", p.name, string(p.level), p.about)
	}
	const file = "../../docs/rewrites.md"
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o666))
	}
	have, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, b.String(), string(have))
}

// lines returns the names with commas between them, five on a line.
func lines(names []string) string {
	var b strings.Builder
	for five := range slices.Chunk(names, 5) {
		b.WriteString(",\n" + strings.Join(five, ", "))
	}
	return strings.TrimPrefix(b.String(), ",")
}
