package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/rlxc/rlxc/pipeline"
)

// An encoder writes an answer as it is made. Until its first piece is full, an error is one that the client gets; afterwards the
// connection ends.
type encoder struct {
	ctx    context.Context
	to     http.ResponseWriter
	status int
	kind   string
	piece  []byte
	begun  bool
}

const fullPiece = 16 << 10

// A streamed value writes itself.
type streamed interface{ stream(e *encoder) error }

var streams, vectorType = reflect.TypeFor[streamed](), reflect.TypeFor[[]float32]()

// A listOf is a list whose elements are made while it is written.
type listOf[T any] func(yield func(T) error) error

// pieces are buffers that no request uses.
var pieces = sync.Pool{New: func() any { return new([]byte) }}

// writeJSON writes a body. A value that JSON lacks, such as NaN, is an error.
func writeJSON(ctx context.Context, w http.ResponseWriter, status int, v any) error {
	piece := pieces.Get().(*[]byte)
	e := &encoder{ctx: ctx, to: w, status: status, kind: "application/json", piece: (*piece)[:0]}
	err := e.end(e.value(reflect.ValueOf(v)))
	if cap(e.piece) <= 2*fullPiece {
		*piece = e.piece
		pieces.Put(piece)
	}
	return err
}

func writeBytes(w http.ResponseWriter, status int, kind string, data []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	w.Write(data) //nolint:errcheck // who is gone does not read
}

// end writes what is left. An error that comes too late for the client ends the connection.
func (e *encoder) end(err error) error {
	if err == nil && !e.begun {
		e.to.Header().Set("Content-Length", strconv.Itoa(len(e.piece)))
	}
	if err == nil {
		err = e.flush()
	}
	if err != nil && e.begun {
		recordOf(e.ctx).err = err
		panic(http.ErrAbortHandler)
	}
	return err
}

// flush sends the piece. Who does not read it in the time that the request has is cut off.
func (e *encoder) flush() error {
	if err := e.ctx.Err(); err != nil {
		return err
	}
	if !e.begun {
		e.begun = true
		e.to.Header().Set("Content-Type", e.kind)
		e.to.WriteHeader(e.status)
		if end, ok := e.ctx.Deadline(); ok {
			http.NewResponseController(e.to).SetWriteDeadline(end.Add(time.Second)) //nolint:errcheck // not every writer has one
		}
	}
	_, err := e.to.Write(e.piece)
	e.piece = e.piece[:0]
	return err
}

// put adds text.
func (e *encoder) put(text ...byte) error {
	e.piece = append(e.piece, text...)
	if len(e.piece) < fullPiece {
		return nil
	}
	return e.flush()
}

// value writes any value, as encoding/json does but for the escapes of HTML.
func (e *encoder) value(v reflect.Value) error {
	if !v.IsValid() {
		return e.put([]byte("null")...)
	}
	if v.Type().Implements(streams) {
		return v.Interface().(streamed).stream(e)
	}
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		return e.value(v.Elem())
	case reflect.String:
		return e.string(v.String())
	case reflect.Float32, reflect.Float64:
		return e.float(v.Float(), v.Type().Bits())
	case reflect.Int:
		e.piece = strconv.AppendInt(e.piece, v.Int(), 10)
		return e.put()
	case reflect.Slice:
		if v.IsNil() {
			return e.put([]byte("null")...)
		}
		if v.Type() == vectorType {
			return e.vector(v.Interface().([]float32))
		}
		return e.list(v.Len(), func(i int) error { return e.value(v.Index(i)) })
	case reflect.Struct:
		return e.object(v)
	}
	var b bytes.Buffer
	j := json.NewEncoder(&b)
	j.SetEscapeHTML(false)
	if err := j.Encode(v.Interface()); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return e.put(bytes.TrimSpace(b.Bytes())...)
}

// vector writes a list of numbers, which most of most answers is.
func (e *encoder) vector(v []float32) error {
	e.piece = append(e.piece, '[')
	for i, x := range v {
		if i > 0 {
			e.piece = append(e.piece, ',')
		}
		if err := e.float(float64(x), 32); err != nil {
			return err
		}
	}
	return e.put(']')
}

// A base64Vector is written as pipeline.AppendBase64 writes it.
type base64Vector []float32

// stream implements streamed.
func (v base64Vector) stream(e *encoder) error {
	e.piece = pipeline.AppendBase64(append(e.piece, '"'), v)
	return e.put('"')
}

// list writes n elements.
func (e *encoder) list(n int, each func(i int) error) error {
	return listOf[int](func(yield func(int) error) error {
		for i := range n {
			if err := yield(i); err != nil {
				return err
			}
		}
		return nil
	}).each(e, each)
}

// made is a list whose elements are made of others while it is written.
func made[T, U any](from []T, element func(T) U) listOf[U] {
	return func(yield func(U) error) error {
		for _, x := range from {
			if err := yield(element(x)); err != nil {
				return err
			}
		}
		return nil
	}
}

func (l listOf[T]) each(e *encoder, write func(T) error) error {
	if err := e.put('['); err != nil {
		return err
	}
	first := true
	if err := l(func(x T) error {
		if !first {
			if err := e.put(','); err != nil {
				return err
			}
		}
		first = false
		return write(x)
	}); err != nil {
		return err
	}
	return e.put(']')
}

func (l listOf[T]) stream(e *encoder) error {
	return l.each(e, func(x T) error { return e.value(reflect.ValueOf(x)) })
}

func (e *encoder) object(v reflect.Value) error {
	if err := e.put('{'); err != nil {
		return err
	}
	separator := ""
	for _, f := range tagsOf(v.Type()) {
		if f.name == "" || f.omit && v.Field(f.at).IsZero() {
			continue
		}
		e.piece = append(append(append(append(e.piece, separator...), '"'), f.name...), `":`...)
		separator = ","
		if err := e.value(v.Field(f.at)); err != nil {
			return err
		}
	}
	return e.put('}')
}

// isFinite reports whether a number is neither NaN nor infinite.
func isFinite(x float64) bool { return x-x == 0 }

// plain reports whether a string is written as it is.
func plain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// string writes a string, a piece at a time.
func (e *encoder) string(text string) error {
	if err := e.put('"'); err != nil {
		return err
	}
	for len(text) > 0 {
		n := min(len(text), fullPiece)
		for n < len(text) && n > fullPiece-utf8.UTFMax && !utf8.RuneStart(text[n]) {
			n--
		}
		if plain(text[:n]) {
			e.piece = append(e.piece, text[:n]...)
		} else {
			var b bytes.Buffer
			j := json.NewEncoder(&b)
			j.SetEscapeHTML(false)
			j.Encode(text[:n]) //nolint:errcheck // of a string
			e.piece = append(e.piece, b.Bytes()[1:b.Len()-2]...)
		}
		if err := e.put(); err != nil {
			return err
		}
		text = text[n:]
	}
	return e.put('"')
}

// float writes a number. NaN and infinities, which JSON lacks, are what the model returned for this request's texts.
func (e *encoder) float(x float64, bits int) error {
	if !isFinite(x) {
		return failf(http.StatusUnprocessableEntity, "", "the model returned %v for an input: JSON cannot hold it", x)
	}
	e.piece = strconv.AppendFloat(e.piece, x, 'g', -1, bits)
	return e.put()
}
