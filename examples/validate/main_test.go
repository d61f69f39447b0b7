package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	model    = "../../pipeline/testdata/minilm"
	vectors  = "recorded/vectors.json" // by sentence-transformers
	recorded = 3
)

func TestModelIsValid(t *testing.T) {
	var out strings.Builder
	require.NoError(t, validate(t.Context(), &out, model, vectors))
	require.Equal(t, recorded, strings.Count(out.String(), "ok "), out.String())
}

// TestAnotherVectorIsNoticed: one number that differs, and a vector of another length, end the step with an error.
func TestAnotherVectorIsNoticed(t *testing.T) {
	data, err := os.ReadFile(vectors)
	require.NoError(t, err)
	for name, change := range map[string]func(*record){
		"a number": func(r *record) { r.Embedding[7] += 1e-4 },
		"a length": func(r *record) { r.Embedding = r.Embedding[1:] },
	} {
		t.Run(name, func(t *testing.T) {
			var records []record
			require.NoError(t, json.Unmarshal(data, &records))
			change(&records[1])
			changed, err := json.Marshal(records)
			require.NoError(t, err)
			file := filepath.Join(t.TempDir(), "vectors.json")
			require.NoError(t, os.WriteFile(file, changed, 0o600))
			require.ErrorIs(t, validate(t.Context(), new(strings.Builder), model, file), errDiffers)
		})
	}
}
