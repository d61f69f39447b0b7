// Package files reads, maps and replaces files that are not trusted, and quotes in messages what such files say.
package files

import (
	"fmt"
	"io/fs"
)

// ReadFile is System.ReadFile for a file of the operating system.
func ReadFile(path string, limit int64) ([]byte, error) {
	return System{}.ReadFile(path, limit)
}

// Unchanged fails if the open file f was written to or truncated after before described it. Then bytes that a program has read of it may be
// parts of two contents. name is the file's name in messages. A write within 10 ms of an earlier one may go unnoticed if it leaves the
// size, because file systems count time in ticks.
func Unchanged(f fs.File, name string, before fs.FileInfo) error {
	now, err := f.Stat()
	switch {
	case err != nil:
		return err
	case now.Size() != before.Size():
		return fmt.Errorf("%s was changed while it was read: it had %d bytes and has %d: read it again when it is complete", name,
			before.Size(), now.Size())
	case !now.ModTime().Equal(before.ModTime()):
		return fmt.Errorf("%s was changed while it was read: read it again when it is complete", name)
	}
	return nil
}
