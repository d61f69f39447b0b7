//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFlatMemory holds that what a command takes does not grow with the rows of its input. TestKilled does so through a model.
func TestFlatMemory(t *testing.T) {
	dir := t.TempDir()
	peak := func(ending string, rows int, write func(file string, rows int)) int64 {
		file := filepath.Join(dir, fmt.Sprint(rows)+ending)
		write(file, rows)
		c := exec.Command("rlxc", "tokenize", "../../pipeline/testdata/minilm", "--count", "--input", file)
		require.NoError(t, c.Run())
		return c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
	}
	word := strings.Repeat("x", 500) // which is quickly tokenized: it is longer than a word may be
	for ending, write := range map[string]func(file string, rows int){
		".parquet": func(file string, rows int) { writeIDRows(t, file, rows, word) },
		".jsonl.zst": func(file string, rows int) {
			f, err := os.Create(file)
			require.NoError(t, err)
			z := must(compressions[1].pack(f))
			for i := range rows {
				fmt.Fprintf(z, "{\"text\": \"text number %d, about this long %s\"}\n", i, word)
			}
			require.NoError(t, errors.Join(z.Close(), f.Close()))
		},
	} {
		t.Run(ending, func(t *testing.T) {
			const some, more = 10_000, 120_000 // whose texts would take 60 MiB
			few := peak(ending, some, write)
			many := peak(ending, more, write)
			t.Logf("%d MiB of %d rows, %d MiB of %d", few>>20, some, many>>20, more)
			require.Less(t, many, few+32<<20)
		})
	}
}
