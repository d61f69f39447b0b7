package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rlxc/rlxc/pipeline"
)

// textCommand is the command line that the commands on texts have in common: a model, texts from somewhere, results to somewhere.
type textCommand struct {
	textFlags
	open    pipeline.Options
	output  string
	onError string

	chunk   int // maximum tokens of a chunk; 0 for whole texts
	overlap int // maximum tokens that two chunks share

	images []string // files and folders of images; - for the standard input

	skip string // file whose vectors are not computed again; empty for none

	format *outputFormat // format of output
	packed *compression  // around it; nil for none
	cut    int           // texts that were too long
}

// register adds the flags; pairs names what a second field is, empty if the command takes none.
func (t *textCommand) register(c *cobra.Command, pairs string) {
	t.onError = "stop"
	t.registerModel(c)
	f := c.Flags()
	f.IntVar(&t.open.MaxLength, "max-length", 0, "maximum tokens per sequence (default from the model's files)")
	t.textFlags.register(f)
	f.StringSliceVar(&t.copied, "copy-field", nil, "field or column to copy to the results, such as an id (repeatable; * for all)")
	if pairs != "" {
		f.StringVar(&t.second, "second-field", "", "field or column of "+pairs)
	}
	t.registerResults(c)
}

// registerResults adds the flags of commands that make a result of each record.
func (t *textCommand) registerResults(c *cobra.Command) {
	f := c.Flags()
	f.IntVar(&t.open.Sessions, "sessions", 0, "number of concurrent batches (default one per processor, four per GPU)")
	f.StringVarP(&t.output, "output", "o", "",
		"file for the results: .jsonl, also .gz or .zst, or .parquet; the same command continues an interrupted run")
	enum(c, &t.onError, "on-error", "what to do when a record cannot be read", "stop", "skip")
}

// registerModel adds the flags that choose the files of the model, and those of its compilation.
func (t *textCommand) registerModel(c *cobra.Command) {
	f := c.Flags()
	t.registerVariant(f)
	f.StringVar(&t.open.Tokenizer, "tokenizer", "", "tokenizer.json, vocab.txt, or a folder with one (default the model's own)")
	registerCompile(c, &t.open.Compile)
}

// registerVariant adds the flags that choose a file and a revision of a model.
func (t *textCommand) registerVariant(f *pflag.FlagSet) {
	f.StringVar(&t.open.Variant, "variant", "", "ONNX file to take, such as quantized for model_quantized.onnx")
	f.StringVar(&t.open.Revision, "revision", "", "branch, tag or commit of a model of the hub (default main)")
}

// model opens the model of a command line.
func (t *textCommand) model(c *cobra.Command, what string) (*pipeline.Model, error) {
	boundHeap(0)
	m, err := openText(c.Context(), what, t.open)
	if err == nil {
		warnRepacked(what, m.Program())
	}
	return m, err
}

// texts opens the texts of a command line.
func (t *textFlags) texts(c *cobra.Command, args []string) (*textReader, error) {
	if len(args) == 1 && args[0] == "-" && t.input == "" {
		args, t.input = nil, "-"
	}
	switch {
	case t.input != "" && len(args) > 0:
		return nil, usagef("texts as arguments and --input exclude each other")
	case t.input != "":
		return openTexts(*t, c.InOrStdin())
	case len(args) == 0:
		return nil, usagef("no texts: add texts as arguments, --input FILE, or - for the standard input")
	case t.field != "" || t.second != "" || len(t.copied) > 0:
		return nil, usagef("--field, --second-field and --copy-field require --input")
	}
	for _, text := range args {
		if info, err := os.Stat(text); err == nil && info.Mode().IsRegular() {
			fmt.Fprintf(c.ErrOrStderr(), "%s is taken as a text: --input reads the texts of a file\n", text)
		}
	}
	return textArguments(args), nil
}

// start opens the texts and the model of a command line, which end closes.
func (t *textCommand) start(c *cobra.Command, args []string) (in *textReader, m *pipeline.Model, end func() error, err error) {
	if err := t.formats(c); err != nil {
		return nil, nil, nil, err
	}
	if in, err = t.texts(c, args[1:]); err != nil {
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
const warnedCuts = 5

// truncated notes which of some items are cut: in the items, for JSON lines, and on standard error for the first.
func (t *textCommand) truncated(c *cobra.Command, items []item) pipeline.Truncated {
	return func(i, tokens, limit int) {
		items[i].cut = max(tokens, limit+1) // a text that cannot be counted has more
		if t.cut++; t.cut <= warnedCuts {
			fmt.Fprintf(c.ErrOrStderr(), "%s: %d tokens, truncated to %d\n", items[i].where, tokens, limit)
		}
	}
}

// A task makes results of items, one each, in order. What it returns becomes JSON. It sets the err of an item that it cannot read.
type task struct {
	run     func(ctx context.Context, items []item, cut pipeline.Truncated) ([]any, error)
	table   func(out io.Writer, items []item, results []any) error
	example any // a result, with what may be left out where this task does not
	// vectors describes the vectors, where results are vectors of one size; nil elsewhere.
	vectors func(ctx context.Context) (vectorFile, error)
	output  pipeline.Precision  // type of the numbers in files of vectors
	check   func(it item) error // says why the task cannot run on an item, which --on-error skip may leave out; nil for never
}

// A round is what is in memory at a time, and what an interruption of -o costs. It ends with the text that reaches one of these bounds.
// They depend on the texts alone, because texts of a round share batches, and a run that continues repeats the rounds of one that nothing
// stopped.
const (
	itemsAtOnce = 4096
	bytesAtOnce = 16 << 20 // bytes of texts and of copied fields: a small compressed file may have many long texts
	// workAtOnce is how many bytes of texts a model reads in a round: 16,000 to 40,000 tokens, which are 2 seconds with MiniLM on two
	// cores, and a minute with a model of 300 million weights.
	workAtOnce = 128 << 10
	// tokenBytes is how many bytes of a text that is longer than the model takes count for each token that is left of it.
	tokenBytes = 8
)

// work is how many bytes of an item a model reads that takes that many tokens; 0 for any.
func (it item) work(maxLength int) int {
	if it.image {
		return imageWork
	}
	n := len(it.text)
	if it.second != nil {
		n += len(*it.second)
	}
	if maxLength > 0 {
		n = min(n, tokenBytes*maxLength)
	}
	return n
}

// do runs a task on all texts and images. m is the model of the texts; nil if there are only images.
func (t *textCommand) do(c *cobra.Command, m *pipeline.Model, in *textReader, k task) (err error) {
	var file *results
	if err := t.clash(k, in.copied); err != nil {
		return err
	}
	if t.output != "" {
		if file, err = t.openOutput(c, k, in.copied); err != nil {
			return err
		}
	}
	asJSON, _ := c.Flags().GetBool("json")
	skip, bad, maxLength := 0, 0, 0
	if m != nil {
		maxLength = m.MaxLength
	}
	fail := func(it item) error {
		if t.onError == "stop" {
			return fmt.Errorf("%w (--on-error skip continues)", it.failure())
		}
		bad++
		fmt.Fprintln(c.ErrOrStderr(), it.failure())
		return nil
	}
	if file != nil {
		defer interruptNote.Store(nil)
		t.keep(file)
		if file.other != "" {
			fmt.Fprintf(c.ErrOrStderr(), "%s.part has results of another command or input: it is kept as %s\n", t.output, file.other)
		}
		if skip = file.done; skip > 0 {
			fmt.Fprintf(c.ErrOrStderr(), "%s.part has %d results: continuing after them\n", t.output, skip)
		}
		if file.lost {
			fmt.Fprintf(c.ErrOrStderr(), "%s.part was changed or is incomplete: results after the first %d are computed again\n",
				t.output, skip)
		}
	}
	rate := newTextRate(c, in, m, file != nil)
	defer rate.bar.Finish()
	atOnce := asJSON && file == nil && in.waits != nil
	for end := false; !end; {
		var items []item
		for held, work := 0, 0; len(items) < itemsAtOnce && held < bytesAtOnce && work < workAtOnce; {
			if atOnce && len(items) > 0 && in.waits() {
				break // who writes the next line may wait for the answer to this one
			}
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
			rate.start()
			if it.err == nil && k.check != nil {
				it.err = k.check(it)
			}
			if it.err != nil {
				if err := fail(it); err != nil {
					return t.stop(file, err)
				}
			}
			items = append(items, it)
			held += it.bytes()
			work += it.work(maxLength)
		}
		if len(items) == 0 {
			break
		}
		values, err := t.results(c, items, k, fail)
		if err != nil {
			return t.stop(file, err)
		}
		rate.add(len(items))
		switch {
		case file != nil:
			err = t.save(file, items, values, end)
		case asJSON:
			var lines bytes.Buffer
			for i := range values {
				err = errors.Join(err, jsonLines{in.copied}.add(&lines, items[i], values[i]))
			}
			_, failed := machine(c).Write(lines.Bytes())
			err = errors.Join(err, failed)
		default:
			err = t.print(c, items, values, k)
		}
		if err != nil {
			return t.stop(file, err)
		}
	}
	if t.cut > warnedCuts {
		fmt.Fprintf(c.ErrOrStderr(), "%d texts were truncated in total\n", t.cut)
	}
	if file != nil {
		if err := file.finish(); err != nil {
			return err
		}
	}
	if bad > 0 {
		what := "text"
		if in.images {
			what = "image"
		}
		fmt.Fprintf(c.ErrOrStderr(), "%s could not be read\n", counted(bad, what))
		return errCheck
	}
	return nil
}

// formats finds the format of -o, and what copied fields become there.
func (t *textCommand) formats(c *cobra.Command) error {
	for _, name := range []string{"top", "dimensions", "max-length", "sessions"} {
		n, _ := c.Flags().GetInt(name) // 0 where a command has no such flag
		if err := least(name, n, 0); err != nil {
			return err
		}
	}
	if t.output == "" {
		if asJSON, _ := c.Flags().GetBool("json"); !asJSON && len(t.copied) > 0 {
			return usagef("--copy-field requires -o or --json")
		}
		return nil
	}
	var name string
	name, t.packed = unpacked(t.output)
	for _, f := range outputFormats {
		if strings.ToLower(filepath.Ext(name)) == f.ending && (f.lines || t.packed == nil) {
			t.format, t.convert = f, f.convert
		}
	}
	if t.format == nil {
		return usagef("--output %s: the file's name must end in .jsonl, .jsonl.gz, .jsonl.zst or .parquet, or for vectors in .npy or "+
			".npz", t.output)
	}
	if t.format.vectors && len(t.copied) > 0 {
		return usagef("--output %s holds only vectors: --copy-field requires .jsonl or .parquet", t.output)
	}
	if t.format.vectors && t.chunk > 0 {
		return usagef("--output %s holds only vectors, without the places of chunks: --chunk requires .jsonl or .parquet", t.output)
	}
	return nil
}

// clash finds copied fields that have the name of one of the result's.
func (t *textCommand) clash(k task, copied []*column) error {
	names := append([]string{errorColumn}, cutColumns...)
	eachField(reflect.ValueOf(k.example), func(_ reflect.StructField, name string, used bool) {
		if used {
			names = append(names, name)
		}
	})
	for _, c := range copied {
		if slices.Contains(names, c.name) {
			return fmt.Errorf("%s: results have a field %q too: leave it out of --copy-field, or rename it", t.input, c.name)
		}
	}
	return nil
}

// openOutput opens the file of -o.
func (t *textCommand) openOutput(c *cobra.Command, k task, copied []*column) (*results, error) {
	var v vectorFile
	if t.format.vectors && k.vectors == nil {
		return nil, usagef("--output %s: the file's name must end in .jsonl or .parquet", t.output)
	} else if k.vectors != nil && !t.format.lines {
		var err error
		if v, err = k.vectors(c.Context()); err != nil {
			return nil, err
		}
	}
	run := strings.Join(os.Args, "\x00")
	for _, path := range append([]string{t.input, t.skip}, t.images...) {
		filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error { // the file, or those of a folder
			if err == nil {
				if info, err := d.Info(); err == nil {
					run += fmt.Sprint("\x00", info.Size(), info.ModTime().UnixNano())
				}
			}
			return nil
		})
	}
	return openResults(t.output, run, t.format.open(t, k, copied, v), t.packed)
}

// stop keeps what is done for the next run.
func (t *textCommand) stop(file *results, err error) error {
	if file == nil {
		return err
	}
	return errors.Join(err, file.pause())
}

// results runs the task on the items that could be read. It calls fail with those that the task could not read.
func (t *textCommand) results(c *cobra.Command, items []item, k task, fail func(item) error) ([]any, error) {
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
			values[i], items[i].cut, items[i].err = some[0], good[0].cut, good[0].err
			some, good = some[1:], good[1:]
			if items[i].err != nil {
				if err := fail(items[i]); err != nil {
					return nil, err
				}
			}
		}
	}
	return values, nil
}

func (t *textCommand) save(file *results, items []item, values []any, end bool) error {
	for i, v := range values {
		if err := file.add(items[i], v); err != nil {
			return err
		}
	}
	if err := file.commit(end); err != nil { // so that an interruption costs no more than what is in memory
		return err
	}
	file.done += len(items)
	t.keep(file)
	return nil
}

// keep has a signal say what is kept of a file of results.
func (t *textCommand) keep(file *results) {
	text := fmt.Sprintf("%s.part has %d results: the same command continues after them", t.output, file.done)
	if file.done == 0 {
		text = "no results were made yet: the same command starts again"
	}
	interruptNote.Store(&text)
}

// print prints a table of what could be read.
func (t *textCommand) print(c *cobra.Command, items []item, values []any, k task) error {
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
		return errors.New("no model: want a model, then texts or --input FILE")
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
