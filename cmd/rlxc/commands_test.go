package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/options"
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
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text
}

func show(t *testing.T, out io.Writer, file string) {
	if read := readers[filepath.Ext(file)]; read != nil {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		in, err := read(data, 0, 1<<20)
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

var (
	fraction = regexp.MustCompile(`-?\b\d+(\.\d+)?(e[-+]?\d+)?\b`)
	blanks   = regexp.MustCompile(` +`)
	changing = regexp.MustCompile(`[\d.]+ ms|"seconds": [\d.e-]+|"?\b(resident|peak|runtime)(=|": )\d+`) // times, and memory of this process
)

// alike compares two texts, in which numbers with a fraction may differ by rounding. Without numbers, lines have any order, too.
func alike(want, got string, numbers bool) bool {
	form := func(s string) string {
		s = blanks.ReplaceAllString(fraction.ReplaceAllStringFunc(s, func(x string) string {
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
	want, got = changing.ReplaceAllString(want, "…"), changing.ReplaceAllString(got, "…")
	if form(want) != form(got) {
		return false
	}
	a, b := fraction.FindAllString(want, -1), fraction.FindAllString(got, -1)
	for i := range a {
		x, err := strconv.ParseFloat(a[i], 64)
		y, err2 := strconv.ParseFloat(b[i], 64)
		if numbers && (err != nil || err2 != nil || math.Abs(x-y) > 1e-4+1e-3*math.Abs(x)) {
			return false
		}
	}
	return true
}

// TestCommands runs the commands of testdata/commands.txt, and compares what they print and write with what is recorded there. Of a line
// that begins with "$~" neither numbers nor the order are compared: they are times. After a change: go test ./cmd/rlxc -run TestCommands -update
func TestCommands(t *testing.T) {
	file, err := filepath.Abs("testdata/commands.txt")
	require.NoError(t, err)
	recorded, err := txtar.ParseFile(file)
	require.NoError(t, err)
	commandFolder(t)
	for _, f := range recorded.Files {
		require.NoError(t, os.WriteFile(f.Name, f.Data, 0o666))
	}
	before := os.Args
	defer func() { os.Args = before }()
	var all, want, got strings.Builder
	line := ""
	check := func() {
		if line != "" {
			os.Args = append([]string{"rlxc"}, split(line[2:])...) // as workers are started, and results told apart
			if testing.Verbose() {
				t.Log(line)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			got.WriteString(command(t, ctx, strings.TrimSpace(line[2:])))
			cancel()
			if !*update && !alike(want.String(), got.String(), line[1] != '~') {
				t.Errorf("%s\nwant:\n%s\ngot:\n%s", line, want.String(), got.String())
			}
			all.WriteString(got.String())
		}
		want.Reset()
		got.Reset()
	}
	for text := range strings.Lines(string(recorded.Comment)) {
		switch {
		case strings.HasPrefix(text, "$"):
			check()
			line = strings.TrimSpace(text)
			all.WriteString(text)
		case strings.HasPrefix(text, "# ") && line == "", strings.HasPrefix(text, "# == "):
			check()
			line = ""
			all.WriteString(text)
		default:
			want.WriteString(text)
		}
	}
	check()
	if *update {
		recorded.Comment = []byte(all.String())
		require.NoError(t, os.WriteFile(file, txtar.Format(recorded), 0o666))
	}
}
