package server

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/internal/oippb"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// TestNumbersThatDoNotFitAreErrors holds each form of a tensor in a request to one rule: a number that the type does not hold is an error
// that names it, and the largest and least that it does hold are taken.
func TestNumbersThatDoNotFitAreErrors(t *testing.T) {
	type all = oippb.InferTensorContents
	ints := func(n int64) *all { return &all{IntContents: []int32{int32(n)}} }
	uints := func(n int64) *all { return &all{UintContents: []uint32{uint32(n)}} }
	for _, c := range []struct {
		datatype  string
		low, high int64
		typed     func(n int64) *all
	}{
		{"INT8", math.MinInt8, math.MaxInt8, ints},
		{"INT16", math.MinInt16, math.MaxInt16, ints},
		{"INT32", math.MinInt32, math.MaxInt32, nil}, // typed contents hold no other
		{"UINT8", 0, math.MaxUint8, uints},
		{"UINT16", 0, math.MaxUint16, uints},
		{"UINT32", 0, math.MaxUint32, nil},
		{"BOOL", 0, 1, nil},
	} {
		t.Run(c.datatype, func(t *testing.T) {
			in, err := newInput("x", c.datatype, []int{1})
			require.NoError(t, err)
			for _, n := range []int64{c.low, c.high} {
				x, err := in.json(nil, fmt.Appendf(nil, "[%d]", n))
				require.NoError(t, err)
				require.Equal(t, n, x.Int64(0))
				if c.typed != nil {
					x, err = in.contents(c.typed(n))
					require.NoError(t, err)
					require.Equal(t, n, x.Int64(0))
				}
			}
			for _, n := range []int64{c.low - 1, c.high + 1, c.high + 45} {
				_, err := in.json(nil, fmt.Appendf(nil, "[%d]", n))
				require.ErrorContains(t, err, fmt.Sprintf("element 0: %d is not a value of type", n))
				if c.typed != nil && (n >= 0 || c.low < 0) {
					_, err = in.contents(c.typed(n))
					require.ErrorContains(t, err, fmt.Sprintf("element 0: %d is not a value of type", n))
				}
			}
		})
	}
	flag, err := newInput("x", "BOOL", []int{3})
	require.NoError(t, err)
	x, err := flag.raw(nil, []byte{0, 1, 1})
	require.NoError(t, err)
	require.Equal(t, []bool{false, true, true}, tensor.Of[bool](x))
	_, err = flag.raw(nil, []byte{0, 1, 7})
	require.EqualError(t, err, `field "inputs.x": element 2: 7 is not a value of type bool`)
	for datatype, number := range map[string]string{"FP16": "65520", "BF16": "1e39", "FP32": "1e39", "FP64": "1e309"} {
		in, err := newInput("x", datatype, []int{1})
		require.NoError(t, err)
		_, err = in.json(nil, []byte("["+number+"]"))
		require.ErrorContains(t, err, "element 0: "+number+" is not a value of type")
	}
}

// TestElementsAreGivenOnce: an input has its elements in one place, the one of its type.
func TestElementsAreGivenOnce(t *testing.T) {
	c := dial(t, Options{})
	both := inferRequest(true)
	both.Inputs[1].Contents = &oippb.InferTensorContents{Int64Contents: []int64{1, 1, 1, 1}}
	_, err := invoke[oippb.ModelInferResponse](t, t.Context(), c, "ModelInfer", both)
	require.ErrorContains(t, err, "has both contents and raw_input_contents")
	other := inferRequest(false)
	other.Inputs[1].Contents.Fp32Contents = []float32{1}
	_, err = invoke[oippb.ModelInferResponse](t, t.Context(), c, "ModelInfer", other)
	require.ErrorContains(t, err, "datatype INT64 does not belong in fp32_contents")
	s, _ := start(t, Options{}, served("minilm")...)
	status, text := infer(t, s, `{"inputs": [{"name": "input_ids", "shape": [1, 1], "datatype": "INT64", "data": [5],
		"parameters": {"binary_data_size": 8}}]}`, make([]byte, 8))
	require.Equal(t, 400, status, text)
	require.Contains(t, text, "has both data and binary_data_size")
}

// infer sends JSON with binary tensors after it.
func infer(t *testing.T, s *Server, head string, tail []byte) (status int, text string) {
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/v2/models/minilm/infer",
		bytes.NewReader(append([]byte(head), tail...)))
	r.Header.Set(binaryHead, strconv.Itoa(len(head)))
	s.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// TestSizesAreComparedWithTheBody: what a request declares takes nothing before it is in the body, and no product of sizes wraps
// around to a small or negative number. The pool is looked at in the request, because the end of a request hides what it took.
func TestSizesAreComparedWithTheBody(t *testing.T) {
	s, _ := start(t, Options{}, served("minilm")...)
	for _, shape := range []string{"[576460752303423487]", "[576460752303423488]", "[1152921504606846975]", "[1152921504606846976]",
		"[4611686018427387904]", "[9223372036854775807]", "[9223372036854775808]", "[3037000500, 3037000500]", "[65]", "[63]", "[-64]",
		"[0]"} {
		for _, datatype := range []string{"UINT8", "BOOL", "INT16", "INT64", "FP64", "BYTES"} {
			if shape == "[63]" && datatype == "BYTES" {
				continue
			}
			status, text := infer(t, s, `{"inputs": [{"name": "x", "shape": `+shape+`, "datatype": "`+datatype+`",
				"parameters": {"binary_data_size": 64}}]}`, make([]byte, 64))
			require.Equal(t, 400, status, "%s %s: %s", shape, datatype, text)
			status, text = infer(t, s, `{"inputs": [{"name": "x", "shape": `+shape+`, "datatype": "`+datatype+`", "data": [1,0]}]}`, nil)
			require.Equal(t, 400, status, "%s %s: %s", shape, datatype, text)
		}
	}
	for _, c := range []struct {
		datatype string
		n        int
	}{{"UINT8", 1<<59 - 1}, {"BYTES", 1<<58 + 1}, {"INT64", 1<<59 - 1}, {"FP64", 65}} {
		in, err := newInput("x", c.datatype, []int{c.n})
		require.NoError(t, err)
		p := memory.NewPool(16*memory.Base, 2)
		_, share, err := p.Enter(t.Context(), "one")
		require.NoError(t, err)
		_, err = in.raw(share, make([]byte, 64))
		require.ErrorContains(t, err, fmt.Sprintf("the shape [%d]", c.n))
		_, err = in.json(share, []byte("[1]"))
		require.ErrorContains(t, err, fmt.Sprintf("the shape [%d]", c.n))
		require.EqualValues(t, memory.Base, share.Bytes())
		share.Leave()
	}
	grpcShape := inferRequest(false)
	grpcShape.Inputs[0].Shape = []int64{1<<59 - 1}
	_, err := invoke[oippb.ModelInferResponse](t, t.Context(), dial(t, Options{}), "ModelInfer", grpcShape)
	require.ErrorContains(t, err, "the shape [576460752303423487]")
}

// brokenModel is minilm whose vectors are NaN for texts of more than eight tokens: the weights of a position are.
func brokenModel(t *testing.T, name string) Model {
	dir := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(testdata, name))))
	file := filepath.Join(dir, "onnx", "model.onnx")
	if _, err := os.Stat(file); err != nil {
		file = filepath.Join(dir, "model.onnx")
	}
	m, err := onnx.Open(file)
	require.NoError(t, err)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	graph := m.Proto.Graph
	i := slices.IndexFunc(graph.Initializer, func(x *onnxpb.TensorProto) bool { return strings.Contains(x.Name, "position_embeddings") })
	at := bytes.Index(data, graph.Initializer[i].RawData)
	row := int(4 * graph.Initializer[i].Dims[1])
	for k := 0; k < row; k += 4 {
		binary.LittleEndian.PutUint32(data[at+8*row+k:], math.Float32bits(float32(math.NaN())))
	}
	require.NoError(t, m.Close())
	require.NoError(t, os.WriteFile(file, data, 0o666))
	return Model{Name: name, Path: dir}
}

// TestResultsOfNaNAreErrors: no task chooses a label, a token or a span by comparing NaN.
func TestResultsOfNaNAreErrors(t *testing.T) {
	for name, requests := range map[string]map[string]string{
		"splade":   {"/embed_sparse": `{"inputs": [%s]}`, "/pipeline/fill-mask": `{"inputs": %s}`},
		"colbert":  {"/embed_all": `{"inputs": [%s]}`, "/rerank": `{"query": "a", "texts": [%s]}`},
		"rerank":   {"/rerank": `{"query": "a", "texts": [%s]}`, "/predict": `{"inputs": [[%s]]}`},
		"classify": {"/predict": `{"inputs": [[%s]]}`, "/pipeline/text-classification": `{"inputs": [%s]}`},
		"nli":      {"/pipeline/zero-shot-classification": `{"inputs": [[%s]], "parameters": {"candidate_labels": ["x"]}}`},
		"ner":      {"/pipeline/token-classification": `{"inputs": [%s]}`},
		"qa":       {"/pipeline/question-answering": `{"inputs": {"question": "who?", "context": %s}}`},
		"gliner":   {"/pipeline/token-classification": `{"inputs": [%s], "parameters": {"candidate_labels": ["person"]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := start(t, Options{}, brokenModel(t, name))
			for path, body := range requests {
				text := `"Anna met a cat that sits on the mat and looks at the dog in [MASK]"`
				body = fmt.Sprintf(body, text)
				w := httptest.NewRecorder()
				s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", path, strings.NewReader(body)))
				require.Equal(t, http.StatusUnprocessableEntity, w.Code, "%s %s: %s", path, body, w.Body)
				require.Contains(t, w.Body.String(), "the model returned NaN", path)
			}
		})
	}
}

// TestVectorsOfNaNAreErrors: a text for which the model returns NaN is an error that says so, in whichever form vectors are asked for, and
// other texts are answered.
func TestVectorsOfNaNAreErrors(t *testing.T) {
	s, _ := start(t, Options{}, brokenModel(t, "minilm"))
	const long = `"a cat sits on the mat and looks at the dog"`
	for path, bodies := range map[string][]string{
		"/v1/embeddings": {`{"input": [%s]}`, `{"input": [%s], "encoding_format": "base64"}`, `{"input": [%s], "dimensions": 3}`},
		"/embeddings":    {`{"input": [%s]}`},
		"/embed":         {`{"inputs": %s}`, `{"inputs": [%s], "normalize": false}`},
		"/embed_all":     {`{"inputs": %s}`},
		"/similarity": {`{"inputs": {"source_sentence": "a", "sentences": [%s]}}`,
			`{"inputs": {"source_sentence": %s, "sentences": ["a"]}}`},
		"/v1/embed":       {`{"texts": [%s]}`},
		"/v2/embed":       {`{"texts": [%s], "embedding_types": ["binary"]}`, `{"texts": [%s], "embedding_types": ["base64", "ubinary"]}`},
		"/api/embed":      {`{"model": "minilm", "input": %s}`},
		"/api/embeddings": {`{"model": "minilm", "prompt": %s}`},
	} {
		for _, body := range bodies {
			send := func(text string) *httptest.ResponseRecorder {
				w := httptest.NewRecorder()
				s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", path, strings.NewReader(fmt.Sprintf(body, text))))
				return w
			}
			w := send(`"a cat"`)
			require.Equal(t, http.StatusOK, w.Code, "%s %s: %s", path, body, w.Body)
			w = send(long)
			require.Contains(t, []int{400, 422}, w.Code, "%s %s: %s", path, body, w.Body)
			require.Contains(t, w.Body.String(), "the model returned NaN", "%s %s", path, body)
		}
	}
}
