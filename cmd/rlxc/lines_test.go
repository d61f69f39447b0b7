package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzLines reads any bytes as comma-separated values and as lines of JSON: what is wrong is an error of a line, and the reader ends.
func FuzzLines(f *testing.F) {
	for _, text := range []string{"text\n\"abc", "text,b\na,\"x\ny\"\n", `{"text": "a"}` + "\n", "{\"text\": 1}\n[\n", "\xff\n",
		"text\n\"\"\"\n", "", "a\n\"a\"b\n"} {
		f.Add([]byte(text))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, name := range []string{"a.csv", "a.jsonl", "a.txt"} {
			file := filepath.Join(dir, name)
			require.NoError(t, os.WriteFile(file, data, 0o600))
			in, err := openLines(file, "", "", nil)
			if err != nil {
				continue
			}
			for n := 0; ; n++ {
				if _, err := in.next(); err != nil {
					require.True(t, err == io.EOF || name == "a.csv", "%s: %v", name, err)
					break
				}
				require.LessOrEqual(t, n, len(data))
			}
			require.NoError(t, in.close())
		}
	})
}
