package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/pipeline"
)

// An imageEmbedding is the line of an image's vector.
type imageEmbedding struct {
	Image  string    `json:"image"` // path
	Vector []float32 `json:"embedding,omitempty"`
	Base64 string    `json:"embedding_base64,omitempty"`
}

// forTexts are the flags of embed that do nothing with --image.
var forTexts = []string{"input", "output", "output-type", "kind", "chunk", "overlap", "skip", "side", "prompt", "prompt-text", "max-length",
	"tokenizer", "field", "copy-field"}

// imageEndings are the endings of the files that count as images in a folder.
var imageEndings = []string{".jpg", ".jpeg", ".png", ".gif", ".webp", ".bmp", ".tif", ".tiff"}

// maxImageFile bounds an image file, which is read whole.
const maxImageFile = 256 << 20

// imagesPerRound is how many files are in memory together.
const imagesPerRound = 64

// imageFiles returns the files that are named, and those of named folders, without hidden ones, in the order of their names.
func imageFiles(named []string) (all []string, err error) {
	for _, name := range named {
		if info, err := os.Stat(name); err != nil || !info.IsDir() { // a missing file is an error of its own image
			all = append(all, name)
			continue
		}
		inside, err := folderRecords(name)
		if err != nil {
			return nil, err
		}
		before := len(all)
		for _, file := range inside.files {
			if slices.Contains(imageEndings, strings.ToLower(filepath.Ext(file))) {
				all = append(all, filepath.Join(name, file))
			}
		}
		if len(all) == before {
			return nil, fmt.Errorf("%s has no image: want files that end in %s", name, strings.Join(imageEndings, ", "))
		}
	}
	return all, nil
}

// imageRun is one run of a command on images.
type imageRun struct {
	skip bool      // whether an image that cannot be read is reported and left out
	log  io.Writer // for such reports
	bad  int       // images left out
}

// leave reports an error of an image, or returns it.
func (r *imageRun) leave(err error) error {
	if !r.skip {
		return fmt.Errorf("%w (--on-error skip continues)", err)
	}
	r.bad++
	fmt.Fprintln(r.log, err)
	return nil
}

// ofImages computes a result for each of the files at paths, in their order. It returns the images that could be read, with their results.
func ofImages[T any](r *imageRun, paths []string, compute func([]pipeline.Image) ([]T, error)) (read []pipeline.Image, out []T,
	err error) {
	var images []pipeline.Image
	for _, file := range paths {
		data, err := files.System{}.ReadFile(file, maxImageFile)
		if err == nil {
			images = append(images, pipeline.Image{Name: file, Data: data})
		} else if err = r.leave(err); err != nil {
			return nil, nil, err
		}
	}
	if out, err = compute(images); !errors.Is(err, pipeline.ErrInvalid) {
		return images, out, err
	}
	for i := range images { // at least one is damaged
		one, err := compute(images[i : i+1])
		if err == nil {
			read, out = append(read, images[i]), append(out, one[0])
		} else if !errors.Is(err, pipeline.ErrInvalid) {
			return nil, nil, err
		} else if err = r.leave(err); err != nil {
			return nil, nil, err
		}
	}
	return read, out, nil
}

// end returns the error of a run that left images out.
func (r *imageRun) end() error {
	if r.bad == 0 {
		return nil
	}
	fmt.Fprintf(r.log, "%s could not be read\n", counted(r.bad, "image"))
	return errCheck
}

// embedImages makes vectors of the images of a command line.
func (t *textCommand) embedImages(c *cobra.Command, model string, named []string, o pipeline.ImageOptions, asBase64 bool) (err error) {
	for _, name := range forTexts {
		if c.Flags().Changed(name) {
			return usagef("--%s is for texts, and excludes --image", name)
		}
	}
	if err := errors.Join(least("dimensions", o.Dimensions, 0), least("sessions", t.open.Sessions, 0)); err != nil {
		return err
	}
	paths, err := imageFiles(named)
	if err != nil {
		return err
	}
	boundHeap(0)
	m, err := pipeline.OpenImages(c.Context(), model, t.open)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	warnRepacked(model, m.Program())
	asJSON, _ := c.Flags().GetBool("json")
	run := &imageRun{skip: t.onError == "skip", log: c.ErrOrStderr()}
	embed := func(images []pipeline.Image) ([][]float32, error) { return m.Embed(c.Context(), images, o) }
	var all []imageEmbedding // for the table
	for round := range slices.Chunk(paths, imagesPerRound) {
		images, vectors, err := ofImages(run, round, embed)
		if err != nil {
			return err
		}
		some := make([]imageEmbedding, len(images))
		for i, image := range images {
			some[i] = imageEmbedding{Image: image.Name, Vector: vectors[i]}
		}
		if !asJSON {
			all = append(all, some...)
			continue
		}
		lines := json.NewEncoder(machine(c))
		lines.SetEscapeHTML(false)
		for _, e := range some {
			if asBase64 {
				e.Vector, e.Base64 = nil, string(pipeline.AppendBase64(nil, e.Vector))
			}
			if err := lines.Encode(e); err != nil {
				return err
			}
		}
	}
	if !asJSON {
		if err := imageTable(&printer{to: c.OutOrStdout()}, all); err != nil {
			return err
		}
	}
	return run.end()
}

// imageTable prints the beginnings of vectors, and the cosine of each to each of a few.
func imageTable(out *printer, all []imageEmbedding) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "\tSIZE\tVECTOR\tIMAGE\n")
	vectors := make([][]float32, len(all))
	for i, e := range all {
		fmt.Fprintf(w, "%d\t%d\t%s\t%s\n", i+1, len(e.Vector), first(e.Vector, firstElements), e.Image)
		vectors[i] = e.Vector
	}
	cosineTable(w, vectors)
	return errors.Join(w.Flush(), out.err)
}
