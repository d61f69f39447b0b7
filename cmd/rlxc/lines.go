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
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// An item is a text of the input, and a second one where the command takes pairs.
type item struct {
	where  string // for messages: FILE:LINE, or which argument
	text   string
	second *string
	err    error // of a line that is none
}

// A lineReader reads texts one after the other.
type lineReader struct {
	next  func() (item, error) // io.EOF at the end
	close func() error
}

// maxLine bounds a line of input.
const maxLine = 16 << 20

// textArguments are the texts of a command line.
func textArguments(texts []string) *lineReader {
	i := 0
	return &lineReader{func() (item, error) {
		if i == len(texts) {
			return item{}, io.EOF
		}
		i++
		return item{where: fmt.Sprintf("text %d", i), text: texts[i-1]}, nil
	}, func() error { return nil }}
}

// openLines reads a file by its ending: JSON objects a line (.jsonl, .ndjson), comma-separated values with a header (.csv), or a text a
// line; "-" is the standard input, JSON objects if a field is named.
func openLines(file, field, second string, stdin io.Reader) (*lineReader, error) {
	in, name, done := stdin, "-", func() error { return nil }
	if file != "-" {
		f, err := openRegular(file, os.O_RDONLY, os.Stat)
		if err != nil {
			return nil, err
		}
		in, name, done = f, file, f.Close
	}
	ext := strings.ToLower(filepath.Ext(file))
	line := 0
	where := func() string { return fmt.Sprintf("%s:%d", name, line) }
	if ext == ".csv" {
		return csvLines(in, name, field, second, done)
	}
	asJSON := ext == ".jsonl" || ext == ".ndjson" || file == "-" && field != ""
	if !asJSON && (field != "" || second != "") {
		done()
		return nil, usagef("--field goes with an --input of .jsonl or .csv, and with the standard input")
	}
	r := bufio.NewReaderSize(in, 1<<20)
	return &lineReader{func() (item, error) {
		text, err := readLine(r)
		if err == io.EOF {
			return item{}, io.EOF
		}
		line++
		it := item{where: where(), text: text, err: err}
		switch {
		case err != nil && !errors.Is(err, errLongLine):
			return it, err
		case err == nil && asJSON:
			it.err = it.parse(text, field, second)
		case err == nil && !utf8.ValidString(text):
			it.err = errors.New("it is no UTF-8")
		}
		return it, nil
	}, done}, nil
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

// parse takes texts out of a JSON object.
func (it *item) parse(text, field, second string) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		return fmt.Errorf("it is no JSON object: %w", err)
	}
	get := func(name string) (string, error) {
		var value string
		raw, ok := object[name]
		if !ok {
			return "", fmt.Errorf("the object has no field %q", name)
		}
		if err := json.Unmarshal(raw, &value); err != nil {
			return "", fmt.Errorf("field %q is no text", name)
		}
		return value, nil
	}
	if field == "" {
		field = "text"
	}
	var err error
	if it.text, err = get(field); err == nil && second != "" {
		var value string
		value, err = get(second)
		it.second = &value
	}
	return err
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
		return 0, fmt.Errorf("a line, or what is quoted in it, is longer than %d MiB", maxLine>>20)
	}
	if r.commas -= bytes.Count(b[:n], []byte(",")); r.commas < 0 {
		return 0, fmt.Errorf("a line has more than %d commas", maxCommas)
	}
	return n, err
}

// openRegular opens a regular file: a pipe would wait for a writer, and a device may never end. stat tells what it is before.
func openRegular(file string, flag int, stat func(string) (os.FileInfo, error)) (*os.File, error) {
	before, err := stat(file)
	switch {
	case errors.Is(err, os.ErrNotExist) && flag&os.O_CREATE != 0:
		return os.OpenFile(file, flag|os.O_EXCL, 0o666)
	case err != nil:
		return nil, err
	case !before.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file (- is the standard input)", file)
	}
	f, err := os.OpenFile(file, flag, 0o666)
	if err != nil {
		return nil, err
	}
	if now, err := f.Stat(); err != nil || !os.SameFile(before, now) {
		return nil, errors.Join(err, f.Close(), fmt.Errorf("%s became another file while it was opened", file))
	}
	return f, nil
}

// csvLines reads comma-separated values, whose first line names the columns.
func csvLines(in io.Reader, name, field, second string, done func() error) (*lineReader, error) {
	bounded := &recordReader{in: in}
	r := csv.NewReader(bounded)
	r.FieldsPerRecord = -1
	read := func() ([]string, error) {
		bounded.left, bounded.commas = maxLine, maxCommas
		return r.Read()
	}
	header, err := read()
	if err != nil {
		done()
		return nil, fmt.Errorf("%s: its first line names the columns: %w", name, err)
	}
	column := func(field string) (int, error) {
		if field == "" && len(header) == 1 {
			return 0, nil
		}
		if field == "" {
			field = "text"
		}
		if i := slices.Index(header, field); i >= 0 {
			return i, nil
		}
		return 0, fmt.Errorf("%s has no column %q: choose one of %s with --field", name, field, strings.Join(header, ", "))
	}
	first, err := column(field)
	other := -1
	if err == nil && second != "" {
		other, err = column(second)
	}
	if err != nil {
		done()
		return nil, err
	}
	return &lineReader{func() (item, error) {
		record, err := read()
		if err == io.EOF {
			return item{}, io.EOF
		}
		it := item{where: name}
		var parse *csv.ParseError
		if errors.As(err, &parse) {
			return item{where: fmt.Sprintf("%s:%d", name, parse.Line), err: parse.Err}, nil
		} else if err != nil {
			return it, fmt.Errorf("%s: %w", name, err)
		}
		line, _ := r.FieldPos(0)
		it.where = fmt.Sprintf("%s:%d", name, line)
		switch {
		case max(first, other) >= len(record):
			it.err = fmt.Errorf("the line has %d columns, and the header %d", len(record), len(header))
		default:
			it.text = record[first]
			if other >= 0 {
				it.second = &record[other]
			}
		}
		return it, nil
	}, done}, nil
}
