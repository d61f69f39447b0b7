package main

import (
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/server"
)

// TestServeFlags: each flag of serve changes what it says.
func TestServeFlags(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(keys, []byte("k\nl\n"), 0o600))
	embed, long := `{"inputs": "a cat", "dimensions": 2}`, `{"inputs": "`+strings.Repeat("cat ", 60)+`"}`
	asked := map[string]bool{}
	for _, c := range []struct {
		flag, value, model string
		path, body, key    string
		host, origin       string
		without, with      string // what is in the answer, or the log
	}{
		{flag: "api-key", value: "k", path: "/embed", body: embed, without: "[[0.03", with: "want an API key"},
		{flag: "api-key-file", value: keys, path: "/embed", body: embed, without: "[[0.03", with: "want an API key"},
		{flag: "api-key-file", value: keys, path: "/embed", body: embed, key: "l", without: "[[0.03", with: "[[0.03"},
		{flag: "max-length", value: "9", path: "/info", without: `"max_input_length":48`, with: `"max_input_length":9`},
		{flag: "max-texts", value: "1", path: "/info", without: `"max_client_batch_size":2048`, with: `"max_client_batch_size":1`},
		{flag: "max-requests", value: "7", path: "/info", without: `"max_concurrent_requests":512`, with: `"max_concurrent_requests":7`},
		{flag: "batch-tokens", value: "99", path: "/info", without: `"max_batch_tokens":512`, with: `"max_batch_tokens":99`},
		{flag: "truncate", value: "false", path: "/embed", body: long, without: "[[",
			with: "text 0 has 122 tokens, more than the maximum of 48"},
		{flag: "max-body", value: "200KiB", path: "/embed", body: `{"inputs": "` + strings.Repeat("cat ", 60_000) + `"}`, without: "[[",
			with: "more than the maximum of 204800"},
		{flag: "timeout", value: "1ns", path: "/embed", body: embed, without: "[[0.03",
			with: "the request took longer than the server allows"},
		{flag: "queue", value: "4", path: "/embed", body: embed, without: "[[0.03", with: "the queue holds 4"},
		{flag: "pool", value: "cls", path: "/info", without: `"pooling":"mean"`, with: `"pooling":"cls"`},
		{flag: "variant", value: "model", path: "/embed", body: embed, without: "[[0.03", with: "[[0.03"},
		{flag: "revision", value: "x", path: "/embed", body: embed, without: "[[0.03", with: "[[0.03"},
		{flag: "default-prompt", value: "query: ", model: "prompts", path: "/embed", body: embed, without: "[[-0.96", with: "[[-0.989"},
		{flag: "default-prompt-name", value: "query", model: "prompts", path: "/embed", body: embed, without: "[[-0.96", with: "[[-0.78"},
		{flag: "log-format", value: "json", path: "/embed", body: embed, without: "msg=serving", with: `"msg":"serving"`},
		{flag: "log-level", value: "debug", path: "/health", without: "msg=serving", with: "route=/health"},
		{flag: "sessions", value: "1", path: "/embed", body: embed, without: "[[0.03", with: "[[0.03"},
		{flag: "drain", value: "1s", path: "/health", without: "within=25s", with: "within=1s"},
		{flag: "read-timeout", value: "1s", path: "/embed", body: embed, without: "[[0.03", with: "[[0.03"},
		{flag: "allow-host", value: "box.example", path: "/embed", body: embed, host: "box.example", without: "the server has no name",
			with: "[[0.03"},
		{flag: "allow-origin", value: "https://app.example", path: "/embed", body: embed, origin: "https://app.example",
			without: "may not use the server", with: "[[0.03"},
		{flag: "trusted-proxies", value: "127.0.0.0/8", path: "/embed", body: embed, without: "from=127.0.0.1:", with: "client=192.0.2.1"},
		{flag: "allow-image-urls", value: "127.0.0.1:1", model: "images/vit", path: "/v1/embeddings",
			body:    `{"modality": "image", "input": "http://127.0.0.1:1/photo.jpg"}`,
			without: "start the server with --allow-image-urls 127.0.0.1:1", with: "the URL could not be fetched"},
		{flag: "grpc-address", value: "127.0.0.1:0", path: "/health", without: "msg=serving", with: "grpc=127.0.0.1:"},
		{flag: "debug-address", value: "127.0.0.1:0", path: "/health", without: "msg=serving", with: "/debug/pprof/"},
	} {
		asked[c.flag] = true
		model := served + "minilm"
		if c.model != "" {
			model = served + c.model
		}
		try := func(want string, args ...string) {
			t.Helper()
			url, log, stop := startServe(t, append([]string{model}, args...)...)
			var status int
			var text string
			if c.body != "" {
				header := []string{"Authorization", "Bearer " + c.key, "X-Forwarded-For", "192.0.2.1", "Host", c.host}
				if c.origin != "" {
					header = append(header, "Origin", c.origin)
				}
				status, text = post(t, http.DefaultClient, url+c.path, c.body, header...)
			} else {
				a, err := http.Get(url + c.path)
				require.NoError(t, err)
				var b strings.Builder
				require.NoError(t, a.Write(&b))
				status, text = a.StatusCode, b.String()
			}
			http.DefaultClient.CloseIdleConnections()
			require.Equal(t, exitDone, stop(), log)
			require.Contains(t, text+log.String(), want, "--%s %s: %d", c.flag, c.value, status)
		}
		try(c.without)
		try(c.with, "--"+c.flag+"="+c.value)
	}
	elsewhere := []string{"address", "tls-cert", "tls-key", "otlp", "plan", "help", "json"} // other tests ask for them
	serveCommand().Flags().VisitAll(func(f *pflag.Flag) {
		for _, row := range options.Table {
			if row.Flag == f.Name { // TestOptionsReachCompilations asks for it
				return
			}
		}
		require.True(t, asked[f.Name] || strings.Contains(strings.Join(elsewhere, " "), f.Name), "--%s is tried nowhere", f.Name)
	})
}

// TestServeShares holds which part of --memory-limit requests have, of which a peer has half, and how many connections a server has for a
// request at a time, of which a peer has half as well.
func TestServeShares(t *testing.T) {
	s := &serving{options: server.Options{MaxTexts: 1, MaxRequests: 8, Timeout: time.Second}, read: time.Second, maxBody: 1}
	s.open.Queue, s.open.Compile.MemoryLimit = 1, 256<<20
	o, err := s.serverOptions(slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.EqualValues(t, 64<<20, o.MaxHeld)
	_, share, err := memory.NewPool(o.MaxHeld, 2).Enter(t.Context(), "one")
	require.NoError(t, err)
	require.NoError(t, share.Take(32<<20-memory.Base))
	require.ErrorIs(t, share.Take(1), memory.ErrOver)

	l := &listener{most: connectionsPerRequest * 8, peers: map[netip.Addr]int{}}
	for range 2 * 8 {
		require.True(t, l.add(netip.MustParseAddr("192.0.2.1")))
	}
	require.False(t, l.add(netip.MustParseAddr("192.0.2.1")), "a peer has twice --max-requests")
	require.True(t, l.add(netip.MustParseAddr("192.0.2.2")))
}

// TestServeLimits holds how long a client may take: a head within ten seconds, and an answer once a request has been read and computed.
func TestServeLimits(t *testing.T) {
	for read, head := range map[time.Duration]time.Duration{time.Second: time.Second, time.Minute: 10 * time.Second} {
		w := (&serving{read: read}).web(t.Context(), http.NotFoundHandler(), server.Options{Timeout: time.Hour}, nil, slog.Default())
		require.Equal(t, []time.Duration{read, head, read + time.Hour + time.Minute, 2 * time.Minute},
			[]time.Duration{w.ReadTimeout, w.ReadHeaderTimeout, w.WriteTimeout, w.IdleTimeout})
		require.Equal(t, []int{16 << 10, 64, 1 << 20, 256 << 10, 16 << 10}, []int{w.MaxHeaderBytes, w.HTTP2.MaxConcurrentStreams,
			w.HTTP2.MaxReceiveBufferPerConnection, w.HTTP2.MaxReceiveBufferPerStream, w.HTTP2.MaxReadFrameSize})
		require.True(t, w.Protocols.HTTP1() && w.Protocols.HTTP2() && w.Protocols.UnencryptedHTTP2())
	}
}

// TestServeMemoryLimit holds that the runs of all models and the requests stay within the limit together, and leave a quarter for garbage.
func TestServeMemoryLimit(t *testing.T) {
	const limit = 1 << 30
	for _, asked := range []int64{0, limit} {
		s := &serving{maxBody: 1 << 30, read: time.Second, address: "0"}
		s.options.MaxTexts, s.options.MaxRequests, s.options.Timeout, s.open.Queue = 1, 1, time.Second, 1
		s.open.Compile.MemoryLimit = asked
		o, err := s.serverOptions(slog.Default())
		require.NoError(t, err)
		sum := o.MaxHeld
		models, err := s.models([]string{"a=" + served + "minilm", "b=" + served + "minilm", "c=" + served + "ner"})
		require.NoError(t, err)
		for _, m := range models {
			sum += m.Options.Compile.MemoryLimit
		}
		whole := memory.Limit(asked)
		require.InDelta(t, whole*3/4, sum, 8)
		require.LessOrEqual(t, sum, whole*3/4)
	}
}

// TestServePort holds that an address that is a port alone is one of this machine, over HTTP and gRPC.
func TestServePort(t *testing.T) {
	url, log, stop := startServe(t, served+"minilm", "--address", "0", "--grpc-address", "0")
	require.Regexp(t, `^http://127\.0\.0\.1:[1-9]`, url)
	log.await(t, `grpc=(127\.0\.0\.1:[1-9]\d*)`)
	require.Equal(t, exitDone, stop())
}
