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
	Text   string                 `json:"text"`
	Vector []float32              `json:"embedding,omitempty"`
	Base64 string                 `json:"embedding_base64,omitempty"`
	Sparse *pipeline.SparseVector `json:"sparse,omitempty"`
	Tokens [][]float32            `json:"tokens,omitempty"`

	words []pipeline.Score // of Sparse, for people
}

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
	o := pipeline.EmbedOptions{}
	prompt, kind, output := "", "auto", pipeline.Float32
	var normalize, asBase64 bool
	c := &cobra.Command{
		Use:   "embed M [TEXT…]",
		Short: "turn texts into vectors",
		Long: `embed makes a vector of each text. Length, prompts, pooling, modules and normalisation come from the
model's files. M is a folder, a model file, or the id of a model of the hub, which is downloaded unless
the cache has it. "rlxc inspect M" prints what was found.

Texts are arguments, the lines of --input FILE, a field of its records (--field; .jsonl, .csv or
.parquet), or the standard input (-). Without -o a table is printed, or with --json a line of JSON for
each text. -o FILE.jsonl, .parquet, .npy or .npz writes a file in the order of the input. --copy-field
adds an id and other fields to it. The results of an interrupted run stay in FILE.part, and the same
command continues after them. Lines, in and out, may be compressed: .gz or .zst at the end of the name.`,
		Example: `  rlxc embed sentence-transformers/all-MiniLM-L6-v2 "A cat sits on the mat." "The cat is on the rug."
  rlxc embed path/to/folder --input texts.txt -o vectors.npy
  rlxc embed path/to/folder --input notes.jsonl.zst --field body --side document --output-type int8 -o notes.npz
  rlxc embed path/to/folder --input notes.parquet --field body --copy-field id -o vectors.parquet`,
		Args: modelAndTexts,
		RunE: func(c *cobra.Command, args []string) (err error) {
			if c.Flags().Changed("prompt-text") {
				o.Prompt = &prompt
			}
			if c.Flags().Changed("normalize") {
				t.open.Normalize = &normalize
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
			k := task{output: output, table: embeddingTable, example: embeddingExamples[what]}
			k.run = func(ctx context.Context, items []item, cut pipeline.Truncated) ([]any, error) {
				o := o
				o.Truncated = cut
				return embedItems(ctx, m, items, what, asBase64, o)
			}
			if what == "dense" {
				k.vectors = func(ctx context.Context) (vectorFile, error) { return aboutVectors(ctx, args[0], m, o.Dimensions) }
				if t.output != "" && asBase64 {
					return usagef("--base64 requires --json")
				}
			}
			return t.do(c, m, in, k)
		},
	}
	t.register(c, "")
	f := c.Flags()
	f.StringVar(&o.PromptName, "prompt", "", "name of one of the model's prompts (default that of --side, or the model's default)")
	f.StringVar(&prompt, "prompt-text", "", "prompt before each text; overrides the model's prompts")
	enum(c, &o.Side, "side", "role of the texts in a search", pipeline.Query, pipeline.Document)
	enum(c, &kind, "kind", "kind of vectors: one per text, weights of words, or one per token", "auto", "dense", "sparse", "tokens")
	enum(c, &output, "output-type", "type of the numbers in .npy and .npz files", pipeline.Precisions()...)
	enum(c, &t.open.Pooling, "pool", "pooling; overrides the model's files", pipeline.Poolings()...)
	f.IntVar(&o.Dimensions, "dimensions", 0, "truncate vectors to this many numbers (default all)")
	f.BoolVar(&normalize, "normalize", false, "whether to scale vectors to length 1; overrides the model's files")
	f.BoolVar(&asBase64, "base64", false, "with --json, vectors as base64 of float32")
	return c
}

// embedItems makes the vectors of a kind.
func embedItems(ctx context.Context, m *pipeline.Model, items []item, kind string, asBase64 bool, o pipeline.EmbedOptions) ([]any, error) {
	out := make([]any, len(items))
	for i, it := range items {
		out[i] = &embedding{Text: it.text}
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
	vectors, err := m.Embed(ctx, plain(items), o)
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
	fmt.Fprintln(w, "\tSIZE\tVECTOR\tTEXT")
	dense := true
	for i, r := range results {
		e := r.(*embedding)
		switch {
		case e.Sparse != nil:
			dense = false
			fmt.Fprintf(w, "%d\t%d\t", i+1, len(e.Sparse.Indices))
			for _, s := range e.words {
				fmt.Fprintf(w, "%s %.4g ", s.Label, s.Score)
			}
			fmt.Fprintf(w, "…\t%s\n", shorten(e.Text))
		case e.Tokens != nil:
			dense = false
			size := 0
			if len(e.Tokens) > 0 {
				size = len(e.Tokens[0])
			}
			fmt.Fprintf(w, "%d\t%dx%d\t\t%s\n", i+1, len(e.Tokens), size, shorten(e.Text))
		default:
			fmt.Fprintf(w, "%d\t%d\t%s\t%s\n", i+1, len(e.Vector), first(e.Vector, firstElements), shorten(e.Text))
		}
	}
	if !dense || len(results) < 2 || len(results) > shownCosines {
		return nil
	}
	fmt.Fprint(w, "\nCOSINE")
	for i := range results {
		fmt.Fprintf(w, "\t%d", i+1)
	}
	fmt.Fprintln(w)
	for i, a := range results {
		fmt.Fprintf(w, "%d", i+1)
		for _, b := range results {
			fmt.Fprintf(w, "\t%.4f", pipeline.Cosine.Of(a.(*embedding).Vector, b.(*embedding).Vector))
		}
		fmt.Fprintln(w)
	}
	return nil
}
