package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	pagezstd "github.com/parquet-go/parquet-go/compress/zstd"
)

// An encoder puts results into rounds, and makes a file of rounds.
type encoder interface {
	add(round *bytes.Buffer, it item, result any) error // result is nil if the item has an error
	end(round *bytes.Buffer) error
	file(w io.Writer, r *results) error
}

// An outputFormat is what -o may be.
type outputFormat struct {
	ending  string
	vectors bool // it holds those and nothing else
	lines   bool // it may be compressed
	convert func(c *column, value any) (any, error)
	open    func(t *textCommand, k task, copied []*column, v vectorFile) encoder
}

var outputFormats = []*outputFormat{
	{".jsonl", false, true, jsonValue, func(_ *textCommand, _ task, copied []*column, _ vectorFile) encoder {
		return jsonLines{copied}
	}},
	{".parquet", false, false, parquetValue, newParquetRows},
	{".npy", true, false, nil, func(_ *textCommand, k task, _ []*column, v vectorFile) encoder {
		return &matrix{v.size, k.output, false}
	}},
	{".npz", true, false, nil, func(_ *textCommand, k task, _ []*column, v vectorFile) encoder {
		return &matrix{v.size, k.output, true}
	}},
}

// A vectorFile is what a file of vectors has in common. Its zero value is for results that are no vectors.
type vectorFile struct {
	size  int               // numbers of each vector
	notes map[string]string // metadata of a Parquet file, such as the model
}

// cutColumns are the fields of a result that announce a cut text: true, and the tokens that the text has. JSON lines of other texts lack
// both. In Parquet, the first column of other texts is false, and the second one is null.
var cutColumns = []string{"truncated", "token_count"}

// jsonLines are objects, one a line, with the copied fields in front and cutColumns at the end.
type jsonLines struct{ copied []*column }

func (j jsonLines) add(round *bytes.Buffer, it item, result any) error {
	if it.err != nil {
		result = map[string]string{"where": it.where, "error": it.err.Error()}
	}
	var own bytes.Buffer
	e := json.NewEncoder(&own)
	e.SetEscapeHTML(false)
	for i, v := range it.copied {
		if err := e.Encode(j.copied[i].name); err != nil {
			return err
		}
		own.Truncate(own.Len() - 1)
		own.WriteByte(':')
		if err := e.Encode(v); err != nil {
			return err
		}
		own.Bytes()[own.Len()-1] = ','
	}
	copied := own.Len()
	if err := e.Encode(result); err != nil {
		return err
	}
	round.WriteByte('{')
	round.Write(own.Next(copied))
	line := own.Bytes()[1:]
	if it.cut > 0 {
		line = fmt.Appendf(bytes.TrimSuffix(line, []byte("}\n")), `,"%s":true,"%s":%d}`+"\n", cutColumns[0], cutColumns[1], it.cut)
	}
	round.Write(line)
	return nil
}

func (jsonLines) end(*bytes.Buffer) error { return nil }

func (jsonLines) file(w io.Writer, r *results) error {
	return r.eachFrame(func(f *frames) error {
		_, err := io.Copy(w, f)
		return err
	})
}

// parquetRows are rows of the copied columns, those of results, cutColumns, and errorColumn. A round is a Parquet file of one row group.
// The file has the same row groups, whose pages are copied as they are.
type parquetRows struct {
	copied   []*column
	failures bool // there is a column of errors
	vectors  vectorFile
	example  any
	result   *parquet.Schema             // columns of the example
	schema   *parquet.Schema             // columns of the rows; nil until the first row
	writer   *parquet.GenericWriter[any] // writes the rows of one round
}

// pages compresses pages by one encoder with a window of a page's size: the library's own have 16 MB each, and the collector throws
// them away.
var pages = &pageCodec{encoder: sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true),
		zstd.WithZeroFrames(true), zstd.WithEncoderCRC(false))
	if err != nil {
		panic(err)
	}
	return e
})}

type pageCodec struct {
	pagezstd.Codec
	encoder func() *zstd.Encoder
}

func (c *pageCodec) Encode(dst, src []byte) ([]byte, error) {
	return c.encoder().EncodeAll(src, dst[:0]), nil
}

func newParquetRows(t *textCommand, k task, copied []*column, v vectorFile) encoder {
	var tags []parquet.SchemaOption
	eachField(reflect.ValueOf(k.example), func(f reflect.StructField, name string, used bool) {
		if !used {
			name = "-"
		}
		tags = append(tags, columnTags(f, name, nil)...)
	})
	return &parquetRows{copied: copied, example: k.example, result: parquet.SchemaOf(k.example, tags...), failures: t.onError == "skip",
		vectors: v}
}

// errorColumn is that of --on-error skip.
const errorColumn = "error"

// eachField calls do for the fields of a result, and whether results have those: an example has what others may leave out.
func eachField(example reflect.Value, do func(f reflect.StructField, name string, used bool)) {
	example = reflect.Indirect(example)
	for i := range example.NumField() {
		f := example.Type().Field(i)
		if name, optional, _ := strings.Cut(f.Tag.Get("json"), ","); f.IsExported() {
			do(f, name, optional == "" || !example.Field(i).IsZero())
		}
	}
}

// columnTags name a field, and those in it, as JSON does.
func columnTags(f reflect.StructField, name string, path []string) (tags []parquet.SchemaOption) {
	path = append(slices.Clip(path), f.Name)
	if f.Type.Kind() == reflect.Slice {
		name += ",list"
	}
	tags = append(tags, parquet.StructTag(reflect.StructTag(fmt.Sprintf("parquet:%q", name)), path...))
	inner := f.Type
	for inner.Kind() == reflect.Slice || inner.Kind() == reflect.Pointer {
		if inner.Kind() == reflect.Slice {
			path = append(slices.Clip(path), "list", "element")
		}
		inner = inner.Elem()
	}
	if inner.Kind() == reflect.Struct {
		eachField(reflect.New(inner), func(f reflect.StructField, name string, _ bool) {
			tags = append(tags, columnTags(f, name, path)...)
		})
	}
	return tags
}

// A listedGroup has its fields in a separate order; those of a parquet.Group are sorted.
type listedGroup struct {
	parquet.Group
	fields []parquet.Field
}

func (g *listedGroup) Fields() []parquet.Field { return g.fields }

// A namedField is a field of a listedGroup.
type namedField struct {
	parquet.Node
	name string
}

func (f *namedField) Name() string { return f.name }

func (f *namedField) Value(base reflect.Value) reflect.Value { return base.FieldByName(f.name) }

// begin makes the schema of rows, of the types that the columns have by then, and the writer of a round; round is nil for a file
// without rows.
func (p *parquetRows) begin(round *bytes.Buffer) error {
	if p.schema == nil {
		root := &listedGroup{}
		for _, c := range p.copied {
			if c.node == nil && round != nil {
				return fmt.Errorf("field %q is null in all of the first lines, so its type is unknown: do not copy it", c.name)
			} else if c.node == nil {
				c.node = parquet.String() // type of a JSON field that no row has
			}
			root.fields = append(root.fields, &namedField{copiedNode(c.node), c.name})
		}
		for _, f := range p.result.Fields() {
			if p.isVector(f.Name()) {
				f = &namedField{parquet.Optional(f), f.Name()}
			}
			root.fields = append(root.fields, f)
		}
		for i, node := range []parquet.Node{parquet.Leaf(parquet.BooleanType), parquet.Int(64)} {
			root.fields = append(root.fields, &namedField{parquet.Optional(node), cutColumns[i]})
		}
		if p.failures {
			root.fields = append(root.fields, &namedField{parquet.Optional(parquet.String()), errorColumn})
		}
		p.schema = parquet.NewSchema("results", root)
	}
	if round != nil {
		p.writer = parquet.NewGenericWriter[any](round, p.schema, parquet.Compression(pages))
	}
	return nil
}

func (p *parquetRows) add(round *bytes.Buffer, it item, result any) error {
	if p.writer == nil {
		if err := p.begin(round); err != nil {
			return err
		}
	}
	var row parquet.Row
	last := -1 // column
	put := func(v parquet.Value) {
		level := 1
		if v.IsNull() {
			level = 0
		}
		last++
		row = append(row, v.Level(0, level, last))
	}
	for i, c := range p.copied {
		var v any = parquet.NullValue()
		if i < len(it.copied) {
			v = it.copied[i]
		}
		if all, ok := v.(nested); ok {
			for _, leaf := range all.raised(c.node) {
				last++
				for _, v := range leaf {
					row = append(row, v.Level(v.RepetitionLevel(), v.DefinitionLevel(), last))
				}
			}
			continue
		}
		for range leaves(c.node) {
			put(v.(parquet.Value))
		}
	}
	from := last + 1
	if it.err != nil {
		result = reflect.New(reflect.TypeOf(p.example).Elem()).Interface()
	}
	for _, v := range p.result.Deconstruct(nil, result) {
		last = from + v.Column()
		level := v.DefinitionLevel()
		if it.err == nil && p.isVector(p.result.Columns()[v.Column()][0]) {
			level++
		}
		row = append(row, v.Level(v.RepetitionLevel(), level, last))
	}
	truncated, tokens := parquet.BooleanValue(it.cut > 0), parquet.NullValue()
	if it.err != nil {
		truncated = parquet.NullValue()
	} else if it.cut > 0 {
		tokens = parquet.Int64Value(int64(it.cut))
	}
	put(truncated)
	put(tokens)
	switch {
	case it.err != nil:
		put(parquet.ByteArrayValue([]byte(it.failure().Error())))
	case p.failures:
		put(parquet.NullValue())
	}
	_, err := p.writer.WriteRows([]parquet.Row{row})
	return err
}

// isVector reports whether a column of results has vectors of one size. They are null in a row with an error.
func (p *parquetRows) isVector(name string) bool { return p.vectors.size > 0 && name == vectorField }

// create begins a file with the metadata of all rows.
func (p *parquetRows) create(w io.Writer, rows *parquet.Schema) *parquet.GenericWriter[any] {
	options := []parquet.WriterOption{rows, parquet.Compression(pages)}
	for key, value := range p.vectors.notes {
		options = append(options, parquet.KeyValueMetadata(key, value))
	}
	if p.vectors.size > 0 {
		options = append(options, parquet.KeyValueMetadata(arrowKey, arrowSchema(rows, vectorField, p.vectors.size)))
	}
	return parquet.NewGenericWriter[any](w, options...)
}

func (p *parquetRows) end(*bytes.Buffer) error {
	defer func() { p.writer = nil }()
	return p.writer.Close()
}

func (p *parquetRows) file(w io.Writer, r *results) error {
	var out *parquet.GenericWriter[any]
	err := r.eachFrame(func(f *frames) error {
		data, err := io.ReadAll(f)
		if err != nil {
			return err
		}
		round, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return err
		}
		if out == nil {
			out = p.create(w, round.Schema())
		}
		for _, g := range round.RowGroups() {
			if _, err := out.WriteRowGroup(g); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if out == nil { // the input had no items, and so the file no rounds
		if err := p.begin(nil); err != nil {
			return err
		}
		out = p.create(w, p.schema)
	}
	return out.Close()
}
