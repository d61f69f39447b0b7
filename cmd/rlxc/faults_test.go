package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/modeltest"
)

// steps are commands that have something to do in many places.
var steps = []string{
	"embed minilm --dimensions 4 --json 'a text' 'another text'",
	"embed minilm --input words.txt -o OUT.jsonl",
	"embed minilm --input words.txt -o OUT.npy",
	"embed minilm --input words.txt -o OUT.parquet",
	"embed splade --max-length 4 'a text'",
	"embed colbert 'a text'",
	"rerank rerank --query 'a query' 'a text' 'another text'",
	"rerank rerank --input pairs.jsonl --field a --second-field b --json",
	"classify classify 'a text'",
	"classify nli --label x --label y 'a text'",
	"tag ner 'a text'",
	"tag gliner --labels person 'a text'",
	"answer qa --question 'a question' 'a text'",
	"search minilm 'a text' --input vectors.jsonl",
	"search minilm 'a text' --input vectors.jsonl --json",
	"tokenize minilm 'a text'",
	"tokenize minilm --json 'a text'",
	"tokenize minilm --count --input words.txt",
	"run tiny.onnx --random --dim batch=1,seq=2 -o OUT.npz",
	"run tiny.onnx --random --dim batch=1,seq=2 --profile --trace OUT.json",
	"run tiny.onnx --random --dim batch=1,seq=2 --json",
	"run tiny.onnx --random --dim batch=1,seq=2 --html OUT.html",
	"validate tiny.onnx --against eval --shapes 1x2,2x3 --bisect",
	"validate bert-tiny --json",
	"plan cut.onnx --dim rows=1:3",
	"plan cut.onnx --dim rows=2 --html OUT.html",
	"plan --instance intervals.csv --csv OUT.csv",
	"compile tiny.onnx -o OUT.rlxc",
	"compile cut.onnx --html OUT.html",
	"inspect tiny.onnx --dim batch=1,seq=2",
	"inspect minilm",
	"inspect cut.onnx --ir",
	"inspect cut.onnx --values",
	"inspect --ops",
	"quantize tiny.onnx -o OUT.onnx --dynamic --shapes 1x2",
	"quantize tiny.onnx -o OUT.onnx --qdq --calibrate words.txt --tokenizer vocab.txt",
	"models",
	"models bert-tiny -o OUT.onnx",
	"environment",
	"devices",
	"version",
	"cache",
}

func stepFolder(t *testing.T) {
	commandFolder(t)
	for name, text := range map[string]string{"words.txt": "one\ntwo\n",
		"vectors.jsonl": `{"text": "a", "embedding": [1` + strings.Repeat(",0", 31) + "]}\n", "lengths.txt": "3\n2\n",
		"vocab.txt":   "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\none\n",
		"pairs.jsonl": `{"a": "x", "b": "y"}` + "\n", "intervals.csv": "id,lower,upper,size\na,0,2,10\nb,1,3,20\n"} {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o666))
	}
}

// written takes the files that a command left.
func written(t *testing.T) map[string]string {
	list, err := filepath.Glob("*OUT*")
	require.NoError(t, err)
	all := map[string]string{}
	for _, name := range list {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		all[name] = string(data)
		require.NoError(t, os.Remove(name))
	}
	return all
}

// A full writer takes that many bytes.
type full struct {
	bytes.Buffer
	left int
}

var errFull = errors.New("no space left on the device")

func (f *full) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, errFull
	}
	return f.Buffer.Write(b)
}

// TestFullOutput: a command whose output cannot be written fails and says why, wherever the output ends.
func TestFullOutput(t *testing.T) {
	stepFolder(t)
	for _, line := range steps {
		whole := &full{left: 1 << 30}
		var errs bytes.Buffer
		require.Equal(t, exitDone, execute(t.Context(), split(line), whole, &errs), "%s: %s", line, &errs)
		written(t)
		size := whole.Len()
		for _, left := range []int{0, size / 2, size - 20} {
			if strings.Contains(whole.String(), "ms") && left > 0 || left < 0 || left >= size {
				continue // of an output of times the length differs
			}
			errs.Reset()
			require.Equal(t, exitInput, execute(t.Context(), split(line), &full{left: left}, &errs), "%s: %d of %d bytes", line, left, size)
			require.Contains(t, errs.String(), errFull.Error(), line)
			written(t)
		}
	}
}

// TestCancelled: wherever a command learns that it is cancelled, it fails and says so, or has done everything. It leaves no output but
// what is whole, or can be continued.
func TestCancelled(t *testing.T) {
	stepFolder(t)
	for _, line := range steps {
		var errs bytes.Buffer
		run := func(ctx context.Context) (code, size int) {
			errs.Reset()
			var out bytes.Buffer
			return execute(ctx, split(line), &out, &errs), out.Len()
		}
		code, size := run(t.Context())
		require.Equal(t, exitDone, code, "%s: %s", line, &errs)
		all := written(t)
		modeltest.Expire(t.Context(), func(ctx *modeltest.Expiring, asked int64) {
			code, got := run(ctx)
			left := written(t)
			if code == exitDone {
				require.Len(t, left, len(all), "%s: cancelled at %d", line, asked)
				require.True(t, got > 0 == (size > 0), line)
				return
			}
			require.True(t, ctx.Expired(), "%s: %s", line, &errs)
			require.Equal(t, exitInput, code, "%s: cancelled at %d: %s", line, asked, &errs)
			require.Contains(t, errs.String(), "rlxc: interrupted\n", line)
			for name, text := range left { // quantize writes its file before it compares
				require.True(t, strings.HasSuffix(name, ".part") || text == all[name], "%s: cancelled at %d: %s is left", line, asked, name)
			}
		})
	}
}
