package pipeline

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/tokenizer"
)

// spaced is a tokenizer of words between spaces. Words that the vocabulary lacks are [UNK].
type spaced struct{ words []string }

// newSpaced has the vocabulary of a model of testdata.
func newSpaced(t *testing.T, m *Model) *spaced {
	words := make([]string, m.Encoder().Size())
	for id := range words {
		words[id], _ = m.Encoder().Token(int64(id))
	}
	require.Contains(t, words, "[UNK]")
	return &spaced{words}
}

func (s *spaced) id(token string) int64 {
	unknown := 0
	for id, word := range s.words {
		if word == token {
			return int64(id)
		} else if word == "[UNK]" {
			unknown = id
		}
	}
	return int64(unknown)
}

func (s *spaced) Vocabulary() []string { return s.words }

func (s *spaced) Special() (first, between, last []int64) {
	cls, sep := []int64{s.id("[CLS]")}, []int64{s.id("[SEP]")}
	return cls, sep, sep
}

func (s *spaced) Tokens(text string) (list []tokenizer.Token, err error) {
	at := 0
	for _, word := range strings.SplitAfter(text, " ") {
		if name := strings.TrimSpace(word); name != "" {
			list = append(list, tokenizer.Token{ID: s.id(strings.ToLower(name)), Start: at, End: at + len(name)})
		}
		at += len(word)
	}
	return list, nil
}

// bare is a tokenizer that adds nothing to a text.
type bare struct{ *spaced }

func (bare) Special() (first, between, last []int64) { return nil, nil, nil }

// TestTextsWithoutTokensAreZeros: a text may have no tokens at all, alone and beside others.
func TestTextsWithoutTokensAreZeros(t *testing.T) {
	no := false
	for _, mode := range Poolings() {
		for _, unpad := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/unpad=%v", mode, unpad), func(t *testing.T) {
				words := newSpaced(t, openModel(t, "minilm", Options{}))
				m := openModel(t, "minilm", Options{OwnTokenizer: bare{words}, Pooling: mode, Normalize: &no,
					Compile: rlxc.CompileOptions{Unpad: unpad}})
				for _, texts := range [][]string{{""}, {"the dog", "", "the fox and the dog"}} {
					vectors, err := m.Embed(t.Context(), texts, EmbedOptions{})
					require.NoError(t, err)
					for i, v := range vectors {
						require.Equal(t, texts[i] == "", !slices.ContainsFunc(v, func(x float32) bool { return x != 0 }), texts[i])
					}
				}
			})
		}
	}
}

// TestOwnTokenizers holds that models give the same results with a tokenizer of one's own, of texts that it splits as the model's does. The
// folder needs no tokenizer then.
func TestOwnTokenizers(t *testing.T) {
	texts := []string{"The dog and the fox", "Steve Jobs", "", "The lazy dog met the fox in Berlin and the river and the bank"}
	for _, model := range []string{"minilm", "classify", "nli", "ner", "qa"} {
		t.Run(model, func(t *testing.T) {
			theirs := openModel(t, model, Options{})
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", model))))
			require.NoError(t, os.Remove(filepath.Join(dir, "tokenizer.json")))
			words := newSpaced(t, theirs)
			for _, text := range texts {
				e, err := theirs.tok.Encode(tokenizer.Text(text), 0)
				require.NoError(t, err)
				require.NotContains(t, e.InputIDs, words.id("[UNK]"), text)
				require.Len(t, e.InputIDs, len(strings.Fields(text))+2, text)
			}
			own, err := Open(t.Context(), dir, Options{OwnTokenizer: words})
			require.NoError(t, err)
			defer own.Close()
			require.Equal(t, theirs.MaxLength, own.MaxLength)
			results := func(m *Model) (result any) {
				var err error
				switch m.Task {
				case Embedding:
					result, err = m.Embed(t.Context(), texts, EmbedOptions{})
				case Classifying:
					pairs := Texts(texts...)
					if model == "nli" {
						pairs[0].Second = &texts[3]
					}
					result, err = m.Classify(t.Context(), pairs, ClassifyOptions{})
				case Tagging:
					result, err = m.Tag(t.Context(), texts, TagOptions{})
				case Answering:
					result, err = m.Answer(t.Context(), []Question{{texts[1], texts[3]}}, AnswerOptions{TopK: 3})
				}
				require.NoError(t, err)
				require.NotNil(t, result)
				return result
			}
			require.Equal(t, results(theirs), results(own))
			chunks, err := own.Chunks(t.Context(), texts[3], 8, 2, EmbedOptions{})
			require.NoError(t, err)
			require.Equal(t, "The lazy dog met the fox", chunks[0].Text)
			require.Equal(t, "the fox in Berlin and the", chunks[1].Text)
		})
	}
}

// TestOwnTokenizersRefuse holds that a tokenizer of one's own that does not fit is an error of Open.
func TestOwnTokenizersRefuse(t *testing.T) {
	words := newSpaced(t, openModel(t, "minilm", Options{}))
	_, err := Open(t.Context(), "testdata/minilm", Options{OwnTokenizer: words, Tokenizer: "testdata/minilm"})
	require.ErrorContains(t, err, "two tokenizers")
	_, err = Open(t.Context(), "testdata/minilm", Options{OwnTokenizer: &spaced{append(words.words, "more")}})
	require.ErrorContains(t, err, "Options.OwnTokenizer has ids up to 700, but the model's word embeddings have 700 rows")
	_, err = Open(t.Context(), "testdata/minilm", Options{OwnTokenizer: &spaced{}})
	require.ErrorContains(t, err, "the vocabulary has no token")
}

// TestOwnTokenizersFollowSettings holds that the length in tokenizer_config.json counts, and that no finding names an unread file.
func TestOwnTokenizersFollowSettings(t *testing.T) {
	dir := copyModel(t, "minilm")
	write(t, filepath.Join(dir, "sentence_bert_config.json"), `{"do_lower_case": true}`)
	write(t, filepath.Join(dir, "tokenizer_config.json"), `{"model_max_length": 20}`)
	m, err := Open(t.Context(), dir, Options{OwnTokenizer: newSpaced(t, openModel(t, "minilm", Options{}))})
	require.NoError(t, err)
	defer m.Close()
	require.Equal(t, 20, m.MaxLength)
	for _, f := range m.Found {
		require.NotEqual(t, "case", f.What)
		require.NotEqual(t, "tokenizer.json", f.Where)
	}
}
