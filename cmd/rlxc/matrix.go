package main

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/rlxc/rlxc/pipeline"
	"github.com/rlxc/rlxc/tensor"
)

// A matrix has a vector a row: an .npy file, or the array embeddings of an .npz archive. Rounds have float32.
type matrix struct {
	size      int
	precision pipeline.Precision
	archive   bool
}

func (m *matrix) add(round *bytes.Buffer, it item, result any) error {
	v := make([]float32, m.size) // zeros for an error, so that rows are lines
	if it.err == nil {
		v = result.(interface{ vector() []float32 }).vector()
	}
	for _, x := range v {
		round.Write(binary.LittleEndian.AppendUint32(round.AvailableBuffer(), math.Float32bits(x)))
	}
	return nil
}

func (m *matrix) end(*bytes.Buffer) error { return nil }

// each reads the vectors, a round at a time.
func (m *matrix) each(r *results, do func([][]float32) error) error {
	return r.eachFrame(func(f *frames) error {
		var rows [][]float32
		data := make([]byte, 4*m.size)
		for {
			if _, err := io.ReadFull(f, data); err == io.EOF {
				return do(rows)
			} else if err != nil {
				return err
			}
			v := make([]float32, m.size)
			for i := range v {
				v[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
			}
			rows = append(rows, v)
		}
	})
}

func (m *matrix) file(w io.Writer, r *results) error {
	var ranges *pipeline.Ranges
	count := 0
	err := m.each(r, func(rows [][]float32) error {
		count += len(rows)
		if ranges != nil {
			rows = append(rows, ranges.Low, ranges.High)
		}
		ranges = pipeline.RangesOf(rows)
		return nil
	})
	if err != nil {
		return err
	}
	if !m.archive {
		return m.array(w, r, count, ranges)
	}
	z := zip.NewWriter(w) // as tensor.WriteNPZ does, which takes a whole array
	if w, err = z.CreateHeader(&zip.FileHeader{Name: "embeddings.npy", Method: zip.Store}); err != nil {
		return err
	}
	if err := m.array(w, r, count, ranges); err != nil {
		return err
	}
	return z.Close()
}

func (m *matrix) array(w io.Writer, r *results, count int, ranges *pipeline.Ranges) error {
	zeros := [][]float32{make([]float32, m.size)} // which show the type and size of a row, also where there is none
	row, err := pipeline.Quantize(zeros, m.precision, pipeline.RangesOf(zeros))
	if err != nil {
		return err
	}
	var head bytes.Buffer // beginning of an array of all rows
	if err := tensor.WriteNPY(&head, tensor.New(row.DType(), 0, row.Shape()[1])); err != nil {
		return err
	}
	if _, err := w.Write(npyHeader(head.Bytes(), count)); err != nil {
		return err
	}
	return m.each(r, func(rows [][]float32) error {
		t, err := pipeline.Quantize(rows, m.precision, ranges)
		if err != nil {
			return err
		}
		_, err = w.Write(t.Bytes())
		return err
	})
}

// npyHeader puts a number of rows into the header of an array of none. NumPy pads headers with spaces before their end, so that this
// needs no other length (NEP 1, "Format Specification: Version 1.0").
func npyHeader(head []byte, rows int) []byte {
	of := []byte("(0,")
	with := fmt.Appendf(nil, "(%d,", rows)
	grown := bytes.Replace(head, of, with, 1)
	spaces := len(with) - len(of)
	return append(grown[:len(grown)-1-spaces], '\n')
}
