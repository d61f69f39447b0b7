package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc/pipeline"
)

// boxed makes results of a slice, one for each item.
func boxed[T any](items []item, values []T, err error, box func(it item, v T) any) ([]any, error) {
	if err != nil {
		return nil, err
	}
	out := make([]any, len(items))
	for i, it := range items {
		out[i] = box(it, values[i])
	}
	return out, nil
}

// A classified text is the line of its labels.
type classified struct {
	Text   string           `json:"text"`
	Second *string          `json:"second,omitempty"`
	Labels []pipeline.Score `json:"labels"`
}

func classifyCommand() *cobra.Command {
	t := &textCommand{}
	o := pipeline.ClassifyOptions{}
	zero := pipeline.ZeroShotOptions{}
	var labels []string
	c := &cobra.Command{
		Use:   "classify M [TEXT…]",
		Short: "label texts, pairs of texts, or images",
		Long: `classify prints the labels of each text, or of each pair of texts (--second-field), with their scores. The
model's files say whether it returns one label of several, several at once, or a number. With --label it
tries labels that the model does not know, by a model of natural language inference.

--image labels an image, all images of a folder, or one from the standard input (-). M is then a classifier
of images, or with --label a dual encoder such as CLIP or SigLIP.`,
		Example: `  rlxc classify path/to/sentiment "I love it" "Never again"
  rlxc classify path/to/nli --label politics --label sports "The match ended in a draw."
  rlxc classify path/to/vit --image photo.jpg
  rlxc classify path/to/clip --image holiday --label "a dog" --label "a beach"
  rlxc classify path/to/model --input reviews.csv --field review --top 1 -o labels.jsonl`,
		Args: modelAndTexts,
		RunE: func(c *cobra.Command, args []string) (err error) {
			if err := needs(c, "label", "template", "multi-label", "entailment"); err != nil {
				return err
			}
			if len(t.images) > 0 {
				return t.classifyImages(c, args, labels, o, zero)
			}
			in, m, end, err := t.start(c, args)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, end()) }()
			return t.do(c, m, in, task{run: func(ctx context.Context, items []item, cut pipeline.Truncated) ([]any, error) {
				var values [][]pipeline.Score
				var err error
				if len(labels) > 0 {
					o := zero
					o.Truncated = cut
					values, err = m.ZeroShot(ctx, plain(items), labels, o)
				} else {
					o := o
					o.Truncated = cut
					values, err = m.Classify(ctx, pairsOf(items), o)
				}
				return boxed(items, values, err, func(it item, v []pipeline.Score) any { return &classified{it.text, it.second, v} })
			}, example: &classified{Second: &t.second}, table: func(w io.Writer, _ []item, results []any) error {
				fmt.Fprintln(w, "LABEL\tSCORE\tTEXT")
				for _, r := range results {
					text := shorten(r.(*classified).Text)
					for _, s := range r.(*classified).Labels {
						fmt.Fprintf(w, "%s\t%.4f\t%s\n", shown(s.Label), s.Score, text)
						text = ""
					}
				}
				return nil
			}})
		},
	}
	t.register(c, "the second text of a pair")
	f := c.Flags()
	f.IntVar(&o.TopK, "top", 0, "number of labels to print (default all, of an image 5)")
	enum(c, &o.Function, "function", "function from logits to scores; overrides the model's files", pipeline.Functions()...)
	f.StringArrayVar(&labels, "label", nil,
		"label to try, for a model of natural language inference, or for images a dual encoder (repeatable)")
	f.StringVar(&zero.Template, "template", "",
		`sentence with {} for the label (default "This example is {}.", of an image "This is a photo of {}.")`)
	t.registerImages(f)
	f.BoolVar(&zero.MultiLabel, "multi-label", false, "with --label, allow several labels at once")
	f.StringVar(&zero.Entailment, "entailment", "",
		`with --label, the model's label for entailment (default the one that begins with "entail")`)
	for _, name := range []string{"top", "function", "second-field"} {
		c.MarkFlagsMutuallyExclusive("label", name)
	}
	return c
}

func rerankCommand() *cobra.Command {
	t := &textCommand{}
	o := pipeline.RerankOptions{}
	var query string
	c := &cobra.Command{
		Use:   "rerank M [DOCUMENT…]",
		Short: "sort documents by how well they answer a query",
		Long: `rerank scores each document against the query with a cross-encoder, and prints the best first. With
--second-field it scores pairs instead, in the order of the input.`,
		Example: `  rlxc rerank path/to/reranker --query "who wrote Faust?" "Goethe wrote Faust." "Faust is a fist."
  rlxc rerank path/to/reranker --query "who wrote Faust?" --input passages.txt --top 10
  rlxc rerank path/to/reranker --input pairs.jsonl --field query --second-field passage -o scores.jsonl`,
		Args: modelAndTexts,
		RunE: func(c *cobra.Command, args []string) (err error) {
			if (query == "") == (t.second == "") {
				return usagef("want either --query or --second-field")
			}
			if query != "" && (t.output != "" || len(t.copied) > 0) {
				return usagef("-o and --copy-field require --second-field: with --query, all documents are sorted in memory")
			}
			in, m, end, err := t.start(c, args)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, end()) }()
			if query == "" {
				return t.do(c, m, in, pairScores(m, o))
			}
			var items []item
			err = in.each(func(it item) error {
				if it.err == nil {
					items = append(items, it)
				} else if t.onError == "stop" {
					return fmt.Errorf("%w (--on-error skip continues)", it.failure())
				}
				return nil
			})
			if err != nil || len(items) == 0 {
				return err
			}
			o.Truncated = t.truncated(c, items)
			ranked, err := m.Rerank(c.Context(), query, plain(items), o)
			if err != nil {
				return err
			}
			if asJSON, _ := c.Flags().GetBool("json"); asJSON {
				var lines bytes.Buffer
				for _, r := range ranked {
					err = errors.Join(err, jsonLines{}.add(&lines, item{cut: items[r.Index].cut}, r))
				}
				_, failed := machine(c).Write(lines.Bytes())
				return errors.Join(err, failed)
			}
			out := &printer{to: c.OutOrStdout()}
			for _, r := range ranked {
				fmt.Fprintf(out, "%.4f  %d  %s\n", r.Score, r.Index+1, shorten(r.Document))
			}
			return out.err
		},
	}
	t.register(c, "the document of a pair")
	f := c.Flags()
	f.StringVar(&query, "query", "", "query that documents are scored against")
	f.StringVar(&o.Instruction, "instruction", "", "what makes a document relevant, for rerankers that are decoders (default the model's)")
	f.IntVar(&o.TopK, "top", 0, "number of documents to print (default all)")
	enum(c, &o.Function, "function", "function from logits to scores; overrides the model's files", pipeline.Functions()...)
	return c
}

// A scored pair is the line of its score.
type scored struct {
	Query    string  `json:"query"`
	Document string  `json:"document"`
	Score    float64 `json:"score"`
}

func pairScores(m *pipeline.Model, o pipeline.RerankOptions) task {
	return task{run: func(ctx context.Context, items []item, cut pipeline.Truncated) ([]any, error) {
		o := o
		o.Truncated = cut
		values, err := m.ScorePairs(ctx, pairsOf(items), o)
		return boxed(items, values, err, func(it item, v float64) any { return &scored{it.text, *it.second, v} })
	}, example: &scored{}, table: func(w io.Writer, _ []item, results []any) error {
		fmt.Fprintln(w, "SCORE\tQUERY\tDOCUMENT")
		for _, r := range results {
			s := r.(*scored)
			fmt.Fprintf(w, "%.4f\t%s\t%s\n", s.Score, shorten(s.Query), shorten(s.Document))
		}
		return nil
	}}
}

// A tagged text is the line of its entities.
type tagged struct {
	Text     string            `json:"text"`
	Entities []pipeline.Entity `json:"entities"`
}

func tagCommand() *cobra.Command {
	t := &textCommand{}
	o := pipeline.TagOptions{}
	o.Aggregation = "simple"
	zero := pipeline.TagZeroShotOptions{}
	var labels []string
	c := &cobra.Command{
		Use:   "tag M [TEXT…]",
		Short: "find names and other entities in texts",
		Long: `tag finds the spans of each text that the model has a label for, with their offsets in bytes and in
characters. Long texts are read by windows that overlap. A GLiNER model finds spans for the labels that
--labels names.`,
		Example: `  rlxc tag path/to/ner "Angela Merkel met Emmanuel Macron in Berlin."
  rlxc tag path/to/gliner --labels person,city --threshold 0.3 "Angela Merkel met Emmanuel Macron in Berlin."
  rlxc tag path/to/ner --input letters.txt --aggregation first -o entities.jsonl`,
		Args: modelAndTexts,
		RunE: func(c *cobra.Command, args []string) (err error) {
			if err := needs(c, "labels", "threshold", "multi-label", "nested"); err != nil {
				return err
			}
			in, m, end, err := t.start(c, args)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, end()) }()
			if m.Task == pipeline.ZeroShotTag && len(labels) == 0 {
				return usagef("%s requires labels: add --labels, such as --labels person,city", args[0])
			}
			return t.do(c, m, in, task{run: func(ctx context.Context, items []item, cut pipeline.Truncated) ([]any, error) {
				var values [][]pipeline.Entity
				var err error
				if len(labels) > 0 {
					values, err = m.TagZeroShot(ctx, plain(items), labels, zero)
				} else {
					o := o
					o.Truncated = cut
					values, err = m.Tag(ctx, plain(items), o)
				}
				return boxed(items, values, err, func(it item, v []pipeline.Entity) any { return &tagged{it.text, v} })
			}, example: &tagged{}, table: func(w io.Writer, items []item, results []any) error {
				fmt.Fprintln(w, "ENTITY\tLABEL\tSCORE\tBYTES\tWHERE")
				for i, r := range results {
					for _, e := range r.(*tagged).Entities {
						fmt.Fprintf(w, "%s\t%s\t%.4f\t%d:%d\t%s\n", shorten(e.Text), shown(e.Label), e.Score, e.Start, e.End,
							items[i].where)
					}
				}
				return nil
			}})
		},
	}
	t.register(c, "")
	f := c.Flags()
	enum(c, &o.Aggregation, "aggregation", "rule that joins the labels of tokens to entities", pipeline.Aggregations()...)
	f.IntVar(&o.Stride, "stride", 0,
		"tokens that windows over a long text share (default a quarter of a window; below 0 truncates the text)")
	f.StringSliceVar(&labels, "labels", nil, "labels for a GLiNER model to find, separated by commas (repeatable)")
	f.Float64Var(&zero.Threshold, "threshold", 0.5, "with --labels, the score that an entity must exceed")
	f.BoolVar(&zero.MultiLabel, "multi-label", false, "with --labels, allow several labels for the same words")
	f.BoolVar(&zero.Nested, "nested", false, "with --labels, allow entities within entities")
	c.MarkFlagsMutuallyExclusive("labels", "aggregation")
	c.MarkFlagsMutuallyExclusive("labels", "stride")
	return c
}

// An answered question is the line of its answers.
type answered struct {
	Question string            `json:"question"`
	Context  string            `json:"context"`
	Answers  []pipeline.Answer `json:"answers"`
}

func answerCommand() *cobra.Command {
	t := &textCommand{}
	o := pipeline.AnswerOptions{}
	var question string
	c := &cobra.Command{
		Use:   "answer M [CONTEXT…]",
		Short: "find the answer to a question in texts",
		Long: `answer finds the span of each context that answers the question. With --second-field each record of the
input has a question, and its context in that field. Long contexts are read by windows that overlap.`,
		Example: `  rlxc answer path/to/squad --question "Where does the train leave?" "The train leaves from platform 12."
  rlxc answer path/to/squad --input asked.jsonl --field question --second-field context -o answers.jsonl`,
		Args: modelAndTexts,
		RunE: func(c *cobra.Command, args []string) (err error) {
			if (question == "") == (t.second == "") {
				return usagef("want either --question or --second-field")
			}
			in, m, end, err := t.start(c, args)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, end()) }()
			asked := func(it item) pipeline.Question {
				if it.second != nil {
					return pipeline.Question{Question: it.text, Context: *it.second}
				}
				return pipeline.Question{Question: question, Context: it.text}
			}
			return t.do(c, m, in, task{check: func(it item) error {
				if asked(it).IsEmpty() {
					return errors.New("the question or its context is empty")
				}
				return nil
			}, run: func(ctx context.Context, items []item, _ pipeline.Truncated) ([]any, error) {
				questions := make([]pipeline.Question, len(items))
				for i, it := range items {
					questions[i] = asked(it)
				}
				values, err := m.Answer(ctx, questions, o)
				if err != nil {
					return nil, err
				}
				out := make([]any, len(items))
				for i, q := range questions {
					out[i] = &answered{q.Question, q.Context, values[i]}
				}
				return out, nil
			}, example: &answered{}, table: func(w io.Writer, _ []item, results []any) error {
				fmt.Fprintln(w, "ANSWER\tSCORE\tBYTES\tQUESTION")
				for _, r := range results {
					for _, a := range r.(*answered).Answers {
						fmt.Fprintf(w, "%s\t%.4f\t%d:%d\t%s\n", shorten(a.Text), a.Score, a.Start, a.End, shorten(r.(*answered).Question))
					}
				}
				return nil
			}})
		},
	}
	t.register(c, "the context")
	f := c.Flags()
	f.StringVar(&question, "question", "", "question about each context")
	f.IntVar(&o.TopK, "top", 1, "number of answers to print")
	f.BoolVar(&o.NoAnswer, "no-answer", false, "allow the answer that there is none")
	f.IntVar(&o.Stride, "stride", 0, "tokens that windows over a long context share (default half a window)")
	return c
}
