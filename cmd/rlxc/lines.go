package main

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/internal/jsontext"
)

// maxLine bounds a line of input, and a text.
const maxLine = 16 << 20

// lines are the records of a text file: a text on each line.
type lines struct {
	*textFile
	line int
}

func plainRecords(in *textFile) (records, error) { return &lines{textFile: in}, nil }

func (l *lines) fields() (names []string, known bool, err error) { return []string{"text"}, true, nil }

func (l *lines) node(string) parquet.Node { return nil }

func (l *lines) next([]string) (record, error) {
	text, err := readLine(l.lines)
	if err == io.EOF {
		return record{}, io.EOF
	}
	l.line++
	r := record{where: fmt.Sprintf("%s:%d", l.name, l.line), values: []any{text}}
	if errors.Is(err, errLongLine) {
		r.err, err = err, nil
	} else if err != nil {
		err = fmt.Errorf("%s: %w", r.where, err)
	}
	return r, err
}

var errLongLine = fmt.Errorf("it is longer than %d MiB", maxLine>>20)

// readLine reads a line without its end; a line that is too long is skipped and an error.
func readLine(r *bufio.Reader) (string, error) {
	var text []byte
	long := false
	for {
		part, err := r.ReadSlice('\n')
		if !long {
			text = append(text, part...)
		}
		long = long || len(text) > maxLine
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err != nil && err != io.EOF:
			return "", err
		case err == io.EOF && len(text) == 0:
			return "", io.EOF
		case long:
			return "", errLongLine
		}
		return strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), nil
	}
}

// absent is the value of a field that an object does not have.
type absent struct{}

// objects are the records of a file of JSON lines.
type objects struct {
	lines
	first *record // a line that fields has read
}

func jsonRecords(in *textFile) (records, error) { return &objects{lines: lines{textFile: in}}, nil }

// fields are those of the first object, in its order.
func (o *objects) fields() (names []string, known bool, err error) {
	r, err := o.lines.next(nil)
	if err == io.EOF {
		return nil, false, nil
	} else if err != nil || r.err != nil {
		return nil, false, errors.Join(err, r.err)
	}
	o.first = &r
	names, _, err = objectFields(r.values[0].(string))
	if err != nil {
		return nil, false, nil // next returns it
	}
	return names, false, nil
}

// objectFields reads a line: the names of the fields, in order, and their values. It fails for a string that Go would change
// (jsontext.Check), and for a name that is there twice.
func objectFields(line string) (names []string, values map[string]json.RawMessage, err error) {
	if err := jsontext.Check([]byte(line)); err != nil {
		return nil, nil, err
	}
	values = map[string]json.RawMessage{}
	d := json.NewDecoder(strings.NewReader(line))
	if begin, err := d.Token(); err != nil {
		return nil, nil, err
	} else if begin != json.Delim('{') {
		return nil, nil, fmt.Errorf("it begins with %v", begin)
	}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, nil, err
		}
		name := token.(string) // as in any object
		if _, twice := values[name]; twice {
			return nil, nil, fmt.Errorf("field %q is given twice", name)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, nil, err
		}
		names, values[name] = append(names, name), value
	}
	if _, err := d.Token(); err != nil {
		return nil, nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, nil, errors.New("there is more after it")
	}
	return names, values, nil
}

func (o *objects) next(names []string) (r record, err error) {
	if o.first != nil {
		r, o.first = *o.first, nil
	} else if r, err = o.lines.next(nil); err != nil || r.err != nil {
		return r, err
	}
	_, object, err := objectFields(r.values[0].(string))
	if err == io.EOF {
		err = errors.New("unexpected end of it")
	}
	if err != nil {
		r.err = fmt.Errorf("not a JSON object: %w", err)
		return r, nil
	}
	r.values = make([]any, len(names))
	for i, name := range names {
		raw, ok := object[name]
		switch {
		case !ok:
			r.values[i] = absent{}
		case raw[0] == '"':
			var text string
			r.err = json.Unmarshal(raw, &text)
			r.values[i] = text
		case !bytes.Equal(raw, []byte("null")):
			r.values[i] = raw
		}
	}
	return r, nil
}

// A recordReader ends a record that is too long: a quotation mark without another takes in the whole file.
type recordReader struct {
	in           io.Reader
	left, commas int
}

// maxCommas bounds the columns of a record: each takes many times its byte.
const maxCommas = 1 << 20

// Read implements io.Reader.
func (r *recordReader) Read(b []byte) (int, error) {
	n, err := r.in.Read(b)
	if r.left -= n; r.left < 0 {
		return 0, fmt.Errorf("a line, or a quoted field in it, is longer than %d MiB", maxLine>>20)
	}
	if r.commas -= bytes.Count(b[:n], []byte(",")); r.commas < 0 {
		return 0, fmt.Errorf("a line has more than %d commas", maxCommas)
	}
	return n, err
}

// commas are the records of a file of comma-separated values, whose first line names the columns.
type commas struct {
	*textFile
	bounded *recordReader
	values  *csv.Reader
	header  []string
}

func csvRecords(in *textFile) (_ records, err error) {
	c := &commas{textFile: in, bounded: &recordReader{in: in.lines, left: maxLine, commas: maxCommas}}
	c.values = csv.NewReader(c.bounded)
	c.values.FieldsPerRecord = -1
	if c.header, err = c.values.Read(); err != nil && err != io.EOF {
		return nil, fmt.Errorf("%s: cannot read the first line, which names the columns: %w", in.name, err)
	}
	return c, nil
}

func (c *commas) fields() (names []string, known bool, err error) {
	return c.header, c.header != nil, nil
}

func (c *commas) node(string) parquet.Node { return nil }

func (c *commas) next(names []string) (record, error) {
	c.bounded.left, c.bounded.commas = maxLine, maxCommas
	values, err := c.values.Read()
	if err == io.EOF {
		return record{}, io.EOF
	}
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return record{where: fmt.Sprintf("%s:%d", c.name, parse.Line), err: parse.Err}, nil
	} else if err != nil {
		return record{}, fmt.Errorf("%s: %w", c.name, err)
	}
	line, _ := c.values.FieldPos(0)
	r := record{where: fmt.Sprintf("%s:%d", c.name, line), values: make([]any, len(names))}
	for i, name := range names {
		k := slices.Index(c.header, name)
		if k >= len(values) {
			r.err = fmt.Errorf("the line has %d columns, but the header has %d", len(values), len(c.header))
			break
		}
		r.values[i] = values[k]
	}
	return r, nil
}

// openRegular opens a file, and fails if it is not a regular one: a pipe would wait for a writer, and a device may never end. It asks stat
// for the kind of the file before it opens it.
func openRegular(file string, flag int, stat func(string) (os.FileInfo, error)) (*os.File, error) {
	before, err := stat(file)
	switch {
	case errors.Is(err, os.ErrNotExist) && flag&os.O_CREATE != 0:
		return os.OpenFile(file, flag|os.O_EXCL, 0o666)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", file, errors.Unwrap(err)) // without the name of the system call
	case !before.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file (- is the standard input)", file)
	}
	f, err := os.OpenFile(file, flag|files.NoWait, 0o666)
	if err != nil {
		return nil, err
	}
	if now, err := f.Stat(); err != nil || !os.SameFile(before, now) {
		return nil, errors.Join(err, f.Close(), fmt.Errorf("%s was replaced while it was opened: try again", file))
	}
	return f, nil
}
