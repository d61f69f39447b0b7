package server

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A union is a field that takes several types.
type union interface {
	wanted() string // for people
	schema() schema
}

// decodable is a field that reads itself. begins says which bytes its JSON may begin with.
type decodable interface {
	union
	begins() string
	decode(s *scanner, field string) error
}

// A convertible is a field that can have the value of a field of another type, which was read before. It ignores values of types that it
// does not know.
type convertible interface{ convert(from any) }

// decode reads a body into the first of the structs that has all of its fields, or says what is wrong with the one that fits best. Fields
// that none of them has, and fields that are there twice, are errors. It returns which one it is.
func (s *scanner) decode(structs ...any) (int, error) {
	defer s.close()
	to := make([]reflect.Value, len(structs))
	for i, x := range structs {
		to[i] = reflect.ValueOf(x).Elem()
	}
	if c, err := s.peek(); err != nil {
		return 0, err
	} else if c != '{' {
		return 0, failf(http.StatusBadRequest, "", "the body is %s: want an object", kindOf(c))
	}
	i, err := s.decodeStruct(to, "")
	if err == nil {
		err = s.finish()
	}
	return i, err
}

// decodeStruct reads an object into the first of several structs that has all of its fields.
func (s *scanner) decodeStruct(to []reflect.Value, path string) (int, error) {
	strange, err := s.structs(to, path)
	if err != nil {
		return 0, err
	}
	best := 0
	for i, unknown := range strange {
		err := wrong(to[i], path)
		if unknown == nil && err == nil {
			return i, nil
		}
		if unknown == nil || err == nil {
			best = i
		}
	}
	if err := wrong(to[best], path); err != nil {
		return best, err
	}
	return best, strange[best]()
}

// structs reads an object into several structs. A value goes to the first that takes it, and an object to all that do. It returns the
// error of the first field that each struct does not have; null is not a value.
func (s *scanner) structs(to []reflect.Value, path string) (strange []func() error, err error) {
	strange = make([]func() error, len(to))
	note := func(i int, err func() error) {
		if strange[i] == nil {
			strange[i] = err
		}
	}
	return strange, s.object(path, func(key string) error {
		key = shorten(key).(string)
		c, err := s.peek()
		if err != nil {
			return err
		}
		taken := -1 // by the first that takes such a value, or else by the last that has the field, for its error
		var objects []reflect.Value
		var of []int
		for i := range to {
			f, ok := fieldOf(to[i], key)
			if ok && (taken < 0 || !begins(field(to[taken], key), c)) {
				taken = i
			}
			switch {
			case c == 'n' && !ok:
			case !ok:
				note(i, func() error { return unknown(path+key, to[i:i+1]) })
			case !begins(f, c):
				note(i, func() error { return invalid(path+key, "it is %s, which does not go with the other fields", kindOf(c)) })
			case c == '{' && plainStruct(f):
				objects, of = append(objects, f), append(of, i)
			}
		}
		switch {
		case taken < 0 && c == 'n':
			return s.word("null")
		case taken < 0:
			return unknown(path+key, to)
		}
		value := field(to[taken], key)
		if c == '{' && plainStruct(value) {
			inner, err := s.structs(objects, path+key+".")
			for k, i := range of {
				note(i, inner[k])
			}
			return err
		}
		if err := s.value(value, path+key); err != nil {
			return err
		}
		for i := range to {
			f, ok := fieldOf(to[i], key)
			if !ok || i == taken {
				continue
			}
			if f.Type() == value.Type() {
				f.Set(value)
			} else if other, ok := f.Addr().Interface().(convertible); ok {
				other.convert(value.Interface())
			}
		}
		return nil
	})
}

// unknown is the error of a field that none of some structs has.
func unknown(name string, structs []reflect.Value) error {
	var known []string
	for _, v := range structs {
		known = append(known, fieldNames(v.Type())...)
	}
	slices.Sort(known)
	return invalid(name, "it is unknown here: the fields are %s", strings.Join(slices.Compact(known), ", "))
}

// plainStruct reports whether a field is an object whose fields are those of a struct.
func plainStruct(f reflect.Value) bool {
	_, own := f.Addr().Interface().(decodable)
	return f.Kind() == reflect.Struct && !own
}

func begins(f reflect.Value, c byte) bool {
	if d, ok := f.Addr().Interface().(decodable); ok {
		return strings.IndexByte(d.begins(), c) >= 0
	}
	return f.Kind() != reflect.Struct || c == '{' || c == 'n'
}

func field(v reflect.Value, key string) reflect.Value {
	f, _ := fieldOf(v, key)
	return f
}

// A tagged field is what a field's type and tags say.
type tagged struct {
	at       int
	kind     reflect.Type
	name     string // in JSON; empty for none
	omit     bool   // where it is empty
	embedded bool
	exported bool
	required bool
	least    *int // minimum of a pointer to a whole number; nil for no minimum
	only     bool // its values are those in foreign
	enum     []string
}

// tags are the fields of types that were seen.
var tags sync.Map

func tagsOf(t reflect.Type) []tagged {
	if known, ok := tags.Load(t); ok {
		return known.([]tagged)
	}
	list := make([]tagged, t.NumField())
	for i := range list {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		x := tagged{at: i, kind: f.Type, name: name, omit: options == "omitempty", embedded: f.Anonymous, exported: f.IsExported(),
			required: f.Tag.Get("required") != "", only: accessOf(f.Type) == bound}
		if n, err := strconv.Atoi(f.Tag.Get("least")); err == nil {
			x.least = &n
		}
		if enum := f.Tag.Get("enum"); enum != "" {
			x.enum = strings.Split(enum, ",")
		}
		list[i] = x
	}
	tags.Store(t, list)
	return list
}

// fieldOf finds a struct's field by its name in JSON.
func fieldOf(v reflect.Value, key string) (reflect.Value, bool) {
	for _, f := range tagsOf(v.Type()) {
		if f.embedded {
			if inner, ok := fieldOf(v.Field(f.at), key); ok {
				return inner, true
			}
		} else if f.name == key && f.exported {
			return v.Field(f.at), true
		}
	}
	return reflect.Value{}, false
}

// fieldNames lists the fields of a struct by their names in JSON.
func fieldNames(t reflect.Type) (names []string) {
	for _, f := range tagsOf(t) {
		if f.embedded {
			names = append(names, fieldNames(f.kind)...)
		} else if f.name != "" && f.exported {
			names = append(names, f.name)
		}
	}
	return names
}

// wrong is an error if a field that is tagged as required is empty, or one has a value that its tag does not allow.
func wrong(v reflect.Value, path string) error {
	for _, f := range tagsOf(v.Type()) {
		value := v.Field(f.at)
		switch {
		case f.embedded:
			if err := wrong(value, path); err != nil {
				return err
			}
		case value.IsZero():
			if f.required {
				return failf(http.StatusUnprocessableEntity, path+f.name, "field %q is missing: want %s", path+f.name, ours(wanted(f.kind)))
			}
		case f.enum != nil && !slices.Contains(f.enum, value.String()):
			return invalid(path+f.name, "want %s, not %q", ours(strings.Join(f.enum, " or ")), value.String())
		case f.only:
			if err := value.Interface().(only).refused(path, f.name); err != nil {
				return err
			}
		case f.least != nil && value.Elem().Int() < int64(*f.least):
			return invalid(path+f.name, "want a number of at least %d, not %d", *f.least, value.Elem().Int())
		case f.name != "" && plainStruct(value):
			if err := wrong(value, path+f.name+"."); err != nil {
				return err
			}
		}
	}
	return nil
}

// value reads a value.
func (s *scanner) value(v reflect.Value, path string) error {
	if d, ok := v.Addr().Interface().(decodable); ok {
		return d.decode(s, path)
	}
	if null, err := s.null(); null || err != nil {
		return err
	}
	c, err := s.peek()
	if err != nil {
		return err
	}
	bad := func() error { return invalid(path, "want %s, not %s", ours(wanted(v.Type())), ours(kindOf(c))) }
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return s.value(v.Elem(), path)
	case reflect.String:
		if c != '"' {
			return bad()
		}
		text, err := s.string()
		v.SetString(text)
		return err
	case reflect.Bool:
		switch c {
		case 't':
			v.SetBool(true)
			return s.word("true")
		case 'f':
			v.SetBool(false)
			return s.word("false")
		}
		return bad()
	case reflect.Int:
		if c != '-' && (c < '0' || c > '9') {
			return bad()
		}
		n, err := s.whole(path)
		v.SetInt(n)
		return err
	case reflect.Float64:
		if c != '-' && (c < '0' || c > '9') {
			return bad()
		}
		text, err := s.number()
		if err != nil {
			return err
		}
		n, bad := strconv.ParseFloat(text, 64)
		v.SetFloat(n)
		if bad != nil {
			return invalid(path, "%s is too large a number", text)
		}
		return nil
	case reflect.Struct:
		if c != '{' {
			return bad()
		}
		_, err := s.decodeStruct([]reflect.Value{v}, path+".")
		return err
	case reflect.Slice:
		if c != '[' {
			return bad()
		}
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		return s.list(func(i int) error {
			if err := s.count(path, i+1); err != nil {
				return err
			}
			if err := s.share.Take(2 * int64(v.Type().Elem().Size())); err != nil {
				return err
			}
			v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
			if null, err := s.null(); null || err != nil {
				return cmp.Or(err, invalid(path, "want %s, not null", ours(wanted(v.Type().Elem()))))
			}
			return s.value(v.Index(i), path+"["+strconv.Itoa(i)+"]")
		})
	}
	return fmt.Errorf("server: a field %s of type %v", path, v.Type())
}

// count bounds how many elements a list has.
func (s *scanner) count(field string, n int) error {
	if n > s.most {
		return failf(http.StatusRequestEntityTooLarge, field, "field %q has more elements than the maximum of %d",
			field, s.most)
	}
	return nil
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
	case reflect.Struct:
		return "an object"
	case reflect.Pointer:
		return wanted(t.Elem())
	case reflect.Float64:
		return "a number"
	}
	return "a whole number"
}

// kindOf names what JSON begins with a byte.
func kindOf(c byte) string {
	switch {
	case c == '"':
		return "a string"
	case c == '{':
		return "an object"
	case c == '[':
		return "a list"
	case c == 't' || c == 'f':
		return "true or false"
	case c == 'n':
		return "null"
	case c == '-' || '0' <= c && c <= '9':
		return "a number"
	}
	return "no JSON"
}

// other is a value of another kind than a union takes, or an error of reading on.
func (s *scanner) other(u union, field string) error {
	c, err := s.peek()
	if err == nil {
		err = invalid(field, "want %s, not %s", ours(u.wanted()), ours(kindOf(c)))
	}
	return err
}

// number is what a field holds; 0 without one.
func number(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// inputs are one text or several, as strings or as token ids.
type inputs struct {
	texts  []string
	ids    [][]int64 // by text; nil where a text is a string
	images []bool    // by text: whether the text stands for an image (see call.imageFile); nil if the field takes texts alone
	one    bool      // not a list
}

func (inputs) wanted() string { return "a string, a list of token ids, or a list of such" }
func (inputs) begins() string { return `"[n` }

func (inputs) schema() schema {
	ids := schema{"type": "array", "items": schema{"type": "integer", "minimum": 0, "maximum": math.MaxInt64}}
	list := maps.Clone(ids)
	list["minItems"] = 1
	return schema{"anyOf": []schema{{"type": "string"}, list, {"type": "array", "minItems": 1,
		"items": schema{"anyOf": []schema{{"type": "string"}, ids}}}}}
}

func (in *inputs) decode(s *scanner, field string) error { return in.read(s, field, in) }

// read reads the inputs of a field of a type, which may be a mixture.
func (in *inputs) read(s *scanner, field string, of decodable) error {
	*in = inputs{}
	c, err := s.peek()
	switch {
	case err != nil:
		return err
	case c == 'n':
		return s.word("null")
	case c == '"' || c == '{':
		in.one = true
		return in.add(s, field, of)
	case c != '[':
		return s.other(of, field)
	}
	in.texts = []string{}
	var ids []int64 // of the list itself
	err = s.list(func(i int) error {
		c, err := s.peek()
		switch {
		case err != nil:
			return err
		case i > 0 && in.one != isDigit(c):
			return s.other(of, field)
		case isDigit(c):
			in.one = true
			ids, err = s.appendWhole(ids, field)
			return err
		}
		if err := s.count(field, i+1); err != nil {
			return err
		}
		return in.add(s, field, of)
	})
	if in.one {
		in.texts, in.ids, in.images = []string{""}, [][]int64{ids}, []bool{false}
	}
	return err
}

func isDigit(c byte) bool { return c == '-' || '0' <= c && c <= '9' }

// add adds a text or an image.
func (in *inputs) add(s *scanner, field string, of decodable) (err error) {
	var text string
	var ids []int64
	image := false
	switch c, bad := s.peek(); {
	case bad != nil:
		return bad
	case c == '"':
		text, err = s.string()
	case c == '[':
		ids = []int64{}
		err = s.list(func(int) error {
			if c, err := s.peek(); err != nil || !isDigit(c) {
				return cmp.Or(err, s.other(of, field))
			}
			ids, err = s.appendWhole(ids, field)
			return err
		})
	case c == '{' && strings.IndexByte(of.begins(), c) >= 0:
		text, image, err = s.textOrImage(field + "[" + strconv.Itoa(len(in.texts)) + "].")
	default:
		return s.other(of, field)
	}
	if err == nil {
		in.texts, err = extend(s.share, in.texts, text)
	}
	if err == nil {
		in.ids, err = extend(s.share, in.ids, ids)
	}
	if err == nil {
		in.images, err = extend(s.share, in.images, image)
	}
	return err
}

// A mixture is texts and images: strings or lists of token ids are texts, and so are objects {"text": "…"}; {"image": "…"} is an image.
type mixture struct{ inputs }

func (mixture) wanted() string {
	return `a string, a list of token ids, an object with "text" or "image", or a list of such`
}

func (mixture) begins() string { return `"[n{` }

// imageOrText is an element of a mixture. It has one of its fields.
type imageOrText struct {
	Text  *string `json:"text"`
	Image *string `json:"image"`
}

func (mixture) schema() schema {
	text := schema{"type": "string"}
	object := schema{"type": "object", "properties": schema{"text": text, "image": text}, "minProperties": 1, "maxProperties": 1,
		"additionalProperties": false}
	either := inputs{}.schema()["anyOf"].([]schema)
	list := either[2]["items"].(schema)["anyOf"].([]schema)
	return schema{"anyOf": []schema{either[0], either[1], object,
		{"type": "array", "minItems": 1, "items": schema{"anyOf": append(list, object)}}}}
}

func (m *mixture) decode(s *scanner, field string) error { return m.read(s, field, m) }

// textOrImage reads an element of a mixture. path is that of object.
func (s *scanner) textOrImage(path string) (value string, image bool, err error) {
	var x imageOrText
	if _, err := s.decodeStruct([]reflect.Value{reflect.ValueOf(&x).Elem()}, path); err != nil {
		return "", false, err
	}
	if (x.Text == nil) == (x.Image == nil) {
		return "", false, invalid(strings.TrimSuffix(path, "."), `want an object with either "text" or "image"`)
	}
	return *cmp.Or(x.Text, x.Image), x.Image != nil, nil
}

// allImages makes all strings images.
func (in *inputs) allImages(field string) error {
	for i := range in.texts {
		if in.ids[i] != nil {
			return invalid(field, "input %d is a list of token ids, and not an image", i)
		}
		in.images[i] = true
	}
	return nil
}

// A part is some of the inputs of a request, with their indices.
type part struct {
	inputs
	at []int
}

// apart returns the texts and the images of inputs.
func (in inputs) apart() (texts, images part) {
	for i := range in.texts {
		to := &texts
		if in.images != nil && in.images[i] {
			to = &images
		}
		to.texts, to.at = append(to.texts, in.texts[i]), append(to.at, i)
		if in.ids != nil {
			to.ids = append(to.ids, in.ids[i])
		}
	}
	return texts, images
}

// idLists are the token ids of one text or of several.
type idLists struct{ inputs }

func (idLists) wanted() string { return "a list of token ids, or a list of such lists" }

func (idLists) schema() schema {
	ids := schema{"type": "array", "minItems": 1, "items": schema{"type": "integer", "minimum": 0, "maximum": math.MaxInt64}}
	list := maps.Clone(ids)
	delete(list, "minItems")
	return schema{"anyOf": []schema{ids, {"type": "array", "minItems": 1, "items": list}}}
}

// someTexts are a text or several; nil if the request has none.
type someTexts []string

func (someTexts) wanted() string { return "a string or a list of strings" }
func (someTexts) begins() string { return `"[n` }

func (someTexts) schema() schema {
	text := schema{"type": "string"}
	return schema{"anyOf": []schema{text, {"type": "array", "minItems": 1, "items": text}}}
}

func (t *someTexts) decode(s *scanner, field string) error {
	*t = nil
	c, err := s.peek()
	switch {
	case err != nil:
		return err
	case c == '"':
		text, err := s.string()
		*t = someTexts{text}
		return err
	case c != '[' && c != 'n':
		return s.other(t, field)
	}
	return s.value(reflect.ValueOf((*[]string)(t)).Elem(), field)
}

// pairs are texts, or two texts together: "text", ["first", "second"], or a list of lists of one or two.
type pairs struct {
	list [][]string
	one  bool
}

func (pairs) wanted() string {
	return "a string, a pair of strings, or a list of lists of one or two strings"
}

func (pairs) begins() string { return `"[n` }

func (pairs) schema() schema {
	text := schema{"type": "string"}
	list := schema{"type": "array", "items": text, "minItems": 1, "maxItems": 2}
	return schema{"oneOf": []schema{text, list, {"type": "array", "items": list, "minItems": 1}}}
}

func (p *pairs) decode(s *scanner, field string) error {
	*p = pairs{}
	c, err := s.peek()
	switch {
	case err != nil:
		return err
	case c == 'n':
		return s.word("null")
	case c == '"':
		p.one = true
		text, err := s.string()
		p.list = [][]string{{text}}
		return err
	case c != '[':
		return s.other(p, field)
	}
	var own []string // of the list itself
	err = s.list(func(i int) error {
		c, err := s.peek()
		switch {
		case err != nil:
			return err
		case i > 0 && p.one != (c == '"'):
			return s.other(p, field)
		case c == '"':
			p.one = true
			own, err = p.add(s, field, own)
			return err
		case c != '[':
			return s.other(p, field)
		}
		if err := s.count(field, i+1); err != nil {
			return err
		}
		var texts []string
		if err := s.list(func(int) (err error) { texts, err = p.add(s, field, texts); return err }); err != nil {
			return err
		}
		if len(texts) == 0 {
			return invalid(field, "want %s, not an empty list", ours(p.wanted()))
		}
		p.list, err = extend(s.share, p.list, texts)
		return err
	})
	if p.one {
		p.list = [][]string{own}
	}
	return err
}

func (p *pairs) add(s *scanner, field string, texts []string) ([]string, error) {
	c, err := s.peek()
	if err == nil && (c != '"' || len(texts) == 2) {
		err = invalid(field, "want %s, not %s", ours(p.wanted()), ours("a list of other elements, or of more"))
	}
	if err != nil {
		return nil, err
	}
	text, err := s.string()
	if err != nil {
		return nil, err
	}
	return extend(s.share, texts, text)
}

// document is a text, or an object that has one as "text".
type document string

func (document) wanted() string { return `a string, or an object with a string "text"` }
func (document) begins() string { return `"{` }

func (document) schema() schema {
	return schema{"oneOf": []schema{{"type": "string"},
		{"type": "object", "properties": schema{"text": schema{"type": "string"}}, "required": []string{"text"}}}}
}

func (d *document) decode(s *scanner, field string) error {
	c, err := s.peek()
	switch {
	case err != nil:
		return err
	case c == '"':
		text, err := s.string()
		*d = document(text)
		return err
	case c != '{':
		return s.other(d, field)
	}
	there := false
	err = s.object(field+".", func(key string) error { // its other fields are the caller's own
		if key != "text" {
			return s.skip(field + ".")
		}
		if c, err := s.peek(); err != nil || c != '"' {
			return cmp.Or(err, s.other(d, field))
		}
		text, err := s.string()
		*d, there = document(text), true
		return err
	})
	if err == nil && !there {
		err = invalid(field, `want %s, not an object without "text"`, ours(d.wanted()))
	}
	return err
}

// ignored is a field that other servers take and that changes nothing here.
type ignored struct{}

func (ignored) wanted() string { return "anything" }
func (ignored) begins() string { return anyJSON }
func (ignored) schema() schema { return schema{} }

func (*ignored) decode(s *scanner, field string) error { return s.skip(field + ".") }

// anyJSON is what JSON begins with.
const anyJSON = `"{[-0123456789tfn`

// raw is JSON as it is written.
type raw []byte

func (raw) wanted() string { return "a list" }
func (raw) begins() string { return anyJSON }
func (raw) schema() schema { return schema{} }

func (r *raw) decode(s *scanner, field string) error {
	if null, err := s.null(); null || err != nil {
		return err
	}
	text, err := s.written(func() error { return s.skip(field + ".") })
	if err == nil {
		*r, err = extend(s.share, raw{}, text...)
	}
	return err
}
