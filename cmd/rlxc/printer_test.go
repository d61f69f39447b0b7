package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// TestOutputThatCannotBeWritten: a command whose output is lost has not done what it was asked for.
func TestOutputThatCannotBeWritten(t *testing.T) {
	for _, line := range []string{
		"run bert-tiny --zeros --dim batch=1 --dim seq=2", "run bert-tiny --zeros --dim batch=1 --dim seq=2 --json", "validate bert-tiny",
		"inspect bert-tiny",
		"inspect --ops", "compile bert-tiny", "plan bert-tiny --dim batch=1 --dim seq=2", "plan bert-tiny --dim batch=1 --dim seq=2:3",
		"models", "environment", "devices",
	} {
		var said strings.Builder
		require.Equal(t, exitInput, execute(context.Background(), strings.Fields(line), fullDisk{}, &said), line)
		require.Equal(t, 1, strings.Count(said.String(), "no space left"), "%s: %s", line, said.String())
	}
}

func TestPrinter(t *testing.T) {
	var out strings.Builder
	p := &printer{to: &out}
	_, err := io.WriteString(p, "a\tb\n\x1b[2Jü→\u202ec\x00")
	require.NoError(t, err)
	require.Equal(t, "a\tb\n"+`\x1b[2Jü→\u202ec\x00`, out.String())
	require.Equal(t, `a\nb`, shown("a\nb"))
	require.Equal(t, strings.Repeat("x", 120)+"… (500 bytes)", shown(strings.Repeat("x", 500)))
}

// FuzzJSON holds that --json of a command is UTF-8 and JSON whatever its texts are, and that the filter keeps it what it was wherever
// writes end.
func FuzzJSON(f *testing.F) {
	const tokens = "../../tokenizer/testdata/tokenizer.json"
	model := served + "minilm"
	for _, text := range []string{"a", "\x7f", "\u009b2J", "\u202e", "\xff", "ü\xe2\x80", strings.Repeat("é", 3000), "\x1b[2J",
		"\u2028\x00"} {
		f.Add(text, uint16(7))
	}
	f.Fuzz(func(t *testing.T, text string, size uint16) {
		var out strings.Builder
		p := &printer{to: &out, json: true}
		want, err := json.Marshal(text)
		require.NoError(t, err)
		for rest := want; len(rest) > 0; {
			n := min(len(rest), 1+int(size)%9)
			p.Write(rest[:n])
			rest = rest[n:]
		}
		var sent, got string
		require.NoError(t, json.Unmarshal(want, &sent))
		require.NoError(t, json.Unmarshal([]byte(out.String()), &got), "%q", out.String())
		require.Equal(t, sent, got)
		if text == "" || strings.ContainsAny(text, "\x00") || strings.HasPrefix(text, "-") || len(text) > 1<<12 {
			return
		}
		for _, args := range [][]string{{"tokenize", tokens}, {"embed", model}, {"classify", served + "classify"}, {"inspect"}, {"run"},
			{"plan"}, {"compile"}, {"validate"}} {
			out.Reset()
			code := execute(t.Context(), append(args, text, "--json"), &out, io.Discard)
			if code != exitDone && len(args) == 1 {
				continue // no such model
			}
			require.Equal(t, exitDone, code, args)
			require.True(t, utf8.ValidString(out.String()), "%v: %q", args, out.String())
			for d := json.NewDecoder(strings.NewReader(out.String())); ; {
				var v any
				if err := d.Decode(&v); err == io.EOF {
					break
				} else if err != nil {
					t.Fatalf("%v: %v: %q", args, err, out.String())
				}
			}
			require.NotContains(t, out.String(), "\x7f")
		}
	})
}
