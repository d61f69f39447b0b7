//go:build unix

package main

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"
)

// The numbers: -rows 1000000 -kills 10.
var (
	manyRows  = flag.Int("rows", 12_000, "rows that are embedded while the process is killed")
	manyKills = flag.Int("kills", 2, "how often it is killed")
)

// An idRow is a text with an id.
type idRow struct {
	ID   int64  `parquet:"id"`
	Text string `parquet:"text"`
}

// writeIDRows writes a Parquet file whose texts end with a suffix, and holds none of it.
func writeIDRows(t *testing.T, file string, rows int, suffix string) {
	f, err := os.Create(file)
	require.NoError(t, err)
	out := parquet.NewGenericWriter[idRow](f, parquet.MaxRowsPerRowGroup(20_000))
	for i := range rows {
		_, err := out.Write([]idRow{{int64(i), fmt.Sprintf("text number %d, about this long", i) + suffix}})
		require.NoError(t, err)
	}
	require.NoError(t, out.Close())
	require.NoError(t, f.Close())
}

// TestKilled kills a run from Parquet to Parquet at random moments: the file in the end is the one of a run that nothing stopped, with
// each row's id and vector, and a run of a tenth of many rows takes as much memory.
func TestKilled(t *testing.T) {
	model, err := filepath.Abs("../../pipeline/testdata/minilm")
	require.NoError(t, err)
	dir := t.TempDir()
	start := func(input string) *exec.Cmd {
		c := exec.Command("rlxc", "embed", model, "--input", input, "--copy-field", "id", "-o", "out.parquet")
		c.Dir = dir
		c.Env = append(os.Environ(), "GOGC=20") // what is held is compared, and not what waits to be collected
		return c
	}
	peak := func(rows int) (most int64, took time.Duration) {
		input := fmt.Sprint(rows, ".parquet")
		writeIDRows(t, filepath.Join(dir, input), rows, "")
		c, begun := start(input), time.Now()
		most, err := peakOf(c)
		require.NoError(t, err)
		return most, time.Since(begun)
	}
	out := filepath.Join(dir, "out.parquet")
	few, _ := peak(*manyRows / 10)
	require.NoError(t, os.Remove(out))
	many, took := peak(*manyRows)
	t.Logf("%d MiB of %d rows, %d MiB of %d in %v", few>>20, *manyRows/10, many>>20, *manyRows, took)
	if *manyRows/10 > 10*itemsAtOnce { // fewer rows do not fill what is held at a time
		require.Less(t, many, few+32<<20)
	}
	want, err := os.ReadFile(out)
	require.NoError(t, err)
	require.NoError(t, os.Remove(out))

	for range *manyKills {
		c := start(fmt.Sprint(*manyRows, ".parquet"))
		require.NoError(t, c.Start())
		time.Sleep(rand.N(took / 2)) // so that some runs continue where others were
		require.NoError(t, c.Process.Kill())
		c.Wait()
		part, _ := os.Stat(out + ".part")
		if part != nil {
			t.Logf("killed with %d bytes done", part.Size())
		}
	}
	c := start(fmt.Sprint(*manyRows, ".parquet"))
	var told bytes.Buffer
	c.Stderr = &told
	require.NoError(t, c.Run(), told.String())
	t.Log(told.String())
	got, err := os.ReadFile(out)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got))
	rows, err := parquet.Read[struct {
		ID        int64     `parquet:"id,optional"`
		Text      string    `parquet:"text"`
		Embedding []float32 `parquet:"embedding,list"`
	}](bytes.NewReader(got), int64(len(got)))
	require.NoError(t, err)
	require.Len(t, rows, *manyRows)
	for i, r := range rows {
		if r.ID != int64(i) || r.Text != fmt.Sprintf("text number %d, about this long", i) || len(r.Embedding) != 32 {
			t.Fatalf("row %d is %v", i, r)
		}
	}
}
