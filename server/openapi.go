package server

import (
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A schema is one of OpenAPI's (https://spec.openapis.org/oas/v3.0.3#schema-object).
type schema map[string]any

// named are schemas of fields whose Go type does not report.
var named = map[string]schema{
	"time":     {"type": "string", "format": "date-time", "nullable": true},
	"cohere":   {"oneOf": []schema{{"type": "array", "items": schema{"type": "array", "items": schema{}}}, {"type": "object"}}},
	"document": {"oneOf": []schema{{"type": "string"}, {"type": "object", "properties": schema{"text": schema{"type": "string"}}}}},
	"pooled": {"type": "array", "items": schema{"anyOf": []schema{{"type": "number"},
		{"type": "array", "items": schema{"type": "number"}}}}},
	"vector": {"oneOf": []schema{{"type": "array", "items": schema{"type": "number"}}, {"type": "string", "format": "byte"}}},
}

// A describer makes schemas of Go types; those of structs are components.
type describer struct {
	components schema
	named      map[string]bool // whether a request uses a component, by its name
	request    bool            // the types are of a request: what decodeStruct refuses, their schemas refuse
}

func newDescriber() *describer { return &describer{components: schema{}, named: map[string]bool{}} }

// of makes the schema of a request or an answer.
func (d *describer) of(t reflect.Type, request bool) schema {
	d.request = request
	return d.schema(t)
}

// orNull is a schema that null fits too.
func orNull(s schema) schema {
	if _, ref := s["$ref"]; ref {
		return schema{"allOf": []schema{s}, "nullable": true}
	}
	if len(s) == 0 { // anything
		return s
	}
	for _, either := range []string{"anyOf", "oneOf"} {
		if list, ok := s[either].([]schema); ok {
			return schema{either: append(list[:len(list):len(list)], schema{"enum": []any{nil}, "nullable": true})}
		}
	}
	s = maps.Clone(s)
	s["nullable"] = true
	if enum, ok := s["enum"].([]any); ok && !slices.Contains(enum, nil) {
		s["enum"] = append(enum[:len(enum):len(enum)], nil)
	}
	return s
}

func (d *describer) schema(t reflect.Type) schema {
	if u, ok := reflect.Zero(t).Interface().(union); ok {
		return u.schema()
	}
	if a, ok := reflect.Zero(t).Interface().(interface{ element() reflect.Type }); ok { // a oneOrMore
		one := d.schema(a.element())
		return schema{"anyOf": []schema{one, {"type": "array", "items": one}}}
	}
	switch t.Kind() {
	case reflect.Func: // a listOf
		return schema{"type": "array", "items": d.schema(t.In(0).In(0))}
	case reflect.Slice:
		return schema{"type": "array", "items": d.schema(t.Elem())}
	case reflect.Pointer:
		return orNull(d.schema(t.Elem()))
	case reflect.String:
		return schema{"type": "string"}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return schema{"type": "number"}
	case reflect.Int, reflect.Int32, reflect.Int64:
		if d.request {
			return schema{"type": "integer", "minimum": math.MinInt64, "maximum": math.MaxInt64}
		}
		return schema{"type": "integer"}
	case reflect.Struct:
		if t.Name() == "" {
			return d.object(t)
		}
		name := t.Name()
		if of, ok := d.named[name]; ok && of != d.request { // it is in requests and in answers, which have other schemas
			name += map[bool]string{true: "Request", false: "Answer"}[d.request]
		}
		if d.components[name] == nil {
			d.components[name], d.named[name] = schema{}, d.request // for types that hold themselves
			d.components[name] = d.object(t)
		}
		return schema{"$ref": "#/components/schemas/" + name}
	}
	return schema{} // anything
}

func (d *describer) object(t reflect.Type) schema {
	properties, required := schema{}, []string{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			inner := d.object(f.Type)
			for k, v := range inner["properties"].(schema) {
				properties[k] = v
			}
			if r, ok := inner["required"].([]string); ok {
				required = append(required, r...)
			}
			continue
		case name == "" || !f.IsExported():
			continue
		}
		of := f.Type
		must := f.Tag.Get("required") != ""
		if of.Kind() == reflect.Pointer && (must || d.request) { // only so that what is missing is not what is empty
			of = of.Elem()
		}
		s := d.schema(of)
		if key := f.Tag.Get("schema"); key != "" {
			s = named[key]
		}
		if enum := f.Tag.Get("enum"); enum != "" {
			s["enum"] = []any{}
			if d.request && !must { // an empty name is none
				s["enum"] = []any{""}
			}
			for _, name := range strings.Split(enum, ",") {
				s["enum"] = append(s["enum"].([]any), name)
			}
		}
		if must && f.Type.Kind() == reflect.String {
			s["minLength"] = 1
		}
		if f.Tag.Get("some") != "" {
			s["minItems"] = 1
		}
		if f.Tag.Get("each") == "some" {
			s["items"] = schema{"type": "string", "minLength": 1}
		}
		if pattern := f.Tag.Get("pattern"); pattern != "" {
			s["pattern"] = pattern
		}
		switch row := foreign[name]; accessOf(f.Type) {
		case unread:
			s["description"] = "Ignored: " + row.why + "."
		case bound:
			values := []any{}
			for _, text := range row.values {
				var value any
				if err := json.Unmarshal([]byte(text), &value); err != nil {
					panic(err) // TestForeignFields reads each
				}
				values = append(values, value)
			}
			s = schema{"enum": values, "description": "No other value is taken: " + row.why + "."}
		}
		if n, err := strconv.Atoi(f.Tag.Get("least")); err == nil {
			s["minimum"] = n
		}
		if d.request && !must {
			s = orNull(s)
		}
		properties[name] = s
		if must && options == "" {
			required = append(required, name)
		}
	}
	out := schema{"type": "object", "properties": properties}
	if d.request { // null is no value, of fields that are not known either
		out["additionalProperties"] = schema{"enum": []any{nil}, "nullable": true}
	}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

// examples are bodies of requests, for those who try a route. NAME stands for the name of a model.
var examples = map[reflect.Type]string{
	reflect.TypeFor[openAIEmbedRequest]():      `{"input": ["a cat", "a dog"]}`,
	reflect.TypeFor[teiEmbedRequest]():         `{"inputs": ["a cat", "a dog"]}`,
	reflect.TypeFor[teiInputs]():               `{"inputs": "a cat"}`,
	reflect.TypeFor[teiPredictRequest]():       `{"inputs": "I like it"}`,
	reflect.TypeFor[teiSimilarityRequest]():    `{"inputs": {"source_sentence": "a cat", "sentences": ["a kitten", "a bank"]}}`,
	reflect.TypeFor[teiTokenizeRequest]():      `{"inputs": "a cat"}`,
	reflect.TypeFor[teiDecodeRequest]():        `{"ids": [5, 6]}`,
	reflect.TypeFor[teiRerankRequest]():        `{"query": "where do cats sleep?", "texts": ["on the mat", "at the bank"]}`,
	reflect.TypeFor[teiAny]():                  `{"inputs": "a cat"}`,
	reflect.TypeFor[hfClassifyImagesRequest](): `{"inputs": "data:image/gif;base64,` + smallGIF + `", "parameters": {"top_k": 3}}`,
	reflect.TypeFor[hfZeroShotImagesRequest](): `{"inputs": "data:image/gif;base64,` + smallGIF +
		`", "parameters": {"candidate_labels": ["a cat", "a dog"]}}`,
	reflect.TypeFor[hfDetectRequest]():         `{"inputs": "data:image/gif;base64,` + smallGIF + `", "parameters": {"threshold": 0.3}}`,
	reflect.TypeFor[hfImages]():                `{"inputs": "data:image/gif;base64,` + smallGIF + `"}`,
	reflect.TypeFor[hfZeroShotRequest]():       `{"inputs": "I like it", "parameters": {"candidate_labels": ["praise", "complaint"]}}`,
	reflect.TypeFor[hfTagRequest]():            `{"inputs": "Ada met Charles in London", "parameters": {"aggregation_strategy": "simple"}}`,
	reflect.TypeFor[hfAnswerRequest]():         `{"inputs": {"question": "Who met Charles?", "context": "Ada met Charles."}}`,
	reflect.TypeFor[hfFillRequest]():           `{"inputs": "a cat [MASK] on the mat"}`,
	reflect.TypeFor[infinityClassifyRequest](): `{"input": ["I like it"], "raw_scores": false}`,
	reflect.TypeFor[vllmClassifyRequest]():     `{"input": ["I like it"]}`,
	reflect.TypeFor[vllmScoreRequest]():        `{"text_1": "where do cats sleep?", "text_2": ["on the mat", "at the bank"]}`,
	reflect.TypeFor[vllmQueriesRequest]():      `{"queries": "where do cats sleep?", "documents": ["on the mat", "at the bank"]}`,
	reflect.TypeFor[vllmPoolRequest]():         `{"input": ["a cat"]}`,
	reflect.TypeFor[rankRequest]():             `{"query": "where do cats sleep?", "documents": ["on the mat", "at the bank"]}`,
	reflect.TypeFor[cohereEmbedRequest]():      `{"texts": ["a cat", "a dog"], "input_type": "search_document"}`,
	reflect.TypeFor[ollamaEmbedRequest]():      `{"input": ["a cat", "a dog"]}`,
	reflect.TypeFor[ollamaPromptRequest]():     `{"prompt": "a cat"}`,
	reflect.TypeFor[ollamaShowRequest]():       `{"model": "NAME"}`,
	reflect.TypeFor[oipIndexRequest]():         `{"ready": true}`,
	reflect.TypeFor[oipRequest](): `{"inputs": [{"name": "input_ids", "shape": [1, 2], "datatype": "INT64", "data": [5, 6]},
		{"name": "attention_mask", "shape": [1, 2], "datatype": "INT64", "data": [1, 1]},
		{"name": "token_type_ids", "shape": [1, 2], "datatype": "INT64", "data": [0, 0]}]}`,
}

// smallGIF is an image of one pixel in base64.
const smallGIF = "R0lGODdhAQABAIAAAP///wAAACwAAAAAAQABAAACAkQBADs="

var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

// description is the server in OpenAPI 3.0.3.
func (s *Server) description() schema {
	d := newDescriber()
	paths := schema{}
	for _, r := range s.routes {
		path := strings.TrimSuffix(r.path, "{$}")
		item, _ := paths[path].(schema)
		if item == nil {
			item = schema{}
			paths[path] = item
		}
		method := strings.ToLower(r.method)
		if before, ok := item[method].(schema); ok { // distinguished by their fields
			r.merge(d, before)
			continue
		}
		item[method] = r.operation(d)
	}
	security := []schema{}
	if len(s.options.Keys) > 0 {
		security = append(security, schema{"key": []string{}})
	}
	return schema{"openapi": "3.0.3",
		"info": schema{"title": "rlxc", "version": s.options.Version, "description": "Models of texts and images over HTTP. " +
			"A path may follow /models/NAME, which chooses the model where the protocol has no field for it."},
		"paths": paths, "security": security,
		"components": schema{"schemas": d.components, "securitySchemes": schema{"key": schema{"type": "http", "scheme": "bearer"}}}}
}

// failures are the statuses that a route may answer with besides 200.
var failures = []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
	http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity, http.StatusTooManyRequests,
	http.StatusInternalServerError, http.StatusNotImplemented, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

func (r *route) operation(d *describer) schema {
	media := r.media
	content := schema{}
	if media == "" {
		media = "application/json"
	}
	if r.answer != nil {
		content = schema{"schema": d.of(r.answer, false)}
	}
	answers := schema{"200": schema{"description": "The answer.", "content": schema{media: content}}}
	if r.also != "" {
		answers["200"].(schema)["content"].(schema)[r.also] = schema{}
	}
	for _, status := range failures {
		switch {
		case status == http.StatusForbidden || status == http.StatusServiceUnavailable:
		case status == http.StatusNotFound && strings.Contains(r.path, "{model}"):
		case r.open, r.request == nil && status != http.StatusUnauthorized:
			continue
		}
		status := r.protocol.status(&failure{status: status})
		answers[strconv.Itoa(status)] = schema{"description": http.StatusText(status),
			"content": schema{"application/json": schema{"schema": d.of(reflect.TypeOf(r.protocol.example), false)}}}
	}
	o := schema{"summary": r.about, "tags": []string{r.protocol.name}, "responses": answers}
	if r.open {
		o["security"] = []schema{}
	}
	var parameters []schema
	for _, m := range pathParameter.FindAllStringSubmatch(r.path, -1) {
		parameters = append(parameters, schema{"name": m[1], "in": "path", "required": true, "schema": schema{"type": "string"}})
	}
	if parameters != nil {
		o["parameters"] = parameters
	}
	if r.request != nil {
		// A body without fields may be left out.
		body, needed := d.of(r.request, true), d.object(r.request)["required"] != nil
		o["requestBody"] = schema{"required": needed, "content": schema{"application/json": schema{"schema": body,
			"example": json.RawMessage(examples[r.request])}}}
		if _, ok := reflect.New(r.request).Interface().(fileRequest); ok {
			o["requestBody"].(schema)["content"].(schema)["image/*"] = schema{"schema": schema{"type": "string", "format": "binary"}}
		}
	}
	return o
}

// merge adds a route to the operation of another at its path: either body, either answer.
func (r *route) merge(d *describer, o schema) {
	o["tags"] = slices.Concat(o["tags"].([]string), []string{r.protocol.name})
	either := func(content schema, t reflect.Type, request bool) {
		media := content["content"].(schema)["application/json"].(schema)
		one, _ := media["schema"].(schema)
		both, ok := one["anyOf"].([]schema)
		if !ok {
			both = []schema{one}
		}
		media["schema"] = schema{"anyOf": append(both, d.of(t, request))}
	}
	either(o["requestBody"].(schema), r.request, true)
	answers := o["responses"].(schema)
	either(answers["200"].(schema), r.answer, false)
	for status, answer := range answers {
		if status != "200" {
			either(answer.(schema), reflect.TypeOf(r.protocol.example), false)
		}
	}
}

// openapi writes the description, which is made once, when it is first asked for: the routes do not change.
func (s *Server) openapi() http.HandlerFunc {
	made := sync.OnceValue(func() []byte {
		text, err := json.Marshal(s.description())
		if err != nil {
			panic(err) // of maps of strings and numbers
		}
		return text
	})
	return func(w http.ResponseWriter, _ *http.Request) { writeBytes(w, http.StatusOK, "application/json", made()) }
}
