package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServiceAnswersOnBothRoutes(t *testing.T) {
	h, closeModels, err := handler(t.Context(), "../../pipeline/testdata/minilm")
	require.NoError(t, err)
	defer closeModels()
	s := httptest.NewServer(h)
	defer s.Close()
	post := func(path, body string) (int, []byte) {
		a, err := http.Post(s.URL+path, "application/json", strings.NewReader(body))
		require.NoError(t, err)
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		require.NoError(t, err)
		return a.StatusCode, text
	}
	status, text := post("/nearest", `{"query": "a cat", "texts": ["stock prices fell today", "a cat"]}`)
	require.Equal(t, http.StatusOK, status, "%s", text)
	var hits []struct {
		Text  string
		Score float64
	}
	require.NoError(t, json.Unmarshal(text, &hits))
	require.Len(t, hits, 2)
	require.Equal(t, "a cat", hits[0].Text)
	require.InDelta(t, 1, hits[0].Score, 1e-5)

	status, _ = post("/nearest", `{"texts": []}`)
	require.Equal(t, http.StatusBadRequest, status)
	status, text = post("/rlxc/v1/embeddings", `{"input": "a cat"}`)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, string(text), `"embedding"`)
}
