package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/rlxc/rlxc/pipeline"
	"github.com/rlxc/rlxc/tensor"
)

// A results file takes results in order. What is written before an interruption stays in FILE.part, whose first line tells what it is
// a part of; the same command goes on after it.
type results struct {
	file string
	part *os.File
	out  *bufio.Writer
	done int // results that were there
	head int // bytes of the first line
	size int // numbers of a vector; 0 for lines of JSON
}

// openResults opens the part of a file or begins one. run tells runs apart; size is that of vectors, 0 for lines of JSON.
func openResults(file, run string, size int) (*results, error) {
	r := &results{file: file, size: size}
	head := fmt.Sprintf("rlxc %x\n", sha256.Sum256([]byte(run)))
	r.head = len(head)
	f, err := os.OpenFile(file+".part", os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	r.part = f
	begin := make([]byte, len(head))
	if _, err := io.ReadFull(f, begin); err != nil || string(begin) != head { // of another run, or empty
		if err := errors.Join(f.Truncate(0), seek(f, 0)); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if _, err := f.WriteString(head); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	} else if err := r.count(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r.out = bufio.NewWriterSize(f, 1<<20)
	return r, nil
}

func seek(f *os.File, at int64) error {
	_, err := f.Seek(at, io.SeekStart)
	return err
}

// count finds the results of whole rounds of itemsAtOnce, and cuts off what follows them: texts of a round share batches, and would have
// other last bits in others.
func (r *results) count() error {
	end := int64(r.head)
	if r.size > 0 {
		info, err := r.part.Stat()
		if err != nil {
			return err
		}
		r.done = int((info.Size()-end)/int64(4*r.size)) / itemsAtOnce * itemsAtOnce
		end += int64(r.done) * int64(4*r.size)
	} else {
		in := bufio.NewReaderSize(r.part, 1<<20)
		for lines, at := 0, end; ; {
			part, err := in.ReadSlice('\n')
			at += int64(len(part))
			if err == nil {
				if lines++; lines%itemsAtOnce == 0 {
					r.done, end = lines, at
				}
			} else if err == io.EOF {
				break
			} else if err != bufio.ErrBufferFull {
				return err
			}
		}
	}
	return errors.Join(r.part.Truncate(end), seek(r.part, end))
}

// line adds a result as a line of JSON.
func (r *results) line(v any) error {
	e := json.NewEncoder(r.out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// vector adds a vector.
func (r *results) vector(v []float32) error {
	for _, x := range v {
		var b [4]byte
		binary.LittleEndian.PutUint32(b[:], math.Float32bits(x))
		if _, err := r.out.Write(b[:]); err != nil {
			return err
		}
	}
	return nil
}

// pause writes what is there and keeps the part.
func (r *results) pause() error { return errors.Join(r.out.Flush(), r.part.Close()) }

// finish makes the file of the part.
func (r *results) finish(precision string) error {
	if err := r.out.Flush(); err != nil {
		return errors.Join(err, r.part.Close())
	}
	err := tensor.ReplaceFile(r.file, func(w io.Writer) error {
		if r.size == 0 {
			if err := seek(r.part, int64(r.head)); err != nil {
				return err
			}
			_, err := io.Copy(w, r.part)
			return err
		}
		return r.writeMatrix(w, precision)
	})
	if err = errors.Join(err, r.part.Close()); err != nil {
		return err
	}
	return os.Remove(r.file + ".part")
}

// rowsAtOnce is how many vectors of a part are in memory at a time.
const rowsAtOnce = 4096

// each reads the part's vectors again.
func (r *results) each(do func([][]float32) error) error {
	if err := seek(r.part, int64(r.head)); err != nil {
		return err
	}
	in := bufio.NewReaderSize(r.part, 1<<20)
	for {
		var rows [][]float32
		data := make([]byte, 4*r.size)
		for len(rows) < rowsAtOnce {
			if _, err := io.ReadFull(in, data); err == io.EOF {
				break
			} else if err != nil {
				return err
			}
			v := make([]float32, r.size)
			for i := range v {
				v[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
			}
			rows = append(rows, v)
		}
		if len(rows) == 0 {
			return nil
		}
		if err := do(rows); err != nil {
			return err
		}
	}
}

// writeMatrix writes the vectors as an .npy file, or as the array embeddings of an .npz archive.
func (r *results) writeMatrix(w io.Writer, precision string) error {
	var ranges *pipeline.Ranges
	count := 0
	err := r.each(func(rows [][]float32) error {
		count += len(rows)
		own := pipeline.RangesOf(rows)
		if ranges == nil {
			ranges = own
			return nil
		}
		for i := range own.Low {
			ranges.Low[i], ranges.High[i] = min(ranges.Low[i], own.Low[i]), max(ranges.High[i], own.High[i])
		}
		return nil
	})
	if err != nil {
		return err
	}
	if filepath.Ext(r.file) == ".npz" {
		all := [][]float32{}
		if err := r.each(func(rows [][]float32) error { all = append(all, rows...); return nil }); err != nil {
			return err
		}
		t, err := pipeline.Quantize(all, precision, ranges)
		if err != nil {
			return err
		}
		return tensor.WriteNPZ(w, []tensor.Named{{Name: "embeddings", Tensor: t}})
	}
	begun := false
	return r.each(func(rows [][]float32) error {
		t, err := pipeline.Quantize(rows, precision, ranges)
		if err != nil {
			return err
		}
		if !begun {
			begun = true
			var head bytes.Buffer // of an array of all rows
			if err := tensor.WriteNPY(&head, tensor.New(t.DType(), 0, t.Shape()[1])); err != nil {
				return err
			}
			if _, err := w.Write(npyHeader(head.Bytes(), count)); err != nil {
				return err
			}
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
