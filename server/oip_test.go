package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/models"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/tensor"
)

// MarshalJSON writes what a client does.
func (r raw) MarshalJSON() ([]byte, error) { return json.RawMessage(r).MarshalJSON() }

// tinyModel writes a model that has no tokenizer beside it.
func tinyModel(t *testing.T) string {
	config, _ := models.Lookup("bert-tiny")
	config.Layers, config.Vocabulary, config.Positions = 1, 50, 32
	p, err := models.Build(config)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "tiny.onnx")
	require.NoError(t, onnx.Save(file, p))
	return file
}

// outputsOf runs a file without a server.
func outputsOf(t *testing.T, file string, in rlxc.Tensors) rlxc.Tensors {
	m, err := rlxc.Open(file)
	require.NoError(t, err)
	p, err := m.Compile(context.Background(), rlxc.CompileOptions{})
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	out, err := s.Run(context.Background(), in)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close(); p.Close(); m.Close() })
	return out
}

func tinyInputs() rlxc.Tensors {
	in := rlxc.Tensors{}
	for _, name := range []string{"input_ids", "attention_mask", "token_type_ids"} {
		in[name] = tensor.New(tensor.I64, 2, 3)
	}
	copy(tensor.Of[int64](in["input_ids"]), []int64{5, 6, 7, 8, 9, 0})
	copy(tensor.Of[int64](in["attention_mask"]), []int64{1, 1, 1, 1, 1, 0})
	return in
}

func TestInferJSON(t *testing.T) {
	file := tinyModel(t)
	_, h := start(t, Options{}, Model{Name: "tiny", Path: file}, served("minilm")[0])
	in := tinyInputs()
	want := outputsOf(t, file, in)
	var inputs []oipInput
	for name, x := range in {
		data, err := json.Marshal(tensor.Of[int64](x))
		require.NoError(t, err)
		inputs = append(inputs, oipInput{Name: name, Shape: x.Shape(), Datatype: "INT64", Data: raw(data)})
	}
	inputs[0].Data = raw(strings.Replace(string(inputs[0].Data), "[", "[[", 1)) // nested lists do too
	at := 0
	for range 3 {
		at += strings.Index(string(inputs[0].Data)[at:], ",") + 1
	}
	inputs[0].Data = raw(string(inputs[0].Data)[:at-1] + "],[" + string(inputs[0].Data)[at:] + "]")
	var a struct {
		oipAnswer
		Outputs []struct {
			Name  string
			Shape []int
			Data  []float32
		} `json:"outputs"`
	}
	for _, path := range []string{"/v2/models/tiny/infer", "/v2/models/tiny/versions/1/infer"} {
		ask(t, "POST", h.URL+path, jsonOf(t, oipRequest{ID: "x", Inputs: inputs}), &a)
		require.Equal(t, "x", a.ID)
		require.Len(t, a.Outputs, len(want))
		for _, o := range a.Outputs {
			require.Equal(t, tensor.Shape(o.Shape), want[o.Name].Shape())
			require.Equal(t, tensor.Of[float32](want[o.Name]), o.Data)
		}
	}
	ask(t, "POST", h.URL+"/v2/models/tiny/infer",
		jsonOf(t, oipRequest{Inputs: inputs, Outputs: []oipOutput{{Name: "last_hidden_state"}}}), &a)
	require.Len(t, a.Outputs, 1)
	var m oipModel
	ask(t, "GET", h.URL+"/v2/models/tiny", "", &m)
	require.Equal(t, []int{-1, -1}, m.Inputs[0].Shape)
	require.Equal(t, "INT64", m.Inputs[0].Datatype)
	ask(t, "GET", h.URL+"/v2/models/minilm/versions/1", "", &m)
	ask(t, "GET", h.URL+"/v2", "", &oipServer{})
	ask(t, "GET", h.URL+"/v2/health/live", "", &oipHealth{})
	ask(t, "GET", h.URL+"/v2/health/ready", "", &oipHealth{})
	ask(t, "GET", h.URL+"/v2/models/tiny/ready", "", &oipModelReady{})

	ids := `{"name": "input_ids", "shape": [1, 1], "datatype": "INT64", "data": [1]}`
	rest := `, {"name": "attention_mask", "shape": [1, 1], "datatype": "INT64", "data": [1]}, {"name": "token_type_ids", "shape": [1, ` +
		`1], "datatype": "INT64", "data": [0]}`
	for body, says := range map[string]string{
		`{}`:                                    `field \"inputs\" is missing`,
		`{"inputs": [{"name": "x"}]}`:           `field \"inputs[0].shape\" is missing`,
		`{"inputs": [` + ids + `]}`:             `is missing`,
		`{"inputs": [` + ids + `,` + ids + `]}`: `is given twice`,
		`{"inputs": [` + ids + rest + `, {"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}]}`: `no input \"x\"`,
		`{"inputs": [` + strings.Replace(ids, "INT64", "FP32", 1) + rest +
			`]}`: `want datatype INT64`,
		`{"inputs": [` + strings.Replace(ids, "INT64", "INT", 1) + rest +
			`]}`: `unknown datatype`,
		`{"inputs": [` + strings.Replace(ids, "[1, 1]", "[1]", 1) + rest +
			`]}`: `want a shape of 2 axes`,
		`{"inputs": [` + strings.Replace(ids, "[1, 1]", "[-1, 1]", 1) + rest + `]}`:                                    `negative`,
		`{"inputs": [` + strings.Replace(ids, "[1, 1]", "[4611686018427387904, 4611686018427387904]", 1) + rest + `]}`: `inputs.input_ids`,
		`{"inputs": [` + strings.Replace(ids, "[1, 1]", "[1, 2]", 1) + rest + `]}`:                                     `has 2 elements`,
		`{"inputs": [` + strings.Replace(ids, "[1]", `["a"]`, 1) + rest + `]}`:                                         `inputs.input_ids`,
		`{"inputs": [` + strings.Replace(ids, `"data": [1]`, `"data": {"data": [1]}`, 1) + rest + `]}`:                 `want data: a list`,
		`{"inputs": [` + strings.Replace(ids, "[1]", `[999]`, 1) + rest + `]}`:                                         `fit the model`,
		`{"inputs": [` + ids + rest + `], "outputs": [{"name": "y"}]}`:                                                 `no output \"y\"`,
	} {
		status, text := ask(t, "POST", h.URL+"/v2/models/tiny/infer", body, nil)
		require.Equal(t, 400, status, "%s: %s", body, text)
		require.Contains(t, text, says, body)
	}
	for path, want := range map[string]int{"/v2/models/tiny/versions/2": 404, "/v2/models/none": 404, "/v2/models/none/ready": 404,
		"/v2/models/tiny/nothing": 404} {
		status, _ := ask(t, "GET", h.URL+path, "", nil)
		require.Equal(t, want, status, path)
	}
	status, text := ask(t, "POST", h.URL+"/models/tiny/embed", `{"inputs": "a"}`, nil)
	require.Equal(t, 422, status)
	require.Contains(t, text, "takes only tensors")
}

// binaryRequest is what tritonclient sends: JSON, and the tensors after it.
func binaryRequest(t *testing.T, in rlxc.Tensors) (body []byte, head string) {
	var q oipRequest
	var tail []byte
	yes := true
	for name, x := range in {
		size := len(x.Bytes())
		q.Inputs = append(q.Inputs, oipInput{Name: name, Shape: x.Shape(), Datatype: "INT64", Parameters: oipInputParts{Size: &size}})
		tail = append(tail, x.Bytes()...)
	}
	q.Outputs = []oipOutput{{Name: "last_hidden_state", Parameters: oipOutputParts{Binary: &yes}}}
	data, err := json.Marshal(q)
	require.NoError(t, err)
	return append(data, tail...), strconv.Itoa(len(data))
}

func TestInferBinary(t *testing.T) {
	file := tinyModel(t)
	s, _ := start(t, Options{}, Model{Name: "tiny", Path: file})
	in := tinyInputs()
	want := outputsOf(t, file, in)["last_hidden_state"]
	body, head := binaryRequest(t, in)
	send := func(body []byte, head string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/v2/models/tiny/infer", bytes.NewReader(body))
		r.Header.Set(binaryHead, head)
		s.ServeHTTP(w, r)
		return w
	}
	w := send(body, head)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	n, err := strconv.Atoi(w.Header().Get(binaryHead))
	require.NoError(t, err)
	data, err := io.ReadAll(w.Body)
	require.NoError(t, err)
	var a oipAnswer
	require.NoError(t, json.Unmarshal(data[:n], &a))
	require.Equal(t, want.Bytes(), data[n:])
	require.EqualValues(t, len(data)-n, *a.Outputs[0].Parameters.Size)
	for _, bad := range []struct {
		body []byte
		head string
	}{{body, "-1"}, {body, "999999"}, {body, "x"}, {body[:len(body)-1], head}, {append(body, 0), head}} {
		require.Equal(t, 400, send(bad.body, bad.head).Code)
	}
	w = httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/v2/models/tiny/infer", io.MultiReader(strings.NewReader(`{"inputs": []}`)))
	r.Header.Set(binaryHead, "15") // of a body of unknown length
	s.ServeHTTP(w, r)
	require.Contains(t, w.Body.String(), "names more bytes than the body has")
}

// TestTextsThatJSONLacksAreErrors: an answer in JSON has no other text than the model returned. Binary data has it as it is.
func TestTextsThatJSONLacksAreErrors(t *testing.T) {
	x := tensor.FromStrings([]string{"ö", "\xff\xfe"}, 2)
	require.EqualError(t, new(oipAnswer).add("y", x, false),
		`output "y" has "\xff\xfe" at element 1, which is not UTF-8: ask for binary data`)
	require.NoError(t, new(oipAnswer).add("y", x, true))
}

func TestRawStrings(t *testing.T) {
	x := tensor.FromStrings([]string{"a", "", "ö"}, 3)
	read := func(n int, data []byte) (*tensor.Tensor, error) {
		in, err := newInput("x", "BYTES", []int{n})
		require.NoError(t, err)
		return in.raw(nil, data)
	}
	y, err := read(3, rawTensor(x))
	require.NoError(t, err)
	require.Equal(t, x.Strings(), y.Strings())
	length := func(zeros int, n uint32) []byte { return binary.LittleEndian.AppendUint32(make([]byte, zeros), n) }
	for _, bad := range []struct {
		n    int
		data []byte
		says string
	}{
		{1, []byte{0, 0, 0, 0, 1, 0, 0}, "the data does not hold 1 strings"},
		{2, rawTensor(x), "the data does not hold 2 strings"},
		{3, length(8, 9), "the data does not hold 3 strings"},
		{4, length(12, 1<<31), "the data does not hold 4 strings"},
		{2, append(length(0, 4), "long"...), "the shape [2] has 2 elements, but the data has 1"},
		{1, []byte{1, 0, 0}, "the shape [1] has 1 elements, but the data has 3 bytes"},
		{1 << 40, rawTensor(x), "the shape [1099511627776] has 1099511627776 elements, but the data has 15 bytes"},
	} {
		_, err := read(bad.n, bad.data)
		require.EqualError(t, err, `field "inputs.x": `+bad.says)
	}
}

// FuzzBinary sends any bytes as JSON with tensors after it.
func FuzzBinary(f *testing.F) {
	s, err := New(f.Context(), served("minilm"), Options{MaxBody: 1 << 16})
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"inputs": [{"name": "input_ids", "shape": [1, 1], "datatype": "INT64", "parameters": {"binary_data_size": `+
		`8}}]}12345678`), 101)
	f.Add([]byte(`{"inputs": [{"name": "x", "shape": [1], "datatype": "BYTES", "parameters": {"binary_data_size": 5}}]}12345`), 96)
	f.Fuzz(func(t *testing.T, body []byte, head int) {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/v2/models/minilm/infer", bytes.NewReader(body))
		r.Header.Set(binaryHead, strconv.Itoa(head))
		s.ServeHTTP(w, r)
		if w.Code >= 500 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	})
}
