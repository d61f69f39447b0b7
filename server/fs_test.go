package server

import (
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/pipeline"
)

// TestServesModelsOfAnFS holds that a model in a file system answers as the model in the system's files: a model for texts, and a model
// that takes tensors alone. The name of neither is looked for elsewhere.
func TestServesModelsOfAnFS(t *testing.T) {
	inside := pipeline.Options{FS: os.DirFS(testdata)}
	alone := pipeline.Options{FS: os.DirFS(testdata + "/minilm/onnx")}
	_, h := start(t, Options{}, append(served("minilm"), Model{Name: "inside", Path: "minilm", Options: inside},
		Model{Name: "tensors", Path: "model.onnx", Options: alone})...)
	var want, got any
	ask(t, http.MethodPost, h.URL+"/v1/embeddings", `{"model":"minilm","input":"a text"}`, &want)
	ask(t, http.MethodPost, h.URL+"/v1/embeddings", `{"model":"inside","input":"a text"}`, &got)
	require.Equal(t, want.(map[string]any)["data"], got.(map[string]any)["data"])
	const tensors = `{"inputs":[{"name":"input_ids","datatype":"INT64","shape":[1,2],"data":[1,2]},` +
		`{"name":"attention_mask","datatype":"INT64","shape":[1,2],"data":[1,1]},` +
		`{"name":"token_type_ids","datatype":"INT64","shape":[1,2],"data":[0,0]}]}`
	ask(t, http.MethodPost, h.URL+"/v2/models/minilm/infer", tensors, &want)
	ask(t, http.MethodPost, h.URL+"/v2/models/tensors/infer", tensors, &got)
	require.Equal(t, want.(map[string]any)["outputs"], got.(map[string]any)["outputs"])

	_, err := New(t.Context(), []Model{{Name: "m", Path: testdata + "/minilm", Options: inside}}, Options{})
	require.Error(t, err)
}

// TestNamesOfModels holds that a server does not start with a name that a path or JSON cannot hold.
func TestNamesOfModels(t *testing.T) {
	for _, name := range []string{"", "/m", "m/", "m\xff"} {
		_, err := New(t.Context(), []Model{{Name: name, Path: "../pipeline/testdata/minilm"}}, Options{})
		require.ErrorContains(t, err, fmt.Sprintf("invalid or duplicate model name %q", name))
	}
}
