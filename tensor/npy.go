package tensor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"
)

const (
	npyMagic = "\x93NUMPY"
	// maxNPYHeader bounds the text before the data; NumPy's own limit is 10,000 bytes.
	maxNPYHeader = 1 << 20
)

// The header of a .npy file is a Python dictionary (NumPy, numpy.lib.format).
var (
	npyDescr   = regexp.MustCompile(`'descr'\s*:\s*'([<>|=]?)([a-zA-Z]\d*)'`)
	npyFortran = regexp.MustCompile(`'fortran_order'\s*:\s*(True|False)`)
	npyShape   = regexp.MustCompile(`'shape'\s*:\s*\(([\d\s,L]*)\)`)
)

// ReadNPY reads a NumPy array (.npy, format versions 1 to 3) of any of NumPy's number types, bool, or fixed-width strings (U), in either
// byte order and either memory order. It fails for an array of more than limit bytes, and allocates no more memory than the data fills.
func ReadNPY(r io.Reader, limit int64) (*Tensor, error) {
	header, err := npyHeader(r)
	if err != nil {
		return nil, fmt.Errorf("not a .npy file: %w", err)
	}
	descr, fortran, dims := npyDescr.FindStringSubmatch(header), npyFortran.FindStringSubmatch(header), npyShape.FindStringSubmatch(header)
	if descr == nil || fortran == nil || dims == nil {
		return nil, fmt.Errorf("a .npy file of elements that are not plain numbers or strings: %.200q", header)
	}
	shape, err := npySizes(dims[1])
	if err != nil {
		return nil, err
	}
	d, width, err := npyType(descr[2])
	if err != nil {
		return nil, err
	}
	n, err := shape.CheckElements(d)
	if err != nil {
		return nil, err
	}
	if width == 0 && n > 0 {
		return nil, fmt.Errorf("shape %v of %s: the strings have no letters", shape, descr[2])
	}
	each := width
	if d == String {
		each += int(unsafe.Sizeof("")) // the text is copied
	}
	if n > 0 && int64(n) > limit/int64(each) {
		return nil, fmt.Errorf("shape %v of %s takes more memory than the limit of %d bytes", shape, descr[2], limit)
	}
	data, err := readExactly(r, n*width)
	if err != nil {
		return nil, fmt.Errorf("%s%v: %w", d, shape, err)
	}
	if d == Bool {
		for i, b := range data { // as Go's bool must be
			if b > 1 {
				data[i] = 1
			}
		}
	}
	if unit := npyUnit(d, width); descr[1] == ">" {
		for i := 0; i < len(data); i += unit {
			slices.Reverse(data[i : i+unit])
		}
	}
	if fortran[1] == "True" {
		data = rowMajor(data, width, shape)
	}
	if d == String {
		return FromStrings(utf32Strings(data, n, width), shape...), nil
	}
	return FromBytes(d, shape, data)
}

// readExactly reads n bytes and finds the end. The memory grows with what comes: a header may be false.
func readExactly(r io.Reader, n int) ([]byte, error) {
	const first = 1 << 20
	data := AlignedBytes(min(n, first))
	for have := 0; ; {
		got, err := io.ReadFull(r, data[have:])
		have += got
		switch {
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return nil, fmt.Errorf("it needs %d bytes of data, there are %d", n, have)
		case err != nil:
			return nil, err
		}
		if have == n {
			break
		}
		more := AlignedBytes(min(n, 4*have))
		copy(more, data)
		data = more
	}
	switch _, err := io.ReadFull(r, make([]byte, 1)); err {
	case io.EOF:
		return data, nil
	case nil:
		return nil, fmt.Errorf("it needs %d bytes of data, there are more", n)
	default:
		return nil, err
	}
}

// npyHeader reads up to the data and returns the dictionary.
func npyHeader(r io.Reader) (string, error) {
	head := make([]byte, len(npyMagic)+2)
	if _, err := io.ReadFull(r, head); err != nil || !bytes.HasPrefix(head, []byte(npyMagic)) {
		return "", errors.New("it does not begin like one")
	}
	var size uint32
	var err error
	switch major := head[len(npyMagic)]; major {
	case 1:
		var short uint16
		err = binary.Read(r, binary.LittleEndian, &short)
		size = uint32(short)
	case 2, 3:
		err = binary.Read(r, binary.LittleEndian, &size)
	default:
		return "", fmt.Errorf("its format version is %d", major)
	}
	if err == nil && size > maxNPYHeader {
		return "", fmt.Errorf("its header has %d bytes", size)
	}
	header := make([]byte, size)
	if err == nil {
		_, err = io.ReadFull(r, header)
	}
	if err != nil {
		return "", errors.New("its header is truncated")
	}
	return string(header), nil
}

// npyType is the element type and its width in bytes in the file.
func npyType(descr string) (d DType, width int, err error) {
	if letters, isString := strings.CutPrefix(descr, "U"); isString {
		n, err := strconv.Atoi(letters)
		if err != nil || n < 0 || n > maxNPYHeader {
			return Invalid, 0, fmt.Errorf("strings of type %q", descr)
		}
		return String, utf8.UTFMax * n, nil
	}
	for d, row := range dtypes {
		if len(row.numpy) > 1 && row.numpy[1:] == descr {
			return DType(d), DType(d).Size(), nil
		}
	}
	return Invalid, 0, fmt.Errorf("a .npy file of elements of NumPy's type %q, which is not supported", descr)
}

// npyUnit is the number of bytes that byte order reverses.
func npyUnit(d DType, width int) int {
	switch {
	case d == String:
		return utf8.UTFMax
	case d.IsComplex():
		return width / 2
	}
	return width
}

func npySizes(text string) (Shape, error) {
	shape := Shape{}
	for _, field := range strings.Split(text, ",") {
		field = strings.TrimSuffix(strings.TrimSpace(field), "L") // Python 2 wrote long integers so
		if field == "" {
			continue
		}
		n, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("shape (%.100s): %w", text, err)
		}
		shape = append(shape, n)
	}
	return shape, nil
}

// rowMajor reorders elements of the given width that are stored first axis fastest.
func rowMajor(data []byte, width int, shape Shape) []byte {
	out := make([]byte, 0, len(data))
	strides, step := make([]int, len(shape)), width
	for i, size := range shape {
		strides[i] = step
		step *= size
	}
	at := make([]int, len(shape))
	for offset := 0; len(out) < len(data); {
		out = append(out, data[offset:offset+width]...)
		for axis := len(shape) - 1; axis >= 0; axis-- {
			at[axis]++
			offset += strides[axis]
			if at[axis] < shape[axis] {
				break
			}
			offset -= at[axis] * strides[axis]
			at[axis] = 0
		}
	}
	return out
}

// utf32Strings reads strings of fixed width, padded with zeros.
func utf32Strings(data []byte, n, width int) []string {
	out := make([]string, n)
	for i := range out {
		var s strings.Builder
		for letters := data[i*width : (i+1)*width]; len(letters) > 0; letters = letters[utf8.UTFMax:] {
			r := binary.LittleEndian.Uint32(letters)
			if r == 0 {
				break
			}
			s.WriteRune(rune(r))
		}
		out[i] = s.String()
	}
	return out
}

// WriteNPY writes a NumPy array (.npy, format version 1). It fails for types that NumPy lacks (bfloat16, 8-bit floats, 4-bit integers), and
// for a string that is not UTF-8.
func WriteNPY(w io.Writer, t *Tensor) error {
	descr, letters := dtypes[t.dtype].numpy, 0
	if t.dtype == String {
		err := t.checkText()
		if err != nil {
			return err
		}
		if letters, err = letterCount(t.strs); err != nil {
			return err
		}
		descr = fmt.Sprintf("<U%d", letters)
	}
	switch {
	case t.IsSequence():
		return fmt.Errorf("a sequence is not an array: JSON can hold it")
	case descr == "":
		return fmt.Errorf("NumPy has no type for %s", t.dtype)
	}
	var sizes strings.Builder
	for _, n := range t.shape {
		fmt.Fprintf(&sizes, "%d,", n)
	}
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, sizes.String())
	const before = len(npyMagic) + 4
	padding := 63 - (before+len(header))%64 // NumPy aligns the data
	header += strings.Repeat(" ", padding) + "\n"
	if len(header) > 0xffff {
		return fmt.Errorf("shape %v has too many axes for a .npy file", t.shape)
	}
	head := append([]byte(npyMagic), 1, 0, byte(len(header)), byte(len(header)>>8))
	if _, err := w.Write(append(head, header...)); err != nil {
		return err
	}
	if letters == 0 {
		_, err := w.Write(t.data)
		return err
	}
	return writeUTF32(w, t.strs, letters)
}

// paddedStrings limits a file of strings to this many bytes plus sixteen times the bytes of the strings. NumPy pads each string to the
// length of the longest one, so that one long string among many short ones could fill the disk.
const paddedStrings = 64 << 20

// letterCount is the number of letters of the longest string, 1 for none.
func letterCount(strs []string) (int, error) {
	letters, own := 1, 0
	for _, s := range strs {
		letters = max(letters, utf8.RuneCountInString(s))
		own += len(s)
	}
	if high, bytes := bits.Mul64(uint64(letters)*utf8.UTFMax, uint64(len(strs))); high > 0 || bytes > paddedStrings+16*uint64(own) {
		return 0, fmt.Errorf("NumPy pads strings to the longest: %d strings of up to %d letters are too much for a .npy file; JSON can "+
			"hold them", len(strs), letters)
	}
	return letters, nil
}

// writeUTF32 writes strings of that many letters.
func writeUTF32(w io.Writer, strs []string, letters int) error {
	row := make([]byte, letters*utf8.UTFMax)
	for _, s := range strs {
		clear(row)
		at := 0
		for _, r := range s {
			binary.LittleEndian.PutUint32(row[at:], uint32(r))
			at += utf8.UTFMax
		}
		if _, err := w.Write(row); err != nil {
			return err
		}
	}
	return nil
}
