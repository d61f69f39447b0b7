package tokenizer

import (
	"math/rand/v2"
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
	{"english", "the quick brown fox jumps over a lazy dog, while antidisestablishmentarianism and tokenization were (perhaps) " +
		"discussed in 1984."},
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

// largeFile writes a tokenizer.json of the size of XLM-R's (250,000 pieces) or Gemma's (262,144 tokens, 524,288 merges).
func largeFile(b *testing.B, kind string) string {
	random := rand.New(rand.NewPCG(1, 2))
	seen := map[string]bool{}
	var tokens []string
	var vocab, merges []any
	add := func(token string) bool {
		if seen[token] {
			return false
		}
		seen[token] = true
		tokens = append(tokens, token)
		return true
	}
	for r := 'a'; r <= 'z'; r++ {
		add(string(r))
		add(string(r - 'a' + 'а')) // Cyrillic
	}
	add("▁")
	model := map[string]any{"type": kind}
	switch kind {
	case "Unigram":
		syllables := strings.Fields("an be ci do er fa go hi in ju ka lo me no os pi qu re si ta un ve wo xe ya zu ши на по кра 文 字 列")
		for len(tokens) < 250_000 {
			token := ""
			if random.IntN(2) == 0 {
				token = "▁"
			}
			for range 1 + random.IntN(5) {
				token += syllables[random.IntN(len(syllables))]
			}
			add(token)
		}
		for i, token := range tokens {
			vocab = append(vocab, []any{token, -10 - float64(i%9973)/997})
		}
		model["vocab"], model["unk_id"] = vocab, 0
	case "BPE":
		for len(tokens) < 1<<18 {
			i := random.IntN(len(tokens))
			left, right := tokens[i], tokens[random.IntN(min(len(tokens), 4000))]
			if len(left)+len(right) < 24 && add(left+right) {
				merges = append(merges, []string{left, right}, []string{right, left})
				if add(right + left) {
					continue
				}
				merges = merges[:len(merges)-1]
			}
		}
		merges = append(merges, merges[:min(len(merges), 1<<19-len(merges))]...)
		ids := map[string]int{}
		for i, token := range tokens {
			ids[token] = i
		}
		model["vocab"], model["merges"] = ids, merges
	}
	file := map[string]any{"version": "1.0", "model": model, "pre_tokenizer": map[string]any{"type": "Metaspace", "replacement": "▁"}}
	return writeJSON(b, "tokenizer.json", file)
}
