package lower

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var updateDocs = flag.Bool("update-docs", false, "rewrite ../docs/OPERATORS.md")

// operatorsFile is the table of operators that the documentation shows.
const operatorsFile = "../docs/OPERATORS.md"

func operatorsText() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Operators\n\nWhat rlxc understands, for models of opsets %d to %d of `ai.onnx`. \"Since\" lists the versions of the operator set from which a\n"+
		"meaning of its own is known; each holds up to the next. `rlxc inspect --ops` prints the same for a model.\n\n"+
		"Written by `go test ./lower -update-docs`; a test keeps it fresh.\n", MinOpset, MaxOpset)
	domain, name := "", ""
	for _, op := range Operators() {
		if op.Domain != domain {
			domain, name = op.Domain, ""
			if !strings.HasSuffix(b.String(), "\n") {
				b.WriteString(" |\n")
			}
			fmt.Fprintf(&b, "\n## %s\n\n| operator | since |\n|---|---|\n", domain)
		}
		if op.Name == name {
			fmt.Fprintf(&b, ", %d", op.Since)
			continue
		}
		if name != "" {
			b.WriteString(" |\n")
		}
		name = op.Name
		fmt.Fprintf(&b, "| %s | %d", name, op.Since)
	}
	return b.String() + " |\n"
}

func TestOperatorsDocument(t *testing.T) {
	text := operatorsText()
	if *updateDocs {
		require.NoError(t, os.WriteFile(operatorsFile, []byte(text), 0o644))
	}
	have, err := os.ReadFile(operatorsFile)
	require.NoError(t, err)
	require.Equal(t, text, string(have), "run: go test ./lower -update-docs")
}
