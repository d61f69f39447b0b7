// Package hub downloads models from the Hugging Face Hub. It shares the cache of Python's huggingface_hub: each program finds the files
// that the other downloaded.
//
//	snapshot, err := hub.FromEnv().Snapshot(ctx, "sentence-transformers/all-MiniLM-L6-v2", "main", nil)
//	m, err := rlxc.Open(filepath.Join(snapshot.Dir, "onnx", "model.onnx"))
package hub

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The kinds of errors, for errors.Is.
var (
	// ErrNotFound: the hub has no such repository, revision or file.
	ErrNotFound = errors.New("not found")
	// ErrDenied: the hub requires a token, or the token gives no access.
	ErrDenied = errors.New("access denied")
	// ErrOffline: the cache lacks the file, and the hub is offline or does not answer.
	ErrOffline = errors.New("not in the cache")
)

// A Client downloads from one hub into one cache. Many goroutines and processes may use a cache at once.
type Client struct {
	Endpoint string // such as https://huggingface.co
	Cache    string // the folder that holds models--ORG--NAME
	Token    string // empty for none; it is sent to Endpoint's host alone
	Offline  bool   // never ask the hub
	NoLinks  bool   // snapshots hold files instead of links into blobs
	NoShared bool   // do not link files from the cache's shared store

	// HTTP sends the requests. If it is nil, a client is used that waits Timeout for an answer to begin, and between two parts of it.
	HTTP    *http.Client
	Timeout time.Duration // 0 for 10 s
	// Progress is called with the number of bytes of a file that have arrived. Calls do not overlap. Total is -1 if unknown.
	Progress func(file string, done, total int64)

	pause     time.Duration // wait before the second attempt; 0 for 1 s
	once      sync.Once
	transport *http.Transport
	mu        sync.Mutex // serialises calls of Progress
}

// FromEnv returns a client set up by the environment variables of huggingface_hub: HF_ENDPOINT, HF_HOME, HF_HUB_CACHE,
// HUGGINGFACE_HUB_CACHE, XDG_CACHE_HOME, HF_TOKEN, HF_TOKEN_PATH, HF_HUB_DISABLE_IMPLICIT_TOKEN, HF_HUB_OFFLINE,
// TRANSFORMERS_OFFLINE, HF_HUB_DISABLE_SYMLINKS, HF_HUB_DISABLE_SHARED_BLOBS, HF_HUB_DOWNLOAD_TIMEOUT.
func FromEnv() *Client {
	user, _ := os.UserHomeDir()
	under := func(dir, name string) string { // of nothing there is nothing: the folder where a command runs is not a cache
		if dir == "" {
			return ""
		}
		return filepath.Join(dir, name)
	}
	home := expand(cmp.Or(os.Getenv("HF_HOME"), under(cmp.Or(os.Getenv("XDG_CACHE_HOME"), under(user, ".cache")), "huggingface")), user)
	c := &Client{
		Endpoint: strings.TrimRight(cmp.Or(os.Getenv("HF_ENDPOINT"), "https://huggingface.co"), "/"),
		Cache:    expand(cmp.Or(os.Getenv("HF_HUB_CACHE"), os.Getenv("HUGGINGFACE_HUB_CACHE"), under(home, "hub")), user),
		Offline:  isTrue(cmp.Or(os.Getenv("HF_HUB_OFFLINE"), os.Getenv("TRANSFORMERS_OFFLINE"))),
		NoLinks:  isTrue(os.Getenv("HF_HUB_DISABLE_SYMLINKS")),
		NoShared: isTrue(os.Getenv("HF_HUB_DISABLE_SHARED_BLOBS")) || isTrue(os.Getenv("HF_HUB_DISABLE_XET")),
	}
	if n, err := strconv.Atoi(os.Getenv("HF_HUB_DOWNLOAD_TIMEOUT")); err == nil && n > 0 {
		c.Timeout = time.Duration(n) * time.Second
	}
	if !isTrue(os.Getenv("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
		c.Token = cmp.Or(os.Getenv("HF_TOKEN"), os.Getenv("HUGGING_FACE_HUB_TOKEN"))
		if c.Token == "" {
			file := expand(cmp.Or(os.Getenv("HF_TOKEN_PATH"), under(home, "token")), user)
			data, _ := readFile(file, 0, maxNote) // none is usual
			c.Token = string(data)
		}
		c.Token = strings.TrimSpace(c.Token)
	}
	return c
}

// isTrue is how huggingface_hub reads switches.
func isTrue(value string) bool {
	return slices.Contains([]string{"1", "ON", "YES", "TRUE"}, strings.ToUpper(value))
}

// expand resolves ~ and variables in a path.
func expand(path, user string) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok && (rest == "" || rest[0] == '/' || rest[0] == filepath.Separator) {
		path = user + rest
	}
	return os.ExpandEnv(path)
}

var idPart = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?$`)

// ValidID reports whether text may be the id of a model: NAME or ORG/NAME.
func ValidID(text string) bool {
	parts := strings.Split(text, "/")
	if len(parts) > 2 || len(text) > 96 || strings.Contains(text, "--") || strings.Contains(text, "..") || strings.HasSuffix(text, ".git") {
		return false
	}
	return !slices.ContainsFunc(parts, func(p string) bool { return !idPart.MatchString(p) })
}

var commitHash = regexp.MustCompile(`^[0-9a-f]{40}$`)

// checkRevision refuses names that would leave the folder refs.
func checkRevision(revision string) error {
	if !filepath.IsLocal(filepath.FromSlash(revision)) || strings.ContainsAny(revision, "\\\x00") {
		return fmt.Errorf("invalid revision %q: want a branch, a tag or a commit hash", revision)
	}
	return nil
}

// checkName refuses file names that would leave a snapshot.
func checkName(name string) error {
	if name == "" || strings.ContainsAny(name, "\\\x00") || !filepath.IsLocal(filepath.FromSlash(name)) ||
		filepath.ToSlash(filepath.Clean(name)) != name {
		return fmt.Errorf("invalid file name %q: want a path inside the repository", name)
	}
	return nil
}

var etagText = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)

// repo is the folder of one model in a cache.
type repo struct {
	cache, id, dir string
}

const folderPrefix = "models--"

func (c *Client) repo(id string) (*repo, error) {
	if !ValidID(id) {
		return nil, fmt.Errorf("invalid model id %q: want NAME or ORG/NAME, of letters, digits and . _ -", id)
	}
	if c.Cache == "" {
		return nil, errors.New("no folder for the cache: set HF_HOME or HOME")
	}
	return &repo{c.Cache, id, filepath.Join(c.Cache, folderName(id))}, nil
}

func folderName(id string) string { return folderPrefix + strings.ReplaceAll(id, "/", "--") }

func (r *repo) snapshot(commit string) string { return filepath.Join(r.dir, "snapshots", commit) }

func (r *repo) pointer(commit, name string) string {
	return filepath.Join(r.snapshot(commit), filepath.FromSlash(name))
}

func (r *repo) blob(etag string) string { return filepath.Join(r.dir, "blobs", etag) }

func (r *repo) lockFile(etag string) string {
	return filepath.Join(r.cache, ".locks", filepath.Base(r.dir), etag+".lock")
}

// commit is what the cache knows a revision to be; "" if nothing.
func (r *repo) commit(revision string) string {
	if commitHash.MatchString(revision) {
		return revision
	}
	data, err := readFile(filepath.Join(r.dir, "refs", filepath.FromSlash(revision)), noFollow, maxNote)
	if text := strings.TrimSpace(string(data)); err == nil && commitHash.MatchString(text) {
		return text
	}
	return ""
}

// cached returns the commit of a revision in the cache; "" for none. A cache without refs, as a copied one may be, has main at its only
// snapshot.
func (r *repo) cached(revision string) string {
	if commit := r.commit(revision); commit != "" || revision != "main" {
		return commit
	}
	refs, err := os.ReadDir(filepath.Join(r.dir, "refs"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	snapshots, _ := os.ReadDir(filepath.Join(r.dir, "snapshots"))
	if len(refs) == 0 && len(snapshots) == 1 && commitHash.MatchString(snapshots[0].Name()) {
		return snapshots[0].Name()
	}
	return ""
}

// setCommit stores the commit of a revision in the cache. Other processes may read the file while it is written.
func (r *repo) setCommit(revision, commit string) error {
	if revision == commit || r.commit(revision) == commit {
		return nil
	}
	return writeFile(filepath.Join(r.dir, "refs", filepath.FromSlash(revision)), []byte(commit))
}

// maxNote bounds the small files of a cache.
const maxNote = 1 << 20

// open opens a file of a cache that must be regular: another user may have put a pipe there, or a device. A link is not followed where flag
// has noFollow.
func open(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag|noWait, 0o666)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// readFile reads a small file.
func readFile(path string, flag int, most int64) ([]byte, error) {
	f, err := open(path, os.O_RDONLY|flag)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return data, err
}

// writeFile puts a small file in place, whole or not at all.
func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	temporary := path + "." + rand.Text() + ".tmp"
	defer os.Remove(temporary)
	if err := os.WriteFile(temporary, data, 0o666); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
