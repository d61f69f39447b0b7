//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"
)

// TestFlatMemory holds that what a command takes does not grow with the rows of its input. TestKilled does so through a model.
func TestFlatMemory(t *testing.T) {
	dir := t.TempDir()
	peak := func(ending string, rows int, write func(file string, rows int)) int64 {
		file := filepath.Join(dir, fmt.Sprint(rows)+ending)
		write(file, rows)
		most, err := peakOf(exec.Command("rlxc", "tokenize", "../../pipeline/testdata/minilm", "--count", "--input", file))
		require.NoError(t, err)
		return most
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

// collection matches the bytes of the heap in a line of GODEBUG=gctrace=1, in MB: at the end of a collection, and what lives.
var collection = regexp.MustCompile(`->(\d+)->(\d+) MB,`)

// TestLargePagesLeaveLittleGarbage holds that the pages of a Parquet file that were read do not double what its reader holds.
func TestLargePagesLeaveLittleGarbage(t *testing.T) {
	const page, pages = 24 << 20, 6
	file := filepath.Join(t.TempDir(), "a.parquet")
	f, err := os.Create(file)
	require.NoError(t, err)
	out := parquet.NewGenericWriter[idRow](f, parquet.Compression(&parquet.Snappy), parquet.PageBufferSize(page))
	text, r := make([]byte, 1<<20), rand.New(rand.NewPCG(1, 2))
	for i := range text { // one word, which is quickly tokenized and does not shrink
		text[i] = byte('a' + r.IntN(26))
	}
	for i := range pages * page >> 20 {
		_, err := out.Write([]idRow{{int64(i), string(text)}})
		require.NoError(t, err)
	}
	require.NoError(t, errors.Join(out.Close(), f.Close()))
	c := exec.Command("rlxc", "tokenize", "../../pipeline/testdata/minilm", "--count", "--input", file)
	c.Env = append(os.Environ(), "GODEBUG=gctrace=1")
	var said bytes.Buffer
	c.Stderr = &said
	require.NoError(t, c.Run(), "%s", &said)
	heap, live := 0, 0
	for _, m := range collection.FindAllStringSubmatch(said.String(), -1) {
		heap, live = max(heap, must(strconv.Atoi(m[1]))), max(live, must(strconv.Atoi(m[2])))
	}
	t.Logf("%d MB with garbage, of which %d live", heap, live)
	require.Greater(t, live, 3*page>>20, "pages are held")
	// One page is garbage, one is made beside the next, and one more may be made while a collection runs.
	require.Less(t, heap, live+3*page>>20)
}
