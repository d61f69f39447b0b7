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
	// open is the file of a mapping, and real its path without symbolic links when it was mapped. open is nil for other stamps, and where
	// the system or the limit of open files allows no second descriptor.
	open *os.File
	real string
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
	return Stamp{Path: path, Info: info, changed: changeTime(info)}
}

// watch makes Changed look at f wherever the file is moved, and not only at its path.
func (s *Stamp) watch(f *os.File) {
	var err error
	if s.real, err = filepath.EvalSymlinks(s.Path); err != nil { // another program has moved it
		s.real = s.Path
	}
	s.open = duplicate(f)
}

// Equal reports whether two stamps are of one file in one state.
func (s Stamp) Equal(o Stamp) bool {
	return s.Path == o.Path && os.SameFile(s.Info, o.Info) && !s.differs(o)
}

func (s Stamp) differs(o Stamp) bool {
	return s.Info.Size() != o.Info.Size() || !s.Info.ModTime().Equal(o.Info.ModTime()) || !s.changed.Equal(o.changed)
}

// Changed reports whether the file was written to or truncated since. A file that is gone, or that another was renamed to, is unchanged
// for those who have it open. The file of a mapping is watched wherever it was moved to, or a symbolic link to it now leads. There a
// write after which the time of the last write is restored goes unnoticed, because moving a file changes the time of changes as well. A
// write is noticed only if the file system's clock has ticked since the write before it: within 10 ms at most.
func (s Stamp) Changed() bool {
	path := s.Path
	if s.open != nil {
		if info, err := s.open.Stat(); err == nil {
			if info.Size() != s.Info.Size() || !info.ModTime().Equal(s.Info.ModTime()) {
				return true
			}
			path = s.real
		}
	}
	now, err := StampOf(path)
	return err == nil && os.SameFile(s.Info, now.Info) && s.differs(now)
}
