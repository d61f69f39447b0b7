package tensor

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/internal/jsontext"
)

// jsonTensor is the form of a tensor in JSON: {"dtype": "f32", "shape": [2, 2], "data": [[1, 2], [3, 4]]}. Numbers that JSON
// lacks are the strings "NaN", "Infinity" and "-Infinity"; a scalar's data is not a list; complex types have no form. A sequence is
// written as {"sequence": […]}, and not read.
type jsonTensor struct {
	DType DType           `json:"dtype"`
	Shape Shape           `json:"shape"`
	Data  json.RawMessage `json:"data"`
}

// MarshalJSON writes the dtype, the shape, and the elements in nested lists. It fails if an element cannot be written.
func (t *Tensor) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	err := t.WriteJSON(&b)
	return b.Bytes(), err
}

// WriteJSON writes what MarshalJSON returns, in pieces, because the text of a tensor takes several times its memory. It fails with the
// error of w, for complex numbers, and for a string that is not UTF-8.
func (t *Tensor) WriteJSON(w io.Writer) error {
	out := &jsonWriter{to: w}
	out.value(t)
	out.flush()
	return out.err
}

// A jsonWriter writes pieces as they fill and keeps the first error.
type jsonWriter struct {
	to   io.Writer
	text []byte
	err  error
}

const jsonPiece = 1 << 16

func (w *jsonWriter) flush() {
	if w.err == nil {
		_, w.err = w.to.Write(w.text)
	}
	w.text = w.text[:0]
}

func (w *jsonWriter) put(text string) { w.text = append(w.text, text...) }

// value writes a tensor, or a sequence by its elements.
func (w *jsonWriter) value(t *Tensor) {
	switch {
	case t.IsSequence():
		w.put(`{"sequence": [`)
		for i, e := range t.list.elems {
			if i > 0 {
				w.put(",")
			}
			w.value(e)
		}
		w.put("]}")
		return
	case t.dtype.IsComplex():
		w.err = cmp.Or(w.err, fmt.Errorf("%s cannot be written as JSON", t.dtype))
		return
	}
	if err := t.checkText(); err != nil {
		w.err = cmp.Or(w.err, err)
		return
	}
	w.put(`{"dtype": "` + t.dtype.String() + `", "shape": ` + t.shape.String() + `, "data": `)
	w.lists(t, 0, 0, t.Len())
	w.put("}")
}

// checkText fails if an element of a tensor of strings is not UTF-8. JSON and NumPy's arrays have characters, not bytes.
func (t *Tensor) checkText() error {
	if i := jsontext.NotUTF8(t.strs); i >= 0 {
		return fmt.Errorf("element %d is %s, which is not UTF-8, and JSON and .npy cannot hold it: read it with Tensor.Strings, or from a "+
			"server as binary data", i, files.Quote(t.strs[i]))
	}
	return nil
}

// lists writes the n elements from first on, which are what is left of the tensor inside the axes before axis. Where nothing is
// left, the axes after it are not written: they may be of any size, and the shape decides.
func (w *jsonWriter) lists(t *Tensor, axis, first, n int) {
	if axis == len(t.shape) {
		w.text = t.appendElement(w.text, first)
		if len(w.text) > jsonPiece {
			w.flush()
		}
		return
	}
	w.put("[")
	if n > 0 {
		for i := range t.shape[axis] {
			if i > 0 {
				w.put(",")
			}
			w.lists(t, axis+1, first+i*(n/t.shape[axis]), n/t.shape[axis])
		}
	}
	w.put("]")
}

func (t *Tensor) appendElement(b []byte, i int) []byte {
	switch {
	case t.dtype == String:
		text, _ := json.Marshal(t.strs[i]) // value has checked that it is UTF-8
		return append(b, text...)
	case t.dtype == Bool:
		return strconv.AppendBool(b, t.data[i] != 0)
	case t.dtype == U64:
		return strconv.AppendUint(b, Of[uint64](t)[i], 10)
	case !t.dtype.IsFloat():
		return strconv.AppendInt(b, t.Int64(i), 10)
	}
	switch v := t.Float64(i); {
	case v != v:
		return append(b, `"NaN"`...)
	case math.IsInf(v, 1):
		return append(b, `"Infinity"`...)
	case math.IsInf(v, -1):
		return append(b, `"-Infinity"`...)
	case t.dtype == F64:
		return strconv.AppendFloat(b, v, 'g', -1, 64)
	default:
		return strconv.AppendFloat(b, v, 'g', -1, 32)
	}
}

// UnmarshalJSON reads what MarshalJSON writes. It fails if the text has another form.
func (t *Tensor) UnmarshalJSON(b []byte) error {
	read, err := ParseJSON(b, Invalid)
	if err == nil {
		*t = *read
	}
	return err
}

// ParseJSON reads the form of MarshalJSON, or bare nested lists. Bare lists have type d. If d is Invalid, they are i64, f32 if a number
// has a fraction or exponent, bool, or str. ParseJSON fails for a number that the type cannot hold.
func ParseJSON(b []byte, d DType) (*Tensor, error) {
	b = bytes.TrimSpace(b)
	if len(b) == 0 || b[0] != '{' {
		return parseLists(b, d)
	}
	var form jsonTensor
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&form); err != nil {
		return nil, fmt.Errorf("not a tensor in JSON: %w", err)
	}
	if form.DType == Invalid {
		form.DType = d
	}
	t, err := parseLists(form.Data, form.DType)
	if err != nil {
		return nil, err
	}
	if form.Shape != nil && !t.shape.Equal(form.Shape) {
		// Lists cannot say how large the axes after an axis of size 0 are.
		if n, err := form.Shape.CheckElements(form.DType); err != nil || n != 0 || t.Len() != 0 {
			return nil, fmt.Errorf("shape %v is given, the data has %v", form.Shape, t.shape)
		}
		t.shape = form.Shape
	}
	return t, nil
}

// parseLists reads twice: for the shape and type first, and then into the tensor. Nothing that JSON makes of its text is kept.
func parseLists(b []byte, d DType) (*Tensor, error) {
	found := I64
	shape, err := walkLists(b, func(_ int, v any) error {
		found = jsonType(found, v)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if d == Invalid {
		d = found
	}
	if d.IsComplex() {
		return nil, fmt.Errorf("%s cannot be read from JSON", d)
	}
	t := New(d, shape...)
	_, err = walkLists(b, func(i int, v any) error {
		if err := t.setJSON(i, v); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
		return nil
	})
	return t, err
}

// maxJSONRank bounds how deep lists are nested.
const maxJSONRank = 1 << 10

// walkLists visits the elements of nested lists, which must form a box, and returns its shape.
func walkLists(b []byte, visit func(i int, v any) error) (Shape, error) {
	shape, open := Shape{}, []int{} // the sizes so far, −1 for one that no list has determined; the elements of the lists that are open
	rank, elements := -1, 0         // of the elements
	l := jsonLists{text: b}
	for first := true; first || len(open) > 0; first = false {
		if len(open) > 0 {
			if end, err := l.more(open[len(open)-1] == 0); err != nil {
				return nil, err
			} else if end {
				depth := len(open) - 1
				if n := open[depth]; shape[depth] < 0 {
					shape[depth] = n
				} else if shape[depth] != n {
					return nil, fmt.Errorf("ragged lists: one has %d elements, another has %d", shape[depth], n)
				}
				open = open[:depth]
				continue
			}
			open[len(open)-1]++
		}
		if l.skip('[') {
			if len(open) == maxJSONRank {
				return nil, fmt.Errorf("lists are nested more than %d deep", maxJSONRank)
			}
			if open = append(open, 0); len(open) > len(shape) {
				shape = append(shape, -1)
			}
			continue
		}
		v, err := l.scalar()
		if err != nil {
			return nil, err
		}
		if rank < 0 {
			rank = len(open)
		}
		if rank != len(open) || rank != len(shape) {
			return nil, errBesideList
		}
		if err := visit(elements, v); err != nil {
			return nil, err
		}
		elements++
	}
	if l.space(); l.at < len(l.text) {
		return nil, errors.New("not a tensor in JSON: unexpected data after it")
	}
	if slices.Contains(shape, -1) || rank >= 0 && rank != len(shape) {
		return nil, errBesideList
	}
	return shape, nil
}

var errBesideList = errors.New("ragged lists: an element is next to a list")

// jsonLists reads the text of lists. encoding/json would make values of them first, of many times their size.
type jsonLists struct {
	text []byte
	at   int
}

func (l *jsonLists) space() {
	for l.at < len(l.text) && strings.IndexByte(" \t\r\n", l.text[l.at]) >= 0 {
		l.at++
	}
}

func (l *jsonLists) skip(c byte) bool {
	l.space()
	if l.at < len(l.text) && l.text[l.at] == c {
		l.at++
		return true
	}
	return false
}

// more passes what is between elements, and reports the end of the list.
func (l *jsonLists) more(first bool) (end bool, err error) {
	switch {
	case l.skip(']'):
		return true, nil
	case first || l.skip(','):
		return false, nil
	}
	return false, l.wrong()
}

func (l *jsonLists) wrong() error {
	if l.at == len(l.text) {
		return errors.New("not a tensor in JSON: unexpected end")
	}
	return fmt.Errorf("not a tensor in JSON: %q at byte %d", l.text[l.at], l.at)
}

// scalar reads a number, a string, a bool or null.
func (l *jsonLists) scalar() (any, error) {
	l.space()
	rest := l.text[l.at:]
	n := bytes.IndexAny(rest, ",[]{} \t\r\n")
	if len(rest) > 0 && rest[0] == '"' {
		for n = 1; n < len(rest) && rest[n] != '"'; n++ {
			if rest[n] == '\\' {
				n++
			}
		}
		n++
	}
	if n < 0 || n > len(rest) {
		n = len(rest)
	}
	if n == 0 || !json.Valid(rest[:n]) {
		return nil, l.wrong()
	}
	at := l.at
	l.at += n
	switch c := rest[0]; {
	case c == '-' || c >= '0' && c <= '9':
		return json.Number(rest[:n]), nil
	default:
		var v any
		err := jsontext.Check(rest[:n])
		if err == nil {
			err = json.Unmarshal(rest[:n], &v)
		}
		if err != nil {
			return nil, fmt.Errorf("not a tensor in JSON: byte %d: %w", at, err)
		}
		return v, nil
	}
}

// jsonType is the type of elements that come without one: of those so far, whose type is d, and another.
func jsonType(d DType, v any) DType {
	switch v := v.(type) {
	case bool:
		return Bool
	case string:
		_, special := jsonSpecial[v]
		switch {
		case d == Bool || d == String:
		case special:
			return F32
		default:
			return String
		}
	case json.Number:
		if _, err := v.Int64(); err != nil && d == I64 {
			return F32
		}
	}
	return d
}

var jsonSpecial = map[string]float64{"NaN": math.NaN(), "Infinity": math.Inf(1), "-Infinity": math.Inf(-1)}

// noValue is an element that a type does not have.
type noValue struct {
	v     any
	dtype DType
}

// Error implements error.
func (e *noValue) Error() string {
	if e.v == nil {
		return fmt.Sprintf("null is not a value of type %s", e.dtype)
	}
	return fmt.Sprintf("%v is not a value of type %s", e.v, e.dtype)
}

func (t *Tensor) setJSON(i int, v any) error {
	wrong := &noValue{v, t.dtype}
	switch v := v.(type) {
	case string:
		if special, ok := jsonSpecial[v]; ok && t.dtype.IsFloat() {
			t.SetFloat64(i, special)
			return nil
		}
		if t.dtype != String {
			return wrong
		}
		t.strs[i] = v
		return nil
	case bool:
		if t.dtype != Bool {
			return wrong
		}
		t.data[i] = 0
		if v {
			t.data[i] = 1
		}
		return nil
	case json.Number:
		return t.setNumber(i, v, wrong)
	}
	return wrong
}

func (t *Tensor) setNumber(i int, v json.Number, wrong *noValue) error {
	switch {
	case t.dtype == U64:
		n, err := strconv.ParseUint(v.String(), 10, 64)
		if err != nil {
			return wrong
		}
		Of[uint64](t)[i] = n
	case t.dtype.IsInt() || t.dtype == Bool:
		n, err := v.Int64()
		if err != nil || !t.setExact(i, n) {
			return wrong
		}
	case t.dtype.IsFloat():
		f, err := v.Float64()
		if err != nil {
			return wrong
		}
		if t.SetFloat64(i, f); math.IsInf(t.Float64(i), 0) {
			return wrong
		}
	default:
		return wrong
	}
	return nil
}
