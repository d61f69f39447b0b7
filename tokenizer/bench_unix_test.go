//go:build unix

package tokenizer

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkTexts encodes texts as models/scripts/bench_tokenizers.py asks, which sets the folder: for each line of the standard input,
// "spans 20" or "ids 20", it encodes all texts 20 times and prints the seconds of processor time of one of these rounds.
func BenchmarkTexts(b *testing.B) {
	folder := os.Getenv("RLXC_TOKENIZER_BENCH")
	if folder == "" {
		b.Skip("RLXC_TOKENIZER_BENCH is not set")
	}
	tok, err := Open(filepath.Join(folder, "tokenizer.json"))
	require.NoError(b, err)
	data, err := os.ReadFile(filepath.Join(folder, "texts.json"))
	require.NoError(b, err)
	var texts []string
	require.NoError(b, json.Unmarshal(data, &texts))
	options := map[string][]EncodeOption{"ids": nil, "spans": {Spans()}}
	for {
		var mode string
		var rounds int
		if _, err := fmt.Scan(&mode, &rounds); err != nil {
			return
		}
		begin := processorTime(b)
		for range rounds {
			for _, text := range texts {
				if _, err := tok.Encode(Text(text), 0, options[mode]...); err != nil {
					b.Fatal(err)
				}
			}
		}
		fmt.Println("seconds", (processorTime(b)-begin)/float64(rounds))
	}
}

// BenchmarkOpenLarge opens vocabularies of the largest encoders, and reports the heap that an open tokenizer holds, and the least
// processor time of an Open, which is that of all threads.
func BenchmarkOpenLarge(b *testing.B) {
	for _, kind := range []string{"Unigram", "BPE"} {
		file := largeFile(b, kind)
		b.Run(kind, func(b *testing.B) {
			info, err := os.Stat(file)
			require.NoError(b, err)
			b.SetBytes(info.Size())
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			var tok *Tokenizer
			time := math.Inf(1)
			for b.Loop() {
				begun := processorTime(b)
				tok, err = Open(file)
				require.NoError(b, err)
				time = min(time, processorTime(b)-begun)
			}
			b.ReportMetric(time*1e3, "cpu-ms")
			runtime.GC()
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "heap-MB")
			runtime.KeepAlive(tok)
		})
	}
}

// processorTime is that of this process, in seconds.
func processorTime(b testing.TB) float64 {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
