package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlxc/rlxc/pipeline"
)

// keptVectors are the vectors of a file that an earlier run has written, by their texts. A vector depends on its text, the model and the
// options alone, and the file's metadata describes model and options. So a text with a vector is not embedded again, whatever its row is.
// The vectors are in a temporary file; memory has some 60 bytes for each text.
type keptVectors struct {
	file  *os.File // the vectors one after the other: size float32 each, little-endian
	size  int      // numbers of a vector
	rows  map[textHash]keptRow
	taken int // number of results that find has returned
	asked int // number of texts that find has looked up
}

// A textHash is the beginning of the SHA-256 of a text.
type textHash [16]byte

func hashOf(text string) textHash {
	sum := sha256.Sum256([]byte(text))
	return textHash(sum[:len(textHash{})])
}

// A keptRow is the place of a vector in the temporary file.
type keptRow struct {
	number int64
	cut    int // tokens of a text that the model has not read whole; otherwise 0
}

// sameProbe is the least cosine between vectors of probeText at which a file's vectors are used as those of the model. One model has
// cosines above 1-1e-6 on other devices and numbers of threads, and above 0.9999 in float16. Its quantised exports have 0.999 and less.
const sameProbe = 0.9999

// openKept reads the vectors of a Parquet file. It fails if the file's metadata does not describe a model and options that make the same
// vectors as v describes.
func openKept(file string, v vectorFile) (_ *keptVectors, err error) {
	if !strings.EqualFold(filepath.Ext(file), ".parquet") {
		return nil, usagef("--skip %s: want a .parquet file that rlxc embed -o wrote: its metadata describes model and options", file)
	}
	in, err := openTexts(textFlags{input: file, field: "text", copied: []string{vectorField, cutColumns[1]}, convert: vectorValue}, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.close()) }()
	if _, ok := in.note(probeNote); !ok {
		return nil, fmt.Errorf("--skip %s: its metadata does not describe a model: want a file that rlxc embed -o wrote", file)
	}
	if err := v.sameVectors("--skip "+file, in.note, slices.Concat(spaceNotes, []string{promptNote, lengthNote}), sameProbe); err != nil {
		return nil, err
	}
	k := &keptVectors{size: v.size, rows: map[textHash]keptRow{}}
	if k.file, err = os.CreateTemp("", "rlxc-skip-*"); err != nil {
		return nil, err
	}
	_ = os.Remove(k.file.Name()) // a killed process leaves nothing; Windows removes a file only after it is closed
	if err := k.read(in); err != nil {
		return nil, errors.Join(err, k.close())
	}
	return k, nil
}

// read copies the vectors of a file to the temporary file.
func (k *keptVectors) read(in *textReader) error {
	out := bufio.NewWriter(k.file)
	written := int64(0)
	err := in.each(func(it item) error {
		if it.err != nil {
			return nil // a row that a reader cannot take over is computed again
		}
		v, _ := it.copied[0].([]float32)
		hash := hashOf(it.text)
		if _, twice := k.rows[hash]; twice || len(v) != k.size {
			return nil
		}
		cut, _ := it.copied[1].(int64)
		k.rows[hash] = keptRow{written, int(cut)}
		written++
		for _, x := range v {
			if _, err := out.Write(binary.LittleEndian.AppendUint32(out.AvailableBuffer(), math.Float32bits(x))); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, out.Flush())
}

// find returns the vector of a text, nil if the file has none, and the tokens of the text if the model has not read it whole.
func (k *keptVectors) find(text string) (v []float32, cut int, err error) {
	k.asked++
	row, ok := k.rows[hashOf(text)]
	if !ok {
		return nil, 0, nil
	}
	data := make([]byte, 4*k.size)
	if _, err := k.file.ReadAt(data, row.number*int64(len(data))); err != nil {
		return nil, 0, err
	}
	v = make([]float32, k.size)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	k.taken++
	return v, row.cut, nil
}

// embed returns the vectors of items: those that the file has, and those that the model makes of the other texts. A nil k has none.
func (k *keptVectors) embed(ctx context.Context, m *pipeline.Model, items []item, o pipeline.EmbedOptions) ([][]float32, error) {
	if k == nil {
		return m.Embed(ctx, plain(items), o)
	}
	out := make([][]float32, len(items))
	var texts []string
	var index []int // numbers of the items with these texts
	for i := range items {
		v, cut, err := k.find(items[i].text)
		if err != nil {
			return nil, err
		}
		if out[i], items[i].cut = v, cut; v == nil {
			texts, index = append(texts, items[i].text), append(index, i)
		}
	}
	truncated := o.Truncated
	o.Truncated = func(i, tokens, read int) { truncated(index[i], tokens, read) }
	vectors, err := m.Embed(ctx, texts, o)
	for i, v := range vectors {
		out[index[i]] = v
	}
	return out, err
}

func (k *keptVectors) close() error {
	if k == nil {
		return nil
	}
	err := k.file.Close()
	if removed := os.Remove(k.file.Name()); !errors.Is(removed, fs.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	return err
}

// kept opens the file of --skip for a task. It returns nil if the file is the output and does not exist yet.
func (t *textCommand) kept(ctx context.Context, k task) (*keptVectors, error) {
	if k.vectors == nil {
		return nil, usagef("--skip requires one vector for each text: --kind dense")
	}
	v, err := k.vectors(ctx)
	if err != nil {
		return nil, err
	}
	kept, err := openKept(t.skip, v)
	if errors.Is(err, fs.ErrNotExist) && filepath.Clean(t.skip) == filepath.Clean(t.output) {
		return nil, nil
	}
	return kept, err
}
