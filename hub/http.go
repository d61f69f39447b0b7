package hub

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// attempts is how often in a row a request may fail, or a transfer break off without a byte, before that is final.
const attempts = 5

// maxPause bounds what a hub may ask to wait.
const maxPause = 2 * time.Minute

// maxListing bounds a page of metadata, maxPages how many there are, and maxFiles what they list.
const (
	maxListing = 16 << 20
	maxPages   = 1000
	maxFiles   = 200_000
)

// maxResumes bounds how often a transfer continues after it broke off, whether bytes came or not.
const maxResumes = 100

// own reports whether an address is the endpoint's: its scheme, host and port. The token goes nowhere else.
func (c *Client) own(address *url.URL) bool {
	endpoint, err := url.Parse(c.Endpoint)
	return err == nil && strings.EqualFold(address.Scheme, endpoint.Scheme) && strings.EqualFold(address.Host, endpoint.Host)
}

// client is the caller's, or one of our own, that follows redirects but keeps the token to the hub's host.
func (c *Client) client(follow bool) *http.Client {
	own := http.Client{}
	if c.HTTP != nil {
		own = *c.HTTP
	} else {
		c.once.Do(func() {
			c.transport = http.DefaultTransport.(*http.Transport).Clone()
			c.transport.ResponseHeaderTimeout = c.timeout()
		})
		own.Transport = c.transport
	}
	own.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		first := via[0].URL
		elsewhere := r.URL.Host != first.Host || r.URL.Scheme != first.Scheme
		if !c.own(r.URL) {
			r.Header.Del("Authorization")
		}
		switch {
		case !isWeb(r.URL):
			return refusedError("a redirect to " + r.URL.Scheme + ":")
		case !follow && (elsewhere || r.Response.Header.Get("X-Linked-Etag") != ""):
			return http.ErrUseLastResponse
		case len(via) >= 10:
			return refusedError("more than 10 redirects")
		}
		return nil
	}
	return &own
}

func (c *Client) timeout() time.Duration {
	if c.Timeout > 0 {
		return c.Timeout
	}
	return 10 * time.Second
}

// isWeb reports whether an address is one of HTTP.
func isWeb(address *url.URL) bool { return address.Scheme == "https" || address.Scheme == "http" }

// A refusedError is an answer that the client does not follow.
type refusedError string

func (e refusedError) Error() string { return string(e) }

// A statusError is an answer other than success.
type statusError struct {
	status  int
	code    string // the hub's error code: RepoNotFound, RevisionNotFound, EntryNotFound, GatedRepo; empty for none
	message string
	commit  string
	after   time.Duration // to wait
}

func (e *statusError) Error() string {
	text := "the hub returned " + strconv.Itoa(e.status) + " " + http.StatusText(e.status)
	if e.message != "" {
		text += ": " + e.message
	}
	switch {
	case e.code == "GatedRepo":
		text += ": the model is gated: accept its terms on its page, and set HF_TOKEN"
	case e.status == http.StatusUnauthorized:
		text += ": there is no such model, or it is private: check the id, or set HF_TOKEN"
	case e.status == http.StatusForbidden:
		text += ": the token does not allow it: check HF_TOKEN"
	}
	return text
}

// Is reports the kind.
func (e *statusError) Is(kind error) bool {
	switch kind {
	case ErrNotFound: // the hub says 401 of what does not exist, so as not to reveal
		return e.status == http.StatusNotFound || e.status == http.StatusUnauthorized && e.code == "RepoNotFound"
	case ErrDenied:
		return e.status == http.StatusUnauthorized || e.status == http.StatusForbidden
	}
	return false
}

// passing reports whether trying again may help.
func (e *statusError) passing() bool {
	return e.status == http.StatusTooManyRequests || e.status == http.StatusRequestTimeout || e.status >= 500
}

// unreachable reports whether an error means that the hub cannot be asked now, so that the cache has to do.
func unreachable(err error) bool {
	var status *statusError
	var request *url.Error
	return errors.As(err, &status) && status.passing() || errors.As(err, &request) || errors.Is(err, io.ErrUnexpectedEOF)
}

// lasting reports whether a request that is repeated within seconds would fail again: there was no connection, the certificate is not the
// hub's, or the client refused the answer, such as a redirect.
func lasting(err error) bool {
	var network *net.OpError
	var certificate *tls.CertificateVerificationError
	var refused refusedError
	return errors.As(err, &network) && network.Op == "dial" || errors.As(err, &certificate) || errors.As(err, &refused)
}

// send makes one request. The answer's body is the caller's to close; its status is below 400.
func (c *Client) send(ctx context.Context, method, address, from string, follow bool) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, err
	}
	if !isWeb(r.URL) {
		return nil, fmt.Errorf("%s is not an address of HTTP (check HF_ENDPOINT)", c.Endpoint)
	}
	r.Header.Set("User-Agent", "rlxc")
	r.Header.Set("Accept-Encoding", "identity") // sizes are those of the files
	if c.Token != "" && c.own(r.URL) {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	if from != "" {
		r.Header.Set("Range", "bytes="+from+"-")
	}
	answer, err := c.client(follow).Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode < 400 {
		return answer, nil
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
	e := &statusError{status: answer.StatusCode, code: answer.Header.Get("X-Error-Code"), commit: answer.Header.Get("X-Repo-Commit"),
		message: answer.Header.Get("X-Error-Message")}
	if e.message == "" && !bytes.ContainsAny(text, "<{") {
		e.message, _, _ = strings.Cut(strings.TrimSpace(string(text)), "\n")
	}
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds >= 0 {
		e.after = time.Duration(seconds) * time.Second
	}
	return nil, e
}

// broken marks the failure of an answer that had begun.
func broken(err error) error {
	return fmt.Errorf("the transfer broke off: %w: %w", err, io.ErrUnexpectedEOF)
}

// retry calls do until it succeeds, fails for good, or has failed too often in a row without progress.
func (c *Client) retry(ctx context.Context, do func() (progress bool, err error)) error {
	pause := c.pause
	if pause == 0 {
		pause = time.Second
	}
	wait := pause
	resumes := 0
	for failures := 0; ; resumes++ {
		progress, err := do()
		if err == nil || resumes == maxResumes || ctx.Err() != nil || !unreachable(err) || lasting(err) {
			return err
		}
		if failures++; progress {
			failures, wait = 1, pause
		}
		if failures == attempts {
			return err
		}
		now := wait
		if status := (*statusError)(nil); errors.As(err, &status) && status.after > 0 {
			now = min(status.after, maxPause)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(now):
		}
		wait *= 2
	}
}

// getJSON reads a page of the hub's API, and returns the address of the next one.
func (c *Client) getJSON(ctx context.Context, address string, to any) (next string, err error) {
	err = c.retry(ctx, func() (bool, error) {
		answer, err := c.send(ctx, http.MethodGet, address, "", true)
		if err != nil {
			return false, err
		}
		defer answer.Body.Close()
		data, err := io.ReadAll(io.LimitReader(answer.Body, maxListing+1))
		if err != nil {
			return false, broken(err)
		}
		if len(data) > maxListing {
			return false, fmt.Errorf("%s returned more than %d bytes of metadata", c.Endpoint, maxListing)
		}
		if err := json.Unmarshal(data, to); err != nil {
			return false, fmt.Errorf("%s is not a hub (check HF_ENDPOINT): %w", c.Endpoint, err)
		}
		next = nextPage(answer)
		return false, nil
	})
	return next, err
}

var nextLink = regexp.MustCompile(`<([^>]*)>\s*;\s*rel="?next"?`)

// nextPage reads the header Link; pages of other hosts are none.
func nextPage(answer *http.Response) string {
	m := nextLink.FindStringSubmatch(answer.Header.Get("Link"))
	if m == nil {
		return ""
	}
	next, err := answer.Request.URL.Parse(m[1])
	if err != nil || next.Host != answer.Request.URL.Host || next.Scheme != answer.Request.URL.Scheme {
		return ""
	}
	return next.String()
}

func (c *Client) api(id string, parts ...string) string {
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return c.Endpoint + "/api/models/" + id + "/" + strings.Join(parts, "/")
}

func (c *Client) resolve(id, commit, name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return c.Endpoint + "/" + id + "/resolve/" + url.PathEscape(commit) + "/" + strings.Join(parts, "/")
}

// metadata is what the hub says of a file before it sends it.
type metadata struct {
	commit, etag, xet string // "" if the hub does not say
	size              int64  // -1 if the hub does not say
}

// head asks for a file's metadata. The hub answers large files with a redirect that carries them.
func (c *Client) head(ctx context.Context, id, revision, name string) (m metadata, err error) {
	address := c.resolve(id, revision, name)
	err = c.retry(ctx, func() (bool, error) {
		answer, err := c.send(ctx, http.MethodHead, address, "", false)
		if err != nil {
			return false, err
		}
		answer.Body.Close()
		h := answer.Header
		m = metadata{commit: h.Get("X-Repo-Commit"), xet: h.Get("X-Xet-Hash"), size: -1}
		m.etag = h.Get("X-Linked-Etag")
		if m.etag == "" {
			m.etag = h.Get("ETag")
		}
		m.etag = strings.Trim(strings.TrimPrefix(m.etag, "W/"), `"`)
		size := h.Get("X-Linked-Size")
		if size == "" && answer.StatusCode < 300 {
			size = h.Get("Content-Length")
		}
		if n, err := strconv.ParseInt(size, 10, 64); err == nil && n >= 0 {
			m.size = n
		}
		// Mirrors leave out the commit, or have separate ETags: complete finds these in the listing.
		if !commitHash.MatchString(m.commit) {
			m.commit = ""
		}
		if !etagText.MatchString(m.etag) {
			m.etag = ""
		}
		return false, nil
	})
	return m, err
}
