package pipeline

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
)

// weightless are methods that take a context and read no weights.
var weightless = map[string]bool{"Chunks": true, "Compile": true, "Encode": true, "TokenCount": true, "Try": true}

// weighing are calls of the methods that read weights, each of more than one batch, with the folder of testdata that each call is for.
var weighing = map[string]struct {
	folder string
	call   func(ctx context.Context, m *Model, texts []string) (any, error)
}{
	"Embed": {"minilm", func(ctx context.Context, m *Model, texts []string) (any, error) {
		return m.Embed(ctx, texts, EmbedOptions{})
	}},
	"Embed, a table": {"static/float32", func(ctx context.Context, m *Model, texts []string) (any, error) {
		return m.Embed(ctx, texts, EmbedOptions{})
	}},
	"EmbedInto": {"minilm", func(ctx context.Context, m *Model, texts []string) (any, error) {
		return nil, m.EmbedInto(ctx, make([]float32, len(texts)*32), texts, EmbedOptions{})
	}},
	"EmbedSparse": {"splade", func(ctx context.Context, m *Model, texts []string) (any, error) {
		return m.EmbedSparse(ctx, texts, EmbedOptions{})
	}},
	"EmbedTokens": {"colbert", func(ctx context.Context, m *Model, texts []string) (any, error) {
		return m.EmbedTokens(ctx, texts, EmbedOptions{})
	}},
	"Classify": {"classify", func(ctx context.Context, m *Model, texts []string) (any, error) {
		return m.Classify(ctx, []Pair{{First: texts[0]}, {First: texts[1]}}, ClassifyOptions{})
	}},
	"ZeroShot": {"nli", func(ctx context.Context, m *Model, texts []string) (any, error) {
		return m.ZeroShot(ctx, texts, []string{"animals", "sports"}, ZeroShotOptions{})
	}},
	"Rerank": {"rerank", func(ctx context.Context, m *Model, texts []string) (any, error) {
		return m.Rerank(ctx, "who?", texts, RerankOptions{})
	}},
	"Rerank, a decoder with a prefix": {"judges/qwen3", func(ctx context.Context, m *Model, texts []string) (any, error) {
		return m.Rerank(ctx, "who?", texts, RerankOptions{})
	}},
	"Rerank, vectors of tokens": {"colbert", func(ctx context.Context, m *Model, texts []string) (any, error) {
		return m.Rerank(ctx, "who?", texts, RerankOptions{})
	}},
	"ScorePairs": {"rerank", func(ctx context.Context, m *Model, texts []string) (any, error) {
		return m.ScorePairs(ctx, []Pair{{texts[0], &texts[1]}, {texts[1], &texts[0]}}, RerankOptions{})
	}},
	"Tag": {"ner", func(ctx context.Context, m *Model, texts []string) (any, error) {
		return m.Tag(ctx, texts, TagOptions{})
	}},
	"TagZeroShot": {"gliner", func(ctx context.Context, m *Model, texts []string) (any, error) {
		return m.TagZeroShot(ctx, texts, []string{"animal"}, TagZeroShotOptions{Threshold: 0.1})
	}},
	"Answer": {"qa", func(ctx context.Context, m *Model, texts []string) (any, error) {
		return m.Answer(ctx, []Question{{"who sat?", texts[0]}, {"who ran?", texts[1]}}, AnswerOptions{})
	}},
	"Fill": {"splade", func(ctx context.Context, m *Model, texts []string) (any, error) {
		return m.Fill(ctx, []string{texts[0] + " [MASK]", texts[1] + " [MASK]"}, FillOptions{TopK: 2})
	}},
}

// spoil writes other weights into the files of a model in place.
func spoil(t *testing.T, folder string) {
	t.Helper()
	time.Sleep(10 * time.Millisecond) // file systems report times by their clock's ticks
	require.NoError(t, filepath.WalkDir(folder, func(file string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".onnx" && filepath.Ext(file) != ".safetensors" {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		half := len(data) / 2
		copy(data[half:], bytes.Repeat([]byte{0, 0, 0x80, 0x3c}, half)) // float32s of 1/64
		return os.WriteFile(file, data, 0o600)
	}))
}

// TestCallsWhoseFilesChangeAreErrors holds that no method returns a result if the files of the weights are overwritten between two of the
// call's batches. The error names the file. A new method that takes a context needs a row.
func TestCallsWhoseFilesChangeAreErrors(t *testing.T) {
	model := reflect.TypeFor[*Model]()
	for i := range model.NumMethod() {
		method := model.Method(i)
		if method.Type.NumIn() > 1 && method.Type.In(1) == reflect.TypeFor[context.Context]() {
			_, ok := weighing[method.Name]
			require.NotEqual(t, weightless[method.Name], ok, "%s needs a row in weighing or in weightless", method.Name)
		}
	}
	texts := []string{"the cat sat on the mat", "a dog ran"}
	for name, row := range weighing {
		for _, unpad := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", unpadded"}[unpad], func(t *testing.T) {
				folder := copyModel(t, row.folder)
				between := func() {}
				batches := 0
				m, err := Open(t.Context(), folder, Options{Sessions: 1, BatchTokens: 1, Compile: rlxc.CompileOptions{Unpad: unpad},
					OnBatch: func(BatchReport) { batches++; between() }})
				require.NoError(t, err)
				defer m.Close()
				_, err = row.call(t.Context(), m, texts)
				require.NoError(t, err)
				require.Greater(t, batches, 1)
				between = func() {
					between = func() {}
					spoil(t, folder)
				}
				_, err = row.call(t.Context(), m, texts)
				require.ErrorIs(t, err, rlxc.ErrFileChanged)
				require.ErrorContains(t, err, filepath.Base(folder))
			})
		}
	}
}
