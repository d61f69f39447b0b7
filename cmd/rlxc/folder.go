package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// folder is the records of a folder: each file in it, and in its folders, is a text.
type folder struct {
	name  string
	files []string // relative to it, in lexical order
	read  int      // files that were read
}

// folderRecords lists the files of a folder, without those whose names begin with a dot.
func folderRecords(name string) (*folder, error) {
	f := &folder{name: name}
	return f, fs.WalkDir(os.DirFS(name), ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		case file != "." && strings.HasPrefix(d.Name(), ".") && d.IsDir():
			return fs.SkipDir
		case !d.IsDir() && !strings.HasPrefix(d.Name(), "."):
			f.files = append(f.files, file)
		}
		return nil
	})
}

func (f *folder) fields() (names []string, known bool, err error) {
	return []string{"file", "text"}, true, nil
}

func (f *folder) node(string) parquet.Node { return parquet.String() }

func (f *folder) position() int64 { return int64(f.read) }

func (f *folder) size() int64 { return int64(len(f.files)) }

func (f *folder) next(names []string) (record, error) {
	if f.read == len(f.files) {
		return record{}, io.EOF
	}
	file := f.files[f.read]
	f.read++
	r := record{where: filepath.Join(f.name, file), values: make([]any, len(names))}
	var text string
	text, r.err = wholeText(r.where)
	for i, name := range names {
		r.values[i] = text
		if name == "file" {
			r.values[i] = file
		}
	}
	return r, nil
}

// wholeText reads a file that is one text, without the end of its last line.
func wholeText(file string) (_ string, err error) {
	in := &textFile{name: file}
	if in.file, err = openRegular(file, os.O_RDONLY, os.Stat); err != nil {
		return "", err
	}
	defer in.file.Close()
	format, err := in.open()
	if err != nil {
		return "", err
	}
	if format != plainFormat {
		return "", fmt.Errorf("it is a file of %s, not a text: make it the --input", format.name)
	}
	text, err := io.ReadAll(io.LimitReader(in.lines, maxLine+1))
	if len(text) > maxLine {
		err = errors.Join(err, errLongLine)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), err
}
