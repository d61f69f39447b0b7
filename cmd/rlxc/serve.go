package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/pipeline"
	"github.com/rlxc/rlxc/server"
)

// A serving is the command line of serve.
type serving struct {
	address   string
	grpc      string
	debug     string
	traces    string
	cert, key string
	keys      []string
	keyFile   string
	hosts     []string
	proxies   []string
	open      pipeline.Options
	prompt    string
	maxBody   options.Size
	options   server.Options
	truncate  bool
	read      time.Duration
	drain     time.Duration
	format    string
	level     string
	planOnly  bool // print the memory that the server takes instead of serving
}

// envPrefix begins the names of the environment variables that stand for flags.
const envPrefix = "rlxc_serve_"

// envName is the environment variable of a flag.
func envName(flag string) string {
	return strings.ToUpper(envPrefix + strings.ReplaceAll(flag, "-", "_"))
}

func serveCommand() *cobra.Command {
	s := &serving{maxBody: 32 << 20, format: "text", level: "info"}
	s.open.Compile.Unpad = true
	c := &cobra.Command{
		Use:   "serve M [M…]",
		Short: "serve text models over HTTP and gRPC",
		Long: `serve answers requests in the protocols that clients of embedding models speak: OpenAI (/v1/embeddings),
text-embeddings-inference (/embed, /rerank, /predict, …), Hugging Face's inference tasks
(/pipeline/TASK), Cohere and Jina (/v1/rerank, /v2/rerank), and Ollama (/api/embed). For tensors instead
of texts it speaks the Open Inference Protocol of KServe and Triton (/v2/models/NAME/infer, and gRPC at
--grpc-address). GET /openapi.json lists all routes, GET / is a web page to try them, and GET /metrics is for
Prometheus.

M is a folder, a model file or an id of the hub. Its name is its last part, or NAME in NAME=M. A request
chooses among several models by name or by a path that begins with /models/NAME. Otherwise it gets the
first model that was made for its task.

Of --memory-limit, the runs of all models get half, requests a quarter, and garbage the rest. Weights are
not counted. Without the flag, requests get at most eight times --max-body.

An environment variable may set a flag, such as RLXC_SERVE_MEMORY_LIMIT for --memory-limit.
RLXC_SERVE_MODELS holds the models. SIGTERM finishes the requests that have begun and ends the process.
SIGHUP opens the model files again without failing a request.`,
		Example: `  rlxc serve sentence-transformers/all-MiniLM-L6-v2
  rlxc serve embed=path/to/folder rank=path/to/reranker --address 0.0.0.0:8080 --api-key-file keys --memory-limit 512MiB`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := fromEnvironment(c.Flags()); err != nil {
				return err
			}
			if len(args) == 0 {
				args = strings.Fields(os.Getenv(envName("models")))
			}
			if len(args) == 0 {
				return usagef("no models to serve: name one, or set RLXC_SERVE_MODELS")
			}
			if s.planOnly {
				return s.plan(c, args)
			}
			return s.run(c, args)
		},
	}
	f := c.Flags()
	f.StringVar(&s.address, "address", "127.0.0.1:8080",
		"address to listen on, or a port of this machine alone; 0.0.0.0:8080 listens on all networks")
	f.StringVar(&s.grpc, "grpc-address", "", "address to listen on for the Open Inference Protocol over gRPC (default none)")
	f.StringVar(&s.debug, "debug-address", "", "address to listen on for Go's profiles at /debug/pprof/, which need no key, such as "+
		"127.0.0.1:6060 (default none)")
	f.StringVar(&s.traces, "otlp", "", "URL of a collector of OpenTelemetry traces, such as http://127.0.0.1:4318 (default none)")
	f.StringArrayVar(&s.keys, "api-key", nil, "key that requests must present (repeatable; separated by commas in the environment)")
	f.StringVar(&s.keyFile, "api-key-file", "", "file with a key on each line")
	f.StringSliceVar(&s.hosts, "allow-host", nil, "name of the server that a request's Host may have, besides IP addresses and localhost; "+
		"* for any (default any, unless the address is one of this machine alone)")
	f.StringSliceVar(&s.options.Origins, "allow-origin", nil, "origin whose web pages may use the server, such as "+
		"https://app.example.com; * for any (default the server's own page)")
	f.StringSliceVar(&s.proxies, "trusted-proxies", nil, "addresses or networks of proxies whose X-Forwarded-For or Forwarded name "+
		"the client, such as 10.0.0.0/8 (default none)")
	f.StringSliceVar(&s.options.ImageHosts, "allow-image-urls", nil, "host whose URLs requests may give for images, such as "+
		"images.example.com or 10.0.0.7:9000 (default none; images are sent as base64)")
	f.StringVar(&s.cert, "tls-cert", "", "file with the certificate chain, for HTTPS")
	f.StringVar(&s.key, "tls-key", "", "file with the certificate's key")
	c.MarkFlagsRequiredTogether("tls-cert", "tls-key")
	registerCompile(c, &s.open.Compile)
	f.IntVar(&s.open.Queue, "queue", 1<<18, "maximum tokens waiting per model; requests beyond it get status 429")
	f.IntVar(&s.open.BatchTokens, "batch-tokens", 0, "maximum tokens per batch (default 512; 16384 on a GPU)")
	f.IntVar(&s.open.Sessions, "sessions", 0, "number of concurrent batches per model (default one per processor, four per GPU)")
	f.IntVar(&s.open.MaxLength, "max-length", 0, "maximum tokens per sequence (default from the model's files)")
	f.StringVar(&s.open.Variant, "variant", "", "ONNX file to take, such as quantized for model_quantized.onnx")
	f.StringVar(&s.open.Revision, "revision", "", "branch, tag or commit of models of the hub (default main)")
	enum(c, &s.open.Pooling, "pool", "pooling of embedding models; overrides their files",
		pipeline.Poolings()...)
	f.StringVar(&s.prompt, "default-prompt", "", "prompt before each text to embed when a request names none")
	f.StringVar(&s.open.DefaultPromptName, "default-prompt-name", "", "name of the model's prompt to use when a request names none")
	f.BoolVar(&s.truncate, "truncate", true, "truncate long texts when a request does not decide; otherwise they get status 413")
	f.Var(&s.maxBody, "max-body", "maximum size of a request's body")
	f.IntVar(&s.options.MaxTexts, "max-texts", 2048, "maximum texts per request")
	f.IntVar(&s.options.MaxRequests, "max-requests", 512, "maximum concurrent requests")
	f.DurationVar(&s.options.Timeout, "timeout", time.Minute, "maximum time of a request")
	f.BoolVar(&s.planOnly, "plan", false, "print the memory of the models, and the container that is enough, instead of serving")
	f.DurationVar(&s.read, "read-timeout", 30*time.Second, "maximum time for a client to send a request")
	f.DurationVar(&s.drain, "drain", 25*time.Second, "time for requests to finish after SIGTERM")
	enum(c, &s.format, "log-format", "format of the log", "text", "json")
	enum(c, &s.level, "log-level", "lowest level that is logged", "debug", "info", "warn", "error")
	return c
}

// fromEnvironment sets the flags that the command line does not, and the environment does.
func fromEnvironment(f *pflag.FlagSet) (err error) {
	f.VisitAll(func(flag *pflag.Flag) {
		value, ok := os.LookupEnv(envName(flag.Name))
		if !ok || flag.Changed || err != nil {
			return
		}
		values := []string{value}
		if flag.Value.Type() == "stringArray" { // those of the options take lists themselves
			values = strings.Split(value, ",")
		}
		for _, v := range values {
			if bad := f.Set(flag.Name, v); bad != nil {
				err = usagef("%s: %w", envName(flag.Name), bad)
			}
		}
	})
	return err
}

// models are those of a command line, with limits of memory that are for a model.
func (s *serving) models(args []string) ([]server.Model, error) {
	list := make([]server.Model, len(args))
	o := s.open
	if s.prompt != "" {
		o.DefaultPrompt = &s.prompt
	}
	o.Compile.MemoryLimit = memory.Limit(o.Compile.MemoryLimit) / 2 / int64(len(args))
	if o.Compile.Backend == "cpu" {
		o = o.Defaults() // before spare
		o.Compile.Threads = cmp.Or(o.Compile.Threads, kernel.DefaultThreads())
	}
	for i, arg := range args {
		name, path, ok := strings.Cut(arg, "=")
		if _, err := os.Stat(arg); !ok || err == nil {
			name, path = modelName(arg), arg
		}
		if err := withTokenizer(path); err != nil {
			return nil, err
		}
		list[i] = server.Model{Name: name, Path: path, Options: o}
	}
	return list, nil
}

// modelName names a model by its path or id: the last informative part.
func modelName(path string) string {
	path, _, _ = strings.Cut(filepath.ToSlash(filepath.Clean(path)), "@")
	parts := strings.Split(path, "/")
	for i := len(parts) - 1; i >= 0; i-- {
		name := strings.TrimSuffix(strings.TrimSuffix(parts[i], ".onnx"), ".rlxc")
		if name != "model" && name != "onnx" && name != "." && name != ".." && name != "" {
			return name
		}
	}
	return "model"
}

// leastMemory is the limit for which a request may take what every request takes, and as much again for its texts.
const leastMemory = 1 << 20

// options are those of the server.
func (s *serving) serverOptions(log *slog.Logger) (server.Options, error) {
	o := s.options
	o.Keys, o.MaxBody, o.NoTruncate, o.Version, o.Log = s.keys, int64(s.maxBody), !s.truncate, version(), log
	asked := s.open.Compile.MemoryLimit
	o.MaxHeld = memory.Limit(asked) / 4 // runs have half, and the rest is for garbage and for the program
	if asked == 0 {
		o.MaxHeld = min(o.MaxHeld, 8*int64(s.maxBody))
	}
	if s.keyFile != "" {
		data, err := os.ReadFile(s.keyFile)
		if err != nil {
			return o, err
		}
		o.Keys = append(o.Keys, strings.Fields(string(data))...)
		if len(o.Keys) == 0 {
			return o, fmt.Errorf("%s has no keys: write at least one, or leave out --api-key-file", s.keyFile)
		}
	}
	for _, key := range o.Keys {
		if key == "" {
			return o, usagef("an API key is empty: leave it out")
		}
	}
	for _, x := range []struct {
		flag    string
		address *string
	}{{"address", &s.address}, {"grpc-address", &s.grpc}} {
		if _, err := strconv.ParseUint(*x.address, 10, 16); err == nil { // a port: of this machine alone, as the default is
			*x.address = "127.0.0.1:" + *x.address
		}
		if _, _, err := net.SplitHostPort(*x.address); *x.address != "" && err != nil {
			return o, usagef("--%s %s: want HOST:PORT or a port up to 65535, such as 8080", x.flag, *x.address)
		}
	}
	for _, text := range s.proxies {
		network, err := prefix(text)
		if err != nil {
			return o, usagef("--trusted-proxies %s: want an address or a network, such as 10.0.0.0/8", text)
		}
		o.Proxies = append(o.Proxies, network)
	}
	for _, x := range []struct {
		flag        string
		value, want int
	}{{"max-texts", o.MaxTexts, 1}, {"max-requests", o.MaxRequests, 1}, {"timeout", int(o.Timeout), 1}, {"read-timeout", int(s.read), 1},
		{"max-body", int(s.maxBody), 1}, {"queue", s.open.Queue, 1}, {"drain", int(s.drain), 0}, {"batch-tokens", s.open.BatchTokens, 0},
		{"sessions", s.open.Sessions, 0}, {"max-length", s.open.MaxLength, 0}} {
		if err := least(x.flag, x.value, x.want); err != nil {
			return o, err
		}
	}
	if host, _, err := net.SplitHostPort(s.debug); s.debug != "" && (err != nil || host == "") {
		return o, usagef("--debug-address %s: want HOST:PORT, such as 127.0.0.1:6060; 0.0.0.0:6060 shows profiles to all networks", s.debug)
	}
	if asked != 0 && asked < leastMemory {
		return o, usagef("--memory-limit %d: want at least %d", asked, leastMemory)
	}
	return o, nil
}

// prefix reads a network, or an address, which is a network of one.
func prefix(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return addr.Prefix(addr.BitLen())
	}
	return netip.ParsePrefix(text)
}

// base returns the context of the requests of a listener, which listens at at because of address. On an address of this machine alone, and
// where names are allowed, a request must not call the server by another name: it would be that of a page of another site.
func (s *serving) base(at net.Addr, address string) context.Context {
	ctx := context.Background()
	if slices.Contains(s.hosts, "*") || len(s.hosts) == 0 && !at.(*net.TCPAddr).IP.IsLoopback() {
		return ctx
	}
	name, _, _ := net.SplitHostPort(address)
	return server.WithHosts(ctx, append([]string{name}, s.hosts...)...)
}

func (s *serving) logger(to io.Writer) *slog.Logger {
	var level slog.Level
	level.UnmarshalText([]byte(s.level)) // one of its words
	o := &slog.HandlerOptions{Level: level}
	if s.format == "json" {
		return slog.New(slog.NewJSONHandler(to, o))
	}
	return slog.New(slog.NewTextHandler(to, o))
}

// spare has Go schedule on more threads than compute, until done: where runs occupy all of them, Go looks at connections each 10 ms only.
func (s *serving) spare() (done func()) {
	n := runtime.GOMAXPROCS(0)
	if s.open.Compile.Backend == "cpu" {
		runtime.GOMAXPROCS(n + max(1, n/4))
	}
	return func() { runtime.GOMAXPROCS(n) }
}

func (s *serving) run(c *cobra.Command, args []string) (err error) {
	begun := time.Now()
	log := s.logger(c.ErrOrStderr())
	o, err := s.serverOptions(log)
	if err != nil {
		return err
	}
	var secure *tls.Config
	scheme := "http"
	if s.cert != "" {
		pair, err := tls.LoadX509KeyPair(s.cert, s.key)
		if err != nil {
			return err
		}
		scheme, secure = "https", &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	if s.traces != "" {
		if u, err := url.Parse(s.traces); err != nil || u.Host == "" {
			return usagef("--otlp %s: want a URL, such as http://127.0.0.1:4318", s.traces)
		}
		traces, flush, err := exportTraces(c.Context(), s.traces, o.Version)
		if err != nil {
			return err
		}
		defer flush()
		o.Traces = traces
	}
	served, err := s.models(args)
	if err != nil {
		return err
	}
	boundHeap(s.open.Compile.MemoryLimit)
	boundGarbage()
	defer s.spare()()
	first, err := listen(c.Context(), s.address, o.Proxies)
	if err != nil {
		return err
	}
	defer first.Close()
	handler, err := server.New(c.Context(), served, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, handler.Close()) }()
	ends := []*http.Server{s.web(s.base(first.Addr(), s.address), handler, o, secure, log)}
	listeners := []*listener{first}
	urls := []any{"url", scheme + "://" + first.Addr().String()}
	if s.grpc != "" {
		l, err := listen(c.Context(), s.grpc, o.Proxies)
		if err != nil {
			return err
		}
		defer l.Close()
		ends, listeners, urls = append(ends, s.web(s.base(l.Addr(), s.grpc), handler.GRPC(), o, secure, log)), append(listeners, l),
			append(urls, "grpc", l.Addr().String())
	}
	if s.debug != "" {
		l, err := listen(c.Context(), s.debug, o.Proxies)
		if err != nil {
			return err
		}
		defer l.Close()
		ends, listeners, urls = append(ends, s.web(s.base(l.Addr(), s.debug), handler.Debug(), o, secure, log)), append(listeners, l),
			append(urls, "debug", scheme+"://"+l.Addr().String()+"/debug/pprof/")
	}
	if err := bound(listeners, connectionsPerRequest*o.MaxRequests, log); err != nil {
		return err
	}
	ended := make(chan error, len(ends))
	for i, e := range ends {
		l := listeners[i]
		if secure != nil {
			go func() { ended <- e.ServeTLS(l, "", "") }()
		} else {
			go func() { ended <- e.Serve(l) }()
		}
	}
	log.Info("serving", append(urls, "models", handler.Names(), "after", time.Since(begun).Round(time.Millisecond))...)
	stop := s.reloads(c.Context(), handler, log)
	defer stop()
	patient(s.drain)
	select {
	case err := <-ended:
		return err
	case <-c.Context().Done():
	}
	log.Info("stopping: finishing requests in progress", "within", s.drain)
	handler.Drain()
	retire(listeners, s.drain)
	ctx, cancel := context.WithTimeout(context.Background(), s.drain)
	defer cancel()
	for _, e := range ends {
		if late := e.Shutdown(ctx); late != nil {
			e.Close()
			err = fmt.Errorf("some requests did not finish within --drain %v", s.drain)
		}
	}
	return err
}

// web is the server of a listener, whose requests have the context base. Without TLS, clients of gRPC speak HTTP/2 at once.
func (s *serving) web(base context.Context, handler http.Handler, o server.Options, secure *tls.Config, log *slog.Logger) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{Handler: handler, BaseContext: func(net.Listener) context.Context { return base },
		ReadTimeout: s.read, ReadHeaderTimeout: min(s.read, 10*time.Second), WriteTimeout: s.read + o.Timeout + time.Minute,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		TLSConfig: secure, Protocols: protocols,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 64, MaxReceiveBufferPerConnection: 1 << 20, MaxReceiveBufferPerStream: 256 << 10,
			MaxReadFrameSize: 16 << 10}} // for which a frame's head alone gets memory
}

// exportTraces sends traces to a collector (OTLP over HTTP). flush sends what is left.
func exportTraces(ctx context.Context, url, version string) (_ trace.TracerProvider, flush func(), err error) {
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(strings.TrimSuffix(url, "/")+"/v1/traces"))
	if err != nil {
		return nil, nil, err
	}
	about := resource.NewSchemaless(attribute.String("service.name", "rlxc"), attribute.String("service.version", version))
	p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	return p, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		p.Shutdown(ctx) // who cannot reach the collector has lost the traces alone
	}, nil
}

// reloads reopens the models at each SIGHUP, until stop.
func (s *serving) reloads(ctx context.Context, handler *server.Server, log *slog.Logger) (stop func()) {
	if len(reloadSignals) == 0 {
		return func() {}
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, reloadSignals...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range signals {
			begun := time.Now()
			if err := handler.Reload(ctx); err != nil {
				log.Error("a model could not be reopened: the old one is still served", "error", err)
				continue
			}
			log.Info("the models were reopened", "took", time.Since(begun).Round(time.Millisecond))
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}
