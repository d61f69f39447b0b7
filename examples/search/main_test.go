package main

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestSearchPrintsTheNearestParagraphFirst(t *testing.T) {
	folder := fstest.MapFS{
		"animals/cats.txt": {Data: []byte("The cat sits\non the mat.\n\nPhotosynthesis needs light.\n")},
		"money.md":         {Data: []byte("Stock prices fell today.\n")},
		"picture.png":      {Data: []byte("\x89PNG")},
	}
	var out strings.Builder
	require.NoError(t, search(t.Context(), &out, "../../pipeline/testdata/minilm", folder, "The cat sits on the mat."))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 3)
	require.Equal(t, "1.0000  animals/cats.txt: The cat sits on the mat.", lines[0])
}
