package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"
)

// TestParquetAnnouncesCutTexts holds that a row of results has whether its text is cut, and the tokens of a cut text. Both are null if the
// text could not be read.
func TestParquetAnnouncesCutTexts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.parquet")
	r, err := openResults(file, "run", newParquetRows(&textCommand{onError: "skip"}, task{example: &classified{}}, nil, vectorFile{}), nil)
	require.NoError(t, err)
	for _, it := range []item{{text: "short"}, {text: "long", cut: 77}, {err: errors.New("unreadable")}} {
		require.NoError(t, r.add(it, &classified{Text: it.text}))
	}
	require.NoError(t, r.commit(true))
	require.NoError(t, r.finish())
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	type row struct {
		Text      string  `parquet:"text"`
		Truncated *bool   `parquet:"truncated"`
		Tokens    *int64  `parquet:"token_count"`
		Error     *string `parquet:"error"`
	}
	got, err := parquet.Read[row](bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	yes, no, tokens, failure := true, false, int64(77), ": unreadable"
	require.Equal(t, []row{{"short", &no, nil, nil}, {"long", &yes, &tokens, nil}, {"", nil, nil, &failure}}, got)
}
