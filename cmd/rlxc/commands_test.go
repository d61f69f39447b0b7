package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/modeltest"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/ir"
)

// commandFolder is a working folder with the models of makeModels and of package pipeline, without variables of the environment that
// change results.
func commandFolder(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	testModels, err := filepath.Abs("../../pipeline/testdata")
	require.NoError(t, err)
	require.NoError(t, makeModels(dir))
	list, err := os.ReadDir(testModels)
	require.NoError(t, err)
	for _, e := range list {
		require.NoError(t, os.Symlink(filepath.Join(testModels, e.Name()), filepath.Join(dir, e.Name())))
	}
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); strings.HasPrefix(name, "RLXC_") {
			t.Setenv(name, "") // which restores it
			require.NoError(t, os.Unsetenv(name))
		}
	}
	t.Setenv(options.EnvCPU, "generic")
	t.Setenv("HF_HUB_CACHE", "hub")
	t.Setenv("HF_HUB_OFFLINE", "1")
	t.Chdir(dir)
}

// split splits a command line at spaces outside of single quotes.
func split(line string) (args []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			args = append(args, part)
		} else {
			args = append(args, strings.Fields(part)...)
		}
	}
	return args
}

// command runs a command line and returns what it prints, its errors, and its exit code if that is not 0. "show FILE" prints a file that
// a command wrote.
func command(t *testing.T, ctx context.Context, line string) string {
	args := split(line)
	var out, errs bytes.Buffer
	if args[0] == "show" {
		show(t, &out, args[1])
	} else if code := execute(ctx, args, &out, &errs); code != 0 {
		fmt.Fprintf(&errs, "exit code %d\n", code)
	}
	text := out.String()
	for line := range strings.Lines(errs.String()) {
		text += "! " + line
	}
	return text
}

func show(t *testing.T, out io.Writer, file string) {
	if read := readers[filepath.Ext(file)]; read != nil {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		in, err := read(data, ir.Type{}, 1<<20)
		require.NoError(t, err)
		var names []string
		for name := range in {
			names = append(names, name)
		}
		slices.Sort(names)
		require.NoError(t, (&runReport{names: names, Outputs: in}).table(out))
		return
	}
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	var in io.Reader = f
	if _, c := unpacked(file); c != nil {
		in, err = c.unpack(f)
		require.NoError(t, err)
	}
	_, err = io.Copy(out, in)
	require.NoError(t, err)
}

// changing are times, and the memory of this process.
var changing = regexp.MustCompile(`[\d.]+ ms|"seconds": [\d.e-]+|"?\b(resident|peak|runtime)(=|": )\d+|` +
	`\b(resident memory|peak): [\d.]+|container: .*|"(container_run|container_serve|serve_sessions)": \d+`)

// TestCommands runs the commands of testdata/commands.txt, and compares what they print and write with what is recorded there. After a
// change: go test ./cmd/rlxc -run TestCommands -update
func TestCommands(t *testing.T) {
	file, err := filepath.Abs("testdata/commands.txt")
	require.NoError(t, err)
	commandFolder(t)
	before := os.Args
	defer func() { os.Args = before }()
	modeltest.Transcript(t, file, *update, changing, func(line string) string {
		os.Args = append([]string{"rlxc"}, split(line)...) // by which workers are started, and runs told apart
		return command(t, t.Context(), line)
	})
}
