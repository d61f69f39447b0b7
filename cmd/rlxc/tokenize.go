package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc/pipeline"
	"github.com/rlxc/rlxc/tokenizer"
)

// A tokenization is one call of tokenize, with its flags.
type tokenization struct {
	textFlags
	pair      string
	maxLength int
	stride    int
	count     bool
}

func tokenizeCommand() *cobra.Command {
	var o tokenization
	c := &cobra.Command{
		Use:   "tokenize T [TEXT...]",
		Short: "show the tokens of texts",
		Long: `tokenize prints the tokens of texts, their ids, and which bytes of the text each comes from. Without a
text it reads --input, or the lines of the standard input.

T is a tokenizer.json, a vocab.txt, a vocab.json with its merges.txt, a SentencePiece .model, or a folder
with one of them.

With --json it prints an object for each sequence, on its own line.`,
		Example: `  rlxc tokenize minilm "A cat sits on the mat."
  rlxc tokenize minilm --pair "On the mat." "Where is the cat?"
  rlxc tokenize minilm --count --input texts.parquet --field body
  rlxc tokenize minilm --max-length 384 --stride 128 --json < texts.txt`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("no tokenizer: want a file, or a folder with one")
			}
			return nil
		},
	}
	f := c.Flags()
	o.register(f)
	f.StringVar(&o.pair, "pair", "", "second text of every pair")
	f.IntVar(&o.maxLength, "max-length", 0, "maximum tokens per sequence; longer ones are truncated (default unlimited)")
	f.IntVar(&o.stride, "stride", 0, "with --max-length, split long texts into windows that share this many tokens")
	f.BoolVar(&o.count, "count", false, "print only the number of tokens of each text")
	c.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case c.Flags().Changed("stride") && o.maxLength == 0:
			return usagef("--stride requires --max-length, the size of the windows")
		case o.count && o.maxLength != 0:
			return usagef("--count and --max-length exclude each other: --count counts the tokens of whole texts")
		case o.maxLength < 0 || o.stride < 0:
			return usagef("--max-length and --stride must not be negative")
		}
		tok, err := tokenizerOf(args[0])
		if err != nil {
			return err
		}
		for _, note := range tok.Notes() {
			fmt.Fprintf(c.ErrOrStderr(), "note: %s\n", note)
		}
		return o.run(c, tok, args[1:])
	}
	return c
}

// tokenizerOf opens a tokenizer, or the tokenizer within a compiled file.
func tokenizerOf(path string) (*tokenizer.Tokenizer, error) {
	if !fileSource(path).compiled() {
		return tokenizer.Open(path)
	}
	d, err := pipeline.Describe(path, pipeline.Options{})
	if err != nil {
		return nil, err
	}
	return d.OpenTokenizer()
}

// run prints the rows of texts, or of those of a file.
func (o *tokenization) run(c *cobra.Command, tok *tokenizer.Tokenizer, texts []string) error {
	out := &printer{to: c.OutOrStdout()}
	if asJSON, _ := c.Flags().GetBool("json"); asJSON {
		out = machine(c)
	}
	buffered := bufio.NewWriter(out)
	if len(texts) == 0 && o.input == "" {
		texts = []string{"-"}
	}
	in, err := o.texts(c, texts)
	if err != nil {
		return err
	}
	err = in.each(func(it item) error {
		if it.err != nil {
			return it.failure()
		}
		err := o.print(c, buffered, tok, it.text)
		if in.waits != nil && in.waits() {
			err = errors.Join(err, buffered.Flush())
		}
		return err
	})
	return errors.Join(err, in.close(), buffered.Flush())
}

// A tokenRow is what --json prints of a row.
type tokenRow struct {
	Text      string   `json:"text"`
	Pair      string   `json:"pair,omitempty"`
	Count     int      `json:"count"`
	Truncated bool     `json:"truncated,omitempty"`
	Tokens    []string `json:"tokens"`
	IDs       []int64  `json:"ids"`
	TypeIDs   []int64  `json:"type_ids"`
	Offsets   [][2]int `json:"offsets"`      // beginning and end of each token in the text, in bytes
	Chars     [][2]int `json:"char_offsets"` // the same, in characters
	Words     []int    `json:"words"`        // -1 for a special token
	Sequences []int    `json:"sequences"`    // -1 for a special token
}

// print prints the rows of the table of one text.
func (o *tokenization) print(c *cobra.Command, out io.Writer, tok *tokenizer.Tokenizer, text string) error {
	asJSON, _ := c.Flags().GetBool("json")
	input := tokenizer.Text(text)
	if c.Flags().Changed("pair") {
		input = tokenizer.Pair(text, o.pair)
	}
	row := tokenRow{Text: text, Pair: o.pair}
	if o.count {
		var err error
		if row.Count, err = tok.Count(input, asking()); err != nil {
			return err
		}
		if asJSON {
			return writeLine(out, struct {
				Text  string `json:"text"`
				Pair  string `json:"pair,omitempty"`
				Count int    `json:"count"`
			}{row.Text, row.Pair, row.Count})
		}
		_, err = fmt.Fprintln(out, row.Count)
		return err
	}
	options := []tokenizer.EncodeOption{tokenizer.Spans(), asking()}
	if c.Flags().Changed("stride") {
		options = append(options, tokenizer.Windows(o.stride))
	}
	rows, err := tok.Encodings([]tokenizer.Input{input}, o.maxLength, options...)
	if err != nil {
		return err
	}
	for _, e := range rows {
		row.fill(tok, e)
		if !asJSON {
			err = row.table(out)
		} else {
			err = writeLine(out, row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fill takes over an encoding.
func (r *tokenRow) fill(tok *tokenizer.Tokenizer, e tokenizer.Encoding) {
	*r = tokenRow{Text: r.Text, Pair: r.Pair, Count: len(e.InputIDs), Truncated: e.Truncated, IDs: e.InputIDs, TypeIDs: e.TokenTypeIDs,
		Words: e.Words, Sequences: e.Sequences, Tokens: []string{}, Offsets: [][2]int{}, Chars: [][2]int{}}
	for i, id := range e.InputIDs {
		token, _ := tok.Token(id)
		r.Tokens = append(r.Tokens, token)
		r.Offsets = append(r.Offsets, [2]int{e.Offsets[i].Start, e.Offsets[i].End})
		r.Chars = append(r.Chars, [2]int{e.CharOffsets[i].Start, e.CharOffsets[i].End})
	}
}

func writeLine(out io.Writer, row any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	return e.Encode(row)
}

// tableRows is how many rows of a table are aligned together, and mostTokenBytes the most bytes that those of one text may take.
const (
	tableRows      = 1024
	mostTokenBytes = 96 << 20
)

// asking ends work on a text that makes too much of it.
func asking() tokenizer.EncodeOption {
	held := int64(0)
	return tokenizer.Ask(func(n int64) error {
		if held += n; held > mostTokenBytes {
			return fmt.Errorf("the tokens of the text take more than %d MiB: split it into several texts", mostTokenBytes>>20)
		}
		return nil
	})
}

// table prints a line for each token, with its part of the text.
func (r *tokenRow) table(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TOKEN\tID\tTYPE\tWORD\tBYTES\tTEXT")
	for i, token := range r.Tokens {
		if i > 0 && i%tableRows == 0 { // what is aligned together is held together
			if err := w.Flush(); err != nil {
				return err
			}
		}
		word, bytes, text := "", "", ""
		if r.Words[i] >= 0 {
			source := r.Text
			if r.Sequences[i] == 1 {
				source = r.Pair
			}
			word, bytes = fmt.Sprint(r.Words[i]), fmt.Sprintf("%d-%d", r.Offsets[i][0], r.Offsets[i][1])
			if r.Offsets[i][1] <= len(source) { // see tokenizer.Encoding
				text = shown(source[r.Offsets[i][0]:r.Offsets[i][1]])
			}
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\n", shown(token), r.IDs[i], r.TypeIDs[i], word, bytes, text)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	suffix := ""
	if r.Truncated {
		suffix = ", truncated"
	}
	_, err := fmt.Fprintf(out, "%d tokens%s\n\n", r.Count, suffix)
	return err
}
