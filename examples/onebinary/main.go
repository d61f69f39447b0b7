// Command onebinary compares two sentences with a model that is inside the program's own file.
//
//	CGO_ENABLED=0 go build ./examples/onebinary
//	./onebinary "a man is eating" "a man eats"
//
// The folder model holds a tiny model with random weights, so the number that is printed has no meaning. Replace its files with the files
// of another model, or with one compiled file: docs/one-binary.md shows how.
package main

import (
	"context"
	"embed"
	"fmt"
	"os"

	"github.com/rlxc/rlxc/pipeline"
)

//go:embed model
var files embed.FS

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: onebinary SENTENCE SENTENCE")
		os.Exit(2)
	}
	if err := compare(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// compare prints the cosine similarity of two sentences.
func compare(ctx context.Context, sentences []string) error {
	m, err := pipeline.Open(ctx, "model", pipeline.Options{FS: files})
	if err != nil {
		return err
	}
	defer m.Close()
	vectors, err := m.Embed(ctx, sentences, pipeline.EmbedOptions{})
	if err != nil {
		return err
	}
	var cosine float32
	for i, x := range vectors[0] { // the model's vectors have length 1
		cosine += x * vectors[1][i]
	}
	fmt.Printf("%.4f\n", cosine)
	return nil
}
