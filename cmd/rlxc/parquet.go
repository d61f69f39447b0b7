package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// parquetFile are the rows of a Parquet file. A column is read page by page, and no others than those asked for.
type parquetFile struct {
	name    string
	in      io.ReaderAt
	file    *parquet.File
	groups  []parquet.RowGroup // to come
	left    int64              // rows of the group that is read
	row     int64
	cursors []*cursor
}

func parquetRecords(in *textFile) (_ records, err error) {
	defer damaged(in.name, &err)
	var end [8]byte
	if _, err := in.file.ReadAt(end[:], max(0, in.bytes-8)); err != nil && err != io.EOF {
		return nil, err
	}
	if string(end[4:]) != "PAR1" || int64(binary.LittleEndian.Uint32(end[:])) > in.bytes-12 {
		return nil, errors.New("no Parquet footer at the end")
	}
	file, err := parquet.OpenFile(in.file, in.bytes, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, err
	}
	return &parquetFile{name: in.name, in: in.file, file: file, groups: file.RowGroups()}, nil
}

// damaged says of an error, or of a panic of the library, what it comes of.
func damaged(file string, err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%v", r)
	}
	if *err != nil && *err != io.EOF {
		*err = fmt.Errorf("%s is damaged or incomplete: %w", file, *err)
	}
}

func (p *parquetFile) fields() (names []string, known bool, err error) {
	for _, f := range p.file.Schema().Fields() {
		names = append(names, f.Name())
	}
	return names, true, nil
}

func (p *parquetFile) node(name string) parquet.Node {
	fields := p.file.Schema().Fields()
	if i := slices.IndexFunc(fields, func(f parquet.Field) bool { return f.Name() == name }); i >= 0 {
		return fields[i]
	}
	return nil
}

func (p *parquetFile) position() int64 { return p.row }

func (p *parquetFile) size() int64 { return p.file.NumRows() }

func (p *parquetFile) next(names []string) (r record, err error) {
	where := fmt.Sprintf("%s: row %d", p.name, p.row+1)
	defer damaged(where, &err)
	for p.left <= 0 {
		for _, c := range p.cursors {
			c.close()
		}
		p.cursors = nil
		if len(p.groups) == 0 {
			return record{}, io.EOF
		}
		p.left = p.groups[0].NumRows()
		for _, name := range names {
			leaf, _ := p.file.Schema().Lookup(name)
			group := len(p.file.RowGroups()) - len(p.groups)
			if err := p.bounded(p.file.Metadata().RowGroups[group].Columns[leaf.ColumnIndex].MetaData); err != nil {
				return record{}, fmt.Errorf("column %q: %w", name, err)
			}
			p.cursors = append(p.cursors, &cursor{node: leaf.Node, pages: p.groups[0].ColumnChunks()[leaf.ColumnIndex].Pages()})
		}
		p.groups = p.groups[1:]
	}
	p.left--
	p.row++
	r = record{where: where, values: make([]any, len(names))}
	for i, c := range p.cursors {
		if r.values[i], err = c.next(); err != nil {
			return r, fmt.Errorf("column %q: %w", names[i], err)
		}
	}
	return r, nil
}

// mostPage is how many bytes a page may have, which is unpacked whole. Writers make pages of 1 to 100 MB.
const mostPage = 256 << 20

// bounded reads the pages of a column, and fails if one announces more than a page may have, or unpacks to more than it announces: the
// library unpacks a page before it looks, and takes invalid LZ4 for a lack of room. What else is wrong the library says.
func (p *parquetFile) bounded(m format.ColumnMetaData) error {
	from := m.DataPageOffset
	if m.DictionaryPageOffset != 0 {
		from = m.DictionaryPageOffset
	}
	in := io.NewSectionReader(p.in, from, m.TotalCompressedSize)
	buffered := bufio.NewReader(in)
	for {
		var head format.PageHeader
		err := thrift.NewDecoder(new(thrift.CompactProtocol).NewReader(buffered)).Decode(&head)
		if err != nil || head.CompressedPageSize < 0 || head.UncompressedPageSize < 0 {
			return nil //nolint:nilerr // the library reports it
		}
		if n := max(head.UncompressedPageSize, head.CompressedPageSize); n > mostPage {
			return fmt.Errorf("a page has %d bytes, more than the maximum of %d: write the file with smaller pages", n, mostPage)
		}
		at, err := in.Seek(-int64(buffered.Buffered()), io.SeekCurrent) // the head has ended
		if err != nil {
			return err
		}
		var plain int32 // bytes of levels, which are not packed
		packed := true
		if v2 := head.DataPageHeaderV2; v2.Valid {
			plain = v2.V.DefinitionLevelsByteLength + v2.V.RepetitionLevelsByteLength
			packed = !v2.V.IsCompressed.Valid || v2.V.IsCompressed.V
		}
		size, most := head.CompressedPageSize-plain, head.UncompressedPageSize-plain
		if unpack := unpackers[m.Codec]; unpack != nil && packed && plain >= 0 && size >= 0 && most >= 0 {
			data := make([]byte, size)
			if _, err := in.ReadAt(data, at+int64(plain)); err != nil {
				return nil //nolint:nilerr // the library reports it
			}
			if n, err := unpack(data, int(most)); err != nil {
				return fmt.Errorf("a page does not unpack: %w", err)
			} else if n > int(most) {
				return fmt.Errorf("a page unpacks to more than the %d bytes that it announces", most)
			}
		}
		if _, err := in.Seek(at+int64(head.CompressedPageSize), io.SeekStart); err != nil {
			return err
		}
		buffered.Reset(in)
	}
}

// unpackers say by codec how many bytes data unpack to. They stop beyond most.
var unpackers = map[format.CompressionCodec]func(data []byte, most int) (int, error){
	format.Snappy: func(data []byte, _ int) (int, error) { return snappy.DecodedLen(data) },
	format.Lz4Raw: func(data []byte, most int) (int, error) { return lz4.UncompressBlock(data, make([]byte, most)) },
	format.Gzip: func(data []byte, most int) (int, error) {
		in, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return 0, err
		}
		return length(in, most)
	},
	format.Brotli: func(data []byte, most int) (int, error) { return length(brotli.NewReader(bytes.NewReader(data)), most) },
	format.Zstd: func(data []byte, most int) (int, error) {
		in, err := zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(mostPage))
		if err != nil {
			return 0, err
		}
		defer in.Close()
		return length(in, most)
	},
}

// length is how many bytes come, or most+1 if more do.
func length(in io.Reader, most int) (int, error) {
	n, err := io.Copy(io.Discard, io.LimitReader(in, int64(most)+1))
	return int(n), err
}

// A cursor reads a column of a row group.
type cursor struct {
	node   parquet.Node
	pages  parquet.Pages
	page   parquet.Page
	values parquet.ValueReader // of the page; nil once all are in the buffer
	buffer [256]parquet.Value
	at, n  int
}

func (c *cursor) next() (any, error) {
	for c.at == c.n {
		if c.values == nil {
			parquet.Release(c.page)
			page, err := c.pages.ReadPage()
			if err == io.EOF {
				return nil, io.ErrUnexpectedEOF
			} else if err != nil {
				return nil, err
			}
			c.page, c.values = page, page.Values()
		}
		n, err := c.values.ReadValues(c.buffer[:])
		if err == io.EOF {
			c.values = nil
		} else if err != nil {
			return nil, err
		} else if n == 0 {
			return nil, io.ErrNoProgress
		}
		c.at, c.n = 0, n
	}
	v := c.buffer[c.at]
	c.at++
	switch {
	case v.IsNull():
		return nil, nil
	case textual(c.node):
		return string(v.ByteArray()), nil
	}
	return v.Clone(), nil
}

func (c *cursor) close() {
	parquet.Release(c.page)
	c.pages.Close()
}

// textual is whether a column holds texts; files of old writers do not say that bytes are.
func textual(n parquet.Node) bool {
	if n.Type().Kind() != parquet.ByteArray {
		return false
	}
	switch n.Type().String() {
	case "STRING", "ENUM", "JSON", "BYTE_ARRAY":
		return true
	}
	return false
}

// plainValue is a value that encoding/json writes.
func plainValue(n parquet.Node, v parquet.Value) (any, error) {
	if l := n.Type().LogicalType(); l != nil {
		switch l := l.Value.(type) {
		case *format.TimestampType, *format.DateType:
			var at time.Time
			err := n.Type().AssignValue(reflect.ValueOf(&at).Elem(), v)
			return at, err
		case *format.IntType:
			if !l.IsSigned && v.Kind() == parquet.Int64 {
				return v.Uint64(), nil
			} else if !l.IsSigned {
				return v.Uint32(), nil
			}
		default:
			return nil, fmt.Errorf("JSON lines cannot hold %v", n.Type())
		}
	}
	switch v.Kind() {
	case parquet.Boolean:
		return v.Boolean(), nil
	case parquet.Int32, parquet.Int64:
		return v.Int64(), nil
	case parquet.Float:
		return v.Float(), finite(float64(v.Float()))
	case parquet.Double:
		return v.Double(), finite(v.Double())
	}
	return nil, fmt.Errorf("JSON lines cannot hold %v", n.Type())
}

func finite(v float64) error {
	if v-v != 0 {
		return fmt.Errorf("JSON lines cannot hold %v", v)
	}
	return nil
}
