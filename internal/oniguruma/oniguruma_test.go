package oniguruma

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sum returns the checksum of where an expression splits texts: the pieces between and of its matches, then those between them alone.
func sum(t *testing.T, re *Regexp, texts [][]rune) string {
	total := uint32(0)
	for _, text := range texts {
		var isolated, removed []string
		done := 0
		add := func(list *[]string, start, end int) {
			if start < end {
				*list = append(*list, fmt.Sprintf("%d-%d", start, end))
			}
		}
		require.NoError(t, re.Matches(text, func(start, end int) bool {
			add(&isolated, done, start)
			add(&removed, done, start)
			add(&isolated, start, end)
			done = end
			return true
		}))
		add(&isolated, done, len(text))
		add(&removed, done, len(text))
		for _, list := range [][]string{isolated, removed} {
			total = crc32.Update(total, crc32.IEEETable, []byte(strings.Join(list, " ")+"\n"))
		}
	}
	return fmt.Sprintf("%08x", total)
}

// TestOniguruma holds each construct to what tokenizers does with it over all characters and over texts.
func TestOniguruma(t *testing.T) {
	data, err := os.ReadFile("testdata/texts.json")
	require.NoError(t, err)
	var list []string
	require.NoError(t, json.Unmarshal(data, &list))
	texts := map[string][][]rune{}
	for _, text := range list {
		texts["texts"] = append(texts["texts"], []rune(text))
	}
	var every, between []rune
	for r := rune(0); r < 0x110000; r++ {
		if !(0xd800 <= r && r < 0xe000) && (r < 0x33480 || 0xe0000 <= r && r < 0xe0200 || r&0xffff >= 0xfffc) {
			every = append(every, r)
		}
	}
	for _, r := range every[:0x3400] {
		between = append(between, 'a', r)
	}
	texts["unicode"] = [][]rune{every, between}
	texts["published"] = append(texts["unicode"], texts["texts"]...)
	data, err = os.ReadFile("testdata/constructs.txt")
	require.NoError(t, err)
	section, rows := "", 0
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		want, rest, ok := strings.Cut(line, " ")
		if !ok || strings.HasPrefix(line, "#") {
			section = line
			continue
		}
		rows++
		d := json.NewDecoder(strings.NewReader(rest))
		var expression string
		require.NoError(t, d.Decode(&expression))
		name := strings.TrimSpace(rest[d.InputOffset():])
		if name == "" {
			name = expression
		}
		t.Run(section+"/"+name, func(t *testing.T) {
			re, err := Compile(expression, time.Minute)
			switch {
			case want == "error":
				require.Error(t, err)
			case section == "refused":
				require.ErrorContains(t, err, "unsupported")
			default:
				require.NoError(t, err)
				require.Equal(t, want, sum(t, re, texts[section]))
			}
		})
	}
	require.Greater(t, rows, 200)
}

// FuzzCompile holds of any expression that it compiles or returns an error, and that its matches are in the text, in order.
func FuzzCompile(f *testing.F) {
	data, err := os.ReadFile("testdata/constructs.txt")
	require.NoError(f, err)
	for line := range strings.Lines(string(data)) {
		_, rest, _ := strings.Cut(line, " ")
		var expression string
		if json.NewDecoder(strings.NewReader(rest)).Decode(&expression) == nil {
			f.Add(expression, "aß\r\nx² don't 漢 é")
		}
	}
	f.Fuzz(func(t *testing.T, expression, text string) {
		re, err := Compile(expression, 100*time.Millisecond)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		runes, last := []rune(text), 0
		_ = re.Matches(runes, func(start, end int) bool { // an error is a timeout
			require.True(t, last <= start && start <= end && end <= len(runes))
			last = end
			return true
		})
	})
}

// TestControlCharacters holds what \c means by Oniguruma's documentation: the low five bits of the character after it, and DEL for "?".
func TestControlCharacters(t *testing.T) {
	for expression, want := range map[string]rune{`\ca`: 1, `\cZ`: 26, `\C-a`: 1, `\c?`: 0x7f, `\C-?`: 0x7f, `[\c?]`: 0x7f} {
		t.Run(expression, func(t *testing.T) {
			re, err := Compile(expression, time.Second)
			require.NoError(t, err)
			var found []int
			require.NoError(t, re.Matches([]rune{'?', 'a', want}, func(start, _ int) bool {
				found = append(found, start)
				return true
			}))
			require.Equal(t, []int{2}, found)
		})
	}
}
