package pipeline_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/rlxc/rlxc/pipeline"
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
	_, similar := m.Similarity()
	for _, hit := range pipeline.TopK(query[0], vectors, 1, similar) {
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
	text := "The cat sits on the mat.\n\nStock prices fell today after the central bank raised interest rates.\n\nPhotosynthesis needs light.\n"
	return folder, os.WriteFile(filepath.Join(folder, "notes.txt"), []byte(text), 0o600)
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
