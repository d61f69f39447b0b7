package server

import (
	"bytes"
	_ "embed"
	"fmt"
	"html"
	"net/http"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// statusHead is what stands before the page's own text. The rest is written by code and not by html/template: calls of methods by name,
// which templates make, keep every exported method of everything in the program.
//
//go:embed status.html
var statusHead string

// A table writes rows of cells, with whatever they hold escaped.
type table struct{ *bytes.Buffer }

func (t table) begin(id string, heads ...string) {
	fmt.Fprintf(t, "<table id=%q>\n<tr>", id)
	for _, head := range heads {
		fmt.Fprintf(t, "<th>%s</th>", html.EscapeString(head))
	}
	t.WriteString("</tr>\n")
}

func (t table) row(cells ...string) {
	t.WriteString("<tr>")
	for _, cell := range cells {
		fmt.Fprintf(t, "<td>%s</td>", html.EscapeString(cell))
	}
	t.WriteString("</tr>\n")
}

func (t table) end() { t.WriteString("</table>\n") }

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
	var out bytes.Buffer
	out.WriteString(statusHead)
	held, requests := s.pool.Held()
	fmt.Fprintf(&out, "<h1>rlxc %s</h1>\n<p>Up for %v; %d of at most %d requests are being answered, which hold %s of %s.</p>\n"+
		"<h2>Models</h2>\n",
		html.EscapeString(s.options.Version), time.Since(s.begun).Round(time.Second), requests, s.options.MaxRequests, bytesText(held),
		bytesText(s.options.MaxHeld))
	t := table{&out}
	t.begin("models", "model", "made to", "tokens waiting", "batches", "texts a batch", "tokens a batch", "padding a batch",
		"waiting, median, p99",
		"batch, median, p99", "memory held", "planned", "limit")
	for _, e := range s.models {
		state, ok := e.state()
		if !ok {
			continue
		}
		rows := histogram(families["rlxc_batch_rows"], e.Name)
		batches := max(1, float64(rows.GetSampleCount()))
		per := func(name string) float64 { return sample(families[name], e.Name).GetCounter().GetValue() / batches }
		t.row(e.Name, state.task, fmt.Sprintf("%d of %d", state.WaitingTokens, state.QueueTokens), fmt.Sprint(rows.GetSampleCount()),
			fmt.Sprintf("%.1f", rows.GetSampleSum()/batches), fmt.Sprintf("%.0f", per("rlxc_tokens_total")),
			fmt.Sprintf("%.1f", per("rlxc_padding_tokens_total")),
			quantiles(histogram(families["rlxc_queue_duration_seconds"], e.Name)),
			quantiles(histogram(families["rlxc_batch_duration_seconds"], e.Name)),
			bytesText(state.Held), bytesText(state.Planned), bytesText(e.Options.MemoryLimit))
	}
	t.end()
	out.WriteString("<h2>Routes</h2>\n")
	t.begin("routes", "route", "protocol", "what it returns")
	for _, r := range s.routes {
		t.row(r.method+" "+r.Path(), r.protocol.name, r.about)
	}
	t.end()
	out.WriteString("<p><a href=\"openapi.json\">openapi.json</a> · <a href=\"metrics\">metrics</a></p>\n</body>\n</html>\n")
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
func quantiles(h *dto.Histogram) string {
	var out []string
	for _, q := range []float64{0.5, 0.99} {
		bound := 0.0
		for _, b := range h.GetBucket() {
			if float64(b.GetCumulativeCount()) >= q*float64(h.GetSampleCount()) {
				bound = b.GetUpperBound()
				break
			}
		}
		out = append(out, secondsText(bound))
	}
	return strings.Join(out, ", ")
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
