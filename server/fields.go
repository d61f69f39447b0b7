package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/rlxc/rlxc/pipeline"
	"github.com/rlxc/rlxc/tokenizer"
)

// Which fields a route takes is one table: the struct of its request. A field of a plain type is honoured. A field of type ignored or only
// has a row in foreign, which names the clients that send it and the reason. Every other name is an error. The OpenAPI document
// (describer) and the tables in docs/serving.md (TestDocumentsFields) are made from the same structs.

// foreign are the fields that clients send and that this server does not act on, by their names in JSON. A field whose type is ignored may
// have any value, because none of its values can change an answer. A field whose type is only may have one of values, written as JSON:
// ignoring any other value would change the answer, so it is an error.
var foreign = map[string]struct {
	clients string
	values  []string // nil for a field whose type is ignored; empty if every value but null is refused
	why     string
}{
	"user":       {"OpenAI", nil, "it names the caller's customer"},
	"priority":   {"Cohere, vLLM", nil, "requests are answered by fair shares"},
	"request_id": {"vLLM", nil, "the id is that of the header X-Request-Id"},
	"options":    {"Ollama", nil, "they concern the generation of text, or how the model is loaded"},
	"keep_alive": {"Ollama", nil, "models stay loaded"},
	"model_name": {"KServe", nil, "the path names the model"},
	"verbose":    {"Ollama", nil, "no model has more to show"},
	"use_cache":  {"Hugging Face, Weaviate", nil, "answers are computed"},
	"use_gpu":    {"Hugging Face, Weaviate", nil, "serve chooses the device"},

	"truncate":           {"Hugging Face (token-classification)", nil, "long texts are read in windows, and nothing is cut"},
	"wait_for_model":     {"Hugging Face, Weaviate", nil, "models are loaded before the server answers"},
	"modality":           {"infinity, NIM", []string{`"text"`}, "this route reads texts"},
	"late_chunking":      {"Jina", []string{"false"}, "the vector of a text does not depend on other texts"},
	"output_dtype":       {"Voyage", []string{`"float"`}, "embedding_type and Cohere's routes have the other types"},
	"embed_dtype":        {"vLLM", []string{`"float32"`}, "vectors are 32-bit floats"},
	"endianness":         {"vLLM", []string{`"native"`, `"little"`}, "base64 holds little-endian floats"},
	"add_special_tokens": {"vLLM", []string{"true"}, "models were trained with their special tokens"},
	"rank_fields":        {"Cohere", []string{`["text"]`}, "of an object only the field text is read"},
}

// only is the JSON of a field that has one of a few values: see foreign.
type only []byte

func (only) wanted() string { return "one of a few values" }
func (only) begins() string { return anyJSON }
func (only) schema() schema { return schema{} }

func (o *only) decode(s *scanner, field string) error { return (*raw)(o).decode(s, field) }

// refused returns the error of a value of the field name that is not one of its values in foreign; nil for one of them, and for null.
func (o only) refused(path, name string) error {
	row := foreign[name]
	var text bytes.Buffer
	if len(o) == 0 || json.Compact(&text, o) == nil && slices.Contains(row.values, text.String()) {
		return nil
	}
	if len(row.values) == 0 {
		return invalid(path+name, "it is not supported: %s", ours(row.why))
	}
	return invalid(path+name, "want %s: %s", ours(strings.Join(row.values, " or ")), ours(row.why))
}

// An access records how a route treats a field of its requests.
type access int

const (
	honoured access = iota
	unread          // its type is ignored
	bound           // its type is only
)

// accessOf returns what happens to a field of a type.
func accessOf(t reflect.Type) access {
	switch t {
	case reflect.TypeFor[ignored]():
		return unread
	case reflect.TypeFor[only]():
		return bound
	}
	return honoured
}

// A cutting is how texts that are too long are handled: true or false, or, as Cohere and NIM write it, NONE (such texts are an error),
// START or END (where tokens are left out). It is nil if the request does not have it.
type cutting struct {
	cut  *bool
	left bool // tokens are left out at the start
}

func (cutting) wanted() string { return "true, false, NONE, START or END" }
func (cutting) begins() string { return `tfn"` }

func (cutting) schema() schema {
	return schema{"anyOf": []schema{{"type": "boolean"}, {"type": "string", "enum": []string{"NONE", "START", "END"}}}}
}

func (t *cutting) decode(s *scanner, field string) error {
	*t = cutting{}
	if null, err := s.null(); null || err != nil {
		return err
	}
	c, err := s.peek()
	switch {
	case err != nil:
		return err
	case c == '"':
		text, err := s.string()
		yes := text != "NONE"
		*t = cutting{&yes, text == "START"}
		if err == nil && !slices.Contains([]string{"NONE", "START", "END"}, text) {
			err = invalid(field, "want %s, not %q", ours(t.wanted()), text)
		}
		return err
	case c != 't' && c != 'f':
		return s.other(t, field)
	}
	yes := c == 't'
	t.cut = &yes
	return s.value(reflect.ValueOf(&yes).Elem(), field)
}

// of returns the cut of texts in a field, with a direction that the request names apart.
func (t cutting) of(field, direction string) cut {
	if t.left {
		direction = "left"
	}
	return cut{field: field, truncate: t.cut, direction: direction}
}

// A cut is what a request asks for texts that are longer than the model takes, or than the request allows.
type cut struct {
	field     string // field of the texts in the request, for errors
	truncate  *bool  // nil for the server's default
	direction string // "left" in any case if tokens are left out at the start; empty for the model's side
	most      *int   // tokens of a sequence; nil or below 0 for the model's maximum
}

// options are the options of the tokenizer for a cut.
func (q cut) options() (rows []tokenizer.EncodeOption) {
	if strings.EqualFold(q.direction, "left") {
		rows = append(rows, tokenizer.Truncate(tokenizer.LongestFirst, tokenizer.Left))
	}
	if n := number(q.most); n > 0 {
		rows = append(rows, tokenizer.AtMost(n))
	}
	return rows
}

// vllmCut are the fields by which vLLM's clients bound sequences.
type vllmCut struct {
	Tokens    *int    `json:"truncate_prompt_tokens" least:"-1"`
	Side      string  `json:"truncation_side" enum:"left,right"`
	Special   only    `json:"add_special_tokens"`
	Priority  ignored `json:"priority"`
	RequestID ignored `json:"request_id"`
}

// cut returns what the fields ask for. A number of tokens asks to truncate.
func (v vllmCut) cut(field string, t cutting) cut {
	q := t.of(field, v.Side)
	q.most = v.Tokens
	if v.Tokens != nil && q.truncate == nil {
		yes := true
		q.truncate = &yes
	}
	return q
}

// hfOptions are the options of Hugging Face's bodies.
type hfOptions struct {
	Wait  ignored `json:"wait_for_model"`
	GPU   ignored `json:"use_gpu"`
	Cache ignored `json:"use_cache"`
}

// one returns the value of a setting that has two names, of which a request may have one; the zero value if it has neither.
func one[T comparable](first T, firstName string, second T, secondName string) (T, error) {
	var none T
	switch {
	case first == none:
		return second, nil
	case second != none:
		return none, failf(http.StatusUnprocessableEntity, secondName, "fields %q and %q are the same setting: want one of them", firstName,
			secondName)
	}
	return first, nil
}

// embeddingType makes the embedding of an answer in a type of Jina's, and in OpenAI's formats.
func embeddingType(kind string, v []float32) (any, error) {
	switch kind {
	case "base64":
		return base64Vector(v), nil
	case "binary", "ubinary":
		t, err := pipeline.Quantize([][]float32{v}, pipeline.Precision(kind), nil)
		if err != nil {
			return nil, err
		}
		list := make([]int, t.Shape()[1])
		for i := range list {
			list[i] = int(t.Int64(i))
		}
		return list, nil
	}
	return v, nil
}
