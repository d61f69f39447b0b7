package main

import (
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestHeapLimit holds that the heap's limit leaves room for garbage beside whatever lives.
func TestHeapLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	heap.Store(nil) // of other tests
	boundHeap(0)
	require.LessOrEqual(t, debug.SetMemoryLimit(-1), int64(heapLimit))
	live := make([]byte, 300<<20)
	for i := 0; debug.SetMemoryLimit(-1) < int64(len(live))*3/2+heapLimit/2; i++ {
		require.Less(t, i, 100)
		runtime.GC()
		time.Sleep(10 * time.Millisecond) // until the cleanup has run
	}
	runtime.KeepAlive(live)
}

// TestTextsOfAFolderAreWhole holds that a file of a folder is read to its end or is an error.
func TestTextsOfAFolderAreWhole(t *testing.T) {
	packed := compressed(t, strings.Repeat("a cat ", 1000))
	for name, x := range map[string]struct{ content, says string }{
		"largest":   {strings.Repeat("a", maxLine), ""},
		"too large": {strings.Repeat("a", maxLine+1), "it is longer than 16 MiB"},
		"cut":       {packed[:len(packed)/2], "unexpected EOF"},
		"a table":   {"PAR1", "its name must end in .parquet"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "a.txt")
			if name == "cut" {
				file += ".gz"
			}
			require.NoError(t, os.WriteFile(file, []byte(x.content), 0o600))
			text, err := wholeText(file)
			if x.says != "" {
				require.ErrorContains(t, err, x.says)
				return
			}
			require.NoError(t, err)
			require.Equal(t, x.content, text)
		})
	}
}

// compressed returns a text as gzip.
func compressed(t *testing.T, text string) string {
	var to strings.Builder
	w := gzip.NewWriter(&to)
	_, err := w.Write([]byte(text))
	require.NoError(t, errors.Join(err, w.Close()))
	return to.String()
}
