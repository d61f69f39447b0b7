package tokenizer

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/internal/modeltest"
)

// recorded holds the tokenizers of models/scripts/record_tokenizers.py, and what Python's tokenizers answered.
const recorded = "testdata/recorded"

// A recordedCase is a row of cases.json.zst.
type recordedCase struct {
	text, second string
	pair         bool
	max          int
	options      []EncodeOption
	windows      bool
}

func unpack(t testing.TB, file string) []byte {
	data, err := os.ReadFile(filepath.Join(recorded, file))
	require.NoError(t, err)
	r, err := zstd.NewReader(nil)
	require.NoError(t, err)
	defer r.Close()
	out, err := r.DecodeAll(data, nil)
	require.NoError(t, err)
	return out
}

func recordedCases(t testing.TB) []recordedCase {
	var rows [][]any
	require.NoError(t, json.Unmarshal(unpack(t, "cases.json.zst"), &rows))
	cases := make([]recordedCase, len(rows))
	for i, row := range rows {
		c := &cases[i]
		c.text = row[0].(string)
		c.second, c.pair = row[1].(string)
		c.max = int(row[2].(float64))
		strategy := map[string]Strategy{"longest_first": LongestFirst, "only_first": OnlyFirst, "only_second": OnlySecond}[row[3].(string)]
		c.options = []EncodeOption{Spans(), Truncate(strategy, map[string]Side{"left": Left, "right": Right}[row[4].(string)])}
		if stride := int(row[5].(float64)); stride >= 0 && c.max > 0 {
			c.options, c.windows = append(c.options, Windows(stride)), true
		}
	}
	return cases
}

func (c *recordedCase) input() Input {
	if c.pair {
		return Pair(c.text, c.second)
	}
	return Text(c.text)
}

// sum returns the checksum of what a tokenizer makes of a case; 0 for an error.
func (c *recordedCase) sum(tok *Tokenizer) uint32 {
	rows, err := tok.Encodings([]Input{c.input()}, c.max, c.options...)
	if err != nil {
		return 0
	}
	sum := uint32(0)
	for _, e := range rows {
		n := []int{len(e.InputIDs)}
		for _, list := range [][]int64{e.InputIDs, e.TokenTypeIDs, e.AttentionMask} {
			for _, x := range list {
				n = append(n, int(x))
			}
		}
		for _, o := range e.CharOffsets {
			n = append(n, o.Start, o.End)
		}
		n = append(n, e.Words...)
		for _, special := range e.Special {
			if special {
				n = append(n, 1)
			} else {
				n = append(n, 0)
			}
		}
		sum = crc32.Update(sum, crc32.IEEETable, littleEndian(n))
		all, err := tok.Decode(e.InputIDs, false)
		if err != nil {
			return 0
		}
		some, err := tok.Decode(e.InputIDs, true)
		if err != nil {
			return 0
		}
		sum = crc32.Update(sum, crc32.IEEETable, []byte(all+"\x00"+some))
	}
	return sum
}

func littleEndian(n []int) []byte {
	out := make([]byte, 0, 4*len(n))
	for _, x := range n {
		out = binary.LittleEndian.AppendUint32(out, uint32(x))
	}
	return out
}

// blockSum returns the checksum of 1024 code points: each alone, then 64 at a time between letters and between spaces.
func blockSum(t testing.TB, tok *Tokenizer, first rune) uint32 {
	var texts []string
	for r := first; r < first+0x400; r++ {
		if r < 0xd800 || r >= 0xe000 {
			texts = append(texts, string(r))
		}
	}
	for cs := texts; len(cs) > 0; cs = cs[64:] {
		texts = append(texts, "a"+strings.Join(cs[:64], "b a")+"b "+strings.Join(cs[:64], " "))
	}
	sum := uint32(0)
	var n []int
	for _, text := range texts {
		e, err := tok.Encode(Text(text), 0, Spans())
		if err != nil {
			t.Fatal(err)
		}
		n = append(n[:0], len(e.InputIDs))
		for _, id := range e.InputIDs {
			n = append(n, int(id))
		}
		for _, o := range e.CharOffsets {
			n = append(n, o.Start, o.End)
		}
		sum = crc32.Update(sum, crc32.IEEETable, littleEndian(n))
	}
	return sum
}

// recordedNames are the recorded tokenizers.
func recordedNames(t testing.TB) []string {
	files, err := filepath.Glob(recorded + "/*.crc")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var names []string
	for _, file := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(file), ".crc"))
	}
	return names
}

func openRecorded(t testing.TB, name string) *Tokenizer {
	d, err := readTokenizerJSON(unpack(t, name+".json.zst"))
	require.NoError(t, err, name)
	tok, err := d.build()
	require.NoError(t, err, name)
	return tok
}

// TestRecorded holds ids, types, attention, offsets, words, special masks, windows and decoded text to the recorded answers.
func TestRecorded(t *testing.T) {
	cases := recordedCases(t)
	for i, name := range recordedNames(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkRecorded(t, openRecorded(t, name), name, cases, 2, i)
		})
	}
}

// blockStep is how many blocks of code points are left out after each that is looked at: one in that many, another one for each tokenizer,
// takes seconds, and all of them minutes.
const blockStep = 16

// checkRecorded compares a tokenizer with a file of answers: every step-th case, and one in blockStep blocks of code points, from the
// phase-th on.
func checkRecorded(t *testing.T, tok *Tokenizer, name string, cases []recordedCase, step, phase int) {
	sums, err := os.ReadFile(filepath.Join(recorded, name+".crc"))
	require.NoError(t, err)
	next := func() uint32 {
		sum := binary.LittleEndian.Uint32(sums)
		sums = sums[4:]
		return sum
	}
	wrong := 0
	report := func(format string, args ...any) {
		if wrong++; wrong <= 5 {
			t.Errorf(format, args...)
		}
	}
	for i := range cases {
		c := &cases[i]
		want := next()
		if i%step == 0 && c.sum(tok) != want {
			rows, err := tok.Encodings([]Input{c.input()}, c.max, c.options...)
			report("case %d of %q, %q to %d: %+v %v; want the checksum %08x", i, c.text, c.second, c.max, rows, err, want)
		}
	}
	for i := 0; len(sums) > 0; i++ {
		first := rune(i) * 0x400
		if first == 0x33000 {
			first = 0xe0000
		}
		if want := next(); (i+phase)%blockStep == 0 && blockSum(t, tok, first) != want {
			report("code points from %U differ", first)
		}
	}
	if wrong > 0 {
		t.Error(fmt.Sprint(wrong, " differences"))
	}
}

// TestClassOfModel holds what a SentencePiece file is taken for whose class is not known.
func TestClassOfModel(t *testing.T) {
	for want, m := range map[string]spmModel{
		"Gemma":      {kind: spmBPE, pieces: []spmPiece{{text: "<s>"}, {text: "<start_of_turn>"}}},
		"Llama":      {kind: spmBPE, pieces: []spmPiece{{text: "<s>"}, {text: "[CLS]"}}},
		"DebertaV2":  {kind: spmUnigram, pieces: []spmPiece{{text: "[CLS]"}, {text: "[UNK]"}}},
		"Albert":     {kind: spmUnigram, pieces: []spmPiece{{text: "[CLS]"}, {text: "<s>"}}},
		"XLMRoberta": {kind: spmUnigram, pieces: []spmPiece{{text: "<s>"}, {text: "<start_of_turn>"}}},
		"T5":         {kind: spmUnigram, pieces: []spmPiece{{text: "<start_of_turn>"}}},
	} {
		got, err := classOfModel(&config{}, &m)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(conversions[want]), fmt.Sprint(got), want)
	}
}

// TestComponentDefaults holds what components are that do not say all.
func TestComponentDefaults(t *testing.T) {
	none := json.RawMessage(`{}`)
	length, err := readFixedLength(none, 0)
	require.NoError(t, err)
	require.Equal(t, fixedLength(5), length)
	points, err := readPunctuation(none, 0)
	require.NoError(t, err)
	require.Equal(t, isolated, points.(splitter).behavior)
	for want, read := range map[string]func(json.RawMessage, int) (decoder, error){
		"ab</w> <pad>|.": readWordPieceDecoder,
		"a##b <pad>|.":   readBPEDecoder,
		"a##b</w> .":     readCTC,
	} {
		d, err := read(none, 0)
		require.NoError(t, err)
		got, err := d.decode([]string{"a", "##b</w>", "<pad>|", "."})
		require.NoError(t, err)
		require.Equal(t, want, strings.Join(got, ""))
	}
}

// TestConvert holds what is made of SentencePiece files to the answers of what transformers' converters make of them.
func TestConvert(t *testing.T) {
	cases := recordedCases(t)
	for name, c := range map[string]struct{ model, config string }{
		"xlm-roberta": {"xlm-roberta", `{}`},
		"camembert":   {"xlm-roberta", `{"tokenizer_class": "CamembertTokenizer"}`},
		"mbart":       {"xlm-roberta", `{"tokenizer_class": "MBartTokenizerFast"}`},
		"albert":      {"albert", `{}`},
		"deberta-v3":  {"deberta-v3", `{"tokenizer_class": "DebertaV2Tokenizer"}`},
		"t5":          {"t5", `{}`},
		"llama2":      {"llama2", `{"tokenizer_class": "LlamaTokenizer"}`},
		"llama2-new":  {"llama2", `{"legacy": false}`},
		"gemma":       {"gemma", `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var config config
			require.NoError(t, json.Unmarshal([]byte(c.config), &config))
			d, err := read(files.System{}, "spiece.model", unpack(t, c.model+".model.zst"), &config)
			require.NoError(t, err)
			for i, score := range d.model.scores { // the answers are those of a tokenizer.json: see parseScore
				d.model.scores[i], _ = parseScore(strconv.AppendFloat(nil, score, 'g', -1, 64))
			}
			tok, err := d.build()
			require.NoError(t, err)
			checkRecorded(t, tok, name, cases, 7, len(name))
		})
	}
}

// TestConversions records in testdata/conversions.txt what the settings of a class change in what is made of a SentencePiece file: the
// tokens of a pair of texts, and the text that they stand for.
func TestConversions(t *testing.T) {
	modeltest.Transcript(t, "testdata/conversions.txt", *update, regexp.MustCompile(`; known are .*`), func(line string) string {
		model, text, _ := strings.Cut(line, " ")
		var config config
		require.NoError(t, json.Unmarshal([]byte(text), &config))
		d, err := read(files.System{}, "spiece.model", unpack(t, model+".model.zst"), &config)
		if err != nil {
			return err.Error()
		}
		tok, err := d.build()
		require.NoError(t, err)
		rows, err := tok.Encodings([]Input{Pair("  The CÄT ``sat'',  12,345\ttimes ", "<mask>e\u0301 [MASK] \U0001f600 ")}, 0, Spans())
		require.NoError(t, err)
		var out strings.Builder
		for i, id := range rows[0].InputIDs {
			token, _ := tok.Token(id)
			fmt.Fprint(&out, token, " ", rows[0].TokenTypeIDs[i], rows[0].CharOffsets[i], " ")
		}
		for _, skip := range []bool{false, true} {
			back, err := tok.Decode(rows[0].InputIDs, skip)
			require.NoError(t, err)
			fmt.Fprintf(&out, "\n%q", back)
		}
		return out.String()
	})
}
