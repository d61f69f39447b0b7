package pipeline_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/pipeline"
	"github.com/rlxc/rlxc/tokenizer"
)

// Semantic search over a folder of notes: embed each paragraph, and look for those that are nearest to a question.
func Example_search() {
	ctx := context.Background()
	m, err := pipeline.Open(ctx, "testdata/minilm", pipeline.Options{}) // or "sentence-transformers/all-MiniLM-L6-v2"
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	folder, err := notes()
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)

	files, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil {
		log.Fatal(err)
	}
	var paragraphs []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			log.Fatal(err)
		}
		paragraphs = append(paragraphs, strings.Split(strings.TrimSpace(string(data)), "\n\n")...)
	}
	vectors, err := m.Embed(ctx, paragraphs, pipeline.EmbedOptions{Side: pipeline.Document})
	if err != nil {
		log.Fatal(err)
	}
	query, err := m.Embed(ctx, []string{"The cat sits on the mat."}, pipeline.EmbedOptions{Side: pipeline.Query})
	if err != nil {
		log.Fatal(err)
	}
	for _, hit := range pipeline.TopK(query[0], vectors, 1, m.Similarity()) {
		fmt.Println(paragraphs[hit.Index])
	}
	// Output: The cat sits on the mat.
}

// notes makes a folder of notes.
func notes() (string, error) {
	folder, err := os.MkdirTemp("", "notes")
	if err != nil {
		return "", err
	}
	text := "The cat sits on the mat.\n\nStock prices fell today after the central bank raised interest rates.\n\nPhotosynthesis needs " +
		"light.\n"
	return folder, os.WriteFile(filepath.Join(folder, "notes.txt"), []byte(text), 0o600)
}

// A service: an HTTP handler that takes a JSON list of texts and answers with a list of vectors. Requests that come at a time share
// batches and the memory of the model; package server has a whole one, with the protocols of others.
func Example_service() {
	m, err := pipeline.Open(context.Background(), "testdata/minilm", pipeline.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var texts []string
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&texts); err != nil || len(texts) == 0 {
			http.Error(w, "want a JSON list of texts", http.StatusBadRequest)
			return
		}
		vectors, err := m.Embed(r.Context(), texts, pipeline.EmbedOptions{}) // ends early if the client goes away
		switch {
		case errors.Is(err, rlxc.ErrMemory):
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		default:
			json.NewEncoder(w).Encode(vectors)
		}
	}))
	defer server.Close()

	answer, err := http.Post(server.URL, "application/json", strings.NewReader(`["the quick brown fox", "the fox"]`))
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	var vectors [][]float32
	if err := json.NewDecoder(answer.Body).Decode(&vectors); err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Status, len(vectors), "vectors of", len(vectors[0]))
	// Output: 200 OK 2 vectors of 32
}

// A redactor takes names out of a text.
func Example_redact() {
	ctx := context.Background()
	m, err := pipeline.Open(ctx, "testdata/ner", pipeline.Options{}) // weights at random: put a model of names here
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	text := "Angela Merkel met Emmanuel Macron in Berlin."
	found, err := m.Tag(ctx, []string{text}, pipeline.TagOptions{Aggregation: "first"})
	if err != nil {
		log.Fatal(err)
	}
	for i := len(found[0]) - 1; i >= 0; i-- { // from the end, so that places hold
		e := found[0][i]
		text = text[:e.Start] + "[" + e.Label + "]" + text[e.End:]
	}
	fmt.Println(strings.Contains(text, "["))
	// Output: true
}

// words is a tokenizer of words between spaces.
type words struct {
	vocabulary []string
	ids        map[string]int64
}

func (w words) Vocabulary() []string { return w.vocabulary }

// Special makes sequences [CLS] text [SEP], and of pairs [CLS] text [SEP] second [SEP].
func (w words) Special() (first, between, last []int64) {
	cls, sep := []int64{w.ids["[CLS]"]}, []int64{w.ids["[SEP]"]}
	return cls, sep, sep
}

func (w words) Tokens(text string) (tokens []tokenizer.Token, err error) {
	at := 0
	for _, word := range strings.SplitAfter(text, " ") {
		if name := strings.TrimSpace(word); name != "" {
			id, ok := w.ids[strings.ToLower(name)]
			if !ok {
				id = w.ids["[UNK]"]
			}
			tokens = append(tokens, tokenizer.Token{ID: id, Start: at, End: at + len(name)})
		}
		at += len(word)
	}
	return tokens, nil
}

// A tokenizer of one's own takes the place of the model's. Its ids are those that the model was trained with.
func ExampleOptions_ownTokenizer() {
	ctx := context.Background()
	own := words{ids: map[string]int64{}}
	for id, word := range strings.Fields("[PAD] [UNK] [CLS] [SEP] [MASK] the cat sat on mat") {
		own.vocabulary, own.ids[word] = append(own.vocabulary, word), int64(id)
	}
	m, err := pipeline.Open(ctx, "testdata/minilm", pipeline.Options{OwnTokenizer: own})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	n, err := m.TokenCount(ctx, "The cat sat on the mat")
	if err != nil {
		log.Fatal(err)
	}
	vectors, err := m.Embed(ctx, []string{"The cat sat on the mat"}, pipeline.EmbedOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n, "tokens,", len(vectors[0]), "numbers")
	// Output: 8 tokens, 32 numbers
}

// A long text is embedded in chunks that the model reads whole. Each has its place in the text.
func ExampleModel_Chunks() {
	ctx := context.Background()
	m, err := pipeline.Open(ctx, "testdata/minilm", pipeline.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	const text = "The cat sat on the mat, and it did not want to leave the mat."
	o := pipeline.EmbedOptions{Side: pipeline.Document}
	chunks, err := m.Chunks(ctx, text, 16, 4, o) // at most 16 tokens, of which 4 are in the chunk before too
	if err != nil {
		log.Fatal(err)
	}
	var texts []string
	for _, c := range chunks {
		texts = append(texts, c.Text)
		fmt.Printf("%d-%d: %s\n", c.Start, c.End, text[c.Start:c.End])
	}
	vectors, err := m.Embed(ctx, texts, o)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(vectors), "vectors")
	// Output:
	// 0-30: The cat sat on the mat, and it
	// 24-56: and it did not want to leave the
	// 47-61: leave the mat.
	// 3 vectors
}
