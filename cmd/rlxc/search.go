package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/parquet-go/parquet-go"
	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc/pipeline"
)

// vectorField is the field of an embedding's vector in files of results.
const vectorField = "embedding"

// A foundText is a text of a file, or an image, and how similar its vector is to that of the query.
type foundText struct {
	Score float64 `json:"score"`
	Text  *string `json:"text,omitempty"`  // nil for an image
	Image *string `json:"image,omitempty"` // path; nil for a text

	item item
}

func searchCommand() *cobra.Command {
	t := &textCommand{onError: "stop"}
	var how vectorFlags
	top := 10
	c := &cobra.Command{
		Use:   "search M QUERY",
		Short: "find the texts of a file of vectors, or the images, that are nearest to a query",
		Long: `search makes the vector of a query, and prints the texts whose vectors have the greatest cosine with it.
--input is a file that "rlxc embed M -o FILE" wrote with the same model: .parquet, or .jsonl, also .gz or
.zst. It is read once, and is not held in memory.

The query is embedded as the texts were. A Parquet file has a description of its vectors: pooling,
normalisation and dimensions, which flags may not contradict, and the prompt. JSON lines have none, so
that flags of "rlxc embed" are given to search, too. If the model has a prompt for queries, the query
gets that one. A Parquet file of another model is refused.

With CLIP or SigLIP, --image searches images instead: a file, a folder, or - for the standard input. Vectors
of images that "rlxc embed M --image FOLDER -o FILE" wrote are searched with --field image.`,
		Example: `  rlxc embed path/to/folder --input texts.txt -o vectors.parquet
  rlxc search path/to/folder "an animal" --input vectors.parquet --top 3
  rlxc search path/to/clip "a dog on a beach" --image holiday`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if err := least("top", top, 1); err != nil {
				return err
			}
			if len(t.images) > 0 {
				return t.searchImages(c, args[0], args[1], how.options(c, t), top)
			}
			if t.input == "" {
				return usagef("--input is required: a file that rlxc embed -o FILE wrote")
			}
			name, _ := unpacked(t.input)
			if t.input != "-" && !slices.ContainsFunc(textFormats, func(f *textFormat) bool { return f.names(name) }) {
				return usagef("--input %s: want a .parquet or .jsonl file that rlxc embed -o wrote, with texts beside vectors", t.input)
			}
			asJSON, _ := c.Flags().GetBool("json")
			if !asJSON && len(t.copied) > 0 {
				return usagef("--copy-field requires --json")
			}
			o := how.options(c, t)
			flags := t.textFlags
			flags.convert = vectorValue
			flags.copied = append(slices.Clone(t.copied), vectorField)
			if flags.field == "" {
				flags.field = "text"
			}
			in, err := openTexts(flags, c.InOrStdin())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, in.close()) }()
			note := lookup(in.note)
			if note == nil { // the format has no metadata
				note = func(string) (string, bool) { return "", false }
			}
			m, err := t.modelOf(c, args[0], note)
			if err != nil {
				return err
			}
			defer m.Close()
			if o, err = asMade(c, t.input, note, args[0], m, o); err != nil {
				return err
			}
			query, err := m.Embed(c.Context(), args[1:], o)
			if err != nil {
				return err
			}
			found, err := nearest(query[0], in, top)
			if err != nil {
				return err
			}
			return printFound(c, found, in.copied[:len(in.copied)-1], asJSON)
		},
	}
	t.textFlags.register(c.Flags())
	f := c.Flags()
	f.Lookup("input").Usage = "file of texts and vectors that rlxc embed -o FILE wrote: .parquet, or .jsonl, " +
		"also .gz or .zst; - for the standard input"
	f.StringSliceVar(&t.copied, "copy-field", nil, "with --json, field of the lines to print too, such as an id (repeatable)")
	t.registerModel(c)
	how.register(c, t, "the model's for queries, or that of the file")
	t.registerImages(f)
	f.IntVar(&top, "top", top, "number of texts or images to print")
	return c
}

// modelOf opens a model with the pooling in the metadata of the input.
func (t *textCommand) modelOf(c *cobra.Command, what string, note lookup) (*pipeline.Model, error) {
	m, err := t.model(c, what)
	if err != nil {
		return nil, err
	}
	pooling, differ, err := foundPooling(c, t.input, note, m)
	if err == nil && !differ {
		return m, nil
	}
	if err = errors.Join(err, m.Close()); err != nil {
		return nil, err
	}
	t.open.Pooling = pooling
	return t.model(c, what)
}

// vectorValue makes JSON of a value, but []float32 of the field of vectors, nil if it holds none.
func vectorValue(c *column, value any) (any, error) {
	if c.name != vectorField {
		return jsonValue(c, value)
	}
	var v []float32
	switch value := value.(type) {
	case json.RawMessage:
		if err := json.Unmarshal(value, &v); err != nil {
			return nil, nil //nolint:nilerr // nearest reports a field without a vector
		}
	case nested:
		for _, x := range value[0] {
			if len(value) > 1 || x.Kind() != parquet.Float {
				return nil, nil
			}
			v = append(v, x.Float())
		}
	}
	return v, nil
}

// nearest reads texts with their vectors, and returns the most similar ones, best first. It holds that many and one.
func nearest(query []float32, in *textReader, top int) (best []foundText, err error) {
	err = in.each(func(it item) error {
		if it.err != nil {
			return it.failure()
		}
		last := len(it.copied) - 1
		v, _ := it.copied[last].([]float32)
		if len(v) != len(query) {
			return fmt.Errorf("%s: field %q has no vector of %d numbers, as the model makes: give the model and the --dimensions that "+
				"made the file", it.where, vectorField, len(query))
		}
		it.copied = it.copied[:last]
		n := foundText{Score: pipeline.Cosine.Of(query, v), Text: &it.text, item: it}
		if it.image {
			n.Text, n.Image = nil, &it.where
		}
		at, _ := slices.BinarySearchFunc(best, n.Score, func(b foundText, score float64) int {
			if b.Score >= score { // the first of equal scores stays first
				return -1
			}
			return 1
		})
		if at < top {
			best = slices.Insert(best, at, n)
			best = best[:min(len(best), top)]
		}
		return nil
	})
	return best, err
}

func printFound(c *cobra.Command, found []foundText, copied []*column, asJSON bool) error {
	if asJSON {
		out := machine(c)
		for _, n := range found {
			if err := writeFound(out, n, copied); err != nil {
				return err
			}
		}
		return out.err
	}
	out := &printer{to: c.OutOrStdout()}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	heading := "TEXT"
	if len(found) > 0 && found[0].Image != nil {
		heading = "IMAGE"
	}
	fmt.Fprintln(w, "SCORE\t"+heading)
	for _, n := range found {
		what := n.item.where
		if n.Text != nil {
			what = shorten(*n.Text)
		}
		fmt.Fprintf(w, "%.4f\t%s\n", n.Score, what)
	}
	return errors.Join(w.Flush(), out.err)
}

func writeFound(out io.Writer, n foundText, copied []*column) error {
	var line bytes.Buffer
	if err := (jsonLines{copied}).add(&line, n.item, n); err != nil {
		return err
	}
	_, err := out.Write(line.Bytes())
	return err
}
