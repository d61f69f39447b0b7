package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"unicode/utf8"
)

// readBody reads a body within the limits. What all bodies hold together is bounded too: release returns the bytes.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) (data []byte, release func(), err error) {
	most := s.options.MaxBody
	if r.ContentLength > most {
		return nil, nil, failf(http.StatusRequestEntityTooLarge, "", "the body has %d bytes, and the server takes %d", r.ContentLength, most)
	}
	size := r.ContentLength
	if size < 0 { // it says when it ends
		size = most
	}
	if s.bodies.Add(size) > s.options.MaxBodies {
		s.bodies.Add(-size)
		return nil, nil, failf(http.StatusTooManyRequests, "", "the server holds as many requests as it may: try again later")
	}
	release = func() { s.bodies.Add(-size) }
	defer func() {
		if err != nil {
			release()
			release = nil
		}
	}()
	in := http.MaxBytesReader(w, r.Body, most)
	if r.ContentLength >= 0 { // as it comes: a client that promises much and sends nothing takes no memory
		var b bytes.Buffer
		_, err = io.Copy(&b, in)
		data = b.Bytes()
	} else {
		data, err = io.ReadAll(in)
	}
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		err = failf(http.StatusRequestEntityTooLarge, "", "the body is longer than the %d bytes that the server takes", most)
	case err != nil:
		err = &failure{status: http.StatusBadRequest, text: "the body ended before it was complete", cause: err}
	}
	return data, release, err
}

// decode reads JSON into a struct and checks that its required fields are there. Unknown fields are let pass, as other servers do:
// clients send more than a server knows.
func decode(data []byte, to any) error {
	if !utf8.Valid(data) {
		return failf(http.StatusBadRequest, "", "the body is not UTF-8")
	}
	if err := json.Unmarshal(data, to); err != nil {
		return bodyError(err)
	}
	return checkRequired(reflect.ValueOf(to).Elem(), "")
}

// bodyError says what is wrong in terms of the body, not of Go.
func bodyError(err error) *failure {
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	var f *failure
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &syntax):
		return failf(http.StatusBadRequest, "", "the body is not JSON: %v (at byte %d)", err, syntax.Offset)
	case errors.As(err, &wrong) && wrong.Field == "":
		return failf(http.StatusBadRequest, "", "the body is a JSON %s: want an object", wrong.Value)
	case errors.As(err, &wrong):
		return invalid(wrong.Field, "want %s, not %s", wanted(wrong.Type), wrong.Value)
	}
	return failf(http.StatusBadRequest, "", "the body is not JSON: %v", err)
}

// A union is a field that takes several types.
type union interface {
	wanted() string // for people
	schema() schema
}

// wanted is what a field takes, for people.
func wanted(t reflect.Type) string {
	if u, ok := reflect.Zero(t).Interface().(union); ok {
		return u.wanted()
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Pointer:
		return wanted(t.Elem())
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return "a whole number"
}

// checkRequired finds a field that is tagged as required and is empty.
func checkRequired(v reflect.Value, path string) error {
	t := v.Type()
	for i := range t.NumField() {
		field, value := t.Field(i), v.Field(i)
		if !field.IsExported() && !field.Anonymous {
			continue
		}
		if field.Anonymous {
			if err := checkRequired(value, path); err != nil {
				return err
			}
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Tag.Get("required") != "" && value.IsZero() {
			return failf(http.StatusUnprocessableEntity, path+name, "field %q is missing: want %s", path+name, wanted(field.Type))
		}
		if _, ok := value.Interface().(union); ok {
			continue
		}
		switch {
		case value.Kind() == reflect.Struct:
			if err := checkRequired(value, path+name+"."); err != nil {
				return err
			}
		case value.Kind() == reflect.Slice && field.Type.Elem().Kind() == reflect.Struct:
			for i := range value.Len() {
				if err := checkRequired(value.Index(i), fmt.Sprintf("%s%s[%d].", path, name, i)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// inputs are one text or several, as strings or as token ids.
type inputs struct {
	texts []string
	ids   [][]int64 // by text; nil where a text is a string
	one   bool      // not a list
}

func (inputs) wanted() string { return "a string, a list of token ids, or a list of such" }

func (inputs) schema() schema {
	one := []schema{{"type": "string"}, {"type": "array", "items": schema{"type": "integer"}}}
	return schema{"oneOf": append(one, schema{"type": "array", "items": schema{"oneOf": one}})}
}

// UnmarshalJSON implements json.Unmarshaler.
func (in *inputs) UnmarshalJSON(data []byte) error {
	*in = inputs{}
	if data[0] == 'n' { // null
		return nil
	}
	if data[0] == '"' {
		in.one = true
		return in.add(data)
	}
	var list []*string
	if json.Unmarshal(data, &list) == nil { // the usual case, at once
		texts, ok := plain(list)
		if !ok {
			return in.wrong(data)
		}
		in.texts, in.ids = texts, make([][]int64, len(texts))
		return nil
	}
	if json.Unmarshal(data, &[]int64{}) == nil {
		in.one = true
		return in.add(data)
	}
	var mixed []json.RawMessage
	if err := json.Unmarshal(data, &mixed); err != nil {
		return in.wrong(data)
	}
	for _, element := range mixed {
		if err := in.add(element); err != nil {
			return err
		}
	}
	return nil
}

// add adds a text.
func (in *inputs) add(data []byte) error {
	var text string
	var ids []int64
	if data[0] == '"' {
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
	} else if err := json.Unmarshal(data, &ids); err != nil || ids == nil {
		return in.wrong(data)
	}
	in.texts, in.ids = append(in.texts, text), append(in.ids, ids)
	return nil
}

func (in *inputs) wrong(data []byte) error {
	return &json.UnmarshalTypeError{Value: kindOf(data), Type: reflect.TypeFor[inputs]()}
}

// plain are strings, if none is null.
func plain(list []*string) ([]string, bool) {
	out := make([]string, len(list))
	for i, text := range list {
		if text == nil {
			return nil, false
		}
		out[i] = *text
	}
	return out, true
}

// kindOf names what JSON text is.
func kindOf(data []byte) string {
	switch c := data[0]; {
	case c == '"':
		return "a string"
	case c == '{':
		return "an object"
	case c == '[':
		return "a list of other things"
	case c == 't' || c == 'f':
		return "true or false"
	case c == 'n':
		return "null"
	}
	return "a number"
}

// pairs are texts, or two texts together: "text", ["first", "second"], or a list of lists of one or two.
type pairs struct {
	list [][]string
	one  bool
}

func (pairs) wanted() string {
	return "a string, a pair of strings, or a list of lists of one or two strings"
}

func (pairs) schema() schema {
	text := schema{"type": "string"}
	list := schema{"type": "array", "items": text, "minItems": 1, "maxItems": 2}
	return schema{"oneOf": []schema{text, list, {"type": "array", "items": list, "minItems": 1}}}
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *pairs) UnmarshalJSON(data []byte) error {
	*p = pairs{}
	var text *string
	var list []*string
	var lists [][]*string
	switch {
	case json.Unmarshal(data, &text) == nil:
		if text == nil {
			return nil
		}
		lists = [][]*string{{text}}
		p.one = true
	case json.Unmarshal(data, &list) == nil && len(list) > 0:
		lists = [][]*string{list}
		p.one = true
	case json.Unmarshal(data, &lists) != nil:
		return p.wrong(data)
	}
	for _, l := range lists {
		texts, ok := plain(l)
		if !ok || len(texts) < 1 || len(texts) > 2 {
			return p.wrong(data)
		}
		p.list = append(p.list, texts)
	}
	return nil
}

func (p *pairs) wrong(data []byte) error {
	return &json.UnmarshalTypeError{Value: kindOf(data), Type: reflect.TypeFor[pairs]()}
}

// document is a text, or an object that has one as "text".
type document string

func (document) wanted() string { return `a string, or an object with a string "text"` }

func (document) schema() schema {
	return schema{"oneOf": []schema{{"type": "string"},
		{"type": "object", "properties": schema{"text": schema{"type": "string"}}, "required": []string{"text"}}}}
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *document) UnmarshalJSON(data []byte) error {
	var text *string
	var object struct {
		Text *string `json:"text"`
	}
	if json.Unmarshal(data, &text) != nil {
		if text = nil; json.Unmarshal(data, &object) == nil {
			text = object.Text
		}
	}
	if text == nil {
		return &json.UnmarshalTypeError{Value: kindOf(data), Type: reflect.TypeFor[document]()}
	}
	*d = document(*text)
	return nil
}

// writeJSON writes a body. It is made whole first: a value that JSON lacks, such as NaN, is an error and not half a body.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return writeBytes(w, status, "application/json", b.Bytes())
}

func writeBytes(w http.ResponseWriter, status int, kind string, data []byte) error {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	w.WriteHeader(status)
	w.Write(data) // who is gone does not read
	return nil
}
