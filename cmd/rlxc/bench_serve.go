package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// A loading is the part of bench's command line that loads a server.
type loading struct {
	url         string
	model       string
	key         string
	connections int
	batch       int
	rate        float64
}

func (l *loading) register(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&l.url, "serve", "", "measure a server instead of a model: the URL of /v1/embeddings, of rlxc serve or any other")
	f.StringVar(&l.model, "serve-model", "", "with --serve, the model to ask for")
	f.StringVar(&l.key, "serve-key", "", "with --serve, the API key")
	f.IntVar(&l.connections, "connections", 16, "with --serve, number of concurrent requests")
	f.IntVar(&l.batch, "request-texts", 1, "with --serve, number of texts in a request")
	f.Float64Var(&l.rate, "rate", 0, "with --serve, requests started per second (default as many as --connections complete)")
}

// A loadReport is what bench --serve prints.
type loadReport struct {
	URL         string  `json:"url"`
	Connections int     `json:"connections"`
	Texts       int     `json:"request_texts"`
	Offered     float64 `json:"offered_requests_per_second,omitempty"`
	Answered    int     `json:"answered"`
	Refused     int     `json:"refused"` // with status 429 or 503
	TextRate    float64 `json:"texts_per_second"`
	P50         float64 `json:"p50_ms"`
	P90         float64 `json:"p90_ms"`
	P99         float64 `json:"p99_ms"`
}

// loadTexts reads texts, or numbers of tokens: of BERT's vocabulary, in which "the" is one, beside the two special tokens.
func loadTexts(file, field string) ([]string, error) {
	texts, err := someTexts(textFlags{input: file, field: field})
	for i, text := range texts {
		if n, err := strconv.Atoi(text); err == nil {
			texts[i] = strings.TrimSpace(strings.Repeat("the ", max(1, n-2)))
		}
	}
	return texts, err
}

// load asks a server for vectors for a while. Latencies are counted from when a request should have begun, so that a server that
// stalls is charged for all requests that it kept from being sent.
func (b *benching) load(c *cobra.Command) error {
	l := b.loading
	if b.throughputFile == "" {
		return usagef("--serve requires --throughput FILE with the texts")
	}
	if l.connections < 1 || l.batch < 1 || l.rate < 0 {
		return usagef("--connections and --request-texts must be at least 1, and --rate not negative")
	}
	texts, err := loadTexts(b.throughputFile, b.field)
	if err != nil {
		return err
	}
	var bodies [][]byte
	for i := 0; i < len(texts); i += l.batch {
		q := map[string]any{"input": texts[i:min(i+l.batch, len(texts))], "encoding_format": "base64"}
		if l.model != "" {
			q["model"] = l.model
		}
		body, err := json.Marshal(q)
		if err != nil {
			return err
		}
		bodies = append(bodies, body)
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: l.connections}}
	defer client.CloseIdleConnections()
	report := &loadReport{URL: l.url, Connections: l.connections, Texts: l.batch, Offered: l.rate}
	if _, err := l.ask(c.Context(), client, bodies[0]); err != nil { // whether there is a server at all
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context(), b.duration)
	defer cancel()
	times := make(chan time.Time)
	go l.begin(ctx, times)
	var mu sync.Mutex
	var took []float64
	var failure error
	next := 0
	begun := time.Now()
	var wg sync.WaitGroup
	for range l.connections {
		wg.Go(func() {
			for at := range times {
				if l.rate == 0 {
					at = time.Now()
				}
				mu.Lock()
				body := bodies[next%len(bodies)]
				next++
				mu.Unlock()
				ok, err := l.ask(c.Context(), client, body)
				mu.Lock()
				switch {
				case err != nil:
					failure = err
					cancel()
				case ok:
					took = append(took, ms(time.Since(at)))
				default:
					report.Refused++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if failure != nil {
		return failure
	}
	if report.Answered = len(took); report.Answered == 0 {
		return fmt.Errorf("%s answered no request within %v", l.url, b.duration)
	}
	report.TextRate = float64(len(took)*l.batch) / time.Since(begun).Seconds()
	report.P50, report.P90, report.P99 = quantile(took, 0.5), quantile(took, 0.9), quantile(took, 0.99)
	return emit(c, report, report.text)
}

// begin sends the times at which requests begin, until the context ends: one at least, and at a rate none that would begin later, however
// late this runs.
func (l *loading) begin(ctx context.Context, times chan<- time.Time) {
	defer close(times)
	end, _ := ctx.Deadline()
	every := time.Duration(0)
	if l.rate > 0 {
		every = time.Duration(float64(time.Second) / l.rate)
	}
	at := time.Now()
	for times <- at; ctx.Err() == nil; {
		if at = at.Add(every); at.After(end) {
			return
		}
		time.Sleep(time.Until(at))
		select {
		case times <- at:
		case <-ctx.Done():
		}
	}
}

// ask sends a request; ok is false if the server refuses it for now.
func (l *loading) ask(ctx context.Context, client *http.Client, body []byte) (ok bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header["Idempotency-Key"] = nil // it may be sent again where the server has just closed an idle connection
	if l.key != "" {
		r.Header.Set("Authorization", "Bearer "+l.key)
	}
	a, err := client.Do(r)
	if err != nil {
		return false, err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	switch {
	case err != nil:
		return false, err
	case a.StatusCode == http.StatusTooManyRequests || a.StatusCode == http.StatusServiceUnavailable:
		return false, nil
	case a.StatusCode != http.StatusOK:
		return false, fmt.Errorf("%s: %s: %.200s", l.url, a.Status, text)
	}
	return true, nil
}

func (r *loadReport) text(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "CONNECTIONS\tTEXTS A REQUEST\tANSWERED\tREFUSED\tTEXTS/s\tP50 ms\tP90 ms\tP99 ms\t")
	fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%.1f\t%.2f\t%.2f\t%.2f\t\n", r.Connections, r.Texts, r.Answered, r.Refused, r.TextRate, r.P50, r.P90,
		r.P99)
	return w.Flush()
}
