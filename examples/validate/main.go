// Command validate compares the vectors of a model with recorded ones, for a step of continuous integration that fails when a new model
// file, a new version of rlxc or another processor changes results.
//
//	go run ./examples/validate MODEL recorded/vectors.json
//
// Record the vectors once with the library that the model comes from, such as sentence-transformers, and not with rlxc. The command "rlxc
// validate" does the same for tensors: it compares a model with the folders test_data_set_N beside it, or with onnxruntime.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/rlxc/rlxc/pipeline"
)

// tolerance is the largest difference of two numbers of unit vectors. Another order of the sums of float32 moves them by about 1e-6.
const tolerance = 1e-5

// errDiffers ends a run whose vectors differ.
var errDiffers = errors.New("the model's vectors differ from the recorded ones")

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: validate MODEL VECTORS.json")
		os.Exit(2)
	}
	if err := validate(context.Background(), os.Stdout, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A record is a text with its vector.
type record struct {
	Text      string    `json:"text"`
	Embedding []float32 `json:"embedding"`
}

// validate prints the largest difference of each text, and returns errDiffers if one is above the tolerance.
func validate(ctx context.Context, out io.Writer, model, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var records []record
	if err := json.Unmarshal(data, &records); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	m, err := pipeline.Open(ctx, model, pipeline.Options{})
	if err != nil {
		return err
	}
	defer m.Close()
	texts := make([]string, len(records))
	for i, r := range records {
		texts[i] = r.Text
	}
	vectors, err := m.Embed(ctx, texts, pipeline.EmbedOptions{})
	if err != nil {
		return err
	}
	var failure error
	for i, r := range records {
		if len(r.Embedding) != len(vectors[i]) {
			return fmt.Errorf("%w: %d numbers of %d", errDiffers, len(vectors[i]), len(r.Embedding))
		}
		largest := float32(0)
		for k, x := range vectors[i] {
			largest = max(largest, x-r.Embedding[k], r.Embedding[k]-x)
		}
		verdict := "ok"
		if !(largest <= tolerance) { // NaN is no number within the tolerance
			verdict, failure = "DIFFERS", errDiffers
		}
		fmt.Fprintf(out, "%-8s %.1e  %s\n", verdict, largest, r.Text)
	}
	return failure
}
