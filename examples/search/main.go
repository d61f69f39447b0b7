// Command search prints the paragraphs of a folder of texts that are nearest to a query in meaning.
//
//	go run ./examples/search MODEL FOLDER QUERY
//
// MODEL is a folder, a compiled file, or the id of a model on the Hugging Face Hub, such as sentence-transformers/all-MiniLM-L6-v2. Vectors
// are computed at each start. To keep them, write them with "rlxc embed -o vectors.jsonl" and ask with "rlxc search".
package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/rlxc/rlxc/pipeline"
)

const hits = 3 // paragraphs that are printed

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: search MODEL FOLDER QUERY")
		os.Exit(2)
	}
	if err := search(context.Background(), os.Stdout, os.Args[1], os.DirFS(os.Args[2]), os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// search writes the paragraphs of the .txt and .md files in folder that are nearest to query, the nearest first.
func search(ctx context.Context, out io.Writer, model string, folder fs.FS, query string) error {
	names, paragraphs, err := read(folder)
	if err != nil {
		return err
	}
	m, err := pipeline.Open(ctx, model, pipeline.Options{})
	if err != nil {
		return err
	}
	defer m.Close()
	// Some models have one prompt for documents and another for queries: the side chooses.
	vectors, err := m.Embed(ctx, paragraphs, pipeline.EmbedOptions{Side: pipeline.Document})
	if err != nil {
		return err
	}
	asked, err := m.Embed(ctx, []string{query}, pipeline.EmbedOptions{Side: pipeline.Query})
	if err != nil {
		return err
	}
	for _, hit := range pipeline.TopK(asked[0], vectors, hits, m.Similarity()) {
		fmt.Fprintf(out, "%.4f  %s: %s\n", hit.Score, names[hit.Index], paragraphs[hit.Index])
	}
	return nil
}

// read returns the paragraphs of the texts in a folder, and the file of each.
func read(folder fs.FS) (names, paragraphs []string, err error) {
	err = fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".txt") && !strings.HasSuffix(name, ".md") {
			return err
		}
		data, err := fs.ReadFile(folder, name)
		if err != nil {
			return err
		}
		for text := range strings.SplitSeq(string(data), "\n\n") {
			if text = strings.Join(strings.Fields(text), " "); text != "" {
				names, paragraphs = append(names, name), append(paragraphs, text)
			}
		}
		return nil
	})
	return names, paragraphs, err
}
