package server

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
)

//go:embed status.html
var statusText string

var statusPage = template.Must(template.New("status").Funcs(template.FuncMap{"bytes": bytesText, "seconds": secondsText}).Parse(statusText))

// A statusModel is a model on the page.
type statusModel struct {
	Name, Task            string
	State                 modelState
	Limit                 int64
	Batches               uint64
	Rows, Tokens, Padding float64 // of a batch
	Batch, Queue          [2]float64
}

// status writes a page for people: models, queue, batch sizes, latencies, memory against the plan.
func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	families := map[string]*dto.MetricFamily{}
	all, err := s.metrics.registry.Gather()
	if err != nil {
		own.fail(w, failureOf(err))
		return
	}
	for _, f := range all {
		families[f.GetName()] = f
	}
	page := struct {
		Version  string
		Up       time.Duration
		Requests int
		Most     int
		Models   []statusModel
		Routes   []route
	}{Version: s.options.Version, Up: time.Since(s.begun).Round(time.Second), Requests: len(s.requests), Most: cap(s.requests), Routes: s.routes}
	for _, e := range s.models {
		state, ok := e.state()
		if !ok {
			continue
		}
		m := statusModel{Name: e.Name, Task: state.task, State: state, Limit: e.Options.MemoryLimit}
		if h := histogram(families["rlxc_batch_rows"], e.Name); h != nil {
			m.Batches, m.Rows = h.GetSampleCount(), h.GetSampleSum()/max(1, float64(h.GetSampleCount()))
		}
		per := func(name string) float64 {
			return sample(families[name], e.Name).GetCounter().GetValue() / max(1, float64(m.Batches))
		}
		m.Tokens, m.Padding = per("rlxc_tokens_total"), per("rlxc_padding_tokens_total")
		m.Batch = quantiles(histogram(families["rlxc_batch_duration_seconds"], e.Name))
		m.Queue = quantiles(histogram(families["rlxc_queue_duration_seconds"], e.Name))
		page.Models = append(page.Models, m)
	}
	var out bytes.Buffer
	if err := statusPage.Execute(&out, page); err != nil {
		own.fail(w, failureOf(err))
		return
	}
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	w.Header().Set("Cache-Control", "no-store")
	writeBytes(w, http.StatusOK, "text/html; charset=utf-8", out.Bytes())
}

// sample is the metric of a model.
func sample(f *dto.MetricFamily, model string) *dto.Metric {
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == "model" && l.GetValue() == model {
				return m
			}
		}
	}
	return nil
}

func histogram(f *dto.MetricFamily, model string) *dto.Histogram {
	return sample(f, model).GetHistogram()
}

// quantiles are upper bounds of the median and of the 99th percentile, as exact as the buckets.
func quantiles(h *dto.Histogram) (out [2]float64) {
	for i, q := range []float64{0.5, 0.99} {
		for _, b := range h.GetBucket() {
			if float64(b.GetCumulativeCount()) >= q*float64(h.GetSampleCount()) {
				out[i] = b.GetUpperBound()
				break
			}
		}
	}
	return out
}

func bytesText(n int64) string {
	if n == 0 {
		return "—"
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

func secondsText(s float64) string {
	if s == 0 {
		return "—"
	}
	return "≤ " + time.Duration(s*float64(time.Second)).Round(time.Microsecond*100).String()
}
