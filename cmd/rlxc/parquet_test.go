package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/stretchr/testify/require"
)

// A storedRow has a column of each type that results may have too.
type storedRow struct {
	ID    uint64            `parquet:"id"`
	Text  *string           `parquet:"text"`
	Score *float32          `parquet:"score"`
	Day   int32             `parquet:"day,date"`
	At    time.Time         `parquet:"at,timestamp(microsecond)"`
	Price int64             `parquet:"price,decimal(2:12)"`
	Bytes []byte            `parquet:"bytes"`
	Tags  []string          `parquet:"tags,list"`
	Many  []int64           `parquet:"many"`
	In    struct{ A int64 } `parquet:"in"`
}

func storedRows(n int) (rows []storedRow) {
	for i := range n {
		text, score := fmt.Sprintf("text number %d", i), float32(i)/3
		r := storedRow{ID: 1<<63 + uint64(i), Text: &text, Day: int32(i), At: time.UnixMicro(int64(i)).UTC(), Price: int64(i),
			Bytes: []byte{255, byte(i)}, Tags: []string{"a"}}
		if i%3 > 0 {
			r.Score = &score
		}
		rows = append(rows, r)
	}
	return rows
}

// someParquet is a file in row groups of 100 rows.
func someParquet(t testing.TB, n int) []byte {
	var b bytes.Buffer
	require.NoError(t, parquet.Write(&b, storedRows(n), parquet.MaxRowsPerRowGroup(100)))
	return b.Bytes()
}

// TestParquetTypes holds that copied columns keep their values and types from Parquet to Parquet.
func TestParquetTypes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "in.parquet")
	require.NoError(t, os.WriteFile(file, someParquet(t, 250), 0o600))
	copied := []string{"id", "score", "day", "at", "price", "bytes"}
	in, err := openTexts(textFlags{input: file, copied: copied, convert: parquetValue}, nil)
	require.NoError(t, err)
	defer in.close()
	require.EqualValues(t, 250, in.size)
	out := filepath.Join(t.TempDir(), "out.parquet")
	r, err := openResults(out, "run", newParquetRows(&textCommand{}, task{example: &classified{}}, in.copied, 0), nil)
	require.NoError(t, err)
	n := 0
	require.NoError(t, in.each(func(it item) error {
		if n++; n%64 == 0 {
			require.NoError(t, r.commit(false))
		}
		return r.add(it, &classified{Text: it.text})
	}))
	require.NoError(t, r.commit(true))
	require.NoError(t, r.finish())

	type copiedRow struct {
		ID    *uint64    `parquet:"id"`
		Score *float32   `parquet:"score"`
		Day   *int32     `parquet:"day,date"`
		At    *time.Time `parquet:"at,timestamp(microsecond)"`
		Price *int64     `parquet:"price,decimal(2:12)"`
		Bytes []byte     `parquet:"bytes,optional"`
		Text  string     `parquet:"text"`
	}
	got, err := parquet.ReadFile[copiedRow](out)
	require.NoError(t, err)
	require.Len(t, got, 250)
	for i, want := range storedRows(250) {
		require.Equal(t, copiedRow{&want.ID, want.Score, &want.Day, &want.At, &want.Price, want.Bytes, *want.Text}, got[i])
	}
	f, err := os.Open(out)
	require.NoError(t, err)
	defer f.Close()
	info, err := f.Stat()
	require.NoError(t, err)
	written, err := parquet.OpenFile(f, info.Size())
	require.NoError(t, err)
	columns := parquet.SchemaOf(copiedRow{}).Fields()
	for i, field := range written.Schema().Fields()[:len(columns)] {
		require.Equal(t, columns[i].Name(), field.Name())
		require.Equal(t, columns[i].Type().String(), field.Type().String())
	}
}

// TestParquetNumbers holds that JSON has the whole numbers of copied columns, with a sign or without.
func TestParquetNumbers(t *testing.T) {
	type row struct {
		Text string `parquet:"text"`
		A    int64  `parquet:"a"`
		B    uint64 `parquet:"b"`
		C    int32  `parquet:"c"`
		D    uint32 `parquet:"d"`
		E    int8   `parquet:"e"`
		F    uint8  `parquet:"f"`
	}
	var b bytes.Buffer
	require.NoError(t, parquet.Write(&b, []row{{"x", -1, math.MaxUint64, -2, math.MaxUint32, -3, math.MaxUint8}}))
	file := filepath.Join(t.TempDir(), "in.parquet")
	require.NoError(t, os.WriteFile(file, b.Bytes(), 0o600))
	in, err := openTexts(textFlags{input: file, copied: []string{"a", "b", "c", "d", "e", "f"}}, nil)
	require.NoError(t, err)
	defer in.close()
	require.NoError(t, in.each(func(it item) error {
		got, err := json.Marshal(it.copied)
		require.NoError(t, err)
		require.JSONEq(t, `[-1, 18446744073709551615, -2, 4294967295, -3, 255]`, string(got))
		return nil
	}))
}

// TestParquetErrors holds that each wrong column is an error that names file, column and row.
func TestParquetErrors(t *testing.T) {
	rows := storedRows(150)
	rows[120].Text = nil
	var whole bytes.Buffer
	require.NoError(t, parquet.Write(&whole, rows, parquet.MaxRowsPerRowGroup(100)))
	dir := t.TempDir()
	for name, c := range map[string]struct {
		flags textFlags
		data  []byte
		want  string
	}{
		"null":      {textFlags{}, whole.Bytes(), `%s: row 121: column "text" is null`},
		"mistyped":  {textFlags{field: "score"}, whole.Bytes(), `%s: column "score" is FLOAT, not a text`},
		"a decimal": {textFlags{field: "price"}, whole.Bytes(), `%s: column "price" is DECIMAL(12,2), not a text`},
		"nested":    {textFlags{field: "tags"}, whole.Bytes(), `%s: column "tags" is nested: name a column of single values`},
		"repeated":  {textFlags{field: "many"}, whole.Bytes(), `%s: column "many" is nested: name a column of single values`},
		"a group":   {textFlags{copied: []string{"in"}}, whole.Bytes(), `%s: column "in" is nested: name a column of single values`},
		"binary":    {textFlags{field: "bytes"}, whole.Bytes(), `%s: row 1: column "bytes" is not valid UTF-8`},
		"no JSON": {textFlags{copied: []string{"price"}}, whole.Bytes(),
			`%s: row 1: column "price": JSON lines cannot hold DECIMAL(12,2)`},
		"binary for JSON": {textFlags{copied: []string{"bytes"}}, whole.Bytes(), `%s: row 1: column "bytes" is not valid UTF-8`},
		"no column": {textFlags{second: "title"}, whole.Bytes(),
			`%s has no column "title": it has id, text, score, day, at, price, bytes, tags, many, in`},
		"no rows": {textFlags{}, someParquet(t, 0), `%s is empty: it has no text`},
		"nothing": {textFlags{}, nil, `%s is empty: it has no text`},
		"text":    {textFlags{}, []byte("some text\n"), `%s is named like Parquet but begins with "some tex": rename or convert it`},
		"cut":     {textFlags{}, whole.Bytes()[:1000], `%s is damaged or incomplete: no Parquet footer at the end`},
		"a page": {textFlags{}, widePage(t, mostPage+1, format.Uncompressed, []byte("page")),
			`%s: row 1 is damaged or incomplete: column "text": a page has 268435457 bytes, more than the maximum of 268435456: ` +
				`write the file with smaller pages`},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, name+".parquet")
			require.NoError(t, os.WriteFile(file, c.data, 0o600))
			c.flags.input = file
			in, err := openTexts(c.flags, nil)
			if err == nil {
				err = in.each(func(it item) error {
					if it.err != nil {
						return it.failure()
					}
					return nil
				})
				require.NoError(t, in.close())
			}
			require.EqualError(t, err, fmt.Sprintf(c.want, file))
		})
	}
}

// TestUnpackers holds that a page that unpacks to more than it announces, or to nothing, is an error before the library unpacks it.
func TestUnpackers(t *testing.T) {
	for codec, unpack := range unpackers {
		packed, err := parquet.LookupCompressionCodec(codec).Encode(nil, make([]byte, 1<<20))
		require.NoError(t, err)
		n, err := unpack(packed, 1<<20)
		require.NoError(t, err, codec)
		require.Equal(t, 1<<20, n, codec)
		file := filepath.Join(t.TempDir(), "a.parquet")
		for _, c := range []struct {
			data []byte
			want string
		}{{packed, "a page (unpacks to more|does not unpack)"}, {[]byte("\xff\xff\xff\xff"), "a page does not unpack"}, {nil, "page"}} {
			require.NoError(t, os.WriteFile(file, widePage(t, 100, codec, c.data), 0o600))
			_, err := openTexts(textFlags{input: file}, nil)
			require.Regexp(t, c.want, err, codec)
		}
	}
	require.Len(t, unpackers, 5)
}

// widePage is a file whose column "text" has a page of that content, and announces that many bytes.
func widePage(t *testing.T, announced int32, codec format.CompressionCodec, page []byte) []byte {
	data := someParquet(t, 1)
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	meta := *f.Metadata()
	text, ok := f.Schema().Lookup("text")
	require.True(t, ok)
	head, err := thrift.Marshal(new(thrift.CompactProtocol), &format.PageHeader{UncompressedPageSize: announced,
		CompressedPageSize: int32(len(page))})
	require.NoError(t, err)
	m := &meta.RowGroups[0].Columns[text.ColumnIndex].MetaData
	m.DictionaryPageOffset, m.DataPageOffset, m.TotalCompressedSize = 0, int64(len(data)), int64(len(head)+len(page))
	m.Codec = codec
	data = append(append(data, head...), page...)
	end, err := thrift.Marshal(new(thrift.CompactProtocol), &meta)
	require.NoError(t, err)
	return append(binary.LittleEndian.AppendUint32(append(data, end...), uint32(len(end))), "PAR1"...)
}

// TestDamagedParquet changes each byte of a file, and each fifth of one packed by each codec: it is an error, or rows, and the reader ends.
func TestDamagedParquet(t *testing.T) {
	for _, codec := range append(slices.Collect(maps.Keys(unpackers)), format.Uncompressed) {
		t.Run(codec.String(), func(t *testing.T) {
			t.Parallel()
			damagedParquet(t, codec)
		})
	}
}

func damagedParquet(t *testing.T, codec format.CompressionCodec) {
	var b bytes.Buffer
	require.NoError(t, parquet.Write(&b, storedRows(3), parquet.Compression(parquet.LookupCompressionCodec(codec))))
	data := b.Bytes()
	file := filepath.Join(t.TempDir(), "a.parquet")
	failed, step := 0, 5
	if codec == format.Uncompressed {
		step = 1
	}
	for i := 0; i < len(data); i += step {
		changed := bytes.Clone(data)
		changed[i] ^= 0x55
		require.NoError(t, os.WriteFile(file, changed, 0o600))
		in, err := openTexts(textFlags{input: file, copied: []string{"score", "day"}}, nil)
		if err == nil {
			err = in.each(func(item) error { return nil })
			require.NoError(t, in.close())
		}
		if err != nil {
			failed++
			require.ErrorContains(t, err, file)
		}
	}
	require.Greater(t, failed, len(data)/step/10)
}

// TestColumnTypes holds that the first value of a field of JSON chooses the type of its column, and others are errors.
func TestColumnTypes(t *testing.T) {
	for _, c := range []struct{ first, second, want string }{
		{`1`, `-2`, ``},
		{`1`, `2.5`, `column "a" is 2.5 here, but INT(64,true) in earlier records`},
		{`1.5`, `2`, ``},
		{`true`, `false`, ``},
		{`true`, `1`, `column "a" is 1 here, but BOOLEAN in earlier records`},
		{`"x"`, `1`, `column "a" is 1 here, but STRING in earlier records`},
		{`null`, `1`, ``},
		{`null`, `[1]`, `column "a" is [1], which is not a single value of Parquet`},
		{`1`, `{"b":1}`, `column "a" is {"b":1} here, but INT(64,true) in earlier records`},
		{`null`, `1e999`, `column "a" is 1e999, which is not a single value of Parquet`},
	} {
		file := filepath.Join(t.TempDir(), "a.jsonl")
		require.NoError(t, os.WriteFile(file, []byte(`{"text":"x","a":`+c.first+`}`+"\n"+`{"text":"x","a":`+c.second+`}`+"\n"), 0o600))
		in, err := openTexts(textFlags{input: file, copied: []string{"a"}, convert: parquetValue}, nil)
		require.NoError(t, err)
		it, err := in.next()
		require.NoError(t, errors.Join(err, it.err))
		it, err = in.next()
		require.NoError(t, err)
		require.IsType(t, parquet.Value{}, it.copied[0])
		if c.want == "" {
			require.NoError(t, it.err)
		} else {
			require.EqualError(t, it.err, c.want)
		}
		require.NoError(t, in.close())
	}
}

// TestCopiedJSON holds that copied fields of lines stay what they are, in the order that was asked for.
func TestCopiedJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.jsonl")
	rest := `"id":12345678901234567890,"in":{"b":[1,{"a":"<&>"}]},"name":"<é>","none":null`
	line := `{"text":"x","price":1.50,` + rest + `}`
	require.NoError(t, os.WriteFile(file, []byte(line+"\n"), 0o600))
	in, err := openTexts(textFlags{input: file, copied: []string{"price", allFields, "absent"}}, nil)
	require.NoError(t, err)
	defer in.close()
	it, err := in.next()
	require.NoError(t, err)
	require.NoError(t, it.err)
	var got bytes.Buffer
	require.NoError(t, jsonLines{in.copied}.add(&got, it, map[string]int{"result": 1}))
	require.True(t, json.Valid(got.Bytes()))
	require.Equal(t, `{"price":1.50,`+rest+`,"absent":null,"result":1}`+"\n", got.String())
	_, err = in.next()
	require.Equal(t, io.EOF, err)
}

// TestItemBytes holds that everything of unbounded length counts into what an item takes.
func TestItemBytes(t *testing.T) {
	second := "four"
	for want, it := range []item{
		{}, {text: "1"}, {copied: []any{"12"}}, {copied: []any{json.RawMessage("123")}}, {second: &second},
		{copied: []any{parquet.ByteArrayValue([]byte("12345")), parquet.Int64Value(7), nil}},
		{text: "1", second: &second, copied: []any{"1"}},
	} {
		require.Equal(t, want, it.bytes())
	}
}
