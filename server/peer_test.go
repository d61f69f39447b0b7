package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/rlxc/rlxc/internal/memory"
)

// TestPeers: who a request is from, as far as what says so can be trusted.
func TestPeers(t *testing.T) {
	s := &Server{options: Options{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}}}
	const proxy, direct = "10.0.0.1:5000", "192.0.2.7:5000"
	for _, c := range []struct {
		from    string
		headers []string // alternately names and values
		want    string
	}{
		{direct, nil, "192.0.2.7"},
		{direct, []string{"X-Forwarded-For", "198.51.100.1"}, "192.0.2.7"}, // anybody may write it
		{direct, []string{"Forwarded", "for=198.51.100.1"}, "192.0.2.7"},
		{proxy, nil, "10.0.0.1"},
		{"@", nil, "@"}, // of a socket of the file system
		{proxy, []string{"X-Forwarded-For", "198.51.100.1"}, "198.51.100.1"},
		{"[::ffff:10.0.0.1]:5000", []string{"X-Forwarded-For", "198.51.100.1"}, "198.51.100.1"},
		{"[fd00::1]:5000", []string{"X-Forwarded-For", "2001:db8::1"}, "2001:db8::1"},
		{proxy, []string{"X-Forwarded-For", "::ffff:198.51.100.1"}, "198.51.100.1"},
		{proxy, []string{"X-Forwarded-For", "198.51.100.1:1234"}, "198.51.100.1"},
		{proxy, []string{"X-Forwarded-For", "[2001:db8::1]:1234"}, "2001:db8::1"},
		{proxy, []string{"X-Forwarded-For", "203.0.113.9, 198.51.100.1"}, "198.51.100.1"}, // the client wrote the first
		{proxy, []string{"X-Forwarded-For", "198.51.100.1, 10.0.0.2"}, "198.51.100.1"},
		{proxy, []string{"X-Forwarded-For", "198.51.100.1", "X-Forwarded-For", "10.0.0.2"}, "198.51.100.1"},
		{proxy, []string{"X-Forwarded-For", "10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{proxy, []string{"X-Forwarded-For", "198.51.100.1, unknown"}, "10.0.0.1"},
		{proxy, []string{"X-Forwarded-For", "198.51.100.1, garbage, 10.0.0.2"}, "10.0.0.2"},
		{proxy, []string{"X-Forwarded-For", ""}, "10.0.0.1"},
		{proxy, []string{"Forwarded", `for=198.51.100.1;proto=https;by=10.0.0.1`}, "198.51.100.1"},
		{proxy, []string{"Forwarded", `proto=https;For="[2001:db8::1]:4711"`}, "2001:db8::1"},
		{proxy, []string{"Forwarded", `for="203.0.113.9, a;b", for=198.51.100.1`}, "198.51.100.1"},
		{proxy, []string{"Forwarded", `for=203.0.113.9, for=_hidden`}, "10.0.0.1"},
		{proxy, []string{"Forwarded", `by=203.0.113.9`}, "10.0.0.1"},
		{proxy, []string{"Forwarded", "for=198.51.100.1", "X-Forwarded-For", "198.51.100.1"}, "198.51.100.1"},
		{proxy, []string{"Forwarded", "for=203.0.113.9", "X-Forwarded-For", "198.51.100.1"}, "10.0.0.1"}, // the client wrote one
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = c.from
		for i := 0; i < len(c.headers); i += 2 {
			r.Header.Add(c.headers[i], c.headers[i+1])
		}
		require.Equal(t, c.want, s.peerOf(r), "%v", c)
	}
}

// TestClientsOfAProxyAreSeparatePeers: a client that has all that a peer may have leaves the other half to the other clients of a proxy,
// and the error names the bound that it met.
func TestClientsOfAProxyAreSeparatePeers(t *testing.T) {
	send := func(s *Server, client string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/embed", strings.NewReader(`{"inputs": "a"}`))
		r.RemoteAddr = "10.0.0.1:5000"
		r.Header.Set("X-Forwarded-For", client)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.1/32")}
	s, _ := start(t, Options{MaxRequests: 4, Proxies: proxies, MaxHeld: 64 * memory.Base}, served("minilm")...)
	hold := func(peer string, bytes int64) *memory.Share {
		_, share, err := s.pool.Enter(t.Context(), peer)
		require.NoError(t, err)
		require.NoError(t, share.Take(bytes))
		return share
	}
	first, second := hold("198.51.100.1", 0), hold("198.51.100.1", 0)
	w := send(s, "198.51.100.1")
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.Contains(t, w.Body.String(), "this address has 2 requests under way, and one address has at most half of the server's 4")
	require.Equal(t, http.StatusOK, send(s, "198.51.100.2").Code)
	third, fourth := hold("198.51.100.3", 0), hold("198.51.100.3", 0)
	require.Contains(t, send(s, "198.51.100.2").Body.String(), "the server has 4 requests under way")
	for _, share := range []*memory.Share{second, third, fourth} {
		share.Leave()
	}
	require.NoError(t, first.Take(30*memory.Base))
	w = send(s, "198.51.100.1")
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.Contains(t, w.Body.String(), "the requests of this address hold")
	require.Equal(t, http.StatusOK, send(s, "198.51.100.2").Code)
	other := hold("198.51.100.3", 31*memory.Base)
	require.Contains(t, send(s, "198.51.100.2").Body.String(), "requests hold 4194304 of the 4194304 bytes that they may hold")
	first.Leave()
	other.Leave()
}

// TestForeignPagesAreRefused: a page of another site, and one that reaches the server by another name, gets no answer, over HTTP and gRPC;
// programs, the server's own page and allowed origins do.
func TestForeignPagesAreRefused(t *testing.T) {
	const body = `{"inputs": "a"}`
	for _, c := range []struct {
		name    string
		hosts   []string // nil for any
		origins []string
		host    string
		headers []string
		status  int
	}{
		{"a program", nil, nil, "anything.example", nil, 200},
		{"a program on loopback", []string{}, nil, "127.0.0.1:8080", nil, 200},
		{"localhost", []string{}, nil, "localhost:8080", nil, 200},
		{"a name beneath localhost", []string{}, nil, "rlxc.localhost:8080", nil, 200},
		{"IPv6", []string{}, nil, "[::1]:8080", nil, 200},
		{"IPv6 without a port", []string{}, nil, "[::1]", nil, 200},
		{"HTTP/1.0", []string{}, nil, "", nil, 200},
		{"DNS rebinding", []string{}, nil, "evil.example:8080", nil, 403},
		{"DNS rebinding, as its own origin", []string{}, nil, "evil.example", []string{"Origin", "http://evil.example", "Sec-Fetch-Site",
			"same-origin"}, 403},
		{"a name that begins like localhost", []string{}, nil, "localhost.evil.example", nil, 403},
		{"a name that ends like localhost", []string{}, nil, "evillocalhost", nil, 403},
		{"a name beneath localhost", []string{}, nil, "app.localhost:8080", nil, 200},
		{"an allowed name", []string{"box.example"}, nil, "Box.Example.:8080", nil, 200},
		{"another than the allowed name", []string{"box.example"}, nil, "a.box.example", nil, 403},
		{"the server's page", []string{}, nil, "127.0.0.1:8080", []string{"Origin", "http://127.0.0.1:8080", "Sec-Fetch-Site",
			"same-origin"}, 200},
		{"a page of another site", nil, nil, "127.0.0.1:8080", []string{"Origin", "https://evil.example", "Sec-Fetch-Site",
			"cross-site"}, 403},
		{"a page of another site, in an old browser", nil, nil, "127.0.0.1:8080", []string{"Origin", "https://evil.example"}, 403},
		{"a page in a frame without an origin", nil, nil, "127.0.0.1:8080", []string{"Origin", "null"}, 403},
		{"a page of another port", nil, nil, "localhost:8080", []string{"Origin", "http://localhost:3000", "Sec-Fetch-Site",
			"same-site"}, 403},
		{"an allowed origin", nil, []string{"http://localhost:3000"}, "localhost:8080", []string{"Origin", "http://localhost:3000",
			"Sec-Fetch-Site", "same-site"}, 200},
		{"another than the allowed origin", nil, []string{"http://localhost:3000"}, "localhost:8080", []string{"Origin",
			"http://localhost:3001", "Sec-Fetch-Site", "same-site"}, 403},
		{"any origin", nil, []string{"*"}, "localhost:8080", []string{"Origin", "https://any.example", "Sec-Fetch-Site",
			"cross-site"}, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _ := start(t, Options{Origins: c.origins}, served("minilm")...)
			ctx := t.Context()
			if c.hosts != nil {
				ctx = WithHosts(ctx, c.hosts...)
			}
			send := func(h http.Handler, method, path, body, kind string) *httptest.ResponseRecorder {
				r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
				r.Host, r.ProtoMajor = c.host, 2
				r.Header.Set("Content-Type", kind) // text/plain is what browsers send without asking before
				for i := 0; i < len(c.headers); i += 2 {
					r.Header.Set(c.headers[i], c.headers[i+1])
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				return w
			}
			w := send(s, "POST", "/embed", body, "text/plain")
			require.Equal(t, c.status, w.Code, w.Body)
			if c.status == 403 {
				require.Regexp(t, `--allow-(host|origin)`, w.Body.String())
			}
			require.Equal(t, c.status, send(s, "POST", "/models/minilm/embed", body, "text/plain").Code)
			w = send(s.GRPC(), "POST", "/"+serviceName+"/ServerLive", "\x00\x00\x00\x00\x00", "application/grpc")
			want := map[int]codes.Code{200: codes.OK, 403: codes.PermissionDenied}[c.status]
			require.EqualValues(t, rune('0'+want), []rune(w.Header().Get("Grpc-Status"))[0])
			origin := send(s, "OPTIONS", "/embed", "", "").Header().Get("Access-Control-Allow-Origin")
			require.Equal(t, c.origins != nil && c.status == 200, origin != "", "what pages of the origin may read")
		})
	}
	_, err := New(context.Background(), served("minilm"), Options{Origins: []string{"example.com/path"}})
	require.ErrorContains(t, err, `the origin "example.com/path"`)
}

// TestPreflight: browsers learn what a page of an allowed origin may send and read.
func TestPreflight(t *testing.T) {
	s, _ := start(t, Options{Origins: []string{"https://app.example"}, Keys: []string{"k"}}, served("minilm")...)
	r := httptest.NewRequestWithContext(t.Context(), "OPTIONS", "/v1/embeddings", nil)
	r.Header.Set("Origin", "https://app.example")
	r.Header.Set("Access-Control-Request-Method", "POST")
	r.Header.Set("Access-Control-Request-Headers", "authorization,content-type")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	require.Equal(t, http.StatusNoContent, w.Code)
	require.Equal(t, "https://app.example", w.Header().Get("Access-Control-Allow-Origin"))
	require.Equal(t, "authorization,content-type", w.Header().Get("Access-Control-Allow-Headers"))
	require.Equal(t, "Origin", w.Header().Get("Vary"))
	r = httptest.NewRequestWithContext(t.Context(), "POST", "/v1/embeddings", strings.NewReader(`{"input": "a"}`))
	r.Header.Set("Origin", "https://app.example")
	w = httptest.NewRecorder()
	s.ServeHTTP(w, r)
	require.Equal(t, http.StatusUnauthorized, w.Code, "an allowed origin is no key")
	require.Equal(t, "https://app.example", w.Header().Get("Access-Control-Allow-Origin"))
}
