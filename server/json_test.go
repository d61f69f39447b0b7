package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rlxc/rlxc/internal/jsontext"
	"github.com/rlxc/rlxc/internal/memory"
)

// TestIgnoredFieldsAreJSON: what a request says beside what is read is JSON too, each name is there once, and no text is changed.
func TestIgnoredFieldsAreJSON(t *testing.T) {
	s, _ := start(t, Options{}, served("minilm", "rerank")...)
	const user = `{"input": "a", "user": %s}`
	many := func(last string) string { // names, more than are compared with each other
		var b strings.Builder
		for i := range 3 * fewNames {
			fmt.Fprintf(&b, `"n%d": 1, `, i)
		}
		return `{` + b.String() + last + `: 1}`
	}
	for _, c := range []struct {
		path, body, value, says string // says is of the error; empty for none
	}{
		{"/v1/embeddings", user, `"me"`, ""},
		{"/v1/embeddings", user, `[1.5e+3, -0, {"a": {"a": null}}, {"a": true}]`, ""},
		{"/v1/embeddings", user, `"\ud834\udd1e"`, ""},
		{"/v1/embeddings", user, many(`"n"`), ""},
		{"/v1/embeddings", user, `1-2-3`, `'-' in a number`},
		{"/v1/embeddings", user, `01`, `in a number`},
		{"/v1/embeddings", user, `[1.]`, `without its end`},
		{"/v1/embeddings", user, `{"a": -}`, `without its end`},
		{"/v1/embeddings", user, `1e`, `without its end`},
		{"/v1/embeddings", user, `"\x"`, `invalid escape`},
		{"/v1/embeddings", user, `"\ud834"`, `half of a surrogate pair`},
		{"/v1/embeddings", user, `{"\udd1e": 1}`, `half of a surrogate pair`},
		{"/v1/embeddings", user, "\"\xff\"", `not UTF-8`},
		{"/v1/embeddings", user, `{"a": 1, "b": 2, "a": 1}`, `user.a\": it is given twice`},
		{"/v1/embeddings", user, `[{"a": {"b": 1, "\u0062": 2}}]`, `user.b\": it is given twice`},
		{"/v1/embeddings", user, many(`"n7"`), `user.n7\": it is given twice`},
		{"/v1/embeddings", user, many(`"n40"`), `user.n40\": it is given twice`},
		{"/v1/embeddings", `{"input": %s}`, `"\ud834\udd1e"`, ""},
		{"/v1/embeddings", `{"input": %s}`, `"\ud834"`, `half of a surrogate pair`},
		{"/v1/embeddings", `{"input": ["a", %s]}`, `"\udd1ea"`, `half of a surrogate pair`},
		{"/v1/embeddings", `{"input": "a", "input": %s}`, `"b"`, `field \"input\": it is given twice`},
		{"/rerank", `{"query": "a", "documents": [%s]}`, `{"text": "a", "id": 7}`, ""},
		{"/rerank", `{"query": "a", "documents": [%s]}`, `{"text": "a", "text": "b"}`, `documents[0].text\": it is given twice`},
		{"/rerank", `{"query": "a", "documents": [%s]}`, `{"text": "a", "id": 7-7}`, `in a number`},
		{"/v2/models/minilm/infer", `{"inputs": [{"name": "input_ids", "shape": [1], "datatype": "BYTES", "data": [%s]}]}`, `"\ud834"`,
			`half of a surrogate pair`},
		{"/v2/models/minilm/infer", `{"inputs": [{"name": "x", "shape": [1], "datatype": "INT64", "data": [%s]}]}`, `{"a": 1, "a": 2}`,
			`given twice`},
	} {
		t.Run(c.path+" "+c.value, func(t *testing.T) {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", c.path, strings.NewReader(fmt.Sprintf(c.body, c.value))))
			if c.says == "" {
				require.Equal(t, http.StatusOK, w.Code, w.Body)
				return
			}
			require.Contains(t, []int{400, 422}, w.Code, w.Body)
			require.Contains(t, w.Body.String(), c.says)
		})
	}
}

// twice reports whether an object in JSON has a name twice.
func twice(d *json.Decoder) bool {
	token, err := d.Token()
	if err != nil {
		return false
	}
	again, names := false, map[any]bool{}
	for token == json.Delim('{') && d.More() {
		name, _ := d.Token()
		again = again || names[name]
		names[name] = true
		again = twice(d) || again
	}
	for token == json.Delim('[') && d.More() {
		again = twice(d) || again
	}
	if _, nested := token.(json.Delim); nested {
		d.Token() //nolint:errcheck // its end
	}
	return again
}

// TestSkippedTextIsJSON: the scanner passes a text if and only if encoding/json calls it valid, jsontext.Check takes its strings, and no
// object has a name twice. What the scanner records is the text, at any borders of its buffer.
func TestSkippedTextIsJSON(t *testing.T) {
	value := func(inner *rapid.Generator[string]) *rapid.Generator[string] {
		return rapid.OneOf(rapid.SampledFrom([]string{"null", "true", "-1.5e3", "0", `"a"`, `"é\n"`, `"\ud834\udd1e"`, `"\ud834"`,
			"1-2", ""}),
			rapid.Map(rapid.SliceOfN(inner, 0, 3), func(all []string) string { return "[" + strings.Join(all, ",") + "]" }),
			rapid.Map(rapid.SliceOfN(inner, 0, 3), func(all []string) string {
				for i := range all {
					all[i] = `"` + []string{"a", "b", "\\u0061"}[len(all[i])%3] + `": ` + all[i]
				}
				return "{" + strings.Join(all, ", ") + "}"
			}))
	}
	rapid.Check(t, func(t *rapid.T) {
		text := value(value(value(rapid.Just("7")))).Draw(t, "text")
		if rapid.Bool().Draw(t, "changed") && text != "" {
			i := rapid.IntRange(0, len(text)-1).Draw(t, "at")
			text = text[:i] + rapid.SampledFrom([]string{"", "x", `"`, ",", "]", "\xff", "0"}).Draw(t, "instead") + text[i+1:]
		}
		d := json.NewDecoder(strings.NewReader(text))
		valid := json.Valid([]byte(text)) && jsontext.Check([]byte(text)) == nil && !twice(d)
		in := []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))}[rapid.IntRange(0, 1).Draw(t, "reader")]
		s := newScanner(in, nil, 10)
		defer s.close()
		written, err := s.written(func() error { return s.skip("") })
		written = bytes.Clone(written)
		if err == nil {
			err = s.finish()
		}
		require.Equal(t, valid, err == nil, "%q: %v", text, err)
		if err == nil {
			require.Equal(t, strings.TrimSpace(text), strings.TrimSpace(string(written)))
		}
	})
}

// TestNamesAreCounted: names that are kept to find those given twice are memory of the request.
func TestNamesAreCounted(t *testing.T) {
	p := memory.NewPool(64*memory.Base, 2)
	_, share, err := p.Enter(t.Context(), "one")
	require.NoError(t, err)
	var b strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&b, `"%d":0,`, i)
	}
	s := newScanner(strings.NewReader("{"+b.String()), share, 10)
	defer s.close()
	require.ErrorIs(t, s.skip(""), memory.ErrOver)
}
