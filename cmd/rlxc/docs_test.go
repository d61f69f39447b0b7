package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/options"
)

var update = flag.Bool("update", false, "write docs/command-line.md anew")

// TestReference: docs/command-line.md is what the commands say of themselves. After a change: go test ./cmd/rlxc -run TestReference -update
func TestReference(t *testing.T) {
	const file = "../../docs/command-line.md"
	root, _ := newRoot()
	var b strings.Builder
	fmt.Fprintf(&b, "<!-- Written by go test ./cmd/rlxc -run TestReference -update: DO NOT EDIT. -->\n\n# The command line\n\n%s\n\n"+
		"`--json` prints JSON, for every command.\n", root.Long)
	for _, g := range root.Groups() {
		fmt.Fprintf(&b, "\n## %s\n", strings.TrimSuffix(g.Title, ":"))
		for _, c := range root.Commands() {
			if c.GroupID == g.ID {
				manualSection(&b, c)
			}
		}
	}
	b.WriteString("\n## Options of a compilation\n\nEvery command that compiles a model takes these options, under the names of the Go API. A flag " +
		"takes\nprecedence over its variable.\n\n| flag | variable | `rlxc.CompileOptions` | meaning |\n|---|---|---|---|\n")
	for _, row := range options.Table {
		var flags []string
		if row.Short != "" {
			flags = append(flags, "`-"+row.Short+"`")
		}
		usage, variable := row.Usage, ""
		if row.Flag != "" {
			flags = append(flags, "`--"+row.Flag+"`")
			if c, ok := row.Value(&options.Compile{}).(options.Choice); ok {
				usage += ": " + options.Join(c.Words())
			}
		}
		if row.Env != "" {
			variable = "`" + row.Env + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | `%s` | %s |\n", strings.Join(flags, ", "), variable, row.Field, usage)
	}
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
	}
	have, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, b.String(), string(have), "run: go test ./cmd/rlxc -run TestReference -update")
}

// manualSection writes the section of a command. Flags of a compilation have one table for all commands.
func manualSection(b *strings.Builder, c *cobra.Command) {
	fmt.Fprintf(b, "\n### %s\n\n%s\n\n```\n%s\n```\n", c.Name(), c.Long, strings.ReplaceAll(c.Example, "  rlxc", "rlxc"))
	shared, flags := false, 0
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		for _, row := range options.Table {
			if row.Flag == f.Name && row.Usage != "" && strings.HasPrefix(f.Usage, row.Usage) {
				shared = true
				return
			}
		}
		if flags++; flags == 1 {
			b.WriteString("\n| flag | meaning |\n|---|---|\n")
		}
		name, usage := pflag.UnquoteUsage(f)
		short := ""
		if f.Shorthand != "" {
			short = "-" + f.Shorthand + "`, `"
		}
		if f.DefValue != "" && !strings.Contains(usage, "(default") && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "[]" {
			usage += fmt.Sprintf(" (default %s)", f.DefValue)
		}
		fmt.Fprintf(b, "| `%s` | %s |\n", strings.TrimSpace(short+"--"+f.Name+" "+name), usage)
	})
	if shared {
		b.WriteString("\nIt also takes the [options of a compilation](#options-of-a-compilation).\n")
	}
}
