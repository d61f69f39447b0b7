package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// A Snapshot is the requested files of a model at a commit, in a folder of the cache.
type Snapshot struct {
	ID, Revision, Commit string
	Dir                  string
	Files                []string // requested files: paths relative to Dir, with slashes
	// Stale is why the hub could not return the current commit of the revision. It is nil if the hub did, or if it was not needed.
	Stale error
}

// parallel is how many files arrive at a time.
const parallel = 4

// Snapshot returns files of a model at a revision ("" means main). want chooses among their paths; nil means all. Snapshot downloads the
// files that the cache lacks. If the hub does not answer, or the client is Offline, Snapshot uses the cache, and a file that the cache
// lacks is an error that names it. It fails with ErrNotFound, ErrDenied, ErrOffline, an error of the network or of the file system, or
// that of ctx.
func (c *Client) Snapshot(ctx context.Context, id, revision string, want func(paths []string) []string) (*Snapshot, error) {
	if revision == "" {
		revision = "main"
	}
	s := &Snapshot{ID: id, Revision: revision}
	if err := c.snapshot(ctx, s, want); err != nil {
		return nil, fmt.Errorf("hub: %s at %s: %w", id, revision, err)
	}
	return s, nil
}

func (c *Client) snapshot(ctx context.Context, s *Snapshot, want func([]string) []string) error {
	r, err := c.repo(s.ID)
	if err == nil {
		err = checkRevision(s.Revision)
	}
	if err != nil {
		return err
	}
	if s.Commit, s.Stale, err = c.commit(ctx, r, s.Revision); err != nil {
		return err
	}
	s.Dir = r.snapshot(s.Commit)
	offline := c.Offline || s.Stale != nil
	entries, err := c.entries(ctx, r, s.Commit, offline)
	if err != nil && unreachable(err) { // the commit is known, and its listing is not
		s.Stale, offline = err, true
		entries, err = c.entries(ctx, r, s.Commit, offline)
	}
	if errors.Is(err, ErrOffline) {
		err = fmt.Errorf("%w: %w", err, cmp.Or(s.Stale, offlineError(s.ID)))
	}
	if err != nil {
		return err
	}
	s.Files = slices.Sorted(maps.Keys(entries))
	if want != nil {
		s.Files = want(s.Files)
	}
	for _, name := range s.Files {
		if _, ok := entries[name]; !ok && !offline {
			return fmt.Errorf("%s: the repository has no such file: %w", name, ErrNotFound)
		}
	}
	get := func(ctx context.Context, name string) error {
		if offline && !isFile(r.pointer(s.Commit, name)) {
			return fmt.Errorf("%s is %w %s: %w", name, ErrOffline, c.Cache, cmp.Or(s.Stale, offlineError(s.ID)))
		}
		if _, err := c.file(ctx, r, s.Commit, name, entries[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	if err := each(ctx, s.Files, get); err != nil {
		return err
	}
	if err := r.setCommit(s.Revision, s.Commit); err != nil && r.cached(s.Revision) == "" {
		return err
	}
	return nil
}

// each calls do for all names, a few at a time, and ends with the first error.
func each(ctx context.Context, names []string, do func(context.Context, string) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for _, name := range names {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if ctx.Err() == nil {
				if err := do(ctx, name); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// commit returns the commit of a revision. If the hub does not answer, commit is that of the cache, and stale is the hub's error.
func (c *Client) commit(ctx context.Context, r *repo, revision string) (commit string, stale, err error) {
	if commitHash.MatchString(revision) {
		return revision, nil, nil
	}
	if !c.Offline {
		var info struct {
			SHA string `json:"sha"`
		}
		_, err := c.getJSON(ctx, c.api(r.id, "revision", revision), &info)
		switch {
		case err == nil && commitHash.MatchString(info.SHA):
			return info.SHA, nil, nil
		case err == nil:
			return "", nil, fmt.Errorf("%s is not a hub: %q is not a commit (check HF_ENDPOINT)", c.Endpoint, info.SHA)
		case !unreachable(err):
			return "", nil, err
		}
		stale = err
	} else {
		stale = offlineError(r.id)
	}
	if commit = r.cached(revision); commit == "" {
		return "", nil, fmt.Errorf("%w %s: %w", ErrOffline, c.Cache, stale)
	}
	return commit, stale, nil
}

func offlineError(id string) error {
	return fmt.Errorf("HF_HUB_OFFLINE is set: download it once by HF_HUB_OFFLINE=0 rlxc pull %s", id)
}

// An entry is a file in a listing, as huggingface_hub keeps it.
type entry struct {
	Size int64  `json:"size"`
	Blob string `json:"blob_id"`
	LFS  string `json:"lfs_sha256,omitempty"`
	// LFSSize repeats Size, which huggingface_hub wants.
	LFSSize int64  `json:"lfs_size,omitempty"`
	Xet     string `json:"xet_hash,omitempty"`
}

// content is what the file's ETag is.
func (e *entry) content() string {
	if e.LFS != "" {
		return e.LFS
	}
	return e.Blob
}

// listing is the file trees/COMMIT.json.
type listing struct {
	Version int               `json:"format_version"`
	Files   map[string]*entry `json:"files"`
}

const listingVersion = 1

// entries lists the files of a commit: as the cache noted, as the hub says, or without it those that the cache has.
func (c *Client) entries(ctx context.Context, r *repo, commit string, offline bool) (map[string]*entry, error) {
	file := filepath.Join(r.dir, "trees", commit+".json")
	if data, err := readFile(file, noFollow, maxListing); err == nil {
		var l listing
		if json.Unmarshal(data, &l) == nil && l.Version == listingVersion && checkEntries(l.Files) == nil {
			return l.Files, nil
		}
	}
	if offline {
		return r.walk(commit)
	}
	files := map[string]*entry{}
	pages := map[string]bool{}
	for page := c.api(r.id, "tree", commit) + "?recursive=true"; page != ""; {
		switch {
		case pages[page]:
			return nil, fmt.Errorf("the hub lists the page %s twice", page)
		case len(pages) == maxPages || len(files) > maxFiles:
			return nil, fmt.Errorf("the hub lists more than %d pages and %d files", len(pages), len(files))
		}
		pages[page] = true
		var part []struct {
			Type, Path, OID, XetHash string
			Size                     int64
			LFS                      *struct {
				OID  string
				Size int64
			}
		}
		var err error
		if page, err = c.getJSON(ctx, page, &part); err != nil {
			return nil, err
		}
		for _, p := range part {
			if p.Type != "file" {
				continue
			}
			e := &entry{Size: p.Size, Blob: p.OID, Xet: p.XetHash}
			if p.LFS != nil {
				e.LFS, e.LFSSize = strings.TrimPrefix(p.LFS.OID, "sha256:"), p.LFS.Size
			}
			files[p.Path] = e
		}
	}
	if err := checkEntries(files); err != nil {
		return nil, err
	}
	data, err := json.Marshal(listing{listingVersion, files})
	if err == nil {
		err = writeFile(file, data)
	}
	return files, err
}

func checkEntries(files map[string]*entry) error {
	for name, e := range files {
		if err := checkName(name); err != nil {
			return fmt.Errorf("the hub lists an %w", err)
		}
		if e == nil || e.Size < 0 || !etagText.MatchString(e.content()) {
			return fmt.Errorf("the hub lists %q without size or content", name)
		}
	}
	return nil
}

// walk lists the files of a commit that are in the cache.
func (r *repo) walk(commit string) (map[string]*entry, error) {
	files := map[string]*entry{}
	dir := r.snapshot(commit)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && isFile(path) {
			name, _ := filepath.Rel(dir, path)
			files[filepath.ToSlash(name)] = nil
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("commit %s is %w %s", commit, ErrOffline, r.cache)
	}
	return files, err
}
