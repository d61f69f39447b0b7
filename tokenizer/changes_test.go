package tokenizer

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/modeltest"
)

var update = flag.Bool("update", false, "write testdata/*.txt anew")

// probes are what changed tokenizers are tried with.
var probes = []string{"", "The cät sat, 12 times! It's a long-haired one.", "  two  spaces\n",
	"e\u0301 Ⅻ <s>x</s> [MASK] ▁a 中文 \u00a0\x00 \U0001f600"}

// TestChangedFiles: tokenizers whose files differ in one value are refused with the same words, or read texts in the same way, as
// recorded. After a change: go test ./tokenizer -run TestChangedFiles -update
func TestChangedFiles(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for _, model := range []string{"minilm", "m3", "bilou"} {
		files = append(files, "../pipeline/testdata/"+model+"/tokenizer.json", "../pipeline/testdata/"+model+"/tokenizer_config.json")
	}
	files = append(files, "testdata/tokenizer.json")
	modeltest.Changed(t, "testdata/changes.txt", *update, files, func(name string) ([]byte, func([]byte) string) {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		folder := filepath.Join(dir, filepath.Base(filepath.Dir(name))+filepath.Base(name))
		require.NoError(t, os.Mkdir(folder, 0o777))
		for _, other := range []string{"tokenizer.json", "tokenizer_config.json"} {
			if data, err := os.ReadFile(filepath.Join(filepath.Dir(name), other)); err == nil {
				require.NoError(t, os.WriteFile(filepath.Join(folder, other), data, 0o666))
			}
		}
		return text, func(changed []byte) string {
			require.NoError(t, os.WriteFile(filepath.Join(folder, filepath.Base(name)), changed, 0o666))
			return strings.ReplaceAll(readProbes(folder), folder, "")
		}
	})
}

// readProbes says what a tokenizer makes of the probes.
func readProbes(folder string) string {
	tok, err := Open(folder)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	fmt.Fprintln(&b, tok.MaxLength())
	for _, role := range []string{"pad", "unk", "cls", "sep", "mask", "bos", "eos"} {
		name, id, ok := tok.Role(role)
		fmt.Fprint(&b, name, id, ok, " ")
	}
	for i, text := range probes {
		for _, in := range []Input{Text(text), Pair(text, probes[1])} {
			for _, most := range []int{0, 9} {
				e, err := tok.Encode(in, most, Spans())
				fmt.Fprintln(&b, e, err)
				if i == 0 || err != nil {
					continue
				}
				back, err := tok.Decode(e.InputIDs, i%2 == 0)
				fmt.Fprintln(&b, back, err)
			}
		}
	}
	batch, err := tok.Batch(Texts(probes...), 12)
	fmt.Fprintln(&b, batch, err)
	windows, err := tok.Encodings(Texts(probes[1]), 9, Windows(2))
	fmt.Fprintln(&b, windows, err)
	return b.String()
}
