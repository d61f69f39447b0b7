package tokenizer

import (
	"bufio"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A testCase is a line of testdata/cases.jsonl or of the fixtures, which name their fields a little differently.
type testCase struct {
	Variant   string
	Text      string
	Pair      *string
	MaxLength int `json:"max_length"`
	IDs       []int64
	Types     []int64
	TypeIDs   []int64 `json:"type_ids"`
}

func (c testCase) input() Input {
	if c.Pair != nil {
		return Pair(c.Text, *c.Pair)
	}
	return Text(c.Text)
}

func (c testCase) check(t *testing.T, tok *Tokenizer) {
	t.Helper()
	got, err := tok.Encode(c.input(), c.MaxLength)
	require.NoError(t, err)
	types := append(c.Types, c.TypeIDs...)
	if c.TypeIDs == nil && c.Types == nil {
		types = make([]int64, len(c.IDs))
	}
	assert.Equal(t, c.IDs, got.InputIDs, "%+q", c)
	assert.Equal(t, types, got.TokenTypeIDs, "%+q", c)
}

func readCases(t *testing.T, file string) []testCase {
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	var cases []testCase
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c testCase
		require.NoError(t, json.Unmarshal(lines.Bytes(), &c))
		cases = append(cases, c)
	}
	require.NoError(t, lines.Err())
	require.NotEmpty(t, cases)
	return cases
}

func readObject(t testing.TB, file string) map[string]json.RawMessage {
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	object := map[string]json.RawMessage{}
	require.NoError(t, json.Unmarshal(data, &object))
	return object
}

// writeJSON writes value to a file of that name in a new folder and returns its path.
func writeJSON(t testing.TB, name string, value any) string {
	data, err := json.Marshal(value)
	require.NoError(t, err)
	return writeFile(t, name, string(data))
}

func writeFile(t testing.TB, name, content string) string {
	file := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	return file
}

func TestCases(t *testing.T) {
	base := readObject(t, "testdata/tokenizer.json")
	tokenizers := map[string]*Tokenizer{}
	for name, raw := range readObject(t, "testdata/variants.json") {
		variant := maps.Clone(base)
		require.NoError(t, json.Unmarshal(raw, &variant))
		tok, err := Open(writeJSON(t, "tokenizer.json", variant))
		require.NoError(t, err, name)
		tokenizers[name] = tok
	}
	for _, c := range readCases(t, "testdata/cases.jsonl") {
		c.check(t, tokenizers[c.Variant])
	}
}

func fixtures(t testing.TB) string {
	folder := os.Getenv("RLXC_FIXTURES")
	if folder == "" {
		t.Skip("RLXC_FIXTURES is not set")
	}
	return filepath.Join(folder, "tokenizer")
}

func TestMiniLM(t *testing.T) {
	folder := fixtures(t)
	for _, file := range []string{"tokenizer.json", "vocab.txt"} {
		tok, err := Open(filepath.Join(folder, file))
		require.NoError(t, err)
		assert.Equal(t, 512, tok.MaxLength())
		assert.Equal(t, 30522, tok.Size())
		for _, name := range []string{"minilm-cases.jsonl", "minilm-truncated.jsonl"} {
			for _, c := range readCases(t, filepath.Join(folder, name)) {
				c.check(t, tok)
			}
		}
	}
}
