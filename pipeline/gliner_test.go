package pipeline

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/tokenizer"
)

// TestTagZeroShot holds entities to those that the package gliner finds by the same models.
func TestTagZeroShot(t *testing.T) {
	var list []string
	for i, text := range texts(t) {
		if i%2 == 0 {
			list = append(list, text)
		}
	}
	for _, model := range []string{"gliner", "gliner-words"} {
		m := openModel(t, model, Options{})
		require.Equal(t, ZeroShotTag, m.Task)
		var want struct {
			Labels                        []string
			Flat, Low, Nested, Multi, All [][]foundEntity
		}
		answers(t, model, &want)
		for _, test := range []struct {
			name string
			want [][]foundEntity
			o    TagZeroShotOptions
		}{
			{"flat", want.Flat, TagZeroShotOptions{}},
			{"low", want.Low, TagZeroShotOptions{Threshold: 0.3}},
			{"nested", want.Nested, TagZeroShotOptions{Nested: true}},
			{"multi", want.Multi, TagZeroShotOptions{Threshold: 0.6, MultiLabel: true}},
			{"all", want.All, TagZeroShotOptions{Threshold: 0.6, MultiLabel: true, Nested: true}},
		} {
			t.Run(model+" "+test.name, func(t *testing.T) {
				got, err := m.TagZeroShot(t.Context(), list, want.Labels, test.o)
				require.NoError(t, err)
				count := 0
				for i, text := range list {
					if e, err := m.tok.Encode(m.gliner.prompt(want.Labels).before(text+".", wordPattern.FindAllStringIndex(text+".", -1)),
						m.MaxLength); err != nil || e.Truncated || len(wordPattern.FindAllStringIndex(text, -1)) > m.gliner.MaxWords {
						continue // Python cuts it, and here windows follow
					}
					require.Len(t, got[i], len(test.want[i]), "text %d %q: %v, want %v", i, text, got[i], test.want[i])
					for k, w := range test.want[i] {
						g := got[i][k]
						require.Equal(t, w, foundEntity{g.Label, w.Score, g.CharStart, g.CharEnd}, "text %d %q", i, text)
						require.InDelta(t, w.Score, g.Score, within)
						require.Equal(t, string([]rune(text)[w.Start:w.End]), g.Text)
						require.Equal(t, g.Text, text[g.Start:g.End])
						count++
					}
				}
				require.Greater(t, count, 50) // of texts that Python does not cut
			})
		}
	}
}

// glinerFolder copies a model of testdata and changes gliner_config.json.
func glinerFolder(t *testing.T, model string, change map[string]any) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", model))))
	file := filepath.Join(dir, glinerFile)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var config map[string]any
	require.NoError(t, json.Unmarshal(data, &config))
	maps.Copy(config, change)
	data, err = json.Marshal(config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, data, 0o644))
	return dir
}

// TestGLiNERConfig holds that what does not fit is an error that names it.
func TestGLiNERConfig(t *testing.T) {
	for _, test := range []struct {
		model  string
		change map[string]any
		want   string
	}{
		{"gliner", map[string]any{"words_splitter_type": "spacy"}, `invalid words_splitter_type "spacy": want one of whitespace`},
		{"gliner", map[string]any{"subtoken_pooling": "best"}, `invalid subtoken_pooling "best"`},
		{"gliner", map[string]any{"max_width": 0}, "invalid max_width 0"},
		{"gliner", map[string]any{"max_len": 1 << 20}, "invalid max_len 1048576"},
		{"gliner", map[string]any{"labels_encoder": "bge"}, "labels_encoder"},
		{"gliner", map[string]any{"labels_decoder": "gpt2"}, "labels_decoder"},
		{"gliner", map[string]any{"relations_layer": "none"}, "relations_layer"},
		{"gliner", map[string]any{"model_type": "gliner_streaming_span"}, "a model of streams"},
		{"gliner", map[string]any{"precomputed_prompts_mode": true}, "precomputed_prompts_mode"},
		{"gliner", map[string]any{"ent_token": "<<LABEL>>"}, `lacks the token "<<LABEL>>"`},
		{"gliner", map[string]any{"class_token_index": 7}, `class_token_index in gliner_config.json is 7`},
		{"gliner-words", map[string]any{"span_mode": "markerV0"}, "want also the inputs span_idx, span_mask"},
		{"gliner", map[string]any{"max_width": "5"}, "gliner_config.json: json"},
	} {
		_, err := Open(t.Context(), glinerFolder(t, test.model, test.change), Options{})
		require.ErrorContains(t, err, test.want)
	}
	dir := glinerFolder(t, "gliner", nil)
	require.NoError(t, os.Remove(filepath.Join(dir, glinerFile)))
	_, err := Open(t.Context(), dir, Options{})
	require.ErrorContains(t, err, "has no gliner_config.json next to it")
	require.ErrorIs(t, err, ErrNotText)

	for _, change := range []map[string]any{{"max_width": 4}, {"span_mode": tokenLevel}} { // what only a run shows
		m, err := Open(t.Context(), glinerFolder(t, "gliner", change), Options{})
		require.NoError(t, err)
		_, err = m.TagZeroShot(t.Context(), []string{"Angela Merkel"}, []string{"person"}, TagZeroShotOptions{})
		require.Error(t, err, change)
		require.NoError(t, m.Close())
	}
}

func TestTagZeroShotArguments(t *testing.T) {
	m := openModel(t, "gliner", Options{})
	var many []string
	for i := range 40 {
		many = append(many, fmt.Sprint("label ", i))
	}
	for want, test := range map[string]struct {
		labels    []string
		threshold float64
	}{
		"an empty label":              {[]string{"person", " "}, 0},
		"invalid threshold 1":         {[]string{"person"}, 1},
		"the token \"<<ENT>>\"":       {[]string{"a<<ENT>>b"}, 0},
		"leave no room for text in a": {many, 0},
	} {
		_, err := m.TagZeroShot(t.Context(), []string{"Angela Merkel"}, test.labels, TagZeroShotOptions{Threshold: test.threshold})
		require.ErrorContains(t, err, want)
		require.ErrorIs(t, err, ErrInvalid)
	}
	_, err := m.Tag(t.Context(), []string{"a"}, TagOptions{})
	require.ErrorIs(t, err, ErrTask)
	_, err = openModel(t, "ner", Options{}).TagZeroShot(t.Context(), []string{"a"}, []string{"x"}, TagZeroShotOptions{})
	require.ErrorIs(t, err, ErrTask)

	got, err := m.TagZeroShot(t.Context(), []string{"Angela Merkel"}, nil, TagZeroShotOptions{})
	require.NoError(t, err)
	require.Equal(t, [][]Entity{{}}, got)
}

// TestGLiNERWindows holds that a text of any length is read to its end, whether words or tokens limit a window, and that entities are in
// order and apart.
func TestGLiNERWindows(t *testing.T) {
	m := openModel(t, "gliner", Options{})
	for _, word := range []string{"Angela Merkel met ", "Zürich-München "} {
		short := strings.Repeat(word, 8)
		text := strings.Repeat(word, 200)
		got, err := m.TagZeroShot(t.Context(), []string{text, " ", short}, []string{"x", "y"}, TagZeroShotOptions{Threshold: 0.3})
		require.NoError(t, err)
		require.Empty(t, got[1])
		require.NotEmpty(t, got[0], word)
		last := 0
		for _, e := range got[0] {
			require.GreaterOrEqual(t, e.Start, last)
			require.Equal(t, text[e.Start:e.End], e.Text)
			require.Equal(t, e.Text, string([]rune(text)[e.CharStart:e.CharEnd]))
			last = e.End
		}
		require.Greater(t, last, len(text)*9/10, word)
	}
}

// TestWords holds what a word is, and which of its tokens stand for it. A word that has no token takes none of the next one.
func TestWords(t *testing.T) {
	m := openModel(t, "gliner", Options{})
	text := "don't, Zürich-based_x \u0301\u00bd \u3000東京2\x1fé"
	prompt, found := m.gliner.prompt([]string{"person"}), wordPattern.FindAllStringIndex(text, -1)
	var words []string
	for _, w := range found {
		words = append(words, text[w[0]:w[1]])
	}
	require.Equal(t, []string{"don", "'", "t", ",", "Zürich-based_x", "\u0301", "\u00bd", "東京2", "é"}, words)
	e, err := m.tok.Encode(prompt.before(text, found), 0, tokenizer.Spans())
	require.NoError(t, err)
	for pooling, want := range map[string]int{"first": 1, "last": 1, "mean": 2, "max": 2} {
		c := *m.gliner
		c.Pooling = pooling
		count := map[int64]int{}
		for i, w := range c.wordsOf(e, len(prompt.words)) {
			count[w]++
			require.True(t, w == 0 || e.Words[i] == int(w)-1+len(prompt.words))
		}
		require.Len(t, count, 9, "the accent has no token") // 0, and eight words
		require.Zero(t, count[6])
		require.True(t, want == 1 && count[5] == 1 || want > 1 && count[5] > 1, pooling)
	}
}
