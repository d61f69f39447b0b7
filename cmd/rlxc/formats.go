package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/spf13/pflag"

	"github.com/rlxc/rlxc/internal/files"
)

// A kind is what the end of a file's name promises, and what its first bytes show.
type kind struct {
	name    string
	endings []string
	magic   string // empty for text
}

func (k *kind) names(file string) bool {
	return slices.Contains(k.endings, strings.ToLower(filepath.Ext(file)))
}

// A compression is put around lines.
type compression struct {
	kind
	unpack func(io.Reader) (io.Reader, error)
	pack   func(io.Writer) (io.WriteCloser, error)
}

var compressions = []*compression{
	{kind{"gzip", []string{".gz"}, "\x1f\x8b"},
		func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
		func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil }},
	{kind{"Zstandard", []string{".zst"}, "\x28\xb5\x2f\xfd"},
		func(r io.Reader) (io.Reader, error) {
			return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20)) // what zstd itself takes
		},
		func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1)) }},
}

// unpacked is the name of a file without the ending of its compression, which is nil for none.
func unpacked(file string) (string, *compression) {
	for _, c := range compressions {
		if c.names(file) {
			return strings.TrimSuffix(file, filepath.Ext(file)), c
		}
	}
	return file, nil
}

// A textFormat is how a file holds records.
type textFormat struct {
	kind
	fields bool // records have fields, among which --field chooses
	read   func(in *textFile) (records, error)
}

var textFormats = []*textFormat{
	{kind{"Parquet", []string{".parquet"}, "PAR1"}, true, parquetRecords},
	{kind{"Arrow", []string{".arrow", ".feather", ".ipc"}, "ARROW1"}, true, func(in *textFile) (records, error) {
		return nil, fmt.Errorf("%s: Arrow files are not supported: convert the file to Parquet", in.name)
	}},
	jsonFormat,
	{kind{"CSV", []string{".csv"}, ""}, true, csvRecords},
}

var (
	jsonFormat  = &textFormat{kind{"JSON lines", []string{".jsonl", ".ndjson"}, ""}, true, jsonRecords}
	plainFormat = &textFormat{kind{"text", nil, ""}, false, plainRecords} // format of files with any other ending
)

// records are those of a file, one after the other.
type records interface {
	// fields are the names of the fields, and known that no record has others. JSON has those of the first record.
	fields() (names []string, known bool, err error)
	// next reads the values of some fields: nil, absent, a string, a json.RawMessage, a parquet.Value that is
	// not text, or a nested. io.EOF is the end.
	next(names []string) (record, error)
	// node is the type of a field in Parquet; nil if values decide.
	node(name string) parquet.Node
	// position is how much of the size was read; a size of 0 is not known.
	position() int64
	size() int64
}

// A record is a line or a row of a file.
type record struct {
	where  string // for messages: FILE:LINE, or FILE: row N
	values []any
	err    error // error of a record that cannot be read; otherwise nil
}

// A textFile is a file while it is read.
type textFile struct {
	name  string
	file  *os.File    // nil for the standard input
	info  os.FileInfo // description of file when it was opened; nil for the standard input
	count int64       // bytes of file that were read
	lines *bufio.Reader
	exact bool // what lines holds are bytes of the file
}

// Read counts the bytes. At the end of the file it fails as changed does.
func (in *textFile) Read(b []byte) (int, error) {
	n, err := in.file.Read(b)
	in.count += int64(n)
	if err == io.EOF {
		err = cmp.Or(in.changed(), err)
	}
	return n, err
}

// changed fails if the file was written to or truncated after it was opened: then records may be missing, or parts of two contents. The
// readers of all formats call it at the end of the file.
func (in *textFile) changed() error { return files.Unchanged(in.file, in.name, in.info) }

// size is the size of the file in bytes, and 0 for the standard input.
func (in *textFile) size() int64 {
	if in.info == nil {
		return 0
	}
	return in.info.Size()
}

// position is that of lines.
func (in *textFile) position() int64 {
	if in.exact {
		return in.count - int64(in.lines.Buffered())
	}
	return in.count
}

// textFlags choose the texts of a file.
type textFlags struct {
	input, field, second string
	copied               []string
	convert              func(c *column, value any) (any, error) // makes copies (default jsonValue)
}

func (t *textFlags) register(f *pflag.FlagSet) {
	f.StringVar(&t.input, "input", "", "file of texts: one a line, .jsonl, .csv, each also .gz or .zst, or .parquet; "+
		"a folder with one text in each file; - for the standard input")
	f.StringVar(&t.field, "field", "", "field or column of the text (default text)")
}

// openTexts reads a folder, or a file by the end of its name; "-" is the standard input, JSON objects if a field is named.
func openTexts(t textFlags, stdin io.Reader) (_ *textReader, err error) {
	if info, err := os.Stat(t.input); err == nil && info.IsDir() {
		r, err := folderRecords(t.input)
		if err != nil {
			return nil, err
		}
		return readTexts(t, t.input, r)
	}
	in := &textFile{name: t.input, lines: bufio.NewReaderSize(stdin, 1<<20)}
	format := plainFormat
	done := func() error { return nil }
	if t.input == "-" {
		if t.field != "" || len(t.copied) > 0 {
			format = jsonFormat
		}
		if err := holds(in.lines, t.input, &format.kind); err != nil {
			return nil, err
		}
	} else {
		if in.file, err = openRegular(t.input, os.O_RDONLY, os.Stat); err != nil {
			return nil, err
		}
		done = in.file.Close
		if format, err = in.open(); err != nil {
			return nil, errors.Join(err, done())
		}
	}
	if !format.fields && (t.field != "" || t.second != "" || len(t.copied) > 0) {
		return nil, errors.Join(done(),
			usagef("--field, --second-field and --copy-field require a folder, a .jsonl, .csv or .parquet file, or the standard input"))
	}
	r, err := format.read(in)
	if err != nil {
		return nil, errors.Join(err, done())
	}
	out, err := readTexts(t, in.name, r)
	if err != nil {
		return nil, errors.Join(err, done())
	}
	if p, ok := r.(*parquetFile); ok {
		out.note = p.file.Lookup
	}
	if out.close = done; in.file == nil {
		out.waits = func() bool { return in.lines.Buffered() == 0 }
	}
	return out, nil
}

// open finds the format of a file, and sees that it holds what its name says.
func (in *textFile) open() (*textFormat, error) {
	var err error
	if in.info, err = in.file.Stat(); err != nil {
		return nil, err
	}
	inner, packed := unpacked(in.name)
	format := plainFormat
	for _, f := range textFormats {
		if f.names(inner) {
			format = f
		}
	}
	in.lines, in.exact = bufio.NewReaderSize(in, 1<<16), packed == nil
	if packed != nil {
		if format.magic != "" {
			return nil, fmt.Errorf("%s: a %s file compressed as a whole is not supported: unpack it first", in.name, format.name)
		}
		if err := holds(in.lines, in.name, &packed.kind); err != nil {
			return nil, err
		}
		r, err := packed.unpack(in.lines)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", in.name, err)
		}
		in.lines = bufio.NewReaderSize(r, 1<<16)
	}
	return format, holds(in.lines, in.name, &format.kind)
}

// holds compares the first bytes of a file with what its name says.
func holds(r *bufio.Reader, file string, want *kind) error {
	if _, err := r.Peek(1); err == io.EOF && want.magic != "" {
		return fmt.Errorf("%s is empty, and no file of %s: write it again", file, want.name)
	} else if err == io.EOF {
		return nil // a stream without texts
	} else if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	head, _ := r.Peek(min(8, r.Buffered())) // a terminal sends a line at a time
	shown := func(k *kind) bool { return k.magic != "" && bytes.HasPrefix(head, []byte(k.magic)) }
	if want.magic != "" && !shown(want) {
		return fmt.Errorf("%s is named like %s but begins with %q: rename or convert it", file, want.name, head)
	}
	var others []*kind
	for _, c := range compressions {
		others = append(others, &c.kind)
	}
	for _, f := range textFormats {
		others = append(others, &f.kind)
	}
	for _, k := range others {
		if k != want && shown(k) {
			return fmt.Errorf("%s holds %s: its name must end in %s", file, k.name, k.endings[0])
		}
	}
	return nil
}
