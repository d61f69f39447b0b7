package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc/pipeline"
)

// texting is the command line that the commands on texts have in common: a model, texts from somewhere, results to somewhere.
type texting struct {
	open    pipeline.Options
	input   string
	field   string
	second  string
	output  string
	onError string

	cut int // texts that were too long
}

// register adds the flags; pairs names what a second field is, empty if the command takes none.
func (t *texting) register(c *cobra.Command, pairs string) {
	t.onError = "stop"
	f := c.Flags()
	f.StringVar(&t.open.Variant, "variant", "", "which ONNX file of a folder, such as quantized for model_quantized.onnx")
	f.StringVar(&t.open.Revision, "revision", "", "branch, tag or commit of a model of the hub (default main)")
	f.StringVar(&t.open.Tokenizer, "tokenizer", "", "tokenizer.json, vocab.txt, or a folder with one (default the model's own)")
	f.IntVar(&t.open.MaxLength, "max-length", 0, "tokens of a row (default what the model's files say)")
	f.IntVar(&t.open.Sessions, "sessions", 0, "batches that run at a time (default one for each two processors)")
	registerCompile(c, &t.open.Compile)
	f.StringVar(&t.input, "input", "", "file of texts: one a line, .jsonl or .csv; - for the standard input")
	f.StringVar(&t.field, "field", "", "field or column of the text (default text)")
	if pairs != "" {
		f.StringVar(&t.second, "second-field", "", "field or column of "+pairs)
	}
	f.StringVarP(&t.output, "output", "o", "", "write the results to a file, which an interrupted run of the same command goes on with")
	enum(c, &t.onError, "on-error", "what to do about a line that cannot be read", "stop", "skip")
}

// model opens the model of a command line.
func (t *texting) model(c *cobra.Command, what string) (*pipeline.Model, error) {
	t.open.MemoryLimit = t.open.Compile.MemoryLimit // of all sessions together
	boundHeap(0)
	return pipeline.Open(c.Context(), what, t.open)
}

// lines opens the texts of a command line.
func (t *texting) lines(c *cobra.Command, args []string) (*lineReader, error) {
	if len(args) == 1 && args[0] == "-" && t.input == "" {
		args, t.input = nil, "-"
	}
	switch {
	case t.input != "" && len(args) > 0:
		return nil, usagef("texts come from arguments or from --input: leave out one")
	case t.input != "":
		return openLines(t.input, t.field, t.second, c.InOrStdin())
	case len(args) == 0:
		return nil, usagef("there are no texts: give them as arguments, by --input FILE, or - for the standard input")
	case t.field != "" || t.second != "":
		return nil, usagef("--field and --second-field go with --input")
	}
	return textArguments(args), nil
}

// start opens the texts and the model of a command line, which end closes.
func (t *texting) start(c *cobra.Command, args []string) (in *lineReader, m *pipeline.Model, end func() error, err error) {
	if in, err = t.lines(c, args[1:]); err != nil {
		return nil, nil, nil, err
	}
	if m, err = t.model(c, args[0]); err != nil {
		return nil, nil, nil, errors.Join(err, in.close())
	}
	return in, m, func() error {
		m.Close()
		return in.close()
	}, nil
}

// toldCuts is how many texts are named that are too long; the rest is counted.
const toldCuts = 5

// truncated says which of some items are too long.
func (t *texting) truncated(c *cobra.Command, items []item) pipeline.Truncated {
	return func(i, tokens, limit int) {
		if t.cut++; t.cut <= toldCuts {
			fmt.Fprintf(c.ErrOrStderr(), "%s: %d tokens, of which the first %d count\n", items[i].where, tokens, limit)
		}
	}
}

// A task makes results of items, one each, in order. What it returns becomes JSON.
type task struct {
	run   func(ctx context.Context, items []item, cut pipeline.Truncated) ([]any, error)
	table func(out io.Writer, items []item, results []any) error
	// vectors makes a row of numbers of a result, where -o may be a matrix; nil elsewhere.
	vectors func(result any) []float32
	size    func(ctx context.Context) (int, error)
	output  pipeline.Precision // in files of vectors
}

// itemsAtOnce is how many texts are in memory at a time.
const itemsAtOnce = 4096

// do runs a task on all texts.
func (t *texting) do(c *cobra.Command, m *pipeline.Model, in *lineReader, k task) (err error) {
	var file *results
	if t.output != "" {
		if file, err = t.openOutput(c, k); err != nil {
			return err
		}
	}
	asJSON, _ := c.Flags().GetBool("json")
	encoder := json.NewEncoder(machine(c))
	encoder.SetEscapeHTML(false)
	skip, bad, total := 0, 0, 0
	if file != nil {
		if skip = file.done; skip > 0 {
			fmt.Fprintf(c.ErrOrStderr(), "%s.part has %d results: going on after them\n", t.output, skip)
		}
		if file.lost {
			fmt.Fprintf(c.ErrOrStderr(), "%s.part was changed, or not written to its end: what follows %d results is computed again\n",
				t.output, skip)
		}
	}
	bar, begun := progress(c, -1, "texts"), time.Now()
	defer bar.Finish()
	for end := false; !end; {
		var items []item
		for len(items) < itemsAtOnce {
			it, err := in.next()
			if err == io.EOF {
				end = true
				break
			}
			if err != nil {
				return t.stop(file, err)
			}
			if skip > 0 {
				skip--
				continue
			}
			if it.err != nil {
				if t.onError == "stop" {
					return t.stop(file, fmt.Errorf("%s: %w (--on-error skip goes on)", it.where, it.err))
				}
				bad++
				fmt.Fprintf(&printer{to: c.ErrOrStderr()}, "%s: %v\n", it.where, it.err)
			}
			items = append(items, it)
		}
		if len(items) == 0 {
			break
		}
		values, err := t.results(c, items, k)
		if err != nil {
			return t.stop(file, err)
		}
		total += len(items)
		bar.Add(len(items))
		if seconds := time.Since(begun).Seconds(); seconds > 0 {
			bar.Describe(fmt.Sprintf("%.0f texts/s, %.0f tokens/s", float64(total)/seconds, float64(m.Tokens())/seconds))
		}
		switch {
		case file != nil:
			err = t.save(file, items, values, k)
		case asJSON:
			for i := range values {
				err = errors.Join(err, encoder.Encode(orError(items[i], values[i])))
			}
		default:
			err = t.print(c, items, values, k)
		}
		if err != nil {
			return t.stop(file, err)
		}
	}
	if t.cut > toldCuts {
		fmt.Fprintf(c.ErrOrStderr(), "%d texts were too long in all\n", t.cut)
	}
	if file != nil {
		if err := file.finish(k.output); err != nil {
			return err
		}
	}
	if bad > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "%s could not be read\n", counted(bad, "line"))
		return errCheck
	}
	return nil
}

// openOutput opens the file of -o.
func (t *texting) openOutput(c *cobra.Command, k task) (*results, error) {
	size := 0
	switch ext := filepath.Ext(t.output); {
	case ext == ".jsonl":
	case (ext == ".npy" || ext == ".npz") && k.vectors != nil:
		var err error
		if size, err = k.size(c.Context()); err != nil {
			return nil, err
		}
	case k.vectors != nil:
		return nil, usagef("--output %s: the file's name must end in one of .jsonl, .npy, .npz", t.output)
	default:
		return nil, usagef("--output %s: the file's name must end in .jsonl", t.output)
	}
	run := strings.Join(os.Args, "\x00")
	if info, err := os.Stat(t.input); err == nil {
		run += fmt.Sprint("\x00", info.Size(), info.ModTime().UnixNano())
	}
	return openResults(t.output, run, size)
}

// stop keeps what is done for the next run.
func (t *texting) stop(file *results, err error) error {
	if file == nil {
		return err
	}
	return errors.Join(err, file.pause())
}

// results runs the task on the items that are texts.
func (t *texting) results(c *cobra.Command, items []item, k task) ([]any, error) {
	good := make([]item, 0, len(items))
	for _, it := range items {
		if it.err == nil {
			good = append(good, it)
		}
	}
	some, err := k.run(c.Context(), good, t.truncated(c, good))
	if err != nil {
		return nil, err
	}
	values := make([]any, len(items))
	for i, it := range items {
		if it.err == nil {
			values[i], some = some[0], some[1:]
		}
	}
	return values, nil
}

// orError is a result, or the error of a line that has none.
func orError(it item, result any) any {
	if it.err != nil {
		return map[string]string{"where": it.where, "error": it.err.Error()}
	}
	return result
}

func (t *texting) save(file *results, items []item, values []any, k task) error {
	for i, v := range values {
		var err error
		if file.size == 0 {
			err = file.line(orError(items[i], v))
		} else if items[i].err != nil { // a row of zeros, so that rows are lines
			file.vector(make([]float32, file.size))
		} else {
			file.vector(k.vectors(v))
		}
		if err != nil {
			return err
		}
	}
	return file.commit() // so that an interruption costs no more than what is in memory
}

// print prints a table of what could be read.
func (t *texting) print(c *cobra.Command, items []item, values []any, k task) error {
	var texts []item
	var good []any
	for i, it := range items {
		if it.err == nil {
			texts, good = append(texts, it), append(good, values[i])
		}
	}
	out := &printer{to: c.OutOrStdout()}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	return errors.Join(k.table(w, texts, good), w.Flush(), out.err)
}

// modelAndTexts checks that a command line names a model.
func modelAndTexts(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return errors.New("it takes a model, and texts or --input")
	}
	return nil
}

// plain are the texts of items.
func plain(items []item) []string {
	texts := make([]string, len(items))
	for i, it := range items {
		texts[i] = it.text
	}
	return texts
}

// pairsOf are the texts of items, with their second ones.
func pairsOf(items []item) []pipeline.Pair {
	pairs := make([]pipeline.Pair, len(items))
	for i, it := range items {
		pairs[i] = pipeline.Pair{First: it.text, Second: it.second}
	}
	return pairs
}

// shorten keeps a table's row on one line.
func shorten(text string) string {
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) > 60 {
		return string(runes[:59]) + "…"
	}
	return string(runes)
}
