package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"reflect"
	"strings"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/pipeline"
	"github.com/rlxc/rlxc/tokenizer"
)

// A route handles requests at a path. The table of routes is what is served, and /openapi.json is generated from it.
type route struct {
	method, path string
	about        string
	protocol     *protocol
	open         bool // to those without a key too

	// A route that reads and writes JSON.
	request, answer reflect.Type // request is nil for GET
	do              func(c *call, q any) (any, error)
	as              func(c *call) ([]route, error) // the routes one of which it stands for; nil for itself
	// Any other.
	serve http.HandlerFunc
	media string // of its answer
	also  string // another media type that its answer may have; empty for none
}

// post is a route that reads a Q and writes an A.
func post[Q, A any](path string, p *protocol, about string, do func(c *call, q *Q) (A, error)) route {
	return route{method: http.MethodPost, path: path, about: about, protocol: p, request: reflect.TypeFor[Q](),
		answer: reflect.TypeFor[A](),
		do:     func(c *call, q any) (any, error) { return do(c, q.(*Q)) }}
}

// get is a route that writes an A.
func get[A any](path string, p *protocol, about string, do func(c *call) (A, error)) route {
	return route{method: http.MethodGet, path: path, about: about, protocol: p, answer: reflect.TypeFor[A](),
		do: func(c *call, _ any) (any, error) { return do(c) }}
}

// binary adds the media type of answers whose tensors are binary.
func (r route) binary() route { r.also = "application/octet-stream"; return r }

// public makes a route accessible without a key.
func (r route) public() route { r.open = true; return r }

// table lists all routes.
func (s *Server) table() []route {
	return []route{
		post("/v1/embeddings", openAI, "Vectors of texts.", (*call).openAIEmbed),
		get("/v1/models", openAI, "The served models.", (*call).openAIModels),
		get("/v1/models/{model}", openAI, "A served model.", (*call).openAIModel),

		post("/embed", tei, "Vectors of texts.", (*call).teiEmbed),
		post("/embed_all", tei, "A vector for each token of texts.", (*call).teiEmbedAll),
		post("/embed_sparse", tei, "Weights for the words of the vocabulary.", (*call).teiEmbedSparse),
		post("/predict", tei, "Labels of texts or pairs of texts, the most likely first.", (*call).teiPredict),
		post("/similarity", tei, "Similarities of texts to one text.", (*call).teiSimilarity),
		post("/tokenize", tei, "The tokens of texts.", (*call).teiTokenize),
		post("/decode", tei, "The texts of token ids.", (*call).teiDecode),
		get("/info", tei, "The first model, or that of /models/{model}/info.", (*call).teiInfo),
		{method: http.MethodPost, path: "/{$}", protocol: tei, request: reflect.TypeFor[teiAny](), answer: reflect.TypeFor[anything](),
			as:    (*call).teiAny,
			about: "The model's own task, as a route of text-embeddings-inference or a task of Hugging Face."},

		post("/pipeline/feature-extraction", huggingFace, "Vectors of texts.", (*call).teiEmbed),
		post("/pipeline/image-feature-extraction", huggingFace, "Vectors of images.", (*call).hfEmbedImages),
		post("/pipeline/image-classification", huggingFace, "Labels of images, the most likely first.", (*call).hfClassifyImages),
		post(zeroShotImagePath, huggingFace, "Scores of labels of images that the model was not trained on.", (*call).hfZeroShotImages),
		post("/pipeline/object-detection", huggingFace, "The objects in images, with their boxes.", (*call).hfDetect),
		post("/pipeline/sentence-similarity", huggingFace, "Similarities of texts to one text.", (*call).teiSimilarity),
		post("/pipeline/text-classification", huggingFace, "Labels of texts, the most likely first.", (*call).hfClassify),
		post(zeroShotPath, huggingFace, "Scores of labels that the model was not trained on.",
			(*call).hfZeroShot),
		post("/pipeline/token-classification", huggingFace, "The entities in texts.", (*call).hfTag),
		post("/pipeline/token-classification", huggingFace, "The entities in texts, for the labels in the request.",
			(*call).hfTagZeroShot),
		post("/pipeline/question-answering", huggingFace, "The answers to a question in a text.", (*call).hfAnswer),
		post("/pipeline/fill-mask", huggingFace, "Words for masks.", (*call).hfFill),

		post("/rerank", tei, "Texts sorted by how well they answer a query.", (*call).teiRerank),
		post("/rerank", cohere, "Documents sorted by how well they answer a query, in infinity's form.", (*call).infinityRank),
		post("/v1/rerank", cohere, "Documents sorted by how well they answer a query.", (*call).rank),
		post("/v2/rerank", cohere, "Documents sorted by how well they answer a query.", (*call).rank),

		post("/v1/embed", cohere, "Vectors of texts.", (*call).cohereEmbed),
		post("/v2/embed", cohere, "Vectors of texts.", (*call).cohereEmbed2),

		post("/embeddings", infinity, "Vectors of texts.", (*call).openAIEmbed),
		get("/models", infinity, "The served models.", (*call).infinityModels),
		post("/classify", infinity, "Labels of texts, the most likely first.", (*call).infinityClassify),

		post("/classify", vllm, "The probabilities of all labels of texts.", (*call).vllmClassify),
		post("/score", vllm, "How well texts answer others, or how similar they are.", (*call).vllmScore),
		post("/score", vllm, "The same, with vLLM's other names of the texts.", (*call).vllmQueries),
		post("/v1/score", vllm, "How well texts answer others, or how similar they are.", (*call).vllmScore),
		post("/v1/score", vllm, "The same, with vLLM's other names of the texts.", (*call).vllmQueries),
		post("/pooling", vllm, "What the model makes of texts: vectors, a vector for each token, or probabilities.", (*call).vllmPool),

		post("/api/embed", ollama, "Vectors of texts.", (*call).ollamaEmbed),
		post("/api/embeddings", ollama, "The vector of a text.", (*call).ollamaEmbedOne),
		get("/api/tags", ollama, "The served models.", (*call).ollamaTags),
		get("/api/ps", ollama, "The loaded models: all of them.", (*call).ollamaRunning),
		post("/api/show", ollama, "A served model.", (*call).ollamaShow),
		get("/api/version", ollama, "The version of the server.", (*call).ollamaVersion),

		get("/v2", oip, "The server.", (*call).oipServer),
		get("/v2/health/live", oip, "Whether the process is alive.", (*call).oipLive).public(),
		get("/v2/health/ready", oip, "Whether the server is ready for requests.", (*call).oipReady).public(),
		get("/v2/models/{model}", oip, "The inputs and outputs of a model.", (*call).oipModel),
		get("/v2/models/{model}/versions/{version}", oip, "The inputs and outputs of a model.", (*call).oipModel),
		get("/v2/models/{model}/ready", oip, "Whether a model is ready.", (*call).oipModelReady),
		get("/v2/models/{model}/versions/{version}/ready", oip, "Whether a model is ready.", (*call).oipModelReady),
		get("/v2/models/{model}/config", oip, "A model as Triton configures it.", (*call).oipConfig),
		get("/v2/models/{model}/versions/{version}/config", oip, "A model as Triton configures it.", (*call).oipConfig),
		get("/v2/models/stats", oip, "Statistics of tensor requests, by model.", (*call).oipStats),
		get("/v2/models/{model}/stats", oip, "Statistics of tensor requests.", (*call).oipStats),
		get("/v2/models/{model}/versions/{version}/stats", oip, "Statistics of tensor requests.", (*call).oipStats),
		post("/v2/repository/index", oip, "The served models.", (*call).oipIndex),
		post("/v2/models/{model}/infer", oip, "The outputs of a model for tensors.", (*call).oipInfer).binary(),
		post("/v2/models/{model}/versions/{version}/infer", oip, "The outputs of a model for tensors.", (*call).oipInfer).binary(),

		{method: http.MethodGet, path: "/health", about: "Whether the process is alive.", protocol: tei, open: true, serve: s.health,
			media: "application/json", answer: reflect.TypeFor[alive]()},
		{method: http.MethodGet, path: "/ready", about: "Whether the server is ready for requests.", protocol: tei, open: true,
			serve: s.ready, media: "text/plain"},
		{method: http.MethodGet, path: "/metrics", about: "Metrics for Prometheus.", protocol: own, serve: s.metrics.handler(),
			media: "text/plain"},
		{method: http.MethodGet, path: "/openapi.json", about: "This description.", protocol: own, serve: s.openapi(),
			media: "application/json"},
		{method: http.MethodGet, path: "/{$}", about: "A web page to try the models.", protocol: own, open: true, serve: s.page,
			media: "text/html"},
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
		byMethod, allow := map[string][]route{}, []string{}
		for _, r := range routes {
			if byMethod[r.method] == nil {
				allow = append(allow, r.method)
			}
			byMethod[r.method] = append(byMethod[r.method], r)
		}
		byMethod[http.MethodHead] = byMethod[http.MethodGet]
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			recordOf(r.Context()).route = routes[0].Path()
			if err := s.foreign(r); err != nil {
				recordOf(r.Context()).err = err
				routes[0].protocol.fail(w, failureOf(err))
				return
			}
			if s.preflight(w, r) {
				return
			}
			fit := byMethod[r.Method]
			if len(fit) == 0 {
				w.Header().Set("Allow", strings.Join(allow, ", "))
				routes[0].protocol.fail(w, failf(http.StatusMethodNotAllowed, "", "want %s", strings.Join(allow, " or ")))
				return
			}
			s.dispatch(w, r, fit)
		})
	}
	// Protocols that name no model: the model is before their paths.
	mux.HandleFunc("/models/{model}/{rest...}", func(w http.ResponseWriter, r *http.Request) { s.of(w, r, mux) })
	mux.HandleFunc("/models/{model}", func(w http.ResponseWriter, r *http.Request) { s.of(w, r, mux) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		own.fail(w, failf(http.StatusNotFound, "", "no such route: GET /openapi.json lists all routes"))
	})
	return mux
}

type modelKey struct{}

// of handles a request to /models/{model}/….
func (s *Server) of(w http.ResponseWriter, r *http.Request, mux *http.ServeMux) {
	to := r.Clone(context.WithValue(r.Context(), modelKey{}, r.PathValue("model")))
	to.URL.Path, to.URL.RawPath = "/"+r.PathValue("rest"), ""
	if path.Clean(to.URL.Path) != to.URL.Path || strings.HasPrefix(to.URL.Path, "/models/") { // a redirect would leave the model out
		own.fail(w, failf(http.StatusNotFound, "", "no such route: GET /openapi.json lists all routes"))
		return
	}
	mux.ServeHTTP(w, to)
}

// dispatch answers a request by one of the routes that fit.
func (s *Server) dispatch(w http.ResponseWriter, r *http.Request, fit []route) {
	to := fit[0]
	if err := s.answer(w, r, fit, &to); err != nil {
		recordOf(r.Context()).err = err
		to.protocol.fail(w, failureOf(err))
	}
}

// answer answers a request; an error is written by the caller. to is the route that was taken, as far as it is known. What a request may
// take is settled in this order: its key, a slot, and then, as they come, its bytes.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, routes []route, to *route) error {
	ctx, cancel := context.WithTimeout(r.Context(), s.options.Timeout)
	defer cancel()
	if !to.open {
		if err := s.allowed(r.Header.Get); err != nil {
			return err
		}
		if to.serve == nil { // others need no slot: a full server still says how it is
			in, share, err := s.pool.Enter(ctx, s.peerOf(r))
			if err != nil {
				return err
			}
			defer share.Leave()
			ctx = in
		}
	}
	if to.serve != nil {
		to.serve(w, r)
		return nil
	}
	c := &call{server: s, request: r, record: recordOf(ctx)}
	c.ctx = pipeline.WithUsage(ctx, &c.record.usage)
	defer c.end()
	var q any
	if to.request != nil {
		var err error
		if q, err = c.read(w, routes, to); err != nil {
			return err
		}
	}
	answer, err := to.do(c, q)
	if err != nil {
		return err
	}
	c.announce(w.Header())
	if own, ok := answer.(interface {
		write(context.Context, http.ResponseWriter) error
	}); ok {
		return own.write(ctx, w)
	}
	return writeJSON(ctx, w, http.StatusOK, answer)
}

// read reads the body of a request, which reports which of the routes it is for.
func (c *call) read(w http.ResponseWriter, routes []route, to *route) (any, error) {
	if to.as != nil {
		var err error
		if routes, err = to.as(c); err != nil {
			return nil, err
		}
	}
	if e := c.request.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return nil, failf(http.StatusUnsupportedMediaType, "", "Content-Encoding %q is not supported: send the body uncompressed", e)
	}
	most := c.server.options.MaxBody
	if n := c.request.ContentLength; n > most {
		return nil, failf(http.StatusRequestEntityTooLarge, "", "the body has %d bytes, more than the maximum of %d", n, most)
	}
	share := c.share()
	c.body = share.Reader(http.MaxBytesReader(w, c.request.Body, most+1), most)
	qs := make([]any, len(routes))
	for i, x := range routes {
		qs[i] = reflect.New(x.request).Interface()
	}
	if i, err := c.readFile(qs); i >= 0 || err != nil {
		*to = routes[max(i, 0)]
		return qs[max(i, 0)], err
	}
	in := c.body
	if c.request.ContentLength == 0 { // as of clients that have nothing to say
		in = strings.NewReader("{}")
	}
	head, err := c.headLength()
	if err != nil {
		return nil, err
	}
	if head != nil {
		in = head
	}
	i, err := newScanner(in, share, c.server.options.MaxTexts).decode(qs...)
	if head != nil && err == nil && head.N > 0 {
		err = failf(http.StatusBadRequest, "", "header %s names more bytes than the body has", binaryHead)
	}
	*to = routes[i]
	return qs[i], err
}

// allowed checks the key of a request.
func (s *Server) allowed(header func(name string) string) error {
	if len(s.keys) == 0 {
		return nil
	}
	scheme, key, _ := strings.Cut(header("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		key = header("X-Api-Key")
	}
	ok, given := 0, sha256.Sum256([]byte(strings.TrimSpace(key)))
	for _, k := range s.keys { // all of them, each in a time that depends neither on the key nor on its length
		ok |= subtle.ConstantTimeCompare(k[:], given[:])
	}
	if ok == 0 {
		return failf(http.StatusUnauthorized, "", "want an API key: Authorization: Bearer KEY")
	}
	return nil
}

// share is what the request may hold.
func (c *call) share() *memory.Share { return memory.ShareOf(c.ctx) }

// A call is a request that is being answered.
type call struct {
	server  *Server
	request *http.Request
	ctx     context.Context
	record  *record
	body    io.Reader // what is left of it
	dones   []func()
	cuts    []string      // entries of cutHeader
	strict  bool          // a text that is too long is an error
	trained pipeline.Task // task of the model that takes has opened; empty before
}

func (c *call) end() {
	for _, done := range c.dones {
		done()
	}
}

// open finds the model of the request: by its path, by name, or by the tasks that the route is for.
func (c *call) open(name string, of medium, tasks ...pipeline.Task) (*entry, *opened, error) {
	path, _ := c.ctx.Value(modelKey{}).(string)
	e, err := c.server.find(cmp.Or(path, name), of, tasks...)
	if err != nil {
		return nil, nil, err
	}
	if path != "" && name != "" {
		switch named, err := c.server.find(name, of); {
		case err != nil:
			return nil, nil, err
		case named != e:
			return nil, nil, failf(http.StatusUnprocessableEntity, "model", "the request names the model %q, but its path is for %q: send "+
				"it to /models/%s/…, or leave the field out", name, e.Name, named.Name)
		}
	}
	m, done, err := e.use(c.ctx, c.server)
	if err != nil {
		return nil, nil, err
	}
	c.dones = append(c.dones, done)
	c.record.model = e.Name
	return e, m, nil
}

// text opens a model that takes texts.
func (c *call) text(name string, tasks ...pipeline.Task) (*pipeline.Model, error) {
	m, err := c.takes(name, ofTexts, tasks...)
	if err != nil {
		return nil, err
	}
	return m.text, nil
}

// takes opens a model that takes inputs of a medium.
func (c *call) takes(name string, of medium, tasks ...pipeline.Task) (*opened, error) {
	e, m, err := c.open(name, of, tasks...)
	switch {
	case err != nil:
		return nil, err
	case m.text == nil && m.images == nil:
		return nil, tensorsAlone(e)
	case m.text == nil && of != ofImages:
		return nil, failf(http.StatusUnprocessableEntity, "model", "the model %q takes images and no texts", e.Name)
	case m.images == nil && of != ofTexts:
		return nil, failf(http.StatusUnprocessableEntity, "model", "the model %q takes texts and no images", e.Name)
	}
	if can := m.tasks(of); len(can) > 0 {
		c.trained = can[0]
	}
	return m, nil
}

// tensorsAlone is the error of a request of texts or images for a model that takes neither.
func tensorsAlone(e *entry) error {
	return failf(http.StatusUnprocessableEntity, "model", "the model %q takes only tensors: use /v2/models/%s/infer", e.Name, e.Name)
}

// explain turns errors of the model into errors of the request.
func (c *call) explain(err error, m interface{ Program() *rlxc.Program }) error {
	if f, ok := context.Cause(c.ctx).(*failure); ok && err != nil { // a text is too long
		return f
	}
	if errors.Is(err, pipeline.ErrTask) {
		var outputs []string
		for _, v := range m.Program().Outputs() {
			outputs = append(outputs, fmt.Sprintf("%s [%s]", v.Name, strings.Join(v.Shape, ", ")))
		}
		return &failure{status: http.StatusUnprocessableEntity, field: "model", cause: err,
			text: fmt.Sprintf("the model %s cannot do this: it was trained to %s, and returns %s", c.record.model, c.trained,
				strings.Join(outputs, ", "))}
	}
	return err
}

// check bounds how many texts a request has.
func (c *call) check(field string, n int) error { return c.bound(field, "text", n) }

// bound bounds how many inputs a request has. what names one of them.
func (c *call) bound(field string, what ours, n int) error {
	switch most := c.server.options.MaxTexts; {
	case n == 0 && field == "inputs":
		return errEmpty
	case n == 0:
		return invalid(field, "it is empty: want at least one %s", what)
	case n > most:
		return failf(http.StatusRequestEntityTooLarge, field, "field %q: %d %ss, more than the maximum of %d", field, n, what, most)
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
		text, err := c.decodeIDs(m, field, ids, true)
		if err != nil {
			return nil, err
		}
		in.texts[i] = text
	}
	return in.texts, nil
}

func (c *call) decodeIDs(m *pipeline.Model, field string, ids []int64, skipSpecial bool) (string, error) {
	share, bytes := memory.ShareOf(c.ctx), 0
	for _, id := range ids {
		if id < 0 || id >= int64(m.Encoder().Size()) {
			return "", invalid(field, "unknown token %d: the model has tokens 0 to %d", id, m.Encoder().Size()-1)
		}
		token, _ := m.Encoder().Token(id)
		bytes += len(token) + 1
	}
	if err := share.Take(int64(4 * bytes)); err != nil { // the text, its pieces, and what decoders make of them
		return "", err
	}
	return m.Encoder().Decode(ids, skipSpecial)
}

// cutHeader is the header of an answer that names the texts of which the model has not read all: the index of each among the texts of the
// request, and the tokens that it has, such as "0=812, 3=600".
const cutHeader = "X-Truncated"

// namedCuts is how many texts cutHeader names. The number of the others follows as "+17".
const namedCuts = 64

// noteCut notes that a text is cut.
func (c *call) noteCut(index, tokens, limit int) {
	if c.record.cut++; c.record.cut <= namedCuts {
		c.cuts = append(c.cuts, fmt.Sprintf("%d=%d", index, max(tokens, limit+1)))
	}
}

// announce writes the header of texts that were cut. It is called before the answer begins.
func (c *call) announce(h http.Header) {
	cuts := c.cuts
	if more := c.record.cut - len(cuts); more > 0 {
		cuts = append(cuts, fmt.Sprintf("+%d", more))
	}
	if len(cuts) > 0 {
		h.Set(cutHeader, strings.Join(cuts, ", "))
	}
}

// lengths decides how to handle texts that are too long: they are truncated, which the answer announces, or the request fails.
func (c *call) lengths(q cut) (pipeline.Truncated, []tokenizer.EncodeOption) {
	if q.truncate == nil && !c.server.options.NoTruncate || q.truncate != nil && *q.truncate {
		return c.noteCut, q.options()
	}
	ctx, cancel := context.WithCancelCause(c.ctx)
	c.ctx = ctx
	c.dones = append(c.dones, func() { cancel(nil) })
	c.strict = true
	return func(index, tokens, limit int) {
		count := ours("more tokens than")
		if tokens > 0 { // it is 0 if they cannot be counted
			count = ours(fmt.Sprintf("%d tokens, more than", tokens))
		}
		cancel(failf(http.StatusRequestEntityTooLarge, q.field, "field %q: text %d has %s the maximum of %d", q.field, index, count, limit))
	}, q.options()
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
