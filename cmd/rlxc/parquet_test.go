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
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
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
	r, err := openResults(out, "run", newParquetRows(&textCommand{}, task{example: &classified{}}, in.copied, vectorFile{}), nil)
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
		"a group":   {textFlags{field: "in"}, whole.Bytes(), `%s: column "in" is nested: name a column of single values`},
		"binary":    {textFlags{field: "bytes"}, whole.Bytes(), `%s: row 1: column "bytes" is not valid UTF-8`},
		"no JSON": {textFlags{copied: []string{"price"}}, whole.Bytes(),
			`%s: row 1: column "price": JSON lines cannot hold DECIMAL(12,2)`},
		"binary for JSON": {textFlags{copied: []string{"bytes"}}, whole.Bytes(), `%s: row 1: column "bytes" is not valid UTF-8`},
		"no column": {textFlags{second: "title"}, whole.Bytes(),
			`%s has no column "title": it has id, text, score, day, at, price, bytes, tags, many, in`},
		"nothing": {textFlags{}, nil, `%s is empty, and no file of Parquet: write it again`},
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
		in, err := unpack(io.NewSectionReader(bytes.NewReader(packed), 0, int64(len(packed))), 1<<20)
		require.NoError(t, err, codec)
		data, err := io.ReadAll(in)
		require.NoError(t, err, codec)
		require.Len(t, data, 1<<20, codec)
		file := filepath.Join(t.TempDir(), "a.parquet")
		for _, c := range []struct {
			data []byte
			want string
		}{{packed, "a page does not unpack"}, {[]byte("\xff\xff\xff\xff"), "a page does not unpack"}, {nil, "page"}} {
			require.NoError(t, os.WriteFile(file, widePage(t, 100, codec, c.data), 0o600))
			_, err := openTexts(textFlags{input: file}, nil)
			require.Regexp(t, c.want, err, codec)
		}
	}
	require.Len(t, unpackers, 5)
}

// TestParquetLZ4 holds that a page is an error from which the library would decode the memory of another page.
func TestParquetLZ4(t *testing.T) {
	random := make([]byte, 1000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(random)
	packed, err := parquet.LookupCompressionCodec(format.Lz4Raw).Encode(nil, random)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "a.parquet")
	require.NoError(t, os.WriteFile(file, widePage(t, 1000, format.Lz4Raw, packed), 0o600))
	_, err = openTexts(textFlags{input: file}, nil)
	require.ErrorContains(t, err, file+`: row 1 is damaged or incomplete: column "text": a page does not unpack: LZ4 is read only`)
}

// widePage is a file whose column "text" has a page of that content, and announces that many bytes and one value.
func widePage(t *testing.T, announced int32, codec format.CompressionCodec, page []byte) []byte {
	head := format.PageHeader{UncompressedPageSize: announced, DataPageHeader: dataPage(1, format.Plain)}
	return pagesOf(t, "text", codec, 1, madePage{head, page})
}

// A madePage is a page of a file that no writer makes.
type madePage struct {
	head format.PageHeader // without the compressed size
	data []byte
}

func dataPage(values int32, encoding format.Encoding) thrift.Null[format.DataPageHeader] {
	return thrift.New(format.DataPageHeader{NumValues: values, Encoding: encoding, DefinitionLevelEncoding: format.RLE,
		RepetitionLevelEncoding: format.RLE})
}

// pagesOf is a file whose column has these pages, in a row group that announces that many rows.
func pagesOf(t *testing.T, column string, codec format.CompressionCodec, rows int64, pages ...madePage) []byte {
	data := someParquet(t, 1)
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	meta := *f.Metadata()
	leaf, ok := f.Schema().Lookup(column)
	require.True(t, ok)
	m := &meta.RowGroups[0].Columns[leaf.ColumnIndex].MetaData
	meta.NumRows, meta.RowGroups[0].NumRows, m.NumValues = rows, rows, rows
	m.DictionaryPageOffset, m.DataPageOffset, m.Codec = 0, int64(len(data)), codec
	for _, page := range pages {
		page.head.CompressedPageSize = int32(len(page.data))
		head, err := thrift.Marshal(new(thrift.CompactProtocol), &page.head)
		require.NoError(t, err)
		data = append(append(data, head...), page.data...)
	}
	m.TotalCompressedSize = int64(len(data)) - m.DataPageOffset
	end, err := thrift.Marshal(new(thrift.CompactProtocol), &meta)
	require.NoError(t, err)
	return append(binary.LittleEndian.AppendUint32(append(data, end...), uint32(len(end))), "PAR1"...)
}

// TestParquetPages holds that a page of a few bytes whose values would take gigabytes is an error before the library decodes it.
func TestParquetPages(t *testing.T) {
	const many = 1 << 31
	varints := func(ns ...uint64) (b []byte) {
		for _, n := range ns {
			b = binary.AppendUvarint(b, n)
		}
		return b
	}
	prefixed := func(b []byte) []byte { return append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...) }
	one := prefixed(varints(1<<1, 1))          // level of one value
	run := varints((many-1)<<1, 0)             // as many values as a run may have
	deltas := varints(128, 4, many-1, 0, 0, 0) // as many numbers as there may be
	single := func(n uint64) []byte { return varints(128, 4, 1, 2*n) }
	// 33 lengths, each greater by as much as fits into its bits.
	lengths := append(varints(128, 4, 33, 0, 0), append([]byte{22, 0, 0, 0}, bytes.Repeat([]byte{255}, 22*4)...)...)
	levels := func(n uint64, data ...byte) []byte { return append(prefixed(varints(n<<1, 1)), data...) }
	tooMany := "a page holds more values than it announces"
	for name, c := range map[string]struct {
		column string
		rows   int64
		head   format.PageHeader
		data   []byte
		want   string
	}{
		"more values than rows": {"text", 2, format.PageHeader{DataPageHeader: dataPage(3, format.Plain)}, one,
			"a page has 3 values, but 2 are left in its group"},
		"values": {"text", many, format.PageHeader{DataPageHeader: dataPage(many-1, format.Plain)}, one,
			"a page has 2147483647 values, more than the maximum of 16777216: write the file with smaller pages"},
		"values of a dictionary": {"text", 1, format.PageHeader{Type: format.DictionaryPage,
			DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: many - 1})}, one,
			"a page has 2147483647 values, more than the maximum of 16777216: write the file with smaller pages"},
		"dictionary of runs": {"id", 1, format.PageHeader{Type: format.DictionaryPage,
			DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: 1, Encoding: format.RLE})}, run,
			"a dictionary is in the encoding RLE, not PLAIN"},
		"dictionary in a header of data": {"text", 1, format.PageHeader{DataPageHeader: dataPage(1, format.Plain),
			DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: many - 1})}, one,
			"a page of the type DATA_PAGE has another header"},
		"levels": {"text", 1, format.PageHeader{DataPageHeader: dataPage(1, format.Plain)}, prefixed(run), tooMany},
		"levels of version 2": {"text", 1, format.PageHeader{Type: format.DataPageV2,
			DataPageHeaderV2: thrift.New(format.DataPageHeaderV2{NumValues: 1, NumRows: 1, DefinitionLevelsByteLength: int32(len(run))})},
			run, tooMany},
		"packed levels": {"text", 1, format.PageHeader{DataPageHeader: thrift.New(format.DataPageHeader{NumValues: 1,
			DefinitionLevelEncoding: format.BitPacked})}, prefixed(make([]byte, 1000)), tooMany},
		"texts":   {"text", 1, format.PageHeader{DataPageHeader: dataPage(1, format.Plain)}, append(one, make([]byte, 1000)...), tooMany},
		"indices": {"text", 1, format.PageHeader{DataPageHeader: dataPage(1, format.RLEDictionary)}, append(levels(1, 1), run...), tooMany},
		"packed indices": {"text", 1, format.PageHeader{DataPageHeader: dataPage(1, format.RLEDictionary)},
			append(levels(1, 32), varints((many-1)<<1|1)...), tooMany},
		"runs of numbers": {"id", 1, format.PageHeader{DataPageHeader: dataPage(1, format.RLE)}, run,
			"a page of INT64 is in the encoding RLE, which is for booleans"},
		"packed numbers": {"id", 1, format.PageHeader{DataPageHeader: dataPage(1, format.BitPacked)}, run,
			"a page is in the encoding BIT_PACKED, which is not supported"},
		"deltas": {"id", 1, format.PageHeader{DataPageHeader: dataPage(1, format.DeltaBinaryPacked)}, deltas, tooMany},
		"lengths": {"text", 1, format.PageHeader{DataPageHeader: dataPage(1, format.DeltaLengthByteArray)}, append(one, deltas...),
			tooMany},
		"prefixes": {"text", 1, format.PageHeader{DataPageHeader: dataPage(1, format.DeltaByteArray)}, append(one, deltas...), tooMany},
		"suffixes": {"text", 1, format.PageHeader{DataPageHeader: dataPage(1, format.DeltaByteArray)},
			slices.Concat(one, single(0), deltas), tooMany},
		"a long suffix": {"text", 1, format.PageHeader{DataPageHeader: dataPage(1, format.DeltaByteArray)},
			slices.Concat(one, single(0), single(1<<30)),
			"pages of 3072 MiB would be in memory at a time, more than the maximum of 512 MiB: write the file with smaller pages, " +
				"or read fewer columns"},
		"growing prefixes": {"text", 33, format.PageHeader{DataPageHeader: dataPage(33, format.DeltaByteArray)},
			slices.Concat(levels(33), lengths, single(0)),
			"pages of 6335 MiB would be in memory at a time, more than the maximum of 512 MiB: write the file with smaller pages, " +
				"or read fewer columns"},
		"negative prefixes": {"text", 1, format.PageHeader{DataPageHeader: dataPage(1, format.DeltaByteArray)},
			slices.Concat(one, varints(128, 4, 1, 1), single(0)), "a page holds lengths that are not valid"},
		"lengths that end": {"text", 33, format.PageHeader{DataPageHeader: dataPage(33, format.DeltaByteArray)},
			slices.Concat(levels(33), lengths, varints(128, 4, 33, 1<<31, 0)), "a page ends before its values do"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "a.parquet")
			c.head.UncompressedPageSize = int32(len(c.data))
			data := pagesOf(t, c.column, format.Uncompressed, c.rows, madePage{c.head, c.data})
			require.NoError(t, os.WriteFile(file, data, 0o600))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			in, err := os.Open(file)
			require.NoError(t, err)
			defer in.Close()
			info, err := in.Stat()
			require.NoError(t, err)
			rows, err := parquetRecords(&textFile{name: file, file: in, info: info})
			require.NoError(t, err)
			_, err = rows.next([]string{c.column})
			runtime.ReadMemStats(&after)
			require.EqualError(t, err, fmt.Sprintf("%s: row 1 is damaged or incomplete: column %q: %s", file, c.column, c.want))
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20))
		})
	}
}

// TestParquetHeldAtATime holds that a dictionary, a page and the page after it are bounded together, over all columns that are read.
func TestParquetHeldAtATime(t *testing.T) {
	const most = mostHeld >> 20 * 2 / 3 // MiB of pages: their buffers are larger by up to a half
	const half, quarter = most/2 + 1, most / 4
	page := func(mib int32) madePage { // which announces that size, and has a text
		return madePage{format.PageHeader{UncompressedPageSize: mib << 20, DataPageHeader: dataPage(1, format.Plain)},
			[]byte{2, 0, 0, 0, 1 << 1, 1, 0, 0, 0, 0}} // a level, and a text of no bytes
	}
	dictionary := page(half)
	dictionary.data = dictionary.data[6:]
	dictionary.head.Type, dictionary.head.DataPageHeader = format.DictionaryPage, thrift.Null[format.DataPageHeader]{}
	dictionary.head.DictionaryPageHeader = thrift.New(format.DictionaryPageHeader{NumValues: 1})
	for name, c := range map[string]struct {
		pages []madePage
		fails bool
	}{
		"a page":                  {[]madePage{page(half)}, false},
		"a page after others":     {[]madePage{page(quarter), page(quarter), page(half), page(quarter)}, false},
		"two large pages":         {[]madePage{page(1), page(half), page(half)}, true},
		"a dictionary and a page": {[]madePage{dictionary, page(1), page(half)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			data := pagesOf(t, "text", format.Uncompressed, int64(len(c.pages)), c.pages...)
			f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
			require.NoError(t, err)
			leaf, _ := f.Schema().Lookup("text")
			p := &parquetFile{in: bytes.NewReader(data), file: f}
			held, err := p.bounded(f.Metadata().RowGroups[0].Columns[leaf.ColumnIndex].MetaData, leaf, int64(len(c.pages)))
			require.NoError(t, err)
			require.Equal(t, c.fails, held > mostHeld, "%d MiB", held>>20)

			rows := &parquetFile{name: "a.parquet", in: p.in, file: f, groups: f.RowGroups(), changed: func() error { return nil }}
			_, err = rows.next([]string{"text", "text"}) // a column that is read twice is held twice
			require.Equal(t, 2*held > mostHeld, err != nil && strings.Contains(err.Error(), "would be in memory at a time"), "%v", err)
		})
	}
}

// TestParquetFooter holds that a footer of many bytes is an error before it is read.
func TestParquetFooter(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.parquet")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	const size = 2 * mostFooter
	require.NoError(t, os.Truncate(file, size-8)) // a file without blocks
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = f.Write(append(binary.LittleEndian.AppendUint32(nil, mostFooter+1), "PAR1"...))
	require.NoError(t, errors.Join(err, f.Close()))
	in, err := os.Open(file)
	require.NoError(t, err)
	defer in.Close()
	info, err := in.Stat()
	require.NoError(t, err)
	_, err = parquetRecords(&textFile{name: file, file: in, info: info})
	require.ErrorContains(t, err, "its footer has 33554433 bytes, more than the maximum of 33554432")
}

// TestParquetHeads holds that the header of a page is read as far as it is there, whatever length its texts announce.
func TestParquetHeads(t *testing.T) {
	long := bytes.Repeat([]byte("x"), 100_000)
	whole, err := thrift.Marshal(new(thrift.CompactProtocol), &format.PageHeader{DataPageHeader: thrift.New(format.DataPageHeader{
		NumValues: 7, Statistics: format.Statistics{MinValue: long}})})
	require.NoError(t, err)
	head, n, err := pageHead(io.NewSectionReader(bytes.NewReader(whole), 0, int64(len(whole))))
	require.NoError(t, err)
	require.EqualValues(t, len(whole), n)
	require.EqualValues(t, 7, head.DataPageHeader.V.NumValues)

	at := bytes.Index(whole, binary.AppendUvarint(nil, uint64(len(long))))
	lying := append(binary.AppendUvarint(bytes.Clone(whole[:at]), 1<<31-1), "xyz"...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err = pageHead(io.NewSectionReader(bytes.NewReader(lying), 0, int64(len(lying))))
	runtime.ReadMemStats(&after)
	require.Error(t, err)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
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
	failed := 0
	const step = 7 // FuzzLines changes every byte
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
	in, err := openTexts(textFlags{input: file, copied: []string{"price", allFields}}, nil)
	require.NoError(t, err)
	defer in.close()
	it, err := in.next()
	require.NoError(t, err)
	require.NoError(t, it.err)
	var got bytes.Buffer
	require.NoError(t, jsonLines{in.copied}.add(&got, it, map[string]int{"result": 1}))
	require.True(t, json.Valid(got.Bytes()))
	require.Equal(t, `{"price":1.50,`+rest+`,"result":1}`+"\n", got.String())
	_, err = in.next()
	require.Equal(t, io.EOF, err)

	_, err = openTexts(textFlags{input: file, copied: []string{"absent"}}, nil)
	require.EqualError(t, err, file+`: the first object has no field "absent" to copy: it has text, price, id, in, name, none`)
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

// A nestedRow has columns of the kinds that hold several values.
type nestedRow struct {
	Text  string             `parquet:"text"`
	Tags  []string           `parquet:"tags,list"`
	Grid  []nestedCells      `parquet:"grid,list"`
	Many  []int64            `parquet:"many"`
	In    nestedStruct       `parquet:"in"`
	Maybe *nestedStruct      `parquet:"maybe"`
	Map   map[string]float32 `parquet:"map"`
}

type nestedCells struct {
	Cells []int64 `parquet:"cells,list"`
}

type nestedStruct struct {
	A *int64          `parquet:"a,optional"`
	B []nestedStruct2 `parquet:"b,list"`
}

type nestedStruct2 struct {
	C string `parquet:"c"`
}

// nestedRows have empty, absent and full columns, and lists that are longer than a buffer of a cursor.
func nestedRows() []nestedRow {
	seven, long := int64(7), make([]int64, 700)
	for i := range long {
		long[i] = int64(i)
	}
	return []nestedRow{
		{Text: "none"},
		{"all", []string{"a", "", "ü"}, []nestedCells{{[]int64{1, 2}}, {}, {[]int64{3}}}, []int64{4, 5},
			nestedStruct{&seven, []nestedStruct2{{"x"}, {"y"}}}, &nestedStruct{B: []nestedStruct2{{"z"}}}, map[string]float32{"k": 0.5}},
		{Text: "long", Many: long, Tags: []string{"t"}},
		{Text: "last", Maybe: &nestedStruct{A: &seven}},
	}
}

// TestParquetNested holds that columns of lists, structs and maps are copied with their values, to Parquet and to JSON, and are null in
// rows with an error.
func TestParquetNested(t *testing.T) {
	file := filepath.Join(t.TempDir(), "in.parquet")
	var b bytes.Buffer
	require.NoError(t, parquet.Write(&b, nestedRows(), parquet.MaxRowsPerRowGroup(3)))
	require.NoError(t, os.WriteFile(file, b.Bytes(), 0o600))
	copied := []string{"tags", "grid", "many", "in", "maybe", "map"}
	t.Run("to Parquet", func(t *testing.T) {
		in, err := openTexts(textFlags{input: file, copied: copied, convert: parquetValue}, nil)
		require.NoError(t, err)
		defer in.close()
		out := filepath.Join(t.TempDir(), "out.parquet")
		rows := newParquetRows(&textCommand{onError: "skip"}, task{example: &classified{}}, in.copied, vectorFile{})
		r, err := openResults(out, "run", rows, nil)
		require.NoError(t, err)
		require.NoError(t, in.each(func(it item) error { return r.add(it, &classified{Text: it.text}) }))
		require.NoError(t, r.add(item{err: io.ErrUnexpectedEOF}, nil))
		require.NoError(t, r.commit(true))
		require.NoError(t, r.finish())
		again, err := openTexts(textFlags{input: out, copied: copied}, nil)
		require.NoError(t, err)
		defer again.close()
		got := jsonRows(t, again)
		require.JSONEq(t, `[null, null, [], null, null, null]`, got[len(got)-1])
		require.Equal(t, nestedJSON(t, file, copied), got[:len(got)-1])
	})
	t.Run("to JSON", func(t *testing.T) {
		got := nestedJSON(t, file, copied)
		require.JSONEq(t, `[[], [], [], {"a": null, "b": []}, null, []]`, got[0])
		require.JSONEq(t, `[["a", "", "ü"], [{"cells": [1, 2]}, {"cells": []}, {"cells": [3]}], [4, 5],
			{"a": 7, "b": [{"c": "x"}, {"c": "y"}]}, {"a": null, "b": [{"c": "z"}]}, [{"key": "k", "value": 0.5}]]`, got[1])
		require.Contains(t, got[2], "697,698,699]")
		require.JSONEq(t, `[[], [], [], {"a": null, "b": []}, {"a": 7, "b": []}, []]`, got[3])
	})
}

func nestedJSON(t *testing.T, file string, copied []string) []string {
	in, err := openTexts(textFlags{input: file, copied: copied}, nil)
	require.NoError(t, err)
	defer in.close()
	return jsonRows(t, in)
}

func jsonRows(t *testing.T, in *textReader) (rows []string) {
	require.NoError(t, in.each(func(it item) error {
		require.NoError(t, it.err)
		line, err := json.Marshal(it.copied)
		rows = append(rows, string(line))
		return err
	}))
	return rows
}
