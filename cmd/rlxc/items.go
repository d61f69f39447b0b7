package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"github.com/rlxc/rlxc/pipeline"
)

// An item is a text of the input, and a second one where the command takes pairs.
type item struct {
	where  string // for messages: of a record, or which argument; of an image, its path
	image  bool   // it is an image, and has no text
	text   string
	second *string
	copied []any // values of the columns of --copy-field, after the flags' convert; null is nil
	err    error // why the record has no text; otherwise nil
	cut    int   // tokens of a text of which the model reads fewer; 0 for a text that it reads whole
	chunk  *chunkPlace
}

// A chunkPlace is the place of an item's text in the text of the input: its number, from 0, and its offsets. Items of whole texts have
// none.
type chunkPlace struct {
	number int
	pipeline.Chunk
}

// chunked reads the chunks of the texts that in reads, each as an item with the copied fields of its text. o has the prompt.
func (t *textCommand) chunked(ctx context.Context, in *textReader, m *pipeline.Model, o pipeline.EmbedOptions) *textReader {
	out := *in
	var document item
	var chunks []pipeline.Chunk // parts of document
	number := 0                 // index of the first chunk that next has not returned
	out.next = func() (item, error) {
		if number == len(chunks) {
			var err error
			if document, err = in.next(); err != nil || document.err != nil {
				return document, err
			}
			if chunks, err = m.Chunks(ctx, document.text, t.chunk, t.overlap, o); err != nil {
				return document, fmt.Errorf("%s: %w", document.where, err)
			}
			number = 0
		}
		it := document
		it.text, it.chunk = chunks[number].Text, &chunkPlace{number, chunks[number]}
		it.where = fmt.Sprintf("%s, chunk %d", document.where, number)
		number++
		return it, nil
	}
	if in.waits != nil {
		out.waits = func() bool { return number == len(chunks) && in.waits() }
	}
	return &out
}

// failure is the error of an item, with where it is. Errors of images name their file.
func (it item) failure() error {
	if it.image {
		return it.err
	}
	return fmt.Errorf("%s: %w", it.where, it.err)
}

// bytes estimates the memory of an item.
func (it item) bytes() int {
	n := len(it.text)
	if it.second != nil {
		n += len(*it.second)
	}
	for _, v := range it.copied {
		switch v := v.(type) {
		case string:
			n += len(v)
		case json.RawMessage:
			n += len(v)
		case parquet.Value:
			if v.Kind() == parquet.ByteArray {
				n += len(v.ByteArray())
			}
		case nested:
			n += v.bytes()
		}
	}
	return n
}

// A column is a field that results have too.
type column struct {
	name string
	node parquet.Node // its type in Parquet; nil until a value shows it
}

// A textReader reads texts one after the other.
type textReader struct {
	next     func() (item, error) // io.EOF at the end
	waits    func() bool          // whether next would wait for a line that is not written yet; nil if it never does
	close    func() error
	copied   []*column
	position func() int64
	size     int64 // largest value of position; 0 if unknown
	images   bool  // whether some of the items are images
	// note looks up metadata of the file; nil for formats without metadata.
	note func(key string) (value string, ok bool)
}

// each calls do for each item.
func (r *textReader) each(do func(item) error) error {
	for {
		it, err := r.next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = do(it)
		}
		if err != nil {
			return err
		}
	}
}

// textArguments are the texts of a command line.
func textArguments(texts []string) *textReader {
	i := 0
	return &textReader{next: func() (item, error) {
		if i == len(texts) {
			return item{}, io.EOF
		}
		i++
		return item{where: fmt.Sprintf("text %d", i), text: texts[i-1]}, nil
	}, close: func() error { return nil }, position: func() int64 { return int64(i) }, size: int64(len(texts))}
}

// allFields asks for copies of all fields but those of the texts and cutColumns, which another command has added for another model.
const allFields = "*"

// readTexts makes items of records. It reads the first, which may choose types of columns. A file without records has no items.
func readTexts(t textFlags, file string, r records) (*textReader, error) {
	asked, copied, err := t.choose(file, r)
	if err != nil {
		return nil, err
	}
	out := &textReader{position: r.position, size: r.size(), close: func() error { return nil }}
	for _, name := range copied {
		out.copied = append(out.copied, &column{name, r.node(name)})
	}
	convert := t.convert
	if convert == nil {
		convert = jsonValue
	}
	names := slices.Concat(asked, copied)
	read := func() (item, error) {
		record, err := r.next(names)
		it := item{where: record.where, err: record.err}
		if err != nil || it.err != nil {
			return it, err
		}
		it.copied = make([]any, len(copied))
		for i, c := range out.copied {
			v, err := convert(c, record.values[len(asked)+i])
			it.copied[i], it.err = v, errors.Join(it.err, err)
		}
		if it.err == nil {
			it.text, it.err = textOf(asked[0], record.values[0])
		}
		if it.err == nil && len(asked) > 1 {
			var second string
			second, it.err = textOf(asked[1], record.values[1])
			it.second = &second
		}
		return it, nil
	}
	first, err := read()
	if err != nil && err != io.EOF {
		return nil, err
	}
	begun := err == io.EOF
	out.next = func() (item, error) {
		if !begun {
			begun = true
			return first, nil
		}
		return read()
	}
	return out, nil
}

// someTexts reads the texts of a file into memory, but for those that are blank.
func someTexts(t textFlags) (texts []string, err error) {
	in, err := openTexts(t, os.Stdin)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.close()) }()
	err = in.each(func(it item) error {
		if it.err != nil {
			return it.failure()
		}
		if text := strings.TrimSpace(it.text); text != "" {
			texts = append(texts, text)
		}
		return nil
	})
	if err == nil && len(texts) == 0 {
		err = fmt.Errorf("%s has no text: it is empty, or has only blank lines or fields", t.input)
	}
	return texts, err
}

// choose finds the fields of the texts, and those to copy.
func (t textFlags) choose(file string, r records) (asked, copied []string, err error) {
	names, known, err := r.fields()
	if err != nil {
		return nil, nil, err
	}
	switch {
	case t.field != "":
		asked = []string{t.field}
	case known && len(names) == 1:
		asked = names
	default:
		asked = []string{"text"}
	}
	if t.second != "" {
		asked = []string{asked[0], t.second}
	}
	for _, name := range t.copied {
		of := []string{name}
		if name == allFields {
			of = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
				return slices.Contains(asked, name) || slices.Contains(cutColumns, name)
			})
		}
		for _, name := range of {
			if !slices.Contains(copied, name) {
				copied = append(copied, name)
			}
		}
	}
	for i, name := range slices.Concat(asked, copied) {
		switch {
		case slices.Contains(names, name):
		case known:
			return nil, nil, fmt.Errorf("%s has no column %q: it has %s", file, name, strings.Join(names, ", "))
		case i >= len(asked) && names != nil:
			return nil, nil, fmt.Errorf("%s: the first object has no field %q to copy: it has %s", file, name, strings.Join(names, ", "))
		}
		node := r.node(name)
		switch {
		case node == nil || i >= len(asked):
		case !single(node):
			return nil, nil, fmt.Errorf("%s: column %q is nested: name a column of single values", file, name)
		case !textual(node):
			return nil, nil, fmt.Errorf("%s: column %q is %v, not a text", file, name, node.Type())
		}
	}
	return asked, copied, nil
}

// textOf is a value that is a text.
func textOf(field string, v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", fmt.Errorf("column %q is null", field)
	case absent:
		return "", fmt.Errorf("the object has no field %q", field)
	case string:
		switch {
		case len(v) > maxLine:
			return "", errLongLine
		case !utf8.ValidString(v):
			return "", fmt.Errorf("column %q is not valid UTF-8", field)
		}
		return v, nil
	case json.RawMessage:
		if v[0] == '{' || v[0] == '[' {
			return "", fmt.Errorf("column %q is nested, not a text", field)
		}
		return "", fmt.Errorf("column %q is %s, not a text", field, v)
	}
	panic(fmt.Sprintf("a text of %T", v))
}

// jsonValue makes JSON of a value.
func jsonValue(c *column, v any) (any, error) {
	switch v := v.(type) {
	case nil, absent:
		return json.RawMessage("null"), nil
	case string:
		if !utf8.ValidString(v) {
			return nil, fmt.Errorf("column %q is not valid UTF-8", c.name)
		}
	case parquet.Value:
		plain, err := plainValue(c.node, v)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", c.name, err)
		}
		return plain, nil
	case nested:
		plain, err := v.jsonOf(c.node, 0, 0)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", c.name, err)
		}
		return plain, nil
	}
	return v, nil
}

// parquetValue makes a value of the column's type; with an error it is null. The first value that is not null chooses the type where the
// file does not.
func parquetValue(c *column, v any) (any, error) {
	switch v := v.(type) {
	case nil, absent:
		return parquet.NullValue(), nil
	case parquet.Value, nested:
		return v, nil
	case string:
		if c.node == nil {
			c.node = parquet.String()
		}
		if textual(c.node) {
			return parquet.ByteArrayValue([]byte(v)), nil
		}
	case json.RawMessage:
		for _, as := range jsonTypes {
			if made, err := as.parse(string(v)); err == nil && (c.node == nil || c.node.Type().Kind() == as.node.Type().Kind()) {
				c.node = as.node
				return made, nil
			}
		}
		if c.node == nil {
			return parquet.NullValue(), fmt.Errorf("column %q is %.100s, which is not a single value of Parquet", c.name, v)
		}
	}
	return parquet.NullValue(), fmt.Errorf("column %q is %.100s here, but %v in earlier records", c.name, v, c.node.Type())
}

// jsonTypes are the types that columns of values of JSON have, by preference.
var jsonTypes = []struct {
	node  parquet.Node
	parse func(string) (parquet.Value, error)
}{
	{parquet.Int(64), func(s string) (parquet.Value, error) {
		v, err := strconv.ParseInt(s, 10, 64)
		return parquet.Int64Value(v), err
	}},
	{parquet.Leaf(parquet.DoubleType), func(s string) (parquet.Value, error) {
		v, err := strconv.ParseFloat(s, 64)
		return parquet.DoubleValue(v), err
	}},
	{parquet.Leaf(parquet.BooleanType), func(s string) (parquet.Value, error) {
		var v bool
		err := json.Unmarshal([]byte(s), &v)
		return parquet.BooleanValue(v), err
	}},
}
