package robustness

import (
	"archive/zip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/artifact"
	"github.com/rlxc/rlxc/models"
	"github.com/rlxc/rlxc/tensor"
)

// specimens are models of every kind of step, whose compiled files are changed.
var specimens = map[string]struct {
	export string // below testdata/exports, or a Form of a small BERT
	unpad  bool
}{
	"an encoder without padding":                       {string(models.FP16), true},
	"an encoder with 4-bit weights":                    {string(models.Int4), false},
	"an encoder with 8-bit weights, without padding":   {string(models.QDQ), true},
	"a fused encoder":                                  {string(models.Fused), false},
	"scores by relative position":                      {"deberta-legacy-17", false},
	"scores by relative position, without padding":     {"deberta-legacy-17", true},
	"positions that turn and windows, without padding": {"modernbert-legacy-17", true},
	"a decoder with a cache":                           {"gpt2-dynamo-23", false},
	"a cross-attention":                                {"t5-legacy-17", false},
	"images":                                           {"resnet-legacy-17", false},
	"speech":                                           {"whisper-legacy-17", false},
	"detection":                                        {"yolo-legacy-17", false},
	"a recurrence":                                     {"lstm-legacy-17", false},
}

// changes is how many copies of a program with a change are run.
const changes = 60

func init() {
	for name, s := range specimens {
		attacks["changes to the program of "+name] = attack{want: "", run: func(dir string) error {
			m, err := specimen(s.export)
			if err != nil {
				return err
			}
			defer m.Close()
			p, err := m.Compile(context.Background(), rlxc.CompileOptions{Threads: 1, Unpad: s.unpad})
			if err != nil {
				return err
			}
			defer p.Close()
			if p.Unpadded() != s.unpad {
				return fmt.Errorf("it is unpadded: %v", p.Unpadded())
			}
			path := filepath.Join(dir, "model.rlxc")
			if err := p.Save(path); err != nil {
				return err
			}
			in, err := inputsOf(s.export, m)
			if err != nil {
				return err
			}
			return changed(path, in)
		}}
	}
}

func exportFile(name string) string { return filepath.Join("../../testdata/exports", name+".zip") }

// inputsOf are those that are recorded for an export, and of a BERT two texts of two tokens.
func inputsOf(name string, m *rlxc.Model) (rlxc.Tensors, error) {
	if strings.Contains(name, "-") {
		z, err := zip.OpenReader(exportFile(name))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		var inputs []string
		for _, v := range m.Inputs() {
			inputs = append(inputs, v.Name)
		}
		return models.ReadSet(z, "test_data_set_0", "input", models.Named(inputs))
	}
	in, err := childInputs(m, "")
	if err == nil {
		in["attention_mask"] = tensor.FromSlice([]int64{1, 1, 1, 0}, 2, 2)
	}
	return in, err
}

// specimen opens a model.
func specimen(name string) (*rlxc.Model, error) {
	if strings.Contains(name, "-") {
		z, err := zip.OpenReader(exportFile(name))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		return rlxc.OpenFS(z, "model.onnx")
	}
	p, err := models.Build(models.Config{Layers: 1, Hidden: 128, Heads: 2, Intermediate: 128, Vocabulary: 20, Positions: 8, Types: 2,
		Head: models.Encoder, Form: models.Form(name), Seed: 1})
	if err != nil {
		return nil, err
	}
	return rlxc.FromProto(p, name)
}

var (
	programToken = regexp.MustCompile(`%\d+|-?[0-9.e+-]+|[a-zA-Z_.]+\d*`)
	swaps        = []string{"0", "1", "2", "3", "7", "-1", "4611686018427387904", "16777216", "n", "_", "[]", "i64", "i32", "str", "bool",
		"f16", "bf16", "f32", "u8", "u4", "%0", "%1", "nan", "inf", "1e30"}
)

// changed runs a compiled file whose program differs in some words. It may be refused, in good order.
func changed(path string, in rlxc.Tensors) error {
	file, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	h := new(artifact.Header)
	if err := proto.Unmarshal(file[32:32+binary.LittleEndian.Uint64(file[16:])], h); err != nil {
		return err
	}
	var sections []section
	for _, s := range h.Sections {
		sections = append(sections, section{s.Dtype, s.Shape, file[s.Offset : s.Offset+s.Length]})
	}
	if err := runChanged(path, in); err != nil {
		return fmt.Errorf("unchanged: %w", err)
	}
	random := rand.New(rand.NewPCG(23, 2))
	for range changes {
		text := h.Ir
		for range 1 + random.IntN(2) {
			text = changeProgram(random, text)
		}
		if err := os.WriteFile(path, forge(h.Target, text, sections...), 0o600); err != nil {
			return err
		}
		if err := runChanged(path, in); err != nil &&
			(strings.Contains(err.Error(), "internal error") || strings.Contains(err.Error(), "runtime error")) {
			return fmt.Errorf("%w\n%s", err, text)
		}
	}
	return nil
}

// changeProgram changes a word, or a line.
func changeProgram(random *rand.Rand, text string) string {
	words := programToken.FindAllStringIndex(text, -1)
	word := func() []int { return words[random.IntN(len(words))] }
	lines := strings.SplitAfter(text, "\n")
	switch i, j := random.IntN(len(lines)), random.IntN(len(lines)); random.IntN(6) {
	case 0:
		lines[i] = ""
	case 1:
		lines[i], lines[j] = lines[j], lines[i]
	case 2, 3:
		at, other := word(), word()
		for text[at[0]] != text[other[0]] && random.IntN(64) > 0 {
			other = word()
		}
		return text[:at[0]] + text[other[0]:other[1]] + text[at[1]:]
	default:
		at := word()
		return text[:at[0]] + swaps[random.IntN(len(swaps))] + text[at[1]:]
	}
	return strings.Join(lines, "")
}

// runChanged runs a file, and on rows without padding where it takes them.
func runChanged(path string, in rlxc.Tensors) error {
	m, err := rlxc.Open(path)
	if err != nil {
		return err
	}
	defer m.Close()
	return inSession(m, rlxc.CompileOptions{Threads: 1, MemoryLimit: memoryLimit, MaxFlops: 1 << 30},
		func(p *rlxc.Program, s *rlxc.Session) error {
			if _, err := s.Run(context.Background(), in); err != nil || !p.Unpadded() {
				return err
			}
			return runRows(p, s, []int{0, 1, 4})
		})
}

// runRows runs texts that begin at starts, the last of which is their end, of zeros.
func runRows(p *rlxc.Program, s *rlxc.Session, starts []int) error {
	rows := rlxc.PackedBatch{Starts: starts, Inputs: rlxc.Tensors{}}
	for _, v := range p.Inputs() {
		if v.Name != "attention_mask" {
			rows.Inputs[v.Name] = tensor.New(v.DType, starts[len(starts)-1])
		}
	}
	_, err := s.RunPacked(context.Background(), rows)
	return err
}

func init() {
	for name, export := range map[string]string{"deberta": "deberta-legacy-17", "modernbert": "modernbert-legacy-17",
		"mpnet": "mpnet-legacy-17", "bert": string(models.FP16)} {
		// Padded, as some models need them in front of what packs them, they are 2^34 tokens.
		attacks["rows of unequal lengths, "+name] = attack{want: "!", run: func(string) error {
			m, err := specimen(export)
			if err != nil {
				return err
			}
			defer m.Close()
			const texts = 1 << 17
			starts := []int{0}
			for i := range texts {
				starts = append(starts, texts+i)
			}
			err = inSession(m, rlxc.CompileOptions{Threads: 1, Unpad: true, MemoryLimit: memoryLimit},
				func(p *rlxc.Program, s *rlxc.Session) error { return runRows(p, s, starts) })
			if err != nil && !errors.Is(err, rlxc.ErrMemory) && !errors.Is(err, rlxc.ErrInput) && !errors.Is(err, rlxc.ErrShape) {
				return fmt.Errorf("internal error, or one of another kind: %w", err)
			}
			return err
		}}
	}
}
