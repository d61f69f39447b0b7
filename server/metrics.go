package server

import (
	"bytes"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/pipeline"
)

// metrics are what GET /metrics reports.
type metrics struct {
	registry  *prometheus.Registry
	requests  *prometheus.CounterVec   // route, status
	durations *prometheus.HistogramVec // route
	queued    *prometheus.HistogramVec // model
	ran       *prometheus.HistogramVec
	rows      *prometheus.HistogramVec
	tokens    *prometheus.CounterVec
	padding   *prometheus.CounterVec
	failures  *prometheus.CounterVec
	reloads   *prometheus.CounterVec // model, done
}

// seconds are the bounds of the histograms of time.
var seconds = prometheus.ExponentialBuckets(0.0005, 2, 18)

func newMetrics() *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rlxc_" + name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "rlxc_" + name, Help: help, Buckets: buckets}, labels)
	}
	m := &metrics{
		registry:  prometheus.NewRegistry(),
		requests:  counter("requests_total", "Answered requests.", "route", "status"),
		durations: histogram("request_duration_seconds", "Time from a request's head to its answer.", seconds, "route"),
		queued:    histogram("queue_duration_seconds", "Time that a request's first text waited for its batch.", seconds, "model"),
		ran:       histogram("batch_duration_seconds", "Time that a batch took in the model.", seconds, "model"),
		rows:      histogram("batch_rows", "Sequences per batch.", prometheus.ExponentialBuckets(1, 2, 12), "model"),
		tokens:    counter("tokens_total", "Tokens that ran, without padding.", "model"),
		padding:   counter("padding_tokens_total", "Padding tokens that ran.", "model"),
		failures:  counter("batch_failures_total", "Batches that failed.", "model"),
		reloads:   counter("reloads_total", "Times that the model's files were reopened.", "model", "done"),
	}
	m.registry.MustRegister(m.requests, m.durations, m.queued, m.ran, m.rows, m.tokens, m.padding, m.failures, m.reloads,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// batch returns what notes the batches of a model.
func (m *metrics) batch(model string) func(pipeline.BatchReport) {
	ran, rows, tokens := m.ran.WithLabelValues(model), m.rows.WithLabelValues(model), m.tokens.WithLabelValues(model)
	padding, failures := m.padding.WithLabelValues(model), m.failures.WithLabelValues(model)
	return func(b pipeline.BatchReport) {
		if b.Err != nil {
			failures.Inc()
			return
		}
		ran.Observe(b.Took.Seconds())
		rows.Observe(float64(b.Sequences))
		tokens.Add(float64(b.Tokens))
		padding.Add(float64(b.Padding))
	}
}

func (m *metrics) request(route string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.durations.WithLabelValues(route).Observe(took.Seconds())
}

// A reading is a number of a model that is asked for when it is reported.
type reading struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(e *entry, s pipeline.State) float64
}

func newReading(kind prometheus.ValueType, name, help string, value func(e *entry, s pipeline.State) float64) reading {
	return reading{prometheus.NewDesc("rlxc_"+name, help, []string{"model"}, nil), kind, value}
}

func newGauge(name, help string, value func(e *entry, s pipeline.State) float64) reading {
	return newReading(prometheus.GaugeValue, name, help, value)
}

var readings = []reading{
	newGauge("queue_tokens", "Tokens that wait.", func(_ *entry, s pipeline.State) float64 { return float64(s.WaitingTokens) }),
	newGauge("queue_requests", "Requests that have texts waiting.",
		func(_ *entry, s pipeline.State) float64 { return float64(s.WaitingCalls) }),
	newGauge("queue_wait_seconds", "Time that the request has waited which waits longest.",
		func(_ *entry, s pipeline.State) float64 { return s.Waited.Seconds() }),
	newGauge("queue_tokens_limit", "Tokens that may wait.", func(_ *entry, s pipeline.State) float64 { return float64(s.QueueTokens) }),
	newGauge("batches_running", "Batches that run.", func(_ *entry, s pipeline.State) float64 { return float64(s.Running) }),
	newGauge("memory_held_bytes", "Bytes of the arenas that are held.",
		func(_ *entry, s pipeline.State) float64 { return float64(s.Held) }),
	newGauge("memory_planned_bytes", "Bytes that the arenas come to, by the plans made so far.",
		func(_ *entry, s pipeline.State) float64 { return float64(s.Planned) }),
	newGauge("memory_plans_bytes", "Bytes of the plans that are held.",
		func(_ *entry, s pipeline.State) float64 { return float64(s.Plans) }),
	newGauge("memory_weights_bytes", "Bytes of the weights, packed or as the file has them.",
		func(_ *entry, s pipeline.State) float64 { return float64(s.Weights) }),
	newGauge("memory_limit_bytes", "Bytes that the runs of the model may take together, without weights.",
		func(e *entry, _ pipeline.State) float64 { return float64(memory.Limit(e.Options.Compile.MemoryLimit)) }),
	newReading(prometheus.CounterValue, "plans_rejected_total", "Plans that were found unsafe and did not run. Above 0 is a fault of rlxc.",
		func(_ *entry, s pipeline.State) float64 { return float64(s.Rejected) }),
}

// watch reports the readings of a server's models.
func (m *metrics) watch(s *Server) {
	held := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rlxc_memory_requests_bytes",
		Help: "Bytes that requests hold, from their bodies to their answers."}, func() float64 {
		bytes, _ := s.pool.Held()
		return float64(bytes)
	})
	m.registry.MustRegister(&watcher{s}, held)
}

type watcher struct{ server *Server }

// Describe implements prometheus.Collector.
func (w *watcher) Describe(out chan<- *prometheus.Desc) {
	for _, r := range readings {
		out <- r.desc
	}
}

// Collect implements prometheus.Collector.
func (w *watcher) Collect(out chan<- prometheus.Metric) {
	for _, e := range w.server.models {
		state, ok := e.state()
		for _, r := range readings {
			if ok {
				out <- prometheus.MustNewConstMetric(r.desc, r.kind, r.value(e, state), e.Name)
			}
		}
	}
}

// state is what the model does now; ok is false if it is closed.
func (e *entry) state() (s pipeline.State, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.now == nil {
		return s, false
	}
	var states []pipeline.State
	m := e.now
	if m.text != nil {
		states = append(states, m.text.State())
	}
	if m.images != nil {
		states = append(states, m.images.State())
	}
	if states == nil {
		s.Rejected = m.tensors.program.CacheStats().Rejected
	}
	for _, x := range states {
		s.WaitingCalls += x.WaitingCalls
		s.WaitingTokens += x.WaitingTokens
		s.Waited = max(s.Waited, x.Waited)
		s.QueueTokens += x.QueueTokens
		s.Running += x.Running
		s.Held += x.Held
		s.Planned += x.Planned
		s.Plans += x.Plans
		s.Rejected += x.Rejected
		s.Weights += x.Weights
	}
	held := m.tensors.memory()
	s.Held += held
	s.Planned += held
	return s, true
}

// handler writes the metrics, uncompressed. An answer is written when it is complete: a client that does not read it holds its text, and
// not what the text is made of.
func (m *metrics) handler() http.HandlerFunc {
	h := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{DisableCompression: true})
	return func(w http.ResponseWriter, r *http.Request) {
		b := &bufferedAnswer{ResponseWriter: w, status: http.StatusOK}
		h.ServeHTTP(b, r)
		writeBytes(w, b.status, w.Header().Get("Content-Type"), b.body.Bytes())
	}
}

// A bufferedAnswer is not sent.
type bufferedAnswer struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// WriteHeader implements http.ResponseWriter.
func (b *bufferedAnswer) WriteHeader(status int) { b.status = status }

// Write implements http.ResponseWriter.
func (b *bufferedAnswer) Write(text []byte) (int, error) { return b.body.Write(text) }
