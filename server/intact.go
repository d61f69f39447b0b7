package server

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A stamp is what a file was when its model was opened.
type stamp struct {
	path string
	info os.FileInfo
}

// stampsOf are those of a model's file and of its external data, whose names begin with the file's.
func stampsOf(model string) []stamp {
	var list []stamp
	dir, name := filepath.Split(model)
	files, _ := os.ReadDir(filepath.Clean(dir)) // a folder that cannot be listed has no stamps
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		if info, err := os.Stat(path); err == nil && strings.HasPrefix(f.Name(), name) {
			list = append(list, stamp{path, info})
		}
	}
	return list
}

var errChanged = errors.New("replace a model's file by renaming another to its name, and send SIGHUP")

// same reports whether files are as they were.
func same(a, b []stamp) bool {
	return slices.EqualFunc(a, b, func(x, y stamp) bool { return x.path == y.path && os.SameFile(x.info, y.info) && !x.changed(y.info) })
}

// changed reports whether a file was written to where it is.
func (s stamp) changed(now os.FileInfo) bool {
	return now.Size() != s.info.Size() || !now.ModTime().Equal(s.info.ModTime())
}

// intact is an error if the model's files were written to where they are: weights are read from there, so what was computed meanwhile
// may be of no model. Files that others have been renamed to, or that are gone, are as they were to who has them open.
func (m *opened) intact() error {
	for _, s := range m.stamps {
		now, err := os.Stat(s.path)
		if err == nil && os.SameFile(s.info, now) && s.changed(now) {
			return &failure{status: http.StatusServiceUnavailable,
				text:  "the model's files were changed while in use: the model must be reopened",
				cause: errChanged}
		}
	}
	return nil
}
