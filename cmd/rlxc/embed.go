package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc/pipeline"
)

// An embedding is the line of a text's vector.
type embedding struct {
	Text string `json:"text"`
	// The place of the text in its document, with --chunk; otherwise nil.
	Chunk     *int `json:"chunk,omitempty"`      // number among the chunks of the document, from 0
	Start     *int `json:"start,omitempty"`      // bytes of the document before the text
	End       *int `json:"end,omitempty"`        // bytes of the document up to the end of the text
	CharStart *int `json:"char_start,omitempty"` // characters of the document before the text
	CharEnd   *int `json:"char_end,omitempty"`   // characters of the document up to the end of the text

	Vector []float32              `json:"embedding,omitempty"`
	Base64 string                 `json:"embedding_base64,omitempty"`
	Sparse *pipeline.SparseVector `json:"sparse,omitempty"`
	Tokens [][]float32            `json:"tokens,omitempty"`

	words []pipeline.Score // of Sparse, for people
}

func (e *embedding) vector() []float32 { return e.Vector }

// embeddingExamples have what an embedding of a kind has.
var embeddingExamples = map[string]*embedding{
	"dense":  {Vector: []float32{0}},
	"sparse": {Sparse: &pipeline.SparseVector{}},
	"tokens": {Tokens: [][]float32{{0}}},
}

// shownCosines is how many texts are few enough for a table of each against each.
const shownCosines = 10

func embedCommand() *cobra.Command {
	t := &textCommand{}
	var how vectorFlags
	kind, output := "auto", pipeline.Float32
	asBase64 := false
	c := &cobra.Command{
		Use:   "embed M [TEXT…]",
		Short: "turn texts or images into vectors",
		Long: `embed makes a vector of each text. Length, prompts, pooling, modules and normalisation come from the
model's files. M is a folder, a model file, or the id of a model of the hub, which is downloaded unless
the cache has it. "rlxc inspect" prints what was found in a folder, such as the one that "rlxc pull ID"
prints.

Texts are arguments, the lines of --input FILE, a field of its records (--field; .jsonl, .csv or
.parquet), or the standard input (-). Without -o a table is printed, or with --json a line of JSON for
each text. -o FILE.jsonl, .parquet, .npy or .npz writes a file in the order of the input. --copy-field
adds an id and other fields to it. The results of an interrupted run stay in FILE.part, and the same
command continues after them. Lines, in and out, may be compressed: .gz or .zst at the end of the name.

The model reads the beginning of a text that is longer than its maximum. --chunk splits such a text into
chunks that it reads whole. Each has a line, with its number and its place in the text.

--image FILE embeds an image, --image FOLDER all images of a folder, and --image - one from the standard
input: JPEG, PNG, GIF, WebP, BMP and TIFF. M is then a vision model, such as ViT or DINOv2, with its
preprocessor_config.json. --pool pools the vectors of the patches. With CLIP or SigLIP, the vectors of texts
and images lie in one space, and one run makes both.

--skip FILE takes the vectors of texts that have not changed from a Parquet file that an earlier run wrote.
A file of another model, or of other options, is refused.`,
		Example: `  rlxc embed sentence-transformers/all-MiniLM-L6-v2 "A cat sits on the mat." "The cat is on the rug."
  rlxc embed path/to/folder --input texts.txt -o vectors.npy
  rlxc embed path/to/folder --input notes.jsonl.zst --field body --side document --output-type int8 -o notes.npz
  rlxc embed path/to/folder --input notes.parquet --field body --copy-field id -o vectors.parquet
  rlxc embed path/to/folder --input notes --copy-field file --chunk 48 --overlap 8 -o chunks.parquet
  rlxc embed path/to/folder --input notes.parquet --field body --copy-field id --skip vectors.parquet -o vectors.parquet
  rlxc embed path/to/clip --image photo.jpg --image holiday "a dog on a beach"`,
		Args: modelAndTexts,
		RunE: func(c *cobra.Command, args []string) (err error) {
			o := how.options(c, t)
			if err := errors.Join(needs(c, "chunk", "overlap"), least("chunk", t.chunk, 0), least("overlap", t.overlap, 0)); err != nil {
				return err
			}
			if len(t.images) > 0 {
				return t.embedImages(c, args, o, output, asBase64)
			}
			in, m, end, err := t.start(c, args)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, end()) }()
			if o.Side != pipeline.Neither && o.Prompt == nil && o.PromptName == "" && m.SidePrompt(o.Side) == "" {
				fmt.Fprintf(c.ErrOrStderr(), "the model has no prompt for --side %s: texts are embedded without one\n", o.Side)
			}
			what := kind
			if what == "auto" {
				what = cmp.Or(map[pipeline.Task]string{pipeline.Sparse: "sparse", pipeline.MultiVector: "tokens"}[m.Task], "dense")
			}
			example := *embeddingExamples[what]
			if t.chunk > 0 {
				example.place(&chunkPlace{})
				if _, err := m.Chunks(c.Context(), "", t.chunk, t.overlap, o); err != nil {
					return err // Chunks checks the flags, also without a text
				}
				in = t.chunked(c.Context(), in, m, o)
			}
			k := task{output: output, table: embeddingTable, example: &example}
			var kept *keptVectors
			k.run = func(ctx context.Context, items []item, cut pipeline.Truncated) ([]any, error) {
				o := o
				o.Truncated = cut
				return embedItems(ctx, m, items, what, asBase64, kept, o)
			}
			if what == "dense" {
				k.vectors = func(ctx context.Context) (vectorFile, error) { return aboutVectors(ctx, args[0], m, o) }
				if t.output != "" && asBase64 {
					return usagef("--base64 requires --json")
				}
			}
			if t.skip != "" {
				if kept, err = t.kept(c.Context(), k); err != nil {
					return err
				}
				defer func() { err = errors.Join(err, kept.close()) }()
			}
			if err = t.do(c, m, in, k); err == nil && kept != nil {
				fmt.Fprintf(c.ErrOrStderr(), "%d of %s were taken from %s\n", kept.taken, counted(kept.asked, "vector"), t.skip)
			}
			return err
		},
	}
	t.register(c, "")
	f := c.Flags()
	how.register(c, t, "that of --side, or the model's default")
	enum(c, &how.embed.Side, "side", "role of the texts in a search", pipeline.Query, pipeline.Document)
	enum(c, &kind, "kind", "kind of vectors: one per text, weights of words, or one per token", "auto", "dense", "sparse", "tokens")
	enum(c, &output, "output-type", "type of the numbers in .npy and .npz files", pipeline.Precisions()...)
	t.registerImages(f)
	f.IntVar(&t.chunk, "chunk", 0,
		"split each text into chunks of at most this many tokens, special tokens and prompt included (default no splitting)")
	f.IntVar(&t.overlap, "overlap", 0, "with --chunk, maximum tokens that a chunk shares with the one before it")
	f.StringVar(&t.skip, "skip", "",
		"take vectors of texts from this .parquet that the same model wrote before; it may be the output, and need not exist then")
	f.BoolVar(&asBase64, "base64", false, "with --json, vectors as base64 of float32")
	return c
}

// place sets where the text is in its document; nil changes nothing.
func (e *embedding) place(p *chunkPlace) {
	if p != nil {
		e.Chunk, e.Start, e.End, e.CharStart, e.CharEnd = &p.number, &p.Start, &p.End, &p.CharStart, &p.CharEnd
	}
}

// embedItems makes the vectors of a kind. kept has dense vectors of earlier runs, or is nil.
func embedItems(ctx context.Context, m *pipeline.Model, items []item, kind string, asBase64 bool, kept *keptVectors,
	o pipeline.EmbedOptions) ([]any, error) {
	out := make([]any, len(items))
	for i, it := range items {
		e := &embedding{Text: it.text}
		e.place(it.chunk)
		out[i] = e
	}
	at := func(i int) *embedding { return out[i].(*embedding) }
	switch kind {
	case "sparse":
		vectors, err := m.EmbedSparse(ctx, plain(items), o)
		for i := range vectors {
			at(i).Sparse, at(i).words = &vectors[i], m.TopWords(vectors[i], firstElements)
		}
		return out, err
	case "tokens":
		vectors, err := m.EmbedTokens(ctx, plain(items), o)
		for i := range vectors {
			at(i).Tokens = vectors[i]
		}
		return out, err
	}
	vectors, err := kept.embed(ctx, m, items, o)
	for i, v := range vectors {
		if asBase64 {
			at(i).Base64 = string(pipeline.AppendBase64(nil, v))
		} else {
			at(i).Vector = v
		}
	}
	return out, err
}

// embeddingTable prints the beginnings of vectors, and the cosine of each to each of a few.
func embeddingTable(w io.Writer, items []item, results []any) error {
	places := ""
	if len(items) > 0 && items[0].chunk != nil {
		places = "\tBYTES"
	}
	fmt.Fprintf(w, "\tSIZE\tVECTOR%s\tTEXT\n", places)
	dense := true
	for i, r := range results {
		e, place := r.(*embedding), ""
		if e.Chunk != nil {
			place = fmt.Sprintf("\t%d:%d", *e.Start, *e.End)
		}
		switch {
		case e.Sparse != nil:
			dense = false
			fmt.Fprintf(w, "%d\t%d\t", i+1, len(e.Sparse.Indices))
			for _, s := range e.words {
				fmt.Fprintf(w, "%s %.4g ", s.Label, s.Score)
			}
			fmt.Fprintf(w, "…%s\t%s\n", place, shorten(e.Text))
		case e.Tokens != nil:
			dense = false
			size := 0
			if len(e.Tokens) > 0 {
				size = len(e.Tokens[0])
			}
			fmt.Fprintf(w, "%d\t%dx%d\t%s\t%s\n", i+1, len(e.Tokens), size, place, shorten(e.Text))
		default:
			fmt.Fprintf(w, "%d\t%d\t%s%s\t%s\n", i+1, len(e.Vector), first(e.Vector, firstElements), place, shorten(e.Text))
		}
	}
	if dense {
		vectors := make([][]float32, len(results))
		for i, r := range results {
			vectors[i] = r.(*embedding).Vector
		}
		cosineTable(w, vectors)
	}
	return nil
}

// cosineTable prints the cosine of each vector to each, if there are few.
func cosineTable(w io.Writer, vectors [][]float32) {
	if len(vectors) < 2 || len(vectors) > shownCosines {
		return
	}
	fmt.Fprint(w, "\nCOSINE")
	for i := range vectors {
		fmt.Fprintf(w, "\t%d", i+1)
	}
	fmt.Fprintln(w)
	for i, a := range vectors {
		fmt.Fprintf(w, "%d", i+1)
		for _, b := range vectors {
			fmt.Fprintf(w, "\t%.4f", pipeline.Cosine.Of(a, b))
		}
		fmt.Fprintln(w)
	}
}
