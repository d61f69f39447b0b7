package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// File returns the path of one file of a model at a revision. It downloads the file unless the cache has it. If the hub does not answer,
// File uses the cache. It fails with ErrNotFound, ErrDenied, ErrOffline, an error of the network or of the file system, or that of ctx.
func (c *Client) File(ctx context.Context, id, revision, name string) (string, error) {
	r, err := c.repo(id)
	if err == nil {
		err = errors.Join(checkRevision(revision), checkName(name))
	}
	if err != nil {
		return "", fmt.Errorf("hub: %w", err)
	}
	path, err := c.file(ctx, r, revision, name, nil)
	if err != nil {
		return "", fmt.Errorf("hub: %s of %s at %s: %w", name, id, revision, err)
	}
	return path, nil
}

// file is File; listed is what the listing says of the file, nil if there is none.
func (c *Client) file(ctx context.Context, r *repo, revision, name string, listed *entry) (string, error) {
	commit := r.cached(revision)
	have := func() (string, error) {
		if commit != "" {
			if path := r.pointer(commit, name); isFile(path) {
				return path, nil
			}
			if isFile(filepath.Join(r.dir, ".no_exist", commit, filepath.FromSlash(name))) {
				return "", fmt.Errorf("the repository has no such file: %w", ErrNotFound)
			}
		}
		return "", ErrOffline
	}
	if c.Offline || revision == commit {
		path, err := have()
		if err == nil || errors.Is(err, ErrNotFound) {
			return path, err
		}
		if c.Offline {
			return "", fmt.Errorf("%w %s: %w", ErrOffline, r.cache, offlineError(r.id))
		}
	}
	m, err := c.head(ctx, r.id, revision, name)
	if err == nil {
		m, listed, err = c.complete(ctx, r, m, revision, name, listed)
	}
	if err != nil {
		if status := (*statusError)(nil); errors.As(err, &status) && status.code == "EntryNotFound" &&
			commitHash.MatchString(status.commit) {
			writeFile(filepath.Join(r.dir, ".no_exist", status.commit, filepath.FromSlash(name)), nil) // a note, and no more
		}
		if unreachable(err) {
			if path, cached := have(); cached == nil {
				return path, nil
			}
			return "", fmt.Errorf("%w %s, and the hub cannot be reached: %w", ErrOffline, r.cache, err)
		}
		return "", err
	}
	switch {
	case commitHash.MatchString(revision) && m.commit != revision:
		return "", fmt.Errorf("the hub returned commit %s instead: try again", m.commit)
	case listed != nil && m.size >= 0 && m.size != listed.Size:
		return "", fmt.Errorf("the hub reports two sizes for it, %d and %d bytes: try again", listed.Size, m.size)
	case listed != nil:
		m.size = listed.Size
	}
	path := r.pointer(m.commit, name)
	if err := r.setCommit(revision, m.commit); err != nil && !isFile(path) { // a cache may be read-only
		return "", err
	}
	if isFile(path) {
		return path, nil
	}
	get := func() error {
		return lock(ctx, r.lockFile(m.etag), func() error {
			blob := r.blob(m.etag)
			if !isFile(blob) && !c.linkShared(r, m) {
				if err := c.download(ctx, r, m, name); err != nil {
					return err
				}
			}
			return c.point(path, blob)
		})
	}
	err = get()
	if listed == nil && errors.Is(err, errChecksum) { // the ETag may be a mirror's own checksum, in the form of git's
		entries, other := c.entries(ctx, r, m.commit, false)
		if e := entries[name]; other == nil && e != nil && e.content() != m.etag {
			m.etag, m.size = e.content(), e.Size
			err = get()
		}
	}
	return path, err
}

// complete returns metadata with what a mirror left out of it: the commit, which is that of the listing, and the checksum. A listed file is
// known by the listing's checksum, whatever its ETag. It also returns what the listing says of the file, nil if it was not needed.
func (c *Client) complete(ctx context.Context, r *repo, m metadata, revision, name string, listed *entry) (metadata, *entry, error) {
	if m.commit == "" {
		var stale, err error
		if m.commit, stale, err = c.commit(ctx, r, revision); err != nil || stale != nil {
			return m, listed, errors.Join(err, stale)
		}
	}
	if m.etag == "" && listed == nil {
		entries, err := c.entries(ctx, r, m.commit, false)
		if err != nil {
			return m, nil, err
		}
		if listed = entries[name]; listed == nil {
			return m, nil, fmt.Errorf("%s is not a hub: it has the file, but neither lists it nor returns a checksum as ETag", c.Endpoint)
		}
	}
	if listed != nil && m.etag != listed.content() {
		m.etag = listed.content()
		if hasher(m.etag, listed.Size) == nil {
			return m, nil, fmt.Errorf("the hub lists the file with %q, not a checksum, and returns another ETag", m.etag)
		}
	}
	return m, listed, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// point makes a file of a snapshot of a blob: a link, or the blob itself where links are not wanted.
func (c *Client) point(path, blob string) error {
	if isFile(path) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	os.Remove(path) // a link that leads nowhere
	if !c.NoLinks {
		target, err := filepath.Rel(filepath.Dir(path), blob)
		if err != nil {
			return err
		}
		if os.Symlink(target, path) == nil {
			return nil
		}
	}
	if info, err := os.Lstat(blob); err == nil && info.Mode().IsRegular() && os.Rename(blob, path) == nil {
		return nil
	}
	from, err := open(blob, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := open(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// hasher returns what an ETag of the hub is made by: SHA-256 of large files, git's SHA-1 of others; nil for an unknown form.
func hasher(etag string, size int64) hash.Hash {
	switch {
	case len(etag) == hex.EncodedLen(sha256.Size):
		return sha256.New()
	case len(etag) == hex.EncodedLen(sha1.Size) && size >= 0:
		h := sha1.New()
		fmt.Fprintf(h, "blob %d\x00", size)
		return h
	}
	return nil
}

// errChecksum is a transfer that went wrong unnoticed.
var errChecksum = errors.New("the downloaded file has another checksum than the hub reports")

// download fetches a blob. What arrives before a failure stays beside it, so that the next attempt or process continues. If the whole
// is wrong, the older part may be to blame: it is fetched once more.
func (c *Client) download(ctx context.Context, r *repo, m metadata, name string) error {
	part := r.blob(m.etag) + ".incomplete"
	if err := os.MkdirAll(filepath.Dir(part), 0o777); err != nil {
		return err
	}
	resumed, err := c.fetch(ctx, r, m, name, part)
	if resumed && errors.Is(err, errChecksum) {
		_, err = c.fetch(ctx, r, m, name, part)
	}
	if err != nil {
		return err
	}
	return os.Rename(part, r.blob(m.etag))
}

// fetch fills the part of a blob. It removes one that is whole and wrong, and reports whether it had been begun before.
func (c *Client) fetch(ctx context.Context, r *repo, m metadata, name, part string) (resumed bool, err error) {
	f, err := open(part, os.O_RDWR|os.O_CREATE|noFollow)
	if err != nil {
		return false, err
	}
	err = c.retry(ctx, func() (bool, error) {
		before, err := f.Seek(0, io.SeekEnd)
		if err != nil {
			return false, err
		}
		resumed = resumed || before > 0
		err = c.transfer(ctx, f, before, c.resolve(r.id, m.commit, name), name, m.size)
		after, _ := f.Seek(0, io.SeekEnd)
		return after > before, err
	})
	if err == nil {
		err = verify(f, m)
		if errors.Is(err, errChecksum) {
			os.Remove(part)
		}
	}
	return resumed, errors.Join(err, f.Close())
}

// transfer appends the rest of a remote file to f, which holds the first have of its size bytes.
func (c *Client) transfer(ctx context.Context, f *os.File, have int64, address, name string, size int64) error {
	if have == size && size > 0 {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	from := ""
	if have > 0 {
		from = strconv.FormatInt(have, 10)
	}
	answer, err := c.send(ctx, http.MethodGet, address, from, true)
	if err != nil {
		if status := (*statusError)(nil); errors.As(err, &status) && status.status == http.StatusRequestedRangeNotSatisfiable {
			return errors.Join(f.Truncate(0), io.ErrUnexpectedEOF) // start again
		}
		return err
	}
	defer answer.Body.Close()
	if have > 0 && (answer.StatusCode != http.StatusPartialContent ||
		!strings.HasPrefix(answer.Header.Get("Content-Range"), "bytes "+from+"-")) {
		have = 0
		if err := f.Truncate(0); err != nil {
			return err
		}
	}
	if _, err := f.Seek(have, io.SeekStart); err != nil {
		return err
	}
	stalled := time.AfterFunc(c.timeout(), func() { cancel(errStalled) })
	defer stalled.Stop()
	buffer := make([]byte, 256<<10)
	for {
		n, err := answer.Body.Read(buffer)
		stalled.Reset(c.timeout())
		if size >= 0 && have+int64(n) > size {
			return errors.Join(f.Truncate(0), fmt.Errorf("the hub sent more than the %d bytes that it reported", size))
		}
		if _, err := f.Write(buffer[:n]); err != nil {
			return fmt.Errorf("after %d bytes: %w", have, err)
		}
		have += int64(n)
		if c.Progress != nil && n > 0 {
			c.mu.Lock()
			c.Progress(name, have, size)
			c.mu.Unlock()
		}
		switch {
		case err == io.EOF && size >= 0 && have < size:
			return fmt.Errorf("the transfer broke off after %d of %d bytes: %w", have, size, io.ErrUnexpectedEOF)
		case err == io.EOF:
			return nil
		case err != nil:
			if errors.Is(context.Cause(ctx), errStalled) {
				err = errStalled
			}
			return broken(err)
		}
	}
}

// errStalled is a transfer that delivers no more bytes. It counts as broken off.
var errStalled = errors.New("the hub stopped sending")

// verify compares a whole file with the checksum that names it.
func verify(f *os.File, m metadata) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	h := hasher(m.etag, info.Size())
	if h == nil {
		return nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != m.etag {
		return fmt.Errorf("%w: %s instead of %s", errChecksum, got, m.etag)
	}
	return nil
}
