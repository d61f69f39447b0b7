package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/rlxc/rlxc/pipeline"
)

// A record is what is noted about a request while it is answered.
type record struct {
	id     string
	route  string
	model  string
	usage  pipeline.Usage
	status int
	cut    int // texts of which tokens were left out
	err    error
}

type recordKey struct{}

func recordOf(ctx context.Context) *record { return ctx.Value(recordKey{}).(*record) }

// idText is what the ids of requests may be, which clients may choose.
var idText = regexp.MustCompile(`^[A-Za-z0-9._:/+=-]{1,128}$`)

// observe answers a request and notes what became of it: a line of the log, metrics, and an id in its head.
func (s *Server) observe(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
	begun := time.Now()
	rec := &record{id: r.Header.Get("X-Request-Id"), route: "none"}
	if !idText.MatchString(rec.id) {
		rec.id = rand.Text()
	}
	h := w.Header()
	h.Set("X-Request-Id", rec.id)
	h.Set("X-Content-Type-Options", "nosniff")
	out := &statusWriter{ResponseWriter: w, record: rec, draining: &s.draining}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // of reading a model's file that was truncated
	defer func() {
		if fault := recover(); fault == http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
			defer panic(fault)
		} else if fault != nil {
			rec.err = fmt.Errorf("panic: %v\n%s", fault, debug.Stack())
			if rec.status == 0 {
				own.fail(out, &failure{status: http.StatusInternalServerError, text: "internal error"})
			}
		}
		s.note(r, rec, time.Since(begun))
	}()
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, span := s.options.Traces.Tracer("github.com/rlxc/rlxc/server").Start(ctx, r.Method, trace.WithSpanKind(trace.SpanKindServer))
	defer rec.trace(span)
	next(out, r.WithContext(context.WithValue(ctx, recordKey{}, rec)))
}

// trace ends a request's span, with the names of OpenTelemetry's conventions where there are any.
func (rec *record) trace(span trace.Span) {
	defer span.End()
	if !span.IsRecording() {
		return
	}
	span.SetName(rec.route)
	span.SetAttributes(attribute.String("http.route", rec.route), attribute.Int("http.response.status_code", rec.status),
		attribute.String("rlxc.request_id", rec.id), attribute.String("rlxc.model", rec.model),
		attribute.Int("rlxc.texts", rec.usage.Sequences), attribute.Int("rlxc.tokens", rec.usage.Tokens),
		attribute.Float64("rlxc.queued_seconds", rec.usage.Queued.Seconds()))
	if rec.status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, http.StatusText(rec.status))
	}
}

func (s *Server) note(r *http.Request, rec *record, took time.Duration) {
	s.metrics.request(rec.route, rec.status, took)
	if rec.model != "" && rec.usage.Sequences > 0 {
		s.metrics.queued.WithLabelValues(rec.model).Observe(rec.usage.Queued.Seconds())
	}
	level := slog.LevelInfo
	switch {
	case rec.status >= http.StatusInternalServerError:
		level = slog.LevelError
	case rec.route == "/health" || rec.route == "/ready" || rec.route == "/metrics":
		level = slog.LevelDebug
	}
	if !s.options.Log.Enabled(r.Context(), level) {
		return
	}
	attrs := []slog.Attr{slog.String("id", rec.id), slog.String("method", r.Method), slog.String("route", rec.route),
		slog.Int("status", rec.status), slog.Duration("took", took), slog.String("from", r.RemoteAddr)}
	if peer := s.peerOf(r); !strings.HasPrefix(strings.Trim(r.RemoteAddr, "["), peer) { // behind a proxy
		attrs = append(attrs, slog.String("client", peer))
	}
	if rec.model != "" {
		attrs = append(attrs, slog.String("model", rec.model), slog.Int("texts", rec.usage.Sequences), slog.Int("tokens", rec.usage.Tokens),
			slog.Duration("queued", rec.usage.Queued))
	}
	if rec.cut > 0 {
		attrs = append(attrs, slog.Int("truncated", rec.cut))
	}
	if rec.err != nil {
		attrs = append(attrs, slog.String("error", rec.err.Error()))
		if cause := errors.Unwrap(rec.err); cause != nil && !errors.Is(cause, context.Canceled) { // of which the error is the explanation
			attrs = append(attrs, slog.String("cause", cause.Error()))
		}
	}
	s.options.Log.LogAttrs(r.Context(), level, "request", attrs...)
}

// A statusWriter notes the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	record   *record
	draining *atomic.Bool
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	if w.record.status == 0 {
		w.record.status = status
	}
	if w.draining.Load() { // who comes again comes to another
		w.Header().Set("Connection", "close")
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *statusWriter) Write(b []byte) (int, error) {
	if w.record.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// alive is the answer of a process that lives. If it does not, it should be restarted.
type alive struct {
	Unix float64 `json:"unix"` // seconds since 1970, which infinity's clients read
}

// health reports that the process is alive, without waiting for a slot.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	writeBytes(w, http.StatusOK, "application/json", fmt.Appendf(nil, `{"unix":%d}`, time.Now().Unix()))
}

// ready says whether requests should come here.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	if err := s.readiness(context.WithoutCancel(r.Context())); err != nil {
		tei.fail(w, failureOf(err))
		return
	}
	writeBytes(w, http.StatusOK, "text/plain; charset=utf-8", []byte("ready\n"))
}
