package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/tensor"
)

// rowsPerRun is how many examples of a batch run at a time: what is looked at inside the model is held in memory.
const rowsPerRun = 8

// examples gathers inputs for the model: of --calibrate, recorded, or made up.
func (q *quantization) examples(c *cobra.Command, src *source, e *own) ([]testCase, error) {
	arrays := filepath.Ext(q.calibrate) == ".npz"
	if (q.text.tokenizer != "" || q.field != "") && (q.calibrate == "" || arrays) {
		return nil, usagef("--tokenizer and --field require --calibrate with a file of texts")
	}
	if q.calibrate == "" {
		v := &validation{modelFlags: q.modelFlags, against: evaluation, shapes: q.shapes}
		return v.cases(src, e)
	}
	if len(q.shapes) > 0 {
		return nil, usagef("--shapes and --calibrate exclude each other")
	}
	var batches []rlxc.Tensors
	var err error
	if arrays {
		batches, err = readExamples(q.calibrate, e.Inputs(), q.MemoryLimit)
	} else {
		batches, err = q.tokenizeTexts(c, src, e)
	}
	if err != nil {
		return nil, err
	}
	var cases []testCase
	for _, batch := range batches {
		for _, in := range cut(batch, e.Inputs()) {
			cases = append(cases, testCase{set: "run " + strconv.Itoa(len(cases)), inputs: in})
		}
	}
	return cases, nil
}

// tokenizeTexts makes a run of each text of a file, so that none is padded to the length of others.
func (q *quantization) tokenizeTexts(c *cobra.Command, src *source, e *own) (runs []rlxc.Tensors, err error) {
	tok, err := q.text.open(src, e)
	if err != nil {
		return nil, err
	}
	texts, err := someTexts(textFlags{input: q.calibrate, field: q.field})
	if err != nil {
		return nil, err
	}
	for _, text := range texts {
		q.text.texts = []string{text}
		in, err := q.text.tokenize(c, tok, src, e)
		if err != nil {
			return nil, err
		}
		runs = append(runs, in)
	}
	return runs, nil
}

// readExamples reads an archive with an array for each input, of the input's rank for one run, or of one more for several.
func readExamples(file string, infos []rlxc.ValueInfo, limit int64) ([]rlxc.Tensors, error) {
	data, err := files.ReadFile(file, limit)
	if err != nil {
		return nil, err
	}
	list, err := tensor.ReadNPZ(bytes.NewReader(data), int64(len(data)), limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	arrays := rlxc.Tensors{}
	for _, a := range list {
		if !slices.Contains(namesOf(infos), a.Name) {
			return nil, fmt.Errorf("%s: unknown input %q: the model takes %s", file, a.Name, strings.Join(namesOf(infos), ", "))
		}
		arrays[a.Name] = a.Tensor
	}
	runs := []rlxc.Tensors{}
	for i, v := range infos {
		t := arrays[v.Name]
		if t == nil {
			return nil, fmt.Errorf("%s: no array for input %q: the model takes %s", file, v.Name, infoText(v))
		}
		several := t.Rank() == len(v.Shape)+1
		switch {
		case t.DType() != v.DType:
			return nil, fmt.Errorf("%s: array %q is %v: want %s", file, v.Name, t, infoText(v))
		case !several && t.Rank() != len(v.Shape):
			return nil, fmt.Errorf("%s: array %q is %v: want %s, or one more leading axis for several runs", file, v.Name, t, infoText(v))
		}
		count := 1
		if several {
			count = t.Shape()[0]
		}
		if i == 0 {
			for range count {
				runs = append(runs, rlxc.Tensors{})
			}
		}
		if count != len(runs) {
			return nil, fmt.Errorf("%s: array %q, %v, has %d runs, but %q has %d", file, v.Name, t, count, infos[0].Name, len(runs))
		}
		if t.Len() == 0 {
			return nil, fmt.Errorf("%s: array %q is empty: %v", file, v.Name, t)
		}
		if v.DType != tensor.String {
			elements := numbersOf(t)
			for k := range elements.n {
				if x := elements.at(k); x-x != 0 {
					return nil, fmt.Errorf("%s: array %q contains %v at %v", file, v.Name, x, position(k/elements.each, t.Shape()))
				}
			}
		}
		for k := range runs {
			runs[k][v.Name] = t
			if several {
				runs[k][v.Name] = part(t, k, k+1).Reshape(t.Shape()[1:]...)
			}
		}
	}
	return runs, nil
}

// part copies the elements from index low to high of the first axis.
func part(t *tensor.Tensor, low, high int) *tensor.Tensor {
	shape := t.Shape().Clone()
	bytes, strs := len(t.Bytes())/shape[0], len(t.Strings())/shape[0]
	shape[0] = high - low
	out := tensor.New(t.DType(), shape...)
	copy(out.Bytes(), t.Bytes()[low*bytes:])
	copy(out.Strings(), t.Strings()[low*strs:])
	return out
}

// cut makes runs of a few examples of a batch, if the inputs' first dimension is one that is free and the same for all.
func cut(batch rlxc.Tensors, infos []rlxc.ValueInfo) []rlxc.Tensors {
	rows := 0
	for i, v := range infos {
		t := batch[v.Name]
		if len(v.Shape) == 0 || v.Shape[0] != infos[0].Shape[0] || !slices.Contains(freeDims(infos), symbolOf(v.Shape[0])) || i > 0 &&
			t.Shape()[0] != rows {
			return []rlxc.Tensors{batch}
		}
		rows = t.Shape()[0]
	}
	var out []rlxc.Tensors
	for low := 0; low < rows; low += rowsPerRun {
		in := rlxc.Tensors{}
		for name, t := range batch {
			in[name] = part(t, low, min(low+rowsPerRun, rows))
		}
		out = append(out, in)
	}
	return out
}
