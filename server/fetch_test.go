package server

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestURLsAreFetchedFromNamedHostsAlone serves a photo at an address, and counts the requests that arrive there. URLs of hosts that are
// not named, that resolve to private addresses, or that lead to other hosts never reach it.
func TestURLsAreFetchedFromNamedHostsAlone(t *testing.T) {
	var asked atomic.Int64
	file := photo(t, 0)
	mux := http.NewServeMux()
	mux.HandleFunc("/photo.png", func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("Authorization")+r.Header.Get("Cookie") != "" {
			t.Error("the request has credentials")
		}
		w.Write(file) //nolint:errcheck // of a test
	})
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 200000)) }) //nolint:errcheck // likewise
	mux.HandleFunc("/text", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "secret of another service") })
	mux.HandleFunc("/here", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/photo.png", http.StatusFound) })
	mux.HandleFunc("/to", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("url"), http.StatusFound)
	})
	photos := httptest.NewServer(mux)
	defer photos.Close()
	at := strings.TrimPrefix(photos.URL, "http://") // 127.0.0.1:PORT
	_, port, _ := strings.Cut(at, ":")
	byName := "localhost:" + port
	to := func(to string) string { return photos.URL + "/to?url=" + url.QueryEscape(to) }

	_, h := start(t, Options{ImageHosts: []string{strings.ToUpper(at), byName, "images.example.com"}, MaxBody: 100000, MaxHeld: 64 << 20},
		imageModels("vit")...)
	for name, x := range map[string]struct {
		url, want string // want is the error; empty for none
	}{
		"a host that is named":            {photos.URL + "/photo.png", ""},
		"a redirect to the same host":     {photos.URL + "/here", ""},
		"a host that is not named":        {"http://169.254.169.254/latest/meta-data", "does not fetch URLs of"},
		"another port":                    {"http://127.0.0.1/photo.png", "does not fetch URLs of"},
		"another spelling of the address": {"http://2130706433:" + port + "/photo.png", "does not fetch URLs of"},
		"a name with a private address":   {"http://" + byName + "/photo.png", "the host has no public address"},
		"a redirect to a private name":    {to("http://" + byName + "/photo.png"), "the URL could not be fetched"},
		"a redirect to another port":      {to("http://127.0.0.1:1/photo.png"), "does not fetch URLs of"},
		"a redirect to metadata":          {to("http://169.254.169.254/latest"), "the URL could not be fetched"},
		"a redirect to a file":            {to("file:///etc/passwd"), "the URL could not be fetched"},
		"a user name":                     {"http://me:word@" + at + "/photo.png", "the URL has a user name"},
		"a name before":                   {"http://" + at + "@evil.example/photo.png", "does not fetch URLs of"},
		"a missing file":                  {photos.URL + "/none", "its host answered with status 404"},
		"too many bytes":                  {photos.URL + "/large", "more bytes than the maximum of 100000"},
		"no image":                        {photos.URL + "/text", "not an image that can be read"},
		"another scheme":                  {"ftp://" + at + "/photo.png", "want a URL of http or https"},
		"no host":                         {"http:///photo.png", "want a URL of http or https"},
		"no URL":                          {"http://[::1/photo.png", "want a URL of http or https"},
	} {
		t.Run(name, func(t *testing.T) {
			before := asked.Load()
			status, text := ask(t, "POST", h.URL+"/v1/embeddings", fmt.Sprintf(`{"modality": "image", "input": [%q]}`, x.url), nil)
			if x.want == "" {
				require.Equal(t, 200, status, text)
				require.Equal(t, before+1, asked.Load())
				return
			}
			require.Contains(t, []int{400, 413}, status, text)
			require.Contains(t, text, `field \"input\": image 0: `)
			require.Contains(t, text, x.want)
			require.NotContains(t, text, "secret")
			require.Equal(t, before, asked.Load(), "the photo was fetched")
		})
	}
	for _, host := range []string{"", "http://a.example", "a.example/b", "a b", "me@a.example", "a:b"} {
		_, err := New(t.Context(), imageModels("vit"), Options{ImageHosts: []string{host}})
		require.ErrorContains(t, err, "want HOST or HOST:PORT", host)
	}
}

// TestFetchingEndsWithTheRequest cancels a request whose image does not arrive.
func TestFetchingEndsWithTheRequest(t *testing.T) {
	arrived, ended := make(chan bool), make(chan bool)
	photos := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- true
		<-r.Context().Done()
		ended <- true
	}))
	defer photos.Close()
	f, err := newFetcher([]string{strings.TrimPrefix(photos.URL, "http://")})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() { _, err := f.get(ctx, photos.URL, nil, 100); failed <- err }()
	<-arrived
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
	<-ended
}

func TestPublicAddresses(t *testing.T) {
	for text, want := range map[string]bool{"8.8.8.8": true, "2606:4700::1111": true, "127.0.0.1": false, "10.1.2.3": false,
		"172.16.0.1":  false,
		"192.168.1.1": false, "169.254.169.254": false, "100.64.0.1": false, "0.0.0.0": false, "255.255.255.255": false, "224.0.0.1": false,
		"::1": false, "::": false, "fe80::1%eth0": false, "fc00::1": false, "::ffff:127.0.0.1": false, "::ffff:8.8.8.8": true,
		"64:ff9b::a00:1": false, "2002:a00:1::": false, "ff02::1": false, "fd00:ec2::254": false} {
		require.Equal(t, want, isPublic(netip.MustParseAddr(text)), text)
	}
}
