package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A Repo is a model in the cache.
type Repo struct {
	ID        string     `json:"id"`
	Dir       string     `json:"dir"`
	Bytes     int64      `json:"bytes"` // size of the files, each counted once, also those that it shares with other models
	Revisions []Revision `json:"revisions"`
}

// A Revision is a snapshot in the cache.
type Revision struct {
	Commit string    `json:"commit"`
	Refs   []string  `json:"refs,omitempty"` // branches and tags of the commit
	Dir    string    `json:"dir"`
	Files  int       `json:"files"`
	Used   time.Time `json:"modified"` // when the newest file arrived
}

// List returns the models in the cache, sorted by id. It skips folders that are not models. A cache that does not exist is empty. List
// fails with an error of the file system.
func (c *Client) List() ([]Repo, error) {
	folders, err := os.ReadDir(c.Cache)
	if errors.Is(err, fs.ErrNotExist) {
		return []Repo{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	repos := []Repo{}
	for _, f := range folders {
		name, ok := strings.CutPrefix(f.Name(), folderPrefix)
		id := strings.Replace(name, "--", "/", 1)
		if !ok || !ValidID(id) {
			continue
		}
		r, err := c.repo(id)
		if err != nil {
			return nil, err
		}
		repos = append(repos, r.describe())
	}
	slices.SortFunc(repos, func(a, b Repo) int { return cmp.Compare(a.ID, b.ID) })
	return repos, nil
}

func (r *repo) describe() Repo {
	out := Repo{ID: r.id, Dir: r.dir}
	refs := map[string][]string{}
	base := filepath.Join(r.dir, "refs")
	filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(base, path)
			name = filepath.ToSlash(name)
			if commit := r.commit(name); commit != "" {
				refs[commit] = append(refs[commit], name)
			}
		}
		return nil // what cannot be read does not count
	})
	seen := map[string]bool{}
	count := func(path string) os.FileInfo {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return nil
		}
		info, err := os.Stat(real)
		if err == nil && !seen[real] {
			seen[real] = true
			out.Bytes += info.Size()
		}
		return info
	}
	blobs, _ := os.ReadDir(filepath.Join(r.dir, "blobs"))
	for _, b := range blobs {
		count(filepath.Join(r.dir, "blobs", b.Name()))
	}
	snapshots, _ := os.ReadDir(filepath.Join(r.dir, "snapshots"))
	for _, s := range snapshots {
		rev := Revision{Commit: s.Name(), Dir: r.snapshot(s.Name()), Refs: refs[s.Name()]}
		filepath.WalkDir(rev.Dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return nil
			}
			if info := count(path); info != nil {
				rev.Files++
				if info.ModTime().After(rev.Used) {
					rev.Used = info.ModTime()
				}
			}
			return nil
		})
		out.Revisions = append(out.Revisions, rev)
	}
	return out
}

// Remove removes a model from the cache, and contents of the shared store that only this model used. It returns the number of bytes that
// it freed. It fails with ErrOffline if the model is not in the cache, with an error of the file system, or with that of ctx.
func (c *Client) Remove(ctx context.Context, id string) (int64, error) {
	r, err := c.repo(id)
	if err != nil {
		return 0, fmt.Errorf("hub: %w", err)
	}
	if _, err := os.Stat(r.dir); err != nil {
		return 0, fmt.Errorf("hub: %s is %w %s", id, ErrOffline, c.Cache)
	}
	store, ok := sharedStore(c.Cache)
	freed := int64(0)
	shared := map[string]bool{}
	blobs, _ := os.ReadDir(filepath.Join(r.dir, "blobs"))
	for _, b := range blobs {
		path := filepath.Join(r.dir, "blobs", b.Name())
		if b.Type()&fs.ModeSymlink == 0 {
			if info, err := b.Info(); err == nil {
				freed += info.Size()
			}
			continue
		}
		target, err := os.Readlink(path)
		content := filepath.Join(filepath.Dir(path), target)
		if ok && err == nil && xetHash.MatchString(filepath.Base(content)) && filepath.Dir(filepath.Dir(content)) == filepath.Clean(store) {
			shared[content] = true
		}
	}
	if err := os.RemoveAll(r.dir); err != nil {
		return 0, fmt.Errorf("hub: %s cannot be removed: %w", id, err)
	}
	os.RemoveAll(filepath.Dir(r.lockFile("")))
	for content := range shared {
		n, _ := sweepShared(c.Cache, content) // what stays is huggingface_hub's to clean up
		freed += n
	}
	return freed, ctx.Err()
}
