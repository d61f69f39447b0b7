package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
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

// A parquetFile reads the rows of a Parquet file. It reads the columns that a command uses, page by page.
type parquetFile struct {
	name    string
	in      io.ReaderAt
	changed func() error // fails if the file was changed after it was opened
	file    *parquet.File
	groups  []parquet.RowGroup // to come
	left    int64              // rows of the group that is read
	row     int64
	cursors [][]*cursor // for each column that is read, a cursor for each of its leaves
}

func parquetRecords(in *textFile) (_ records, err error) {
	defer damaged(in.name, &err)
	var end [8]byte
	if _, err := in.file.ReadAt(end[:], max(0, in.size()-8)); err != nil && err != io.EOF {
		return nil, err
	}
	if string(end[4:]) != "PAR1" || int64(binary.LittleEndian.Uint32(end[:])) > in.size()-12 {
		return nil, errors.New("no Parquet footer at the end")
	}
	if n := binary.LittleEndian.Uint32(end[:]); n > mostFooter {
		return nil, fmt.Errorf("its footer has %d bytes, more than the maximum of %d: write it with larger row groups, or fewer columns",
			n, mostFooter)
	}
	file, err := parquet.OpenFile(in.file, in.size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, err
	}
	return &parquetFile{name: in.name, in: in.file, changed: in.changed, file: file, groups: file.RowGroups()}, nil
}

// damaged turns a panic of the library into an error, and adds the name of the file to every error but io.EOF.
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

func (p *parquetFile) next(names []string) (record, error) {
	r, err := p.nextRow(names)
	if err != nil { // a file that was changed ends early, or seems damaged
		err = cmp.Or(p.changed(), err)
	}
	return r, err
}

func (p *parquetFile) nextRow(names []string) (r record, err error) {
	where := fmt.Sprintf("%s: row %d", p.name, p.row+1)
	defer damaged(where, &err)
	for p.left <= 0 {
		for _, c := range slices.Concat(p.cursors...) {
			c.close()
		}
		p.cursors = nil
		if len(p.groups) == 0 {
			return record{}, io.EOF
		}
		p.left = p.groups[0].NumRows()
		held := int64(0)
		for _, name := range names {
			var column []*cursor
			for _, path := range p.file.Schema().Columns() {
				if path[0] != name {
					continue
				}
				leaf, _ := p.file.Schema().Lookup(path...)
				group := len(p.file.RowGroups()) - len(p.groups)
				n, err := p.bounded(p.file.Metadata().RowGroups[group].Columns[leaf.ColumnIndex].MetaData, leaf, p.left)
				if err != nil {
					return record{}, fmt.Errorf("column %q: %w", name, err)
				} else if held += n; held > mostHeld {
					return record{}, fmt.Errorf("column %q: pages of %d MiB would be in memory at a time, more than the maximum "+
						"of %d MiB: write the file with smaller pages, or read fewer columns", name, held>>20, mostHeld>>20)
				}
				column = append(column, &cursor{pages: p.groups[0].ColumnChunks()[leaf.ColumnIndex].Pages()})
			}
			if held > muchHeld {
				boundGarbage()
			}
			p.cursors = append(p.cursors, column)
		}
		p.groups = p.groups[1:]
	}
	p.left--
	p.row++
	r = record{where: where, values: make([]any, len(names))}
	for i, c := range p.cursors {
		if r.values[i], err = rowOf(c, p.node(names[i])); err != nil {
			return r, fmt.Errorf("column %q: %w", names[i], err)
		}
	}
	return r, nil
}

const (
	// mostPage is how many bytes a page may have, which is unpacked whole. Writers make pages of 1 to 100 MB.
	mostPage = 256 << 20
	// mostValues is how many values a page may have, which are decoded whole: ten bytes can hold 2³¹ equal ones. Writers end a page
	// after 20,000 values or 1 MiB, which are 8 Mi indices of one bit.
	mostValues = 16 << 20
	// mostHeld is how many bytes a reader may hold: of all columns that it reads, a dictionary, the page whose values are read, and the
	// next page while it is unpacked. Two pages of DuckDB, which have 100 MB at most, take 300 to 350 MB.
	mostHeld = 512 << 20
	// muchHeld is how many bytes a reader holds before it bounds garbage: by Go's rule, as many bytes of pages that were read wait to be
	// collected as are held. Pages of 100 MB took 710 MB of resident memory so, of which 340 MB were held.
	muchHeld = 64 << 20
	// mostFooter is how many bytes the description of a file may have, which becomes several times that: 300,000 pieces of columns.
	mostFooter = 32 << 20
	// padding is how many values a run may have in excess of its page: writers fill it up to a multiple of 8, or of 256.
	padding = 256
)

var (
	errManyValues = errors.New("a page holds more values than it announces")
	errLengths    = errors.New("a page holds lengths that are not valid")
)

// bounded reads the pages of a column of a row group, which has that many rows. It returns how many bytes of them the library holds at a
// time. It fails if the library would allocate more for a page than a page may have, because the library unpacks and decodes a page
// before it compares the page with what the header announces. The library reports other faults.
func (p *parquetFile) bounded(m format.ColumnMetaData, leaf parquet.LeafColumn, rows int64) (held int64, err error) {
	at := m.DataPageOffset
	if m.DictionaryPageOffset != 0 {
		at = m.DictionaryPageOffset
	}
	end := min(at+m.TotalCompressedSize, p.file.Size())
	var dictionary, last int64 // bytes that are held of the dictionary, and of the page before this one
	if leaf.MaxRepetitionLevel > 0 {
		rows = m.NumValues
	}
	for {
		head, n, err := pageHead(io.NewSectionReader(p.in, at, max(0, end-at)))
		if err != nil || head.CompressedPageSize < 0 || head.UncompressedPageSize < 0 {
			return held, nil //nolint:nilerr // the library reports it
		}
		at += n
		if n := max(head.UncompressedPageSize, head.CompressedPageSize); n > mostPage {
			return 0, fmt.Errorf("a page has %d bytes, more than the maximum of %d: write the file with smaller pages", n, mostPage)
		} else if int64(head.CompressedPageSize) > end-at {
			return 0, fmt.Errorf("a page has %d bytes, but %d are left", head.CompressedPageSize, end-at)
		}
		values, size, err := boundedPage(head, io.NewSectionReader(p.in, at, int64(head.CompressedPageSize)), m.Codec, leaf, rows)
		if err != nil {
			return 0, err
		}
		size += int64(head.UncompressedPageSize) / 2 // the library rounds sizes of buffers up, by less than a half
		held = max(held, dictionary+last+size+n+int64(head.CompressedPageSize)*3/2)
		if head.Type == format.DictionaryPage {
			dictionary = size
		} else {
			last = size
		}
		rows -= values
		at += int64(head.CompressedPageSize)
	}
}

// pageHead decodes the header at the beginning of in, which has n bytes. It decodes bytes that it has read, because the decoder of a
// stream allocates whatever length a text of the header announces.
func pageHead(in *io.SectionReader) (head format.PageHeader, n int64, err error) {
	for size := int64(4 << 10); ; size *= 2 {
		data := make([]byte, min(size, in.Size()))
		if _, err := in.ReadAt(data, 0); err != nil {
			return head, 0, err
		}
		head = format.PageHeader{}
		r := new(thrift.CompactProtocol).NewReaderFromBytes(data)
		if err := thrift.NewDecoder(r).Decode(&head); err == nil || size >= min(in.Size(), mostPage) {
			return head, int64(r.BytesRead()), err
		}
	}
}

// boundedPage checks one page. It returns how many values of the column the page has, none if it is a dictionary, and how many bytes the
// page takes once it is unpacked and decoded. rows is the number of values of the column in the group that follow the pages before it.
func boundedPage(head format.PageHeader, in *io.SectionReader, codec format.CompressionCodec, leaf parquet.LeafColumn, rows int64) (
	values, size int64, err error,
) {
	var encoding format.Encoding
	var plain int64 // bytes before those that are packed: levels, in a page of version 2
	packed := true
	levels := []int{leaf.MaxRepetitionLevel, leaf.MaxDefinitionLevel} // highest ones, in the order of the page
	var inPage []format.Encoding                                      // encodings of the levels of a page of version 1
	v1, v2, dictionary := head.DataPageHeader, head.DataPageHeaderV2, head.DictionaryPageHeader
	switch {
	case head.Type == format.DataPage && v1.Valid && !dictionary.Valid:
		values, encoding = int64(v1.V.NumValues), v1.V.Encoding
		inPage = []format.Encoding{v1.V.RepetitionLevelEncoding, v1.V.DefinitionLevelEncoding}
	case head.Type == format.DataPageV2 && v2.Valid && !dictionary.Valid:
		values, encoding = int64(v2.V.NumValues), v2.V.Encoding
		repetition, definition := int64(v2.V.RepetitionLevelsByteLength), int64(v2.V.DefinitionLevelsByteLength)
		plain = repetition + definition
		packed = (!v2.V.IsCompressed.Valid || v2.V.IsCompressed.V) && in.Size() > plain
		if min(values, repetition, definition) < 0 || plain > min(in.Size(), int64(head.UncompressedPageSize)) {
			return 0, 0, errors.New("a page has levels of more bytes than the page")
		}
		for i, part := range [][2]int64{{0, repetition}, {repetition, definition}} {
			if levels[i] > 0 && values <= mostValues {
				of := bufio.NewReader(io.NewSectionReader(in, part[0], part[1]))
				if err := runs(of, int64(bits.Len(uint(levels[i]))), values); err != nil {
					return 0, 0, err
				}
			}
		}
	case head.Type == format.DictionaryPage && dictionary.Valid:
		values, encoding = int64(dictionary.V.NumValues), dictionary.V.Encoding
		//lint:ignore SA1019 files of data page version 1 have it
		if encoding == format.PlainDictionary {
			encoding = format.Plain
		} else if encoding != format.Plain {
			return 0, 0, fmt.Errorf("a dictionary is in the encoding %v, not PLAIN", encoding)
		}
	default:
		return 0, 0, fmt.Errorf("a page of the type %v has another header", head.Type)
	}
	width := int64(1)
	if leaf.Node.Type().Kind() == parquet.FixedLenByteArray {
		width = max(width, int64(leaf.Node.Type().Length()))
	}
	switch {
	case values > mostValues:
		return 0, 0, fmt.Errorf("a page has %d values, more than the maximum of %d: write the file with smaller pages", values, mostValues)
	case head.Type != format.DictionaryPage && values > rows:
		return 0, 0, fmt.Errorf("a page has %d values, but %d are left in its group", values, rows)
	case values*width > mostPage:
		return 0, 0, fmt.Errorf("a page has %d values of %d bytes, more than the maximum of %d bytes: write the file with smaller pages",
			values, width, mostPage)
	}

	rest := io.NewSectionReader(in, plain, in.Size()-plain)
	body := &pageBody{in: rest, left: int64(head.UncompressedPageSize) - plain}
	if unpack := unpackers[codec]; unpack != nil && packed {
		if body.in, err = unpack(rest, int(body.left)); err != nil {
			return 0, 0, fmt.Errorf("a page does not unpack: %w", err)
		}
	}
	content := bufio.NewReader(body)
	size = int64(head.UncompressedPageSize) + 2*values // a byte for each level
	for i, of := range inPage {
		if levels[i] > 0 && err == nil {
			err = packedRuns(content, of, levels[i], values)
		}
	}
	if _, end := content.Peek(1); end == nil && err == nil {
		if count := counters[encoding]; count == nil {
			err = fmt.Errorf("a page is in the encoding %v, which is not supported", encoding)
		} else {
			var decoded int64
			if decoded, err = count(content, leaf.Node.Type().Kind(), values); err == io.EOF || err == io.ErrUnexpectedEOF {
				err = errors.New("a page ends before its values do")
			}
			size += decoded
		}
	}
	_, _ = io.Copy(io.Discard, content) // body has the error
	if body.err != io.EOF {
		return 0, 0, fmt.Errorf("a page does not unpack: %w", body.err)
	}
	if head.Type == format.DictionaryPage {
		values = 0
	}
	return values, size, err
}

// A pageBody reads the bytes of a page, at most left of them. err is the first error, io.EOF after all of them.
type pageBody struct {
	in   io.Reader
	left int64
	err  error
}

func (b *pageBody) Read(data []byte) (n int, err error) {
	if b.err == nil {
		n, b.err = b.in.Read(data)
		if b.left -= int64(n); b.left < 0 {
			b.err = errors.New("it has more bytes than it announces")
		}
	}
	return n, b.err
}

// unpackers unpack data by codec. They allocate the packed data once, and most bytes, or what the data really have.
var unpackers = map[format.CompressionCodec]func(in *io.SectionReader, most int) (io.Reader, error){
	format.Snappy: func(in *io.SectionReader, most int) (io.Reader, error) {
		data, err := wholeOf(in)
		if err != nil {
			return nil, err
		}
		if n, err := snappy.DecodedLen(data); err != nil {
			return nil, err
		} else if n > most {
			return nil, fmt.Errorf("it has %d bytes and announces %d", n, most)
		}
		data, err = snappy.Decode(nil, data)
		return bytes.NewReader(data), err
	},
	format.Lz4Raw: func(in *io.SectionReader, most int) (io.Reader, error) {
		data, err := wholeOf(in)
		if err != nil {
			return nil, err
		}
		// The library unpacks into other memory if the page has less room than this, and then decodes what the page's memory had before.
		if most < 3*len(data) {
			return nil, errors.New("LZ4 is read only from pages that it shrinks to a third: write the file with Zstandard")
		}
		out := make([]byte, min(most, 255*len(data))) // a byte of LZ4 stands for 255 at most
		n, err := lz4.UncompressBlock(data, out)
		if err != nil {
			return nil, err
		}
		return bytes.NewReader(out[:n]), nil
	},
	format.Gzip:   func(in *io.SectionReader, _ int) (io.Reader, error) { return gzip.NewReader(in) },
	format.Brotli: func(in *io.SectionReader, _ int) (io.Reader, error) { return brotli.NewReader(in), nil },
	format.Zstd: func(in *io.SectionReader, _ int) (io.Reader, error) {
		return zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(mostPage))
	},
}

// wholeOf reads in whole. It allocates the bytes of in once, where io.ReadAll leaves several times as many as garbage.
func wholeOf(in *io.SectionReader) ([]byte, error) {
	data := make([]byte, in.Size())
	_, err := io.ReadFull(in, data)
	return data, err
}

// counters fail by encoding if the library would decode data to more values than that. They return how many bytes the library allocates
// for the values, beside those of the page and of the levels.
var counters = map[format.Encoding]func(in *bufio.Reader, kind parquet.Kind, values int64) (decoded int64, err error){
	format.Plain: plainTexts,
	//lint:ignore SA1019 files of data page version 1 have it
	format.PlainDictionary: indices,
	format.RLEDictionary:   indices,
	format.RLE:             booleans,
	format.DeltaBinaryPacked: func(in *bufio.Reader, _ parquet.Kind, values int64) (int64, error) {
		_, err := deltas(in, values, false)
		return numberBytes * values, err
	},
	format.DeltaLengthByteArray: func(in *bufio.Reader, _ parquet.Kind, values int64) (int64, error) {
		_, err := deltas(in, values, true)
		return 2 * indexBytes * values, err // lengths, and where each text begins
	},
	format.DeltaByteArray: prefixedTexts,
	format.ByteStreamSplit: func(_ *bufio.Reader, _ parquet.Kind, values int64) (int64, error) {
		return numberBytes * values, nil
	},
}

// Bytes of an index or a length, and of the widest number.
const (
	indexBytes  = 4
	numberBytes = 8
)

func plainTexts(in *bufio.Reader, kind parquet.Kind, values int64) (int64, error) {
	if kind != parquet.ByteArray {
		return 0, nil // the page is decoded in place
	}
	for n := int64(0); ; n++ {
		var length [4]byte
		if _, err := io.ReadFull(in, length[:]); err != nil {
			return indexBytes * values, nil //nolint:nilerr // the library reports it
		} else if n == values {
			return 0, errManyValues
		}
		if _, err := in.Discard(int(binary.LittleEndian.Uint32(length[:]))); err != nil {
			return indexBytes * values, nil //nolint:nilerr // the library reports it
		}
	}
}

// indices reads indices of a dictionary, which begin with how many bits one has.
func indices(in *bufio.Reader, _ parquet.Kind, values int64) (int64, error) {
	width, err := in.ReadByte()
	if err != nil {
		return 0, err
	}
	return indexBytes * values, runs(in, int64(width), values)
}

func booleans(in *bufio.Reader, kind parquet.Kind, values int64) (int64, error) {
	if kind != parquet.Boolean {
		return 0, fmt.Errorf("a page of %v is in the encoding RLE, which is for booleans", kind)
	}
	return values, packedRuns(in, format.RLE, 1, values)
}

// packedRuns reads levels of at most highest, or booleans, which begin with how many bytes they have.
func packedRuns(in *bufio.Reader, encoding format.Encoding, highest int, values int64) error {
	width := int64(bits.Len(uint(highest)))
	var length [4]byte
	if _, err := io.ReadFull(in, length[:]); err != nil {
		return nil //nolint:nilerr // the library reports it
	}
	n := int64(binary.LittleEndian.Uint32(length[:]))
	packed := bufio.NewReader(io.LimitReader(in, n))
	if encoding != format.BitPacked {
		if err := runs(packed, width, values); err != nil {
			return err
		}
	} else if 8*n > width*(values+padding) {
		return errManyValues
	}
	_, err := io.Copy(io.Discard, packed)
	return err
}

// runs reads runs of values of width bits: a value and how often it follows, or values in groups of 8. It counts a run before it reads
// the run, because the library allocates it in that order.
func runs(in *bufio.Reader, width, values int64) error {
	for left := values + padding; ; {
		head, err := binary.ReadUvarint(in)
		if err != nil {
			return nil //nolint:nilerr // the library reports it
		}
		n, size := head>>1, (width+7)/8
		if n == 0 {
			continue // no value follows
		} else if n > uint64(left) {
			return errManyValues
		}
		if head&1 != 0 {
			n, size = 8*n, int64(n)*width
		}
		if left -= int64(n); left < 0 {
			return errManyValues
		}
		if _, err := in.Discard(int(size)); err != nil {
			return nil //nolint:nilerr // the library reports it
		}
	}
}

// prefixedTexts reads how many bytes each text of a page shares with the text before it, and how many bytes it has besides.
func prefixedTexts(in *bufio.Reader, _ parquet.Kind, values int64) (int64, error) {
	prefixes, err := deltas(in, values, true)
	if err != nil {
		return 0, err
	}
	suffixes, err := deltas(in, values, true)
	if err != nil {
		return 0, err
	}
	return 3*(prefixes+suffixes) + 3*indexBytes*values, nil // the library grows the texts by appending
}

// deltas reads how many numbers of DELTA_BINARY_PACKED follow. If they are lengths, it reads them too and returns their sum.
// The library allocates their sum in 32 bits before it compares it with the data, so that no length may be negative or missing.
func deltas(in *bufio.Reader, values int64, lengths bool) (sum int64, err error) {
	var head [3]uint64 // numbers of a block, its parts, and numbers in all
	for i := range head {
		if head[i], err = binary.ReadUvarint(in); err != nil {
			return 0, err
		}
	}
	first, err := binary.ReadVarint(in)
	if err != nil {
		return 0, err
	} else if head[2] > uint64(values) {
		return 0, errManyValues
	}
	total := int(head[2])
	if !lengths || total == 0 {
		return 0, nil
	}
	const mostBlock = 1 << 16 // the library refuses larger blocks, too
	if head[0] > mostBlock || head[1] == 0 || head[0] < head[1] || head[0]/head[1]%32 != 0 || first != int64(int32(first)) || first < 0 {
		return 0, errLengths
	}
	part, widths := int(head[0]/head[1]), make([]byte, head[1])
	packed := make([]byte, 4*part+8) // numbers of a part, of up to 32 bits, and room to read 64 bits from any of them
	last, sum := int32(first), first
	for total--; total > 0; {
		least, err := binary.ReadVarint(in)
		if err != nil {
			return 0, err
		}
		if _, err := io.ReadFull(in, widths); err != nil {
			return 0, err
		}
		for _, w := range widths {
			width := int(w)
			if width > 32 {
				return 0, errLengths
			}
			if _, err := io.ReadFull(in, packed[:part*width/8]); err != nil {
				return 0, err
			}
			n := min(part, total)
			for i := range n {
				delta := binary.LittleEndian.Uint64(packed[i*width/8:]) >> (i * width % 8)
				if last += int32(least) + int32(uint32(delta&(1<<width-1))); last < 0 {
					return 0, errLengths
				}
				sum += int64(last)
			}
			if total -= n; total == 0 {
				break
			}
		}
	}
	return sum, nil
}

// A cursor reads a leaf column of a row group.
type cursor struct {
	pages  parquet.Pages
	page   parquet.Page
	values parquet.ValueReader // values of the page that are not in the buffer; nil if there are none
	buffer [256]parquet.Value
	at, n  int
}

// rowOf reads the values of a row. Their type is the one of records.next.
func rowOf(column []*cursor, n parquet.Node) (any, error) {
	if single(n) {
		v, err := column[0].next()
		switch {
		case err != nil || v.IsNull():
			return nil, err
		case textual(n):
			return string(v.ByteArray()), nil
		}
		return v.Clone(), nil
	}
	row, size := make(nested, len(column)), 0
	for i, c := range column {
		v, err := c.next()
		for err == nil {
			if size += nestedBytes(v); size > maxLine {
				return nil, errLongLine
			}
			row[i] = append(row[i], v.Clone())
			if err = c.fill(); err == nil && c.buffer[c.at].RepetitionLevel() > 0 {
				v, err = c.next()
				continue
			}
			break
		}
		if err != nil && err != io.EOF {
			return nil, err
		}
	}
	return row, nil
}

// fill has a value in the buffer; io.EOF after the last one.
func (c *cursor) fill() error {
	for c.at == c.n {
		if c.values == nil {
			parquet.Release(c.page)
			c.page = nil
			page, err := c.pages.ReadPage()
			if err != nil {
				return err
			}
			c.page, c.values = page, page.Values()
		}
		n, err := c.values.ReadValues(c.buffer[:])
		if err == io.EOF {
			c.values = nil
		} else if err != nil {
			return err
		} else if n == 0 {
			return io.ErrNoProgress
		}
		c.at, c.n = 0, n
	}
	return nil
}

// next returns a value, which is valid until the next call.
func (c *cursor) next() (parquet.Value, error) {
	if err := c.fill(); err == io.EOF {
		return parquet.Value{}, io.ErrUnexpectedEOF
	} else if err != nil {
		return parquet.Value{}, err
	}
	c.at++
	return c.buffer[c.at-1], nil
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
