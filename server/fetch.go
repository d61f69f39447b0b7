package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rlxc/rlxc/internal/memory"
)

// A fetcher fetches images from hosts that the operator has named. A URL of a stranger must not make the server send requests into its own
// network: a URL names one of the hosts, redirects stay on it, and the address that is connected to is public. The address is checked
// when the connection is made, after its name was resolved. A host that is named by its address may have any.
type fetcher struct {
	hosts  []string // HOST, which stands for the ports 80 and 443, or HOST:PORT
	client *http.Client
}

const (
	fetchTime      = 10 * time.Second // for one image
	fetchRedirects = 3
)

// errAddress means that a host has an address which is not public.
var errAddress = errors.New("the host has no public address: only a host that is named by its address may have a private one")

// newFetcher fails if a host is neither HOST nor HOST:PORT.
func newFetcher(hosts []string) (*fetcher, error) {
	f := &fetcher{}
	for _, host := range hosts {
		u, err := url.Parse("http://" + host)
		if err != nil || u.Hostname() == "" || u.Host != host {
			return nil, fmt.Errorf("server: invalid host of image URLs %q: want HOST or HOST:PORT, such as images.example.com", host)
		}
		f.hosts = append(f.hosts, canonicalHost(u))
	}
	dialer := &net.Dialer{Timeout: fetchTime, ControlContext: func(ctx context.Context, _, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		if named, _ := ctx.Value(namedAddress{}).(bool); !named && !isPublic(at.Addr()) {
			return errAddress
		}
		return nil
	}}
	f.client = &http.Client{
		Timeout: fetchTime,
		CheckRedirect: func(to *http.Request, via []*http.Request) error {
			if len(via) > fetchRedirects {
				return errors.New("it redirects too often")
			}
			if to.URL.Hostname() != via[0].URL.Hostname() {
				return errors.New("it redirects to another host")
			}
			return f.allowed(to.URL)
		},
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				host, _, _ := net.SplitHostPort(address)
				_, err := netip.ParseAddr(host)
				return dialer.DialContext(context.WithValue(ctx, namedAddress{}, err == nil), network, address)
			},
			DisableCompression: true, ForceAttemptHTTP2: true, MaxConnsPerHost: 64, IdleConnTimeout: time.Minute,
			TLSHandshakeTimeout: fetchTime, MaxResponseHeaderBytes: 16 << 10,
		},
	}
	return f, nil
}

// namedAddress is the key of whether the host of a connection is an address.
type namedAddress struct{}

// canonicalHost returns the host of a URL in lower case, with the port where the URL has one that is not the scheme's.
func canonicalHost(u *url.URL) string {
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if port := u.Port(); port != "" && (port != "80" || u.Scheme != "http") && (port != "443" || u.Scheme != "https") {
		return net.JoinHostPort(host, port)
	}
	return host
}

// allowed fails for a URL that is not fetched.
func (f *fetcher) allowed(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return wrongImage("want a URL of http or https, a data URL, or base64")
	case !slices.Contains(f.hosts, canonicalHost(u)):
		return wrongImage("the server does not fetch URLs of %q: send the image as a data URL or base64, or start the server with "+
			"--allow-image-urls %s", u.Host, u.Host)
	case u.User != nil:
		return wrongImage("the URL has a user name: want a URL without")
	}
	return nil
}

// special are networks beside those of netip.Addr's methods that are not public: of carriers, of protocols, for tests, and those that hold
// addresses of other networks within.
var special = func() (list []netip.Prefix) {
	for _, text := range []string{"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "240.0.0.0/4",
		"64:ff9b::/96", "64:ff9b:1::/48", "2001::/23", "2002::/16", "fec0::/10"} {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}()

// isPublic reports whether an address is one of the internet.
func isPublic(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return a.IsGlobalUnicast() && !a.IsPrivate() && !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(a) })
}

// get returns the content at a URL, of at most most bytes. It asks the share for their memory.
func (f *fetcher) get(ctx context.Context, source string, share *memory.Share, most int64) ([]byte, error) {
	u, err := url.Parse(source)
	if err != nil || u.Host == "" {
		return nil, wrongImage("want a URL of http or https, a data URL, or base64")
	}
	if err := f.allowed(u); err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", "rlxc")
	a, err := f.client.Do(r)
	if err == nil {
		defer a.Body.Close()
		if a.StatusCode != http.StatusOK {
			return nil, wrongImage("the URL could not be fetched: its host answered with status %d", a.StatusCode)
		}
		var data []byte
		if data, err = readAll(a.Body, a.ContentLength, share, most); err == nil {
			return data, nil
		}
	}
	var known *failure
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.As(err, &known):
		return nil, known
	case errors.Is(err, memory.ErrLong):
		return nil, failf(http.StatusRequestEntityTooLarge, "", "the file at the URL has more bytes than the maximum of %d", most)
	case errors.Is(err, memory.ErrFull), errors.Is(err, memory.ErrOver):
		return nil, err
	case errors.Is(err, errAddress):
		return nil, wrongImage("the URL is not fetched: %v", errAddress)
	}
	return nil, &failure{status: http.StatusUnprocessableEntity, text: "the URL could not be fetched", cause: err} // the log has the reason
}

// readAll reads a file of at most most bytes. length is how many the sender has announced, or negative. The buffer grows as bytes arrive.
func readAll(in io.Reader, length int64, share *memory.Share, most int64) (data []byte, err error) {
	in = share.Reader(in, most)
	for {
		if len(data) == cap(data) {
			size := max(4*int64(cap(data)), 64<<10)
			if length >= int64(len(data)) {
				size = min(size, length+1) // the last byte is for the end
			}
			if err := share.Take(size); err != nil {
				return nil, err
			}
			data = append(make([]byte, 0, size), data...)
		}
		n, err := in.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if err == io.EOF { //nolint:errorlint // as readers return it
			return data, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
