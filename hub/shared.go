package hub

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// The shared store holds the contents of large files once for all models of a cache, by their Xet hash: CACHE/blobs/ab/ab12….
// A model's blob is then a link to it, and HASH.refs lists these links, a line each, so that a store file can be removed with
// the last of them. huggingface_hub fills the store; here files are linked from it and given back.

const (
	sharedMarker  = ".huggingface-shared-blobs" // a store without it is another program's folder
	sharedVersion = "1\n"
)

var xetHash = regexp.MustCompile(`^[0-9a-f]{64}$`)

func sharedStore(cache string) (dir string, ok bool) {
	dir = filepath.Join(cache, "blobs")
	data, err := readFile(filepath.Join(dir, sharedMarker), noFollow, maxNote)
	return dir, err == nil && string(data) == sharedVersion
}

// linkShared makes a model's blob a link into the store, if the store has the content. A failure costs a download and no more.
func (c *Client) linkShared(r *repo, m metadata) bool {
	store, ok := sharedStore(r.cache)
	if !ok || c.NoShared || c.NoLinks || !xetHash.MatchString(m.xet) {
		return false
	}
	content := filepath.Join(store, m.xet[:2], m.xet)
	return withLock(content, func() error {
		info, err := os.Lstat(content)
		if err != nil || !info.Mode().IsRegular() || info.Size() != m.size {
			return errors.New("it is not in the shared store")
		}
		blob := r.blob(m.etag)
		if err := os.MkdirAll(filepath.Dir(blob), 0o777); err != nil {
			return err
		}
		refs, err := open(content+".refs", os.O_WRONLY|os.O_APPEND|os.O_CREATE|noFollow)
		if err != nil {
			return err
		}
		_, err = refs.WriteString(filepath.Base(r.dir) + "/blobs/" + m.etag + "\n")
		if err = errors.Join(err, refs.Sync(), refs.Close()); err != nil {
			return err
		}
		target, err := filepath.Rel(filepath.Dir(blob), content)
		if err != nil {
			return err
		}
		temporary := blob + "." + rand.Text() + ".shared"
		if err := os.Symlink(target, temporary); err != nil {
			return err
		}
		defer os.Remove(temporary)
		return os.Rename(temporary, blob)
	}) == nil
}

// withLock holds the lock of a store file that is not in use for long.
func withLock(content string, do func() error) error {
	f, err := open(content+".lock", os.O_WRONLY|os.O_CREATE|noFollow)
	if err != nil {
		return err
	}
	defer f.Close()
	if !tryLock(f) {
		return errors.New("another process uses it")
	}
	return do()
}

// sweepShared removes a store file to which no blob links any more, and returns its size. What is not understood stays.
func sweepShared(cache, content string) (int64, error) {
	var freed int64
	err := withLock(content, func() error {
		data, err := readFile(content+".refs", noFollow, maxListing)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(data)) {
			line = strings.TrimSpace(line)
			if !filepath.IsLocal(line) {
				continue
			}
			if target, err := filepath.EvalSymlinks(filepath.Join(cache, filepath.FromSlash(line))); err == nil &&
				sameFile(target, content) {
				return nil // in use
			}
		}
		info, err := os.Lstat(content)
		if err != nil {
			return err
		}
		freed = info.Size()
		return errors.Join(os.Remove(content), os.Remove(content+".refs"))
	})
	return freed, err
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(x, y)
}
