package files

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// openDraft makes a file without a name in the folder of path: whatever becomes of the process, nothing is left of it.
func openDraft(path string) (*draft, error) {
	fd, err := unix.Open(filepath.Dir(path), unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o666)
	if err != nil {
		return namedDraft(path) // not every file system can; a mistake in the path shows there
	}
	d := &draft{File: os.NewFile(uintptr(fd), path)}
	if _, err := os.Lstat(d.procName()); err != nil { // no /proc: it could never get a name
		d.Close()
		return namedDraft(path)
	}
	return d, nil
}

// procName is Linux's name of an open file.
func (d *draft) procName() string { return "/proc/self/fd/" + strconv.Itoa(int(d.Fd())) }

// link gives a file without a name the name path, or, where path is taken, a name of a draft, which can be renamed.
func (d *draft) link(path string) (done bool, err error) {
	link := func(name string) error {
		return unix.Linkat(unix.AT_FDCWD, d.procName(), unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
	}
	if err := link(path); !errors.Is(err, unix.EEXIST) {
		return err == nil, err
	}
	d.name = draftName(path)
	err = link(d.name)
	if errors.Is(err, unix.EEXIST) { // a killed process had the same number
		if err = os.Remove(d.name); err == nil {
			err = link(d.name)
		}
	}
	return false, err
}
