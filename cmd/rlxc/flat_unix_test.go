//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"
)

// TestFlatMemory holds that what a command takes does not grow with the rows of its input. .ci/rows runs a million through a model.
func TestFlatMemory(t *testing.T) {
	type row struct {
		ID   int64  `parquet:"id"`
		Text string `parquet:"text"`
	}
	dir := t.TempDir()
	peak := func(ending string, rows int, write func(w io.Writer)) int64 {
		file := filepath.Join(dir, fmt.Sprint(rows)+ending)
		f, err := os.Create(file)
		require.NoError(t, err)
		write(f)
		require.NoError(t, f.Close())
		c := exec.Command("rlxc", "tokenize", "../../pipeline/testdata/minilm", "--count", "--input", file)
		require.NoError(t, c.Run())
		return c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
	}
	text := func(i int) string { return fmt.Sprintf("text number %d, about this long", i) }
	for ending, write := range map[string]func(w io.Writer, rows int){
		".parquet": func(w io.Writer, rows int) {
			out := parquet.NewGenericWriter[row](w, parquet.MaxRowsPerRowGroup(20_000))
			for i := range rows {
				_, err := out.Write([]row{{int64(i), text(i)}})
				require.NoError(t, err)
			}
			require.NoError(t, out.Close())
		},
		".jsonl.zst": func(w io.Writer, rows int) {
			z := must(compressions[1].pack(w))
			for i := range rows {
				fmt.Fprintf(z, "{\"id\": %d, \"text\": %q}\n", i, text(i))
			}
			require.NoError(t, z.Close())
		},
	} {
		t.Run(ending, func(t *testing.T) {
			few := peak(ending, 20_000, func(w io.Writer) { write(w, 20_000) })
			many := peak(ending, 400_000, func(w io.Writer) { write(w, 400_000) })
			t.Logf("%d MiB of 20,000 rows, %d MiB of 400,000", few>>20, many>>20)
			require.Less(t, many, few+16<<20)
		})
	}
}
