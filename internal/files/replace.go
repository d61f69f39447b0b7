package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// ReplaceFile replaces an old file by a new one, whole or not at all, so that a model may be saved over the one that it
// was read from, whose mapping keeps the old contents. It has reached the disk when ReplaceFile returns. A new file has the
// permissions that the umask leaves, an old one keeps its own. A link stays a link: what it leads to is replaced. What is there
// and no regular file, such as a pipe, is written to.
//
// Until it is complete the file has no name, where the system can do that; elsewhere its name begins with a dot and ends in
// ".rlxc-tmp". DiscardDrafts removes such files. It fails with the error of write, or with one of the file system; the old
// file stays then.
func ReplaceFile(path string, write func(io.Writer) error) error {
	if err := replaceFile(path, write); err != nil {
		return fmt.Errorf("%s cannot be written: %w", path, cause(err))
	}
	return nil
}

// toDisk returns when a file has reached the disk. Tests watch it.
var toDisk = (*os.File).Sync

func replaceFile(path string, write func(io.Writer) error) (err error) {
	if path, err = followLinks(path); err != nil {
		return err
	}
	mode := fs.FileMode(0)
	switch info, err := os.Stat(path); {
	case err == nil && !info.Mode().IsRegular():
		return overwrite(path, info, write)
	case err == nil:
		mode = info.Mode().Perm()
	}
	f, err := openDraft(path)
	if err != nil {
		return err
	}
	defer f.discard()
	if err = write(f); err != nil {
		return err
	}
	if mode != 0 {
		if err = f.Chmod(mode); err != nil {
			return err
		}
	}
	if err = toDisk(f.File); err != nil {
		return err
	}
	return f.install(path)
}

// maxLinks is how many links in a row are followed, as many as Linux follows.
const maxLinks = 40

// followLinks is the path that a chain of links leads to, whether there is a file or not.
func followLinks(path string) (string, error) {
	for range maxLinks {
		info, err := os.Lstat(path)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return path, nil // an error shows when the file is made
		}
		to, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return "", syscall.ELOOP
}

func overwrite(path string, info fs.FileInfo, write func(io.Writer) error) error {
	if info.IsDir() {
		return syscall.EISDIR
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// A draft is a file that is not complete: without a name, or with one that it is to lose.
type draft struct {
	*os.File
	name string // "" for none
}

const (
	draftEnding = ".rlxc-tmp"
	// draftAge is the age from which a draft belongs to a process that was killed.
	draftAge = 24 * time.Hour
)

// drafts are the named ones of this process.
var drafts struct {
	sync.Mutex
	count int
	open  map[string]bool
}

// draftName is a new name beside path.
func draftName(path string) string {
	drafts.Lock()
	defer drafts.Unlock()
	drafts.count++
	name := filepath.Join(filepath.Dir(path),
		"."+filepath.Base(path)+"."+strconv.Itoa(os.Getpid())+"-"+strconv.Itoa(drafts.count)+draftEnding)
	if drafts.open == nil {
		drafts.open = map[string]bool{}
	}
	drafts.open[name] = true
	return name
}

// namedDraft is a draft for systems that know no file without a name. It sweeps away what killed processes left.
func namedDraft(path string) (*draft, error) {
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"+draftEnding))
	for _, name := range left {
		if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > draftAge {
			os.Remove(name)
		}
	}
	d := &draft{name: draftName(path)}
	var err error
	if d.File, err = os.OpenFile(d.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666); err != nil {
		forget(d.name)
		return nil, err
	}
	return d, nil
}

func forget(name string) {
	drafts.Lock()
	defer drafts.Unlock()
	delete(drafts.open, name)
}

// install gives a complete file its name and makes both last.
func (d *draft) install(path string) error {
	if d.name == "" {
		if done, err := d.link(path); done || err != nil {
			syncFolder(path)
			return err
		}
	}
	if err := d.Close(); err != nil { // some systems do not rename open files
		return err
	}
	if err := os.Rename(d.name, path); err != nil {
		return err
	}
	forget(d.name)
	d.name = ""
	syncFolder(path)
	return nil
}

// discard ends a draft; an installed one has nothing to lose.
func (d *draft) discard() {
	d.Close()
	if d.name != "" {
		os.Remove(d.name)
		forget(d.name)
	}
}

// DiscardDrafts removes the files that ReplaceFile is writing, for a process that is about to end before they are complete.
func DiscardDrafts() {
	drafts.Lock() // and keeps it: no other is begun
	for name := range drafts.open {
		os.Remove(name)
	}
}

// syncFolder makes a new name in a folder last. Some file systems cannot, and then it is up to them.
func syncFolder(path string) {
	if f, err := os.Open(filepath.Dir(path)); err == nil {
		toDisk(f)
		f.Close()
	}
}

// cause returns the system's error without the path. The path is that of a temporary file, whose name means nothing to the caller.
func cause(err error) error {
	var of *fs.PathError
	var with *os.LinkError
	switch {
	case errors.As(err, &of):
		return of.Err
	case errors.As(err, &with):
		return with.Err
	}
	return err
}
