package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/rlxc/rlxc/internal/jsontext"
	"github.com/rlxc/rlxc/internal/memory"
)

// A scanner reads JSON (RFC 8259) as it arrives. What it makes of it is asked of the request's share before it is allocated, and nothing is
// read twice.
type scanner struct {
	in    io.Reader
	share *memory.Share
	most  int // elements of a list that its reader does not bound

	buffer  *[scanBuffer]byte
	at, end int
	read    int64  // bytes before buffer
	text    []byte // what is recorded
	from    int    // of buffer; none without
	depth   int
	names   []string // of the fields so far of the objects that are open
	inLane  bool
}

// lane is what decodes more of a body than its beginning holds: one processor less than there are, so that a small request finds one at
// once and does not wait until Go's scheduler takes it from a large one, after 10 ms each time.
var lane = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1))

// leave ends the use of the lane, as waiting for more of the body does.
func (s *scanner) leave() {
	if s.inLane {
		<-lane
		s.inLane = false
	}
}

// close ends the use of the scanner.
func (s *scanner) close() {
	s.leave()
	scanBuffers.Put(s.buffer)
	s.buffer = nil
}

const (
	scanBuffer = 16 << 10 // of memory.Base
	deepest    = 64       // how deep JSON may be nested
	longNumber = 64
)

func newScanner(in io.Reader, share *memory.Share, most int) *scanner {
	return &scanner{in: in, share: share, most: most, buffer: scanBuffers.Get().(*[scanBuffer]byte), from: none}
}

// scanBuffers are those that no request uses.
var scanBuffers = sync.Pool{New: func() any { return new([scanBuffer]byte) }}

// fill reads more; io.EOF at the end.
func (s *scanner) fill() error {
	if err := s.record(); err != nil {
		return err
	}
	s.read += int64(s.end)
	s.at, s.end, s.from = 0, 0, min(s.from, 0)
	s.leave()
	for range 100 {
		n, err := s.in.Read(s.buffer[:])
		if s.end = n; n > 0 {
			if s.read > 0 {
				lane <- struct{}{}
				s.inLane = true
			}
			return nil
		}
		if err != nil {
			return bodyError(err)
		}
	}
	return bodyError(io.ErrNoProgress)
}

// bodyError is what became of reading a body, for its sender; the end is no error of it.
func bodyError(err error) error {
	var f *failure
	switch {
	case err == io.EOF || errors.As(err, &f): //nolint:errorlint // as readers return it
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &failure{status: http.StatusBadRequest, text: "the body ended before it was complete", cause: err}
	}
	for _, c := range causes {
		if errors.Is(err, c.is) {
			return err
		}
	}
	return &failure{status: http.StatusBadRequest, text: "the body ended before it was complete", cause: err}
}

func (s *scanner) notJSON(format string, args ...any) error {
	return failf(http.StatusBadRequest, "", "the body is not JSON: %s (at byte %d)", failf(0, "", format, args...).text, s.read+int64(s.at))
}

// must is the next byte, without passing it.
func (s *scanner) must() (byte, error) {
	if s.at == s.end {
		if err := s.fill(); err == io.EOF { //nolint:errorlint // as fill returns it
			return 0, s.notJSON("unexpected end")
		} else if err != nil {
			return 0, err
		}
	}
	return s.buffer[s.at], nil
}

// peek passes white space and returns the byte after it.
func (s *scanner) peek() (byte, error) {
	for {
		c, err := s.must()
		if err != nil || c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c, err
		}
		s.at++
	}
}

// expect passes a byte.
func (s *scanner) expect(want byte) error {
	c, err := s.peek()
	if err == nil && c != want {
		err = s.notJSON("%q instead of %q", c, want)
	}
	s.at++
	return err
}

// finish checks that nothing but white space is left.
func (s *scanner) finish() error {
	for {
		for ; s.at < s.end; s.at++ {
			if c := s.buffer[s.at]; c != ' ' && c != '\n' && c != '\t' && c != '\r' {
				return s.notJSON("%q after its end", c)
			}
		}
		if err := s.fill(); err == io.EOF { //nolint:errorlint // as fill returns it
			return nil
		} else if err != nil {
			return err
		}
	}
}

// list calls each before each element of a list.
func (s *scanner) list(each func(i int) error) error { return s.elements('[', ']', each) }

// fewNames is how many fields of an object are compared with each other; more are looked up.
const fewNames = 16

// perName is what a name takes where it is looked up.
const perName = 64

// object calls each before each value of an object. A field that is given twice is an error: readers differ in which of the two they take.
// path is the name of the object in errors, with a dot after it, or empty.
func (s *scanner) object(path string, each func(key string) error) error {
	outer := len(s.names)
	defer func() { s.names = s.names[:outer] }()
	var known map[string]bool
	return s.elements('{', '}', func(int) error {
		if c, err := s.peek(); err != nil {
			return err
		} else if c != '"' {
			return s.notJSON("%q instead of a field's name", c)
		}
		key, err := s.string()
		if err != nil {
			return err
		}
		names := s.names[outer:]
		if known[key] || len(names) <= fewNames && slices.Contains(names, key) {
			return invalid(path+shorten(key).(string), "it is given twice")
		}
		if s.names, err = extend(s.share, s.names, key); err != nil {
			return err
		}
		if len(names) >= fewNames {
			if known == nil {
				known = map[string]bool{}
				for _, name := range names {
					known[name] = true
				}
			}
			if err := s.share.Take(perName); err != nil {
				return err
			}
			known[key] = true
		}
		if err := s.expect(':'); err != nil {
			return err
		}
		return each(key)
	})
}

func (s *scanner) elements(open, end byte, each func(i int) error) error {
	if err := s.expect(open); err != nil {
		return err
	}
	if s.depth++; s.depth > deepest {
		return s.notJSON("nested more than %d deep", deepest)
	}
	defer func() { s.depth-- }()
	for i := 0; ; i++ {
		c, err := s.peek()
		switch {
		case err != nil:
			return err
		case c == end && i == 0:
			s.at++
			return nil
		}
		if err := each(i); err != nil {
			return err
		}
		if c, err = s.peek(); err != nil {
			return err
		}
		s.at++
		switch c {
		case end:
			return nil
		case ',':
		default:
			s.at--
			return s.notJSON("%q between elements", c)
		}
	}
}

// extend appends to a list whose memory a request answers for. What grows takes its new memory, and the old, which is garbage, too.
func extend[T any](share *memory.Share, list []T, more ...T) ([]T, error) {
	if need := len(list) + len(more); need > cap(list) {
		n := max(need, 2*cap(list), 8)
		if err := share.Take(int64(n) * int64(reflect.TypeFor[T]().Size())); err != nil {
			return list, err
		}
		list = append(make([]T, 0, n), list...)
	}
	return append(list, more...), nil
}

// written calls pass, and returns what it passed as it is written. It is valid until the next call, but for a call within pass, whose text
// is a part of it.
func (s *scanner) written(pass func() error) ([]byte, error) {
	within := s.from != none
	if !within {
		s.text, s.from = s.text[:0], s.at
	}
	err := s.record()
	begin := len(s.text)
	if err == nil {
		err = pass()
	}
	if err == nil {
		err = s.record()
	}
	if !within {
		s.from = none
	}
	return s.text[begin:], err
}

// none is where nothing is recorded.
const none = -1

// record keeps what was passed of the buffer.
func (s *scanner) record() (err error) {
	if s.from != none {
		s.text, err = extend(s.share, s.text, s.buffer[s.from:s.at]...)
		s.from = s.at
	}
	return err
}

// string reads a string.
func (s *scanner) string() (text string, err error) {
	written, err := s.written(s.quoted)
	if err != nil {
		return "", err
	}
	if err := s.share.Take(int64(len(written))); err != nil {
		return "", err
	}
	if bytes.IndexByte(written, '\\') < 0 {
		return string(written[1 : len(written)-1]), nil
	}
	return text, json.Unmarshal(written, &text) // quoted has checked it
}

// quoted passes a string.
func (s *scanner) quoted() error {
	s.at++
	for text, end := (jsontext.String{}), false; !end; {
		c, err := s.must()
		if err != nil {
			return err
		}
		if text.Plain() {
			for c != '"' && c != '\\' && ' ' <= c && c < utf8.RuneSelf {
				if s.at++; s.at == s.end {
					break
				}
				c = s.buffer[s.at]
			}
			if s.at == s.end {
				continue
			}
		}
		if end, err = text.Next(c); err != nil {
			return s.notJSON("%v", err)
		}
		s.at++
	}
	return nil
}

// word passes true, false or null, and reports whether it is there.
func (s *scanner) word(want string) error {
	for i := range len(want) {
		c, err := s.must()
		if err != nil {
			return err
		}
		if c != want[i] {
			return s.notJSON("%q instead of %s", c, want)
		}
		s.at++
	}
	return nil
}

// null passes null if it is next.
func (s *scanner) null() (bool, error) {
	if c, err := s.peek(); err != nil || c != 'n' {
		return false, err
	}
	return true, s.word("null")
}

// digits passes a number.
func (s *scanner) digits() error {
	number := jsontext.Number{}
	for n := 0; ; n++ {
		if s.at == s.end {
			if err := s.fill(); err == io.EOF { //nolint:errorlint // as fill returns it
				break
			} else if err != nil {
				return err
			}
		}
		c := s.buffer[s.at]
		if numeric := '0' <= c && c <= '9' || c == '-' || c == '+' || c == '.' || c|0x20 == 'e'; !numeric {
			if n == 0 {
				return s.notJSON("%q instead of a value", c)
			}
			break
		}
		if !number.Next(c) {
			return s.notJSON("%q in a number", c)
		}
		if s.at++; n == longNumber {
			return s.notJSON("a number of more than %d characters", longNumber)
		}
	}
	if !number.Whole() {
		return s.notJSON("a number without its end")
	}
	return nil
}

// number reads the text of a number.
func (s *scanner) number() (string, error) {
	text, err := s.written(s.digits)
	return string(text), err
}

// whole reads a whole number.
func (s *scanner) whole(field string) (int64, error) {
	text, err := s.number()
	if err != nil {
		return 0, err
	}
	n, bad := strconv.ParseInt(text, 10, 64)
	if bad != nil {
		return 0, invalid(field, "want a whole number, not %s", text)
	}
	return n, nil
}

// appendWhole reads a whole number into a list.
func (s *scanner) appendWhole(list []int64, field string) ([]int64, error) {
	n, err := s.whole(field)
	if err != nil {
		return list, err
	}
	return extend(s.share, list, n)
}

// skip passes any value, which must be JSON. path is that of object.
func (s *scanner) skip(path string) error {
	c, err := s.peek()
	if err != nil {
		return err
	}
	switch c {
	case '"':
		return s.quoted()
	case '[':
		return s.list(func(int) error { return s.skip(path) })
	case '{':
		return s.object(path, func(string) error { return s.skip(path) })
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	}
	return s.digits()
}
