package pipeline

import (
	"context"
	"embed"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
)

//go:embed testdata/prompts testdata/static/float32
var embeddedModels embed.FS

// answersOf runs what a model was trained for.
func answersOf(t *testing.T, m *Model) (answers any) {
	ctx, texts := context.Background(), []string{"the cat sat", "a longer text about the weather in the north", "x"}
	var err error
	switch m.Task {
	case Embedding:
		answers, err = m.Embed(ctx, texts, EmbedOptions{})
	case Sparse:
		answers, err = m.EmbedSparse(ctx, texts, EmbedOptions{})
	case MultiVector:
		answers, err = m.EmbedTokens(ctx, texts, EmbedOptions{})
	case Classifying, ZeroShot:
		answers, err = m.Classify(ctx, Texts(texts...), ClassifyOptions{})
	case Reranking:
		answers, err = m.Rerank(ctx, texts[0], texts[1:], RerankOptions{})
	case Tagging:
		answers, err = m.Tag(ctx, texts, TagOptions{})
	case ZeroShotTag:
		answers, err = m.TagZeroShot(ctx, texts, []string{"animal"}, TagZeroShotOptions{})
	case Answering:
		answers, err = m.Answer(ctx, []Question{{Question: "who sat", Context: texts[0]}}, AnswerOptions{})
	case Filling:
		answers, err = m.Fill(ctx, []string{texts[0] + " " + m.Mask()}, FillOptions{})
	}
	require.NoError(t, err)
	require.NotNil(t, answers, m.Task)
	return answers
}

// opened returns the answers and the settings of a model, but for where its model file is.
func opened(t *testing.T, what string, o Options) (any, []Finding) {
	m, err := Open(context.Background(), what, o)
	require.NoError(t, err)
	defer m.Close()
	return answersOf(t, m), m.Found[1:]
}

// TestOneFileIsTheFolder holds that a compiled file with a folder's files answers as the folder does, alone in another folder, and that so
// do the folder and the compiled file in a file system.
func TestOneFileIsTheFolder(t *testing.T) {
	models, err := filepath.Glob("testdata/*/config.json")
	require.NoError(t, err)
	gliners, err := filepath.Glob("testdata/*/gliner_config.json")
	require.NoError(t, err)
	for _, config := range append(models, gliners...) {
		folder := filepath.Dir(config)
		t.Run(filepath.Base(folder), func(t *testing.T) {
			d, err := Describe(folder, Options{})
			require.NoError(t, err)
			beside, err := d.Files()
			require.NoError(t, err)
			require.Contains(t, beside, "tokenizer.json")
			model, err := d.OpenModel()
			require.NoError(t, err)
			defer model.Close()
			program, err := model.Compile(context.Background(), rlxc.CompileOptions{})
			require.NoError(t, err)
			defer program.Close()
			dir := t.TempDir()
			file := filepath.Join(dir, "one.rlxc")
			require.NoError(t, program.SaveWith(file, beside))

			want, settings := opened(t, folder, Options{})
			for _, c := range []struct {
				name, what string
				fsys       fs.FS
			}{
				{"the compiled file", file, nil},
				{"the compiled file in a file system", "one.rlxc", os.DirFS(dir)},
				{"the folder in a file system", filepath.Base(folder), os.DirFS("testdata")},
				{"the root of a file system", ".", os.DirFS(folder)},
			} {
				t.Run(c.name, func(t *testing.T) {
					answers, found := opened(t, c.what, Options{FS: c.fsys})
					require.Equal(t, want, answers)
					require.Equal(t, settings, found)
				})
			}
			compiled, err := Describe(file, Options{})
			require.NoError(t, err)
			again, err := compiled.Files()
			require.NoError(t, err)
			require.Equal(t, beside, again, "a compiled file of a compiled file holds the same files")
		})
	}
}

// TestEmbeddedModels holds that models of an embed.FS answer as their folders do: an ONNX model, and a table of static embeddings.
func TestEmbeddedModels(t *testing.T) {
	for _, folder := range []string{"testdata/prompts", "testdata/static/float32"} {
		t.Run(folder, func(t *testing.T) {
			want, settings := opened(t, folder, Options{})
			answers, found := opened(t, folder, Options{FS: embeddedModels})
			require.Equal(t, want, answers)
			require.Equal(t, settings, found)
		})
	}
}

// TestFSHasNoHub holds that a name which a file system lacks is not looked for elsewhere: not on the hub, and not in the system's files.
func TestFSHasNoHub(t *testing.T) {
	for _, what := range []string{"sentence-transformers/all-MiniLM-L6-v2", "../pipeline/testdata/minilm", "/etc"} {
		_, err := Open(context.Background(), what, Options{FS: embeddedModels})
		require.Error(t, err, what)
		require.NotContains(t, err.Error(), "hub", what)
	}
}

// TestDamagedFilesOfACompiledFile holds that a changed byte in the tokenizer of a compiled file is an error, and not another tokenizer.
func TestDamagedFilesOfACompiledFile(t *testing.T) {
	d, err := Describe("testdata/prompts", Options{})
	require.NoError(t, err)
	beside, err := d.Files()
	require.NoError(t, err)
	model, err := d.OpenModel()
	require.NoError(t, err)
	defer model.Close()
	program, err := model.Compile(context.Background(), rlxc.CompileOptions{})
	require.NoError(t, err)
	defer program.Close()
	file := filepath.Join(t.TempDir(), "one.rlxc")
	require.NoError(t, program.SaveWith(file, beside))
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, replaceOnce(t, data, `"[MASK]"`, `"[MUSK]"`), 0o600))
	_, err = Open(context.Background(), file, Options{})
	require.ErrorContains(t, err, "its files are damaged: the checksum differs")
	require.ErrorIs(t, err, rlxc.ErrInvalidModel)

	require.ErrorContains(t, program.SaveWith(file, map[string][]byte{"../x": nil}), "is not the path of a file within a folder")
}

// TestCompiledFilesReportPadding holds that a compiled file skips padding if it was compiled so, and that the statistics of a file which
// does not name the reason.
func TestCompiledFilesReportPadding(t *testing.T) {
	for _, c := range []struct {
		name   string
		unpad  bool
		padded string
	}{{"with unpad", true, ""}, {"without", false, "the file was compiled without --unpad"}} {
		t.Run(c.name, func(t *testing.T) {
			model, err := rlxc.Open("testdata/minilm/onnx/model.onnx")
			require.NoError(t, err)
			defer model.Close()
			program, err := model.Compile(context.Background(), rlxc.CompileOptions{Unpad: c.unpad})
			require.NoError(t, err)
			defer program.Close()
			file := filepath.Join(t.TempDir(), "model.rlxc")
			require.NoError(t, program.Save(file))
			compiled, err := rlxc.Open(file)
			require.NoError(t, err)
			defer compiled.Close()
			again, err := compiled.Compile(context.Background(), rlxc.CompileOptions{Unpad: true})
			require.NoError(t, err)
			defer again.Close()
			require.Equal(t, c.unpad, again.Unpadded())
			require.Equal(t, c.padded, again.Stats().Padded)
		})
	}
}
