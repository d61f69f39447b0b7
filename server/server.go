// Package server serves the models of package pipeline over HTTP, in the protocols that clients of embedding models speak: OpenAI,
// text-embeddings-inference, Hugging Face, Cohere, Jina, Ollama, and the Open Inference Protocol.
//
//	s, err := server.New(ctx, []server.Model{{Name: "minilm", Path: "path/to/folder"}}, server.Options{})
//	defer s.Close()
//	http.ListenAndServe("127.0.0.1:8080", s)
//
// A Server is an http.Handler. GET /openapi.json describes its routes, which are one table in routes.go.
package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/rlxc/rlxc/internal/memory"
)

// Options are the options and limits of a server. The zero value suits most uses.
type Options struct {
	// Keys are the API keys. A request must present one as "Authorization: Bearer KEY" (or "x-api-key: KEY"). Without keys, all requests
	// are accepted. Kubernetes' health checks need no key.
	Keys []string
	// Origins are the origins whose pages may use the server, such as https://app.example.com; "*" stands for all. Requests of pages of
	// other sites are refused, and answers can be read by pages of these origins (CORS).
	Origins []string
	// Proxies are the addresses of proxies that name their clients in Forwarded or X-Forwarded-For. Of other clients these headers are
	// ignored. Each client of a proxy is a peer.
	Proxies []netip.Prefix
	// MaxBody is the maximum size of a body, in bytes. 0 means 32 MiB.
	MaxBody int64
	// MaxRequests is the maximum number of concurrent requests; 0 means 512. Further requests are refused. MaxHeld is the maximum number
	// of bytes that they hold together: bodies, decoded requests, waiting work, and answers. 0 means eight times MaxBody.
	// One peer gets at most half of both.
	MaxRequests int
	MaxHeld     int64
	// MaxTexts is the maximum number of texts per request. 0 means 2048.
	MaxTexts int
	// ImageHosts are the hosts whose URLs may stand for images in requests: HOST for the ports 80 and 443, or HOST:PORT. The server fetches
	// no other URLs. A host must have a public address, unless it is named by its address.
	ImageHosts []string
	// Timeout is the maximum time of a request. 0 means a minute.
	Timeout time.Duration
	// NoTruncate refuses texts that are longer than the model takes, unless the request asks to truncate them.
	NoTruncate bool
	// Version is the version of the program, which some routes return.
	Version string
	// Traces gets a span for each request, as part of the client's trace if the request names one (W3C Trace Context). Nil means none.
	Traces trace.TracerProvider
	// Log gets a line for each request. Nil means none.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	set := func(v *int64, n int64) {
		if *v == 0 {
			*v = n
		}
	}
	set(&o.MaxBody, 32<<20)
	set(&o.MaxHeld, 8*o.MaxBody)
	if o.MaxRequests == 0 {
		o.MaxRequests = 512
	}
	if o.MaxTexts == 0 {
		o.MaxTexts = 2048
	}
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	o.Version = cmp.Or(o.Version, "unknown")
	if o.Traces == nil {
		o.Traces = noop.NewTracerProvider()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// A Server holds open models and answers requests. It is an http.Handler.
type Server struct {
	options Options
	keys    [][sha256.Size]byte         // digests of options.Keys
	origins *http.CrossOriginProtection // nil where pages of all origins are allowed
	models  []*entry
	metrics *metrics
	mux     *http.ServeMux
	routes  []route
	fetcher *fetcher // fetches images that are given as URLs

	running   *memory.Pool // of what is answered, be it with a refusal
	pool      *memory.Pool // of the requests
	open      *memory.Pool // of those of other protocols that need no key
	draining  atomic.Bool
	reloading sync.Mutex
	begun     time.Time
}

// mostOpen is how many requests of other protocols that need no key are answered at a time.
const mostOpen = 32

// New opens models. It fails if there are no models, if a name is invalid or a duplicate, and as pipeline.Open and rlxc.Open do.
func New(ctx context.Context, models []Model, o Options) (*Server, error) {
	if len(models) == 0 {
		return nil, errors.New("server: no models to serve")
	}
	s := &Server{options: o.withDefaults(), metrics: newMetrics(), begun: time.Now()}
	for _, key := range s.options.Keys {
		s.keys = append(s.keys, sha256.Sum256([]byte(key)))
	}
	var err error
	if s.origins, err = newOrigins(s.options.Origins); err != nil {
		return nil, err
	}
	if s.fetcher, err = newFetcher(s.options.ImageHosts); err != nil {
		return nil, err
	}
	s.pool, s.open = memory.NewPool(s.options.MaxHeld, s.options.MaxRequests), memory.NewPool(mostOpen*2*memory.Base, mostOpen)
	most := 2 * (s.options.MaxRequests + mostOpen)
	s.running = memory.NewPool(int64(most)*memory.Base, most)
	names := map[string]bool{}
	for _, m := range models {
		if m.Name == "" || strings.Trim(m.Name, "/") != m.Name || !utf8.ValidString(m.Name) || names[m.Name] {
			return nil, errors.Join(fmt.Errorf("server: invalid or duplicate model name %q: want another, in UTF-8 and without / at its "+
				"ends", m.Name), s.Close())
		}
		names[m.Name] = true
		e := &entry{Model: m}
		now, err := s.load(ctx, e)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("server: model %s: %w", m.Name, err), s.Close())
		}
		e.now = now
		s.models = append(s.models, e)
	}
	s.metrics.watch(s)
	s.routes = s.table()
	s.mux = s.newMux()
	return s, nil
}

// Drain makes Ready false, so that a load balancer sends no more requests. Requests that still arrive are answered.
func (s *Server) Drain() { s.draining.Store(true) }

// Ready reports whether the server should get requests: all models are intact, and the server is not shutting down.
func (s *Server) Ready() bool { return s.readiness(context.Background()) == nil }

// readiness is why no requests should be sent here. A model whose files were changed, and are whole again, is opened for it.
func (s *Server) readiness(ctx context.Context) error {
	switch {
	case s.draining.Load():
		return failf(http.StatusServiceUnavailable, "", "the server is shutting down")
	case !s.mend(ctx):
		return failf(http.StatusServiceUnavailable, "", "a model's files were changed while in use and cannot be opened")
	}
	return nil
}

// Close waits for running requests and closes the models. It refuses new requests. It fails with the errors of closing the models.
func (s *Server) Close() error {
	s.Drain()
	s.reloading.Lock()
	defer s.reloading.Unlock()
	var errs []error
	for _, e := range s.models {
		errs = append(errs, e.replace(nil))
	}
	return errors.Join(errs...)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.bounded(w, r, func(w http.ResponseWriter, r *http.Request) { s.observe(w, r, s.mux.ServeHTTP) })
}

// bounded answers a request unless its peer leaves too many answers unread: over HTTP/2 even a refusal waits for a client that has no room
// for it, and a connection has many.
func (s *Server) bounded(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
	_, slot, err := s.running.Enter(r.Context(), s.peerOf(r))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer slot.Leave()
	next(w, r)
}
