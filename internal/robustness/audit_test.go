package robustness

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/tensor"
	"github.com/rlxc/rlxc/tokenizer"
)

// flips is how many copies of a file with one to three bits flipped are read.
const flips = 3000

// flipped hands read copies of data that differ in some bits. It may refuse them, in good order.
func flipped(data []byte, read func([]byte) error) error {
	random := rand.New(rand.NewPCG(23, 1))
	for range flips {
		changed := bytes.Clone(data)
		for range 1 + random.IntN(3) {
			changed[random.IntN(len(changed))] ^= 1 << random.IntN(8)
		}
		if err := read(changed); err != nil &&
			(strings.Contains(err.Error(), "internal error") || strings.Contains(err.Error(), "runtime error")) {
			return err
		}
	}
	return nil
}

// tokenizers are files of a tokenizer's folder that no tokenizer has, written by the process that opens them: each attack is a
// process, whose memory counts.
var tokenizers = map[string]map[string]func() string{
	"deep lists":   {"tokenizer.json": func() string { return strings.Repeat("[", 1<<20) }},
	"deep objects": {"tokenizer.json": func() string { return strings.Repeat(`{"model":`, 1<<18) }},
	"deep normalizers": {"tokenizer.json": func() string {
		return `{"model": {"type": "WordLevel", "vocab": {"a": 0}}, "normalizer": ` +
			strings.Repeat(`{"type": "Sequence", "normalizers": [`, 1<<14) + strings.Repeat("]}", 1<<14) + "}"
	}},
	"huge ids": {"tokenizer.json": func() string {
		return `{"model": {"type": "WordPiece", "vocab": {"a": 9223372036854775807, "b": 1099511627776}}}`
	}},
	"negative ids": {"tokenizer.json": func() string { return `{"model": {"type": "WordPiece", "vocab": {"a": -1, "[UNK]": 0}}}` }},
	"numbers beyond": {"tokenizer.json": func() string {
		return `{"model": {"type": "Unigram", "unk_id": 1e300, "vocab": [["a", ` +
			`1e999]]}}`
	}},
	"huge truncation": {"tokenizer.json": func() string {
		return `{"truncation": {"max_length": 1e18, "stride": 1e18}, "padding": {"strategy": {"Fixed": 1099511627776}}, "model": ` +
			`{"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}`
	}},
	"a pattern that grows": {"tokenizer.json": func() string {
		return `{"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}, "pre_tokenizer": {"type": "Split", "pattern": ` +
			`{"Regex": "(((a{1000}){1000}){1000})"}, "behavior": "Isolated"}}`
	}},
	"a broken config": {"tokenizer.json": func() string {
		return `{"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": ` +
			`"a"}}`
	}, "tokenizer_config.json": func() string { return strings.Repeat(`{"a":`, 1<<18) }},
	"a long vocabulary": {"vocab.txt": func() string { return strings.Repeat("a\n", 1<<20) }},
	"nothing":           {"tokenizer.json": func() string { return "" }},
}

func init() {
	for name, files := range tokenizers {
		attacks["tokenizer: "+name] = attack{want: "?", run: func(dir string) error {
			for file, text := range files {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text()), 0o644); err != nil {
					return err
				}
			}
			t, err := tokenizer.Open(dir)
			if err != nil {
				return err
			}
			_, err = t.Encode(tokenizer.Text("a b "+strings.Repeat("a", 1000)), 0)
			return err
		}}
	}
	attacks["flipped bits of a .npy"] = attack{want: "", run: func(string) error {
		file := append(npyHeader(`{'descr': '<f4', 'fortran_order': False, 'shape': (4, 4), }`), make([]byte, 64)...)
		return flipped(file, func(data []byte) error {
			_, err := tensor.ReadNPY(bytes.NewReader(data), 1<<20)
			return err
		})
	}}
	attacks["flipped bits of a .npz"] = attack{want: "", run: func(string) error {
		var file bytes.Buffer
		if err := tensor.WriteNPZ(&file, []tensor.Named{{Name: "a", Tensor: tensor.New(f32, 4, 4)},
			{Name: "b", Tensor: ints(1, 2, 3)}}); err != nil {
			return err
		}
		return flipped(file.Bytes(), func(data []byte) error {
			_, err := tensor.ReadNPZ(bytes.NewReader(data), int64(len(data)), 1<<20)
			return err
		})
	}}
	for _, kind := range []string{"model.onnx", "model.rlxc"} {
		attacks["flipped bits of a "+filepath.Ext(kind)] = attack{want: "", run: func(dir string) error {
			path := filepath.Join(dir, kind)
			m, err := rlxc.FromProto(good(), "good")
			if err != nil {
				return err
			}
			p, err := m.Compile(context.Background(), rlxc.CompileOptions{Threads: 1})
			if err != nil {
				return err
			}
			if filepath.Ext(kind) == ".rlxc" {
				err = p.Save(path)
			} else {
				err = onnx.Save(path, good())
			}
			if err != nil {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return flipped(data, func(data []byte) error {
				if err := os.WriteFile(path, data, 0o644); err != nil {
					return err
				}
				return runFile(path, tightLimit,
					func(*rlxc.Model) (rlxc.Tensors, error) { return rlxc.Tensors{"x": tensor.New(f32, 2, 4)}, nil })
			})
		}}
	}
	attacks["everything at once, while it closes"] = attack{want: "", run: func(string) error {
		for range 30 {
			m, err := rlxc.FromProto(good(), "good")
			if err != nil {
				return err
			}
			p, err := m.Compile(context.Background(), rlxc.CompileOptions{Threads: 1})
			if err != nil {
				return err
			}
			var group sync.WaitGroup
			said := make(chan error, 64)
			for range 4 {
				for _, use := range []func() error{
					func() error { return m.Close() },
					func() error { return p.Close() },
					func() error {
						q, err := m.Compile(context.Background(), rlxc.CompileOptions{Threads: 1})
						if err == nil {
							err = q.Close()
						}
						return err
					},
					func() error {
						s, err := p.NewSession()
						if err != nil {
							return err
						}
						defer s.Close()
						group.Go(func() { s.Close() })
						_, err = s.Run(context.Background(), rlxc.Tensors{"x": tensor.New(f32, 2, 4)})
						return err
					},
				} {
					group.Go(func() { said <- use() })
				}
			}
			group.Wait()
			close(said)
			for err := range said {
				if err != nil && !strings.Contains(err.Error(), "closed") {
					return fmt.Errorf("of another kind: %w", err)
				}
			}
		}
		return nil
	}}
}
