package server

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/rlxc/rlxc/pipeline"
	"github.com/rlxc/rlxc/tokenizer"
)

// A route handles requests at a path. The table of routes is what is served, and /openapi.json is generated from it.
type route struct {
	method, path string
	about        string
	protocol     *protocol
	open         bool   // to those without a key too
	has          string // a field that tells the route from others at its path; the last one needs none

	// A route that reads and writes JSON.
	request, answer reflect.Type // request is nil for GET
	do              func(c *call, body []byte) (any, error)
	// Any other.
	serve http.HandlerFunc
	media string // of its answer
}

// post is a route that reads a Q and writes an A.
func post[Q, A any](path string, p *protocol, about string, do func(c *call, q *Q) (A, error)) route {
	return route{method: http.MethodPost, path: path, about: about, protocol: p, request: reflect.TypeFor[Q](), answer: reflect.TypeFor[A](),
		do: func(c *call, body []byte) (any, error) {
			q := new(Q)
			if err := decode(body, q); err != nil {
				return nil, err
			}
			return do(c, q)
		}}
}

// get is a route that writes an A.
func get[A any](path string, p *protocol, about string, do func(c *call) (A, error)) route {
	return route{method: http.MethodGet, path: path, about: about, protocol: p, answer: reflect.TypeFor[A](),
		do: func(c *call, _ []byte) (any, error) { return do(c) }}
}

// infer is a route that runs a model on tensors.
func infer(path string) route {
	return route{method: http.MethodPost, path: path, about: "The outputs of a model for tensors.", protocol: oip, request: reflect.TypeFor[oipRequest](),
		answer: reflect.TypeFor[oipAnswer](), do: (*call).oipInfer}
}

// when makes a route one for bodies with a field.
func (r route) when(field string) route { r.has = field; return r }

// public makes a route accessible without a key.
func (r route) public() route { r.open = true; return r }

// table lists all routes.
func (s *Server) table() []route {
	return []route{
		post("/v1/embeddings", openAI, "Vectors of texts.", (*call).openAIEmbed),
		get("/v1/models", openAI, "The models that are served.", (*call).openAIModels),
		get("/v1/models/{model}", openAI, "A model that is served.", (*call).openAIModel),

		post("/embed", tei, "Vectors of texts.", (*call).teiEmbed),
		post("/embed_all", tei, "A vector for each token of texts.", (*call).teiEmbedAll),
		post("/embed_sparse", tei, "Weights for the words of the vocabulary.", (*call).teiEmbedSparse),
		post("/predict", tei, "Labels of texts or pairs of texts, the likeliest first.", (*call).teiPredict),
		post("/similarity", tei, "How near texts are to one.", (*call).teiSimilarity),
		post("/tokenize", tei, "The tokens of texts.", (*call).teiTokenize),
		post("/decode", tei, "The texts of token ids.", (*call).teiDecode),
		get("/info", tei, "The first model, or that of /models/{model}/info.", (*call).teiInfo),
		post("/{$}", tei, "What the model was made for: /embed, /embed_sparse, /rerank, /predict, or /similarity if a source_sentence is there.", (*call).teiAny),

		post("/rerank", tei, "Texts by how well they answer a query.", (*call).teiRerank).when("texts"),
		post("/rerank", cohere, "Documents by how well they answer a query.", (*call).rank),
		post("/v1/rerank", cohere, "Documents by how well they answer a query.", (*call).rank),
		post("/v2/rerank", cohere, "Documents by how well they answer a query.", (*call).rank),

		post("/api/embed", ollama, "Vectors of texts.", (*call).ollamaEmbed),

		get("/v2", oip, "The server.", (*call).oipServer),
		get("/v2/health/live", oip, "Whether the process lives.", (*call).oipLive).public(),
		get("/v2/health/ready", oip, "Whether requests should be sent here.", (*call).oipReady).public(),
		get("/v2/models/{model}", oip, "The inputs and outputs of a model.", (*call).oipModel),
		get("/v2/models/{model}/versions/{version}", oip, "The inputs and outputs of a model.", (*call).oipModel),
		get("/v2/models/{model}/ready", oip, "Whether a model is ready.", (*call).oipModelReady).public(),
		get("/v2/models/{model}/versions/{version}/ready", oip, "Whether a model is ready.", (*call).oipModelReady).public(),
		infer("/v2/models/{model}/infer"),
		infer("/v2/models/{model}/versions/{version}/infer"),

		{method: http.MethodGet, path: "/health", about: "Whether the process lives.", protocol: tei, open: true, serve: s.health, media: "text/plain"},
		{method: http.MethodGet, path: "/ready", about: "Whether requests should be sent here.", protocol: tei, open: true, serve: s.ready, media: "text/plain"},
		{method: http.MethodGet, path: "/metrics", about: "Numbers for Prometheus.", protocol: own, serve: s.metrics.handler().ServeHTTP, media: "text/plain"},
		{method: http.MethodGet, path: "/openapi.json", about: "This description.", protocol: own, serve: s.openapi, media: "application/json"},
		{method: http.MethodGet, path: "/{$}", about: "A page for people.", protocol: own, serve: s.status, media: "text/html"},
	}
}

// newMux makes a multiplexer of the routes.
func (s *Server) newMux() *http.ServeMux {
	mux := http.NewServeMux()
	byPath := map[string][]route{}
	for _, r := range s.routes {
		byPath[r.path] = append(byPath[r.path], r)
	}
	for path, routes := range byPath {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { s.dispatch(w, r, routes) })
	}
	// Protocols that name no model: the model stands before their paths.
	mux.HandleFunc("/models/{model}/{rest...}", func(w http.ResponseWriter, r *http.Request) { s.of(w, r, mux) })
	mux.HandleFunc("/models/{model}", func(w http.ResponseWriter, r *http.Request) { s.of(w, r, mux) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		recordOf(r.Context()).route = "none"
		own.fail(w, failf(http.StatusNotFound, "", "there is nothing here: GET /openapi.json lists what is"))
	})
	return mux
}

type modelKey struct{}

// of handles a request to /models/{model}/….
func (s *Server) of(w http.ResponseWriter, r *http.Request, mux *http.ServeMux) {
	to := r.Clone(context.WithValue(r.Context(), modelKey{}, r.PathValue("model")))
	to.URL.Path, to.URL.RawPath = "/"+r.PathValue("rest"), ""
	if strings.HasPrefix(to.URL.Path, "/models/") {
		own.fail(w, failf(http.StatusNotFound, "", "there is nothing here: GET /openapi.json lists what is"))
		return
	}
	mux.ServeHTTP(w, to)
}

// dispatch answers a request by one of the routes at its path.
func (s *Server) dispatch(w http.ResponseWriter, r *http.Request, routes []route) {
	var allow []string
	var fit []route
	for _, x := range routes {
		allow = append(allow, x.method)
		if x.method == r.Method || r.Method == http.MethodHead && x.method == http.MethodGet {
			fit = append(fit, x)
		}
	}
	rec := recordOf(r.Context())
	rec.route = strings.TrimSuffix(routes[0].path, "{$}")
	if len(fit) == 0 {
		w.Header().Set("Allow", strings.Join(slices.Compact(allow), ", "))
		routes[0].protocol.fail(w, failf(http.StatusMethodNotAllowed, "", "want %s", strings.Join(slices.Compact(allow), " or ")))
		return
	}
	to := fit[0]
	err := s.answer(w, r, fit, &to)
	if err != nil {
		f := failureOf(err)
		rec.err = err
		to.protocol.fail(w, f)
	}
}

// answer answers a request; an error is written by the caller. to is the route that was taken, as far as it is known.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, routes []route, to *route) error {
	if !to.open {
		if err := s.allowed(r); err != nil {
			return err
		}
		select {
		case s.requests <- struct{}{}:
			defer func() { <-s.requests }()
		default:
			return failf(http.StatusTooManyRequests, "", "the server answers as many requests as it may: try again later")
		}
	}
	if to.serve != nil {
		to.serve(w, r)
		return nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.options.Timeout)
	defer cancel()
	c := &call{server: s, request: r, record: recordOf(ctx)}
	c.ctx = pipeline.WithUsage(ctx, &c.record.usage)
	defer c.end()
	var body []byte
	if to.request != nil {
		data, release, err := s.readBody(w, r)
		if err != nil {
			return err
		}
		defer release()
		body = data
	}
	if len(routes) > 1 {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(body, &fields); err != nil {
			return bodyError(err)
		}
		for _, x := range routes {
			if _, ok := fields[x.has]; ok || x.has == "" {
				*to = x
				break
			}
		}
	}
	answer, err := to.do(c, body)
	if changed := c.intact(); changed != nil {
		err = errors.Join(err, changed)
	}
	if err != nil {
		return err
	}
	if own, ok := answer.(interface {
		write(http.ResponseWriter) error
	}); ok {
		return own.write(w)
	}
	return writeJSON(w, http.StatusOK, answer)
}

// allowed checks the key of a request.
func (s *Server) allowed(r *http.Request) error {
	if len(s.options.Keys) == 0 {
		return nil
	}
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		key = r.Header.Get("X-Api-Key")
	}
	return s.checkKey(key)
}

func (s *Server) checkKey(key string) error {
	ok := 0
	for _, k := range s.options.Keys { // all of them, each in a time that does not depend on the key
		ok |= subtle.ConstantTimeCompare([]byte(k), []byte(strings.TrimSpace(key)))
	}
	if ok == 0 {
		return failf(http.StatusUnauthorized, "", "want an API key: Authorization: Bearer KEY")
	}
	return nil
}

// A call is a request that is being answered.
type call struct {
	server  *Server
	request *http.Request
	ctx     context.Context
	record  *record
	used    []*opened
	dones   []func()
}

// intact is an error if a model that was used is not what was opened.
func (c *call) intact() error {
	for _, m := range c.used {
		if err := m.intact(); err != nil {
			return err
		}
	}
	return nil
}

func (c *call) end() {
	for _, done := range c.dones {
		done()
	}
}

// open finds the model of the request: by its path, by name, or by the tasks that the route is for.
func (c *call) open(name string, tasks ...pipeline.Task) (*entry, *opened, error) {
	if of, ok := c.ctx.Value(modelKey{}).(string); ok {
		name = of
	}
	e, err := c.server.find(name, tasks)
	if err != nil {
		return nil, nil, err
	}
	m, done, err := e.use(c.ctx)
	if err != nil {
		return nil, nil, err
	}
	c.dones, c.used = append(c.dones, done), append(c.used, m)
	c.record.model = e.Name
	return e, m, nil
}

// text opens a model that takes texts.
func (c *call) text(name string, tasks ...pipeline.Task) (*pipeline.Model, error) {
	e, m, err := c.open(name, tasks...)
	if err == nil && m.text == nil {
		err = failf(http.StatusUnprocessableEntity, "model", "the model %q takes tensors alone: /v2/models/%s/infer", e.Name, e.Name)
	}
	if err != nil {
		return nil, err
	}
	return m.text, nil
}

// explain turns errors of the model into errors of the request.
func (c *call) explain(err error, m *pipeline.Model) error {
	if f, ok := context.Cause(c.ctx).(*failure); ok && err != nil { // a text is too long
		return f
	}
	if errors.Is(err, pipeline.ErrTask) {
		return &failure{status: http.StatusUnprocessableEntity, field: "model", cause: err,
			text: "the model " + c.record.model + " cannot do this: it was made to " + string(m.Task)}
	}
	return err
}

// check bounds how many texts a request has.
func (c *call) check(field string, n int) error {
	switch most := c.server.options.MaxTexts; {
	case n == 0 && field == "inputs":
		return errEmpty
	case n == 0:
		return invalid(field, "it is empty: want a text or more")
	case n > most:
		return failf(http.StatusRequestEntityTooLarge, field, "field %q: %d texts, and the server takes %d at a time", field, n, most)
	}
	return nil
}

// texts are the texts of inputs; token ids become the texts that they stand for, without special tokens, as in
// text-embeddings-inference.
func (c *call) texts(m *pipeline.Model, field string, in inputs) ([]string, error) {
	if err := c.check(field, len(in.texts)); err != nil {
		return nil, err
	}
	for i, ids := range in.ids {
		if ids == nil {
			continue
		}
		text, err := decodeIDs(m, field, ids, true)
		if err != nil {
			return nil, err
		}
		in.texts[i] = text
	}
	return in.texts, nil
}

func decodeIDs(m *pipeline.Model, field string, ids []int64, skipSpecial bool) (string, error) {
	for _, id := range ids {
		if id < 0 || id >= int64(m.Encoder().Size()) {
			return "", invalid(field, "there is no token %d: the model has tokens 0 to %d", id, m.Encoder().Size()-1)
		}
	}
	return m.Encoder().Decode(ids, skipSpecial)
}

// lengths decides how to handle texts that are too long: they are truncated, or the request fails.
func (c *call) lengths(field string, truncate *bool, direction string) (pipeline.Truncated, []tokenizer.RowOption, error) {
	var rows []tokenizer.RowOption
	switch strings.ToLower(direction) {
	case "", "right":
	case "left":
		rows = append(rows, tokenizer.Truncate(tokenizer.LongestFirst, tokenizer.Left))
	default:
		return nil, nil, invalid("truncation_direction", `want "Left" or "Right", not %q`, direction)
	}
	if truncate == nil && !c.server.options.NoTruncate || truncate != nil && *truncate {
		return nil, rows, nil
	}
	ctx, cancel := context.WithCancelCause(c.ctx)
	c.ctx = ctx
	c.dones = append(c.dones, func() { cancel(nil) })
	return func(index, tokens, limit int) {
		cancel(failf(http.StatusRequestEntityTooLarge, field, "field %q: text %d has %d tokens, and the model takes %d", field, index, tokens, limit))
	}, rows, nil
}

// prompt checks the name of a prompt.
func prompt(m *pipeline.Model, name string) (string, error) {
	if _, ok := m.Prompts()[name]; !ok && name != "" {
		return "", invalid("prompt_name", "the model has no prompt %q", name)
	}
	return name, nil
}

// Path is the path, as people write it.
func (r route) Path() string { return strings.TrimSuffix(r.path, "{$}") }
