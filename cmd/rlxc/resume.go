package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"os"

	"github.com/rlxc/rlxc/internal/files"
)

// A results file takes results in order. The results that were written before an interruption stay in FILE.part. The first line of
// FILE.part describes the run, and the same command continues after the last result. The results of a round are a frame, which has a
// checksum. A frame is on the disk before the command prints anything about its results.
type results struct {
	file  string
	part  *os.File
	round bytes.Buffer // results that are in no frame yet
	count int          // number of results in round
	done  int          // results in frames
	other string       // where the part of another run is now; empty if there was none
	lost  bool         // something that was there does not check
	head  int          // bytes of the first line

	encoder encoder
	packed  *compression // compression of the file; nil for none
}

// openResults opens the part of a file or begins one. run distinguishes runs.
func openResults(file, run string, e encoder, packed *compression) (*results, error) {
	r := &results{file: file, encoder: e, packed: packed}
	head := fmt.Sprintf("rlxc %x\n", sha256.Sum256([]byte(run)))
	r.head = len(head)
	open := func() (*os.File, error) { return openRegular(file+".part", os.O_RDWR|os.O_CREATE, os.Lstat) }
	f, err := open()
	if err != nil {
		return nil, err
	}
	begin := make([]byte, len(head))
	if n, _ := io.ReadFull(f, begin); n > 0 && string(begin) != head { // the results are of another run
		if r.other, err = setAside(file + ".part"); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		f.Close()
		if f, err = open(); err != nil {
			return nil, err
		}
	}
	if r.part = f; string(begin) != head { // it is empty
		if _, err := f.WriteString(head); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	} else if err := r.check(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

// setAside renames a part of another run to the first of FILE.part.1, FILE.part.2, … that is free.
func setAside(part string) (string, error) {
	for i := 1; ; i++ {
		name := fmt.Sprintf("%s.%d", part, i)
		if _, err := os.Lstat(name); errors.Is(err, os.ErrNotExist) {
			return name, os.Rename(part, name)
		} else if err != nil {
			return "", err
		}
	}
}

func seek(f *os.File, at int64) error {
	_, err := f.Seek(at, io.SeekStart)
	return err
}

// check finds the results of whole rounds, and cuts off what follows them: texts of a round share batches, and would have other last
// bits in others.
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
		if r.lost = err != nil && err != io.EOF; err != nil || count < 0 {
			break
		}
		r.done += count
		end += frameHead + int64(f.length)
	}
	return errors.Join(r.part.Truncate(end), seek(r.part, end))
}

// toDisk returns when a part has reached the disk. Tests watch it.
var toDisk = (*os.File).Sync

// frameHead is the length of what is before a frame's results: how many they are, their bytes, and the SHA-256 of both and of them.
const frameHead = 16 + sha256.Size

// cutShort is added to the number of the results of a round that the input's end cut short.
const cutShort = math.MinInt64

// A frames reads all frames of a part, beginning with the first.
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

var errDamaged = errors.New("it was changed or is incomplete: delete it to start again")

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

// commit makes a frame of the results of a round, which the end of the input may have cut short.
func (r *results) commit(end bool) error {
	if err := r.encoder.end(&r.round); err != nil {
		return err
	}
	data, count := r.round.Bytes(), int64(r.count)
	if end {
		count += cutShort
	}
	head := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(count)), uint64(len(data)))
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
	return toDisk(r.part)
}

// add takes a result, or the error of an item that has none.
func (r *results) add(it item, result any) error {
	r.count++
	return r.encoder.add(&r.round, it, result)
}

// pause keeps the part if it has results. An empty one would be set aside by the next command, under another name.
func (r *results) pause() error {
	end, err := r.part.Seek(0, io.SeekCurrent)
	if err = errors.Join(err, r.part.Close()); err != nil || end > int64(r.head) {
		return err
	}
	return os.Remove(r.part.Name())
}

// finish makes the file of the part.
func (r *results) finish() error {
	err := files.ReplaceFile(r.file, func(w io.Writer) error {
		if r.packed == nil {
			return r.encoder.file(w, r)
		}
		z, err := r.packed.pack(w)
		if err != nil {
			return err
		}
		return errors.Join(r.encoder.file(z, r), z.Close())
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
