//go:build linux || darwin

package tokenizer

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Opening a pipe would wait for a writer for ever, and reading a device or a file of any size would take all memory.
func TestOnlyFilesAreRead(t *testing.T) {
	words := `{"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}`
	texts := map[string]string{"tokenizer.json": words, "tokenizer_config.json": "{}", "vocab.json": `{"a": 0}`, "merges.txt": ""}
	pretend := map[string]func(file string) error{
		"pipe":   func(file string) error { return syscall.Mkfifo(file, 0o600) },
		"device": func(file string) error { return os.Symlink("/dev/zero", file) },
		"huge": func(file string) error {
			return errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, maxFile+1))
		},
	}
	for _, files := range [][]string{{"tokenizer.json"}, {"tokenizer_config.json", "tokenizer.json"},
		{"merges.txt", "vocab.json", "tokenizer_config.json"}} {
		for what, make := range pretend {
			dir := t.TempDir()
			for _, name := range files[1:] {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(texts[name]), 0o600))
			}
			require.NoError(t, make(filepath.Join(dir, files[0])))
			_, err := Open(dir)
			require.ErrorContains(t, err, files[0]+" is not a regular file of at most 256 MiB", what)
		}
	}
}
