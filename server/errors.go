package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/pipeline"
	"github.com/rlxc/rlxc/tensor"
	"github.com/rlxc/rlxc/tokenizer"
)

// A failure is what is wrong with a request, or with answering it, in words that may leave the machine.
type failure struct {
	status int    // of HTTP
	field  string // of the body; empty if it is none of them
	text   string
	cause  error // for the log alone
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.cause }

func failf(status int, field, format string, args ...any) *failure {
	short := make([]any, len(args))
	for i, arg := range args {
		short[i] = shorten(arg)
	}
	return &failure{status: status, field: shorten(field).(string), text: fmt.Sprintf(format, short...)}
}

// longName is how many bytes of a client's text an error holds.
const longName = 100

// ours is text of this program, which is short.
type ours string

// shorten cuts what may be a client's.
func shorten(arg any) any {
	text := ""
	switch v := arg.(type) {
	case string:
		text = v
	case []byte:
		text = string(v[:min(len(v), longName+1)])
	case error:
		text = v.Error()
	case []int:
		text = fmt.Sprint(v[:min(len(v), longName)])
	case tensor.Shape:
		text = fmt.Sprint(v[:min(len(v), longName)])
	default:
		return arg
	}
	if len(text) > longName {
		text = strings.ToValidUTF8(text[:longName], "") + "…"
	}
	return text
}

// invalid is a field with a value that it cannot have.
func invalid(field, format string, args ...any) error {
	return failf(http.StatusUnprocessableEntity, field, "field %q: "+format, slices.Concat([]any{field}, args)...)
}

// wrongImage is an error of an image, to which the caller adds field and index.
func wrongImage(format string, args ...any) error {
	return failf(http.StatusUnprocessableEntity, "", format, args...)
}

const statusClientGone = 499 // as nginx has it; only the log has it

// causes are the errors of packages beneath, by what they mean to a client. The first that fits counts. Without a text it is the error's.
var causes = []struct {
	is     error
	status int
	text   string
}{
	{pipeline.ErrInvalid, http.StatusUnprocessableEntity, ""},
	{tokenizer.ErrRoom, http.StatusUnprocessableEntity,
		"a question, a label, the overlap of windows or the special tokens are longer than the model's maximum length, or the request's"},
	{pipeline.ErrQueueFull, http.StatusTooManyRequests, "the queue is full: try again later"},
	{pipeline.ErrTooLarge, http.StatusRequestEntityTooLarge,
		"the request has more tokens than the server queues: send fewer texts at a time"},
	{pipeline.ErrNaN, http.StatusUnprocessableEntity, ""},
	{pipeline.ErrPooling, http.StatusNotImplemented,
		"the model's files name no pooling: start the server with --pool"},
	{memory.ErrFull, http.StatusTooManyRequests, ""}, // the error names the bound
	{memory.ErrOver, http.StatusRequestEntityTooLarge,
		"the request needs more memory than one request may use: send fewer or shorter texts, or smaller images"},
	{memory.ErrLong, http.StatusRequestEntityTooLarge, "the body is longer than the server accepts"},
	{tokenizer.ErrWork, http.StatusRequestEntityTooLarge, "the text has too many tokens or takes too long to tokenize"},
	{rlxc.ErrMemory, http.StatusRequestEntityTooLarge,
		"the request needs more memory than the server may use: send fewer or shorter texts"},
	{rlxc.ErrWork, http.StatusRequestEntityTooLarge, "the request needs more operations than the server allows"},
	{rlxc.ErrFileChanged, http.StatusServiceUnavailable, "the model's files were changed while in use: the model must be reopened"},
	{rlxc.ErrInput, http.StatusUnprocessableEntity, "the inputs do not fit the model"},
	{rlxc.ErrShape, http.StatusUnprocessableEntity, "the shapes of the inputs do not fit the model"},
	{rlxc.ErrClosed, http.StatusServiceUnavailable, "the server is shutting down"},
	{context.DeadlineExceeded, http.StatusGatewayTimeout, "the request took longer than the server allows"},
	{context.Canceled, statusClientGone, "the client closed the connection"},
}

// failureOf makes a failure of any error.
func failureOf(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	for _, c := range causes {
		if errors.Is(err, c.is) {
			return &failure{status: c.status, text: cmp.Or(c.text, strings.TrimPrefix(err.Error(), "pipeline: ")), cause: err}
		}
	}
	return &failure{status: http.StatusInternalServerError, text: "internal error", cause: err}
}

// A protocol is how an API writes errors.
type protocol struct {
	name string
	// statuses are those that the protocol documents instead of ours.
	statuses map[int]int
	// body is the error's body.
	body func(f *failure, status int) any
	// example is a zero value of body's result, for the description.
	example any
}

func (p *protocol) status(f *failure) int { return cmp.Or(p.statuses[f.status], f.status) }

type openAIError struct {
	Error openAIErrorBody `json:"error"`
}

type openAIErrorBody struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

// openAI is OpenAI's API (https://platform.openai.com/docs/api-reference). A request that is malformed is a 400 there.
var openAI = &protocol{"OpenAI", map[int]int{http.StatusUnprocessableEntity: http.StatusBadRequest}, func(f *failure, status int) any {
	e := openAIErrorBody{Message: f.text, Type: "invalid_request_error"}
	if f.field != "" {
		e.Param = &f.field
	}
	code := ""
	switch {
	case f.status == http.StatusUnauthorized:
		code = "invalid_api_key"
	case f.status == http.StatusNotFound && f.field == "model":
		code = "model_not_found"
	case status == http.StatusTooManyRequests:
		e.Type, code = "rate_limit_error", "rate_limit_exceeded"
	case status >= http.StatusInternalServerError:
		e.Type = "server_error"
	}
	if code != "" {
		e.Code = &code
	}
	return openAIError{e}
}, openAIError{}}

type teiError struct {
	Error string `json:"error"`
	Type  string `json:"error_type" enum:"Unhealthy,Backend,Overloaded,Validation,Tokenizer,Empty"`
}

// tei is text-embeddings-inference's API (https://huggingface.github.io/text-embeddings-inference).
var tei = &protocol{"text-embeddings-inference", nil, func(f *failure, status int) any {
	kind := "Validation"
	switch {
	case status == http.StatusTooManyRequests:
		kind = "Overloaded"
	case status == http.StatusServiceUnavailable:
		kind = "Unhealthy"
	case status >= http.StatusInternalServerError:
		kind = "Backend"
	case f == errEmpty:
		kind = "Empty"
	}
	return teiError{f.text, kind}
}, teiError{}}

var errEmpty = failf(http.StatusBadRequest, "inputs", `field "inputs" is empty: want at least one text`)

type cohereError struct {
	Message string `json:"message"`
	Detail  string `json:"detail"`
}

// cohere is Cohere's API (https://docs.cohere.com/reference/rerank) and Jina's (https://api.jina.ai/docs), whose errors have a message
// and a detail.
var cohere = &protocol{"Cohere and Jina", nil, func(f *failure, _ int) any { return cohereError{f.text, f.text} }, cohereError{}}

type plainError struct {
	Error string `json:"error"`
}

// infinity is the API of infinity (https://michaelfeil.eu/infinity), which is OpenAI's at other paths.
var infinity = &protocol{"infinity", openAI.statuses, openAI.body, openAI.example}

// ollama is Ollama's API (https://github.com/ollama/ollama/blob/main/docs/api.md).
var ollama = &protocol{"Ollama", map[int]int{http.StatusUnprocessableEntity: http.StatusBadRequest},
	func(f *failure, _ int) any { return plainError{f.text} }, plainError{}}

// huggingFace is the API of the Hugging Face inference tasks (https://huggingface.co/docs/inference-providers/tasks).
var huggingFace = &protocol{"Hugging Face", nil, func(f *failure, _ int) any { return plainError{f.text} }, plainError{}}

// own is what belongs to this server alone.
var own = &protocol{"rlxc", nil, func(f *failure, _ int) any { return plainError{f.text} }, plainError{}}

// retryAfter is how many seconds a client that was refused should wait, about what the queue takes to become half as long.
const retryAfter = 1

// fail writes an error.
func (p *protocol) fail(w http.ResponseWriter, f *failure) {
	status := p.status(f)
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	data, err := json.Marshal(p.body(f, status))
	if err != nil {
		panic(err) // of strings
	}
	writeBytes(w, status, "application/json", data)
}

// statusCode is the status of HTTP of an error, or of none.
func statusCode(err error) int {
	if err == nil {
		return http.StatusOK
	}
	return failureOf(err).status
}
