package files

import (
	"os"
	"path/filepath"
	"time"
)

// A Stamp is the state of a file at one moment. Two stamps of an unchanged file are equal.
type Stamp struct {
	Path string // absolute
	Info os.FileInfo
	// changed is when the contents, the name or the attributes changed last: programs that restore the time of the last write leave it. It
	// is zero on systems that do not report it.
	changed time.Time
}

// StampOf returns the state of the file at a path. It fails as os.Stat does.
func StampOf(path string) (Stamp, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Stamp{}, err
	}
	return newStamp(path, info), nil
}

func newStamp(path string, info os.FileInfo) Stamp {
	if abs, err := filepath.Abs(path); err == nil { // else the program's folder is gone
		path = abs
	}
	return Stamp{path, info, changeTime(info)}
}

// Equal reports whether two stamps are of one file in one state.
func (s Stamp) Equal(o Stamp) bool {
	return s.Path == o.Path && os.SameFile(s.Info, o.Info) && !s.differs(o)
}

func (s Stamp) differs(o Stamp) bool {
	return s.Info.Size() != o.Info.Size() || !s.Info.ModTime().Equal(o.Info.ModTime()) || !s.changed.Equal(o.changed)
}

// Changed reports whether the file was written to or truncated since. A file that is gone, or that another was renamed to, is unchanged
// for those who have it open.
func (s Stamp) Changed() bool {
	now, err := StampOf(s.Path)
	return err == nil && os.SameFile(s.Info, now.Info) && s.differs(now)
}
