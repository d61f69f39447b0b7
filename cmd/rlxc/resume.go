package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/rlxc/rlxc/pipeline"
	"github.com/rlxc/rlxc/tensor"
)

// A results file takes results in order. What is written before an interruption stays in FILE.part, whose first line tells what it is
// a part of; the same command goes on after it. The results of a round of itemsAtOnce are a frame, which has a checksum and has reached the
// disk before anything is told of it.
type results struct {
	file  string
	part  *os.File
	round bytes.Buffer // results that are in no frame yet
	count int          // of them
	done  int          // results that were there
	lost  bool         // something that was there does not check
	head  int          // bytes of the first line
	size  int          // numbers of a vector; 0 for lines of JSON
}

// openResults opens the part of a file or begins one. run tells runs apart; size is that of vectors, 0 for lines of JSON.
func openResults(file, run string, size int) (*results, error) {
	r := &results{file: file, size: size}
	head := fmt.Sprintf("rlxc %x\n", sha256.Sum256([]byte(run)))
	r.head = len(head)
	f, err := openRegular(file+".part", os.O_RDWR|os.O_CREATE, os.Lstat)
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
	} else if err := r.check(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

func seek(f *os.File, at int64) error {
	_, err := f.Seek(at, io.SeekStart)
	return err
}

// check finds the results of whole rounds, and cuts off what follows them: texts of a round share batches, and would have other last bits
// in others.
func (r *results) check() error {
	f, err := r.frames()
	if err != nil {
		return err
	}
	end := int64(r.head)
	for {
		count, err := f.next()
		if err == nil {
			_, err = io.Copy(io.Discard, f)
		}
		if r.lost = err != nil && err != io.EOF; err != nil || count != itemsAtOnce {
			break
		}
		r.done += count
		end += frameHead + int64(f.length)
	}
	return errors.Join(r.part.Truncate(end), seek(r.part, end))
}

// frameHead is the length of what is before a frame's results: how many they are, their bytes, and the SHA-256 of both and of them.
const frameHead = 16 + sha256.Size

// frames reads frames from the first on.
type frames struct {
	in     *bufio.Reader
	length uint64
	left   uint64
	sum    hash.Hash
	want   [sha256.Size]byte
}

func (r *results) frames() (*frames, error) {
	return &frames{in: bufio.NewReaderSize(r.part, 1<<20), sum: sha256.New()}, seek(r.part, int64(r.head))
}

var errDamaged = errors.New("it was changed, or is not whole")

// next begins the next frame; io.EOF at the end.
func (f *frames) next() (count int, err error) {
	head := make([]byte, frameHead)
	if _, err := io.ReadFull(f.in, head); err == io.EOF {
		return 0, io.EOF
	} else if err != nil {
		return 0, errDamaged
	}
	f.sum.Reset()
	f.sum.Write(head[:16])
	f.length = binary.LittleEndian.Uint64(head[8:])
	f.left = f.length
	copy(f.want[:], head[16:])
	return int(binary.LittleEndian.Uint64(head)), nil
}

// Read reads a frame, whose end is io.EOF if it is whole.
func (f *frames) Read(b []byte) (int, error) {
	if f.left == 0 {
		if [sha256.Size]byte(f.sum.Sum(nil)) != f.want {
			return 0, errDamaged
		}
		return 0, io.EOF
	}
	n, err := f.in.Read(b[:min(uint64(len(b)), f.left)])
	f.sum.Write(b[:n])
	if f.left -= uint64(n); err == io.EOF {
		err = errDamaged
	}
	return n, err
}

// commit makes a frame of the results of a round.
func (r *results) commit() error {
	data := r.round.Bytes()
	head := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(r.count)), uint64(len(data)))
	sum := sha256.New()
	sum.Write(head)
	sum.Write(data)
	if _, err := r.part.Write(sum.Sum(head)); err != nil {
		return err
	}
	if _, err := r.part.Write(data); err != nil {
		return err
	}
	r.round.Reset()
	r.count = 0
	return r.part.Sync()
}

// line adds a result as a line of JSON.
func (r *results) line(v any) error {
	r.count++
	e := json.NewEncoder(&r.round)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// vector adds a vector.
func (r *results) vector(v []float32) {
	r.count++
	for _, x := range v {
		r.round.Write(binary.LittleEndian.AppendUint32(r.round.AvailableBuffer(), math.Float32bits(x)))
	}
}

// pause keeps the part.
func (r *results) pause() error { return r.part.Close() }

// finish makes the file of the part.
func (r *results) finish(precision pipeline.Precision) error {
	err := tensor.ReplaceFile(r.file, func(w io.Writer) error {
		if r.size > 0 {
			return r.writeMatrix(w, precision)
		}
		return r.eachFrame(func(f *frames) error {
			_, err := io.Copy(w, f)
			return err
		})
	})
	if err = errors.Join(err, r.part.Close()); err != nil {
		return err
	}
	return os.Remove(r.file + ".part")
}

// eachFrame reads the part again.
func (r *results) eachFrame(do func(f *frames) error) error {
	f, err := r.frames()
	if err != nil {
		return err
	}
	for {
		_, err := f.next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = do(f)
		}
		if err != nil {
			return fmt.Errorf("%s.part: %w", r.file, err)
		}
	}
}

// each reads the part's vectors again, a round at a time.
func (r *results) each(do func([][]float32) error) error {
	return r.eachFrame(func(f *frames) error {
		var rows [][]float32
		data := make([]byte, 4*r.size)
		for {
			if _, err := io.ReadFull(f, data); err == io.EOF {
				return do(rows)
			} else if err != nil {
				return err
			}
			v := make([]float32, r.size)
			for i := range v {
				v[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
			}
			rows = append(rows, v)
		}
	})
}

// writeMatrix writes the vectors as an .npy file, or as the array embeddings of an .npz archive.
func (r *results) writeMatrix(w io.Writer, precision pipeline.Precision) error {
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
