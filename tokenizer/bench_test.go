package tokenizer

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/fixtures"
)

func openMiniLM(b *testing.B) *Tokenizer {
	tok, err := Open(filepath.Join(fixtures.Dir(b, "tokenizer"), "tokenizer.json"))
	require.NoError(b, err)
	return tok
}

// texts of 10,000 words.
var benchTexts = []struct{ name, words string }{
	{"english", "the quick brown fox jumps over a lazy dog, while antidisestablishmentarianism and tokenization were (perhaps) discussed in 1984."},
	{"accents", "Überraschung café naïve Ångström déjà-vu mañana coração Größe"},
	{"russian", "съешь ещё этих мягких французских булок, да выпей чаю"},
	{"chinese", "我能吞下玻璃而不伤身体 東京特許許可局"},
	{"korean", "다람쥐 헌 쳇바퀴에 타고파 한국어 텍스트"},
	{"hindi", "हिन्दी में लिखा हुआ एक वाक्य"},
}

func benchText(words string) string {
	random := rand.New(rand.NewPCG(1, 2))
	list := strings.Fields(words)
	var text strings.Builder
	for range 10_000 {
		text.WriteString(list[random.IntN(len(list))])
		text.WriteByte(' ')
	}
	return text.String()
}

// BenchmarkEncode encodes texts of 10,000 words, uncut.
func BenchmarkEncode(b *testing.B) {
	tok := openMiniLM(b)
	for _, row := range benchTexts {
		b.Run(row.name, func(b *testing.B) {
			text := benchText(row.words)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				_, err := tok.Encode(Text(text), 0)
				require.NoError(b, err)
			}
		})
	}
}

// BenchmarkEncodeCut encodes a text of 10,000 words to 512 tokens.
func BenchmarkEncodeCut(b *testing.B) {
	tok := openMiniLM(b)
	text := benchText(benchTexts[0].words)
	b.ReportAllocs()
	for b.Loop() {
		_, err := tok.Encode(Text(text), 512)
		require.NoError(b, err)
	}
}

// BenchmarkEncodeSentence encodes one sentence.
func BenchmarkEncodeSentence(b *testing.B) {
	tok := openMiniLM(b)
	b.ReportAllocs()
	for b.Loop() {
		_, err := tok.Encode(Text(benchTexts[0].words), 512)
		require.NoError(b, err)
	}
}

func BenchmarkOpen(b *testing.B) {
	folder := fixtures.Dir(b, "tokenizer")
	for _, file := range []string{"tokenizer.json", "vocab.txt"} {
		b.Run(file, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := Open(filepath.Join(folder, file))
				require.NoError(b, err)
			}
		})
	}
}

// BenchmarkTexts encodes the texts of models/scripts/bench_tokenizers.py, which sets the folder.
func BenchmarkTexts(b *testing.B) {
	folder := os.Getenv("RLXC_TOKENIZER_BENCH")
	if folder == "" {
		b.Skip("RLXC_TOKENIZER_BENCH is not set")
	}
	tok, err := Open(filepath.Join(folder, "tokenizer.json"))
	require.NoError(b, err)
	data, err := os.ReadFile(filepath.Join(folder, "texts.json"))
	require.NoError(b, err)
	var texts []string
	require.NoError(b, json.Unmarshal(data, &texts))
	for name, options := range map[string][]RowOption{"ids": nil, "spans": {Spans()}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				for _, text := range texts {
					_, err := tok.Encode(Text(text), 0, options...)
					require.NoError(b, err)
				}
			}
		})
	}
}
