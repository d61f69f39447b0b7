package hub

import (
	"context"
	"os"
	"path/filepath"
	"time"
)

// lock holds a file's lock while do runs. The file stays: to remove it would let two hold a lock of the same name.
func lock(ctx context.Context, path string, do func() error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	f, err := open(path, os.O_RDWR|os.O_CREATE|noFollow)
	if err != nil {
		return err
	}
	defer f.Close() // which releases the lock
	for !tryLock(f) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return do()
}
