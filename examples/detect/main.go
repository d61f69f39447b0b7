// Command detect prints the objects that a model finds in photos, and how many there are of each kind.
//
//	go run ./examples/detect MODEL PHOTO…
//
// MODEL is a YOLO export of ultralytics, a folder that optimum wrote (DETR, RT-DETR, YOLOS), or the id of such a model on the Hugging Face
// Hub. "rlxc detect --draw" draws the boxes.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/rlxc/rlxc/pipeline"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: detect MODEL PHOTO…")
		os.Exit(2)
	}
	if err := detect(context.Background(), os.Stdout, os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// detect writes a line for each photo, such as "street.jpg: 2 car, 1 person", and below it a line for each object.
func detect(ctx context.Context, out io.Writer, model string, photos []string) error {
	m, err := pipeline.OpenImages(ctx, model, pipeline.Options{})
	if err != nil {
		return err
	}
	defer m.Close()
	images := make([]pipeline.Image, len(photos))
	for i, name := range photos {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		images[i] = pipeline.Image{Name: name, Data: data}
	}
	// One call for all photos: those whose tensors have the same size share batches.
	found, err := m.Detect(ctx, images, pipeline.DetectOptions{})
	if err != nil {
		return err
	}
	for i, objects := range found {
		fmt.Fprintf(out, "%s: %s\n", photos[i], summary(objects))
		for _, o := range objects {
			left, top, right, bottom := o.Box[0], o.Box[1], o.Box[2], o.Box[3] // pixels of the photo as it is seen
			fmt.Fprintf(out, "  %s %.2f: %.0f × %.0f pixels at %.0f, %.0f\n", o.Label, o.Score, right-left, bottom-top, left, top)
		}
	}
	return nil
}

// summary counts objects by label, in the order of the best of each.
func summary(objects []pipeline.Detection) string {
	var labels, counts []string
	number := map[string]int{}
	for _, o := range objects {
		if number[o.Label]++; !slices.Contains(labels, o.Label) {
			labels = append(labels, o.Label)
		}
	}
	for _, label := range labels {
		counts = append(counts, fmt.Sprintf("%d %s", number[label], label))
	}
	if len(counts) == 0 {
		return "nothing"
	}
	return strings.Join(counts, ", ")
}
