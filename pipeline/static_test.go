package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
)

// TestStaticEmbeddings: tables of every form give the vectors that model2vec recorded (models/scripts/static.py), of texts one by one and
// together, padded and packed.
func TestStaticEmbeddings(t *testing.T) {
	folders, err := filepath.Glob("testdata/static/*")
	require.NoError(t, err)
	require.Len(t, folders, 6)
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			var expected struct {
				Texts   []string
				Vectors [][]float32
			}
			data, err := os.ReadFile(filepath.Join(folder, "expected.json"))
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(data, &expected))
			for _, unpad := range []bool{false, true} {
				m, err := Open(context.Background(), folder, Options{Compile: rlxc.CompileOptions{Unpad: unpad}})
				require.NoError(t, err)
				require.Equal(t, Embedding, m.Task)
				together, err := m.Embed(context.Background(), expected.Texts, EmbedOptions{})
				require.NoError(t, err)
				for i, want := range expected.Vectors {
					alone, err := m.Embed(context.Background(), expected.Texts[i:i+1], EmbedOptions{})
					require.NoError(t, err)
					require.Equal(t, together[i], alone[0], expected.Texts[i])
					require.InDeltaSlice(t, want, alone[0], tolerance(folder), expected.Texts[i])
				}
				require.NoError(t, m.Close())
			}
		})
	}
}

// TestStaticCutsAreAnnounced: model2vec first cuts a text to a number of characters. What is announced is the tokens of the whole text,
// also if the characters that are left have no more tokens than the model reads.
func TestStaticCutsAreAnnounced(t *testing.T) {
	m, err := Open(t.Context(), "testdata/static/short", Options{})
	require.NoError(t, err)
	defer m.Close()
	require.Equal(t, 15, m.static.characters)
	type cut struct{ tokens, read int }
	for _, row := range []struct {
		name, text string
		want       []cut
	}{
		{"tokens", "cat mat sat on the cat", []cut{{10, 5}}},
		{"characters", "the cat        the cat", []cut{{6, 3}}},
		{"white space", "the cat                ", nil},
		{"nothing", "the cat", nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			var got []cut
			_, err := m.Embed(t.Context(), []string{"on", row.text}, EmbedOptions{Truncated: func(i, tokens, read int) {
				require.Equal(t, 1, i)
				got = append(got, cut{tokens, read})
			}})
			require.NoError(t, err)
			require.Equal(t, row.want, got)
		})
	}
}

// tolerance is the difference to model2vec that is allowed. It computes means of float16 vectors in float16.
func tolerance(folder string) float64 {
	if filepath.Base(folder) == "float16" {
		return 1.0 / 256
	}
	return 1e-6
}

// TestStaticFaults: what is wrong with a table is an error that names the file.
func TestStaticFaults(t *testing.T) {
	const from = "testdata/static/clusters"
	for _, c := range []struct{ name, old, new, want string }{
		{"no table", `"embeddings"`, `"embeddingz"`, `has no tensor "embedding.weight"`},
		{"a table of one axis", `"shape":[20,6]`, `"shape":[120] `, "has the shape [120]: want 2 axes"},
		{"a type without numbers", `"dtype":"F32","shape":[20,6]`, `"dtype":"BIG","shape":[20,6]`, `tensor "embeddings" is BIG`},
		{"a range beyond the file", `"shape":[20,6]`, `"shape":[90,6]`, `tensor "embeddings" needs 2160 bytes`},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			require.NoError(t, os.CopyFS(folder, os.DirFS(from)))
			file := filepath.Join(folder, staticFile)
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			changed := replaceOnce(t, data, c.old, c.new)
			require.NoError(t, os.WriteFile(file, changed, 0o600))
			_, err = Open(context.Background(), folder, Options{})
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, file)
		})
	}
}

// TestStaticFilesOfTheHub: of a repository with a table, the table is downloaded, and not the weights of a transformer.
func TestStaticFilesOfTheHub(t *testing.T) {
	choose := Files("")
	require.Equal(t, []string{"config.json", "model.safetensors", "modules.json", "tokenizer.json"},
		choose([]string{"README.md", "config.json", "model.safetensors", "modules.json", "tokenizer.json"}))
	require.Contains(t, choose([]string{"modules.json", "0_StaticEmbedding/model.safetensors", "0_StaticEmbedding/tokenizer.json"}),
		"0_StaticEmbedding/model.safetensors")
	require.NotContains(t, choose([]string{"config.json", "model.safetensors", "modules.json", "1_Pooling/config.json", "onnx/model.onnx"}),
		"model.safetensors")
	require.NotContains(t, choose([]string{"config.json", "model.safetensors"}), "model.safetensors")
}

func replaceOnce(t *testing.T, data []byte, old, by string) []byte {
	require.Len(t, by, len(old))
	at := bytes.Index(data, []byte(old))
	require.GreaterOrEqual(t, at, 0, "%s in %.300s", old, data)
	return slices.Concat(data[:at], []byte(by), data[at+len(old):])
}
