package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/tensor"
)

// FuzzLines reads any bytes as every format: what is wrong with a line is an error of that line, and the reader ends.
func FuzzLines(f *testing.F) {
	for _, text := range []string{"text\n\"abc", "text,b\na,\"x\ny\"\n", `{"text": "a"}` + "\n", "{\"text\": 1}\n[\n", "\xff\n",
		"text\n\"\"\"\n", "", "a\n\"a\"b\n"} {
		f.Add([]byte(text))
	}
	for _, c := range compressions {
		var b bytes.Buffer
		w := must(c.pack(&b))
		io.WriteString(w, "{\"text\": \"a\"}\n{\"text\": \"b\"}\n")
		w.Close()
		f.Add(b.Bytes())
	}
	f.Add(someParquet(f, 3))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, name := range []string{"a.csv", "a.jsonl", "a.txt", "a.jsonl.gz", "a.txt.zst", "a.parquet"} {
			file := filepath.Join(dir, name)
			require.NoError(t, os.WriteFile(file, data, 0o600))
			in, err := openTexts(textFlags{input: file}, nil)
			if err != nil {
				continue
			}
			for n := 0; n < 1e6; n++ { // a few bytes may be long once they are unpacked
				if _, err := in.next(); err != nil {
					require.True(t, err == io.EOF || name != "a.jsonl" && name != "a.txt", "%s: %v", name, err)
					break
				}
				require.True(t, n <= len(data) || strings.Count(name, ".") > 1 || name == "a.parquet")
			}
			require.NoError(t, in.close())
		}
	})
}

// TestInputsThatChangeAreErrors holds for every format: an input that is truncated, appended to or overwritten after it was opened ends
// with an error that names the file, and never as if its texts had ended.
func TestInputsThatChangeAreErrors(t *testing.T) {
	lines := strings.Repeat("{\"text\": \"a text\"}\n", 20_000) // more than a reader's buffer
	contents := map[string][]byte{"a.txt": []byte(lines), "a.jsonl": []byte(lines), "a.csv": []byte(strings.Repeat("text\n", 20_000)),
		"a.parquet": someParquet(t, 250)}
	for _, c := range compressions {
		var b bytes.Buffer
		w := must(c.pack(&b))
		must(io.WriteString(w, lines))
		require.NoError(t, w.Close())
		contents["a.jsonl"+c.endings[0]] = b.Bytes()
	}
	for name, data := range contents {
		for change, do := range map[string]func(file string) error{
			"truncated": func(file string) error { return os.Truncate(file, int64(len(data)/2)) },
			"appended to": func(file string) error {
				f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
				if err == nil {
					_, err = f.Write(data)
				}
				return errors.Join(err, f.Close())
			},
			"overwritten": func(file string) error {
				err := os.WriteFile(file, data, 0o600)
				return errors.Join(err, os.Chtimes(file, time.Time{}, time.Unix(1, 0))) // the clock may not have ticked since
			},
		} {
			t.Run(name+" "+change, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), name)
				require.NoError(t, os.WriteFile(file, data, 0o600))
				in, err := openTexts(textFlags{input: file}, nil)
				require.NoError(t, err)
				defer in.close()
				require.NoError(t, do(file))
				require.ErrorContains(t, in.each(func(it item) error { return it.err }), file+" was changed while it was read")
			})
		}
	}
}

// TestLinesOfJSONAreOneRule: a line of JSON whose text a reader would change, or that has a field twice, is an error of that line, and the
// lines after it are read.
func TestLinesOfJSONAreOneRule(t *testing.T) {
	for line, says := range map[string]string{
		`{"text": "\ud834\udd1e"}`:          "",
		`{"text": "\ud834"}`:                "half of a surrogate pair",
		`{"text": "a", "id": "\udd1e"}`:     "half of a surrogate pair",
		"{\"text\": \"\xff\"}":              "not UTF-8",
		`{"text": "a", "text": "b"}`:        `field "text" is given twice`,
		`{"text": "a", "id": 1, "id": 2}`:   `field "id" is given twice`,
		`{"text": "a", "\u0074ext": "b"}`:   `field "text" is given twice`,
		`{"text": "a", "id": 1-2}`:          "invalid character",
		`{"text": "a"} {}`:                  "there is more after it",
		`["text"]`:                          "it begins with [",
		`{"text": "a"`:                      "not a JSON object: unexpected end",
		`{"id": {"a": {}}, "text": "a"}   `: "",
	} {
		file := filepath.Join(t.TempDir(), "a.jsonl")
		require.NoError(t, os.WriteFile(file, []byte("{\"text\": \"before\"}\n"+line+"\n{\"text\": \"after\"}\n"), 0o600))
		in, err := openTexts(textFlags{input: file}, nil)
		require.NoError(t, err)
		r, err := in.next()
		require.NoError(t, err)
		require.NoError(t, r.err)
		r, err = in.next()
		require.NoError(t, err)
		if says == "" {
			require.NoError(t, r.err, line)
		} else {
			require.ErrorContains(t, r.err, says, line)
		}
		r, err = in.next()
		require.NoError(t, err)
		require.NoError(t, r.err, line)
		require.NoError(t, in.close())
	}
}

// TestNamesThatAreNotUTF8AreErrors holds that the name of an output does not become another name in JSON.
func TestNamesThatAreNotUTF8AreErrors(t *testing.T) {
	x := tensor.FromSlice([]int8{1})
	require.ErrorContains(t, writeTensors(io.Discard, "", "", []string{"ö", "\xff"}, rlxc.Tensors{"ö": x, "\xff": x}),
		`the name of output "\xff" is not UTF-8`)
}

// TestZstandardWindow holds that a Zstandard frame may have a window of 128 MiB, and none of more.
func TestZstandardWindow(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.txt.zst")
	for exponent, mantissa := byte(17), byte(0); mantissa < 2; mantissa++ { // a window of 2^(10+exponent)·(1+mantissa/8) bytes
		frame := append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0, exponent<<3 | mantissa, 2<<3 | 1, 0, 0}, "a\n"...)
		require.NoError(t, os.WriteFile(file, frame, 0o600))
		in, err := openTexts(textFlags{input: file}, nil)
		var it item
		if err == nil {
			it, err = in.next()
			require.NoError(t, in.close())
		}
		if mantissa == 0 {
			require.NoError(t, err)
			require.Equal(t, "a", it.text)
		} else {
			require.ErrorContains(t, err, "window size exceeded")
		}
	}
}
